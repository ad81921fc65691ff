"""What the tests of PyTorch's indicators share: environments, and many indicators in one run."""

import json
import os
import platform
import runpy
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from uv import find_uv_bin

from stackgen.campaign.indicators import load_indicators
from stackgen.images.targets import find_interpreters, run_probe
from stackgen.index.config import load_config
from stackgen.storage.paths import shipped_folder
from tests import indicator_jobs

PIS = shipped_folder("pis")
INDICATORS = {each.name: each for each in load_indicators(PIS)}
Result = dict[str, Any]
CPU_TORCH = "torch==2.13.0+cpu"
Job = str  # an indicator and its options, as on a command line
# Tiny sizes, with sides that differ: what is swapped is seen.
OPERATIONS = (
    *indicator_jobs.OPERATIONS,
    "conv1d --length 30 --channels 3 --filters 5 --batch 2",
    "conv2d --size 10 --channels 3 --filters 5 --batch 2",
    "conv2d --size 11 --channels 3 --filters 5 --batch 2 --stride 2 --layout channels_last",
    "conv3d --size 6 --channels 2 --filters 3 --batch 2 --layout channels_last",
    "pooling --size 10 --channels 3 --batch 2 --kind average --layout channels_last",
)
# LSTMs of PyTorch have two biases for each gate: 4 * 64 more a direction, 4 * 256 more a layer.
_SECOND_BIASES = {"bilstm": 2 * 4 * 64, "char_lstm": 2 * 4 * 256}
MODELS = {
    name: (parameters + _SECOND_BIASES.get(name, 0), macs)
    for name, (parameters, macs) in indicator_jobs.MODELS.items()
}
# Does jobs as from the command line, each in a process of its own: a fork of one that has imported
# PyTorch, which takes seconds. "count" asks PyTorch's own counter for the FLOP of one operation, in
# place of measuring it. Python 3.8 and newer.
DRIVER = '''
import atexit
import gc
import json
import os
import platform
import runpy
import shutil
import sys
import tempfile
import traceback
import warnings

warnings.simplefilter("ignore")
import torch

if hasattr(torch, "compile"):
    import torch._dynamo


def script(path, name):
    """Return what a module declares under a name, with the harness in a hurry."""
    module = runpy.run_path(path, run_name="driven")
    harness = module["harness"]
    harness.WARM_UP_S = 0.0
    harness.loaded_distributions = list  # a fifth of a second for each job
    return (harness, *harness.select(module, name))


def run(path, name, options, output):
    """Measure, as the module's own last line does."""
    harness, indicator, setup = script(path, name)
    sys.argv = [name, "--threads", "1", "--samples", "2", "--output", output, *options]
    harness.main(indicator, setup)


def count(path, name, options, output):
    """Write FLOP of one operation: ours, and those that PyTorch counts."""
    from torch.nn.attention import SDPBackend, sdpa_kernel
    from torch.utils.flop_counter import FlopCounterMode

    harness, indicator, setup = script(path, name)
    _, parameters = harness.read_arguments(indicator, ["--threads", "1", *options])
    operation = harness.set_up(indicator, setup, parameters)
    # What is fused is not counted: in parts, it is.
    torch.backends.mha.set_fastpath_enabled(False)
    parts = torch.backends.mkldnn.flags(enabled=False)
    with sdpa_kernel(SDPBackend.MATH), parts, FlopCounterMode(display=False) as counter:
        operation.run()
    with open(output, "w") as file:
        json.dump({"work": operation.work, "counted": counter.get_total_flops()}, file)


def forked(what, path, name, options):
    """Return what a job wrote, or how it ended."""
    place = tempfile.mkdtemp()
    output, log = os.path.join(place, "output"), os.path.join(place, "log")
    child = os.fork()
    if child == 0:
        status = 1
        with open(log, "w") as file:
            os.dup2(file.fileno(), 1)
            os.dup2(file.fileno(), 2)
            try:
                what(path, name, options, output)
                status = 0
            except BaseException:
                traceback.print_exc(file=file)
            atexit._run_exitfuncs()
            file.flush()
        os._exit(status)
    _, status = os.waitpid(child, 0)
    with open(output if status == 0 else log) as file:
        said = file.read()
    shutil.rmtree(place)
    return {"outcome": "crashed", "reason": said[-3000:]} if status else json.loads(said)


def main():
    """Do all jobs, one after the other."""
    what = {"run": run, "count": count}[sys.argv[1]]
    jobs = json.load(sys.stdin)
    gc.freeze()  # PyTorch's objects, through which each job would have to look
    json.dump([forked(what, *script, options) for script, *options in jobs], sys.stdout)


if __name__ == "__main__":
    main()
'''


def environment(folder: Path, minor: str, *wanted: str) -> str:
    """Return the Python of a new virtualenv with these packages, where they can be had."""
    minors = {run_probe(path).version.rpartition(".")[0]: path for path in find_interpreters()}
    if minor not in minors:
        pytest.skip(f"no Python {minor} here for {wanted[0]}")
    uv, python = find_uv_bin(), str(folder / "bin" / "python")
    subprocess.run([uv, "--quiet", "venv", "--python", minors[minor], folder], check=True)
    links = [each.url for each in load_config(environ=os.environ).find_links]
    found = [option for link in links for option in ("--find-links", link)]
    command = [uv, "--quiet", "pip", "install", "--python", python, "--only-binary", ":all:"]
    done = subprocess.run([*command, *found, *wanted], capture_output=True, text=True, check=False)
    if "No solution found" in done.stderr:
        pytest.skip(f"no {wanted[0]} here (PIP_FIND_LINKS may name its folder)")
    assert done.returncode == 0, done.stderr
    return python


def script(name: str) -> tuple[str, str]:
    """Return the module of an indicator, and its row there."""
    return INDICATORS[name].path, INDICATORS[name].operation


def scripted(component: str, jobs: Sequence[Job]) -> list[list[Any]]:
    """Return jobs as drivers take them: the script of each, and its options."""
    words = [job.split() for job in jobs]
    return [[script(f"{component}/{name}"), *options] for name, *options in words]


def module(name: str) -> Any:
    """Return the module of an indicator, without its framework."""
    path = list(sys.path)
    try:
        return runpy.run_path(script(name)[0], run_name="defined")
    finally:
        sys.path[:] = path


def work(name: str, **parameters: Any) -> float:
    """Return FLOP or bytes of one run by an indicator's formula."""
    harness = module(name)["harness"]
    indicator, _ = harness.select(module(name), script(name)[1])
    found: float = harness.work_of(indicator, {"dtype": "float32", **parameters})
    return found


def driven(python: str, what: str, jobs: Sequence[Job]) -> dict[Job, Result]:
    """Return what each job told."""
    done = subprocess.run(
        [python, "-s", "-B", "-c", DRIVER, what],
        input=json.dumps(scripted("torch", jobs)),
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return dict(zip(jobs, json.loads(done.stdout), strict=True))


def cpu_environment(folder: Path) -> str:
    """Return an interpreter with PyTorch's CPU wheel, and without NumPy."""
    if (sys.platform, platform.machine()) != ("linux", "x86_64"):
        pytest.skip(f"the CPU wheel is for Linux on x86_64, this is {platform.platform()}")
    return environment(folder / "cpu", "3.11", CPU_TORCH)


def agree(reported: Result, other: Result) -> bool:
    """Whether two results are equal within the tolerance of the first."""
    tolerance: float = reported["circumstances"]["checksum_tolerance"]
    same: bool = reported["checksum"] == pytest.approx(other["checksum"], rel=tolerance, abs=0)
    return same and reported["work"] == other["work"]


def assert_all_ok(reported: Mapping[Job, Result], lacking: Mapping[str, str] | None = None) -> None:
    """All went right, but for those that lack what is told, by a part of the job."""
    for job, each in reported.items():
        reasons = [reason for part, reason in (lacking or {}).items() if part in job]
        if reasons and each["outcome"] == "unsupported":
            assert any(reason in each["reason"] for reason in reasons), (job, each["reason"])
        else:
            assert each["outcome"] == "ok", (job, each["reason"])
