"""The Python that a lock is for decides where it is explored, or is named in the refusal."""

import sys
from pathlib import Path

import pytest

from stackgen.campaign.backend import open_backend
from stackgen.campaign.options import IndexOptions
from stackgen.commands.explore import explore
from stackgen.commands.verify import verify
from stackgen.errors import UsageError
from stackgen.images.targets import find_interpreters, probe
from stackgen.model.choices import ExecutorChoice
from stackgen.model.progress import NullProgress
from stackgen.resolve.requirements import parse_requirements
from stackgen.storage.paths import Paths, find_paths
from tests.campaign_requests import campaign_request

OWN = f"{sys.version_info.major}.{sys.version_info.minor}"
LOCK = """
lock-version = "1.0"
created-by = "x"
requires-python = "{}"
[[packages]]
name = "numpy"
version = "1.26.4"
[packages.sdist]
url = "https://example.invalid/numpy-1.26.4.tar.gz"
hashes = {{sha256 = "{zeros}"}}
"""


@pytest.fixture
def paths(tmp_path: Path) -> Paths:
    return find_paths({"HOME": str(tmp_path), "STACKGEN_CACHE": str(tmp_path / "cache")})


def lock(folder: Path, requires_python: str) -> Path:
    path = folder / "pylock.toml"
    path.write_text(LOCK.format(requires_python, zeros="0" * 64))
    return path


def refusal(path: Path, paths: Paths, *, base: str = "") -> UsageError:
    request = campaign_request(
        requirements=parse_requirements("numpy"),
        lock=path,
        base=base,
        executor=ExecutorChoice.VIRTUALENV,
        dry_run=True,
        index=IndexOptions(offline=True, no_index=True),
    )
    with pytest.raises(UsageError) as refused:
        explore(request, paths, {}, NullProgress())
    return refused.value


def test_a_lock_that_no_python_here_fits_is_refused_by_its_python(
    tmp_path: Path, paths: Paths
) -> None:
    reported = refusal(lock(tmp_path, "==3.99.*"), paths)
    assert reported.what == f"{tmp_path / 'pylock.toml'} is for Python ==3.99.*"
    assert OWN in reported.why
    assert "--base" in reported.fix


def test_a_base_that_a_lock_does_not_fit_is_refused_with_those_that_do(
    tmp_path: Path, paths: Paths
) -> None:
    reported = refusal(lock(tmp_path, f"!={OWN}.*"), paths, base=sys.executable)
    assert f"is for Python !={OWN}" in reported.what
    named = {"3.9": "bullseye-py39", "3.13": "trixie-py313"}
    assert all(f"--base {base}" in reported.fix for minor, base in named.items() if minor != OWN)


def test_where_none_is_named_an_interpreter_that_fits_is_taken(paths: Paths) -> None:
    minors = [probe(path).target.python_minor for path in find_interpreters()]
    other = next((minor for minor in minors if minor != OWN), None)
    if other is None:
        pytest.skip(f"there is no other Python than {OWN} on this machine")

    def admits(python: str) -> bool:
        return python == other or python.startswith(f"{other}.")

    with open_backend(
        ExecutorChoice.VIRTUALENV, "", paths, NullProgress(), admits=admits
    ) as backend:
        assert backend.base.target.python_minor == other


def test_verify_names_the_python_that_a_lock_is_for(tmp_path: Path, paths: Paths) -> None:
    path = lock(tmp_path, "==3.99.*")
    with pytest.raises(UsageError, match=r"is for Python ==3\.99"):
        verify(path, IndexOptions(), paths, {}, NullProgress(), base="")
