"""The harness, on a clock that only the operations move, and in every interpreter found here."""

import ast
import gc
import importlib.metadata
import importlib.util
import json
import subprocess
import sys
import time
from argparse import Namespace
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from stackgen.campaign.indicators import load_indicators
from stackgen.indicators.declaration import find
from stackgen.indicators.output import SCHEMA, parse_output
from stackgen.model.inspections import Indicator
from stackgen.sandbox.process import THREAD_VARIABLES, WRONG_USAGE
from stackgen.storage.paths import shipped_folder
from tests.interpreters import each_python

PIS = shipped_folder("pis")
INDICATORS = load_indicators(PIS)
ROWS = [each for each in INDICATORS if each.operation]


def run(
    name: str, *options: str, python: str = sys.executable
) -> "subprocess.CompletedProcess[str]":
    indicator = find(INDICATORS, name)
    script = [part for part in (indicator.path, indicator.operation) if part]
    command = [python, "-s", "-B", *script, "--samples", "3", *options]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def document(name: str, *options: str) -> dict[str, Any]:
    reported: dict[str, Any] = json.loads(run(name, *options).stdout.splitlines()[-1])
    return reported


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


def test_the_fastest_run_of_the_warm_up_says_whether_one_is_a_sample(
    harness: ModuleType, clock: Clock
) -> None:
    assert harness.prepare(harness.Operation(clock.takes(5.0)), loops=0) == (1, True)
    # Three to warm up, four to see that it is steady, and none to look for a number of loops.
    assert clock.calls == 7


def test_what_never_gets_steady_is_warmed_up_for_ten_seconds_and_a_round(
    harness: ModuleType, clock: Clock
) -> None:
    assert not harness.settle(harness.Operation(clock.takes(2.0, growth=1.05)), 1)
    assert 10 < clock.now < 25


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


@pytest.mark.parametrize(
    ("indicator", "samples", "loops", "seconds", "measured"),
    [
        ({"one_shot": True}, 30, 7, 2.0, (1, 1)),
        ({}, 3, 7, 0.5, (3, 7)),
        ({"latency": True}, 4, None, 1e-6, (4, 1)),
    ],
    ids=["what happens only once", "given loops", "a latency"],
)
def test_values_are_per_operation(
    harness: ModuleType,
    clock: Clock,
    indicator: dict[str, bool],
    samples: int,
    loops: int | None,
    seconds: float,
    measured: tuple[int, int],
) -> None:
    options = Namespace(samples=samples, loops=loops, trace=None)
    setup = lambda _: harness.Operation(clock.takes(seconds))  # noqa: E731
    found = harness.measure(indicator, setup, options, {})
    assert (len(found["values_s"]), found["loops"]) == measured
    assert found["values_s"] == pytest.approx([seconds] * measured[0])
    assert clock.calls == 1 or not indicator.get("one_shot")


def test_no_collection_falls_into_a_sample_but_into_what_happens_only_once(
    harness: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = Namespace(samples=2, loops=1, trace=None)
    seen: list[bool] = []
    setup = lambda _: harness.Operation(lambda: seen.append(gc.isenabled()))  # noqa: E731
    monkeypatch.setattr(harness, "time", time)
    harness.measure({}, setup, options, {})
    assert not any(seen)
    assert gc.isenabled()
    seen.clear()
    harness.measure({"one_shot": True}, setup, options, {})
    assert seen == [True]


@pytest.mark.parametrize(
    ("better", "figure", "value"), [("higher", 250.0, 0.004), ("lower", 250.0, 250.0)]
)
def test_a_figure_takes_the_place_of_the_time_and_lower_stays_better(
    harness: ModuleType, clock: Clock, better: str, figure: float, value: float
) -> None:
    options = Namespace(samples=2, loops=1, trace=None)
    setup = lambda _: harness.Operation(  # noqa: E731
        clock.takes(1.0), figure=lambda: figure, work=1e40
    )
    measured = harness.measure({"better": better, "unit": "FLOP"}, setup, options, {})
    assert measured["values_s"] == [value] * 2
    assert measured["circumstances"]["figure"] == better


@pytest.mark.parametrize("figure", [0.0, -1.0, float("nan"), float("inf")])
def test_a_figure_that_is_no_number_above_zero_is_refused(
    harness: ModuleType, clock: Clock, figure: float
) -> None:
    operation = harness.Operation(clock.takes(1.0), figure=lambda: figure)
    with pytest.raises(harness.Invalid, match="a figure must be above zero"):
        harness.valued(operation, {}, 1.0)


@pytest.mark.parametrize(
    ("rate", "unit", "more"),
    [
        (1e19, "FLOP", {}),
        (1e17, "byte", {}),
        (1.1e12, "FLOP", {"peak": 1e12}),
        (1e17, "FLOP", {"gpu": True}),
        (2e12, "byte", {"gpu": True, "peak": 1e12}),
    ],
)
def test_a_rate_that_the_device_cannot_reach_is_refused(
    harness: ModuleType, rate: float, unit: str, more: dict[str, Any]
) -> None:
    operation = harness.Operation(lambda: None, wait=lambda: None, work=rate, **more)
    with pytest.raises(harness.Invalid, match=f"{unit}/s is more than this device can do"):
        harness.refuse_impossible({"unit": unit}, operation, [2.0, 1.0])


@pytest.mark.parametrize(
    ("rate", "unit", "more"),
    [
        (1e11, "FLOP", {}),
        (1e10, "byte", {}),
        (0.9e12, "FLOP", {"peak": 1e12}),
        # More than any CPU does, and on a GPU that nobody knows the peak of it is possible.
        (3e15, "FLOP", {"gpu": True}),
        (1e30, "image", {}),
    ],
)
def test_a_rate_that_can_be_is_believed(
    harness: ModuleType, rate: float, unit: str, more: dict[str, Any]
) -> None:
    operation = harness.Operation(lambda: None, wait=lambda: None, work=rate, **more)
    harness.refuse_impossible({"unit": unit}, operation, [2.0, 1.0])


def test_a_launch_alone_cannot_be_timed_on_a_gpu(harness: ModuleType) -> None:
    with pytest.raises(TypeError, match="needs a wait"):
        harness.Operation(lambda: None, gpu=True)


def test_what_took_no_time_is_no_measurement(harness: ModuleType) -> None:
    with pytest.raises(harness.Invalid, match="give more --loops"):
        harness.refuse_impossible({}, harness.Operation(lambda: None), [1.0, 0.0])


@pytest.mark.parametrize(
    ("indicator", "parameters", "ratio"),
    [
        ({}, {"dtype": "float32"}, 1e-4),
        ({}, {"dtype": "float32", "autocast": "bfloat16"}, 3e-2),
        ({}, {"dtype": "float64", "autocast": "off"}, 1e-9),
        ({}, {}, 1e-9),
        ({}, {"dtype": "int8"}, 1e-9),
        ({"tolerance": 0.5}, {"dtype": "float64"}, 0.5),
    ],
)
def test_how_far_checksums_may_be_apart_is_a_matter_of_the_numbers_type(
    harness: ModuleType, indicator: dict[str, Any], parameters: dict[str, Any], ratio: float
) -> None:
    assert harness.tolerance(indicator, parameters) == ratio


def test_what_cannot_be_traced_is_refused_before_anything_is_measured(
    harness: ModuleType, clock: Clock, tmp_path: Path
) -> None:
    options = Namespace(samples=2, loops=1, trace=str(tmp_path / "trace"))
    setup = lambda _: harness.Operation(clock.takes(1.0))  # noqa: E731
    with pytest.raises(harness.Unsupported, match="keeps no trace"):
        harness.measure({}, setup, options, {})
    assert (clock.calls, list(tmp_path.iterdir())) == (0, [])


def test_a_trace_is_kept_in_a_folder_that_exists_after_the_last_sample(
    harness: ModuleType, clock: Clock, tmp_path: Path
) -> None:
    calls: list[int] = []

    def trace(folder: str) -> None:
        calls.append(clock.calls)
        Path(folder, "trace.json").write_text("{}")

    options = Namespace(samples=2, loops=1, trace=str(tmp_path / "new" / "trace"))
    setup = lambda _: harness.Operation(clock.takes(1.0), trace=trace)  # noqa: E731
    measured = harness.measure({}, setup, options, {})
    assert measured["values_s"] == [1.0, 1.0]
    assert calls == [clock.calls]
    assert (tmp_path / "new" / "trace" / "trace.json").exists()


@pytest.mark.parametrize("checksum", [float("nan"), float("inf")])
def test_a_result_that_is_no_number_is_a_failure(harness: ModuleType, checksum: float) -> None:
    with pytest.raises(harness.Invalid, match="the operation's result is wrong"):
        harness.finite(checksum)


def test_both_sides_of_the_process_agree_on_their_constants(harness: ModuleType) -> None:
    assert harness.SCHEMA == SCHEMA
    assert harness.WRONG_USAGE == WRONG_USAGE
    assert harness.THREAD_VARIABLES == THREAD_VARIABLES


@pytest.mark.parametrize("python", each_python())
def test_the_control_runs_and_computes_the_same_on_every_python(python: str) -> None:
    seen = parse_output(run("python/pure", "--rounds", "2", python=python).stdout).observation
    assert seen is not None
    # By hand: 0*31 + 9 in round 0, then 9*31 + 1+1+9 in round 1, then 290*31 + 0+1 at the end.
    assert seen.checksum == 8991.0
    assert len(seen.values_s) == 3


@pytest.mark.parametrize("python", each_python())
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
        (("--loops", "0"), "--loops: 0 is not above zero"),
    ],
)
def test_a_wrong_parameter_is_refused_in_one_sentence(option: tuple[str, ...], words: str) -> None:
    done = run("numpy/matmul", *option)
    assert done.returncode == WRONG_USAGE
    assert words in done.stderr
    assert done.stderr.count("\n") == 1


def test_what_was_loaded_is_reported_with_its_compiled_code() -> None:
    loaded = {row["name"]: row for row in document("numpy/import")["loaded"]}
    version = importlib.metadata.version("numpy")
    assert loaded["numpy"] == {"name": "numpy", "version": version, "compiled": True}
    assert "typer" not in loaded


def test_a_framework_that_is_missing_is_not_mistaken_for_our_folder_of_its_name() -> None:
    reported = document("tensorflow/matmul")
    assert reported["outcome"] == "import_failed"
    assert "No module named 'tensorflow'" in reported["reason"]


def test_threads_reach_the_variables_unless_they_are_set() -> None:
    circumstances = document("python/pure", "--threads", "3")["circumstances"]
    assert circumstances["env OMP_NUM_THREADS"] == "3"


@pytest.mark.parametrize(
    ("cpus", "quota", "threads"),
    [(64, "", 63), (64, "250000 100000", 2), (64, "50000 100000", 1), (2, "max 100000", 1)],
)
def test_threads_are_all_cpus_but_one_within_the_quota(
    harness: ModuleType,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    cpus: int,
    quota: str,
    threads: int,
) -> None:
    (tmp_path / "cpu").mkdir()
    old = zip(("quota_us", "period_us"), quota.replace("max", "-1").split(), strict=False)
    for name, number in old:
        (tmp_path / "cpu" / f"cpu.cfs_{name}").write_text(number + "\n")
    (tmp_path / "cpu.max").write_text(quota + "\n")
    monkeypatch.setattr(harness, "CONTROL_GROUPS", str(tmp_path))
    monkeypatch.setattr(harness, "usable_cpus", lambda: list(range(cpus)))
    assert harness.threads_or_auto("auto") == threads
    assert harness.threads_or_auto("7") == 7


@pytest.mark.parametrize(
    ("arguments", "status", "words"),
    [
        (("--help",), 0, "{matmul,einsum,"),
        ((), WRONG_USAGE, "the following arguments are required: indicator"),
        (("matmull",), WRONG_USAGE, "invalid choice: 'matmull' (choose from"),
        (("matmul", "--help"), 0, "linear_algebra.py matmul [-h] [--size SIZE]"),
        (("matmul", "--colour"), WRONG_USAGE, "linear_algebra.py matmul: unrecognized"),
    ],
)
def test_a_module_of_several_indicators_lists_them_and_takes_the_name_of_one(
    arguments: tuple[str, ...], status: int, words: str
) -> None:
    command = [sys.executable, "-s", "-B", find(INDICATORS, "numpy/matmul").path, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == status
    assert words in " ".join((done.stdout + done.stderr).split())


def table(**row: Any) -> dict[str, Any]:
    """Return the globals of a module with one indicator, whose setup returns what it is given."""
    return {
        "FAMILY": {"component": "python", "common": {"dtype": "float32"}, "revision": 3},
        "INDICATORS": {"one": {"summary": "s", "setup": "given", **row}},
        "given": lambda size, kind, parameters: (size, kind, parameters),
    }


def test_a_setup_is_given_the_parameters_and_constants_that_it_names(harness: ModuleType) -> None:
    module = table(constants={"kind": "GRU"}, common={"batch": 8}, revision=4)
    indicator, setup = harness.select(module, "one")
    assert setup({"size": 5, "batch": 8}) == (5, "GRU", {"size": 5, "batch": 8})
    assert (indicator["revision"], indicator["component"]) == (4, "python")
    assert indicator["common"] == {"dtype": "float32", "batch": 8}


def test_work_is_what_the_formula_of_parameters_and_constants_gives(harness: ModuleType) -> None:
    row = {"work": "gates * (size if kind == 'a' else 1) * itemsize", "constants": {"gates": 3}}
    indicator, _ = harness.select(table(**row), "one")
    given = {"size": 5, "kind": "a", "dtype": "float32"}
    assert harness.work_of(indicator, given) == 60
    assert harness.work_of(indicator, {**given, "kind": "b", "dtype": "float64"}) == 24
    assert harness.work_of(indicator, {**given, "passes": "both"}) == 180
    assert harness.work_of({}, given) is None


@pytest.mark.parametrize("indicator", ROWS, ids=lambda each: each.name)
def test_the_harness_takes_what_stackgen_has_read(
    harness: ModuleType, indicator: Indicator
) -> None:
    text = Path(indicator.path).read_text()
    values = {
        target.id: statement.value
        for statement in ast.parse(text).body
        if isinstance(statement, ast.Assign)
        for target in statement.targets
        if isinstance(target, ast.Name) and target.id in ("FAMILY", "INDICATORS")
    }
    module = {name: ast.literal_eval(value) for name, value in values.items()}
    row = harness.declared(module.get("FAMILY", {}), module["INDICATORS"][indicator.operation])
    takes = harness.parameters_of(row)
    assert {each.name: each.default for each in indicator.parameters} == {
        **{name: str(each["default"]) for name, each in takes.items()},
        "threads": "auto",
    }
    assert (row["component"], row.get("revision", 1)) == (indicator.component, indicator.revision)


def test_the_document_goes_into_a_file_too(tmp_path: Path) -> None:
    file = tmp_path / "document.json"
    done = run("python/pure", "--rounds", "5", "--output", str(file))
    assert file.read_text() == done.stdout.splitlines()[-1] + "\n"
