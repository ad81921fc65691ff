"""What is resolved for: a base, a stated target, or the interpreter that runs us."""

import sys

from stackgen.builders.interpreters import find_interpreters, probe
from stackgen.builders.stated import stated_target
from stackgen.errors import UsageError
from stackgen.pipeline.options import ExecutorChoice
from stackgen.pipeline.places import Places
from stackgen.pipeline.progress import Progress
from stackgen.values import Target


def find_target(
    *, base: str, python: str, platform: str, places: Places, progress: Progress
) -> Target:
    """Return what is resolved for; what is not given is "".

    A Python without a platform means an interpreter of that version that is installed here, and
    otherwise the same platform as this one.

    Raises:
        UsageError: there is no such base, or nobody can state such a target.
    """
    if base and (python or platform):
        raise UsageError(
            "--base and --python or --platform were given together",
            why="a base has its own Python and platform",
            fix="give one or the other",
        )
    if base:
        from stackgen.pipeline.workshop import open_workshop  # slow to load, and rarely needed

        with open_workshop(ExecutorChoice.AUTO, base, places, progress) as workshop:
            return workshop.base.target
    own = probe(sys.executable).target
    if not python and not platform:
        return own
    if not platform:
        found = (probe(each).target for each in find_interpreters())
        fitting = (each for each in found if python in (each.python, each.python_minor))
        known = next(fitting, None)
        if known is not None:
            return known
    here = next(tag.rpartition("-")[2] for tag in own.tags if "-linux_" not in tag)
    return stated_target(python=python or own.python, platform=platform or here)
