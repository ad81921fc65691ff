"""The images of stacks in an engine: their layers, their disk space, and their removal."""

import json
import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property

from stackgen.errors import EngineError
from stackgen.images.engine import Engine, explained
from stackgen.images.layer_store import LayerStore
from stackgen.images.layers import (
    LAYERS_LABEL,
    OCI_LABELS,
    PACKAGES_LABEL,
    STACK_LABEL,
    EngineImage,
    chain_ids,
    image_tag,
)
from stackgen.model.identity import StackId
from stackgen.model.reports.images import ImageLayer, ImageState, ItemKind, LockedWheel, StoreItem


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageStore:
    """The images of stacks in one engine that this store may remove.

    One engine may serve several stores: an image belongs to the store that knows its stack, and to
    none if the user has tagged it.
    """

    engine: Engine
    known: LayerStore

    def items(self) -> Iterator[StoreItem]:
        """Yield the images of this store; a layer counts for the image that is evicted last.

        That is one with a lease, or else the one used last. Layers that bases and other images
        share are not counted: they stay anyway.

        Raises:
            EngineError: the engine does not answer.
        """
        with explained("the engine does not list its images"):
            ids = sorted({str(each["Id"]) for each in self.engine.api.images()})
        images = [image for id_ in ids if (image := self.engine.image(id_))]
        known = self.known.stacks()
        ours = [image for image in images if _is_ours(image, known)]
        others = (image for image in images if image not in ours)
        counted = {chain for image in others for chain in chain_ids(image.diff_ids)}
        for image in sorted(ours, key=self._stays_longest):
            sizes = self._sizes(image)
            own = sum(size for chain, size in sizes.items() if chain not in counted)
            counted |= sizes.keys()
            yield StoreItem(
                kind=ItemKind.IMAGE,
                name=image.labels.get("org.opencontainers.image.description", "") or image.id[7:19],
                path=image.id,
                size=own,
                used_at=_used_at(image),
            )

    def drop(self, item: StoreItem, *, dry_run: bool = False) -> bool:
        """Remove an image without a container or a lease; return whether it is gone."""
        return self.remove(item.path, dry_run=dry_run)

    def remove(self, image_id: str, *, dry_run: bool = False) -> bool:
        """Remove an image of a stack; return whether it is (or would be) removed.

        It stays where a container or another process uses it, or where the user has tagged it.
        """
        image = self.engine.image(image_id)
        if image is None:
            return True
        if _is_named(image):
            return False
        with self._free(image) as free:
            if not free or dry_run:
                return free
            try:
                with explained(f"the engine keeps the image {image.id[:19]}"):
                    self.engine.api.remove_image(image.id, force=True)
            except EngineError:
                return False
            self.known.forget(image.labels[STACK_LABEL])
            return True

    def _stays_longest(self, image: EngineImage) -> tuple[bool, float]:
        with self._free(image) as free:
            return free, -_used_at(image)

    @contextmanager
    def _free(self, image: EngineImage) -> Iterator[bool]:
        """Claim an image; yield False where another process or a container uses it."""
        with self.known.claim(image.labels[STACK_LABEL]) as free:
            yield free and not self._has_container(image)

    def _has_container(self, image: EngineImage) -> bool:
        with explained("the engine does not list its containers"):
            listed = self.engine.api.containers(all=True)
        return any(each.get("ImageID") == image.id for each in listed)

    def _sizes(self, image: EngineImage) -> Mapping[str, int]:
        """Return the bytes of each chain; all in the last one where the history is incomplete."""
        chains = chain_ids(image.diff_ids)
        sizes = self.engine.layer_sizes(image.id)
        if len(sizes) != len(chains):  # of layers that are empty, no chain is made
            sizes = tuple(size for size in sizes if size)
        if len(sizes) != len(chains):
            sizes = (*(0 for _ in chains[1:]), image.size)
        return dict(zip(chains, sizes, strict=True))


def _is_ours(image: EngineImage, known: Collection[str]) -> bool:
    return image.labels.get(STACK_LABEL, "") in known and not _is_named(image)


def _is_named(image: EngineImage) -> bool:
    """Return whether the user has tagged an image."""
    own = image_tag(StackId(image.labels.get(STACK_LABEL, "")))
    return any(tag.rpartition("/")[2] != own for tag in image.tags)


def _used_at(image: EngineImage) -> float:
    """Return seconds since 1970; Python 3.10 cannot parse the nanoseconds of engines."""
    timestamp = re.sub(r"\.\d+", lambda found: f"{found[0]:0<7.7}", image.tagged_at)
    timestamp = timestamp.replace("Z", "+00:00")
    try:
        return datetime.fromisoformat(timestamp).timestamp()
    except ValueError:
        return 0.0


# Layers that images share


@dataclass(frozen=True, kw_only=True)
class EngineImages:
    """The images of stacks in an engine, the latest used first.

    sizes: bytes of each image's layers, bottom first, by image id; missing where the engine's
        history does not list them.
    """

    images: tuple[EngineImage, ...]
    sizes: Mapping[str, tuple[int, ...]]

    @property
    def chains(self) -> frozenset[str]:
        """Return the names of all layers that these images consist of."""
        return frozenset(self._holders)

    @cached_property
    def _holders(self) -> Counter[str]:
        """Return how many images hold each layer."""
        return Counter(chain for image in self.images for chain in chain_ids(image.diff_ids))

    def layers(self, image: EngineImage) -> tuple[ImageLayer, ...]:
        """Return the layers of one of the images, bottom first."""
        contents = _contents(image)
        below = len(image.diff_ids) - len(contents)
        sizes = self.sizes.get(image.id) or (None,) * len(image.diff_ids)
        rows = zip(image.diff_ids, chain_ids(image.diff_ids), sizes, strict=True)
        return tuple(
            ImageLayer(
                diff_id=diff_id,
                chain_id=chain,
                size=size,
                wheels=contents[at - below] if at >= below else (),
                of_base=at < below,
                others=self._holders[chain] - 1,
            )
            for at, (diff_id, chain, size) in enumerate(rows)
        )

    def states(self) -> tuple[ImageState, ...]:
        """Return all images."""
        return tuple(map(self.state, self.images))

    def state(self, image: EngineImage) -> ImageState:
        """Return one of the images, with the bytes of the layers that only it has above its base.

        The bytes are None where the engine does not list them.
        """
        found = self.layers(image)
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


def engine_images(engine: Engine) -> EngineImages:
    """Return the images of stacks in an engine.

    Raises:
        EngineError: the engine does not list them.
    """
    images = (engine.image(each) for each in engine.images(STACK_LABEL))
    found = sorted(
        (image for image in images if image is not None),
        key=lambda image: image.tagged_at,
        reverse=True,
    )
    sizes = {image.id: engine.layer_sizes(image.id) for image in found}
    return EngineImages(
        images=tuple(found),
        sizes={x.id: sizes[x.id] for x in found if len(sizes[x.id]) == len(x.diff_ids)},
    )


def locked_wheels(image: EngineImage) -> tuple[LockedWheel, ...]:
    """Return the lock that an image was made from."""
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
        return ()  # a label of another program
    return tuple(row for row in rows if width in (None, len(row)))
