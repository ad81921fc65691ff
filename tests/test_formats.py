"""Results as people and other tools read them: golden files, and the tools themselves."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from uv import find_uv_bin

from stackgen import __version__
from stackgen.cli.indicators import OtherFormat
from stackgen.errors import MeasurementError, UsageError
from stackgen.model.inspections import Outcome
from stackgen.report.formats import fields, formatted, refuse_unfit
from stackgen.report.formats.pytorch_benchmark import bytes_text, count_text, time_text, yaml_lines
from stackgen.report.formats.thoth import USAGE
from stackgen.report.indicators import local_text
from stackgen.report.tables import duration
from tests.formats import BATCHES, FAILED, MODEL, ONE, RUSAGE, WITH_GPU, ran, report, result

GOLDEN = Path(__file__).parent / "golden" / "formats"
GPU = report(
    result(
        ran(
            0.001,
            0.002,
            reported={"device_memory_bytes": "900000000", "gpu utilization.gpu after": "97"},
        )
    ),
    machine=WITH_GPU,
)
NOTHING = report(result(ran(outcome=Outcome.IMPORT_FAILED, log="No module named 'torch'")))
FIGURE = report(result(ran(1 / 0.9, 1 / 0.875, reported={"figure": "higher"})))
TEXTS = {
    "local-figure.txt": local_text(FIGURE),
    "local-one.txt": local_text(ONE),
    "local-batches.txt": local_text(BATCHES),
    "local-failed.txt": local_text(FAILED),
    "local-nothing.txt": local_text(NOTHING),
    "local-gpu.txt": local_text(GPU),
    "perfzero.json": re.sub(
        r'(?<="trial_id": )".*"',
        '"DIGEST"',
        formatted(ONE, "perfzero").replace(f'"{__version__}"', '"VERSION"'),
    ),
    "thoth.json": formatted(ONE, "thoth"),
    "pyperf.json": formatted(BATCHES, "pyperf"),
    "pytorch-benchmark.yaml": formatted(BATCHES, "pytorch-benchmark"),
    "pytorch-benchmark-gpu.yaml": formatted(GPU, "pytorch-benchmark"),
}


def rounded(text: str) -> str:
    """Return a text without last digits: Python 3.11 rounds standard deviations in another way."""
    return re.sub(r"\d+\.\d{14,}(e-\d+)?", lambda found: f"{float(found[0]):.12g}", text)


@pytest.mark.parametrize("name", sorted(TEXTS))
def test_results_read_as_they_did(name: str) -> None:
    golden = GOLDEN / name
    if os.environ.get("STACKGEN_GOLDEN") == "write":
        golden.parent.mkdir(exist_ok=True)
        golden.write_text(TEXTS[name].rstrip("\n") + "\n")
    assert rounded(TEXTS[name]).rstrip("\n") + "\n" == rounded(golden.read_text())


def test_every_golden_file_is_of_use() -> None:
    assert {each.name for each in GOLDEN.iterdir()} == set(TEXTS)


def read(text: str) -> Any:
    return json.loads(text)


def test_perfzero_has_its_own_fields_and_no_others() -> None:
    found = read(formatted(ONE, "perfzero"))
    assert found.keys() == {
        *("execution_id", "execution_timestamp", "setup_info", "ml_framework_info"),
        *("benchmark_info", "system_info", "process_info", "benchmark_result"),
    }
    assert found["ml_framework_info"].keys() == {"name", "version", "build_version", "build_label"}
    assert found["benchmark_info"].keys() == {
        *("harness_name", "harness_info", "has_exception", "execution_label", "output_url"),
        *("env_vars", "flags", "site_package_info"),
    }
    assert found["system_info"].keys() == {
        *("platform_name", "system_name", "accelerator_count", "accelerator_model"),
        *("accelerator_driver_version", "cpu_model", "physical_cpu_count", "logical_cpu_count"),
        *("cpu_socket_count", "hostname"),
    }
    assert found["process_info"].keys() == {"max_rss", "max_vms", "max_cpu_percent"}
    assert found["benchmark_result"].keys() == {
        *("name", "wall_time", "succeeded", "extras", "metrics", "trial_id"),
    }


def test_perfzero_reports_the_median_time_and_samples_per_second() -> None:
    found = read(formatted(ONE, "perfzero"))
    metrics = {each["name"]: each["value"] for each in found["benchmark_result"]["metrics"]}
    assert found["benchmark_result"]["wall_time"] == 0.005
    assert metrics["exp_per_second"] == pytest.approx(8 / 0.005)
    assert metrics["flop_per_second"] == pytest.approx(16e6 / 0.005)
    assert found["process_info"] == {
        "max_rss": 80 << 20,
        "max_vms": None,
        "max_cpu_percent": pytest.approx(50),
    }


def test_perfzero_reports_a_failure_by_a_wall_time_of_minus_one() -> None:
    fine, failed = read(formatted(FAILED, "perfzero"))
    assert fine["benchmark_result"]["succeeded"]
    assert (failed["benchmark_result"]["wall_time"], failed["benchmark_result"]["succeeded"]) == (
        -1,
        False,
    )
    assert failed["benchmark_info"]["has_exception"]


def test_perfzero_counts_accelerators() -> None:
    reported = read(formatted(GPU, "perfzero"))["system_info"]
    assert (reported["accelerator_count"], reported["accelerator_model"]) == (1, "Tesla T4")
    assert reported["accelerator_driver_version"] == "550.54.15"


def test_thoth_has_its_own_fields_and_no_others() -> None:
    found = read(formatted(ONE, "thoth"))
    assert found.keys() == {
        *("exit_code", "start_datetime", "end_datetime", "hostname", "script_sha256"),
        *("os_release", "runtime_environment", "usage", "stderr", "stdout", "hwinfo"),
    }
    assert found["runtime_environment"].keys() == {
        *("cuda_version", "hardware", "operating_system", "python_version"),
    }
    assert found["usage"].keys() == set(USAGE)
    assert len(USAGE) == 16
    assert found["stdout"].keys() == {
        *("component", "name", "@parameters", "@result"),
        *("tensorflow_upstream_buildinfo", "tensorflow_aicoe_buildinfo"),
    }
    assert found["hwinfo"].keys() == {"cpu_features", "cpu_info", "cpu_type", "platform"}


def test_thoth_counts_milliseconds_and_gflops() -> None:
    found = read(formatted(ONE, "thoth"))
    assert found["stdout"]["@result"] == {
        "elapsed": pytest.approx(5.0),
        "rate": pytest.approx(16e6 / 0.005 / 1e9),
    }
    assert found["stdout"]["name"] == "PiSmallCnn"
    assert found["stdout"]["@parameters"] == {"batch": 8, "step": "inference", "threads": 1}


def test_thoth_reports_each_process_with_what_the_system_counted() -> None:
    results = read(formatted(BATCHES, "thoth"))
    assert len(results) == 3
    values = [fields.number(each) for each in RUSAGE.split()]
    assert list(results[0]["usage"].values()) == values
    assert (results[0]["start_datetime"], results[0]["end_datetime"]) == (
        "2026-01-02T03:04:05.500000",
        "2026-01-02T03:04:08.000000",
    )


def test_thoth_gets_how_a_process_failed() -> None:
    found = read(formatted(FAILED, "thoth"))[1]
    assert (found["exit_code"], found["stdout"]) == (1, "")
    assert "SIGSEGV" in found["stderr"]


@pytest.mark.parametrize("name", [each.value for each in OtherFormat])
def test_a_figure_that_is_no_time_is_written_as_none(name: str) -> None:
    with pytest.raises(MeasurementError, match="a figure of its own"):
        formatted(FIGURE, name)


def test_pyperf_knows_no_empty_suite() -> None:
    with pytest.raises(MeasurementError, match="nothing to write for pyperf"):
        formatted(NOTHING, "pyperf")


def test_pytorch_benchmark_distinguishes_batches_and_nothing_else() -> None:
    refuse_unfit("pytorch-benchmark", [("batch", ("1", "8")), ("threads", ("1",))])
    refuse_unfit("thoth", [("threads", ("1", "2"))])
    with pytest.raises(UsageError, match="several values of threads"):
        refuse_unfit("pytorch-benchmark", [("batch", ("1", "8")), ("threads", ("1", "2"))])
    with pytest.raises(UsageError, match="a training step"):
        refuse_unfit("pytorch-benchmark", [("step", ("training",))])


def test_pytorch_benchmark_gets_multiply_accumulates_of_one_sample() -> None:
    reported = formatted(report(result(ran(1.0))), "pytorch-benchmark")
    assert "\nflops: 1000000\n" in reported  # as the indicator says
    reported = formatted(report(result(ran(1.0, reported={"macs": ""}))), "pytorch-benchmark")
    assert "\nflops: 1000000\n" in reported  # 16e6 FLOP of 8 samples


@pytest.mark.parametrize(
    ("seconds", "text"), [(2.0, "2.000 s"), (0.074439, "74.439 ms"), (1.5e-6, "1.500 us")]
)
def test_pytorch_benchmark_spells_times(seconds: float, text: str) -> None:
    assert time_text(seconds) == text


def test_pytorch_benchmark_spells_amounts() -> None:
    assert [count_text(6962.9), count_text(13.528)] == ["6.96 K", "13.53"]
    assert [bytes_text(512), bytes_text(16 << 30)] == ["512.00B", "16.00 GB"]


def test_small_numbers_are_numbers_to_every_reader_of_yaml() -> None:
    """YAML 1.1 takes 1e-05 for a text."""
    assert yaml_lines({"a": 1e-05, "b": 1.5e-05, "c": 1e300}) == [
        "a: 1.0e-05",
        "b: 1.5e-05",
        "c: 1.0e+300",
    ]


def test_lists_and_texts_of_yaml() -> None:
    reported = {"gpus": [{"memory": "1 MB", "name": "a: b"}], "none": [], "text": 'say "x"'}
    assert yaml_lines(reported) == [
        "gpus:",
        '  - memory: "1 MB"',
        '    name: "a: b"',
        "none: []",
        'text: "say \\"x\\""',
    ]


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(1.5, "1.5 s"), (0.0123456, "12.35 ms"), (4.393e-5, "43.93 us"), (5e-9, "5 ns")],
)
def test_times_are_reported_with_their_units(seconds: float, text: str) -> None:
    assert duration(seconds) == text


READER = """
import json, sys
import pyperf, yaml
suite = pyperf.BenchmarkSuite.load(sys.argv[1])
with open(sys.argv[2]) as file:
    told = yaml.safe_load(file)
print(json.dumps({
    "pyperf": [
        [each.get_name(), each.median(), each.get_nrun(), each.get_nvalue(), each.get_loops(),
         each.get_unit(), each.get_metadata()["python_version"], str(each.get_dates()[0])]
        for each in suite.get_benchmarks()
    ],
    "yaml": told,
}))
"""


@pytest.mark.network
def test_pyperf_and_a_yaml_parser_read_what_we_write(tmp_path: Path) -> None:
    packages = tmp_path / "packages"
    install = [find_uv_bin(), "pip", "install", "--quiet", "--target", str(packages)]
    done = subprocess.run(
        [*install, "--python", sys.executable, "pyperf", "pyyaml"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    suite, benchmark = tmp_path / "suite.json", tmp_path / "benchmark.yaml"
    suite.write_text(formatted(BATCHES, "pyperf"))
    benchmark.write_text(formatted(BATCHES, "pytorch-benchmark"))
    environ = {**os.environ, "PYTHONPATH": str(packages)}
    answer = subprocess.run(
        [sys.executable, "-c", READER, str(suite), str(benchmark)],
        capture_output=True,
        text=True,
        check=True,
        env=environ,
    )
    reported = json.loads(answer.stdout)
    one, eight = reported["pyperf"]
    assert one[:2] == ["torch/small_cnn batch=1 step=inference threads=1", pytest.approx(0.0011)]
    assert eight[2:7] == [2, 6, 1, "second", "3.11.2"]
    assert eight[7].startswith("2026-01-02 03:04:05")
    timing = reported["yaml"]["timing"]["batch_size_8"]["on_device_inference"]["metrics"]
    assert timing["seconds_per_batch_max"] == 0.006
    assert reported["yaml"]["params"] == 25000
    assert reported["yaml"]["machine_info"]["gpus"] is None
    shown = [sys.executable, "-m", "pyperf", "stats", str(suite)]
    printed = subprocess.run(shown, capture_output=True, text=True, check=True, env=environ)
    assert "Number of run with values: 2" in printed.stdout
    assert MODEL.name in printed.stdout
