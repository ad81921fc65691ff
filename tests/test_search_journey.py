"""Races on real virtualenvs and an index in a folder: what is fastest is found and confirmed."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from stackgen.knowledge.database import open_database
from stackgen.model.inspections import Inspection, Role
from tests.laboratory import INDICATOR, WORK, Laboratory
from tests.local_index import Published, publish

pytestmark = pytest.mark.journey
SIZES = {"1.0": 40_000, "2.0": 30_000, "3.0": 10_000, "4.0": 40_000, "5.0": 30_000, "6.0": 40_000}
# It ends by decision, long before its time; a slow machine gets there, too.
RACE = ("speedy", "--budget", "180s", "--json", "--seed", "3")


@pytest.fixture(scope="module")
def laboratory(tmp_path_factory: pytest.TempPathFactory) -> Laboratory:
    """3.0 does a third of the work of the others, or less; 7.0 never runs."""
    root = tmp_path_factory.mktemp("race")
    works = {version: Published(source=WORK.format(size=size)) for version, size in SIZES.items()}
    broken = {"7.0": Published(source="raise ImportError('hopeless')")}
    index = publish(root, {"speedy": works | broken})
    (root / "work.py").write_text(INDICATOR)
    return Laboratory(root=root, index=index)


def recorded(kb: Path) -> list[Inspection]:
    with open_database(kb) as database:
        return list(database.inspections())


@pytest.fixture(scope="module")
def raced(laboratory: Laboratory) -> Mapping[str, Any]:
    """Return the report of one race."""
    done = laboratory.explore(*RACE)
    assert done.returncode in (0, 6), done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_the_fastest_is_found_and_confirmed(raced: Mapping[str, Any]) -> None:
    assert raced["search"]["predictions"][0]["label"] == "speedy 3.0"
    fastest = next(row for row in raced["ranking"] if row["label"] == "speedy 3.0")
    assert fastest["effects"][0]["verdict"] == "faster"
    assert fastest["effects"][0]["blocks"] >= 6


def test_only_the_baseline_and_two_others_are_compared(raced: Mapping[str, Any]) -> None:
    assert len(raced["ranking"]) == 3
    baseline = next(row for row in raced["ranking"] if row["is_baseline"])
    assert baseline["label"] == "speedy 6.0"  # the newest that runs


def test_effects_rest_on_fresh_blocks_alone(
    raced: Mapping[str, Any], laboratory: Laboratory
) -> None:
    seen = recorded(laboratory.kb)
    searching = {each.block for each in seen if each.role is Role.SEARCH}
    comparing = {each.block for each in seen if each.role is Role.CANDIDATE}
    assert searching
    assert comparing
    assert not searching & comparing
    assert raced["search"]["blocks"] == len(searching)


def test_every_choice_has_its_place_in_the_report(raced: Mapping[str, Any]) -> None:
    assert {each["label"] for each in raced["search"]["predictions"]} == {
        f"speedy {version}" for version in SIZES
    }
    assert [each["label"] for each in raced["failed"]] == ["speedy 7.0"]
    assert raced["search"]["uniform_inspections"] > 0


def test_the_same_command_adds_nothing(raced: Mapping[str, Any], laboratory: Laboratory) -> None:
    before = {each.id for each in recorded(laboratory.kb)}
    again = laboratory.explore(*RACE)
    assert again.returncode in (0, 6), again.stderr
    after = {each.id for each in recorded(laboratory.kb)}
    assert before <= after
    # Where the time of the first one was over, on a slow machine, this one goes on.
    sure = raced["search"]["confidence"] >= raced["search"]["required_confidence"]
    if sure and raced["run"]["stopped"] == "every comparison is decided":
        assert json.loads(again.stdout)["ranking"] == raced["ranking"]
        assert after == before


@pytest.mark.usefixtures("raced")  # what it made ready need not be made within this budget
@pytest.mark.parametrize("strategy", ["random", "pairwise"])
def test_other_strategies_search_otherwise(
    laboratory: Laboratory, strategy: str, tmp_path: Path
) -> None:
    kb = str(tmp_path / "kb.db")
    done = laboratory.explore(
        "speedy", "--strategy", strategy, "--budget", "25s", "--json", "--kb", kb
    )
    assert done.returncode in (0, 3, 6), done.stderr
    assert json.loads(done.stdout)["search"]["strategy"] == strategy


@pytest.mark.usefixtures("raced")
def test_exhaustive_measures_every_stack_in_every_block(
    laboratory: Laboratory, tmp_path: Path
) -> None:
    kb = tmp_path / "kb.db"
    done = laboratory.explore(
        "speedy", "--strategy", "exhaustive", "--budget", "20s", "--json", "--kb", str(kb)
    )
    assert done.returncode in (0, 3, 6), done.stderr
    report = json.loads(done.stdout)
    assert report["search"] is None
    assert len(report["ranking"]) == len(SIZES)
    first = [each for each in recorded(kb) if each.block == 1 and each.role is Role.CANDIDATE]
    # One of them takes part in the control as well.
    assert len({each.stack_id for each in first}) == len(SIZES) - 1


def test_the_budget_that_allows_no_search_is_reported(
    laboratory: Laboratory, tmp_path: Path
) -> None:
    kb = str(tmp_path / "kb.db")
    done = laboratory.explore("speedy", "--budget", "1s", "--kb", kb)
    assert done.returncode == 3, done.stderr
    assert "Not" in done.stdout
