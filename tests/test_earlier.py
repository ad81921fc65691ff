"""What earlier runs of a campaign compared stands, whoever leads in a later one."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from stackgen.measure import candidates_of, rank
from stackgen.model.inspections import Inspection, Role
from stackgen.model.stacks import Environment
from tests.laboratory import INDICATOR, WORK, Laboratory
from tests.local_index import Published, publish
from tests.samples import call, environment, inspection

NEW, OLD, OLDER, OLDEST = (environment(each) for each in ("2.4.0", "2.0.0", "1.26.4", "1.24.0"))
MATMUL = call()


def blocks(first: int, candidate: Environment, seconds: float) -> list[Inspection]:
    """Return ten blocks of the newest stack, of one second, and of another one."""
    return [
        each
        for block in range(first, first + 10)
        for each in (
            inspection(NEW, MATMUL, block, 1 + 0.001 * (block % 3), role=Role.BASELINE),
            inspection(candidate, MATMUL, block, seconds * (1 + 0.001 * (block % 2))),
        )
    ]


def test_who_was_compared_with_a_baseline_shares_blocks_with_it() -> None:
    seen = [*blocks(1, OLD, 0.9), *blocks(11, OLDER, 1.1)]
    searched = replace(seen[-1], stack_id=OLDEST.stack.id, role=Role.SEARCH, block=30)
    assert candidates_of([*seen, searched], NEW.stack.id) == {OLD.stack.id, OLDER.stack.id}
    assert candidates_of(seen, OLD.stack.id) == set()


def test_stacks_that_never_met_are_distinguished_where_their_intervals_are() -> None:
    seen = [*blocks(1, OLD, 0.9), *blocks(11, OLDER, 1.1), *blocks(21, OLDEST, 0.901)]
    labels = {each.stack.id: each.location for each in (NEW, OLD, OLDER, OLDEST)}
    found = rank(seen, labels=labels, baseline=NEW.stack.id, calls=[MATMUL])
    assert {row.label: row.best for row in found} == {
        "2.0.0": True,
        "1.24.0": True,
        "2.4.0": False,
        "1.26.4": False,
    }


@pytest.fixture
def laboratory(tmp_path: Path) -> Laboratory:
    """The older a release, the slower."""
    sizes = {"1.0": 40_000, "2.0": 20_000, "3.0": 10_000, "4.0": 6_000, "5.0": 4_000}
    speedy = {version: Published(source=WORK.format(size=size)) for version, size in sizes.items()}
    index = publish(tmp_path, {"speedy": speedy})
    (tmp_path / "work.py").write_text(INDICATOR)
    return Laboratory(root=tmp_path, index=index)


@pytest.mark.journey
def test_a_run_with_more_stacks_reports_what_one_with_fewer_compared(
    laboratory: Laboratory,
) -> None:
    first = laboratory.explore("speedy", "--stacks", "3", "--budget", "60s", "--json")
    assert first.returncode in (0, 6), first.stderr
    found = json.loads(first.stdout)
    compared = {row["label"] for row in found["ranking"]}
    baseline = next(row["stack_id"] for row in found["ranking"] if row["is_baseline"])
    reported = (first.returncode, found["answer"], found["winner"])
    assert reported in ((0, "nothing faster", baseline), (6, "controls failed", ""))
    assert compared == {"speedy 5.0", "speedy 4.0", "speedy 3.0"}
    done = laboratory.explore("speedy", "--stacks", "2", "--budget", "1s", "--json")
    report = json.loads(done.stdout)
    assert {row["label"] for row in report["ranking"]} == compared
    completions = {each["label"]: each["completion"] for each in report["stacks"]}
    assert completions["speedy 3.0"] == "earlier"
    assert report["run"]["untried"] == 2
    more = laboratory.explore("speedy", "--stacks", "5", "--budget", "10s", "--json")
    assert compared <= {row["label"] for row in json.loads(more.stdout)["ranking"]}
