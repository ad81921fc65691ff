"""Bases and images, for ``stackgen images``."""

from collections.abc import Iterator
from contextlib import contextmanager

from stackgen.artifacts import checking, pruning
from stackgen.artifacts.layers import LayerStore
from stackgen.artifacts.wheels import WheelStore
from stackgen.builders.bases import BaseBuilder, read_definitions
from stackgen.builders.engine import Engine, connect
from stackgen.builders.images import ImageBuilder
from stackgen.errors import EngineError, StorageError
from stackgen.pipeline.places import Places
from stackgen.values import BaseState, ImagesReport, ImageState, Pruned, StoreCheck


def overview(places: Places) -> ImagesReport:
    """Return what there is; without an engine, what there could be."""
    try:
        with _builders(places) as (bases, builder):
            states = tuple(
                BaseState(name=each.name, summary=each.summary, state=_state(bases, each.name))
                for each in bases.definitions()
            )
            return ImagesReport(bases=states, images=_images(builder))
    except EngineError as error:
        why = error.why.splitlines()[0]
        states = tuple(
            BaseState(name=each.name, summary=each.summary, state=f"no engine: {why}")
            for each in read_definitions()
        )
        return ImagesReport(bases=states, images=())


def prune(
    places: Places, *, keep_bytes: int | None, keep_images: int | None, dry_run: bool = False
) -> Pruned:
    """Remove the least recently used wheels and layers, and images of stacks from the engine.

    Args:
        places: where the store is.
        keep_bytes: how much of wheels and layers stays; None leaves the store alone.
        keep_images: how many of the latest used images stay; None leaves the engine alone.
        dry_run: say what would go, and remove nothing.

    Raises:
        EngineError: images are to go, and no engine answers.
        StorageError: the store cannot be written.
    """
    removed: tuple[ImageState, ...] = ()
    used: tuple[ImageState, ...] = ()
    if keep_images is not None:
        with _builders(places) as (_, builder):
            removed, used = _pruned_images(builder, keep=keep_images, dry_run=dry_run)
    store = None
    if keep_bytes is not None:
        store = pruning.prune(_shelves(places), keep_bytes=keep_bytes, dry_run=dry_run)
    return Pruned(store=store, images=removed, images_in_use=used, dry_run=dry_run)


def check(places: Places, *, repair: bool) -> StoreCheck:
    """Check every wheel and every layer; with ``repair``, remove what is damaged or left over.

    Raises:
        StorageError: the store cannot be read, or written where something shall be removed.
    """
    try:
        return checking.check(*_shelves(places), repair=repair)
    except OSError as error:
        raise StorageError(
            f"the store in {places.cache} cannot be checked",
            why=str(error),
            fix="run the same command as the user whom the folder belongs to",
        ) from error


def _pruned_images(
    builder: ImageBuilder, *, keep: int, dry_run: bool
) -> tuple[tuple[ImageState, ...], tuple[ImageState, ...]]:
    """Return the images that are (or would be) gone, and those that a container uses."""
    removed: list[ImageState] = []
    used: list[ImageState] = []
    for image in _images(builder)[keep:]:
        try:
            if not dry_run:
                builder.remove(image.image_id)
            removed.append(image)
        except EngineError:
            used.append(image)
    return tuple(removed), tuple(used)


def _shelves(places: Places) -> tuple[WheelStore, LayerStore]:
    return WheelStore(places.cache), LayerStore(places.cache / "layers")


def _images(builder: ImageBuilder) -> tuple[ImageState, ...]:
    return tuple(
        ImageState(image_id=each.id, packages=each.packages, size=each.size, used_at=each.used_at)
        for each in builder.list_images()
    )


def _state(bases: BaseBuilder, name: str) -> str:
    if bases.ready(name) is not None:
        return "ready"
    return "can be made" if bases.possible(name) else "cannot be made here"


@contextmanager
def _builders(places: Places) -> Iterator[tuple[BaseBuilder, ImageBuilder]]:
    engine: Engine = connect()
    try:
        yield (
            BaseBuilder(engine=engine, cache=places.cache / "bases"),
            ImageBuilder(
                engine=engine,
                store=LayerStore(places.cache / "layers"),
                memory=places.cache / "whole-archives.json",
            ),
        )
    finally:
        engine.close()
