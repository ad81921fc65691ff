"""Build wheels from source distributions in temporary containers of a base.

A build runs code of the package. The container has no network, no capabilities, a read-only root
and an unprivileged user; it writes into memory, which is limited. The wheel is its standard output,
so that it cannot write to the host.
"""

import contextlib
import json
import re
import shutil
import threading
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import IO, Any

import msgspec
from docker import errors as docker_errors
from docker.types import LogConfig, Mount

from stackgen.images import pep517
from stackgen.images.engine import Engine, explained
from stackgen.model.identity import content_id
from stackgen.model.packages import BuildRecord, BuildSystem
from stackgen.model.stacks import Base, Environment
from stackgen.sandbox.containers import STDOUT, UNPRIVILEGED, ContainerStreams
from stackgen.storage.files import atomic_write_text, exclusive, storage_error

_WORK = "/stackgen-build"  # no image has it: an engine gives a folder that exists its old owner
_EPOCH = "315532800"  # 1980, when zip files begin
_GRACE_S = 60.0
_MOST_HEADER_BYTES = 1 << 20
_HEAD, _TAIL = 1 << 16, 1 << 20
_LABEL = "stackgen.build"
_LEAST_MEMORY, _MOST_MEMORY = 1 << 30, 16 << 30
_SUFFIXES = (".zip", ".tar.gz")
_UNNAMED = "wheel"
_WHEEL_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+!-]{0,250}\.whl")

_ENVIRONMENT = {
    "SOURCE_DATE_EPOCH": _EPOCH,
    "PYTHONHASHSEED": "0",
    "PYTHONDONTWRITEBYTECODE": "1",
    "LC_ALL": "C.UTF-8",
    "TZ": "UTC",
    "HOME": f"{_WORK}/home",
    "TMPDIR": f"{_WORK}/scratch",
}
"""The same everywhere, so that the same sources give the same wheel."""

_COMPILER = (
    r"(?i)(unable to execute|command) '[^']*(gcc|g\+\+|cc|clang|gfortran)[^']*'"
    r"( failed: No such file|: No such file)"
    r"|No such file or directory: '[^']*(gcc|g\+\+|cc|clang|gfortran)'"
    r"|Unknown compiler\(s\)|no acceptable C compiler|No CMAKE_C(XX)?_COMPILER could be found"
    r"|Python\.h: No such file|Python dependency not found"
)
_NETWORK = (
    r"Temporary failure in name resolution|Name or service not known|Network is unreachable"
    r"|Could not resolve host|NameResolutionError"
)
_HINTS = (
    (
        _COMPILER,
        'define a base with packages = ["gcc", "g++", "libc6-dev", "python3-dev"] in the folder '
        "that STACKGEN_IMAGES names, and give it with --base and --rebuild; or take a version "
        "that has a wheel",
    ),
    (
        _NETWORK,
        "building has no network, so a package that downloads while it is built cannot be had; "
        "take a version that has a wheel",
    ),
    (r"No space left on device|MemoryError", "build it on a machine with more memory"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildLimits:
    """Limits of a build.

    memory_bytes: of its processes and its files.
    """

    memory_bytes: int
    pids: int = 1024
    timeout_s: float = 1800.0


def build_limits(engine: Engine) -> BuildLimits:
    """Return the limits of builds on the engine's machine: half of its memory."""
    memory = engine.facts.memory_bytes // 2 or _LEAST_MEMORY
    return BuildLimits(memory_bytes=min(memory, _MOST_MEMORY))


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """Result of a build: the name of a wheel, further build requirements, or a failure.

    log: output of its backend; of a long one the beginning and the end.
    """

    wheel: str = ""
    requires: tuple[str, ...] = ()
    failure: str = ""
    fix: str = ""
    log: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SdistBuilder:
    """Builds wheels in containers of one engine.

    owner: identity of the cache, since several caches may share an engine.
    """

    engine: Engine
    owner: str
    limits: BuildLimits

    def identity(self, base: Base) -> str:
        """Return a digest of a base's content, with parts that no stack's id covers, as compilers.

        Raises:
            EngineError: the base is gone.
        """
        image = self.engine.base_image(base)
        return content_id("base image", [list(image.diff_ids), base.python])

    def build(
        self,
        environment: Environment,
        sdist: Path,
        system: BuildSystem,
        folder: Path,
        *,
        complete: bool,
        key: str,
    ) -> Attempt:
        """Build one source distribution; faults of the package are part of the result.

        Args:
            environment: an image with the build requirements.
            sdist: the verified file, with its suffix.
            system: its build system.
            folder: empty; takes the wheel under its own name.
            complete: the environment has the further requirements of the backend, too.
            key: identity of the build; callers lock it.

        Raises:
            EngineError: the engine refused, or does not answer.
            OSError: the folder cannot be written.
        """
        name = f"stackgen-build-{content_id('container', [self.owner, key])[:24]}"
        suffix = next((each for each in _SUFFIXES if sdist.name.endswith(each)), ".tar.gz")
        source = f"/sdist/source{suffix}"
        order = self._order(source, system, complete=complete)
        # A copy that the container's user can read, whatever the permissions of the original are.
        copy = folder / f"source{suffix}"
        shutil.copyfile(sdist, copy)
        copy.chmod(0o644)
        mounts = [Mount(source, str(copy.resolve()), type="bind", read_only=True)]
        with explained("the engine cannot build a source distribution"):
            self._remove(name)  # what a killed process left
            container = self._create(name, environment, order, mounts)
            try:
                attempt = self._ran(container, folder / _UNNAMED)
            finally:
                self._remove(container)
        if attempt.wheel:
            (folder / _UNNAMED).rename(folder / attempt.wheel)
        return attempt

    def _order(self, source: str, system: BuildSystem, *, complete: bool) -> list[str]:
        text = Path(pep517.__file__).read_text(encoding="utf-8")
        order = {
            "sdist": source,
            "sources": f"{_WORK}/sources",
            "out": f"{_WORK}/out",
            "answer": f"{_WORK}/answer.json",
            "backend": system.backend,
            "backend_path": system.backend_path,
            "complete": complete,
            "timeout_s": self.limits.timeout_s,
            "text": text,
        }
        return ["-s", "-c", text, json.dumps(order)]

    def _create(
        self, name: str, environment: Environment, arguments: list[str], mounts: list[Mount]
    ) -> str:
        folder = environment.python.rpartition("/")[0]
        path = f"{folder}:/usr/local/bin:/usr/bin:/bin"
        made = self.engine.api.create_container(
            environment.location,
            name=name,
            entrypoint=[environment.python],
            command=arguments,
            user=UNPRIVILEGED,
            working_dir="/",
            environment={**_ENVIRONMENT, "PATH": path},
            labels={_LABEL: self.owner},
            host_config=self._host_config(mounts),
        )
        return str(made["Id"])

    def _host_config(self, mounts: list[Mount]) -> Any:
        facts = self.engine.facts
        memory = self.limits.memory_bytes if facts.memory_limit else None
        size = self.limits.memory_bytes
        return self.engine.api.create_host_config(
            network_mode="none",
            cap_drop=["ALL"],
            security_opt=["no-new-privileges"],
            read_only=True,
            # exec: build systems run programs that they compile there.
            tmpfs={
                _WORK: f"rw,exec,nosuid,nodev,size={size},mode=1777",
                "/tmp": "rw,exec,nosuid,nodev,size=268435456,mode=1777",  # noqa: S108
            },
            mounts=mounts,
            mem_limit=memory,
            memswap_limit=memory,
            pids_limit=self.limits.pids if facts.pids_limit else None,
            log_config=LogConfig(type="none"),
        )

    def _ran(self, container: str, into: Path) -> Attempt:
        """Start a container, read its output, and return the result."""
        api = self.engine.api
        late = threading.Event()

        def end() -> None:
            late.set()
            self._kill(container)

        timer = threading.Timer(self.limits.timeout_s + _GRACE_S, end)
        output = BuildOutput(limit=self.limits.memory_bytes)
        # Longer than a build may take: an engine without output for so long is lost.
        wait_s = self.limits.timeout_s + 2 * _GRACE_S
        streams = ContainerStreams(api, container)
        with contextlib.closing(streams), into.open("wb") as file:
            api.start(container)
            timer.start()
            try:
                while (received := streams.read(wait_s))[1]:
                    output.take(*received, file)
                    if output.too_much:
                        self._kill(container)
            finally:
                timer.cancel()
        api.wait(container)
        state = api.inspect_container(container)["State"]
        if late.is_set():
            return self._failed(self._late, output)
        return self._attempt(output, oom=bool(state.get("OOMKilled")), code=int(state["ExitCode"]))

    @property
    def _late(self) -> str:
        return f"it took longer than {self.limits.timeout_s / 60:.3g} minutes"

    def _attempt(self, output: "BuildOutput", *, oom: bool, code: int) -> Attempt:
        header = output.header
        kind = header.get("kind")
        if kind == "wheel" and output.size == header.get("size"):
            if _WHEEL_NAME.fullmatch(str(header["name"])):
                return Attempt(wheel=str(header["name"]), log=output.log)
            return self._failed("what it made is not named as a wheel is", output)
        if kind == "requires":
            return Attempt(requires=tuple(str(each) for each in header["requires"]), log=output.log)
        if oom:
            memory = f"{self.limits.memory_bytes / 1e9:.1f} GB"
            return self._failed(
                f"it needs more than the {memory} of memory that it may use", output
            )
        if kind == "wheel":
            return self._failed("the wheel that it handed out is cut off", output)
        why = str(header.get("why", f"it ended with exit code {code}"))
        return self._failed(self._late if why == "it took too long" else why, output)

    def _failed(self, why: str, output: "BuildOutput") -> Attempt:
        hints = (hint for pattern, hint in _HINTS if re.search(pattern, output.log))
        fix = next(hints, "take a version that has a wheel, or tell the package's authors")
        return Attempt(failure=why, fix=fix, log=output.log)

    def _kill(self, container: str) -> None:
        with contextlib.suppress(docker_errors.DockerException, OSError):
            self.engine.api.kill(container)

    def _remove(self, container: str) -> None:
        with contextlib.suppress(docker_errors.NotFound):
            self.engine.api.remove_container(container, force=True, v=True)


@dataclass(slots=True)
class BuildOutput:
    """Output of a build: a line of JSON and the wheel on stdout; the log on stderr, bounded.

    limit: bytes that a wheel may have.
    """

    limit: int
    size: int = 0
    too_much: bool = False
    _line: bytearray = field(default_factory=bytearray)
    _ended: bool = False
    _head: bytearray = field(default_factory=bytearray)
    _tail: bytearray = field(default_factory=bytearray)

    def take(self, stream: int, piece: bytes, file: IO[bytes]) -> None:
        """Take a piece of either stream; the wheel's bytes go into the file."""
        if stream != STDOUT:
            return self._note(piece)
        if not self._ended:
            line, newline, piece = piece.partition(b"\n")
            self._line += line
            self._ended = bool(newline)
        self.size += len(piece)
        self.too_much = len(self._line) > _MOST_HEADER_BYTES or self.size > self.limit
        if not self.too_much:
            file.write(piece)
        return None

    @property
    def header(self) -> dict[str, Any]:
        """Return the line of JSON; empty where it is none."""
        try:
            found = json.loads(self._line)
        except ValueError:
            return {}
        return found if isinstance(found, dict) else {}

    @property
    def log(self) -> str:
        """Return the beginning and the end of what was printed besides."""
        cut = len(self._tail) > _TAIL
        parts = [self._head, b"\n[...]\n" if cut else b"", self._tail[-_TAIL:]]
        return b"".join(map(bytes, parts)).decode("utf-8", "replace")

    def _note(self, piece: bytes) -> None:
        space = max(0, _HEAD - len(self._head))
        self._head += piece[:space]
        self._tail += piece[space:]
        if len(self._tail) > 4 * _TAIL:
            del self._tail[: -2 * _TAIL]


# Records of builds. The wheels are in the wheel store.

_KEY = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class BuiltWheels:
    """Records of builds in a folder, which several processes may share.

    root: has a record and a log of each build, by key.
    """

    root: Path

    def record(self, key: str) -> BuildRecord | None:
        """Return the record of a finished build, or None."""
        try:
            found = json.loads(self._place(key, "json").read_text(encoding="utf-8"))
            return msgspec.convert(found, BuildRecord)
        except (OSError, ValueError, msgspec.ValidationError):
            return None

    def log(self, key: str) -> Path:
        """Return the path of a build's log."""
        return self._place(key, "log")

    def store(self, key: str, record: BuildRecord, log: str) -> None:
        """Store log and record of a build, in this order.

        Raises:
            StorageError: the disk is full, or the folder cannot be written.
        """
        with self._explained():
            self._place(key, "log").parent.mkdir(parents=True, exist_ok=True)
            atomic_write_text(self._place(key, "log"), log)
            atomic_write_text(self._place(key, "json"), json.dumps(asdict(record), sort_keys=True))

    @contextlib.contextmanager
    def lock(self, key: str) -> Iterator[None]:
        """Lock a build against other processes.

        Raises:
            StorageError: the disk is full, or the folder cannot be written.
        """
        with contextlib.ExitStack() as locked:
            with self._explained():
                self._place(key, "lock").parent.mkdir(parents=True, exist_ok=True)
                locked.enter_context(exclusive(self._place(key, "lock")))
            yield

    @contextlib.contextmanager
    def folder(self, key: str) -> Iterator[Path]:
        """Yield an empty folder for a build, which must be locked.

        Raises:
            StorageError: the disk is full, or the folder cannot be written.
        """
        place = self._place(key, "work")
        with self._explained():
            try:
                shutil.rmtree(place, ignore_errors=True)
                place.mkdir()
                yield place
            finally:
                shutil.rmtree(place, ignore_errors=True)

    @contextlib.contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise storage_error(f"cannot store builds in {self.root}", error) from error

    def _place(self, key: str, suffix: str) -> Path:
        if not _KEY.fullmatch(key):
            raise ValueError(f"not a key: {key!r}")
        return self.root / key[:2] / f"{key}.{suffix}"
