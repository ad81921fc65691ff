"""Bases and images, for ``stackgen images``."""

import shlex
import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

from stackgen import __version__
from stackgen.campaign.backend import base_name, needed_engine
from stackgen.campaign.candidates import FRAMEWORKS, pinned, read_pins
from stackgen.campaign.host import Host
from stackgen.campaign.options import IndexOptions, SourceOptions
from stackgen.campaign.sdist_wheels import SdistWheels
from stackgen.campaign.user_input import index_config
from stackgen.errors import BuildError, EngineError, StorageError, UsageError
from stackgen.images import layers, maintenance
from stackgen.images.base_definitions import FromRegistry, read_definitions
from stackgen.images.bases import BaseBuilder
from stackgen.images.build import ImageBuilder
from stackgen.images.engine import Engine
from stackgen.images.exports import (
    appearing,
    dockerfile,
    index_options,
    refuse_occupied,
    write_layout,
)
from stackgen.images.image_store import EngineImages, ImageStore, engine_images, locked_wheels
from stackgen.images.layer_store import LayerStore
from stackgen.images.layers import STACK_LABEL, EngineImage
from stackgen.images.sdists import BuiltWheels, SdistBuilder, build_limits
from stackgen.images.virtualenvs import VirtualenvStore
from stackgen.index import IndexConfig, PackageIndex
from stackgen.index.config import DEFAULT_NAME
from stackgen.index.metadata import UnusableMetadataError, read_wheel
from stackgen.locks.writing import write_requirements
from stackgen.model.choices import Prereleases
from stackgen.model.packages import Artifact, Lock, LockFile, Target
from stackgen.model.progress import Progress
from stackgen.model.reports.images import (
    BaseState,
    Exported,
    ImageBuilt,
    ImageDetails,
    ImagesReport,
    ImageState,
    Pruned,
    StoreCheck,
    StorePruned,
)
from stackgen.model.stacks import Base, Environment, Stack
from stackgen.resolve.candidates import Policy
from stackgen.storage.paths import Paths
from stackgen.storage.wheels import WheelStore

_LEAST = 4
"""Characters of an id that name an image."""


def overview(paths: Paths) -> ImagesReport:
    """Return what there is; without an engine, what there could be."""
    try:
        with _engine() as engine:
            bases = BaseBuilder(engine=engine, cache=paths.cache / "bases")
            states = tuple(
                BaseState(name=each.name, summary=each.summary, state=_state(bases, each.name))
                for each in bases.definitions()
            )
            return ImagesReport(bases=states, images=engine_images(engine).states())
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
    with _engine() as engine:
        return engine_images(engine).states()


def details(what: str) -> ImageDetails:
    """Return what is known of an image.

    Raises:
        UsageError: there is none, or there are several.
        EngineError: no engine answers.
    """
    with _engine() as engine:
        listed = engine_images(engine)
        image = find_image(listed, what)
        return ImageDetails(
            image=listed.state(image),
            labels=tuple(sorted(image.labels.items())),
            lock=locked_wheels(image),
            layers=listed.layers(image),
        )


def find_image(listed: EngineImages, what: str) -> EngineImage:
    """Return the image that a tag, or the beginning of an image's or a stack's id, names.

    Raises:
        UsageError: there is none, or there are several.
    """
    # Podman puts the name of a registry before a name that has none.
    names = (f"/{what}", f"/{what}:latest")
    named = [e for e in listed.images if any(f"/{tag}".endswith(names) for tag in e.tags)]
    begun = [each for each in listed.images if _begins(each, what)]
    found = named or begun
    if len(found) == 1:
        return found[0]
    if found:
        raise UsageError(
            f"{what} names {len(found)} images",
            why=", ".join(each.labels[STACK_LABEL][:16] for each in found),
            fix="give more of the id: stackgen images list",
        )
    alike = [tag for each in listed.images for tag in each.tags if f"/{tag}".find(f"/{what}:") >= 0]
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
    engine: Engine, paths: Paths, *, notify: Callable[[str], None] | None = None
) -> ImageBuilder:
    """Return what builds images of stacks in an engine, from the user's store.

    notify: is called with a sentence about each layer that was damaged.
    """
    return ImageBuilder(
        engine=engine,
        store=LayerStore(paths.cache / "layers", notify=notify),
        memory=paths.cache / "whole-archives.json",
    )


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
def _engine() -> Iterator[Engine]:
    engine = needed_engine()
    try:
        yield engine
    finally:
        engine.close()


# What the packages of a lock require that the lock does not hold


def lacking(lock: Lock, target: Target, wheels: Mapping[str, Path]) -> tuple[str, ...]:
    """Return a line for each requirement that the lock does not satisfy, sorted.

    Requirements of extras do not count: a lock does not say which extras are required.

    Args:
        lock: what is installed, nothing else.
        target: says which markers hold.
        wheels: of the lock by their sha256; those that are not here say nothing.
    """
    found = (
        line
        for artifact in lock.artifacts
        for requirement in _required(artifact, target, wheels.get(artifact.sha256))
        if (line := _lacks(artifact, requirement, lock))
    )
    return tuple(sorted(found))


def _lacks(artifact: Artifact, requirement: Requirement, lock: Lock) -> str:
    version = lock.versions.get(canonicalize_name(requirement.name))
    if version is None:
        return f"{artifact.name} {artifact.version} requires {requirement}, which the lock lacks"
    if requirement.specifier.contains(version, prereleases=True):
        return ""
    return f"{artifact.name} {artifact.version} requires {requirement}, and the lock has {version}"


def _required(artifact: Artifact, target: Target, wheel: Path | None) -> Iterator[Requirement]:
    if wheel is None or not artifact.is_wheel:
        return
    try:
        with wheel.open("rb") as file:
            lines = read_wheel(file, name=artifact.name).requires_dist
    except (OSError, UnusableMetadataError):
        return
    for line in lines:
        try:
            requirement = Requirement(line)
        except InvalidRequirement:
            continue
        marker, requirement.marker = requirement.marker, None
        if marker is None or marker.evaluate({**target.environment, "extra": ""}):
            yield requirement


# A lock in, an image out; and folders from which other people's tools make it

_LACKING_SHOWN = 5
_WHEELS = "wheels"
_VARIED = frozenset((*FRAMEWORKS, "numpy"))
"""What explorations vary lies on top here, too: so the stacks of both share what lies below."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildRequest:
    """What shall be built.

    lock: path of the lock.
    base: name of a base, or an image; "" for the default one.
    rebuild: build again what failed to build.
    tag: a further name of the image; "" for none.
    """

    lock: Path
    base: str = ""
    sources: SourceOptions = SourceOptions()
    rebuild: bool = False
    index: IndexOptions = IndexOptions()
    tag: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class _BuildContext:
    """What an image is built with: a lock, a base, an engine, and where its wheels come from."""

    lockfile: LockFile
    lock: Lock
    base: Base
    engine: Engine
    paths: Paths
    config: IndexConfig
    index: PackageIndex
    progress: Progress
    policy: Policy
    rebuild: bool

    @property
    def stack(self) -> Stack:
        return Stack(lock=self.lock, facts=self.base.facts)

    @property
    def store(self) -> WheelStore:
        return WheelStore(self.paths.cache, notify=self.progress.note)

    def wheels(self) -> Mapping[str, Path]:
        """Return the lock's files by sha256; what is missing is downloaded."""
        self.progress.doing("downloading what is missing")
        received: dict[str, int] = {}

        def report(artifact: Artifact, count: int) -> None:
            received[artifact.sha256] = count
            megabytes = sum(received.values()) // 1_000_000
            self.progress.doing(f"downloading: {megabytes} MB")

        return self.store.fetch(self.lock.artifacts, downloader=self.index, progress=report)


def build(
    request: BuildRequest,
    paths: Paths,
    environ: Mapping[str, str],
    progress: Progress,
) -> ImageBuilt:
    """Build a lock's image, or find that the engine has it.

    Raises:
        UsageError: the lock cannot be read, or is for another Python.
        ResolutionError: no index has what the lock names.
        BuildError: the base or the image cannot be made.
        StorageError: the disk has no room.
    """
    start = time.monotonic()
    with _build_context(request, paths, environ, progress) as context:
        before = engine_images(context.engine)
        image_id = _image(context)
        _note_missing(context)
        if request.tag:
            image_builder(context.engine, paths).tag(image_id, request.tag)
        listed = engine_images(context.engine)
        image = _of(listed, image_id)
        existed = any(each.id == image_id for each in before.images)
        base = context.engine.image(context.base.reference)
        known = before.chains | set(layers.chain_ids(base.diff_ids if base else ()))
        fresh = [each for each in listed.layers(image) if each.chain_id not in known]
        sizes = [each.size for each in fresh]
        return ImageBuilt(
            image=listed.state(image),
            tag=request.tag,
            packages=len(context.lock.artifacts),
            existed=existed,
            layers_shared=len(image.diff_ids) - len(fresh),
            layers_new=len(fresh),
            new_bytes=None if None in sizes else sum(size or 0 for size in sizes),
            seconds=time.monotonic() - start,
        )


def export_layout(
    what: str,
    folder: Path,
    request: BuildRequest,
    paths: Paths,
    environ: Mapping[str, str],
    progress: Progress,
) -> Exported:
    """Write an image as an OCI layout; a lock's image is built first where there is none.

    Args:
        what: path of a lock, or what ``find_image`` knows.
        folder: to be written.

    Raises:
        UsageError: there is no such lock or image, or the folder holds something.
        EngineError: the engine does not hand the image out.
        StorageError: the disk has no room.
    """
    refuse_occupied(folder)
    if Path(what).is_file():
        with _build_context(replace(request, lock=Path(what)), paths, environ, progress) as context:
            return _laid_out(context.engine, _image(context), folder, progress)
    if request.base:
        raise UsageError(
            f"{what} is no lock, and --base is for locks",
            why="an image lies on the base that it was built on",
            fix="leave --base out, or give the path of the lock",
        )
    with _engine() as engine:
        image = find_image(engine_images(engine), what)
        return _laid_out(engine, image.id, folder, progress)


def export_dockerfile(
    folder: Path,
    request: BuildRequest,
    paths: Paths,
    environ: Mapping[str, str],
    progress: Progress,
) -> Exported:
    """Write a Dockerfile and a requirements.txt with hashes that install the same packages.

    Wheels that lie on this machine alone are copied beside them.

    Raises:
        UsageError: the lock cannot be read, or the folder holds something.
        ResolutionError: no index has what the lock names.
        StorageError: the folder cannot be written.
    """
    refuse_occupied(folder)
    with _build_context(request, paths, environ, progress) as context, appearing(folder) as place:
        local = [each for each in context.lock.artifacts if _is_local(each)]
        remote = [each for each in context.lock.artifacts if not _is_local(each)]
        if local:
            (place / _WHEELS).mkdir()
            files = context.store.fetch(local, downloader=context.index)
            for each in local:
                shutil.copyfile(files[each.sha256], place / _WHEELS / each.filename)
        (place / "requirements.txt").write_text(_requirements(context, remote), encoding="utf-8")
        (place / "Dockerfile").write_text(
            _dockerfile(context, wheels=bool(local), index=bool(remote)), encoding="utf-8"
        )
        size = sum(path.stat().st_size for path in place.rglob("*") if path.is_file())
    packages = len(context.lock.artifacts)
    return Exported(folder=str(folder), image_id="", packages=packages, size=size)


@contextmanager
def _build_context(
    request: BuildRequest, paths: Paths, environ: Mapping[str, str], progress: Progress
) -> Iterator[_BuildContext]:
    lockfile = read_pins(request.lock)
    allowed = frozenset(str(canonicalize_name(name)) for name in request.sources.allow_build)
    policy = Policy(prereleases=Prereleases.ALLOW, allow_build=allowed)
    config = index_config(request.index, environ)
    with _engine() as engine, PackageIndex(config, paths.cache) as index:
        base = _base(engine, request.base, paths, progress)
        progress.doing("looking up the files of the lock")
        yield _BuildContext(
            lockfile=lockfile,
            lock=pinned(index, lockfile, base.target, policy),
            base=base,
            engine=engine,
            paths=paths,
            config=config,
            index=index,
            progress=progress,
            policy=policy,
            rebuild=request.rebuild,
        )


def _base(engine: Engine, requested: str, paths: Paths, progress: Progress) -> Base:
    bases = BaseBuilder(engine=engine, cache=paths.cache / "bases")
    name = base_name(bases, requested)
    progress.doing(f"preparing the base {name}")
    if ready := bases.ready(name):
        return ready
    with Host(cache=paths.cache).building(progress):
        return bases.make(name, progress.doing)


def _image(context: _BuildContext) -> str:
    """Return the id of the stack's image, made now or before."""
    builder = image_builder(context.engine, context.paths, notify=context.progress.note)
    try:
        return _built(context, builder)
    except (BuildError, FileNotFoundError) as error:
        store = WheelStore(context.paths.cache)
        if isinstance(error, EngineError) or not store.any_damaged(context.lock.artifacts):
            raise
        return _built(context, builder)


def _built(context: _BuildContext, builder: ImageBuilder) -> str:
    stack = context.stack
    wheels: Mapping[str, Path] | None = None
    if any(not each.is_wheel for each in context.lock.artifacts):
        stack, wheels = _sources(context, builder).installable(stack, context.wheels())
    found = builder.existing(stack, context.base)
    if found is None:
        wheels = wheels or context.wheels()
        context.progress.doing("building the image")
        with Host(cache=context.paths.cache).building(context.progress):
            found = builder.build(stack, context.base, wheels, _VARIED)
    return found.location


def _note_missing(context: _BuildContext) -> None:
    """Say what the image lacks: nothing is resolved here, and it may be meant so."""
    store = WheelStore(context.paths.cache)
    paths = {each.sha256: store.path(each) for each in context.lock.artifacts}
    local = {sha256: path for sha256, path in paths.items() if path is not None}
    lines = lacking(context.lock, context.base.target, local)
    for line in lines[:_LACKING_SHOWN]:
        context.progress.note(f"note: {line}")
    if len(lines) > _LACKING_SHOWN:
        context.progress.note(f"note: and {len(lines) - _LACKING_SHOWN} requirements more")


def _sources(context: _BuildContext, images: ImageBuilder) -> SdistWheels:
    """Return what makes wheels of a lock's source distributions, on its base."""

    def build(stack: Stack, wheels: Mapping[str, Path], varied: frozenset[str]) -> Environment:
        return images.build(stack, context.base, wheels, varied)

    owner = str(context.paths.cache)
    return SdistWheels(
        base=context.base,
        build=build,
        sdists=SdistBuilder(
            engine=context.engine, owner=owner, limits=build_limits(context.engine)
        ),
        index=context.index,
        store=context.store,
        built=BuiltWheels(context.paths.cache / "built"),
        # What building requires is no part of the lock: no prerelease is required.
        policy=replace(context.policy, prereleases=Prereleases.IF_NECESSARY),
        progress=context.progress,
        turn=partial(Host(cache=context.paths.cache).building, context.progress),
        again=context.rebuild,
    )


def _laid_out(engine: Engine, image_id: str, folder: Path, progress: Progress) -> Exported:
    image = _of(engine_images(engine), image_id)
    progress.doing(f"writing {folder}")
    stack, packages = image.labels[layers.STACK_LABEL], len(locked_wheels(image))
    size = write_layout(engine, image_id, folder, name=stack[:16], needed_bytes=image.size)
    return Exported(folder=str(folder), image_id=image_id, packages=packages, size=size)


def _of(listed: EngineImages, image_id: str) -> EngineImage:
    for image in listed.images:
        if image.id == image_id:
            return image
    raise EngineError(
        "the image vanished from the engine",
        why="it was removed while it was read",
        fix="run the same command again",
    )


def _is_local(artifact: Artifact) -> bool:
    return urlsplit(artifact.url).scheme in ("", "file")


def _requirements(context: _BuildContext, remote: list[Artifact]) -> str:
    """Return pins with one hash each; what lies beside them is found by its name."""
    used = dict.fromkeys(each.index for each in remote)
    config = context.config
    indexes = [each for each in config.indexes if each.name in used]
    pages = [each.url for each in config.find_links if each.name in used]
    urls = [each.url for each in indexes if each.name != DEFAULT_NAME]
    plain = (
        replace(each, index="") if _is_local(each) else each for each in context.lock.artifacts
    )
    pins = write_requirements(Lock(artifacts=tuple(plain)), hashes=True)
    return index_options(urls=urls, pages=pages, default=DEFAULT_NAME in used) + pins


def _dockerfile(context: _BuildContext, *, wheels: bool, index: bool) -> str:
    image, interpreter = context.base.name, context.base.python
    definitions = BaseBuilder(engine=context.engine, cache=context.paths.cache).definitions()
    ways = [way for each in definitions if each.name == context.base.name for way in each.ways]
    public = next((way for way in ways if isinstance(way, FromRegistry)), None)
    if public is not None:
        image, interpreter = public.reference, public.interpreter
    return dockerfile(
        image=image,
        interpreter=interpreter,
        base=context.base.name,
        python=context.base.target.python_minor,
        packages=len(context.lock.artifacts),
        lock=Path(context.lockfile.path).name,
        version=__version__,
        wheels=wheels,
        index=index,
    )


# What a user's cache and engine hold: how it is made smaller, and whether it is whole


def prune(
    paths: Paths, *, keep_bytes: int | None, keep_images: int | None, dry_run: bool = False
) -> Pruned:
    """Remove what was not used for longest, and images of stacks from the engine.

    Args:
        keep_bytes: how much stays of wheels, layers, virtualenvs, what these share, and our images
            in the engine (where one answers), all in one order; None leaves them alone.
        keep_images: how many of the latest used images stay, beside those in use and those that
            a user has named; None leaves the rest alone.
        dry_run: say what would go, and remove nothing.

    Raises:
        EngineError: images are to go by number, and no engine answers.
        StorageError: the store cannot be written.
    """
    removed: tuple[ImageState, ...] = ()
    used: tuple[ImageState, ...] = ()
    if keep_images is not None:
        with _engine() as engine:
            removed, used = _pruned_images(engine, paths, keep=keep_images, dry_run=dry_run)
    store, no_engine = None, ""
    if keep_bytes is not None:
        store, no_engine = _pruned_store(paths, keep_bytes=keep_bytes, dry_run=dry_run)
    return Pruned(
        store=store, images=removed, images_in_use=used, dry_run=dry_run, no_engine=no_engine
    )


def check(paths: Paths, *, repair: bool) -> StoreCheck:
    """Check all wheels, layers and virtualenvs; with ``repair``, remove what is damaged or left.

    Raises:
        StorageError: the store cannot be read, or written where something shall be removed.
    """
    try:
        stored = maintenance.check(
            WheelStore(paths.cache), LayerStore(paths.cache / "layers"), repair=repair
        )
        whole, faults = maintenance.check_virtualenvs(_virtualenvs(paths), repair=repair)
    except OSError as error:
        raise StorageError(
            f"the store in {paths.cache} cannot be checked",
            why=str(error),
            fix="run the same command as the user whom the folder belongs to",
        ) from error
    return replace(stored, virtualenvs=whole, faults=(*stored.faults, *faults))


def _pruned_store(paths: Paths, *, keep_bytes: int, dry_run: bool) -> tuple[StorePruned, str]:
    """Return what went, and why images were not looked at, if so."""
    layers = LayerStore(paths.cache / "layers")
    shelves: list[maintenance.Store] = [WheelStore(paths.cache), layers, _virtualenvs(paths)]
    try:
        with _engine() as engine:
            shelves.append(ImageStore(engine=engine, known=layers))
            return maintenance.prune(shelves, keep_bytes=keep_bytes, dry_run=dry_run), ""
    except EngineError as error:
        without = [shelf for shelf in shelves if not isinstance(shelf, ImageStore)]
        why = error.why.splitlines()[0]
        return maintenance.prune(without, keep_bytes=keep_bytes, dry_run=dry_run), why


def _virtualenvs(paths: Paths) -> VirtualenvStore:
    return VirtualenvStore(paths.cache / "virtualenvs")


def _pruned_images(
    engine: Engine, paths: Paths, *, keep: int, dry_run: bool
) -> tuple[tuple[ImageState, ...], tuple[ImageState, ...]]:
    """Return the images that are (or would be) gone, and those that stay nevertheless."""
    images = ImageStore(engine=engine, known=LayerStore(paths.cache / "layers"))
    surplus = engine_images(engine).states()[keep:]
    gone = {each.image_id for each in surplus if images.remove(each.image_id, dry_run=dry_run)}
    return (
        tuple(each for each in surplus if each.image_id in gone),
        tuple(each for each in surplus if each.image_id not in gone),
    )
