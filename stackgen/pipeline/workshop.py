"""Where stacks are built and run: an engine with a base, or virtualenvs of an interpreter."""

import re
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from stackgen.artifacts.layers import LayerStore
from stackgen.builders.bases import BaseBuilder
from stackgen.builders.engine import Engine, connect
from stackgen.builders.images import ImageBuilder
from stackgen.builders.interpreters import find_interpreters, probe
from stackgen.builders.sdists import SdistBuilder, build_limits
from stackgen.builders.virtualenvs import VirtualenvBuilder
from stackgen.errors import BuildError, EngineError, UsageError
from stackgen.executors.docker import DockerExecutor
from stackgen.executors.machine import this_machine
from stackgen.executors.virtualenv import VirtualenvExecutor
from stackgen.pipeline.engines import DEFAULT_BASE, base_name
from stackgen.pipeline.host import Host
from stackgen.pipeline.options import ExecutorChoice
from stackgen.pipeline.places import Places
from stackgen.pipeline.progress import Progress
from stackgen.values import Base, Environment, Machine, Stack

Admits = Callable[[str], bool]
"""Returns whether what was asked for is meant for a version of Python."""


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
class Workshop:
    """A base, something that builds stacks on it, and something that runs them.

    sdists: builds wheels from source distributions; None where there are no containers.
    """

    base: Base
    machine: Machine
    build: Build
    executor: DockerExecutor | VirtualenvExecutor
    sdists: SdistBuilder | None = None


@contextmanager
def open_workshop(
    choice: ExecutorChoice,
    base: str,
    places: Places,
    progress: Progress,
    *,
    make: bool = True,
    admits: Admits = any_python,
) -> Iterator[Workshop]:
    """Open the workshop that was asked for; ``auto`` takes images wherever they can be had.

    Args:
        choice: where stacks shall run.
        base: name of a base, an image, an interpreter, or "".
        places: where things are kept.
        progress: who is told.
        make: whether a base may be made now; without it, a plan is made for our interpreter.
        admits: where no base is named, one whose Python this admits is taken, if there is one.

    Raises:
        EngineError: docker was asked for, and no engine answers or no base can be made.
        UsageError: there is no such base or interpreter.
    """
    machine = this_machine()
    if _is_interpreter(base) and choice is not ExecutorChoice.DOCKER:
        choice = ExecutorChoice.VIRTUALENV
    if choice is ExecutorChoice.VIRTUALENV:
        interpreter = _interpreter(base, admits, progress)
        yield from _until_done(_virtualenvs(interpreter, machine, places))
        return
    try:
        engine = connect()
    except EngineError as error:
        if choice is ExecutorChoice.DOCKER or (base and not _is_interpreter(base)):
            raise
        progress.note(f"Using virtualenvs: no container engine answers ({_first_line(error.why)}).")
        interpreter = _interpreter(base, admits, progress)
        yield from _until_done(_virtualenvs(interpreter, machine, places))
        return
    try:
        wanted = base or _fitting_base(engine, places, admits, progress)
        found = _with_engine(engine, choice, wanted, machine, places, progress, make=make)
        if found is None:
            found = _virtualenvs(_interpreter("", admits, progress), machine, places)
        yield from _until_done(found)
    finally:
        engine.close()


def _until_done(workshop: Workshop) -> Iterator[Workshop]:
    """Yield a workshop, and end what its executor keeps running when it is no longer needed."""
    try:
        yield workshop
    finally:
        workshop.executor.close()


def _fitting_base(engine: Engine, places: Places, admits: Admits, progress: Progress) -> str:
    """Return the base to take where none is named: "", the default one, or one that is admitted."""
    bases = BaseBuilder(engine=engine, cache=places.cache / "bases")
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


def _with_engine(
    engine: Engine,
    choice: ExecutorChoice,
    base: str,
    machine: Machine,
    places: Places,
    progress: Progress,
    *,
    make: bool,
) -> Workshop | None:
    """Return the workshop of an engine, or None where virtualenvs must do; then it was said."""
    bases = BaseBuilder(engine=engine, cache=places.cache / "bases")
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
        made = ready or _made(bases, name, places, progress)
    except BuildError as error:
        if choice is not ExecutorChoice.AUTO or base:
            raise
        progress.note(f"Using virtualenvs: {error.what} ({_first_line(error.why)}).")
        return None
    return _containers(engine, made, machine, places, progress)


def _made(bases: BaseBuilder, name: str, places: Places, progress: Progress) -> Base:
    with Host(cache=places.cache).building(progress):
        return bases.make(name, progress.doing)


def _containers(
    engine: Engine, base: Base, machine: Machine, places: Places, progress: Progress
) -> Workshop:
    builder = ImageBuilder(
        engine=engine,
        store=LayerStore(places.cache / "layers", notify=progress.note),
        memory=places.cache / "whole-archives.json",
    )

    def build(stack: Stack, wheels: Mapping[str, Path], varied: frozenset[str]) -> Environment:
        return builder.build(stack, base, wheels, varied)

    executor = DockerExecutor(engine.api, machine)
    sdists = SdistBuilder(engine=engine, owner=str(places.cache), limits=build_limits(engine))
    return Workshop(base=base, machine=machine, build=build, executor=executor, sdists=sdists)


def _virtualenvs(interpreter: str, machine: Machine, places: Places) -> Workshop:
    base = probe(interpreter)
    builder = VirtualenvBuilder(root=places.cache / "virtualenvs")

    def build(
        stack: Stack,
        wheels: Mapping[str, Path],
        varied: frozenset[str],  # noqa: ARG001
    ) -> Environment:
        return builder.build(stack, base, wheels)

    executor = VirtualenvExecutor(machine=machine, scratch=places.cache / "scratch")
    return Workshop(base=base, machine=machine, build=build, executor=executor)


def _is_interpreter(base: str) -> bool:
    return bool(re.fullmatch(r"(python)?3\.\d+", base)) or Path(base).is_file()


def _interpreter(base: str, admits: Admits, progress: Progress) -> str:
    """Return the path of the interpreter that was asked for.

    By default it is the one that runs us or, where that is not admitted, the newest that is.
    """
    if not base:
        own = probe(sys.executable).target.python
        if admits(own):
            return sys.executable
        for path, python in fitting_interpreters(admits):
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


def fitting_interpreters(admits: Admits) -> Iterator[tuple[str, str]]:
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
