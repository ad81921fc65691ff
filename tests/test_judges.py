"""Independent resolvers, uv and pip-tools, judge what we resolve from the real index.

They find the index by their own configuration. A stack is given to them whole, as pins, and they
must accept all of it and add nothing to it; of requirements that exclude each other they must say
what we say.
"""

import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from uv import find_uv_bin

from stackgen.builders.interpreters import find_interpreters, probe
from stackgen.errors import ResolutionError
from stackgen.index import PackageIndex, load_config
from stackgen.pipeline.places import find_places
from stackgen.pipeline.resolution import resolve
from stackgen.resolve import Slice, Space, asked, newest_first, parse_requirement
from stackgen.values import Base, Lock

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
    with PackageIndex(load_config(environ=os.environ), find_places(os.environ).cache) as each:
        yield each


def base(minor: str) -> Base:
    for python in find_interpreters():
        found = probe(python)
        if found.target.python_minor == minor:
            return found
    pytest.skip(f"no Python {minor} is installed here")


def space(index: PackageIndex, requirements: Sequence[str], on: Base) -> Space:
    return resolve(index, asked(*requirements), on.target)


def choices(found: Space, requirements: Sequence[str]) -> tuple[Slice, ...]:
    """Return three choices of what is varied: the newest, one from the middle, the last."""
    varied = [parse_requirement(each).name for each in requirements]
    ordered = newest_first(found.slices(varied))
    return ordered[0], ordered[len(ordered) // 2], ordered[-1]


def lines(lock: Lock) -> set[str]:
    return {f"{name}=={version}" for name, version in lock.versions.items()}


def uv(requirements: Sequence[str], python: str) -> set[str] | None:
    """Return what uv would install, or None where it finds nothing that satisfies."""
    options = ["--only-binary", ":all:", "--no-header", "--no-annotate", "--quiet"]
    done = subprocess.run(
        [find_uv_bin(), "pip", "compile", "-", "--python", python, *options],
        input="\n".join(requirements),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0 or "unsatisfiable" in done.stderr, done.stderr
    return set(done.stdout.split()) if done.returncode == 0 else None


def pip_tools(requirements: Sequence[str], folder: Path) -> set[str] | None:
    """Return what pip-compile would install in this interpreter, or None as above."""
    options = ["--no-header", "--no-annotate", "--strip-extras", "--allow-unsafe", "--quiet"]
    options += ["--no-emit-index-url", "--no-emit-trusted-host", "--no-emit-find-links"]
    options += ["--no-emit-options", "--pip-args", "--only-binary :all:", "--output-file", "-"]
    given = folder / "requirements.in"
    given.write_text("\n".join(requirements))
    done = subprocess.run(
        [sys.executable, "-m", "piptools", "compile", str(given), *options],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0 or "ResolutionImpossible" in done.stderr, done.stderr
    return set(done.stdout.split()) if done.returncode == 0 else None


@pytest.mark.parametrize(("minor", "requirements"), CLOSURES)
def test_uv_accepts_the_newest_completion_of_each_choice(
    index: PackageIndex, minor: str, requirements: tuple[str, ...]
) -> None:
    on = base(minor)
    found = space(index, requirements, on)
    for choice in choices(found, requirements):
        lock = found.complete(choice)
        assert lock is not None
        assert uv([*requirements, *lines(lock)], on.python) == lines(lock)


def test_pip_tools_accepts_the_newest_completion_of_each_choice(
    index: PackageIndex, tmp_path: Path
) -> None:
    found = space(index, SMALL, probe(sys.executable))
    for choice in choices(found, SMALL):
        lock = found.complete(choice)
        assert lock is not None
        assert pip_tools([*SMALL, *lines(lock)], tmp_path) == lines(lock)


@pytest.mark.parametrize(("minor", "requirements"), IMPOSSIBLE)
def test_uv_agrees_on_what_is_impossible(
    index: PackageIndex, minor: str, requirements: tuple[str, ...]
) -> None:
    on = base(minor)
    with pytest.raises(ResolutionError, match="no stack satisfies"):
        space(index, requirements, on)
    assert uv(requirements, on.python) is None


def test_pip_tools_agrees_on_what_is_impossible(index: PackageIndex, tmp_path: Path) -> None:
    requirements = ("scipy==1.11.4", "numpy>=2")
    with pytest.raises(ResolutionError):
        space(index, requirements, probe(sys.executable))
    assert pip_tools(requirements, tmp_path) is None
