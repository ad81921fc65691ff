"""Images of stacks: assembled from the base's layers and the store's, loaded into the engine."""

import contextlib
import fcntl
import gzip
import json
import os
import tarfile
import tempfile
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import IO, TypedDict, cast

from docker.types import Mount

from stackgen import __version__
from stackgen.errors import BuildError, DamagedLayersError, EngineError
from stackgen.images import bytecode, layers
from stackgen.images.engine import Engine, ProcessResult, explained
from stackgen.images.layer_store import LayerStore
from stackgen.images.layers import (
    BASE_LABEL,
    LAYOUT_LABEL,
    STACK_LABEL,
    Aside,
    Compiler,
    EngineImage,
    Layer,
    OwnLayer,
    config_member,
    layer_member,
)
from stackgen.images.unpack import refuse_overwriting
from stackgen.model.identity import StackId
from stackgen.model.packages import Artifact
from stackgen.model.stacks import Base, Environment, EnvironmentKind, Stack
from stackgen.sandbox.process import failure_message
from stackgen.storage.files import atomic_write_text, exclusive

# Image archives

_CHUNK = 1 << 20


def image_archive(
    tag: str, base: EngineImage, own: Sequence[Layer], config: bytes, *, sent: Iterable[Layer]
) -> Generator[bytes, None, None]:
    """Yield an image archive for the engine in chunks, without a file on disk.

    Args:
        tag: the image's tag.
        base: what it is based on.
        own: the layers above the base, bottom first.
        config: the image's configuration.
        sent: the layers that the archive holds.
    """
    diff_ids = [*base.diff_ids, *(layer.diff_id for layer in own)]
    members = [layer_member(diff_id) for diff_id in diff_ids]
    yield from _file(config_member(config), config)
    yield from _file("manifest.json", layers.load_manifest(config, tag=tag, members=members))
    for layer in {layer.diff_id: layer for layer in sent}.values():
        yield _header(layer_member(layer.diff_id), layer.size)
        with layer.path.open("rb") as source:
            while chunk := source.read(_CHUNK):
                yield chunk
        yield bytes(-layer.size % tarfile.BLOCKSIZE)
    yield bytes(2 * tarfile.BLOCKSIZE)


def _file(name: str, content: bytes) -> Iterator[bytes]:
    yield _header(name, len(content))
    yield content + bytes(-len(content) % tarfile.BLOCKSIZE)


def _header(name: str, size: int) -> bytes:
    entry = tarfile.TarInfo(name)
    entry.size = size
    return entry.tobuf(tarfile.PAX_FORMAT)


# Engines that need all layers in an archive

_MOST_ENGINES = 32  # engines; each new version of one is another


@dataclass(frozen=True, slots=True)
class FullArchiveEngines:
    """A file with the engines that refused an archive without some of its layers.

    A file that cannot be read or written costs time only.
    """

    path: Path

    def contains(self, engine: str) -> bool:
        """Return whether the engine with this identity refused such an archive."""
        return engine in self._read()

    def add(self, engine: str) -> None:
        """Add an engine; other processes may add theirs at the same time."""
        with contextlib.suppress(OSError):
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with exclusive(self.path.with_suffix(".lock")):
                engines = [*(each for each in self._read() if each != engine), engine]
                atomic_write_text(self.path, json.dumps(engines[-_MOST_ENGINES:]))

    def _read(self) -> tuple[str, ...]:
        try:
            return tuple(str(each) for each in json.loads(self.path.read_text(encoding="utf-8")))
        except (OSError, ValueError, TypeError):
            return ()


# Byte-compilation in a container of the base

_STAGING = "/staging"
_GATE = "gate"


class _How(TypedDict):
    command: list[str]
    mounts: list[Mount]
    user: str
    environment: dict[str, str]


@dataclass(frozen=True, slots=True)
class BaseCompiler:
    """Byte-compiles with the base's own interpreter, in a container of the base.

    aside: has the container removed, which nothing waits for.
    """

    engine: Engine
    aside: Aside = layers.at_once

    @contextlib.contextmanager
    def compiling(self, base: Base, staging: Path) -> Iterator[Callable[[], None]]:
        """Start the interpreter while wheels are unpacked; yield a function that compiles them.

        The start takes as long as unpacking a large wheel. The interpreter waits for a lock on a
        file, whose content says that all is unpacked; it is empty if this process was killed.
        """
        gate = staging / _GATE
        with gate.open("w", encoding="ascii") as file:
            gate.chmod(0o644)
            fcntl.flock(file, fcntl.LOCK_EX)
            how = self._how(base, staging)
            with self.engine.running(base.reference, **how, aside=self.aside) as ended:

                def compile_all() -> None:
                    file.write(bytecode.OPEN)
                    file.flush()
                    fcntl.flock(file, fcntl.LOCK_UN)
                    result = ended()
                    if result.exit_code == bytecode.NEVER_OPENED:  # no locks on this kind of mount
                        result = self.engine.run(base.reference, **how)
                    _require_success(result, base)

                yield compile_all

    def _how(self, base: Base, staging: Path) -> _How:
        text = Path(bytecode.__file__).read_text(encoding="utf-8")
        jobs = str(max(1, self.engine.facts.cpus))
        arguments = [_STAGING, jobs, f"{_STAGING}/{_GATE}"]
        # No -I: it would drop the hash seed, and before Python 3.11 sets are written in its order.
        # A rootless engine maps its root to our user; elsewhere the files must belong to us.
        user = "0:0" if self.engine.facts.rootless else f"{os.getuid()}:{os.getgid()}"
        return _How(
            command=[base.python, "-s", "-S", "-W", "ignore", "-c", text, *arguments],
            mounts=[Mount(_STAGING, str(staging.resolve()), type="bind")],
            user=user,
            environment={"PYTHONHASHSEED": "0"},
        )


def _require_success(result: ProcessResult, base: Base) -> None:
    if result.exit_code:
        raise BuildError(
            f"the packages could not be byte-compiled on {base.name}",
            why=failure_message(result.stderr, result.exit_code),
            fix="run: stackgen doctor",
        )


_GZIP = b"\x1f\x8b"


@dataclass(slots=True)
class ImageBuilder:
    """Builds stacks as images of one engine.

    memory: file of ``FullArchiveEngines``.
    """

    engine: Engine
    store: LayerStore
    memory: Path
    _diff_ids: dict[str, tuple[str, ...]] = field(default_factory=dict)

    def build(
        self,
        stack: Stack,
        base: Base,
        wheels: Mapping[str, Path],
        varied: frozenset[str] = frozenset(),
    ) -> Environment:
        """Return a stack's image; an existing one is reused.

        Args:
            stack: what to install.
            base: what to install it on, by this engine's ``BaseBuilder``.
            wheels: a verified file for each artifact of the lock, by sha256.
            varied: names of the packages that differ between the stacks that are built together.

        Raises:
            EngineError: the engine refused the image, or does not answer.
            BuildError: a wheel is invalid, or an artifact has no wheel.
            StorageError: the disk is full.
        """
        if found := self.existing(stack, base):
            return found
        with self.store.removing_aside() as aside:
            compiler = BaseCompiler(self.engine, aside)
            try:
                made = self._build(stack, base, wheels, varied, compiler)
            except DamagedLayersError:
                made = self._build(stack, base, wheels, varied, compiler)  # from the wheels, once
        return _environment(stack, made)

    def existing(self, stack: Stack, base: Base) -> Environment | None:
        """Return a stack's image if the engine has it, and note that it is used.

        An image on another build of the base does not count: bases of equal facts may differ in
        libraries that a stack needs when it runs.
        """
        self.store.hold(stack.id)
        image = self.engine.image(layers.image_tag(stack.id))
        if image is None or image.labels.get(STACK_LABEL) != stack.id:
            return None
        if image.labels.get(LAYOUT_LABEL) != layers.LAYOUT:
            return None
        below = self.engine.image(base.reference)
        if below is None or image.labels.get(BASE_LABEL) != below.id:
            return None
        self._touch(stack.id, image)
        self.store.touch(base, stack.lock.artifacts)
        return _environment(stack, image)

    def tag(self, image_id: str, name: str) -> None:
        """Give an image a name (``name`` or ``name:tag``), which another one may have had.

        Raises:
            EngineError: the engine does not take the name.
        """
        repository, tag = name, ""
        if ":" in name.rpartition("/")[2]:
            repository, _, tag = name.rpartition(":")
        with explained(f"the engine does not give an image the name {name}"):
            self.engine.api.tag(image_id, repository, tag or "latest")

    def _touch(self, stack_id: StackId, image: EngineImage) -> None:
        """Tag an image again: the engine stores the time, by which images are evicted."""
        repository, _, tag = layers.image_tag(stack_id).partition(":")
        with explained("the engine does not tag an image"):
            self.engine.api.tag(image.id, repository, tag)

    def _build(
        self,
        stack: Stack,
        base: Base,
        wheels: Mapping[str, Path],
        varied: frozenset[str],
        compiler: Compiler,
    ) -> EngineImage:
        image = self.engine.base_image(base)
        sized = [_sized(artifact, wheels) for artifact in stack.lock.artifacts]
        refuse_overwriting(sized, wheels)
        ordered = layers.layer_order(sized, varied=varied)
        max_layers = layers.MAX_LAYERS - len(image.diff_ids) - 1  # one is the skeleton
        plan = layers.layer_plan(ordered, max_layers=max_layers, varied=varied)
        pairs = [(artifact, wheels[artifact.sha256]) for artifact in ordered]
        made = dict(self.store.layers(base, pairs, compiler))
        wheel_of = {made[artifact.sha256]: (artifact, path) for artifact, path in pairs}

        def restore(wanted: Iterable[Layer]) -> None:
            """Make the tars of layers again that were removed because an engine had them."""
            lacking = [wheel_of[each] for each in wanted if each in wheel_of]
            self.store.layers(base, lacking, compiler, whole=True)

        merged = [group for group in plan if len(group) > 1]
        restore(made[artifact.sha256] for group in merged for artifact in group)
        own = [self.store.skeleton(base), *(self._joined(group, made) for group in plan)]
        contents = [(), *(tuple(each.filename for each in group) for group in plan)]
        described = [
            OwnLayer(diff_id=layer.diff_id, wheels=wheels_in)
            for layer, wheels_in in zip(own, contents, strict=True)
        ]
        config = layers.image_config(
            stack, image, described, base_name=base.name, version=__version__
        )
        return self._load(stack.id, image, own, config, restore)

    def _joined(self, group: Sequence[Artifact], made: Mapping[str, Layer]) -> Layer:
        parts = [made[artifact.sha256] for artifact in group]
        return parts[0] if len(parts) == 1 else self.store.merged(parts)

    def _load(
        self,
        stack_id: StackId,
        base: EngineImage,
        own: Sequence[Layer],
        config: bytes,
        restore: Callable[[Iterable[Layer]], None],
    ) -> EngineImage:
        """Send missing layers; send all layers to an engine that needs them, and remember it.

        The first kind of engine needs no second copy of what it has.
        """
        tag = layers.image_tag(stack_id)
        diff_ids = (*base.diff_ids, *(layer.diff_id for layer in own))
        full_only = FullArchiveEngines(self.memory)
        refused = False
        if not full_only.contains(self.engine.facts.identity):
            missing = self._missing(base, own)
            restore(missing)
            try:
                self._send(image_archive(tag, base, own, config, sent=missing))
                loaded = self._verified(stack_id, diff_ids)
                self.store.release(own)
                return loaded
            except EngineError:
                self.store.refuse_damaged(missing)
                # Other reasons: it is gone or full, or images were removed meanwhile.
                refused = self._missing(base, own) == missing
        restore(own)
        everything = [*self._base_layers(base), *own]
        try:
            self._send(image_archive(tag, base, own, config, sent=everything))
        except EngineError:
            self.store.refuse_damaged(everything)
            raise
        loaded = self._verified(stack_id, diff_ids)
        if refused:
            full_only.add(self.engine.facts.identity)
        return loaded

    def _missing(self, base: EngineImage, own: Sequence[Layer]) -> list[Layer]:
        present = self._engine_chains(base)
        chain = layers.chain_ids([*base.diff_ids, *(layer.diff_id for layer in own)])
        above = zip(own, chain[len(base.diff_ids) :], strict=True)
        return [layer for layer, name in above if name not in present]

    def _send(self, archive: Generator[bytes, None, None]) -> None:
        with explained("the engine did not take an image"), contextlib.closing(archive):
            for line in self.engine.api.load_image(archive):  # type: ignore[no-untyped-call]
                if problem := line.get("error"):
                    raise EngineError(
                        "the engine refused an image",
                        why=str(problem),
                        fix="run: stackgen doctor; the layers themselves are as they should be",
                    )

    def _verified(self, stack_id: StackId, diff_ids: tuple[str, ...]) -> EngineImage:
        image = self.engine.image(layers.image_tag(stack_id))
        if image is None or image.diff_ids != diff_ids:
            raise EngineError(
                "the engine took an image and does not have it",
                why=f"{layers.image_tag(stack_id)} is not what was sent",
                fix="run: stackgen doctor, then the same command again",
            )
        self._touch(stack_id, image)
        return image

    def _engine_chains(self, base: EngineImage) -> set[str]:
        """Return the chain ids of all layers of stack images in the engine."""
        present = self.engine.images(STACK_LABEL)
        for image_id in present:
            if image_id not in self._diff_ids and (image := self.engine.image(image_id)):
                self._diff_ids[image_id] = image.diff_ids  # an image never changes
        known = (self._diff_ids[image_id] for image_id in present if image_id in self._diff_ids)
        return {chain for ids in (base.diff_ids, *known) for chain in layers.chain_ids(ids)}

    def _base_layers(self, base: EngineImage) -> list[Layer]:
        stored = [self.store.base_layer(diff_id) for diff_id in base.diff_ids]
        found = [layer for layer in stored if layer is not None]
        return found if len(found) == len(stored) else self._saved(base)

    def _saved(self, base: EngineImage) -> list[Layer]:
        """Return the base's layers, after saving them from the engine."""
        with tempfile.TemporaryFile() as file:
            with explained("the engine does not hand out the base"):
                for chunk in self.engine.api.get_image(base.id):
                    file.write(chunk)
            file.seek(0)
            with tarfile.open(fileobj=file) as archive:
                manifest = json.load(_member(archive, "manifest.json"))
                names: Sequence[str] = manifest[0]["Layers"]
                pairs = zip(base.diff_ids, names, strict=True)
                return [
                    self.store.add_base_layer(diff, _plain(_member(archive, name)))
                    for diff, name in pairs
                ]


def _member(archive: tarfile.TarFile, name: str) -> IO[bytes]:
    with contextlib.suppress(KeyError):
        if file := archive.extractfile(name):
            return file
    raise EngineError(
        "the engine hands out an image that cannot be read",
        why=f"its archive has no {name}",
        fix="use another base, or: --executor virtualenv",
    )


def _plain(layer: IO[bytes]) -> IO[bytes]:
    """Return a layer without compression, which some engines use."""
    begins = layer.read(len(_GZIP))
    layer.seek(0)
    return cast("IO[bytes]", gzip.open(layer)) if begins == _GZIP else layer


def _sized(artifact: Artifact, wheels: Mapping[str, Path]) -> Artifact:
    if not artifact.is_wheel or artifact.sha256 not in wheels:
        raise BuildError(
            f"{artifact.filename} cannot go into an image",
            why="it is no wheel" if not artifact.is_wheel else "its file was not handed over",
            fix=f"exclude {artifact.name} {artifact.version}",
        )
    return replace(artifact, size=wheels[artifact.sha256].stat().st_size)


def _environment(stack: Stack, image: EngineImage) -> Environment:
    return Environment(
        stack=stack, kind=EnvironmentKind.DOCKER, location=image.id, python=layers.STACK_PYTHON
    )
