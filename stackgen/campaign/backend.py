"""Where stacks are built and run: an engine with a base, or virtualenvs of an interpreter."""

import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

from stackgen.campaign.host import Host
from stackgen.errors import BuildError, EngineError, UsageError
from stackgen.executors.docker import DockerExecutor
from stackgen.executors.machine import this_machine
from stackgen.executors.virtualenv import VirtualenvExecutor
from stackgen.images.base_definitions import BaseDefinition, read_definitions
from stackgen.images.bases import BaseBuilder, BaseUnavailableError, EngineBase
from stackgen.images.build import ImageBuilder
from stackgen.images.engine import Engine, connect
from stackgen.images.layer_store import LayerStore
from stackgen.images.sdists import SdistBuilder, build_limits
from stackgen.images.targets import find_interpreters, probe
from stackgen.images.virtualenvs import VirtualenvBuilder
from stackgen.model.choices import ExecutorChoice
from stackgen.model.progress import Progress
from stackgen.model.stacks import (
    Base,
    BaseContent,
    BaseEntry,
    BasesReport,
    Environment,
    Machine,
    Readiness,
    Stack,
)
from stackgen.storage.paths import Paths

# The engine for commands that do nothing without one, and the base that a user means

DEFAULT_BASE = "bookworm-py311"
_VERSION = re.compile(r"(?:python)?(3\.\d+)")


def needed_engine() -> Engine:
    """Return the engine that answers.

    Raises:
        EngineError: none does; what it proposes can be done with images, too.
    """
    try:
        return connect()
    except EngineError as error:
        start = "start Docker, or name another engine in DOCKER_HOST"
        if "permission denied" in error.why.lower():
            start = "become a member of the group docker, or name an engine of yours in DOCKER_HOST"
        fix = f"{start}; without one, measure in virtualenvs: stackgen explore"
        raise EngineError(error.what, why=error.why, fix=fix) from error


def base_name(bases: BaseBuilder, given: str) -> str:
    """Return the name of the base that is given by its name, an image's, or a version of Python.

    Args:
        given: what the user wrote; "" for the default base.

    Raises:
        UsageError: there is no such base, and no registry has an image of that name.
    """
    pythons = {each.name: each.python for each in bases.definitions()}
    name = given or DEFAULT_BASE
    if name in pythons or bases.engine.image(name) is not None:
        return name
    if match := _VERSION.fullmatch(name):
        fitting = [each for each, python in pythons.items() if python == match[1]]
        if not fitting:
            raise UsageError(
                f"there is no base with Python {match[1]}",
                why="; ".join(f"{each} has Python {of}" for each, of in pythons.items() if of),
                fix="take one of these, or define one in a folder of yours (STACKGEN_IMAGES)",
            )
        return DEFAULT_BASE if DEFAULT_BASE in fitting else fitting[0]
    if not bases.possible(name):
        raise UsageError(
            f"there is no base {name}",
            why="the engine has no image of that name, and no registry hands one out here",
            fix=f"take one of {', '.join(pythons)}, or a Python such as --base 3.11",
        )
    return name


AdmitsPython = Callable[[str], bool]
"""Returns whether the requested stacks are for a version of Python."""


def any_python(_: str) -> bool:
    """Admit every version of Python."""
    return True


class Build(Protocol):
    """Makes an environment of a stack, from wheels that are on disk."""

    def __call__(
        self, stack: Stack, wheels: Mapping[str, Path], varied: frozenset[str]
    ) -> Environment:
        """Return the environment, made now or before.

        Raises:
            BuildError: the stack cannot be installed, or the engine refused.
            StorageError: the disk has no room.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class Backend:
    """A base, something that builds stacks on it, and something that runs them.

    sdists: builds wheels from source distributions; None where there are no containers.
    """

    base: Base
    machine: Machine
    build: Build
    executor: DockerExecutor | VirtualenvExecutor
    sdists: SdistBuilder | None = None


@contextmanager
def open_backend(
    choice: ExecutorChoice,
    base: str,
    paths: Paths,
    progress: Progress,
    *,
    make: bool = True,
    admits: AdmitsPython = any_python,
    replica: int = 0,
) -> Iterator[Backend]:
    """Open the requested backend; ``auto`` takes images wherever they can be had.

    Args:
        base: name of a base, an image, an interpreter, or "".
        make: whether a base may be made now; without it, a plan is made for our interpreter.
        admits: where no base is named, one whose Python this admits is taken, if there is one.
        replica: number of an independent repetition, whose virtualenvs lie in a folder of their
            own; a container is a new one each time, and its layers are those of other replicas.

    Raises:
        EngineError: docker is requested, and no engine answers or no base can be made.
        UsageError: there is no such base or interpreter.
    """
    machine = this_machine()
    if _is_interpreter(base) and choice is not ExecutorChoice.DOCKER:
        choice = ExecutorChoice.VIRTUALENV
    found = None
    with ExitStack() as opened:
        if choice is not ExecutorChoice.VIRTUALENV:
            try:
                engine = opened.enter_context(closing(connect()))
            except EngineError as error:
                if choice is ExecutorChoice.DOCKER or base:
                    raise
                reason = _first_line(error.why)
                progress.note(f"Using virtualenvs: no container engine answers ({reason}).")
            else:
                wanted = base or _fitting_base(engine, paths, admits, progress)
                if wanted is not None or choice is not ExecutorChoice.AUTO:
                    found = _with_engine(
                        engine, choice, wanted or "", machine, paths, progress, make=make
                    )
                base = ""
        if found is None:
            found = _virtualenvs(_interpreter(base, admits, progress), machine, paths, replica)
        opened.callback(found.executor.close)
        yield found


def _fitting_base(
    engine: Engine, paths: Paths, admits: AdmitsPython, progress: Progress
) -> str | None:
    """Return the base to take where none is named: "", the default one, or one that is admitted.

    None where no base is admitted and an interpreter of this machine is.
    """
    bases = BaseBuilder(engine=engine, cache=paths.cache / "bases")
    pythons = {each.name: each.python for each in bases.definitions() if each.python}
    if DEFAULT_BASE not in pythons or admits(pythons[DEFAULT_BASE]):
        return ""
    fitting = [name for name, python in pythons.items() if admits(python)]
    ready = (name for name in fitting if bases.ready(name) is not None)
    found = next(ready, None) or next((name for name in fitting if bases.possible(name)), "")
    if found:
        progress.note(
            f"The lock is not for Python {pythons[DEFAULT_BASE]} of {DEFAULT_BASE}: using {found} "
            f"(Python {pythons[found]})."
        )
        return found
    return None if any(fitting_interpreters(admits)) else ""


def _with_engine(
    engine: Engine,
    choice: ExecutorChoice,
    base: str,
    machine: Machine,
    paths: Paths,
    progress: Progress,
    *,
    make: bool,
) -> Backend | None:
    """Return the backend of an engine, or None where virtualenvs must do; then it was said."""
    bases = BaseBuilder(engine=engine, cache=paths.cache / "bases")
    name = base_name(bases, base)
    ready = bases.ready(name)
    if ready is None and not make:
        progress.note(f"The base {name} is not made yet; this plan is for {sys.executable}.")
        return None
    if ready is None and choice is ExecutorChoice.AUTO and not bases.possible(name):
        progress.note(
            f"Using virtualenvs: a container engine answers, but the base {name} is not at hand "
            "and cannot be made here (stackgen doctor says why)."
        )
        return None
    try:
        progress.doing(f"preparing the base {name}")
        if ready is None:
            with Host(cache=paths.cache).building(progress):
                ready = bases.make(name, progress.doing)
    except BuildError as error:
        if choice is not ExecutorChoice.AUTO or base:
            raise
        progress.note(f"Using virtualenvs: {error.what} ({_first_line(error.why)}).")
        return None
    return _containers(engine, ready, machine, paths, progress)


def _containers(
    engine: Engine, base: Base, machine: Machine, paths: Paths, progress: Progress
) -> Backend:
    builder = ImageBuilder(
        engine=engine,
        store=LayerStore(paths.cache / "layers", notify=progress.note),
        memory=paths.cache / "whole-archives.json",
    )

    def build(stack: Stack, wheels: Mapping[str, Path], varied: frozenset[str]) -> Environment:
        return builder.build(stack, base, wheels, varied)

    executor = DockerExecutor(engine.api, machine)
    sdists = SdistBuilder(engine=engine, owner=str(paths.cache), limits=build_limits(engine))
    return Backend(base=base, machine=machine, build=build, executor=executor, sdists=sdists)


def replica_folder(paths: Paths, replica: int) -> Path:
    """Return where the virtualenvs of an independent repetition lie."""
    return paths.cache / "replicas" / f"{replica}{'-' * replica}"


def _virtualenvs(interpreter: str, machine: Machine, paths: Paths, replica: int) -> Backend:
    base = probe(interpreter)
    root = replica_folder(paths, replica) if replica else paths.cache / "virtualenvs"
    builder = VirtualenvBuilder(root=root)

    def build(
        stack: Stack,
        wheels: Mapping[str, Path],
        varied: frozenset[str],  # noqa: ARG001
    ) -> Environment:
        return builder.build(stack, base, wheels)

    executor = VirtualenvExecutor(machine=machine, scratch=paths.cache / "scratch")
    return Backend(base=base, machine=machine, build=build, executor=executor)


def _is_interpreter(base: str) -> bool:
    return bool(re.fullmatch(r"(python)?3\.\d+", base)) or Path(base).is_file()


def _interpreter(base: str, admits: AdmitsPython, progress: Progress) -> str:
    """Return the path of the requested interpreter.

    By default it is the one that runs us or, where that is not admitted, the newest that is.
    """
    if not base:
        own = probe(sys.executable).target.python
        if admits(own):
            return sys.executable
        # The nearest Python: it has most of the wheels that a lock for it names.
        near = sorted(fitting_interpreters(admits), key=lambda each: _apart(each[1], own))
        for path, python in near:
            progress.note(f"The lock is not for Python {own}: using {path} (Python {python}).")
            return path
        return sys.executable
    if Path(base).is_file():
        return base
    version = base.removeprefix("python")
    found = find_interpreters()
    for path in found:
        if Path(path).name == f"python{version}" or f"/{version}." in path:
            return path
    known = ", ".join(found) or "none"
    raise UsageError(
        f"there is no interpreter {base} here",
        why=f"found: {known}",
        fix="give the path of one with --base, or a version that is here, such as --base 3.11",
    )


def _apart(one: str, other: str) -> int:
    """Return how many minor versions lie between two Pythons."""
    return abs(int(one.split(".")[1]) - int(other.split(".")[1]))


def fitting_interpreters(admits: AdmitsPython) -> Iterator[tuple[str, str]]:
    """Yield the interpreters of this machine that are admitted, newest first: path and version."""
    for path in find_interpreters():
        try:
            python = probe(path).target.python
        except BuildError:  # it does not run, which stackgen doctor says
            continue
        if admits(python):
            yield path, python


def _first_line(text: str) -> str:
    return text.splitlines()[0].rstrip(".") if text else "no container engine answers"


# Bases, for ``stackgen images bases``: listed, made, probed

_FIX = "install debootstrap and run as root, or take an image that the engine has: --base IMAGE"


def bases(names: Sequence[str], *, make: bool, paths: Paths, progress: Progress) -> BasesReport:
    """Return what is known of bases; with ``make``, those that are missing are made first.

    Args:
        names: of the bases; none means all of them.
        make: where one cannot be made, the others are made all the same.

    Raises:
        UsageError: a definition is wrong, or there is no base of a name.
        EngineError: bases are to be made, and no engine answers.
    """
    wanted = _named(names)
    try:
        engine = needed_engine()
    except EngineError as error:
        if make:
            raise
        return BasesReport(bases=tuple(_unknown(each, error) for each in wanted))
    with closing(engine):
        builder = BaseBuilder(engine=engine, cache=paths.cache / "bases")
        entries = [_base_entry(builder, each, make, progress) for each in wanted]
    return BasesReport(
        bases=tuple(entry for entry, _ in entries),
        made=tuple(entry.name for entry, new in entries if new),
        failed=tuple(entry.name for entry, _ in entries if make and entry.content is None),
    )


def _named(names: Sequence[str]) -> tuple[BaseDefinition, ...]:
    known = {each.name: each for each in read_definitions()}
    if unknown := [name for name in names if name not in known]:
        raise UsageError(
            f"there is no base {unknown[0]}",
            why=f"known: {', '.join(known)}",
            fix="name one of these, or define it in a folder of yours (STACKGEN_IMAGES)",
        )
    return tuple(known[name] for name in dict.fromkeys(names or known))


def _base_entry(
    builder: BaseBuilder, definition: BaseDefinition, make: bool, progress: Progress
) -> tuple[BaseEntry, bool]:
    """Return an entry, and whether its base was made just now."""
    entry = _plain(definition)
    new = False
    try:
        existing = builder.engine_base(definition.name)
        if existing is None and make:
            with Host(cache=builder.cache.parent).building(progress):
                builder.make(definition.name, progress.doing)
            new = True
            existing = builder.engine_base(definition.name)
    except EngineError:
        raise
    except BuildError as error:
        return _failed(entry, error, make=make), False
    if existing is not None:
        return replace(entry, state=Readiness.READY, content=_content(existing)), new
    obstacle = builder.obstacle(definition.name)
    state = Readiness.IMPOSSIBLE if obstacle else Readiness.POSSIBLE
    return replace(entry, state=state, why=obstacle, fix=_FIX if obstacle else ""), False


def _failed(entry: BaseEntry, error: BuildError, *, make: bool) -> BaseEntry:
    if isinstance(error, BaseUnavailableError):
        return replace(entry, state=Readiness.IMPOSSIBLE, why=error.why, fix=error.fix)
    state = Readiness.IMPOSSIBLE if make else Readiness.WRONG
    return replace(entry, state=state, why=f"{error.what}: {error.why}", fix=error.fix)


def _unknown(definition: BaseDefinition, error: EngineError) -> BaseEntry:
    why = f"{error.what} ({error.why.splitlines()[0]})"
    return replace(_plain(definition), why=why, fix=error.fix)


def _plain(definition: BaseDefinition) -> BaseEntry:
    return BaseEntry(
        name=definition.name,
        summary=definition.summary,
        state=Readiness.UNKNOWN,
        why="",
        fix="",
        ways=tuple(way.label for way in definition.ways),
        packages=definition.packages,
    )


def _content(existing: EngineBase) -> BaseContent:
    facts, target = existing.base.facts, existing.base.target
    return BaseContent(
        image_id=existing.base.reference,
        python=facts.python,
        libc=facts.libc,
        machine=dict(target.markers)["platform_machine"],
        distribution=facts.distribution,
        tags=len(target.tags),
        first_tag=next((tag for tag in target.tags if "-linux_" not in tag), target.tags[0]),
        blas=facts.system_packages,
        size=existing.size,
        origin=existing.origin,
    )
