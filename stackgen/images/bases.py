"""Bases that stacks are installed on: found in the engine, pulled, or made with debootstrap."""

import contextlib
import json
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from stackgen.errors import BuildError, EngineError
from stackgen.images import probe
from stackgen.images.base_definitions import (
    BaseDefinition,
    FromDebian,
    FromRegistry,
    read_definitions,
)
from stackgen.images.engine import Engine, explained
from stackgen.images.targets import (
    Probe,
    facts_from_probe,
    find_interpreters,
    parse_probe,
    run_probe,
    target_from_probe,
)
from stackgen.model.identity import content_id
from stackgen.model.stacks import Base, EnvironmentKind
from stackgen.sandbox.process import failure_message
from stackgen.storage.files import atomic_write_text, exclusive

_BASE_LABEL = "stackgen.base"
_REGISTRY_TIMEOUT_S = 8


class BaseUnavailableError(BuildError):
    """A base can be neither found, pulled nor built; ``why`` has a line for each source."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineBase:
    """A base in the engine.

    origin: its source, in words.
    size: bytes of its image.
    """

    base: Base
    origin: str
    size: int


@dataclass(frozen=True, slots=True)
class BaseBuilder:
    """Finds, pulls and builds bases in an engine.

    cache: folder for the results of probes and for Debian archives.
    known: the definitions; by default those of stackgen and the user's own.
    """

    engine: Engine
    cache: Path
    known: tuple[BaseDefinition, ...] = ()

    def definitions(self) -> tuple[BaseDefinition, ...]:
        """Return the definitions of bases."""
        return self.known or read_definitions()

    def ready(self, name: str) -> Base | None:
        """Return a base whose image is in the engine, or None.

        Args:
            name: of a definition, or any image reference.

        Raises:
            EngineError: the engine failed.
            BuildError: the image has no usable interpreter, or another Python than defined.
        """
        found = self.engine_base(name)
        return found.base if found else None

    def engine_base(self, name: str) -> EngineBase | None:
        """Return a base like ``ready``, with its origin and size."""
        definition = self._definition(name)
        if definition is None:
            return self._probed(name, "", FromRegistry(reference=name, interpreter="python3"))
        # A base that was built locally comes first: its facts should not change.
        for way in sorted(definition.ways, key=lambda way: isinstance(way, FromRegistry)):
            if found := self._probed(name, definition.python, way):
                return found
        return None

    def possible(self, name: str) -> bool:
        """Return whether ``make`` will probably succeed; this takes seconds at most."""
        return not self.obstacle(name)

    def obstacle(self, name: str) -> str:
        """Return why no source of a base is available, "" where one is; seconds at most."""
        ways = self._ways(name)
        if any(self.engine.image(_reference(way)) for way in ways):
            return ""
        reasons = {}
        # Registries come last: without a connection, they take seconds.
        for way in sorted(ways, key=lambda way: isinstance(way, FromRegistry)):
            reasons[way] = self._obstacle(way)
            if not reasons[way]:
                return ""
        return _joined([(way, reasons[way]) for way in ways])

    def make(self, name: str, progress: Callable[[str], None]) -> Base:
        """Return a base: the engine's image, or a new one from the first source that works.

        Raises:
            EngineError: the engine failed.
            BaseUnavailableError: no source works.
        """
        with self._exclusively():
            if found := self.ready(name):
                return found
            refusals: list[tuple[FromRegistry | FromDebian, str]] = []
            for way in self._ways(name):
                if refusal := self._from_source(way, progress):
                    refusals.append((way, refusal))
                elif made := self.ready(name):
                    return made
        if not refusals:
            raise EngineError(
                f"the base {name} is no longer in the engine",
                why="its image was removed meanwhile",
                fix="run the same command again",
            )
        known = ", ".join(known.name for known in self.definitions())
        raise BaseUnavailableError(
            f"the base {name} is not available",
            why=_joined(refusals),
            fix="install debootstrap and run as root, docker load an image and give its name "
            f"with --base, or choose another base ({known})",
        )

    def _definition(self, name: str) -> BaseDefinition | None:
        return next((known for known in self.definitions() if known.name == name), None)

    def _ways(self, name: str) -> tuple[FromRegistry | FromDebian, ...]:
        definition = self._definition(name)
        return definition.ways if definition else (FromRegistry(reference=name),)

    def _archive(self, way: FromDebian) -> Path:
        return self.cache / "bases" / f"{way.tag.partition(':')[2]}.tar.gz"

    def _obstacle(self, way: FromRegistry | FromDebian) -> str:
        if isinstance(way, FromRegistry):
            return self._registry_refusal(way.reference)
        if self._archive(way).exists():
            return ""
        if obstacle := debootstrap_obstacle(way.suite):
            return obstacle
        return _folder_refusal(way.folder) if way.folder else ""

    def _from_source(self, way: FromRegistry | FromDebian, progress: Callable[[str], None]) -> str:
        """Pull or build a base from one source; return why that failed, or ""."""
        if refusal := self._obstacle(way):
            return refusal
        try:
            if isinstance(way, FromRegistry):
                return self._pull(way.reference, progress)
            self._bootstrap(way, progress)
        except EngineError:
            raise
        except BuildError as error:
            return f"{error.what}: {error.why} ({error.fix})"
        return ""

    def _registry_refusal(self, reference: str) -> str:
        """Return why the engine cannot pull an image, "" where it can."""
        try:
            with (
                self.engine.hurried(_REGISTRY_TIMEOUT_S),
                explained(f"{reference} cannot be looked up"),
            ):
                self.engine.api.inspect_distribution(reference)  # type: ignore[no-untyped-call]
        except EngineError as error:
            return error.why
        return ""

    def _pull(self, reference: str, progress: Callable[[str], None]) -> str:
        progress(f"pulling {reference}")
        with explained(f"the engine cannot pull {reference}"):
            for line in self.engine.api.pull(reference, stream=True, decode=True):
                if problem := line.get("error"):
                    return str(problem)
        return ""

    def _bootstrap(self, way: FromDebian, progress: Callable[[str], None]) -> None:
        archive = self._archive(way)
        remove_left_over(archive.parent)
        if not archive.exists():
            packages = way.packages
            finish = None
            if way.folder:
                interpreter = find_folder(way.folder)
                finish = partial(copy_folder, interpreter)
            else:
                packages = (*PYTHON, *packages)
            root_archive(way.suite, packages, archive=archive, progress=progress, finish=finish)
        progress(f"importing {way.label}")
        self._import(way, archive)

    def _import(self, way: FromDebian, archive: Path) -> None:
        tag = way.tag.partition(":")[2]
        changes = [f"LABEL {_BASE_LABEL}={tag.rpartition('-')[0]}"]
        if way.user:
            changes.append(f"USER {way.user}")
        with explained(f"the engine cannot import the base {tag}"):
            # In one word: Podman's socket passes over a tag that stands apart.
            answer = self.engine.api.import_image(
                src=str(archive), repository=way.tag, changes=changes
            )
        for line in str(answer).splitlines():
            if problem := json.loads(line).get("error"):
                raise EngineError(
                    f"the engine refused the base {tag}",
                    why=str(problem),
                    fix=f"remove {archive} and try again",
                )

    def _probed(self, name: str, python: str, way: FromRegistry | FromDebian) -> EngineBase | None:
        image = self.engine.image(_reference(way))
        if image is None:
            return None
        found = parse_probe(self._answer(image.id, way.interpreter), where=f"the base {name}")
        target = target_from_probe(found)
        if python and target.python_minor != python:
            raise BuildError(
                f"the base {name} holds Python {target.python_minor}",
                why=f"its definition says {python}; it came by {way.label}",
                fix=f"correct python or this way in {name}.toml; docker rmi {_reference(way)} "
                "removes what was made",
            )
        base = Base(
            name=name,
            kind=EnvironmentKind.DOCKER,
            reference=image.id,
            python=found.base_executable,
            facts=facts_from_probe(found),
            target=target,
        )
        return EngineBase(base=base, origin=way.label, size=image.size)

    def _answer(self, image: str, interpreter: str) -> str:
        """Return the output of the probe, cached by image: an image never changes."""
        text = Path(probe.__file__).read_text(encoding="utf-8")
        key = content_id("probe", [image, interpreter, text])
        cached = self.cache / "probes" / f"{key}.json"
        with contextlib.suppress(OSError):
            return cached.read_text(encoding="utf-8")
        result = self.engine.run(image, [interpreter, "-I", "-c", text])
        if result.exit_code == 0:
            cached.parent.mkdir(parents=True, exist_ok=True)
            atomic_write_text(cached, result.stdout)
        return result.stdout or result.stderr

    @contextlib.contextmanager
    def _exclusively(self) -> Iterator[None]:
        """Let one process at a time make bases, so that none is made twice."""
        self.cache.mkdir(parents=True, exist_ok=True)
        with exclusive(self.cache / "bases.lock"):
            yield


def _reference(way: FromRegistry | FromDebian) -> str:
    return way.reference if isinstance(way, FromRegistry) else way.tag


def _joined(refusals: list[tuple[FromRegistry | FromDebian, str]]) -> str:
    # Lines below the first one stand below the text that "why:" begins.
    return "\n       ".join(f"{way.label}: {refusal}" for way, refusal in refusals)


def _folder_refusal(python: str) -> str:
    try:
        find_folder(python)
    except BuildError as error:
        return f"{error.what} ({error.why}); {error.fix}"
    return ""


# Debian bases without a container registry, from a Debian mirror

PYTHON = ("python3", "python3-venv")
"""Debian's own Python, for a base that gets no other."""

_TOOL = "debootstrap"
_PACKAGES = ("ca-certificates",)
_TEMPORARY = "stackgen-base-"
_SUITES = "/usr/share/debootstrap"
# What each container has of its own, and what only the installation needs.
_LEFT_OUT = (
    *("./dev/*", "./proc/*", "./sys/*"),
    *("./var/cache/apt/archives/*.deb", "./var/lib/apt/lists/*", "./var/log/*.log"),
)


def debootstrap_obstacle(suite: str = "") -> str:
    """Return why debootstrap cannot build a suite on this machine, "" where it can."""
    if shutil.which(_TOOL) is None:
        return "debootstrap is not installed"
    if os.geteuid() != 0:
        return "debootstrap needs root, and stackgen does not run as root"
    suites = Path(os.environ.get("DEBOOTSTRAP_DIR", _SUITES)) / "scripts"
    if suite and suites.is_dir() and not (suites / suite).exists():
        return f"debootstrap here knows no suite {suite} (see the names in {suites})"
    return ""


def remove_left_over(folder: Path) -> None:
    """Remove what killed processes left in the folder of archives, which must be locked."""
    for left in folder.glob(f"{_TEMPORARY}*"):
        _remove(left)


def root_archive(
    suite: str,
    packages: Sequence[str],
    *,
    archive: Path,
    progress: Callable[[str], None],
    finish: Callable[[Path], None] | None = None,
) -> None:
    """Write a compressed tar of a minimal Debian.

    Args:
        suite: such as ``bookworm``.
        packages: to be added, Python among them unless ``finish`` brings one.
        archive: is replaced atomically.
        progress: shows what is done.
        finish: is called with the root before it is packed.

    Raises:
        BuildError: the tool is missing or failed; its message is the reason.
    """
    if reason := debootstrap_obstacle(suite):
        raise BuildError(f"cannot make a Debian {suite} base", why=reason, fix=_FIX)
    archive.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=_TEMPORARY, dir=archive.parent) as folder:
        root = Path(folder) / "root"
        include = ",".join((*_PACKAGES, *packages))
        progress(f"making Debian {suite} with debootstrap (about a minute, 300 MB)")
        try:
            _run([_TOOL, "--variant=minbase", f"--include={include}", suite, str(root)], suite)
            if finish is not None:
                finish(root)
            progress(f"packing Debian {suite}")
            _pack(root, Path(folder) / "root.tar.gz", suite)
            (Path(folder) / "root.tar.gz").replace(archive)
        finally:
            _remove(root)


_FIX = "install debootstrap and run as root, or pull an image and name it: --base IMAGE"


def _remove(root: Path) -> None:
    # An interrupted debootstrap leaves /proc mounted in there: never descend into it.
    subprocess.run(["rm", "-rf", "--one-file-system", str(root)], check=False)


def _pack(root: Path, archive: Path, suite: str) -> None:
    left_out = [f"--exclude={pattern}" for pattern in _LEFT_OUT]
    options = ["--numeric-owner", "--sort=name", "--use-compress-program=gzip -1"]
    _run(["tar", *options, *left_out, "-C", str(root), "-cf", str(archive), "."], suite)


def _run(command: Sequence[str], suite: str) -> None:
    done = subprocess.run(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        text=True, errors="replace", check=False,
    )  # fmt: skip
    if done.returncode:
        lines = done.stdout.strip().splitlines()
        # debootstrap's errors begin with E:; what follows them is irrelevant.
        errors = [line for line in lines if line.startswith("E: ")] or lines[-3:]
        raise BuildError(
            f"cannot make a Debian {suite} base",
            why=f"{command[0]}: {' / '.join(errors[:3])}",
            fix=_fix_for(errors),
        )


def _fix_for(errors: Sequence[str]) -> str:
    if any(re.search(r"Couldn't find these debs", line) for line in errors):
        return "correct packages in the base's definition: this suite has no such packages"
    return _FIX


# Copies of a local interpreter in a base, for old versions of Python

PLACE = "/opt/python"
_SYSTEM = "/usr"
# What no stack needs, what belongs to the local machine, and what needs a display.
_NOT_COPIED = shutil.ignore_patterns(
    *("__pycache__", "site-packages", "test", "tests", "idle_test", "idlelib", "turtledemo"),
    *("*.a", "*.exe", "_tkinter*.so"),
)
_COMPILE = ("-m", "compileall", "-q", "-f", "--invalidation-mode", "unchecked-hash")
# Each extension module of the standard library, and why it cannot be imported.
_TRY_ALL = """
import importlib, os, sys
for entry in sorted(os.listdir(sys.argv[1])):
    name, _, rest = entry.partition(".")
    if rest.endswith("so") and not name.startswith(("_test", "_ctypes_test", "xx", "_xx")):
        try:
            importlib.import_module(name)
        except ImportError as error:
            print(name, str(error).replace(chr(10), " "), sep="\\t")
"""


def find_folder(python: str) -> Path:
    """Return a local interpreter that has its own prefix.

    Args:
        python: its version, ``3.7`` or ``3.7.16``.

    Raises:
        BuildError: there is none.
    """
    for path in find_interpreters():
        if "python" + ".".join(python.split(".")[:2]) != Path(path).name:
            continue
        found = run_probe(path)
        if found.prefix != _SYSTEM and f"{found.version}.".startswith(f"{python}."):
            return Path(path)
    raise BuildError(
        f"there is no folder with Python {python} to copy",
        why="no interpreter of that version lies on PATH, in pyenv's versions or among uv's; one "
        f"in {_SYSTEM} belongs to its system",
        fix=f"pyenv install {python} (or: uv python install {python}), then the same command again",
    )


def copy_folder(interpreter: Path, root: Path) -> None:
    """Copy an interpreter with its standard library to ``/opt/python`` below a root.

    Installed packages are not copied. The copy is registered with the loader, and its standard
    library is byte-compiled.

    Args:
        interpreter: what ``find_folder`` returned.
        root: of a Debian for this architecture; this process must run as root.

    Raises:
        BuildError: it cannot be copied, does not run there, or lacks libraries there.
    """
    found = run_probe(str(interpreter))
    try:
        library = _copied(interpreter, found, root)
    except OSError as error:
        raise BuildError(
            f"{interpreter} cannot be copied into a base",
            why=error.strerror or str(error),
            fix="check that the folder is complete and that the disk has free space",
        ) from error
    inside = f"{PLACE}/bin/python3"
    _chroot(root, ["ldconfig"])
    _chroot(root, [inside, "-I", "-c", "pass"], what=f"Python {found.version} does not run there")
    # The library contains templates that are no valid Python: errors are ignored.
    _run_clean(["chroot", str(root), inside, "-I", *_COMPILE, library])
    _refuse_missing(interpreter, found, root, library)


def _copied(interpreter: Path, found: Probe, root: Path) -> str:
    """Return where the standard library lies below the root."""
    prefix, place = Path(found.prefix), root / PLACE.lstrip("/")
    library = Path(found.paths["stdlib"]).relative_to(prefix)
    (place / "bin").mkdir(parents=True)
    shutil.copy2(interpreter, place / "bin" / interpreter.name)
    for name in ("python3", "python"):
        (place / "bin" / name).symlink_to(interpreter.name)
    shutil.copytree(prefix / library, place / library, symlinks=True, ignore=_NOT_COPIED)
    (place / library / "site-packages").mkdir()
    if (prefix / "include").is_dir():
        shutil.copytree(prefix / "include", place / "include", symlinks=True)
    for shared in sorted((prefix / "lib").glob("libpython*.so*")):
        shutil.copy2(shared, place / "lib" / shared.name, follow_symlinks=False)
    loader = root / "etc/ld.so.conf.d/stackgen-python.conf"
    loader.parent.mkdir(parents=True, exist_ok=True)
    loader.write_text(f"{PLACE}/lib\n", encoding="ascii")
    return f"{PLACE}/{library.as_posix()}"


def _refuse_missing(interpreter: Path, found: Probe, root: Path, library: str) -> None:
    """Refuse if a module that the local interpreter imports fails in the base."""
    inside = [f"{PLACE}/bin/python3", "-I", "-c", _TRY_ALL, f"{library}/lib-dynload"]
    there = _failures(_chroot(root, inside))
    home = Path(found.paths["stdlib"]) / "lib-dynload"
    outside = _failures(_run_clean([str(interpreter), "-I", "-c", _TRY_ALL, str(home)]).stdout)
    missing = {name: why for name, why in there.items() if name not in outside}
    if missing:
        raise BuildError(
            f"Python {found.version} lacks libraries in this base",
            why="; ".join(f"{name}: {why}" for name, why in missing.items()),
            fix="add the Debian packages that hold them to packages in the base's definition",
        )


def _failures(text: str) -> dict[str, str]:
    return dict(line.split("\t", 1) for line in text.splitlines() if "\t" in line)


def _chroot(root: Path, command: Sequence[str], *, what: str = "") -> str:
    done = _run_clean(["chroot", str(root), *command])
    if done.returncode:
        raise BuildError(
            what or f"{command[0]} failed in a base",
            why=failure_message(done.stdout, done.returncode),
            fix="take a Debian suite that is as new as the system the interpreter was built on",
        )
    return done.stdout


def _run_clean(command: Sequence[str]) -> subprocess.CompletedProcess[str]:
    environment = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C", "PYTHONHASHSEED": "0"}
    return subprocess.run(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        env=environment, text=True, errors="replace", check=False,
    )  # fmt: skip
