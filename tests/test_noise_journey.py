"""One stack against itself, on a real virtualenv and an index in a folder."""

import json
import subprocess
from pathlib import Path

import pytest

from stackgen.knowledge.database import open_database
from stackgen.knowledge.loading import trusted_campaigns
from stackgen.model.inspections import Role
from tests.laboratory import INDICATOR, WORK, Laboratory
from tests.local_index import Published, publish

pytestmark = pytest.mark.journey

FAILS = INDICATOR.replace("speedy.work, checksum", "speedy.rest, checksum")


@pytest.fixture
def laboratory(tmp_path: Path) -> Laboratory:
    index = publish(tmp_path, {"speedy": {"1.0": Published(source=WORK.format(size=5000))}})
    (tmp_path / "work.py").write_text(INDICATOR)
    return Laboratory(root=tmp_path, index=index)


def measured(laboratory: Laboratory, *more: str) -> subprocess.CompletedProcess[str]:
    own = ("--pi", str(laboratory.root / "work.py"), "--executor", "virtualenv")
    return laboratory.run("noise", "speedy", *own, *more)


def test_the_same_command_goes_on_until_something_can_be_said(laboratory: Laboratory) -> None:
    short = measured(laboratory, "--budget", "1s", "--threads", "1")
    assert short.returncode == 3, short.stderr
    assert "too few blocks: " in short.stdout

    report = json.loads(measured(laboratory, "--budget", "10s", "--threads", "1", "--json").stdout)
    blocks = [row["blocks"] for row in report["indicators"]]
    assert blocks[0] == blocks[1]
    labels = ["work threads=1", "python/pure rounds=1500 threads=1"]
    assert [row["label"] for row in report["indicators"]] == labels
    assert (report["exit_code"] == 3) is (blocks[0] < 6)
    for row in report["indicators"]:
        assert bool(row["detectable"]) is (row["unusable"] == "")

    with open_database(laboratory.kb) as database:
        (campaign,) = database.campaigns()
        assert campaign.kind == "noise"
        seen = database.inspections()
        assert campaign.id not in trusted_campaigns(database, database.calls())
    in_blocks = [each for each in seen if each.block]
    assert len(in_blocks) >= 4 * blocks[0]
    assert 0 < report["new_inspections"] < len(in_blocks)
    assert {each.role for each in in_blocks} == {Role.BASELINE, Role.TWIN}
    assert len({each.stack_id for each in seen}) == 1


def test_a_plan_names_the_stack_and_measures_nothing(laboratory: Laboratory) -> None:
    plan = measured(laboratory, "--dry-run", "--threads", "1")
    assert plan.returncode == 0, plan.stderr
    assert plan.stdout.startswith("speedy 1.0 against itself")
    assert "By: work threads=1 and python/pure\n" in plan.stdout
    assert plan.stdout.endswith("Nothing was built.\n")
    assert not laboratory.kb.exists()


def test_what_does_not_run_is_reported_and_nothing_is_invented(laboratory: Laboratory) -> None:
    (laboratory.root / "work.py").write_text(FAILS)
    done = measured(laboratory, "--budget", "3s")
    assert done.returncode == 6
    assert "has no attribute 'rest'" in done.stderr
    assert done.stdout == ""


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--budget", "601s"), "give --budget 10m or less"),
        (("--budget", "soon"), "cannot read the budget"),
        (("--pi", "numpy/matmul"), "require it as well"),
        (("--pi", "matmull"), "no indicator is called"),
        ((), "there is no indicator for these packages"),
    ],
)
def test_what_cannot_be_measured_is_refused(
    laboratory: Laboratory, arguments: tuple[str, ...], message: str
) -> None:
    done = laboratory.run("noise", "speedy", "--executor", "virtualenv", *arguments)
    assert done.returncode == 2
    assert message in done.stderr
    assert "fix:" in done.stderr
