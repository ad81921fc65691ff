"""Real frameworks from the real index, each from one command to a ranking.

They use the user's cache (``STACKGEN_CACHE``), so that a second run downloads and builds nothing.
"""

import json
import os
import platform
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from stackgen.knowledge.database import open_database
from stackgen.model.inspections import Inspection, Outcome
from tests.containers.conftest import base, cache, engine  # noqa: F401 - fixtures

pytestmark = pytest.mark.network
CPU_TORCH = "torch==2.13.0+cpu"


@dataclass(frozen=True)
class Explored:
    """What one exploration reported, and what the knowledge base holds afterwards."""

    report: dict[str, Any]
    inspections: Sequence[Inspection]
    indicators: dict[str, str]

    def of(self, indicator: str) -> list[Inspection]:
        return [
            each for each in self.inspections if self.indicators[each.indicator_id] == indicator
        ]


def explore(kb: Path, *arguments: str) -> Explored:
    """Explore two stacks of real packages, everything but the knowledge base as the user has it."""
    command = [sys.executable, "-m", "stackgen", "explore", *arguments]
    done = subprocess.run(
        [*command, "--stacks", "2", "--json", "--kb", str(kb)],
        env={key: value for key, value in os.environ.items() if key != "STACKGEN_KB"},
        capture_output=True,
        text=True,
        check=False,
    )
    # On a busy machine the budget may end before six blocks (3), or a control may fail (6).
    assert done.returncode in (0, 3, 6), done.stderr
    report = json.loads(done.stdout)
    names = {each["indicator_id"]: each["label"].split()[0] for each in report["indicators"]}
    with open_database(kb) as database:
        return Explored(report, database.inspections(), names)


def assert_both_ran(explored: Explored, indicator: str, *compiled: str) -> None:
    """Both stacks were ranked, and their inspections went right with another NumPy in each."""
    ranked = {row["stack_id"]: row["label"] for row in explored.report["ranking"]}
    ran = explored.of(indicator)
    assert len(set(ranked.values())) == 2
    assert [each.log for each in ran if each.outcome is not Outcome.OK] == []
    assert {each.stack_id for each in ran} == set(ranked)
    numpy_of = {}
    for each in ran:
        assert each.observation is not None
        loaded = {item.name: item for item in each.observation.loaded}
        assert [name for name in compiled if not (name in loaded and loaded[name].compiled)] == []
        numpy_of[each.stack_id] = loaded["numpy"].version
    assert all(f"numpy {numpy_of[key]}" in label for key, label in ranked.items())
    assert len(set(numpy_of.values())) == 2


@pytest.fixture
def cpu_torch() -> str:
    """Return the requirement of PyTorch's CPU wheel where pip, as it is configured here, has it."""
    if sys.version_info[:2] != (3, 11):
        pytest.skip(
            f"the CPU wheel of PyTorch is for Python 3.11, this is {platform.python_version()}"
        )
    requested = subprocess.run(
        [sys.executable, "-m", "pip", "install", "--dry-run", "--no-deps", "--quiet", CPU_TORCH],
        capture_output=True,
        text=True,
        check=False,
    )
    if requested.returncode:
        why = (requested.stderr.strip().splitlines() or ["pip does not say why"])[-1]
        pytest.skip(f"no {CPU_TORCH} here (PIP_FIND_LINKS may name its folder): {why}")
    return CPU_TORCH


@pytest.fixture
def cpu_tensorflow() -> str:
    """Return a requirement of TensorFlow's CPU wheel that has one for this interpreter."""
    if (sys.platform, platform.machine()) != ("linux", "x86_64"):
        pytest.skip(f"tensorflow-cpu has no wheels for {sys.platform} {platform.machine()}")
    if sys.version_info >= (3, 14):
        pytest.skip(f"tensorflow-cpu has no wheels for Python {platform.python_version()}")
    return "tensorflow-cpu==2.16.*" if sys.version_info < (3, 13) else "tensorflow-cpu==2.21.*"


def test_pytorch_runs_with_two_numpys(cpu_torch: str, tmp_path: Path) -> None:
    where = ("--executor", "virtualenv", "--budget", "90s")
    explored = explore(tmp_path / "kb.db", cpu_torch, "numpy", *where)
    assert_both_ran(explored, "torch/matmul", "torch", "numpy")
    assert all("torch 2.13.0+cpu" in row["label"] for row in explored.report["ranking"])


def test_tensorflow_runs_with_two_numpys(cpu_tensorflow: str, tmp_path: Path) -> None:
    where = ("--executor", "virtualenv", "--budget", "90s")
    explored = explore(tmp_path / "kb.db", cpu_tensorflow, *where)
    assert_both_ran(explored, "tensorflow/matmul", "tensorflow-cpu", "numpy")


@pytest.mark.docker
@pytest.mark.usefixtures("base")
def test_numpy_runs_in_two_images(tmp_path: Path) -> None:
    where = ("--executor", "docker", "--base", "bookworm-py311", "--budget", "60s")
    explored = explore(tmp_path / "kb.db", "numpy", *where)
    assert explored.report["plan"]["setup"]["executor"] == "docker"
    assert explored.report["plan"]["setup"]["base"] == "bookworm-py311"
    assert_both_ran(explored, "numpy/matmul", "numpy")
    assert {each.unenforced for each in explored.inspections} == {()}


@pytest.mark.slow
@pytest.mark.docker
@pytest.mark.usefixtures("base")
def test_tensorflow_in_containers_is_answered_within_its_budget(tmp_path: Path) -> None:
    explored = explore(
        tmp_path / "kb.db",
        "tensorflow-cpu>=2.15,<2.18",
        "--executor",
        "docker",
        "--budget",
        "12m",
    )
    effects = [each for row in explored.report["ranking"] for each in row["effects"]]
    assert effects
    assert all(each["blocks"] >= 6 and each["low"] > 0 for each in effects)
    assert explored.report["run"]["seconds"] < 15 * 60
