"""What images of stacks an engine holds, which layers they share, and how large these are."""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from stackgen import layers
from stackgen.builders.engine import Engine, EngineImage
from stackgen.layers.image import LAYERS_LABEL, OCI_LABELS, PACKAGES_LABEL, STACK_LABEL
from stackgen.values import ImageLayer, ImageState, LockedWheel


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldImages:
    """The images of stacks in an engine, the latest used first.

    sizes: bytes of each image's layers, bottom first, by the image's id; empty where the engine's
        history does not tell them apart.
    """

    images: tuple[EngineImage, ...]
    sizes: Mapping[str, tuple[int, ...]]

    @property
    def chains(self) -> frozenset[str]:
        """Return the names of all layers that these images consist of."""
        return frozenset(self._holders())

    def states(self) -> tuple[ImageState, ...]:
        """Return all images, each with the bytes that it alone holds beyond its base."""
        holders = self._holders()
        return tuple(self._state(image, holders) for image in self.images)

    def state(self, image: EngineImage) -> ImageState:
        """Return one of the images."""
        return self._state(image, self._holders())

    def layers(self, image: EngineImage) -> tuple[ImageLayer, ...]:
        """Return the layers of one of the images, bottom first."""
        return self._layers(image, self._holders())

    def _holders(self) -> Counter[str]:
        return Counter(chain for image in self.images for chain in layers.chain_ids(image.diff_ids))

    def _layers(self, image: EngineImage, holders: Mapping[str, int]) -> tuple[ImageLayer, ...]:
        contents = _contents(image)
        below = len(image.diff_ids) - len(contents)
        sizes = self.sizes.get(image.id) or (None,) * len(image.diff_ids)
        rows = zip(image.diff_ids, layers.chain_ids(image.diff_ids), sizes, strict=True)
        return tuple(
            ImageLayer(
                diff_id=diff_id,
                chain_id=chain,
                size=size,
                wheels=contents[at - below] if at >= below else (),
                of_base=at < below,
                others=holders[chain] - 1,
            )
            for at, (diff_id, chain, size) in enumerate(rows)
        )

    def _state(self, image: EngineImage, holders: Mapping[str, int]) -> ImageState:
        found = self._layers(image, holders)
        own = [each.size for each in found if not (each.of_base or each.others)]
        known = bool(self.sizes.get(image.id)) and any(not each.of_base for each in found)
        labels = image.labels
        return ImageState(
            image_id=image.id,
            packages=labels.get(f"{OCI_LABELS}description", ""),
            size=image.size,
            used_at=image.tagged_at,
            stack_id=labels[STACK_LABEL],
            tags=image.tags,
            base=labels.get(f"{OCI_LABELS}base.name", ""),
            own_bytes=sum(size or 0 for size in own) if known else None,
        )


def held_images(engine: Engine) -> HeldImages:
    """Ask an engine for its images of stacks.

    Raises:
        EngineError: it does not say.
    """
    asked = (engine.image(each) for each in engine.images(STACK_LABEL))
    found = sorted(
        (image for image in asked if image is not None),
        key=lambda image: image.tagged_at,
        reverse=True,
    )
    sizes = {image.id: engine.layer_sizes(image.id) for image in found}
    return HeldImages(
        images=tuple(found),
        sizes={each.id: sizes[each.id] for each in found if _told_apart(each, sizes[each.id])},
    )


def locked_wheels(image: EngineImage) -> tuple[LockedWheel, ...]:
    """Return the lock that an image was made from; nothing where its labels do not say."""
    return tuple(
        LockedWheel(name=name, version=version, filename=filename, sha256=sha256)
        for name, version, filename, sha256 in _rows(image.labels.get(PACKAGES_LABEL), 4)
    )


def _contents(image: EngineImage) -> tuple[tuple[str, ...], ...]:
    """Return the wheels in each layer above the base; nothing where the labels do not say."""
    found = _rows(image.labels.get(LAYERS_LABEL))
    return found if len(found) <= len(image.diff_ids) else ()


def _rows(text: str | None, width: int | None = None) -> tuple[tuple[str, ...], ...]:
    try:
        rows = tuple(tuple(str(cell) for cell in row) for row in json.loads(text or "[]"))
    except (ValueError, TypeError):
        return ()  # somebody else's label: anybody may label an image
    return tuple(row for row in rows if width in (None, len(row)))


def _told_apart(image: EngineImage, sizes: Sequence[int]) -> bool:
    return len(sizes) == len(image.diff_ids)
