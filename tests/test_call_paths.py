"""The call paths of CONTRIBUTING.md are those that commands really take."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from stackgen.knowledge.database import open_database
from tests.laboratory import Laboratory
from tests.local_index import Published, publish

ROOT = Path(__file__).parents[1]


def paths() -> dict[str, list[str]]:
    """Return the documented steps, by command."""
    text = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
    lines = re.findall(r"^- `stackgen ([^`]+)`, to [^:]+: (.+)$", text, re.MULTILINE)
    return {command: re.findall(r"`([^`]+)`", steps) for command, steps in lines}


PATHS = paths()


def traced(command: str, *arguments: str, environ: dict[str, str]) -> list[list[str]]:
    """Return the ways in which a command reached the last documented step."""
    file, function = PATHS[command][-1].split()
    done = subprocess.run(
        [sys.executable, str(ROOT / "tests" / "traced.py"), file, function, *arguments],
        capture_output=True,
        text=True,
        check=False,
        env=environ,
    )
    assert "[[" in done.stderr, done
    ways: list[list[str]] = json.loads(done.stderr.splitlines()[-1])
    return ways


@pytest.fixture
def laboratory(tmp_path: Path) -> Laboratory:
    index = publish(tmp_path / "index", {"speedy": {"1.0": Published(), "2.0": Published()}})
    return Laboratory(root=tmp_path, index=index)


@pytest.mark.parametrize("command", PATHS)
def test_every_step_exists(command: str) -> None:
    for step in PATHS[command]:
        file, function = step.split()
        text = (ROOT / "stackgen" / file).read_text("utf-8")
        assert re.search(rf"^\s*def {function}\(", text, re.MULTILINE), step


def test_resolve_takes_its_path(laboratory: Laboratory) -> None:
    words = ("resolve", "speedy", "--count")
    ways = traced("resolve --count", *words, environ=laboratory.environ)
    assert PATHS["resolve --count"] in ways


def test_advise_takes_its_path(laboratory: Laboratory) -> None:
    (laboratory.root / "requirements.txt").write_text("speedy==1.0\n")
    open_database(laboratory.kb).close()
    words = ("advise", str(laboratory.root / "requirements.txt"))
    assert PATHS["advise"] in traced("advise", *words, environ=laboratory.environ)


@pytest.mark.journey
def test_explore_takes_its_path(laboratory: Laboratory) -> None:
    words = ("explore", "speedy", "--granularity", "patch", "--budget", "15s")
    own = ("--executor", "virtualenv", "--pi-command", "python -c pass")
    project = ("--project", str(laboratory.root / "index"))
    ways = traced("explore", *words, *own, *project, environ=laboratory.environ)
    assert PATHS["explore"] in ways


def test_the_table_of_where_things_are_names_files_and_definitions_that_exist() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
    table = text.partition("## Where things are")[2].partition("\n## ")[0]
    files = re.findall(r"`([\w/]+\.py)`", table)
    assert len(files) > 10
    places = (ROOT / "stackgen", ROOT)
    assert [e for e in files if not any((place / e).is_file() for place in places)] == []
    definitions = re.findall(r"`(\w+)` of `([\w/]+\.py)`", table)
    assert {"BudgetOptions", "RetryPolicy", "_READERS"} <= {name for name, _ in definitions}
    for name, file in definitions:
        defined = rf"^\s*(class|def) {name}\b|^{name}\b.*= "
        assert re.search(defined, (ROOT / "stackgen" / file).read_text("utf-8"), re.MULTILINE), name
