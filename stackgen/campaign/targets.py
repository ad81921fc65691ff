"""What is resolved for: a base, a stated target, or the interpreter that runs us."""

import sys
from collections.abc import Iterable, Iterator
from functools import partial

from stackgen.errors import UsageError
from stackgen.images.targets import find_interpreters, probe, stated_target
from stackgen.locks.reading import admits_python
from stackgen.model.choices import ExecutorChoice
from stackgen.model.packages import LockFile, Target
from stackgen.model.progress import Progress
from stackgen.storage.paths import Paths


def find_target(
    *, base: str, python: str, platform: str, paths: Paths, progress: Progress
) -> Target:
    """Return what is resolved for; what is not given is "".

    A Python without a platform means an interpreter of that version that is installed here, and
    otherwise the same platform as this one.

    Raises:
        UsageError: there is no such base, or such a target cannot be stated.
    """
    if base and (python or platform):
        raise UsageError(
            "--base and --python or --platform were given together",
            why="a base has its own Python and platform",
            fix="give one or the other",
        )
    if base:
        from stackgen.campaign.backend import open_backend  # slow to load, and rarely needed

        with open_backend(ExecutorChoice.AUTO, base, paths, progress) as backend:
            return backend.base.target
    own = probe(sys.executable).target
    if not python and not platform:
        return own
    if not platform:
        found = (probe(each).target for each in find_interpreters())
        fitting = (each for each in found if python in (each.python, each.python_minor))
        known = next(fitting, None)
        if known is not None:
            return known
    return stated_target(python=python or own.python, platform=platform or own.platform)


def refuse_python(lockfile: LockFile, python: str, where: str) -> None:
    """Refuse a lock that says of itself that it is for another Python.

    Args:
        python: the version of Python that it was to be for.
        where: what has this version, in words.

    Raises:
        UsageError: it names what would fit.
    """
    if not admits_python(lockfile, python):
        raise _unfit(lockfile, python, where, fitting(lockfile))


def refuse_any_python(lockfile: LockFile) -> None:
    """Refuse a lock that no base and no interpreter fits, before any is made.

    Raises:
        UsageError: there is none.
    """
    if not any(fitting(lockfile)):
        own = probe(sys.executable).target.python
        raise _unfit(lockfile, own, "what runs stackgen", ())


def fitting(lockfile: LockFile) -> Iterator[str]:
    """Yield the bases that a lock's Python admits, then the interpreters of this machine."""
    from stackgen.campaign.backend import fitting_interpreters  # slow to load, and rarely needed
    from stackgen.images.base_definitions import read_definitions

    yield from (
        e.name for e in read_definitions() if e.python and admits_python(lockfile, e.python)
    )
    yield from (path for path, _ in fitting_interpreters(partial(admits_python, lockfile)))


def _unfit(lockfile: LockFile, python: str, where: str, fitting: Iterable[str]) -> UsageError:
    fix = ", ".join(f"--base {each}" for each in fitting)
    return UsageError(
        f"{lockfile.path} is for Python {lockfile.requires_python}",
        why=f"{where} has Python {python}",
        fix=f"what fits: {fix}"
        if fix
        else "lock again for this Python; or install one that fits, and give its path with --base",
    )
