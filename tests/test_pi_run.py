"""``stackgen pi run``: an indicator here and now, in an interpreter as it is."""

import json
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from stackgen.campaign.host import Host
from stackgen.cli.indicators import parse_parameters
from stackgen.commands.indicators import MOST_CALLS, calls_of, find_indicator, gpus_seen
from stackgen.errors import UsageError
from stackgen.model.progress import NullProgress
from tests.laboratory import Laboratory

MINE = """
import os, sys, time
import harness

harness.WARM_UP_S = 0.01
INDICATOR = {
    "summary": "mine", "component": "python", "unit": "byte",
    "parameters": {
        "size": {"type": "int", "default": 1, "help": "how much"},
        "way": {
            "type": "str", "default": "fine", "allowed": ["fine", "crash", "none", "slow", "gpus"],
        },
    },
}

def setup(parameters):
    if parameters["way"] == "crash":
        sys.stderr.write("about to fail\\n")
        raise KeyError("lost")
    if parameters["way"] == "none":
        raise harness.Unsupported("there is no such way here")
    if parameters["way"] == "slow":
        time.sleep(600)
    if parameters["way"] == "gpus":
        raise harness.Unsupported("GPUs: " + repr(os.environ.get("CUDA_VISIBLE_DEVICES")))
    def run():
        return sum(range(200 * parameters["size"]))
    return harness.Operation(run, work=8.0, items=4, facts={"parameters": 12})

if __name__ == "__main__":
    harness.main(INDICATOR, setup)
"""


@pytest.fixture
def laboratory(tmp_path: Path) -> Laboratory:
    (tmp_path / "mine.py").write_text(MINE)
    return Laboratory(root=tmp_path, index="")


def measured(laboratory: Laboratory, *arguments: str, exit_code: int = 0) -> dict[str, Any]:
    done = laboratory.run("pi", "run", *arguments, "--samples", "3", "--json")
    assert done.returncode == exit_code, done.stderr
    return dict(json.loads(done.stdout))


def test_every_combination_is_measured_in_fresh_processes_in_random_order(
    laboratory: Laboratory,
) -> None:
    reported = measured(laboratory, "./mine.py", "--size", "1,2", "--threads", "1,2", "--repeats=2")
    given = [dict(each["arguments"]) for each in reported["results"]]
    assert [(each["size"], each["threads"]) for each in given] == [
        *(("1", "1"), ("1", "2"), ("2", "1"), ("2", "2")),
    ]
    ran = [each for result in reported["results"] for each in result["inspections"]]
    assert [each["block"] for each in ran] == [0, 1] * 4
    assert all(each["outcome"] == "ok" for each in ran)
    assert max(each["started_at"] for each in ran if each["block"] == 0) < min(
        each["started_at"] for each in ran if each["block"] == 1
    )
    orders = [[each["position"] for each in ran if each["block"] == block] for block in (0, 1)]
    assert orders[0] != orders[1]
    for result in reported["results"]:
        first, again = (each["observation"] for each in result["inspections"])
        assert first["loops"] == again["loops"]
        assert len(first["values_s"]) == 3


def test_numpy_is_measured_and_nothing_goes_into_a_knowledge_base(laboratory: Laboratory) -> None:
    done = laboratory.run("pi", "run", "numpy/matmul", "--size", "16,32", "--samples", "3")
    assert done.returncode == 0, done.stderr
    head, *rows = [each for each in done.stdout.splitlines() if re.match(r"size|\d", each)]
    assert head.split()[:4] == ["size", "best", "median", "90"]
    assert [each.split()[0] for each in rows] == ["16", "32"]
    assert all("GFLOP/s" in each and "MB" in each for each in rows)
    assert not laboratory.kb.exists()


def test_what_fails_is_marked_with_its_reason_and_the_end_of_its_log(
    laboratory: Laboratory,
) -> None:
    done = laboratory.run("pi", "run", "mine.py", "--way", "fine,crash,none", "--samples", "3")
    assert done.returncode == 0, done.stderr
    assert re.search(r"^fine +\d.*GB/s", done.stdout, re.MULTILINE)
    assert re.search(r"^none .*unsupported: there is no such way here", done.stdout, re.MULTILINE)
    assert re.search(r"^crash .*crashed: KeyError: 'lost'", done.stdout, re.MULTILINE)
    assert "\n  about to fail\n" in done.stdout


def test_where_nothing_ran_the_exit_status_says_so(laboratory: Laboratory) -> None:
    reported = measured(laboratory, "mine.py", "--way", "none", "--repeats", "3", exit_code=6)
    (result,) = reported["results"]
    assert result["figures"] is None
    assert len(result["inspections"]) == 1  # what failed once is not run again


def test_a_file_of_ones_own_may_be_named_like_an_indicator(laboratory: Laboratory) -> None:
    (laboratory.root / "matmul.py").write_text(MINE)
    reported = measured(laboratory, "./matmul.py")
    assert reported["indicator"]["summary"] == "mine"
    assert reported["results"][0]["figures"]["items_per_s"] > 0
    assert reported["results"][0]["figures"]["facts"] == [["parameters", "12"]]


def test_gpus_are_hidden_when_requested(laboratory: Laboratory) -> None:
    done = laboratory.run("pi", "run", "mine.py", "--way", "gpus", "--gpus", "none")
    assert "unsupported: GPUs: ''" in done.stdout
    assert [gpus_seen("all", present=each) for each in (True, False)] == ["all", ""]


def test_an_interpreter_is_named_by_its_virtualenv(laboratory: Laboratory) -> None:
    reported = measured(laboratory, "mine.py", "--python", sys.prefix)
    assert reported["python"] == f"{sys.prefix}/bin/python"
    assert reported["python_version"].endswith(sys.version.split()[0])
    missing = laboratory.run("pi", "run", "mine.py", "--python", "no-such-python")
    assert missing.returncode == 2
    assert "there is no interpreter no-such-python" in missing.stderr


def test_a_trace_is_refused_where_an_indicator_keeps_none(laboratory: Laboratory) -> None:
    done = laboratory.run("pi", "run", "mine.py", "--trace", "traces", "--samples", "3")
    assert done.returncode == 6
    assert "keeps no trace" in done.stdout


def test_a_format_goes_into_a_file_and_the_table_is_printed(laboratory: Laboratory) -> None:
    given = ("mine.py", "--size", "1,2", "--samples", "3", "--format", "thoth")
    done = laboratory.run("pi", "run", *given, "--output", "found.json")
    assert done.returncode == 0, done.stderr
    assert "GB/s" in done.stdout
    one, two = json.loads((laboratory.root / "found.json").read_text())
    assert (one["stdout"]["@parameters"]["size"], two["exit_code"]) == (1, 0)
    assert one["usage"]["ru_maxrss"] > 1000
    assert one["usage"]["ru_utime"] > 0


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (("--shape", "4"), "it takes size, threads, way"),
        (("--way", "wrong"), "it takes fine, crash, none, slow, gpus"),
        (("--size", "0"), "above zero"),
        (("--size",), "--size has no value"),
        (("--size", "1,,2"), "--size has no value"),
        (("stray",), "cannot read 'stray'"),
        (("--json", "--format", "thoth"), "exclude each other"),
        (("--output", "x"), "--output needs"),
        (("--output", "no/such/x", "--json"), "its folder does not exist"),
        (("--format", "pytorch-benchmark", "--size", "1,2"), "several values of size"),
    ],
)
def test_what_cannot_be_done_is_refused_before_anything_runs(
    laboratory: Laboratory, given: tuple[str, ...], words: str
) -> None:
    done = laboratory.run("pi", "run", "mine.py", *given)
    assert done.returncode == 2
    assert words in done.stderr
    assert "measuring" not in done.stderr


def test_a_parameter_that_is_called_like_an_option_is_named_by_param(
    laboratory: Laboratory,
) -> None:
    path = laboratory.root / "mine.py"
    path.write_text(path.read_text().replace("size", "seed"))
    reported = measured(laboratory, "mine.py", "--param", "seed=3,4", "--seed", "5")
    assert [dict(each["arguments"])["seed"] for each in reported["results"]] == ["3", "4"]


def test_more_combinations_than_a_user_waits_for_are_refused() -> None:
    values = tuple(str(each) for each in range(1, MOST_CALLS + 2))
    with pytest.raises(UsageError, match=f"{MOST_CALLS + 1} combinations are too many"):
        calls_of(find_indicator("numpy/matmul"), [("size", values)])


def test_parameters_are_read_as_people_write_them() -> None:
    words = ["--size", "64,128", "--size=256", "--data-format", "nchw"]
    assert parse_parameters(words) == (("size", ("64", "128", "256")), ("data_format", ("nchw",)))


def test_threads_are_counted_where_they_are_left_to_us() -> None:
    (left,) = calls_of(find_indicator("python/pure"), [])
    (requested,) = calls_of(find_indicator("python/pure"), [("threads", ("auto",))])
    assert int(dict(left.arguments)["threads"]) >= 1
    assert left == requested


def test_help_lists_what_an_indicator_takes(laboratory: Laboratory) -> None:
    reported = laboratory.run("pi", "run", "mine.py", "--help").stdout
    assert "--repeats" in reported
    assert "--way" in reported
    assert "fine, crash, none, slow, gpus" in reported
    assert laboratory.run("pis", "mine.py").stdout in reported


def started(laboratory: Laboratory, *arguments: str) -> "subprocess.Popen[str]":
    """Start a measurement of the own indicator in a process of its own."""
    return subprocess.Popen(
        laboratory.command("pi", "run", "mine.py", "--samples", "3", *arguments),
        env=laboratory.environ,
        cwd=laboratory.root,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.mark.usefixtures("signals_as_usual")
def test_ctrl_c_keeps_what_was_measured(laboratory: Laboratory) -> None:
    process = started(laboratory, "--way", "slow,fine", "--seed", "1")
    assert process.stderr is not None
    while "(1/2)" not in (line := process.stderr.readline()):
        assert line
    if "way=slow" not in line:
        process.kill()
        process.communicate()
        pytest.fail(f"the seed gave another order: {line}")
    time.sleep(0.5)
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate(timeout=300)
    assert process.returncode == 130
    assert re.search(r"^fine +\d.*GB/s", out, re.MULTILINE), out
    assert "Interrupted" in out


def test_it_waits_for_its_turn_to_measure(laboratory: Laboratory) -> None:
    cache = Path(laboratory.environ["STACKGEN_CACHE"])
    cache.mkdir()
    with Host(cache=cache).measuring(NullProgress()):
        process = started(laboratory)
        assert process.stderr is not None
        while not (line := process.stderr.readline()).startswith("waiting"):
            assert line
        assert process.poll() is None
    out, _ = process.communicate(timeout=300)
    assert process.returncode == 0
    assert "GB/s" in out
    assert list((cache / "scratch").iterdir()) == []
