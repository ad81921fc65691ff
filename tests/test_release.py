"""What a release is refused for."""

import io
import tarfile
import zipfile
from pathlib import Path

import pytest

from tools.release import differing, disagreements, lacking

CHANGELOG = "# Changelog\n\n## {}\n\n## 0.0.9\n"


@pytest.mark.parametrize(
    ("heading", "tags", "here", "problem"),
    [
        ("Unreleased", [], [], ""),
        ("1.0.0", [], [], ""),
        ("1.0.0", ["v1.0.0"], ["v1.0.0"], ""),
        ("Unreleased", ["v1.0.0"], ["v1.0.0"], "the changelog begins with Unreleased"),
        ("1.0.0", ["v1.0.1"], ["v1.0.1"], "the tag v1.0.1, the package the version 1.0.0"),
        ("Unreleased", ["v1.0.0"], [], "the tag of another commit"),
        ("0.9.0", [], [], "the changelog begins with 0.9.0"),
        ("1.0.0", ["nightly"], ["nightly"], ""),
    ],
)
def test_version_changelog_and_tag_agree(
    heading: str, tags: list[str], here: list[str], problem: str
) -> None:
    found = disagreements("1.0.0", CHANGELOG.format(heading), tags, here)
    assert (problem in "\n".join(found)) if problem else not found


TRACKED = ("stackgen/__init__.py", "pis/numpy/sort.py", "kb/schema.sql", "tests/test_x.py")
WHEEL = {
    "stackgen/__init__.py",
    "stackgen/py.typed",
    "stackgen/_shipped/pis/numpy/sort.py",
    "stackgen/_shipped/kb/schema.sql",
    "stackgen-1.0.dist-info/licenses/LICENSE",
    "stackgen-1.0.dist-info/entry_points.txt",
    "stackgen-1.0.dist-info/METADATA",
}
SDIST = {*TRACKED, "LICENSE", "README.md", "pyproject.toml", "PKG-INFO"}


def made(folder: Path, wheel: set[str], sdist: set[str]) -> tuple[Path, Path]:
    with zipfile.ZipFile(folder / "x.whl", "w") as archive:
        for name in wheel:
            archive.writestr(name, "")
    with tarfile.open(folder / "x.tar.gz", "w:gz") as tar:
        for name in sdist:
            tar.addfile(tarfile.TarInfo(f"stackgen-1.0/{name}"), io.BytesIO())
    return folder / "x.whl", folder / "x.tar.gz"


def test_a_complete_release_lacks_nothing(tmp_path: Path) -> None:
    assert lacking(*made(tmp_path, WHEEL, SDIST), TRACKED) == []


@pytest.mark.parametrize("name", sorted(WHEEL - {"stackgen-1.0.dist-info/METADATA"}))
def test_a_wheel_without_code_data_types_or_licence_is_refused(tmp_path: Path, name: str) -> None:
    assert lacking(*made(tmp_path, WHEEL - {name}, SDIST), TRACKED) == [f"x.whl lacks {name}"]


def test_a_wheel_with_files_that_are_not_ours_is_refused(tmp_path: Path) -> None:
    wheel, sdist = made(tmp_path, WHEEL | {"tests/test_x.py"}, SDIST - {"LICENSE"})
    assert lacking(wheel, sdist, TRACKED) == [
        "x.whl holds tests/test_x.py",
        "x.tar.gz lacks LICENSE",
    ]


def test_builds_that_differ_are_named() -> None:
    one, other = {"a": b"1", "b": b"2"}, {"a": b"1", "b": b"3", "c": b""}
    assert differing(one, one) == []
    assert differing(one, other) == ["b", "c"]
