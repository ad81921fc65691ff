"""Explore from a requirement to a ranking, on real virtualenvs and an index in a folder."""

import json
import shlex
import signal
import subprocess
import time
from pathlib import Path

import pytest

from stackgen.executors.machine import this_machine
from stackgen.knowledge.database import open_database
from stackgen.model.inspections import Outcome
from tests.killed_executor import eventually, processes_with
from tests.laboratory import INDICATOR, WORK, Laboratory
from tests.local_index import Published, publish

pytestmark = pytest.mark.journey


@pytest.fixture
def laboratory(tmp_path: Path) -> Laboratory:
    """2.0 does half the work of 1.0; 3.0 runs with an old gear only; 4.0 and 5.0 never run."""
    old = "import gear\ngear.OLD\n"
    index = publish(
        tmp_path,
        {
            "speedy": {
                "1.0": Published(source=WORK.format(size=20_000)),
                "2.0": Published(source=WORK.format(size=10_000)),
                "3.0": Published(
                    source=old + WORK.format(size=10_000),
                    requires=["gear"],
                    uploaded="2024-02-01T00:00:00Z",
                ),
                "4.0": Published(source="raise ImportError('hopeless')"),
                "5.0": Published(source="raise ImportError('hopeless')"),
            },
            "gear": {
                "1.0": Published(source="OLD = 1"),
                "2.0": Published(source="NEW = 1", uploaded="2026-01-01T00:00:00Z"),
            },
        },
    )
    (tmp_path / "work.py").write_text(INDICATOR)
    return Laboratory(root=tmp_path, index=index)


def test_the_stack_that_does_half_the_work_is_found_to_be_faster(laboratory: Laboratory) -> None:
    done = laboratory.explore("speedy<3", "--stacks", "2", "--budget", "90s", "--json")
    assert done.returncode in (0, 6), done.stderr
    report = json.loads(done.stdout)
    assert report["plan"]["count"] == 2
    slower = next(row for row in report["ranking"] if not row["is_baseline"])
    (effect,) = slower["effects"]
    assert slower["label"] == "speedy 1.0"
    assert effect["verdict"] == "slower"
    assert 0.25 < effect["ratio"] < 0.75  # half the work, on a machine that may be busy
    assert report["goals"]["imported"] == "speedy"
    for row in report["goals"]["stacks"]:
        assert row["import_s"] > 0
        assert row["import_peak_bytes"] > 1_000_000
        assert row["size"]["installed_bytes"] > row["size"]["download_bytes"] // 10


def test_older_dependencies_are_found_where_the_newest_do_not_run(laboratory: Laboratory) -> None:
    done = laboratory.explore("speedy>=2,<4", "--stacks", "2", "--budget", "12s")
    assert done.returncode in (0, 3, 6), done.stderr
    assert "speedy 3.0: gear 1.0" in done.stdout
    with open_database(laboratory.kb) as database:
        outcomes = [each.outcome for each in database.inspections()]
    assert Outcome.IMPORT_FAILED in outcomes


def test_a_stack_that_never_runs_is_recorded_and_reported(laboratory: Laboratory) -> None:
    done = laboratory.explore("speedy", "--stacks", "2", "--budget", "20s", "--fix", "gear")
    assert done.returncode in (0, 3, 6), done.stderr
    assert "speedy 5.0: import_failed: ImportError: hopeless" in done.stdout


def test_where_nothing_runs_the_reason_is_reported(laboratory: Laboratory) -> None:
    done = laboratory.explore("speedy>=4", "--stacks", "2", "--budget", "20s")
    assert done.returncode == 5
    assert "hopeless" in done.stderr
    assert "Traceback (most" not in done.stderr.splitlines()[0]
    assert "see: stackgen kb failures;" in done.stderr
    other = laboratory.root / "an other.db"
    done = laboratory.explore("speedy==5", "speedy", "--kb", str(other), "--stacks", "2",
                              "--set", "GEAR=1,2", "--budget", "20s")  # fmt: skip
    command = shlex.split(done.stderr.partition("see: ")[2].partition(";")[0])
    assert command[1:3] == ["kb", "failures"]
    reported = laboratory.run(*command[1:]).stdout
    assert "hopeless" in reported
    command = shlex.split(reported.partition("all of its versions: ")[2].splitlines()[0])
    assert "speedy" in laboratory.run(*command[1:]).stdout


def test_gpus_that_are_not_there_are_not_passed_over(laboratory: Laboratory) -> None:
    there = any(name.startswith("gpu0") for name, _ in this_machine().identity)
    done = laboratory.explore("speedy>=4", "--gpus", "all", "--budget", "30s")
    assert ("No GPU was found here" in done.stderr) is not there


def test_a_plan_builds_nothing(laboratory: Laboratory) -> None:
    done = laboratory.explore("speedy", "--dry-run")
    assert done.returncode == 0
    assert "Nothing was built" in done.stdout
    assert not laboratory.kb.exists()
    assert not (laboratory.root / "cache" / "virtualenvs").exists()
    assert "Nothing is decided within" not in done.stdout


def test_a_plan_of_one_stack_is_refused_as_its_run_would_be(laboratory: Laboratory) -> None:
    done = laboratory.explore("speedy", "--stacks", "1", "--dry-run")
    assert done.returncode == 3
    assert "one takes part" in done.stderr
    assert "--stacks 2" in done.stderr


def test_a_plan_says_which_budget_is_too_short(laboratory: Laboratory) -> None:
    done = laboratory.explore("speedy", "--dry-run", "--budget", "10")
    assert "Nothing is decided within 10s: a new campaign needs about " in done.stdout


def test_a_confidence_where_nothing_is_searched_is_refused(laboratory: Laboratory) -> None:
    done = laboratory.explore("speedy", "--strategy", "newest", "--confidence", "0.9")
    assert done.returncode == 2
    assert "--confidence ends a search, and there is none" in done.stderr
    assert "--strategy racing" in done.stderr


@pytest.mark.usefixtures("signals_as_usual")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_interrupting_prints_the_ranking_so_far(
    laboratory: Laboratory, number: signal.Signals
) -> None:
    with laboratory.exploring("speedy<3", "--stacks", "2", "--budget", "120s") as running:
        _wait_for_inspections(laboratory, 8, running)
        running.send_signal(number)
        out, err = running.communicate(timeout=300)
    assert running.returncode == 128 + number, err
    assert "speedy 2.0" in out
    assert "continues from there" in out
    _assert_nothing_is_left(laboratory)


@pytest.mark.usefixtures("signals_as_usual")
def test_a_second_signal_ends_it_at_once_and_leaves_nothing(laboratory: Laboratory) -> None:
    with laboratory.exploring("speedy<3", "--stacks", "2", "--budget", "120s") as running:
        _wait_for_inspections(laboratory, 8, running)
        running.send_signal(signal.SIGINT)
        running.send_signal(signal.SIGTERM)
        out, err = running.communicate(timeout=300)
    assert running.returncode == 128 + signal.SIGTERM, err
    assert out == "", err
    assert err.splitlines()[-1].startswith("interrupted again: ended at once")
    assert "Traceback" not in err
    _assert_nothing_is_left(laboratory)
    with open_database(laboratory.kb) as database:
        assert len(database.inspections()) >= 8


@pytest.mark.usefixtures("signals_as_usual")
def test_what_was_to_be_ignored_stays_ignored(laboratory: Laboratory) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # as for the background jobs of a script
    with laboratory.exploring("speedy<3", "--stacks", "2", "--budget", "120s", "--json") as running:
        found = _wait_for_inspections(laboratory, 1, running)
        running.send_signal(signal.SIGINT)
        _wait_for_inspections(laboratory, found + 4, running)
        running.send_signal(signal.SIGTERM)
        out, err = running.communicate(timeout=300)
    report = json.loads(out)
    assert (report["run"]["interrupted"], report["run"]["exit_code"]) == (
        True,
        128 + signal.SIGTERM,
    )
    assert running.returncode == report["run"]["exit_code"], err


def _assert_nothing_is_left(laboratory: Laboratory) -> None:
    """Assert that no scratch folder is left, and soon no process either."""
    scratch = laboratory.root / "cache" / "scratch"
    assert list(scratch.iterdir()) == []
    assert eventually(lambda: not processes_with(str(laboratory.root)))


def _wait_for_inspections(
    laboratory: Laboratory, count: int, running: subprocess.Popen[str]
) -> int:
    for _ in range(3000):  # others may be measuring on this machine
        time.sleep(0.1)
        if running.poll() is not None:
            pytest.fail(f"it ended early: {running.communicate()[1]}")
        if laboratory.kb.exists():
            with open_database(laboratory.kb) as database:
                if (found := len(database.inspections())) >= count:
                    return found
    pytest.fail("too little was measured within five minutes")


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (("no-such-package-here",), 4, "no package named no-such-package-here"),
        (("speedy>=9",), 4, "speedy"),
        (("speedy==3.0", "gear>=3"), 4, "gear"),
        (("speedy>>1",), 2, "cannot read the requirement"),
        (("speedy", "--vary", "torch"), 4, "no package named torch"),
        (("speedy", "--fix", "speedy"), 2, "nothing is left to vary"),
        (("speedy==2.0",), 3, "only one stack"),
        (("speedy>=3", "speedy<2"), 4, "leave out"),
        (("speedy", "--budget", "soon"), 2, "cannot read the budget"),
        (("speedy", "--base", "3.99"), 2, "no interpreter"),
        (("speedy", "--pi", "nothing-like-this"), 2, "nothing-like-this"),
        ((), 2, "nothing to explore"),
    ],
)
def test_bad_input_gives_what_why_and_how_to_fix(
    laboratory: Laboratory, arguments: tuple[str, ...], code: int, message: str
) -> None:
    done = laboratory.explore(*arguments)
    assert done.returncode == code, done.stderr
    reported = [
        line for line in done.stderr.splitlines() if line.startswith(("error:", "  why:", "  fix:"))
    ]
    assert message in done.stderr
    assert [line.split(":")[0].strip() for line in reported] == ["error", "why", "fix"]
    assert done.stdout == ""


def test_a_misspelt_package_that_is_not_to_vary_is_reported(laboratory: Laboratory) -> None:
    names = ("--fix", "Gear", "--fix", "gaer")
    done = laboratory.explore("speedy", "gear", *names, "--dry-run")
    assert done.returncode == 0, done.stderr
    assert [e for e in done.stderr.splitlines() if "no effect" in e] == [
        "--fix gaer has no effect: no stack has such a package."
    ]


def test_an_unquoted_requirement_is_noticed_before_anything_happens(
    laboratory: Laboratory,
) -> None:
    redirected = laboratory.root / "=2.7"
    with redirected.open("w") as output:
        done = subprocess.run(
            laboratory.explore_command("speedy"),
            env=laboratory.environ,
            stdout=output,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert done.returncode == 2
    assert "quotes" in done.stderr
    assert redirected.read_text() == ""


def test_a_stack_that_is_fast_because_it_computes_something_else_is_reported_and_never_recommended(
    tmp_path: Path,
) -> None:
    total = sum(i * i for i in range(10_000))
    half = f"def work():\n    return {total} + sum(i * i for i in range(10_000, 20_000))\n"
    index = publish(
        tmp_path,
        {
            "speedy": {
                "1.0": Published(source=half),
                "2.0": Published(source=WORK.format(size=5_000)),  # a quarter, and wrong
                "3.0": Published(source=WORK.format(size=20_000)),
            }
        },
    )
    (tmp_path / "work.py").write_text(INDICATOR.replace("lambda: 1.0", "speedy.work"))
    (tmp_path / "requirements.txt").write_text("speedy==3.0\n")
    laboratory = Laboratory(root=tmp_path, index=index)
    requested = ("speedy", "--stacks", "3", "--budget", "90s")

    report = json.loads(laboratory.explore(*requested, "--json").stdout)
    rows = {row["label"]: row for row in report["ranking"]}
    (found,) = rows["speedy 2.0"]["deviations"]
    assert found["kind"] == "numerically different"
    assert found["checksum"] == sum(i * i for i in range(5_000))
    assert found["expected"] == sum(i * i for i in range(20_000))
    assert rows["speedy 2.0"]["effects"][0]["ratio"] > 1
    assert not rows["speedy 2.0"]["best"]
    assert rows["speedy 1.0"]["deviations"] == rows["speedy 3.0"]["deviations"] == []

    explored = laboratory.explore(*requested)
    assert "speedy 2.0 on work threads=" in explored.stdout
    assert "Fastest: speedy 2.0" not in explored.stdout
    if explored.returncode == 6:
        pytest.skip("the machine is too noisy now: a control failed")

    advice = json.loads(laboratory.run("advise", "requirements.txt", "--json").stdout)
    locked = advice["advice"]["lock"]
    assert locked is None or [each["version"] for each in locked["artifacts"]] == ["1.0"]
    assert any("compute something else" in each for each in advice["advice"]["caveats"])


def test_where_goals_decide_all_stacks_are_measured_in_every_block(laboratory: Laboratory) -> None:
    done = laboratory.explore("speedy", "--goal", "size", "--dry-run")
    assert done.returncode == 0, done.stderr
    assert "A search looks for speed alone" in done.stderr
    assert "Would measure these 5 in every block" in done.stdout
    assert "Would search" in laboratory.explore("speedy", "--goal", "speed", "--dry-run").stdout


def test_a_goal_that_is_none_is_refused_before_anything_is_done(laboratory: Laboratory) -> None:
    done = laboratory.explore("speedy", "--goal", "fast")
    assert done.returncode == 2
    assert "goals are speed, import, memory, size" in done.stderr
