"""Independent resolvers, uv and pip-tools, validator what we resolve from the real index.

A stack is given to them whole, as pins, and they must accept all of it and add nothing to it; of
requirements that exclude each other they must say what we say. ``benchmarks/agreement.py`` asks
them about hundreds of random choices.
"""

import os
import sys
from collections.abc import Iterator, Sequence

import pytest

from stackgen.commands.verify import validators
from stackgen.errors import ResolutionError
from stackgen.images.targets import find_interpreters, probe
from stackgen.index import PackageIndex, load_config
from stackgen.index.closure import resolve
from stackgen.model.packages import Lock
from stackgen.model.stacks import Base
from stackgen.provenance.validators import ValidationRequest, Validator
from stackgen.resolve.choose import newest_first
from stackgen.resolve.dependencies import parse_requirement
from stackgen.resolve.requirements import parse_requirements
from stackgen.resolve.space import Slice, Space
from stackgen.storage.paths import find_paths

pytestmark = pytest.mark.network

CLOSURES = [
    ("3.11", ("tensorflow==2.12.*", "numpy")),
    ("3.9", ("tensorflow==2.8.*", "numpy")),
    ("3.12", ("scikit-learn>=1.4", "pandas[performance]")),
]
SMALL = ("scipy>=1.11", "numpy")
IMPOSSIBLE = [
    ("3.11", ("tensorflow==2.12.0", "numpy>=2")),
    ("3.11", ("scipy==1.11.4", "numpy>=2")),
    ("3.9", ("tensorflow==2.8.0", "numpy<1.20")),
]


@pytest.fixture(scope="module")
def index() -> Iterator[PackageIndex]:
    """Return the configured index with the user's cache: a second run reads little."""
    with PackageIndex(load_config(environ=os.environ), find_paths(os.environ).cache) as each:
        yield each


def base(minor: str) -> Base:
    for python in find_interpreters():
        found = probe(python)
        if found.target.python_minor == minor:
            return found
    pytest.skip(f"no Python {minor} is installed here")


def space(index: PackageIndex, requirements: Sequence[str], on: Base) -> Space:
    return resolve(index, parse_requirements(*requirements), on.target)


def choices(found: Space, requirements: Sequence[str]) -> tuple[Slice, ...]:
    """Return three choices of what is varied: the newest, one from the middle, the last."""
    varied = [parse_requirement(each).name for each in requirements]
    ordered = newest_first(found.slices(varied))
    return ordered[0], ordered[len(ordered) // 2], ordered[-1]


def lines(lock: Lock) -> set[str]:
    return {f"{name}=={version}" for name, version in lock.versions.items()}


def ask(validator: Validator, requirements: Sequence[str]) -> set[str] | None:
    """Return what a validator would install, or None where it finds nothing that satisfies."""
    answer = validator.validate(ValidationRequest(requirements=tuple(requirements)))
    assert not answer.no_verdict
    return None if answer.pins is None else {f"{name}=={version}" for name, version in answer.pins}


def uv_for(on: Base) -> Validator:
    return validators(
        on, load_config(environ=os.environ), os.environ, find_paths(os.environ).cache
    )[0]


def pip_tools() -> Validator:
    ours = probe(sys.executable)
    found = validators(
        ours, load_config(environ=os.environ), os.environ, find_paths(os.environ).cache
    )
    return found[1]


@pytest.mark.parametrize(("minor", "requirements"), CLOSURES)
def test_uv_accepts_the_newest_completion_of_each_choice(
    index: PackageIndex, minor: str, requirements: tuple[str, ...]
) -> None:
    on = base(minor)
    found = space(index, requirements, on)
    for choice in choices(found, requirements):
        lock = found.complete(choice)
        assert lock is not None
        assert ask(uv_for(on), [*requirements, *lines(lock)]) == lines(lock)


def test_pip_tools_accepts_the_newest_completion_of_each_choice(
    index: PackageIndex,
) -> None:
    found = space(index, SMALL, probe(sys.executable))
    for choice in choices(found, SMALL):
        lock = found.complete(choice)
        assert lock is not None
        assert ask(pip_tools(), [*SMALL, *lines(lock)]) == lines(lock)


@pytest.mark.parametrize(("minor", "requirements"), IMPOSSIBLE)
def test_uv_agrees_on_what_is_impossible(
    index: PackageIndex, minor: str, requirements: tuple[str, ...]
) -> None:
    on = base(minor)
    with pytest.raises(ResolutionError, match="no stack satisfies"):
        space(index, requirements, on)
    assert ask(uv_for(on), requirements) is None


def test_pip_tools_agrees_on_what_is_impossible(index: PackageIndex) -> None:
    requirements = ("scipy==1.11.4", "numpy>=2")
    with pytest.raises(ResolutionError):
        space(index, requirements, probe(sys.executable))
    assert ask(pip_tools(), requirements) is None
