"""From evidence to advice, and from night to night, on real virtualenvs."""

import json
from pathlib import Path

import pytest

from stackgen.knowledge.database import open_database
from stackgen.storage.state import StateDatabase, state_path
from tests.laboratory import INDICATOR, WORK, Laboratory
from tests.local_index import Published, publish

pytestmark = pytest.mark.journey

SLOW, QUICK = Published(source=WORK.format(size=20_000)), Published(source=WORK.format(size=10_000))


@pytest.fixture
def laboratory(tmp_path: Path) -> Laboratory:
    index = publish(tmp_path, {"speedy": {"1.0": SLOW, "2.0": QUICK}})
    (tmp_path / "work.py").write_text(INDICATOR)
    return Laboratory(root=tmp_path, index=index)


def write_lock(folder: Path, version: str) -> Path:
    lock = folder / "Pipfile.lock"
    default = {"speedy": {"version": f"=={version}", "hashes": []}}
    meta = {"hash": {"sha256": "0"}, "pipfile-spec": 6, "requires": {}, "sources": []}
    lock.write_text(json.dumps({"_meta": meta, "default": default, "develop": {}}))
    return lock


def test_a_lock_is_unknown_then_explored_then_advised(laboratory: Laboratory) -> None:
    lock = write_lock(laboratory.root, "1.0")
    unknown = laboratory.run("advise", "Pipfile.lock")
    assert unknown.returncode == 3
    assert "stackgen explore NAME --from Pipfile.lock" in unknown.stdout

    explored = laboratory.explore("speedy", "--from", str(lock), "--stacks", "2", "--budget", "90s")
    assert explored.returncode in (0, 6), explored.stderr
    assert "your lock: speedy 1.0" in explored.stdout
    if explored.returncode == 6:
        pytest.skip("the machine is too noisy now: a control failed")

    advised = laboratory.run("advise", "Pipfile.lock", "--json")
    assert advised.returncode == 0, advised.stderr
    advice = json.loads(advised.stdout)["advice"]
    assert advice["changes"] == [{"name": "speedy", "current": "1.0", "recommended": "2.0"}]
    assert advice["effects"][0]["low"] > 1

    write_lock(laboratory.root, "2.0")
    best = laboratory.run("advise", "Pipfile.lock")
    assert best.returncode == 3
    assert "Recommended" not in best.stdout


def test_advise_measures_what_would_decide_its_answer(laboratory: Laboratory) -> None:
    (laboratory.root / "requirements.txt").write_text("speedy==1.0\n")
    own = ("advise", "requirements.txt", "--only", "speedy", "--pi", "work.py")
    measure = (*own, "--executor", "virtualenv", "--measure", "90s")
    plan = laboratory.run(*measure, "--dry-run")
    assert plan.returncode == 0, plan.stderr
    assert all(each in plan.stdout for each in ("your lock: speedy 1.0", "speedy 2.0", "By: "))
    with open_database(laboratory.kb) as database:
        assert database.campaigns() == ()

    measured = laboratory.run(*measure, "--json")
    report = json.loads(measured.stdout)
    assert report["runs"], measured.stderr
    with open_database(laboratory.kb) as database:
        campaigns = database.campaigns()
        assert {each.kind for each in campaigns} == {"advise"}
        assert len(campaigns) == len(report["runs"])
    if "A control failed" in measured.stderr:
        pytest.skip("the machine is too noisy now: a control failed")
    assert report["advice"]["scope"] == "these operations only"
    if measured.returncode == 0:
        assert [c["recommended"] for c in report["advice"]["changes"]] == ["2.0"]
        again = laboratory.run(*measure)
        assert "Nothing to measure" in again.stderr
        assert "Recommended on these operations only" in again.stdout
    else:
        assert report["advice"]["answer"] in ("no measurable difference", "not decided", "unknown")


WATCHED = "speedy | virtualenv cpython-{python} | work.py"


def test_a_night_measures_just_what_is_new(laboratory: Laboratory) -> None:
    own = ("--executor", "virtualenv", "--budget", "45s")
    arguments = ("nightly", "speedy", "--pi", "work.py", *own)
    first = laboratory.run(*arguments)
    assert first.returncode == 0, first.stderr
    assert "first night" in first.stdout
    quiet = laboratory.run(*arguments)
    assert quiet.stdout.startswith("speedy on ")
    assert "nothing new" in quiet.stdout.splitlines()[0]
    other = laboratory.run("nightly", "speedy", *own)
    assert "first night" in other.stdout  # by other indicators

    publish(laboratory.root, {"speedy": {"1.0": SLOW, "2.0": QUICK, "3.0": QUICK}})
    third = laboratory.run(*arguments, "--json")
    assert third.returncode in (0, 3, 7), third.stderr
    (night,) = json.loads(third.stdout)["nights"]
    assert night["events"] == ["speedy 3.0: released"]
    assert bool(night["undecided"]) == (third.returncode == 3)
    with open_database(laboratory.kb) as database:
        assert {each.kind for each in database.campaigns()} == {"nightly"}
        stacks = [tuple(each.lock.versions.items()) for each in database.stacks()]
    assert sorted(stacks) == [(("speedy", "2.0"),), (("speedy", "3.0"),)]


def test_what_earlier_versions_saw_is_where_a_night_begins(laboratory: Laboratory) -> None:
    with (
        open_database(laboratory.kb) as database,
        StateDatabase(state_path(laboratory.kb)) as state,
    ):
        seen = [("speedy", "1.0", "2024-06-16T00:00:00+00:00")]
        state.add_decided_releases(database.base_id, seen)
    own = ("--pi", "work.py", "--executor", "virtualenv")
    found = laboratory.run("nightly", "speedy", *own, "--check")
    assert "to be measured now: speedy 2.0" in found.stdout
    assert "  to download: 0.00 GB; on disk: about 0.0 GB (" in found.stdout
    found = laboratory.run("nightly", "speedy", *own, "--budget", "1s")
    assert "Traceback" not in found.stderr
    assert "speedy 2.0: released" in found.stdout
    assert found.returncode == 3


def test_a_check_lists_what_would_be_measured_not_what_only_comes_back(
    laboratory: Laboratory,
) -> None:
    nightly = ("nightly", "speedy", "--pi", "work.py", "--executor", "virtualenv", "--budget", "1s")

    def offered(*versions: str) -> None:
        publish(laboratory.root, {"speedy": dict.fromkeys(versions, SLOW)})

    laboratory.run(*nightly)
    offered("2.0")
    assert "speedy 1.0: gone" in laboratory.run(*nightly).stdout
    offered("1.0", "2.0", "3.0")
    assert "to be measured now: speedy 3.0\n" in laboratory.run(*nightly, "--check").stdout
    found = laboratory.run(*nightly).stdout  # the budget ends before speedy 3.0
    assert "speedy 1.0 is back, with the same files: not measured again" in found
    assert "to be measured now: speedy 3.0\n" in laboratory.run(*nightly, "--check").stdout
    offered("1.0", "2.0")
    assert "to be measured now: nothing new\n" in laboratory.run(*nightly, "--check").stdout


WATCHES = """
[watch.fine]
requirements = ["speedy"]
executor = "virtualenv"
pi = ["work.py"]
[watch.wrong]
requirements = ["speedy"]
executor = "virtualenv"
pi = ["mtmul"]
notify = ["github-issue:issues"]
metrics = ["file:metrics"]
"""


def test_a_check_names_all_that_a_night_would_stumble_over(laboratory: Laboratory) -> None:
    (laboratory.root / "stackgen.toml").write_text(WATCHES)
    found = laboratory.run("nightly", "--check", "--watch", "fine", "--releases", "1")
    assert found.returncode == 0, found.stderr
    assert "  indicators: work" in found.stdout
    found = laboratory.run("nightly", "--check")
    problems = [each for each in found.stdout.splitlines() if each.startswith("  problem: ")]
    assert (found.returncode, len(problems)) == (2, 3), found.stderr
    assert problems[-1].startswith("  problem: no indicator is called 'mtmul'")
    assert "issues: there is no such folder" in problems[0]
    assert "metrics: there is no such folder" in problems[1]


@pytest.mark.parametrize("name", ["", " ", "|", "speedy>=2", "speedy[extra]", "speedy 2"])
def test_what_is_no_name_of_a_package_is_not_watched(laboratory: Laboratory, name: str) -> None:
    refused = laboratory.run("nightly", name, "--executor", "virtualenv")
    assert refused.returncode == 2
    assert refused.stderr.startswith("error: cannot ")
