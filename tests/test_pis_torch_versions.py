"""PyTorch's indicators on an old version and a new one, compiled, and on a GPU."""

import json
import os
import subprocess
import sys

import pytest

from tests.torch_parts import (
    CPU_TORCH,
    MODELS,
    OPERATIONS,
    agree,
    assert_all_ok,
    cpu_environment,
    driven,
    environment,
    script,
)

OLD, NEW = "torch==1.12.1", CPU_TORCH
TYPES = ("", " --dtype float64", " --dtype float16", " --dtype bfloat16", " --autocast bfloat16",
         " --autocast float16", " --passes both --autocast bfloat16 --mode graph",
         " --passes both --dtype bfloat16")  # fmt: skip
# Why an old version may refuse a job, by what the job has in it; all else has to work.
LACKING_ON_CPU = {
    "float16": "not implemented for 'Half'",
    "autocast float16": "does not cast to float16 on a cpu",
    "--dtype bfloat16": "not implemented for 'BFloat16'",
    "text_classifier": "to have one of the following scalar types",
    "transformer": "expected scalar type BFloat16 but found Float",  # its fused layer, autocast
}


@pytest.fixture(scope="module")
def cpu_torch(tmp_path_factory: pytest.TempPathFactory) -> str:
    return cpu_environment(tmp_path_factory.mktemp("torch"))


@pytest.fixture(scope="module", params=["alone", "numpy<2"])
def versions(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, str]:
    """Return interpreters with an old PyTorch (its CUDA build) and a new one (for CPUs)."""
    folder = tmp_path_factory.mktemp("versions")
    more = [] if request.param == "alone" else [request.param]
    return {
        NEW: environment(folder / "new", "3.11", NEW, *more),
        OLD: environment(folder / "old", "3.9", OLD, *more),
    }


@pytest.mark.slow
@pytest.mark.network
def test_every_version_computes_the_same(versions: dict[str, str]) -> None:
    jobs = [job + kind for job in OPERATIONS for kind in TYPES]
    models = [f"{name} --batch {1 if name == 'efficientnet_b0' else 2}" for name in MODELS]
    jobs += [job + kind for job in models for kind in TYPES if "passes" not in kind]
    jobs += [job + " --step training" + kind for job in models for kind in ("", " --mode graph")]
    jobs += ["all_reduce --size 100", "input --batch 8 --workers 1 --prefetch 1", "dispatch"]
    new, old = (driven(versions[each], "run", jobs) for each in (NEW, OLD))
    assert_all_ok(new, {"autocast float16": "could not create a primitive"})
    assert_all_ok(old, LACKING_ON_CPU)
    different = [
        (job, reported["checksum"], old[job]["checksum"])
        for job, reported in new.items()
        if reported["outcome"] == old[job]["outcome"] == "ok" and not agree(reported, old[job])
    ]
    assert different == []


@pytest.mark.slow
@pytest.mark.network
def test_what_is_compiled_computes_the_same(cpu_torch: str) -> None:
    jobs = ["matmul --size 24", "softmax --size 20 --batch 3 --passes both",
            "mlp --batch 2 --step training"]  # fmt: skip
    reported = driven(cpu_torch, "run", [*jobs, *(job + " --mode compiled" for job in jobs)])
    assert_all_ok(reported)
    for job in jobs:
        assert agree(reported[job], reported[job + " --mode compiled"]), job
    recurrent = "lstm --steps 4 --inputs 6 --hidden 5 --batch 2 --mode compiled"
    others = driven(cpu_torch, "run", ["compile --mode graph", "compile", recurrent])
    assert agree(others["compile --mode graph"], others["compile"])
    assert others[recurrent]["outcome"] == "unsupported"
    assert others[recurrent]["reason"].startswith("torch.compile makes no whole graph of it")


LOOP = """
import torch
if not torch.cuda.is_available():
    raise SystemExit("PyTorch sees no GPU")
a, b = (torch.rand(8192, 8192, device="cuda").to(torch.bfloat16) for _ in range(2))
best = 0
for _ in range(10):
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    start.record()
    for _ in range(20):
        torch.matmul(a, b)
    end.record()
    torch.cuda.synchronize()
    best = max(best, 20 * 2 * 8192**3 / (start.elapsed_time(end) / 1000))
print(best)
"""


@pytest.mark.gpu
def test_a_matmul_on_a_gpu_reaches_85_percent_of_a_plain_loop_with_device_events() -> None:
    python = os.environ.get("STACKGEN_GPU_PYTHON", sys.executable)
    loop = subprocess.run([python, "-c", LOOP], capture_output=True, text=True, check=False)
    if loop.returncode:
        why = (loop.stderr.strip().splitlines() or ["it does not say why"])[-1]
        pytest.skip(f"no PyTorch with a GPU in {python} (STACKGEN_GPU_PYTHON names one): {why}")
    options = ["--size", "8192", "--dtype", "bfloat16"]
    command = [python, "-s", "-B", *script("torch/matmul"), *options]
    done = subprocess.run(command, capture_output=True, check=True)
    reported = json.loads(done.stdout.splitlines()[-1])
    assert reported["outcome"] == "ok", reported["reason"]
    assert reported["work"] / min(reported["values_s"]) >= 0.85 * float(loop.stdout)
