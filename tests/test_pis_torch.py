"""PyTorch's indicators: what they count, what they compute, and what they refuse.

They run by the harness as ever, at tiny sizes, each in a fork of one process (see torch_parts.py).
"""

import json
import os
import signal
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from stackgen.campaign.indicators import load_indicators
from tests.torch_parts import (
    MODELS,
    OPERATIONS,
    PIS,
    agree,
    cpu_environment,
    driven,
    module,
    script,
    work,
)

INDICATORS = {
    each.name.partition("/")[2]: each for each in load_indicators(PIS) if each.component == "torch"
}


@pytest.fixture(scope="module")
def shared() -> Any:
    return module("torch/conv2d")["framework"]


@pytest.mark.parametrize(
    ("name", "parameters", "by_hand"),
    [
        ("matmul", "size=3", 9 * (3 + 3)),
        ("matmul", "size=3 passes=both", 3 * 9 * (3 + 3)),
        ("batched_matmul", "batch=5 size=3", 5 * 9 * (3 + 3)),
        # Two rows of seven places, four of which the stride meets: each of 2 x 4 x 6 results
        # takes 3 x 5 terms.
        ("conv1d", "batch=2 length=7 stride=2 channels=5 filters=6 kernel=3", 48 * 3 * 5 * 2),
        ("conv2d", "batch=2 size=7 stride=2 channels=5 filters=6 kernel=3", 2 * 16 * 6 * 9 * 5 * 2),
        ("conv3d", "batch=2 size=4 channels=5 filters=6 kernel=3", 2 * 64 * 6 * 27 * 5 * 2),
        # One channel each: 2 x 4 x 4 x 5 results of 9 terms.
        ("depthwise", "batch=2 size=4 channels=5 kernel=3", 2 * 16 * 5 * 9 * 2),
        # 2 x 3 images of 25 numbers become 4 numbers each; no count has the odd edge's results.
        ("pooling", "batch=2 channels=3 size=5 window=2", 4 * (6 * 25 + 6 * 4)),
        ("activation", "size=10", 4 * (10 + 10)),
        ("softmax", "batch=2 size=5", 4 * (10 + 10)),
        ("layer_norm", "batch=2 size=5", 4 * (10 + 5 + 5 + 10)),
        ("batch_norm", "batch=2 size=4 channels=3", 4 * (96 + 3 + 3 + 96)),
        ("elementwise", "kind=add size=10", 4 * (10 + 10 + 10)),
        ("elementwise", "kind=exp size=10 dtype=float64", 8 * (10 + 10)),
        ("reduction", "size=5", 4 * (25 + 5)),
        ("transpose", "size=5 dtype=bfloat16", 2 * (25 + 25)),
        # Each of 3 steps of 2 sequences: 5 results of 4 + 5 terms, for each gate.
        ("rnn", "batch=2 steps=3 inputs=4 hidden=5", 3 * 2 * 5 * 9 * 2),
        ("gru", "batch=2 steps=3 inputs=4 hidden=5", 3 * 2 * 5 * 9 * 2 * 3),
        ("lstm", "batch=2 steps=3 inputs=4 hidden=5", 3 * 2 * 5 * 9 * 2 * 4),
        # 2 x 3 heads: 4 x 4 scores of 5 terms, then 4 x 5 results of 4 terms.
        ("attention", "batch=2 heads=3 length=4 width=5 causal=no", 6 * (16 * 5 + 20 * 4) * 2),
        ("attention", "batch=2 heads=3 length=4 width=5 causal=yes", 6 * (16 * 5 + 20 * 4)),
        # 6 words: a number of 8 bytes, a row of 5 numbers of 4 bytes in, and the same out.
        ("embedding", "batch=2 length=3 width=5", 6 * (8 + 20 + 20)),
        # Half of each of 10 sums is another's, so 40 bytes go and 40 come.
        ("all_reduce", "size=10", 40 + 40),
        ("copy", "size=3", 3 * 2**20),
    ],
)
def test_work_is_what_a_person_counts(name: str, parameters: str, by_hand: int) -> None:
    given = dict(each.split("=") for each in parameters.split())
    numbers = {key: int(each) if each.isdigit() else each for key, each in given.items()}
    assert work(f"torch/{name}", **numbers) == by_hand


def test_efficientnets_macs_are_those_of_its_products_and_what_is_usually_added() -> None:
    products, macs = module("torch/efficientnet_b0")["models"].efficientnet_counts()
    # Of its 80 convolutions and one dense layer; then 10,340 biases, 6,737,696 normalised numbers
    # at two each, and 2,369,248 that are averaged.
    assert products == 384_534_752 + 1_280_000
    assert macs == products + 10_340 + 2 * 6_737_696 + 2_369_248 == 401_669_732


def test_same_padding_gives_a_result_for_every_place_that_the_stride_meets(shared: Any) -> None:
    for size in range(1, 12):
        for kernel in (1, 3, 5):
            for stride in (1, 2, 3):
                padded = size + 2 * shared.same_padding(kernel)
                places = range(0, padded - kernel + 1, stride)
                assert shared.same_outputs(size, stride) == len(places)
    with pytest.raises(sys.modules["harness"].Unsupported, match="give an odd one"):
        shared.same_padding(4)


@pytest.mark.parametrize(
    ("device", "family", "multiprocessors", "gigahertz", "numbers", "published_tera"),
    [
        ("V100", 7, 80, 1.53, "float16", 125),
        ("T4", 7, 40, 1.59, "float16", 65),
        ("A100", 8, 108, 1.41, "bfloat16", 312),
        ("A100", 8, 108, 1.41, "float32", 156),  # as TF32
        ("A100", 8, 108, 1.41, "float64", 19.5),
        ("L40S", 8, 142, 2.52, "float16", 362),
        ("H100", 9, 132, 1.83, "float16", 989),
        ("H100", 9, 132, 1.98, "float64", 67),
    ],
)
def test_no_published_peak_is_above_ours_nor_far_below(
    shared: Any, device: str, family: int, multiprocessors: int, gigahertz: float, numbers: str,
    published_tera: float,
) -> None:  # fmt: skip
    peak = shared.harness.gpu_peak("FLOP", numbers, multiprocessors, gigahertz * 1e9, family)
    assert published_tera < peak / 1e12 < 2.5 * published_tera, device


def test_the_catalogue_is_complete() -> None:
    operations = {job.split()[0] for job in OPERATIONS}
    others = {"import", "first_call", "compile", "dispatch", "copy", "all_reduce", "input"}
    assert {name for name in INDICATORS if name in operations | others | MODELS.keys()} == (
        operations | others | MODELS.keys()
    )
    for name in operations:
        takes = {each.name: each.default for each in INDICATORS[name].parameters}
        assert takes["dtype"] == "float32"
        assert takes.items() >= {
            "device": "auto", "mode": "eager", "autocast": "off", "passes": "forward"
        }.items()  # fmt: skip
    for name in MODELS:
        takes = {each.name: each.default for each in INDICATORS[name].parameters}
        assert takes.items() >= {"step": "inference", "batch": "8", "mode": "eager"}.items()


@pytest.fixture(scope="module")
def cpu_torch(tmp_path_factory: pytest.TempPathFactory) -> str:
    return cpu_environment(tmp_path_factory.mktemp("torch"))


@pytest.mark.network
def test_every_indicator_computes_the_same_in_every_mode(cpu_torch: str, tmp_path: Path) -> None:
    modes = ("", " --mode graph", " --passes both")
    jobs = [job + mode for job in OPERATIONS for mode in modes]
    jobs += [job + " --passes both --mode graph" for job in OPERATIONS if "--kind" not in job]
    steps = (" --batch 2", " --batch 2 --mode graph", " --batch 2 --step training")
    few = [name for name in MODELS if name not in ("efficientnet_b0", "transformer")]
    small = [name + step for name in few for step in steps]
    large = ["transformer --batch 1", "efficientnet_b0 --batch 1",
             "efficientnet_b0 --batch 1 --layout channels_last --mode graph"]  # fmt: skip
    others = ["first_call --size 20", "compile --mode graph", "dispatch", "dispatch --mode graph",
              "input --batch 8", "input --batch 8 --cached yes",
              "input --batch 8 --workers 1 --prefetch 1", "all_reduce --size 100",
              f"matmul --size 24 --trace {tmp_path}"]  # fmt: skip
    more = ["copy", "compile --mode eager", "input --workers 1", "pooling --size 3 --window 4",
            "batch_norm --batch 1 --size 1"]  # fmt: skip
    reported = driven(cpu_torch, "run", [*jobs, *small, *large, *others, *more])
    refused = {job: each["reason"] for job, each in reported.items() if each["outcome"] != "ok"}
    assert refused == {
        "copy": "PyTorch sees no GPU here, so there is nowhere to copy to",
        "compile --mode eager": "mode=eager makes nothing ready: give graph or compiled",
        "pooling --size 3 --window 4": "a window of 4 is larger than the image",
        "batch_norm --batch 1 --size 1": "one number of each channel has no variance: "
        "give a larger batch",
        "input --workers 1": "a DataLoader reads ahead in workers, and then always: "
        "give both or none",
    }
    for job in [*jobs, *small]:
        assert agree(reported[job], reported[job.replace(" --mode graph", "")]), job
    for job in OPERATIONS:
        assert reported[f"{job} --passes both"]["work"] == 3 * reported[job]["work"]
        assert reported[f"{job} --passes both"]["checksum"] != reported[job]["checksum"]
    for name, (parameters, macs) in MODELS.items():
        seen = reported[f"{name} --batch {1 if f'{name} --batch 1' in reported else 2}"]
        facts = seen["circumstances"]
        assert (facts["parameters"], facts["macs"]) == (parameters, macs), name
        assert seen["work"] == 2 * macs * facts["items"]
    assert agree(reported[large[1]], reported[large[2]])
    assert agree(reported[others[4]], reported[others[5]])
    assert agree(reported[others[4]], reported[others[6]])
    assert json.loads((tmp_path / "torch.pt.trace.json").read_text())["traceEvents"]
    assert {each["component_version"] for each in reported.values()} == {"2.13.0+cpu"}


@pytest.mark.network
def test_the_loss_of_float64_is_reported_as_finely_as_its_tolerance(cpu_torch: str) -> None:
    job = "mlp --batch 2 --step training --dtype float64"
    loss = driven(cpu_torch, "run", [job])[job]["checksum"]
    assert struct.unpack("f", struct.pack("f", loss))[0] != loss


@pytest.mark.network
def test_our_flop_are_those_of_pytorchs_own_counter(cpu_torch: str) -> None:
    counted = [job for job in OPERATIONS if INDICATORS[job.split()[0]].unit == "FLOP"]
    models = [f"{name} --batch 1" for name in MODELS]
    # It takes causal attention for whole, and the gradients of grouped convolutions for those of
    # whole ones; recurrent layers cannot be counted backwards.
    passes = ("matmul", "batched_matmul", "conv", "attention")
    both = [f"{job} --passes both" for job in counted if job.startswith(passes)]
    for job, reported in driven(cpu_torch, "count", [*counted, *both, *models]).items():
        ours = reported["work"] * (2 if "causal yes" in job else 1)
        if job.startswith("efficientnet"):
            ours = 2 * 385_814_752  # of its products alone
        assert ours == reported["counted"], job


@pytest.mark.network
def test_a_checksum_depends_on_every_number_its_sign_and_its_place(cpu_torch: str) -> None:
    code = """
import sys, runpy
module = runpy.run_path(sys.argv[1], run_name="defined")
here = module["harness"].framework("torch").start({}, {"threads": 1, "dtype": "float64"})
right = here.numbers((600, 700), 3)
truth = here.digest(right)
assert here.digest(right.t().contiguous().t()) == truth
wrongs = [right.t(), right.flip(0), right.clone(), right.clone(), right.clone()]
wrongs[2][599, 699] *= 1.01
wrongs[3][5, 7] *= -1
wrongs[4][[3, 200]] = wrongs[4][[200, 3]]
for wrong in wrongs:
    assert abs(here.digest(wrong) / truth - 1) > 1e-9
assert abs(right.mean()) < 1e-3 and abs(right.var() * 12 - 1) < 1e-2
images = here.numbers((8, 64, 20, 20), 3)
for wrong in (images.flip(1), images.permute(0, 2, 3, 1), images.flip(2), images.transpose(2, 3)):
    assert abs(here.digest(wrong) / here.digest(images) - 1) > 1e-3
assert here.integers((50, 40), 7).unique().tolist() == list(range(7))
"""
    path = script("torch/matmul")[0]
    subprocess.run([cpu_torch, "-W", "ignore", "-c", code, path], check=True)


def children(process: int) -> list[int]:
    text = Path(f"/proc/{process}/task/{process}/children").read_text()
    return [int(each) for each in text.split()]


def waited(condition: Any, seconds: float) -> bool:
    """Whether something came true in time."""
    end = time.monotonic() + seconds
    while not condition() and time.monotonic() < end:
        time.sleep(0.05)
    return bool(condition())


@pytest.fixture
def averaging(cpu_torch: str, tmp_path: Path) -> "Iterator[subprocess.Popen[bytes]]":
    """Start an all-reduce that takes a while."""
    environ = {**os.environ, "TMPDIR": str(tmp_path)}
    command = [
        cpu_torch,
        "-s",
        "-B",
        *script("torch/all_reduce"),
        "--threads",
        "1",
        "--samples",
        "1000000",
    ]
    quiet = subprocess.DEVNULL
    with subprocess.Popen(command, env=environ, stdout=quiet, stderr=quiet) as process:
        yield process
        process.kill()


@pytest.mark.network
def test_the_other_process_of_an_all_reduce_ends_with_the_first(
    averaging: "subprocess.Popen[bytes]",
) -> None:
    assert waited(lambda: children(averaging.pid), 60)
    (other,) = children(averaging.pid)
    averaging.send_signal(signal.SIGKILL)
    assert waited(lambda: not Path(f"/proc/{other}").exists(), 30)


@pytest.mark.network
def test_an_all_reduce_without_loopback_is_unsupported(cpu_torch: str) -> None:
    isolated = ["unshare", "--user", "--map-root-user", "--net"]
    tried = subprocess.run([*isolated, "true"], capture_output=True, text=True, check=False)
    if tried.returncode:
        pytest.skip(f"no network namespace can be made here: {tried.stderr.strip()}")
    command = [*isolated, cpu_torch, "-s", "-B", *script("torch/all_reduce")]
    done = subprocess.run(command, capture_output=True, check=True)
    reported = json.loads(done.stdout.splitlines()[-1])
    assert reported["outcome"] == "unsupported"
    assert reported["reason"].startswith("two processes need the loopback network to meet")
