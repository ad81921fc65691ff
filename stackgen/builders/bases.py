"""Bases that stacks are installed on: found in the engine, pulled, or made with debootstrap."""

import contextlib
import fcntl
import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from stackgen.builders import debootstrap, probe
from stackgen.builders.engine import Engine, engine_words, explained
from stackgen.builders.targets import facts_from_probe, parse_probe, target_from_probe
from stackgen.errors import BuildError, EngineError, UsageError
from stackgen.resources import folder
from stackgen.values import Base, Kind, content_id

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

_REPOSITORY = "stackgen-base"
_BASE_LABEL = "stackgen.base"
_REGISTRY_TIMEOUT_S = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class BaseDefinition:
    """A base that stackgen knows how to get, as ``images/*.toml`` defines it.

    python: its minor version.
    reference: of the image in a registry, with ``reference_interpreter`` in it.
    suite: of Debian, with ``suite_interpreter`` in it.
    packages: Debian packages to add; where there are any, the image of the registry will not do.
    """

    name: str
    summary: str
    python: str
    reference: str
    reference_interpreter: str
    suite: str
    suite_interpreter: str
    packages: tuple[str, ...] = ()

    @property
    def tag(self) -> str:
        """Return the tag of the image that is made from exactly this definition."""
        content = content_id("base", [self.suite, self.reference, list(self.packages)])
        return f"{_REPOSITORY}:{self.name}-{content[:8]}"


def read_definitions(where: Path | None = None) -> tuple[BaseDefinition, ...]:
    """Read every base definition, sorted by name.

    Raises:
        UsageError: a definition lacks a field or is no TOML.
    """
    return tuple(_definition(path) for path in sorted((where or folder("images")).glob("*.toml")))


@dataclass(frozen=True, slots=True)
class BaseBuilder:
    """Finds and makes bases in an engine.

    cache: folder for what the probes said and for Debian archives; CI may keep it.
    known: the definitions; those that travel with stackgen by default.
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
            BuildError: the image holds no usable interpreter.
        """
        definition = self._definition(name)
        if definition is None:
            return self._probed(name, name, "python3")
        made = self._probed(name, definition.tag, definition.suite_interpreter)
        if made or definition.packages:
            return made
        return self._probed(name, definition.reference, definition.reference_interpreter)

    def possible(self, name: str) -> bool:
        """Return whether ``make`` has a way that is likely to work; seconds at most."""
        definition = self._definition(name)
        if self.engine.image(definition.tag if definition else name):
            return True
        if definition is None:
            return self._registry_refusal(name) == ""
        if self._archive(definition).exists() or not debootstrap.obstacle():
            return True
        if not definition.packages and self.engine.image(definition.reference):
            return True
        return not definition.packages and self._registry_refusal(definition.reference) == ""

    def make(self, name: str, progress: Callable[[str], None]) -> Base:
        """Return a base: the engine's image, else the registry's, else one of debootstrap's.

        Raises:
            EngineError: the engine failed.
            BuildError: there is no way to it here; every refusal is named.
        """
        with self._exclusively():
            if found := self.ready(name):
                return found
            definition = self._definition(name)
            reference = definition.reference if definition else name
            refusal = "it needs added packages"
            if definition is None or not definition.packages:
                refusal = self._pull(reference, progress)
            if refusal:
                self._bootstrap(name, definition, refusal, progress)
            if made := self.ready(name):
                return made
        raise EngineError(
            f"the base {name} vanished from the engine",
            why="its image was removed while it was being looked at",
            fix="run the same command again",
        )

    def _definition(self, name: str) -> BaseDefinition | None:
        return next((known for known in self.definitions() if known.name == name), None)

    def _archive(self, definition: BaseDefinition) -> Path:
        return self.cache / "bases" / f"{definition.tag.partition(':')[2]}.tar.gz"

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
        if refusal := self._registry_refusal(reference):
            return refusal
        progress(f"pulling {reference}")
        with explained(f"the engine cannot pull {reference}"):
            for line in self.engine.api.pull(reference, stream=True, decode=True):
                if problem := line.get("error"):
                    return str(problem)
        return ""

    def _bootstrap(
        self,
        name: str,
        definition: BaseDefinition | None,
        refusal: str,
        progress: Callable[[str], None],
    ) -> None:
        obstacle = debootstrap.obstacle()
        if definition is None or (obstacle and not self._archive(definition).exists()):
            known = ", ".join(known.name for known in self.definitions())
            raise BuildError(
                f"the base {name} cannot be had here",
                why="; ".join(part for part in (f"registry: {refusal}", obstacle) if part),
                fix="install debootstrap and run as root, docker load an image and give its name "
                f"with --base, or choose another base ({known})",
            )
        archive = self._archive(definition)
        if not archive.exists():
            debootstrap.root_archive(
                definition.suite, definition.packages, archive=archive, progress=progress
            )
        progress(f"importing {definition.name}")
        self._import(definition, archive)

    def _import(self, definition: BaseDefinition, archive: Path) -> None:
        repository, _, tag = definition.tag.partition(":")
        labels = [f"LABEL {_BASE_LABEL}={definition.name}"]
        with explained(f"the engine cannot import the base {definition.name}"):
            answer = self.engine.api.import_image(
                src=str(archive), repository=repository, tag=tag, changes=labels
            )
        for line in str(answer).splitlines():
            if problem := json.loads(line).get("error"):
                raise EngineError(
                    f"the engine refused the base {definition.name}",
                    why=str(problem),
                    fix=f"remove {archive} and try again",
                )

    def _probed(self, name: str, reference: str, interpreter: str) -> Base | None:
        image = self.engine.image(reference)
        if image is None:
            return None
        found = parse_probe(self._answer(image.id, interpreter), where=f"the base {name}")
        return Base(
            name=name,
            kind=Kind.DOCKER,
            reference=image.id,
            python=found.base_executable,
            facts=facts_from_probe(found),
            target=target_from_probe(found),
        )

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


def _definition(path: Path) -> BaseDefinition:
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
        registry: Mapping[str, str] = document["registry"]
        bootstrap: Mapping[str, str] = document["debootstrap"]
        packages: Sequence[str] = document.get("packages", [])
        return BaseDefinition(
            name=path.stem,
            summary=str(document["summary"]),
            python=str(document["python"]),
            reference=str(registry["reference"]),
            reference_interpreter=str(registry["interpreter"]),
            suite=str(bootstrap["suite"]),
            suite_interpreter=str(bootstrap["interpreter"]),
            packages=tuple(str(package) for package in packages),
        )
    except (OSError, KeyError, TypeError, ValueError) as error:
        raise UsageError(
            f"the base definition {path.name} cannot be read",
            why=engine_words(error),
            fix="compare it with the other files in images/",
        ) from error
