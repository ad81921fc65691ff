"""The interpreters of this machine, as parameters of tests."""

import re
from functools import lru_cache
from typing import Any

import pytest

from stackgen.images.targets import find_interpreters


@lru_cache(maxsize=1)
def every_python() -> tuple[str, ...]:
    """Return the interpreters of this machine, the newest first."""
    return find_interpreters()


def each_python() -> list[Any]:
    """Return every interpreter as a parameter; the oldest and the newest are the quick ones."""
    return ends_first(every_python())


def ends_first(cases: "tuple[str, ...]") -> list[Any]:
    """Mark all cases but the first and the last one as thorough."""
    ends = (cases[0], cases[-1])
    return [
        each if each in ends else pytest.param(each, marks=pytest.mark.thorough) for each in cases
    ]


def by_minor() -> dict[str, str]:
    """Return an interpreter of each Python version such as 3.11, without starting any."""
    named = ((re.search(r"python(3\.\d+)$", path), path) for path in reversed(every_python()))
    return {found[1]: path for found, path in named if found}
