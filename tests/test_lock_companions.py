"""Which file beside a lock says what was asked for."""

import shutil
from pathlib import Path

import pytest

from stackgen.campaign.candidates import read_lock_file
from tests.locks.samples import FOLDER


@pytest.mark.parametrize(
    ("folder", "lock"),
    [
        ("pipenv", "Pipfile.lock"),
        ("poetry2", "poetry.lock"),
        ("pip-tools", "requirements.txt"),
        ("uv", "uv.lock"),
    ],
)
def test_what_was_requested_is_read_from_beside_the_lock(folder: str, lock: str) -> None:
    found = read_lock_file(FOLDER / folder / lock)
    assert set(found.requirements) == {"tensorflow==2.12.*", "requests[socks]>=2.31"}


def test_a_pyproject_beside_a_requirements_file_is_no_part_of_it(tmp_path: Path) -> None:
    shutil.copy(FOLDER / "pip-tools" / "requirements.txt", tmp_path)
    shutil.copy(FOLDER / "poetry2" / "pyproject.toml", tmp_path)
    found = read_lock_file(tmp_path / "requirements.txt")
    assert found.requirements == ()
    assert len(found.packages) == 45
