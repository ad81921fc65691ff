"""Files are told apart by name, then by content; what is none of ours is named with the way out."""

import pytest

from stackgen.errors import UsageError
from tests.locks.requirement_files import parsed
from tests.locks.samples import text as sample


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("requirements.txt", "numpy\n"),
        ("requirements/dev.in", "numpy\n"),
        ("wanted", "\ufeffnumpy\n"),
        ("pyproject.toml", "[project]\ndependencies = ['numpy']\n"),
        ("other.toml", "# mine\n[project]\ndependencies = ['numpy']\n"),
        ("other.toml", "[project]\ndependencies = ['numpy']\n[tool.x]\na = [\n{b = 1},\n]\n"),
        ("sub\\pyproject.toml", "[project]\ndependencies = ['numpy']\n"),
        ("poetry.toml", "[tool.poetry.dependencies]\nnumpy = '*'\n"),
        ("Pipfile", "[packages]\nnumpy = '*'\n"),
        ("wanted", "[packages]\nnumpy = '*'\n"),
    ],
)
def test_the_format_follows_from_name_and_content(path: str, text: str) -> None:
    assert parsed(text, path=path).requirements == ("numpy",)


@pytest.mark.parametrize(
    "name",
    [
        *("pipenv/Pipfile.lock", "poetry1/poetry.lock", "poetry2/poetry.lock"),
        *("uv/uv.lock", "uv/pylock.toml", "pip/pylock.toml"),
    ],
)
@pytest.mark.parametrize("renamed", [False, True])
def test_a_lock_is_sent_where_locks_belong(name: str, renamed: bool) -> None:
    path = "file.txt" if renamed else name
    with pytest.raises(UsageError) as caught:
        parsed(sample(name), path=path)
    assert "is a lock" in caught.value.what
    assert f"stackgen verify {path}" in caught.value.fix


@pytest.mark.parametrize(
    ("path", "text", "message", "way_out"),
    [
        ("environment.yml", "dependencies:\n  - numpy\n", "conda", "pip list --format=freeze"),
        ("env.txt", "name: x\nchannels:\n  - y\n", "conda", "pip list --format=freeze"),
        ("explicit.txt", "@EXPLICIT\nhttps://x.invalid/a\n", "conda", "pip list --format=freeze"),
        ("setup.py", "import setuptools\n", "setup.py", "uv pip compile setup.py"),
        ("setup.cfg", "[options]\ninstall_requires = numpy\n", "setup.cfg", "uv pip compile"),
        ("mine.cfg", "[options]\ninstall_requires = numpy\n", "mine.cfg", "uv pip compile"),
        ("run.py", "import os\n", "Python code", "give a requirements file"),
        ("other.yaml", "a: b\n", "YAML", "give a requirements file"),
        ("requirements.txt", "", "it is empty", "give a requirements file"),
        ("requirements.txt", "<!doctype html>", "HTML", "give a requirements file"),
        ("a.whl", "PK\x00", "binary", "give a requirements file"),
        ("settings.toml", "a = 1\n", "neither a pyproject.toml", "give a requirements file"),
    ],
)
def test_a_file_of_another_tool_is_named_with_the_way_out(
    path: str, text: str, message: str, way_out: str
) -> None:
    with pytest.raises(UsageError) as caught:
        parsed(text, path=path)
    assert path in caught.value.what
    assert message in str(caught.value)
    assert way_out in caught.value.fix
    assert caught.value.exit_code == 2


@pytest.mark.parametrize("kind", ["extra", "group"])
def test_a_requirements_file_has_neither_extras_nor_groups(kind: str) -> None:
    with pytest.raises(UsageError) as caught:
        parsed("numpy\n", **{f"{kind}s": ("dev",)})  # type: ignore[arg-type]
    assert caught.value.what == f"requirements.txt has no {kind} 'dev'"
    assert caught.value.why == f"it has no {kind}s at all"
