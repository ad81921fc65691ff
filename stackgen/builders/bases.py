"""Bases that stacks are installed on: found in the engine, pulled, or made with debootstrap."""

import contextlib
import fcntl
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from stackgen.builders import debootstrap, interpreter_folder, probe
from stackgen.builders.base_definitions import (
    BaseDefinition,
    FromDebian,
    FromRegistry,
    read_definitions,
)
from stackgen.builders.engine import Engine, explained
from stackgen.builders.targets import facts_from_probe, parse_probe, target_from_probe
from stackgen.errors import BuildError, EngineError
from stackgen.values import Base, Kind, content_id

__all__ = ["BaseBuilder", "BaseDefinition", "HeldBase", "NoWayError", "read_definitions"]

_BASE_LABEL = "stackgen.base"
_REGISTRY_TIMEOUT_S = 8


class NoWayError(BuildError):
    """No way leads to a base here; why names each way with its refusal, a line each."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldBase:
    """A base that the engine holds.

    origin: the way that led to it, in words.
    size: bytes of its image.
    """

    base: Base
    origin: str
    size: int


@dataclass(frozen=True, slots=True)
class BaseBuilder:
    """Finds and makes bases in an engine.

    cache: folder for what the probes said and for Debian archives; CI may keep it.
    known: the definitions; by default those that travel with stackgen, and the user's own.
    """

    engine: Engine
    cache: Path
    known: tuple[BaseDefinition, ...] = ()

    def definitions(self) -> tuple[BaseDefinition, ...]:
        """Return the bases that can be named."""
        return self.known or read_definitions()

    def ready(self, name: str) -> Base | None:
        """Return a base whose image the engine holds already, or None.

        Args:
            name: of a definition, or any image reference.

        Raises:
            EngineError: the engine failed.
            BuildError: the image holds no usable interpreter, or another Python than defined.
        """
        held = self.held(name)
        return held.base if held else None

    def held(self, name: str) -> HeldBase | None:
        """Return what ``ready`` does, with where it came from and what it takes."""
        definition = self._definition(name)
        if definition is None:
            return self._probed(name, "", FromRegistry(reference=name, interpreter="python3"))
        # What was made here comes first: making it took a minute, and facts should stay.
        for way in sorted(definition.ways, key=lambda way: isinstance(way, FromRegistry)):
            if found := self._probed(name, definition.python, way):
                return found
        return None

    def possible(self, name: str) -> bool:
        """Return whether ``make`` has a way that is likely to work; seconds at most."""
        return not self.obstacle(name)

    def obstacle(self, name: str) -> str:
        """Return what is in each way to a base, or "" where one looks open; seconds at most."""
        ways = self._ways(name)
        if any(self.engine.image(_reference(way)) for way in ways):
            return ""
        reasons = {}
        # Registries are asked last: where there is none, that takes seconds.
        for way in sorted(ways, key=lambda way: isinstance(way, FromRegistry)):
            reasons[way] = self._obstacle(way)
            if not reasons[way]:
                return ""
        return _joined([(way, reasons[way]) for way in ways])

    def make(self, name: str, progress: Callable[[str], None]) -> Base:
        """Return a base: the engine's image, else by the first of its ways that can be gone.

        Raises:
            EngineError: the engine failed.
            BuildError: there is no way to it here; every refusal is named.
        """
        with self._exclusively():
            if found := self.ready(name):
                return found
            refusals: list[tuple[FromRegistry | FromDebian, str]] = []
            for way in self._ways(name):
                if refusal := self._go(way, progress):
                    refusals.append((way, refusal))
                elif made := self.ready(name):
                    return made
        if not refusals:
            raise EngineError(
                f"the base {name} vanished from the engine",
                why="its image was removed while it was being looked at",
                fix="run the same command again",
            )
        known = ", ".join(known.name for known in self.definitions())
        raise NoWayError(
            f"the base {name} cannot be had here",
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
        if obstacle := debootstrap.obstacle(way.suite):
            return obstacle
        return _folder_refusal(way.folder) if way.folder else ""

    def _go(self, way: FromRegistry | FromDebian, progress: Callable[[str], None]) -> str:
        """Go one way to a base; return why it led nowhere, or ""."""
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
        """Return why the engine cannot get an image, or "" where the registry offers it."""
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
        debootstrap.remove_left_over(archive.parent)
        if not archive.exists():
            packages = way.packages
            finish = None
            if way.folder:
                interpreter = interpreter_folder.find_folder(way.folder)
                finish = partial(interpreter_folder.copy_folder, interpreter)
            else:
                packages = (*debootstrap.PYTHON, *packages)
            debootstrap.root_archive(
                way.suite, packages, archive=archive, progress=progress, finish=finish
            )
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

    def _probed(self, name: str, python: str, way: FromRegistry | FromDebian) -> HeldBase | None:
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
            kind=Kind.DOCKER,
            reference=image.id,
            python=found.base_executable,
            facts=facts_from_probe(found),
            target=target,
        )
        return HeldBase(base=base, origin=way.label, size=image.size)

    def _answer(self, image: str, interpreter: str) -> str:
        """Return what the probe printed, kept by image since an image never changes."""
        text = Path(probe.__file__).read_text(encoding="utf-8")
        key = content_id("probe", [image, interpreter, text])
        kept = self.cache / "probes" / f"{key}.json"
        with contextlib.suppress(OSError):
            return kept.read_text(encoding="utf-8")
        ran = self.engine.run(image, [interpreter, "-I", "-c", text])
        if ran.exit_code == 0:
            kept.parent.mkdir(parents=True, exist_ok=True)
            temporary = kept.with_suffix(".tmp")
            temporary.write_text(ran.stdout, encoding="utf-8")
            temporary.replace(kept)
        return ran.stdout or ran.stderr

    @contextlib.contextmanager
    def _exclusively(self) -> Iterator[None]:
        """Let one process at a time make bases, so that none is made twice."""
        self.cache.mkdir(parents=True, exist_ok=True)
        with (self.cache / "bases.lock").open("a") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield


def _reference(way: FromRegistry | FromDebian) -> str:
    return way.reference if isinstance(way, FromRegistry) else way.tag


def _joined(refusals: list[tuple[FromRegistry | FromDebian, str]]) -> str:
    # Lines below the first one stand below the text that "why:" begins.
    return "\n       ".join(f"{way.label}: {refusal}" for way, refusal in refusals)


def _folder_refusal(python: str) -> str:
    try:
        interpreter_folder.find_folder(python)
    except BuildError as error:
        return f"{error.what} ({error.why}); {error.fix}"
    return ""
