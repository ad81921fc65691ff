"""The images of stacks as something that takes room, and can be taken out of the engine."""

import re
from collections.abc import Collection, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from stackgen.builders.engine import Engine, EngineImage, explained
from stackgen.errors import EngineError
from stackgen.layers import STACK_LABEL, chain_ids, image_tag
from stackgen.values import ItemKind, StackId, StoreItem


class Stacks(Protocol):
    """What is known of stacks beside the engine: ``artifacts.layers.LayerStore``."""

    def stacks(self) -> Collection[str]:
        """Return the ids of those whose images we made or used."""

    def claimed(self, stack_id: str) -> AbstractContextManager[bool]:
        """Keep others from a stack's image meanwhile; yield False where one of them uses it."""

    def forget(self, stack_id: str) -> None:
        """Note that a stack's image is gone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageStore:
    """The images of stacks in one engine that are ours to remove.

    One engine may serve several stores: only what ours knows counts, and never what somebody gave
    a name of his own.
    """

    engine: Engine
    known: Stacks

    def items(self) -> Iterator[StoreItem]:
        """Yield these images; a layer counts for the one that would be the last to go.

        That is one in use, or else the one that was used last. What bases and other images hold,
        too, counts for nobody: it stays anyway.

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
        """Remove an image that no container and nobody else uses; return whether it is gone."""
        return self.remove(item.path, dry_run=dry_run)

    def remove(self, image_id: str, *, dry_run: bool = False) -> bool:
        """Remove an image of a stack, whoever made it; return whether it is (or would be) gone.

        It stays where a container or another process uses it, or where it has a name of somebody's.
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
        """Keep others from an image meanwhile; yield False where one or a container uses it."""
        with self.known.claimed(image.labels[STACK_LABEL]) as free:
            yield free and not self._has_container(image)

    def _has_container(self, image: EngineImage) -> bool:
        with explained("the engine does not list its containers"):
            listed = self.engine.api.containers(all=True)
        return any(each.get("ImageID") == image.id for each in listed)

    def _sizes(self, image: EngineImage) -> Mapping[str, int]:
        """Return the bytes of each chain of an image; all on top where the engine tells less."""
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
    """Return whether somebody gave an image a name of his own."""
    own = image_tag(StackId(image.labels.get(STACK_LABEL, "")))
    return any(tag.rpartition("/")[2] != own for tag in image.tags)


def _used_at(image: EngineImage) -> float:
    """Return seconds since 1970; engines say nanoseconds, which not every Python can read."""
    said = re.sub(r"\.\d+", lambda found: f"{found[0]:0<7.7}", image.tagged_at)
    said = said.replace("Z", "+00:00")
    try:
        return datetime.fromisoformat(said).timestamp()
    except ValueError:
        return 0.0
