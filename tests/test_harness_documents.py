"""What the harness prints of indicators that users write: outcomes, parameters, surroundings."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from stackgen.campaign.indicators import load_indicators
from stackgen.indicators.declaration import find
from stackgen.indicators.output import parse_output
from stackgen.model.inspections import Outcome
from stackgen.sandbox.process import WRONG_USAGE
from stackgen.storage.paths import shipped_folder
from tests.interpreters import each_python

PIS = shipped_folder("pis")
SCRIPT = """
import harness

harness.WARM_UP_S = 0.01
INDICATOR = {{"summary": "100 % ours", "component": "python", {declared}}}

def setup(parameters):
{setup}

if __name__ == "__main__":
    harness.main(INDICATOR, setup)
"""
NOTHING = "    return harness.Operation(lambda: sum(range(50)))"


class Script:
    """An indicator of a user's, outside of our folder."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def write(self, setup: str = NOTHING, declared: str = "") -> "Script":
        self.path.write_text(SCRIPT.format(setup=setup, declared=declared))
        return self

    def run(
        self, *options: str, python: str = sys.executable, **variables: str
    ) -> "subprocess.CompletedProcess[str]":
        command = [python, "-s", "-B", str(self.path), "--samples", "2", *options]
        environment = {**os.environ, "PYTHONPATH": str(PIS), **variables}
        return subprocess.run(command, capture_output=True, text=True, check=False, env=environment)

    def reported(
        self, *options: str, python: str = sys.executable, **variables: str
    ) -> dict[str, Any]:
        done = self.run(*options, python=python, **variables)
        assert done.returncode == 0, done.stderr
        reported: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
        return reported


@pytest.fixture
def script(tmp_path: Path) -> Script:
    return Script(tmp_path / "mine.py")


def test_a_file_without_parameters_is_an_indicator(script: Script) -> None:
    reported = script.write().reported()
    assert (reported["outcome"], reported["work"], reported["checksum"]) == ("ok", None, None)
    assert script.run("--help").returncode == 0


@pytest.mark.parametrize(
    ("setup", "outcome", "words"),
    [
        ("    raise harness.Unsupported('no such machine')", "unsupported", "no such machine"),
        ("    harness.load('no_such_module')", "import_failed", "No module named"),
        (
            "    return harness.Operation(lambda: None, work=1e30)",
            "invalid_output",
            "FLOP/s is more than this device can do",
        ),
        (
            "    return harness.Operation(lambda: None, figure=lambda: -1)",
            "invalid_output",
            "a figure must be above zero, not -1.0",
        ),
        (
            "    return harness.Operation(lambda: None, checksum=lambda: float('nan'))",
            "invalid_output",
            "its checksum is nan",
        ),
    ],
)
def test_what_is_no_measurement_is_reported_with_its_reason(
    script: Script, setup: str, outcome: str, words: str
) -> None:
    done = script.write(setup, '"unit": "FLOP"').run()
    parsed = parse_output(done.stdout)
    assert (done.returncode, parsed.outcome) == (0, Outcome(outcome))
    assert words in parsed.reason


def test_a_setup_that_returns_nothing_is_an_error(script: Script) -> None:
    done = script.write("    harness.Operation(lambda: None)").run()
    assert done.returncode == 1
    assert "setup must return a harness.Operation, not None" in done.stderr


def test_common_parameters_have_the_indicators_defaults_and_shared_values(
    script: Script,
) -> None:
    script.write(
        "    facts = {name: parameters[name] for name in ('dtype', 'batch', 'workers')}\n"
        "    return harness.Operation(lambda: None, facts=facts, items=parameters['batch'])",
        '"common": {"dtype": "float64", "batch": 8},'
        '"parameters": {"workers": {"type": "int", "default": 0}}',
    )
    reported = script.reported("--batch", "32")["circumstances"]
    assert (reported["dtype"], reported["batch"], reported["workers"], reported["items"]) == (
        "float64",
        32,
        0,
        32,
    )
    assert reported["checksum_tolerance"] == 1e-9
    assert script.reported("--workers", "0", "--dtype", "float16")["circumstances"]["workers"] == 0
    for option, words in (
        (("--dtype", "int8"), "invalid choice: 'int8'"),
        (("--batch", "0"), "0 is not above zero"),
        (("--workers", "-1"), "-1 is below zero"),
        (("--mode", "eager"), "unrecognized arguments"),
    ):
        done = script.run(*option)
        assert (done.returncode, words in done.stderr) == (WRONG_USAGE, True)


@pytest.mark.parametrize(
    ("declared", "words"),
    [
        ('"common": {"dtype": "int8"}', "the common parameter 'dtype' does not take 'int8'"),
        ('"common": {"size": 1}', "the common parameter 'size' does not exist"),
        (
            '"common": {"batch": 1}, "parameters": {"batch": {"type": "int", "default": 1}}',
            "the common parameter 'batch' is its own as well",
        ),
    ],
)
def test_a_wrong_declaration_names_the_file(script: Script, declared: str, words: str) -> None:
    done = script.write(declared=declared).run()
    assert done.returncode == 1
    assert done.stderr == f"{script.path} is not an indicator: {words}\n"


@pytest.mark.parametrize("kind", ["latency", "one_shot"])
def test_several_operations_a_sample_are_refused_where_each_is_one(
    script: Script, kind: str
) -> None:
    script.write(declared=f'"{kind}": True')
    done = script.run("--loops", "2")
    assert done.returncode == WRONG_USAGE
    assert "each sample of this indicator is one operation" in done.stderr
    reported = script.reported("--loops", "1", "--samples", "5")
    assert (reported["loops"], len(reported["values_s"])) == (1, 1 if kind == "one_shot" else 5)


def test_the_peak_of_memory_is_that_of_the_samples_and_not_of_the_checksum(
    script: Script,
) -> None:
    script.write(
        "    def checksum():\n"
        "        return float(len(bytearray(300000000)))\n"
        "    return harness.Operation(lambda: bytearray(50000000), checksum=checksum)"
    )
    reported = script.reported()
    used = reported["peak_memory_bytes"] - reported["circumstances"]["memory_before_bytes"]
    assert reported["checksum"] == 3e8
    assert 45_000_000 < used < 80_000_000


def test_the_import_of_the_framework_is_recorded_with_its_time_and_peak_memory(
    script: Script,
) -> None:
    (script.path.parent / "heavy.py").write_text("import time\nbytearray(90000000)\ntime.sleep(.2)")
    script.write('    harness.load("heavy")\n' + NOTHING, declared='"component": "heavy"')
    told = script.reported(PYTHONPATH=os.pathsep.join([str(PIS), str(script.path.parent)]))
    seen = told["circumstances"]
    assert 0.2 <= seen["import_s"] < 2
    assert 90_000_000 < seen["import_peak_memory_bytes"] <= told["peak_memory_bytes"]


def test_what_is_no_import_of_the_framework_is_not_recorded_as_one(script: Script) -> None:
    script.write('    harness.load("decimal")\n' + NOTHING)
    assert not {"import_s", "import_peak_memory_bytes"} & script.reported()["circumstances"].keys()


def test_the_parents_memory_is_not_the_indicators(script: Script) -> None:
    ballast = bytearray(b"x") * 300_000_000
    assert script.write().reported()["peak_memory_bytes"] < 100_000_000 < len(ballast)


EVERYTHING = """
    def trace(folder):
        with open(folder + "/trace.json", "w") as file:
            file.write("{}")

    def run():
        time.sleep(0.001)

    return harness.Operation(
        run, wait=lambda: None, work=2.0, checksum=lambda: 5, items=parameters["batch"],
        facts={"macs": 7, "nothing": None}, peak=1e12, device_memory=lambda: 9, gpu=True,
        trace=trace, figure=lambda: 4.0,
    )
"""


@pytest.mark.parametrize("python", each_python())
def test_every_part_of_the_harness_works_on_every_python(
    script: Script, tmp_path: Path, python: str
) -> None:
    setup = "    import time\n" + EVERYTHING
    declared = '"unit": "byte", "better": "higher", "common": {"batch": 8}, "latency": True'
    reported = script.write(setup, declared).reported(
        "--trace", str(tmp_path / "trace"), python=python, PATH=str(tmp_path)
    )
    assert (reported["outcome"], reported["values_s"], reported["checksum"]) == (
        "ok",
        [0.25, 0.25],
        5,
    )
    expected = {"items": 8, "macs": 7, "device_memory_bytes": 9, "figure": "higher"}
    assert expected.items() <= reported["circumstances"].items()
    assert "nothing" not in reported["circumstances"]
    assert (tmp_path / "trace" / "trace.json").exists()


SMI = """#!/bin/sh
echo "$@" >> {log}
case "$*" in *{refused}*) echo "Field is not a valid field to query."; exit 2;; esac
echo "1980, 2619, 41, [N/A], 97, 8123, 0x0000000000000004"
"""


@pytest.mark.parametrize("refused", ["event_reasons", "nothing"])
def test_a_gpus_state_is_reported_before_and_after_whatever_its_driver_calls_it(
    script: Script, tmp_path: Path, refused: str
) -> None:
    log = tmp_path / "log"
    smi = tmp_path / "nvidia-smi"
    smi.write_text(SMI.format(log=log, refused=refused))
    smi.chmod(0o755)
    script.write(
        "    return harness.Operation(lambda: None, int, gpu=True, device_memory=lambda: 7)"
    )
    path = f"{tmp_path}:{os.environ['PATH']}"
    reported = script.reported(PATH=path, CUDA_VISIBLE_DEVICES="3,1")["circumstances"]
    seen = {name: value for name, value in reported.items() if name.startswith("gpu ")}
    for place in ("before", "after"):
        assert seen.pop(f"gpu clocks.sm {place}") == "1980"
        assert seen.pop(f"gpu clocks_throttle_reasons.active {place}") == "0x0000000000000004"
        assert seen.pop(f"gpu utilization.gpu {place}") == "97"
        assert f"gpu power.draw {place}" not in seen
    assert reported["device_memory_bytes"] == 7
    assert log.read_text().startswith("-i 3 ")


def test_without_nvidia_smi_a_gpus_state_is_unknown_and_no_failure(
    script: Script, tmp_path: Path
) -> None:
    script.write("    return harness.Operation(lambda: None, int, gpu=True)")
    reported = script.reported(PATH=str(tmp_path))
    assert reported["outcome"] == "ok"
    assert not [name for name in reported["circumstances"] if name.startswith("gpu")]


LIMITED = """
    harness.CONTROL_GROUPS = {folder!r}
    return harness.Operation(lambda: None)
"""


@pytest.mark.parametrize(
    ("quota", "memory", "expected"),
    [
        (("150000 100000", "150000"), ("1000000", "1000000"), (1.5, 1000000)),
        (("max 100000", "-1"), ("max", "9223372036854771712"), (None, None)),
    ],
)
def test_what_a_container_may_use_is_reported_from_within(
    script: Script,
    tmp_path: Path,
    quota: tuple[str, str],
    memory: tuple[str, str],
    expected: tuple[float | None, int | None],
) -> None:
    # Both versions of control groups: the host of this test has one of them.
    files = {
        "cpu.max": quota[0],
        "cpu/cpu.cfs_quota_us": quota[1],
        "cpu/cpu.cfs_period_us": "100000",
        "memory.max": memory[0],
        "memory/memory.limit_in_bytes": memory[1],
    }
    for name, text in files.items():
        (tmp_path / "groups" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "groups" / name).write_text(text + "\n")
    script.write(LIMITED.format(folder=str(tmp_path / "groups")))
    reported = script.reported()["circumstances"]
    assert (reported.get("cpu_quota"), reported.get("memory_limit_bytes")) == expected


def test_on_the_cpu_no_gpu_is_seen(script: Script) -> None:
    script.write(
        "    import os\n"
        "    facts = {'seen': os.environ.get('CUDA_VISIBLE_DEVICES', 'all')}\n"
        "    return harness.Operation(lambda: None, facts=facts)",
        '"common": {"device": "auto"}',
    )
    assert script.reported("--device", "cpu")["circumstances"]["seen"] == "-1"
    assert script.reported(CUDA_VISIBLE_DEVICES="1")["circumstances"]["seen"] == "1"


def test_the_blas_in_use_is_reported_with_the_kernels_that_it_chose() -> None:
    script = [sys.executable, "-s", find(load_indicators(PIS), "numpy/matmul").path, "matmul"]
    done = subprocess.run(
        [*script, "--size", "64", "--threads", "1", "--samples", "2"],
        capture_output=True,
        text=True,
        check=True,
        env={name: value for name, value in os.environ.items() if "THREADS" not in name},
    )
    reported = json.loads(done.stdout.splitlines()[-1])["circumstances"]
    import numpy as np

    config: Any = np.show_config(mode="dicts")
    blas = config["Build Dependencies"]["blas"]
    if "openblas" not in blas["name"]:
        pytest.skip(f"this NumPy computes with {blas['name']}")
    words = reported["blas"].split()
    assert words[0] == "openblas"
    assert words[1].startswith(blas["version"].split(".dev")[0])
    assert words[-2:] == ["threads:", "1"]
    assert len(words) == 6  # and the kernels' name and the kind of threads between


def test_an_indicator_without_a_blas_reports_none(script: Script) -> None:
    assert "blas" not in script.write().reported()["circumstances"]


def test_little_is_loaded_before_what_is_measured(script: Script) -> None:
    # An import finds what is there already, and takes less time than it would by itself.
    script.write("    import sys\n    facts = {'loaded': ' '.join(sys.modules)}\n"
        "    return harness.Operation(lambda: None, facts=facts)", '"one_shot": True')  # fmt: skip
    loaded = set(script.reported()["circumstances"]["loaded"].split())
    assert not loaded & {"json", "subprocess", "statistics", "random", "platform", "glob"}
