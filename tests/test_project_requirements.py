"""What ``--from`` takes: a lock, or what a project requires."""

from pathlib import Path

import pytest

from stackgen.campaign.options import IndexOptions, RequirementOptions, SourceOptions
from stackgen.campaign.user_input import UserInput, read_user_input
from stackgen.errors import UsageError


def read(path: Path, *requirements: str, **options: object) -> UserInput:
    given = RequirementOptions(requirements=requirements, **options)  # type: ignore[arg-type]
    return read_user_input(given, SourceOptions(), IndexOptions(), {}, around=path)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("requirements.txt", "numpy>=1.24\ntqdm<5\n"),
        ("requirements.in", "numpy>=1.24\ntqdm<5\n"),
        ("pyproject.toml", '[project]\nname="x"\ndependencies=["numpy>=1.24", "tqdm<5"]\n'),
        ("Pipfile", '[packages]\nnumpy = ">=1.24"\ntqdm = "<5"\n'),
    ],
)
def test_what_a_project_requires_is_in_every_stack(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / name).write_text(text)
    found = read(tmp_path / name)
    assert found.requirements.texts == ("numpy>=1.24", "tqdm<5")
    assert found.project == ("numpy", "tqdm")
    assert found.lock is None


def test_a_lock_is_still_a_lock(tmp_path: Path) -> None:
    lock = tmp_path / "requirements.txt"
    lock.write_text("numpy==1.26.4\ntqdm==4.66.0\n")
    found = read(lock)
    assert found.lock == lock
    assert found.project == found.requirements.texts == ()


def test_what_is_named_besides_says_its_versions_alone(tmp_path: Path) -> None:
    (tmp_path / "requirements.txt").write_text("Torch[opt]==2.1\nnumpy==1.26.4\ntqdm\n")
    found = read(tmp_path / "requirements.txt", "torch>=2", "numpy")
    assert found.requirements.texts == ("torch>=2", "numpy", "Torch[opt]", "tqdm")
    assert found.project == ("tqdm",)


def test_extras_of_a_projects_file_can_be_requested(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text(
        '[project]\nname="x"\ndependencies=["a"]\n[project.optional-dependencies]\nfast=["b"]\n'
    )
    found = read(tmp_path / "pyproject.toml", extras=("fast",))
    assert found.project == ("a", "b")


def test_a_broken_lock_is_not_taken_for_something_else(tmp_path: Path) -> None:
    (tmp_path / "poetry.lock").write_text("[[package]]\n")
    with pytest.raises(UsageError, match=r"poetry\.lock"):
        read(tmp_path / "poetry.lock")
