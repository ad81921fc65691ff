"""docs/indicators.md says what is there: its example runs, its tables are complete."""

import ast
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from stackgen.campaign.indicators import load_indicators
from stackgen.indicators import declaration
from stackgen.indicators.declaration import bind, find
from stackgen.model import toml
from stackgen.model.inspections import Indicator, Outcome
from stackgen.storage.paths import shipped_folder
from tests.in_process import run_command

GUIDE = Path(__file__).parent.parent / "docs" / "indicators.md"
TEXT = GUIDE.read_text()
PIS = shipped_folder("pis")
CATALOGUE = re.compile(r"(<!-- catalogue:.*?-->\n)(.*?)(<!-- end of catalogue -->)", re.DOTALL)


def table(first: str) -> dict[str, tuple[str, ...]]:
    """Return the rows of the table whose first column has that heading, by their names."""
    lines = TEXT.split(f"\n| {first} |", 1)[1].splitlines()[2:]
    rows = {}
    for line in lines:
        if not line.startswith("|"):
            break
        cells = tuple(cell.strip() for cell in line.strip("|").split("|"))
        rows[cells[0]] = cells[1:]
    return rows


def names(first: str) -> set[str]:
    """Return what a table tells of: the names in its first column, without their quotes."""
    return {name for cell in table(first) for name in re.findall(r"`([^`]+)`", cell)}


@pytest.fixture(scope="module")
def example(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the guide's example as a file."""
    source, _ = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)
    path = tmp_path_factory.mktemp("guide") / "smooth.py"
    path.write_text(source)
    return path


def reported(example: Path, *options: str) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, "-s", "-B", str(example), "--samples", "3", *options],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": str(PIS)},
    )
    assert done.returncode == 0, done.stderr
    document: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return document


@pytest.fixture(scope="module")
def document(example: Path) -> dict[str, Any]:
    return reported(example, "--size", "10", "--window", "3", "--dtype", "float64")


def test_the_example_runs_and_counts_right(document: Mapping[str, Any]) -> None:
    assert (document["outcome"], document["reason"]) == ("ok", "")
    # By hand: eight averages of three products and three sums each.
    assert document["work"] == 48
    averages = [sum(range(first, first + 3)) / 97 / 3 for first in range(8)]
    assert document["checksum"] == pytest.approx(sum(averages) / 8)


def test_the_example_says_what_it_cannot_do(example: Path) -> None:
    found = reported(example, "--dtype", "bfloat16")
    assert (found["outcome"], found["reason"]) == ("unsupported", "NumPy has no bfloat16")


def test_the_example_is_an_indicator_for_explore(example: Path) -> None:
    mine = find(load_indicators(PIS, [example]), "smooth")
    call = bind(mine, {"window": "128"})
    assert mine.timeout_s == 60
    assert dict(call.arguments)["window"] == "128"


def test_the_example_runs_here_and_now(example: Path) -> None:
    done = run_command("pi", "run", str(example), "--window", "8,32", folder=example.parent)
    assert done.returncode == 0, done.stderr
    assert "smooth" in done.stdout


@pytest.fixture
def installed(tmp_path: Path) -> dict[str, str]:
    """Return the environment of a process beside which the guide's package is installed."""
    _, source = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)
    (project,) = re.findall(r"```toml\n(.*?)```", TEXT, re.DOTALL)
    folder = tmp_path / "signal-indicators"
    (folder / "signal_indicators").mkdir(parents=True)
    (folder / "signal_indicators" / "__init__.py").touch()
    (folder / "signal_indicators" / "speed.py").write_text(source)
    (folder / "pyproject.toml").write_text(project)
    return {**os.environ, "PYTHONPATH": str(install(folder, tmp_path / "site"))}


def install(folder: Path, site: Path) -> Path:
    """Write what an installer makes of the guide's package: files, metadata, entry points."""
    project = toml.loads((folder / "pyproject.toml").read_text())
    (group,) = project["project"]["entry-points"].items()
    (package,) = project["tool"]["setuptools"]["packages"]
    shutil.copytree(folder / package, site / package)
    info = site / f"{package}-1.dist-info"
    info.mkdir()
    name, version = project["project"]["name"], project["project"]["version"]
    metadata = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
    (info / "METADATA").write_text(metadata)
    rows = "".join(f"{key} = {value}\n" for key, value in group[1].items())
    (info / "entry_points.txt").write_text(f"[{group[0]}]\n{rows}")
    return site


@pytest.mark.journey
def test_the_package_of_the_guide_is_measured_by_name(installed: dict[str, str]) -> None:
    command = [sys.executable, "-m", "stackgen", "pi", "run"]
    for name, work in (("signal/smooth", 2 * 3 * 8), ("signal/difference", 3 * 9)):
        window = ["--window", "3"] if name == "signal/smooth" else []
        done = subprocess.run(
            [*command, name, "--size", "10", *window, "--samples", "3", "--json"],
            capture_output=True,
            text=True,
            check=False,
            env=installed,
        )
        assert done.returncode == 0, done.stderr
        (result,) = json.loads(done.stdout)["results"]
        (inspection,) = result["inspections"]
        assert inspection["outcome"] == "ok"
        assert inspection["observation"]["work"] == work


def test_every_field_of_the_document_is_reported(document: Mapping[str, Any]) -> None:
    assert names("field") == document.keys()


def test_every_circumstance_is_reported(document: Mapping[str, Any]) -> None:
    found = {re.sub(r"^env .*", "env ...", name) for name in document["circumstances"]}
    assert found - names("circumstance") == set()


def test_every_key_and_argument_is_reported() -> None:
    assert names("key") == declaration._KEYS
    assert names("key") | names("row") == declaration._ROW_KEYS
    assert names("argument") == arguments_of_an_operation()


def arguments_of_an_operation() -> set[str]:
    """Return the arguments of the harness's Operation, read without running it."""
    tree = ast.parse((PIS / "harness.py").read_text())
    (made,) = (each for each in tree.body if getattr(each, "name", "") == "Operation")
    (begins,) = (each for each in ast.walk(made) if getattr(each, "name", "") == "__init__")
    assert isinstance(begins, ast.FunctionDef)
    return {each.arg for each in begins.args.args} - {"self"}


def test_every_common_parameter_is_reported_with_its_values() -> None:
    common = declaration._common((PIS / "harness.py").read_text())
    rows = {name.strip("`"): cells for name, cells in table("name").items()}
    assert rows.keys() == common.keys()
    for name, declared in common.items():
        allowed = declared.get("allowed", ["a whole number"])
        assert isinstance(allowed, list)
        told_values, told_help = rows[name]
        assert told_values == ", ".join(allowed)
        assert told_help == declared["help"]


def test_every_outcome_is_reported() -> None:
    others = TEXT.split("what only an outsider sees:", 1)[1].split("\n", 1)[0]
    assert names("outcome") | set(re.findall(r"`(\w+)`", others)) == {
        each.value for each in Outcome
    }


def rows_of(component: str, indicators: Mapping[str, Indicator]) -> Iterator[str]:
    """Yield the table of a component's indicators."""
    yield f"### {component}"
    yield ""
    yield "| indicator | what it measures | counts | parameters and their defaults |"
    yield "|---|---|---|---|"
    for name, each in indicators.items():
        own = [f"{item.name}={item.default}" for item in each.parameters if item.name != "threads"]
        summary = each.summary.replace("|", "\\|")
        yield f"| `{name}` | {summary} | {each.unit or 'time'} | {' '.join(own)} |"
    yield ""


def catalogue() -> str:
    """Return the guide's last section, as the files below ``pis`` say it."""
    known = {each.name: each for each in load_indicators(PIS)}
    components = sorted({each.component for each in known.values()})
    lines = [
        line
        for component in components
        for line in rows_of(
            component, {name: each for name, each in known.items() if each.component == component}
        )
    ]
    return "\n" + "\n".join(lines) + "\n"


def test_the_catalogue_lists_every_indicator_with_its_defaults() -> None:
    found = CATALOGUE.search(TEXT)
    assert found is not None
    if os.environ.get("STACKGEN_GOLDEN") == "write":
        GUIDE.write_text(TEXT[: found.start(2)] + catalogue() + TEXT[found.end(2) :])
    else:
        assert found[2] == catalogue(), "make golden writes the list anew"
