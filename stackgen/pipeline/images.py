"""Bases and images, for ``stackgen images``."""

from collections.abc import Iterator
from contextlib import contextmanager

from stackgen.artifacts.layers import LayerStore
from stackgen.builders.bases import BaseBuilder, read_definitions
from stackgen.builders.engine import Engine, connect
from stackgen.builders.images import ImageBuilder
from stackgen.errors import EngineError
from stackgen.pipeline.places import Places
from stackgen.values import BaseState, ImagesReport, ImageState


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


def prune(places: Places, *, keep: int) -> int:
    """Remove all but the latest used images of stacks; return how many were removed.

    Raises:
        EngineError: no engine answers, or it refuses.
    """
    with _builders(places) as (_, builder):
        return len(builder.prune(keep=keep))


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
