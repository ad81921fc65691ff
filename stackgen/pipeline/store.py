"""What a user's cache and engine hold: how it is made smaller, and whether it is whole."""

from collections.abc import Iterator
from contextlib import contextmanager

from stackgen.artifacts import checking, pruning
from stackgen.artifacts.layers import LayerStore
from stackgen.artifacts.wheels import WheelStore
from stackgen.builders import virtualenv_check
from stackgen.builders.engine import Engine
from stackgen.builders.held import held_images
from stackgen.builders.image_store import ImageStore
from stackgen.builders.virtualenv_store import VirtualenvStore
from stackgen.errors import EngineError, StorageError
from stackgen.pipeline.engines import needed_engine
from stackgen.pipeline.places import Places
from stackgen.values import ImageState, Pruned, StoreCheck, StorePruned


def prune(
    places: Places, *, keep_bytes: int | None, keep_images: int | None, dry_run: bool = False
) -> Pruned:
    """Remove what was not used for longest, and images of stacks from the engine.

    Args:
        places: where the store is.
        keep_bytes: how much stays of wheels, layers, virtualenvs, what these share, and our images
            in the engine (where one answers), all in one order; None leaves them alone.
        keep_images: how many of the latest used images stay, whoever made them, beside those in
            use and those that somebody gave a name; None leaves the rest alone.
        dry_run: say what would go, and remove nothing.

    Raises:
        EngineError: images are to go by number, and no engine answers.
        StorageError: the store cannot be written.
    """
    removed: tuple[ImageState, ...] = ()
    used: tuple[ImageState, ...] = ()
    if keep_images is not None:
        with _engine() as engine:
            removed, used = _pruned_images(engine, places, keep=keep_images, dry_run=dry_run)
    store, no_engine = None, ""
    if keep_bytes is not None:
        store, no_engine = _pruned_store(places, keep_bytes=keep_bytes, dry_run=dry_run)
    return Pruned(
        store=store, images=removed, images_in_use=used, dry_run=dry_run, no_engine=no_engine
    )


def check(places: Places, *, repair: bool) -> StoreCheck:
    """Check all wheels, layers and virtualenvs; with ``repair``, remove what is damaged or left.

    Raises:
        StorageError: the store cannot be read, or written where something shall be removed.
    """
    try:
        stored = checking.check(
            WheelStore(places.cache), LayerStore(places.cache / "layers"), repair=repair
        )
        whole, faults = virtualenv_check.check(_virtualenvs(places), repair=repair)
    except OSError as error:
        raise StorageError(
            f"the store in {places.cache} cannot be checked",
            why=str(error),
            fix="run the same command as the user whom the folder belongs to",
        ) from error
    return StoreCheck(
        wheels=stored.wheels,
        layers=stored.layers,
        virtualenvs=whole,
        size=stored.size,
        unfinished=stored.unfinished,
        faults=(*stored.faults, *faults),
    )


def _pruned_store(places: Places, *, keep_bytes: int, dry_run: bool) -> tuple[StorePruned, str]:
    """Return what went, and why images were not looked at, if so."""
    layers = LayerStore(places.cache / "layers")
    shelves: list[pruning.Shelf] = [WheelStore(places.cache), layers, _virtualenvs(places)]
    try:
        with _engine() as engine:
            shelves.append(ImageStore(engine=engine, known=layers))
            return pruning.prune(shelves, keep_bytes=keep_bytes, dry_run=dry_run), ""
    except EngineError as error:
        without = [shelf for shelf in shelves if not isinstance(shelf, ImageStore)]
        why = error.why.splitlines()[0]
        return pruning.prune(without, keep_bytes=keep_bytes, dry_run=dry_run), why


def _virtualenvs(places: Places) -> VirtualenvStore:
    return VirtualenvStore(places.cache / "virtualenvs")


def _pruned_images(
    engine: Engine, places: Places, *, keep: int, dry_run: bool
) -> tuple[tuple[ImageState, ...], tuple[ImageState, ...]]:
    """Return the images that are (or would be) gone, and those that stay nevertheless."""
    images = ImageStore(engine=engine, known=LayerStore(places.cache / "layers"))
    surplus = held_images(engine).states()[keep:]
    gone = {each.image_id for each in surplus if images.remove(each.image_id, dry_run=dry_run)}
    return (
        tuple(each for each in surplus if each.image_id in gone),
        tuple(each for each in surplus if each.image_id not in gone),
    )


@contextmanager
def _engine() -> Iterator[Engine]:
    engine = needed_engine()
    try:
        yield engine
    finally:
        engine.close()
