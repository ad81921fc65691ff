"""Campaigns in which things go wrong for real: packages, processes, indexes, other campaigns."""

import contextlib
import itertools
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from pathlib import Path

import psutil
import pytest

from stackgen.model.inspections import Inspection, Outcome, Role
from tests.dying_parts import (
    assert_clean,
    assert_nothing_twice,
    built,
    downloads,
    recorded,
    serve,
    spans,
    versions,
    watch,
)
from tests.laboratory import INDICATOR, WORK, Laboratory
from tests.store_parts import until
from tests.tiny_index import CUT, TinyIndex, serving

pytestmark = pytest.mark.journey
DISK_SIZE = "2m"

GOOD = WORK.format(size=20_000)
QUICK = WORK.format(size=10_000)
STRICT = INDICATOR.replace(
    "    return harness",
    "    if not hasattr(speedy, 'work'):\n"
    "        raise harness.Unsupported('this speedy has no work')\n"
    "    return harness",
)
HASTY = STRICT.replace('"timeout_s": 60', '"timeout_s": 4')  # where the limit is to be reached

FAULTS = {
    "11.0": (Outcome.IMPORT_FAILED, "raise ImportError('no gears')", "ImportError: no gears"),
    "10.0": (
        Outcome.CRASHED,
        "import os\ndef work():\n    os.kill(os.getpid(), 11)\n",
        "killed by SIGSEGV",
    ),
    "9.0": (Outcome.UNSUPPORTED, "x = 1", "this speedy has no work"),
    "8.0": (
        Outcome.TIMEOUT,
        "import time\ndef work():\n    time.sleep(600)\n",
        "its time limit of 4 s",
    ),
    "7.0": (
        Outcome.OUT_OF_MEMORY,
        "import resource\nresource.setrlimit(resource.RLIMIT_DATA, (1 << 26, 1 << 26))\n"
        "def work():\n    bytearray(1 << 30)\n",
        "out of memory",
    ),
    "6.0": (
        Outcome.INVALID_OUTPUT,
        "import os\ndef work():\n    print('forty-two', flush=True)\n    os._exit(0)\n",
        "forty-two",
    ),
    "5.0": (Outcome.BUILD_FAILED, GOOD, "RECORD"),
    "4.0": (Outcome.HASH_MISMATCH, GOOD, "instead of " + "0" * 64),
    "3.0": (Outcome.DOWNLOAD_FAILED, GOOD, "404"),
}
ONCE_MORE = (
    Outcome.TIMEOUT,
    Outcome.OUT_OF_MEMORY,
    Outcome.BUILD_FAILED,
    Outcome.HASH_MISMATCH,
    Outcome.DOWNLOAD_FAILED,
)


@pytest.fixture
def index() -> Iterator[TinyIndex]:
    with serving() as found:
        yield found


@pytest.fixture
def laboratory(index: TinyIndex, tmp_path: Path) -> Laboratory:
    """2.0 is the baseline, 1.0 does twice its work."""
    (tmp_path / "work.py").write_text(STRICT)
    serve(index, tmp_path / "wheels", "2.0", QUICK)
    serve(index, tmp_path / "wheels", "1.0", GOOD)
    return Laboratory(root=tmp_path, index=index.simple)


@pytest.mark.slow
def test_every_fault_has_its_outcome_and_the_end_of_its_log_and_is_not_tried_for_ever(
    index: TinyIndex, laboratory: Laboratory
) -> None:
    (laboratory.root / "work.py").write_text(HASTY)
    wheels = laboratory.root / "wheels"
    serve(index, wheels, "12.0", WORK.format(size=5_000))
    for version, (outcome, source, _) in FAULTS.items():
        lie = "speedy.py" if outcome is Outcome.BUILD_FAILED else ""
        hashed = "0" * 64 if outcome is Outcome.HASH_MISMATCH else ""
        path = serve(index, wheels, version, source, lie=lie, hashed=hashed)
        if outcome is Outcome.DOWNLOAD_FAILED:
            del index.files[path]
    arguments = ("speedy", "--stacks", "6", "--budget", "180s", "--json")

    def run() -> tuple[dict[str, str], Counter[tuple[str, Outcome]]]:
        done = laboratory.explore(*arguments)
        assert done.returncode in (0, 3, 6), done.stderr
        of = versions(laboratory)
        failed = [each for each in recorded(laboratory) if each.outcome is not Outcome.OK]
        for each in failed:
            assert FAULTS[of[each.stack_id]][2] in each.log
            assert len(each.log.encode()) <= 4096
        reported = {each["label"]: each["outcome"] for each in json.loads(done.stdout)["failed"]}
        return reported, Counter((of[each.stack_id], each.outcome) for each in failed)

    reported, first = run()
    assert first == Counter({(version, fault[0]): 1 for version, fault in FAULTS.items()})
    assert reported == {f"speedy {version}": fault[0].value for version, fault in FAULTS.items()}

    reported_again, second = run()
    assert {pair for pair in second if second[pair] == 2} == {
        (version, fault[0]) for version, fault in FAULTS.items() if fault[0] in ONCE_MORE
    }
    assert reported_again == reported

    _, third = run()
    assert third - second == Counter({("3.0", Outcome.DOWNLOAD_FAILED): 1})
    assert_clean(laboratory)


def test_a_stack_that_fails_in_the_middle_is_reported_and_the_others_go_on(
    index: TinyIndex, laboratory: Laboratory
) -> None:
    flag = laboratory.root / "flag"
    source = f"import os\nif os.path.exists({str(flag)!r}):\n    os.kill(os.getpid(), 6)\n"
    serve(index, laboratory.root / "wheels", "1.5", source + QUICK)
    arguments = ("speedy", "--stacks", "3", "--budget", "120s", "--json")
    with laboratory.exploring(*arguments) as running:
        watch(laboratory, running, lambda seen: any(each.block >= 4 for each in seen))
        flag.touch()
        out, err = running.communicate()
    assert running.returncode in (0, 3, 6), err
    (failed,) = [each for each in recorded(laboratory) if each.outcome is not Outcome.OK]
    assert (failed.outcome, versions(laboratory)[failed.stack_id]) == (Outcome.CRASHED, "1.5")
    report = json.loads(out)
    assert [each["label"] for each in report["failed"]] == [f"speedy 1.5 (in block {failed.block})"]
    later = [each for each in recorded(laboratory) if each.block > failed.block]
    assert later
    assert failed.stack_id not in {each.stack_id for each in later}


def test_a_baseline_that_fails_in_the_middle_ends_it_with_6_and_the_next_run_has_another(
    index: TinyIndex, laboratory: Laboratory
) -> None:
    flag = laboratory.root / "flag"
    # It alone aborts: were the other one the first to fail, nothing would be left to compare.
    serve(index, laboratory.root / "wheels", "3.0", QUICK + "BASELINE = True\n")
    (laboratory.root / "work.py").write_text(
        STRICT.replace(
            "    return harness",
            "    import os\n"
            f"    if hasattr(speedy, 'BASELINE') and os.path.exists({str(flag)!r}):\n"
            "        os.abort()\n"
            "    return harness",
        )
    )
    serve(index, laboratory.root / "wheels", "1.5", GOOD)
    arguments = ("speedy>1.0", "--stacks", "3", "--budget", "60s")
    with laboratory.exploring(*arguments) as running:
        watch(laboratory, running, lambda seen: any(each.block >= 2 for each in seen))
        flag.touch()
        _, err = running.communicate()
    assert running.returncode == 6, err
    assert "that all others are compared with failed while it was measured" in err
    assert "SIGABRT" in err
    before = max(each.block for each in recorded(laboratory))
    again = laboratory.explore(*arguments, "--json")
    assert again.returncode in (0, 3), again.stderr
    report = json.loads(again.stdout, parse_constant=no_number)
    assert [row["label"] for row in report["ranking"] if row["is_baseline"]] == ["speedy 2.0"]
    assert [each["label"] for each in report["failed"]] == [f"speedy 3.0 (in block {before})"]
    later = {each.stack_id for each in recorded(laboratory) if each.block > before}
    assert {versions(laboratory)[each] for each in later} == {"2.0", "1.5"}


@pytest.mark.parametrize("killed", ["2.0", "1.0"], ids=["the baseline", "another stack"])
def test_a_process_that_is_killed_costs_its_block_and_no_stack(
    laboratory: Laboratory, killed: str
) -> None:
    (laboratory.root / "work.py").write_text(
        STRICT.replace(
            "    return harness",
            "    import importlib.metadata, os\n"
            f"    flag = {str(laboratory.root / 'flag')!r}\n"
            f"    hit = importlib.metadata.version('speedy') == {killed!r}\n"
            "    if hit and os.path.exists(flag):\n"
            "        os.kill(os.getpid(), 9)\n"
            "    return harness",
        )
    )
    arguments = ("speedy", "--stacks", "2", "--budget", "30s", "--json")
    with laboratory.exploring(*arguments) as running:
        watch(laboratory, running, lambda seen: any(each.block >= 1 for each in seen))
        (laboratory.root / "flag").touch()
        watch(laboratory, running, lambda seen: any(e.outcome is not Outcome.OK for e in seen))
        (laboratory.root / "flag").unlink()
        out, err = running.communicate()
    assert running.returncode in (0, 3), err
    seen = recorded(laboratory)
    hit = [each for each in seen if each.outcome is not Outcome.OK]
    assert {(each.outcome, each.log) for each in hit} == {(Outcome.CRASHED, "killed by SIGKILL")}
    assert f"speedy {killed} was stopped in block {hit[0].block} (killed by SIGKILL" in err
    assert any(e.block > hit[-1].block and e.stack_id == hit[0].stack_id for e in seen)
    report = json.loads(out, parse_constant=no_number)
    assert (report["failed"], [row["failures"] for row in report["ranking"]]) == ([], [0, 0])


def test_a_budget_that_ends_before_a_second_stack_is_ready_is_reported_as_that(
    index: TinyIndex, laboratory: Laboratory
) -> None:
    slow = "import os, time\ntime.sleep(10)\nos.abort()\n"
    serve(index, laboratory.root / "wheels", "1.5", slow)
    done = laboratory.explore("speedy", "--stacks", "3", "--budget", "3s")
    assert done.returncode == 3, done.stderr
    reported = "Nothing to compare yet: the budget ran out when only speedy 2.0 was built."
    assert reported in done.stdout
    assert "the same command continues from there" in done.stdout


def test_a_kill_while_measuring_costs_no_download_no_build_and_no_inspection(
    index: TinyIndex, laboratory: Laboratory
) -> None:
    arguments = ("speedy", "--stacks", "2", "--budget")
    with laboratory.exploring(*arguments, "120s") as running:
        watch(laboratory, running, lambda seen: any(each.block >= 2 for each in seen))
        running.kill()
        running.communicate()
    before, finished = {each.id for each in recorded(laboratory)}, built(laboratory)
    done = laboratory.explore(*arguments, "20s")
    assert done.returncode in (0, 3, 6), done.stderr
    after = recorded(laboratory)
    assert before < {each.id for each in after}
    assert_nothing_twice(after)
    assert built(laboratory) == finished
    assert len(finished) == 2
    assert set(downloads(index).values()) == {1}
    assert_clean(laboratory)


@pytest.mark.parametrize(
    "seeds",
    [
        pytest.param(("1", "2"), id="two campaigns"),
        pytest.param(("1", "1"), id="the same one", marks=pytest.mark.slow),
    ],
)
def test_two_explorations_at_once_measure_in_turns_and_do_nothing_twice(
    index: TinyIndex, laboratory: Laboratory, seeds: tuple[str, str]
) -> None:
    arguments = ("speedy", "--stacks", "2", "--budget", "15s", "--seed")
    with (
        laboratory.exploring(*arguments, seeds[0]) as one,
        laboratory.exploring(*arguments, seeds[1]) as two,
    ):
        ends = [(each.communicate(), each.returncode) for each in (one, two)]
    for (_, err), code in ends:
        assert code in (0, 3, 6), err
    seen = recorded(laboratory)
    assert_nothing_twice(seen)
    blocks = sorted(spans(seen).values())
    assert len(blocks) >= 2
    for (_, end), (start, _) in itertools.pairwise(blocks):
        assert end <= start + 0.01
    assert set(downloads(index).values()) == {1}
    assert len(built(laboratory)) == 2
    assert_clean(laboratory)


@pytest.mark.slow
def test_an_index_that_dies_half_way_leaves_what_is_ready_and_the_next_run_gets_the_rest(
    laboratory: Laboratory, index: TinyIndex
) -> None:
    wheels = laboratory.root / "wheels"
    with ExitStack() as living:
        mortal = living.enter_context(serving())
        paths = [serve(mortal, wheels, v, QUICK if v > "1.0" else GOOD) for v in ("2.0", "1.0")]
        last = serve(mortal, wheels, "0.9", GOOD)
        laboratory = Laboratory(root=laboratory.root, index=mortal.simple)
        arguments = ("speedy", "--stacks", "3", "--budget", "30s", "--json")
        with laboratory.exploring(*arguments) as running:
            until(lambda: downloads(mortal)[paths[1]], timeout_s=120)
            living.close()
            out, err = running.communicate()
        assert running.returncode in (0, 3, 6), err
        report = json.loads(out)
        assert len(report["stacks"]) == 2
        assert [(e["label"], e["outcome"]) for e in report["failed"]] == [
            ("speedy 0.9", "download_failed")
        ]
        assert "trying again in" in err
    with serving(port=int(mortal.url.rpartition(":")[2])) as back:
        back.files, back.types = mortal.files, mortal.types
        again = laboratory.explore(*arguments)
        assert again.returncode in (0, 3, 6), again.stderr
        assert len(json.loads(again.stdout)["stacks"]) == 3
        assert downloads(back) == Counter({last: 1})
    assert index.requested == []
    assert_clean(laboratory)


def test_an_index_that_is_dead_from_the_first_wheel_on_ends_it_with_8(
    index: TinyIndex, laboratory: Laboratory
) -> None:
    index.ranges = False  # so that no half is gone on with
    for path in [each for each in index.files if each.endswith(".whl")]:
        index.faults[path] = [CUT] * 1000
    done = laboratory.explore("speedy", "--stacks", "2", "--budget", "10s")
    assert done.returncode == 8, done.stderr
    assert "download_failed" in done.stderr
    assert done.stdout == ""
    assert {each.outcome for each in recorded(laboratory)} == {Outcome.DOWNLOAD_FAILED}


@pytest.mark.slow
def test_an_environment_that_is_removed_in_between_is_built_again(
    index: TinyIndex, laboratory: Laboratory
) -> None:
    gone = laboratory.root / "gone"
    with laboratory.exploring("speedy", "--stacks", "2", "--budget", "60s") as running:
        watch(laboratory, running, lambda seen: any(each.block >= 2 for each in seen))
        environments = sorted(
            path.parent
            for path in laboratory.root.glob("cache/virtualenvs/environments/*/.complete")
        )
        for environment in environments:
            environment.rename(gone)
            shutil.rmtree(gone)
        at = max(each.block for each in recorded(laboratory))
        _, err = running.communicate()
    assert running.returncode in (0, 3, 6), err
    seen = recorded(laboratory)
    assert {each.outcome for each in seen} == {Outcome.OK, Outcome.ENGINE_LOST}
    assert any(each.block > at + 1 and each.role is Role.TWIN for each in seen)
    assert "an environment went away" in err
    assert set(downloads(index).values()) == {1}
    assert_clean(laboratory)


def test_a_disk_that_fills_up_while_measuring_ends_it_with_9_and_the_next_run_goes_on(
    laboratory: Laboratory, small_disk: Path
) -> None:
    laboratory.kb.symlink_to(small_disk / "kb.db")
    arguments = ("speedy", "--stacks", "2", "--budget", "30s")
    ballast = small_disk / "ballast"
    with laboratory.exploring(*arguments) as running:
        watch(laboratory, running, lambda seen: any(each.block >= 1 for each in seen))
        with contextlib.suppress(OSError), ballast.open("wb", buffering=0) as file:
            while True:
                file.write(bytes(512))
        out, err = running.communicate()
    assert running.returncode == 9, err
    assert "run the same command again" in err
    assert "the same command continues from there" in out
    ballast.unlink()
    before = {each.id for each in recorded(laboratory)}
    again = laboratory.explore(*arguments)
    assert again.returncode in (0, 3, 6), again.stderr
    assert before < {each.id for each in recorded(laboratory)}
    assert_nothing_twice(recorded(laboratory))


def no_number(text: str) -> float:
    raise AssertionError(f"{text} is no number")


@pytest.mark.parametrize(
    "stacks",
    [
        pytest.param(5, id="searched first"),
        pytest.param(2, id="all at once", marks=pytest.mark.slow),
    ],
)
def test_a_budget_too_small_for_one_block_gives_one_block_and_says_so(
    index: TinyIndex, laboratory: Laboratory, stacks: int
) -> None:
    for version in ("0.9", "0.8", "0.7"):
        serve(index, laboratory.root / "wheels", version, GOOD)
    done = laboratory.explore("speedy", "--stacks", str(stacks), "--budget", "1s")
    assert done.returncode == 3, done.stderr
    assert "stopped: the budget is spent." in done.stdout
    undecided = "Not decided yet: 1 block; the first interim analysis is after 6." in done.stdout
    aside = "1 block was set aside" in done.stdout  # something else had the CPU: told as well
    assert undecided or (aside and "Nothing to compare yet: the budget is spent" in done.stdout)
    seen = recorded(laboratory)
    assert {each.block for each in seen} == {0, 1}
    assert {versions(laboratory)[each.stack_id] for each in seen} == {"2.0", "1.0"}
    assert_clean(laboratory)


def test_a_constant_figure_gives_no_verdict_that_was_not_observed(
    laboratory: Laboratory,
) -> None:
    project = laboratory.root / "project"
    project.mkdir()
    (project / "same.py").write_text("print('loss: 0.25')")
    done = laboratory.run(
        *("explore", "speedy", "--executor", "virtualenv", "--stacks", "2", "--budget", "4s"),
        *("--pi-command", "python same.py", "--project", str(project), "--json"),
        *("--figure", "loss: ([0-9.]+)", "--better", "lower"),
    )
    assert done.returncode == 3, done.stderr
    report = json.loads(done.stdout, parse_constant=no_number)
    effects = [effect for row in report["ranking"] for effect in row["effects"]]
    assert report["run"]["blocks"] >= 1
    for effect in effects:  # none where all blocks were disturbed, and set aside
        assert (effect["verdict"], effect["ratio"]) == ("inconclusive", 1.0)


def test_an_indicator_that_fails_on_one_stack_takes_that_stack_out_and_says_why(
    index: TinyIndex, laboratory: Laboratory
) -> None:
    serve(index, laboratory.root / "wheels", "1.5", QUICK + "OLD = True\n")
    first, second = laboratory.root / "first.py", laboratory.root / "work.py"
    first.write_text(STRICT)
    second.write_text(STRICT.replace("'work'", "'OLD'").replace("if not has", "if has"))
    requested = ("speedy>1.0", "--stacks", "2", "--budget", "60s", "--json", "--pi", str(first))
    done = laboratory.explore(*requested)
    assert done.returncode == 3, done.stderr
    report = json.loads(done.stdout, parse_constant=no_number)
    (failed,) = report["failed"]
    assert failed["label"] == "speedy 1.5 (in block 1)"
    assert (failed["outcome"], failed["reason"][-7:]) == ("unsupported", "no work")
    assert report["run"]["stopped"] == "every other stack failed while it was measured"
    assert [row["label"] for row in report["ranking"] if row["best"]] == ["speedy 2.0"]
    assert not any(each.block > 1 for each in recorded(laboratory))


def test_where_all_others_fail_in_a_search_each_is_reported_and_none_is_recommended(
    index: TinyIndex, laboratory: Laboratory
) -> None:
    only_once = "import os, sys\nif '--loops' in sys.argv:\n    os.abort()\n"  # not when tried
    for version in ("1.7", "1.6", "1.5"):
        serve(index, laboratory.root / "wheels", version, only_once + QUICK)
    done = laboratory.explore("speedy>1.0", "--stacks", "4", "--budget", "60s", "--json")
    assert done.returncode == 3, done.stderr
    report = json.loads(done.stdout, parse_constant=no_number)
    assert report["run"]["stopped"] == "every other stack failed while it was measured"
    assert [each["outcome"] for each in report["failed"]] == ["crashed"] * 3
    assert (report["search"], report["run"]["untried"]) == (None, 0)
    assert not any(row["effects"] for row in report["ranking"])


def suspended(running: "subprocess.Popen[str]") -> list[psutil.Process]:
    """Stop a process and all that it started; what ends meanwhile needs no stopping."""
    ours = psutil.Process(running.pid)
    stopped: list[psutil.Process] = []
    new = [ours]  # first of all, so that it starts nothing more
    while new:
        for each in new:
            with contextlib.suppress(psutil.NoSuchProcess):
                each.suspend()
        stopped += new
        new = [each for each in ours.children(recursive=True) if each not in stopped]
    return stopped


@pytest.mark.skipif(sys.platform != "linux", reason="processes are stopped as on Linux")
def test_a_pause_longer_than_a_time_limit_fails_no_process(laboratory: Laboratory) -> None:
    (laboratory.root / "work.py").write_text(HASTY)
    arguments = ("speedy", "--stacks", "2", "--budget", "7s")
    with laboratory.exploring(*arguments) as running:
        watch(laboratory, running, lambda seen: any(each.block for each in seen))
        stopped = suspended(running)
        time.sleep(5)  # the indicator's time limit is 4 s
        for each in reversed(stopped):
            with contextlib.suppress(psutil.NoSuchProcess):
                each.resume()
        _, err = running.communicate()
    assert running.returncode in (0, 3, 6), err
    assert {each.outcome for each in recorded(laboratory)} == {Outcome.OK}
    assert_nothing_twice(recorded(laboratory))


@pytest.mark.usefixtures("signals_as_usual")
def test_an_interrupted_build_ends_it_with_130_and_leaves_nothing_half_made(
    index: TinyIndex, laboratory: Laboratory
) -> None:
    # It keeps the compiler busy for a second or more, so that the signal comes before the end.
    long = "def f(x):\n    return [x, x + 1]\n" * 3_000
    serve(index, laboratory.root / "wheels", "3.0", QUICK + long)
    environments = laboratory.root / "cache" / "virtualenvs" / "environments"
    arguments = ("speedy>1.0", "--stacks", "2", "--budget", "60s")
    pipe = subprocess.PIPE
    command = laboratory.explore_command(*arguments)
    with subprocess.Popen(
        command, env=laboratory.environ, stdout=pipe, stderr=pipe, text=True, start_new_session=True
    ) as running:  # in a terminal, all that it started is interrupted, too
        until(lambda: running.poll() is not None or any(environments.glob("*/bin")))
        os.killpg(running.pid, signal.SIGINT)
        out, err = running.communicate(timeout=60)
    assert running.returncode == 130, err
    assert "Traceback" not in err
    assert "continues from there" in out
    assert not recorded(laboratory)
    assert_clean(laboratory)
    assert not built(laboratory)


def test_who_fails_in_a_search_leaves_it_and_a_killed_search_goes_on(
    index: TinyIndex, laboratory: Laboratory
) -> None:
    flag = laboratory.root / "flag"
    dies = f"import os\nif os.path.exists({str(flag)!r}):\n    os.abort()\n"
    for version in ("0.9", "0.8", "0.7"):
        serve(index, laboratory.root / "wheels", version, GOOD)
    serve(index, laboratory.root / "wheels", "1.5", dies + WORK.format(size=2_000))
    arguments = ("speedy", "--stacks", "5", "--json", "--budget")
    with laboratory.exploring(*arguments, "120s") as running:
        watch(laboratory, running, lambda seen: "1.5" in measured(laboratory, seen))
        flag.touch()
        watch(laboratory, running, lambda seen: any(e.outcome is not Outcome.OK for e in seen))
        (failed,) = [each for each in recorded(laboratory) if each.outcome is not Outcome.OK]
        watch(laboratory, running, lambda seen: any(e.block > failed.block for e in seen))
        running.kill()
        running.communicate()
    before = recorded(laboratory)
    done = laboratory.explore(*arguments, "20s")
    assert done.returncode in (0, 3, 6), done.stderr
    after = recorded(laboratory)
    assert {each.id for each in before} < {each.id for each in after}
    assert_nothing_twice(after)
    assert "1.5" not in measured(laboratory, [e for e in after if e.block > failed.block])
    report = json.loads(done.stdout, parse_constant=no_number)
    reported = [(each["label"], each["outcome"]) for each in report["failed"]]
    assert reported == [(f"speedy 1.5 (in block {failed.block})", "crashed")]
    assert "speedy 1.5" not in [row["label"] for row in report["ranking"] if row["best"]]


def measured(laboratory: Laboratory, seen: Iterable[Inspection]) -> set[str]:
    of = versions(laboratory)
    return {of[each.stack_id] for each in seen if each.block}
