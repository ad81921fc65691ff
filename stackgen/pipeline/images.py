"""Bases and images, for ``stackgen images``."""

import shlex
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from stackgen.artifacts.layers import LayerStore
from stackgen.builders.bases import BaseBuilder, read_definitions
from stackgen.builders.engine import Engine, EngineImage
from stackgen.builders.held import HeldImages, held_images, locked_wheels
from stackgen.builders.images import ImageBuilder
from stackgen.errors import BuildError, EngineError, UsageError
from stackgen.layers import STACK_LABEL
from stackgen.pipeline.engines import needed_engine
from stackgen.pipeline.places import Places
from stackgen.values import (
    BaseState,
    ImageDetails,
    ImagesReport,
    ImageState,
)

_LEAST = 4
"""Characters of an id that name an image."""


def overview(places: Places) -> ImagesReport:
    """Return what there is; without an engine, what there could be."""
    try:
        with _builders(places) as (bases, builder):
            held = held_images(builder.engine)
            states = tuple(
                BaseState(name=each.name, summary=each.summary, state=_state(bases, each.name))
                for each in bases.definitions()
            )
            return ImagesReport(bases=states, images=held.states())
    except EngineError as error:
        why = error.why.splitlines()[0]
        states = tuple(
            BaseState(name=each.name, summary=each.summary, state="not known")
            for each in read_definitions()
        )
        return ImagesReport(bases=states, images=(), no_engine=why)


def listed() -> tuple[ImageState, ...]:
    """Return the images of stacks, the latest used first.

    Raises:
        EngineError: no engine answers.
    """
    engine = needed_engine()
    try:
        return held_images(engine).states()
    finally:
        engine.close()


def details(what: str) -> ImageDetails:
    """Return what is known of an image.

    Raises:
        UsageError: there is none, or there are several.
        EngineError: no engine answers.
    """
    engine = needed_engine()
    try:
        held = held_images(engine)
        image = find_image(held, what)
        return ImageDetails(
            image=held.state(image),
            labels=tuple(sorted(image.labels.items())),
            lock=locked_wheels(image),
            layers=held.layers(image),
        )
    finally:
        engine.close()


def find_image(held: HeldImages, what: str) -> EngineImage:
    """Return the image that a tag, or the beginning of an image's or a stack's id, names.

    Raises:
        UsageError: there is none, or there are several.
    """
    named = [each for each in held.images if _has_tag(each, what)]
    begun = [each for each in held.images if _begins(each, what)]
    found = named or begun
    if len(found) == 1:
        return found[0]
    if found:
        raise UsageError(
            f"{what} names {len(found)} images",
            why=", ".join(each.labels[STACK_LABEL][:16] for each in found),
            fix="give more of the id: stackgen images list",
        )
    alike = [tag for each in held.images for tag in each.tags if f"/{tag}".find(f"/{what}:") >= 0]
    file = Path(what).is_file()
    raise UsageError(
        f"the engine has no image of a stack that {what!r} names",
        why="it is the path of a file: images have names and ids"
        if file
        else "it is neither a tag of one, nor the beginning of an image's or a stack's id; "
        + (f"there is {', '.join(alike)}" if alike else "and there is no lock of that name"),
        fix=f"let it be found or built, and named: stackgen images build {shlex.quote(what)}"
        if file
        else "take one of: stackgen images list; or build it: stackgen images build LOCK",
    )


def image_builder(
    engine: Engine, places: Places, *, notify: Callable[[str], None] | None = None
) -> ImageBuilder:
    """Return what builds images of stacks in an engine, from the user's store.

    notify: is called with a sentence about each layer that was damaged.
    """
    return ImageBuilder(
        engine=engine,
        store=LayerStore(places.cache / "layers", notify=notify),
        memory=places.cache / "whole-archives.json",
    )


def _has_tag(image: EngineImage, what: str) -> bool:
    # Podman puts the name of a place before a name that has none.
    return any(f"/{tag}".endswith((f"/{what}", f"/{what}:latest")) for tag in image.tags)


def _begins(image: EngineImage, what: str) -> bool:
    ids = (image.id, image.id.removeprefix("sha256:"), image.labels[STACK_LABEL])
    return len(what) >= _LEAST and any(each.startswith(what) for each in ids)


def _state(bases: BaseBuilder, name: str) -> str:
    try:
        if bases.ready(name) is not None:
            return "ready"
    except EngineError:
        raise
    except BuildError as error:
        return error.what
    return "can be made" if bases.possible(name) else "cannot be made here"


@contextmanager
def _builders(places: Places) -> Iterator[tuple[BaseBuilder, ImageBuilder]]:
    engine: Engine = needed_engine()
    try:
        yield (
            BaseBuilder(engine=engine, cache=places.cache / "bases"),
            image_builder(engine, places),
        )
    finally:
        engine.close()
