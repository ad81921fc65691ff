"""The harness, on a clock that only the operations move, and in every interpreter found here."""

import importlib.metadata
import importlib.util
import json
import subprocess
import sys
from argparse import Namespace
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from stackgen import resources
from stackgen.builders.interpreters import find_interpreters
from stackgen.executors.process import THREAD_VARIABLES, WRONG_USAGE
from stackgen.indicators import parse_output
from stackgen.indicators.output import SCHEMA

PIS = resources.folder("pis")


def run(
    script: str, *options: str, python: str = sys.executable
) -> "subprocess.CompletedProcess[str]":
    command = [python, "-s", "-B", str(PIS / script), "--samples", "3", *options]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def document(script: str, *options: str) -> dict[str, Any]:
    told: dict[str, Any] = json.loads(run(script, *options).stdout.splitlines()[-1])
    return told


class Clock:
    """Time that passes only where an operation says so."""

    def __init__(self) -> None:
        self.now, self.calls = 0.0, 0

    def perf_counter(self) -> float:
        return self.now

    def takes(self, seconds: float, growth: float = 1.0) -> Any:
        def work() -> None:
            self.now += seconds * growth**self.calls
            self.calls += 1

        return work


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def harness(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    spec = importlib.util.spec_from_file_location("harness_under_test", PIS / "harness.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setattr(module, "time", clock)
    return module


@pytest.mark.parametrize("seconds", [1e-7, 3e-6, 1e-4, 4e-4, 9e-4, 1.9e-3])
def test_a_calibrated_sample_takes_one_to_three_milliseconds(
    harness: ModuleType, clock: Clock, seconds: float
) -> None:
    loops = harness.calibrate(harness.Operation(clock.takes(seconds)))
    assert 0.001 <= loops * seconds <= 0.003


def test_a_long_operation_is_a_sample_by_itself(harness: ModuleType, clock: Clock) -> None:
    assert harness.calibrate(harness.Operation(clock.takes(0.5))) == 1


@pytest.mark.parametrize(("seconds", "calls"), [(1.0, 3), (0.04, 3), (0.02, 5)])
def test_warming_up_takes_three_calls_and_a_tenth_of_a_second(
    harness: ModuleType, clock: Clock, seconds: float, calls: int
) -> None:
    harness.warm_up(harness.Operation(clock.takes(seconds)))
    assert clock.calls == calls


def test_an_operation_that_keeps_its_speed_is_steady(harness: ModuleType, clock: Clock) -> None:
    assert harness.settle(harness.Operation(clock.takes(0.01)), 1)


def test_an_operation_that_slows_down_all_the_time_is_not(
    harness: ModuleType, clock: Clock
) -> None:
    assert not harness.settle(harness.Operation(clock.takes(0.01, growth=1.05)), 1)


def test_what_is_launched_is_waited_for_within_the_sample(
    harness: ModuleType, clock: Clock
) -> None:
    operation = harness.Operation(lambda: None, wait=clock.takes(8.0))
    assert harness.sample(operation, loops=4) == 2.0


def test_what_happens_only_once_is_timed_at_once_and_once(
    harness: ModuleType, clock: Clock
) -> None:
    options = Namespace(samples=30, loops=7, trace=None)
    indicator = {"one_shot": True}
    setup = lambda _: harness.Operation(clock.takes(2.0))  # noqa: E731
    measured = harness.measure(indicator, setup, options, {})
    assert (measured["values_s"], measured["loops"], clock.calls) == ([2.0], 1, 1)


def test_given_loops_are_kept_and_values_are_per_operation(
    harness: ModuleType, clock: Clock
) -> None:
    options = Namespace(samples=3, loops=7, trace=None)
    setup = lambda _: harness.Operation(clock.takes(0.5))  # noqa: E731
    measured = harness.measure({}, setup, options, {})
    assert (measured["values_s"], measured["loops"]) == ([0.5] * 3, 7)


@pytest.mark.parametrize("checksum", [float("nan"), float("inf")])
def test_a_result_that_is_no_number_is_a_failure(harness: ModuleType, checksum: float) -> None:
    with pytest.raises(ValueError, match="the operation's result is wrong"):
        harness.finite(checksum)


def test_both_sides_of_the_process_agree_on_their_constants(harness: ModuleType) -> None:
    assert harness.SCHEMA == SCHEMA
    assert harness.WRONG_USAGE == WRONG_USAGE
    assert harness.THREAD_VARIABLES == THREAD_VARIABLES


@pytest.mark.parametrize("python", find_interpreters())
def test_the_control_runs_and_computes_the_same_on_every_python(python: str) -> None:
    seen = parse_output(run("python/pure.py", "--rounds", "2", python=python).stdout).observation
    assert seen is not None
    # By hand: 0*31 + 9 in round 0, then 9*31 + 1+1+9 in round 1, then 290*31 + 0+1 at the end.
    assert seen.checksum == 8991.0
    assert len(seen.values_s) == 3


@pytest.mark.parametrize("python", find_interpreters())
def test_every_indicator_compiles_on_every_python(python: str) -> None:
    code = "import sys; [compile(open(p).read(), p, 'exec') for p in sys.argv[1:]]"
    files = sorted(str(path) for path in PIS.rglob("*.py"))
    subprocess.run([python, "-I", "-c", code, *files], check=True)


@pytest.mark.parametrize(
    ("option", "words"),
    [
        (("--size", "0"), "--size: 0 is not above zero"),
        (("--size", "big"), "--size: invalid positive int value: 'big'"),
        (("--dtype", "int8"), "--dtype: invalid choice: 'int8'"),
        (("--threads", "-1"), "--threads"),
        (("--colour", "red"), "unrecognized arguments: --colour red"),
    ],
)
def test_a_wrong_parameter_is_refused_in_one_sentence(option: tuple[str, ...], words: str) -> None:
    done = run("numpy/matmul.py", *option)
    assert done.returncode == WRONG_USAGE
    assert words in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_product_of_matrices_is_counted_and_computed() -> None:
    told = document("numpy/matmul.py", "--size", "3", "--dtype", "float64")
    # By hand: 9 results of 3 multiplications and 3 additions each.
    assert told["work"] == 54
    a = [[(3 * i + j) / 31 - 0.5 for j in range(3)] for i in range(3)]
    b = [[(3 * i + j) / 29 - 0.5 for j in range(3)] for i in range(3)]
    product = [sum(a[i][k] * b[k][j] for k in range(3)) for i in range(3) for j in range(3)]
    assert told["checksum"] == pytest.approx(sum(map(abs, product)) / 9)


def test_what_was_loaded_is_told_with_its_compiled_code() -> None:
    loaded = {row["name"]: row for row in document("numpy/import.py")["loaded"]}
    version = importlib.metadata.version("numpy")
    assert loaded["numpy"] == {"name": "numpy", "version": version, "compiled": True}
    assert "typer" not in loaded


def test_a_framework_that_is_missing_is_not_mistaken_for_our_folder_of_its_name() -> None:
    told = document("tensorflow/matmul.py")
    assert told["outcome"] == "import_failed"
    assert "No module named 'tensorflow'" in told["reason"]


def test_threads_reach_the_variables_unless_they_are_set() -> None:
    circumstances = document("python/pure.py", "--threads", "3")["circumstances"]
    assert circumstances["env OMP_NUM_THREADS"] == "3"


def test_the_document_goes_into_a_file_too(tmp_path: Path) -> None:
    file = tmp_path / "document.json"
    done = run("python/pure.py", "--rounds", "5", "--output", str(file))
    assert file.read_text() == done.stdout.splitlines()[-1] + "\n"
