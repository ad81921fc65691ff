"""TensorFlow's indicators: what they count, what they compute, and what they refuse.

They run by the harness as ever, at tiny sizes, each in a fork of one process (run_indicators.py).
"""

import json
import math
import os
import platform
import subprocess
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest

from stackgen.campaign.indicators import load_indicators
from tests.indicator_jobs import MODELS, OPERATIONS
from tests.torch_parts import PIS, Job, Result, environment, scripted, work

DRIVER = Path(__file__).parent / "run_indicators.py"
INDICATORS = {
    each.name.partition("/")[2]: each
    for each in load_indicators(PIS)
    if each.name.startswith("tensorflow/")
}
# What the oldest and the newest need beside TensorFlow itself: their own requirements are too lax.
# gast 0.2.2 has no wheel, and is plain Python.
VERSIONS = {
    "1.13": ("3.7", "tensorflow==1.13.1", "protobuf<3.21", "numpy<1.19"),
    "1.15": ("3.7", "tensorflow==1.15.5", "protobuf<3.21", "numpy<1.19", "--no-binary", "gast"),
    "2.1": ("3.7", "tensorflow-cpu==2.1.*", "protobuf<3.21", "numpy<1.19", "--no-binary", "gast"),
    "2.8": ("3.9", "tensorflow-cpu==2.8.*", "protobuf<3.21", "numpy<1.24"),
    "2.12": ("3.11", "tensorflow-cpu==2.12.*"),
    "2.16": ("3.11", "tensorflow-cpu==2.16.*"),
    "newest": ("3.13", "tensorflow-cpu"),
}
# Tiny sizes, with sides that differ: what is swapped is seen.
OTHERS = (
    "import",
    "first_call --size 16",
    "compile",
    "compile --mode compiled",
    "dispatch",
    "dispatch --mode graph",
    "copy --size 1",
    "all_reduce --size 1000",
    "input --batch 4",
    "input --batch 4 --workers 2 --prefetch 2",
    "input --batch 4 --cached yes --prefetch 1",
)
# Types of numbers, casts and orders of axes that not every version or device has.
VARIANTS = (
    "matmul --size 24 --dtype float64",
    "matmul --size 24 --dtype float16",
    "matmul --size 24 --dtype bfloat16",
    "matmul --size 24 --autocast bfloat16 --passes both",
    "matmul --size 24 --autocast float16 --mode graph",
    "softmax --size 20 --batch 3 --autocast float16",
    "pooling --size 3 --window 4",
    "batch_norm --size 1 --batch 1",
    "conv2d --size 11 --channels 3 --filters 5 --batch 2 --autocast float16",
    "conv2d --size 11 --channels 3 --filters 5 --batch 2 --layout channels_first",
    "pooling --size 10 --channels 3 --batch 2 --layout channels_first",
    "lstm --steps 4 --inputs 6 --hidden 5 --batch 2 --autocast float16",
    "mlp --batch 2 --autocast bfloat16 --step training",
    "mlp --batch 2 --dtype float64",
    "cnn --batch 1 --autocast float16",
    "deep_cnn --batch 1 --dtype float64",
)


def with_options(jobs: Iterable[Job], *options: str) -> list[Job]:
    """Return jobs with further options."""
    return [" ".join((job, *options)) for job in jobs]


def in_modes(jobs: Iterable[Job]) -> list[Job]:
    """Return jobs in each mode."""
    modes = ("eager", "graph", "compiled")
    return [job for mode in modes for job in with_options(jobs, "--mode", mode)]


# What is run in each change: two modes of each operation; the slow test runs them all.
PLAIN = with_options(OPERATIONS[:6], "--mode", "eager")
GRADIENTS = [
    *with_options(OPERATIONS, "--mode", "graph", "--passes", "both"),
    *with_options(OPERATIONS[::2], "--mode", "eager", "--passes", "both"),
    *with_options(OPERATIONS[1::2], "--mode", "compiled", "--passes", "both"),
]
INFERENCE = with_options(MODELS, "--batch", "2", "--samples", "1")
TRAINING = with_options(INFERENCE[:3], "--step", "training")
TRACED = ("eager", "graph")


def driven(python: str, what: str, jobs: Iterable[Job]) -> dict[Job, Result]:
    """Return what each job told."""
    wanted = list(jobs)
    done = subprocess.run(
        [python, "-s", "-B", DRIVER, what],
        input=json.dumps(scripted("tensorflow", wanted)),
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return dict(zip(wanted, json.loads(done.stdout), strict=True))


def failed(reported: Mapping[Job, Result]) -> dict[Job, str]:
    """Return why jobs failed that neither ran nor were refused for a reason."""
    return {
        job: each["reason"]
        for job, each in reported.items()
        if not (each["outcome"] == "ok" or (each["outcome"] == "unsupported" and each["reason"]))
    }


def checksums(reported: Mapping[Job, Result]) -> dict[Job, float]:
    """Return the checksum of each job that ran."""
    return {
        job: each["checksum"]
        for job, each in reported.items()
        if each["outcome"] == "ok" and each["checksum"] is not None
    }


def disagreeing(reported: Mapping[Job, Result], tolerance: float = 1e-4) -> dict[Job, list[float]]:
    """Return the checksums of operations that differ from mode to mode."""
    found: dict[Job, list[float]] = {}
    for job, checksum in checksums(reported).items():
        words = job.split()
        place = words.index("--mode")
        found.setdefault(" ".join(words[:place] + words[place + 2 :]), []).append(checksum)
    return {job: all_ for job, all_ in found.items() if max(all_) > min(all_) * (1 + tolerance)}


def counted(name: str, **parameters: Any) -> float:
    """Return FLOP or bytes of one run."""
    return work(f"tensorflow/{name}", **parameters)


def test_matrix_products_count_two_flop_for_each_term() -> None:
    assert counted("matmul", size=3) == 2 * 27
    assert counted("batched_matmul", batch=5, size=3) == 5 * 2 * 27


def test_convolutions_count_by_the_size_of_their_results() -> None:
    # 7 places at stride 2 give 4 results.
    sizes = {"channels": 3, "filters": 5, "kernel": 3, "stride": 2}
    assert counted("conv1d", batch=1, length=7, **sizes) == 2 * (4 * 5) * (3 * 3)
    assert counted("conv2d", batch=2, size=7, **sizes) == 2 * (2 * 16 * 5) * (3 * 9)
    volumes = {"batch": 1, "size": 4, "channels": 2, "filters": 3, "kernel": 3}
    assert counted("conv3d", **volumes) == 2 * (64 * 3) * (2 * 27)
    assert counted("depthwise", batch=2, size=4, channels=6, kernel=3) == 2 * (2 * 16 * 6) * 9


@pytest.mark.parametrize(("name", "gates"), [("rnn", 1), ("gru", 3), ("lstm", 4)])
def test_recurrent_layers_count_each_gate_at_each_step(name: str, gates: int) -> None:
    found = counted(name, batch=2, steps=3, inputs=5, hidden=7)
    assert found == 2 * 3 * gates * (2 * 5 * 7 + 2 * 7 * 7)


def test_attention_counts_both_products_and_half_of_them_when_causal() -> None:
    sizes = {"batch": 2, "heads": 3, "length": 4, "width": 5}
    whole = counted("attention", causal="no", **sizes)
    assert whole == 2 * 3 * (2 * 4 * 4 * 5 + 2 * 4 * 4 * 5)
    assert counted("attention", causal="yes", **sizes) == whole / 2


def test_what_moves_numbers_counts_those_read_and_those_written() -> None:
    assert counted("pooling", batch=2, channels=3, size=4, window=2) == 4 * 2 * 3 * (16 + 4)
    assert counted("activation", size=10) == 4 * 20
    assert counted("softmax", batch=2, size=10, dtype="float64") == 8 * 40
    assert counted("layer_norm", batch=2, size=10) == 4 * (40 + 20)
    assert counted("batch_norm", batch=2, size=3, channels=5) == 4 * (2 * (2 * 9 * 5) + 10)
    assert counted("elementwise", kind="add", size=10) == 4 * 30
    assert counted("elementwise", kind="exp", size=10) == 4 * 20
    assert counted("reduction", size=4) == 4 * (16 + 4)
    assert counted("transpose", size=4, dtype="float16") == 2 * 32
    assert counted("embedding", batch=2, length=3, width=5) == 6 * (5 * 4 + 5 * 4 + 4)
    assert counted("all_reduce", size=10) == 2 * 40
    assert counted("copy", size=3) == 3 * 2**20


def test_each_indicator_is_run_by_these_tests() -> None:
    run = {job.split()[0] for job in (*OPERATIONS, *MODELS, *OTHERS)}
    assert run == set(INDICATORS)


def test_matmul_keeps_its_parameters_and_runs_eagerly_by_default() -> None:
    parameters = {each.name: each.default for each in INDICATORS["matmul"].parameters}
    assert {**parameters, "size": "512", "dtype": "float32", "device": "auto"} == parameters
    assert parameters["mode"] == "eager"
    assert "threads" in parameters


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return the Python of a virtualenv with TensorFlow 2.16."""
    if (sys.platform, platform.machine()) != ("linux", "x86_64"):
        pytest.skip(f"tensorflow-cpu has no wheels for {sys.platform} {platform.machine()}")
    return environment(tmp_path_factory.mktemp("tensorflow") / "venv", *VERSIONS["2.16"])


@pytest.fixture(scope="module")
def traces(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of all traces."""
    return tmp_path_factory.mktemp("traces")


@pytest.fixture(scope="module")
def reported(python: str, traces: Path) -> dict[Job, Result]:
    """Return what all jobs told, done in one run: TensorFlow is imported but once."""
    # Not smaller: as part of a graph, what takes a few microseconds is not listed by itself.
    trace = [f"matmul --size 256 --mode {mode} --trace {traces / mode}" for mode in TRACED]
    jobs = [*PLAIN, *GRADIENTS, *INFERENCE, *TRAINING, *OTHERS, *VARIANTS, *trace]
    return driven(python, "measure", jobs)


@pytest.mark.network
def test_every_indicator_runs_or_says_why_not(reported: Mapping[Job, Result]) -> None:
    assert failed(reported) == {}
    refused = {job for job, each in reported.items() if each["outcome"] == "unsupported"}
    # Channels first are done on a CPU where oneDNN is used, which depends on the CPU.
    assert {job for job in refused if "channels_first" not in job} == {
        "copy --size 1",  # no GPU
        "softmax --size 20 --batch 3 --autocast float16",  # nothing is cast
        "deep_cnn --batch 1 --dtype float64",  # no fused batch norm
        "pooling --size 3 --window 4",  # no window fits
        "batch_norm --size 1 --batch 1",  # one number has no variance
    }
    assert all(math.isfinite(value) for value in checksums(reported).values())


@pytest.mark.network
def test_operations_and_their_gradients_are_the_same_in_all_modes(
    reported: Mapping[Job, Result],
) -> None:
    found = {job: reported[job] for job in (*PLAIN, *GRADIENTS)}
    assert disagreeing(found) == {}
    assert len(checksums(found)) == len(found)


def fraction(place: int, seed: int) -> float:
    """Return an input from -0.5 to 0.5, as PyTorch's indicators make it too."""
    return (place + 1000003 * seed) ** 2 % 2**31 * 2654435761 % 2**32 / 2**32 - 0.5


@pytest.mark.network
def test_a_product_of_matrices_is_the_one_that_plain_python_finds(
    reported: Mapping[Job, Result],
) -> None:
    size = 24
    a, b = ([fraction(place, seed) for place in range(size**2)] for seed in (1, 2))

    def checksum(a: list[float], b: list[float]) -> float:
        worth = []
        for place in range(size**2):
            row, column = divmod(place, size)
            value = sum(a[row * size + k] * b[k * size + column] for k in range(size))
            worth.append(0.75 * abs(value) + 0.25 * value)
        of_all = [each * (fraction(place, 7) + 1) for place, each in enumerate(worth)]
        of_few = [worth[int((fraction(place, 11) + 0.5) * size**2)] for place in range(64)]
        return sum(of_all) / size**2 + sum(of_few) / 64

    found = reported[PLAIN[0]]["checksum"]
    assert found == pytest.approx(checksum(a, b), rel=1e-6)
    # The same matrix twice, or one before the other, is another result by more than is forgiven.
    for wrong in (checksum(b, a), checksum(a, a), checksum(b, b)):
        assert abs(wrong / found - 1) > 1e-2


@pytest.mark.network
def test_both_passes_count_three_times_the_work_of_one(reported: Mapping[Job, Result]) -> None:
    graphs = [job.replace("eager", "graph") + " --passes both" for job in PLAIN]
    works = [
        (reported[job]["work"], reported[both]["work"])
        for job, both in zip(PLAIN, graphs, strict=True)
    ]
    assert [both / forward for forward, both in works] == [3] * len(PLAIN)


@pytest.mark.network
def test_a_batch_is_the_same_for_each_reader(reported: Mapping[Job, Result]) -> None:
    values = checksums(reported)
    assert len({values[job] for job in OTHERS if job.startswith("input")}) == 1


@pytest.mark.network
def test_models_have_the_parameters_and_products_that_are_published(
    reported: Mapping[Job, Result],
) -> None:
    found = {job.split()[0]: reported[job]["circumstances"] for job in INFERENCE}
    counted = {name: (each["parameters"], each["macs"]) for name, each in found.items()}
    assert counted == MODELS
    assert {each["items"] for each in found.values()} == {2}
    works = {job.split()[0]: reported[job]["work"] for job in INFERENCE}
    assert works == {name: 2 * 2 * macs for name, (_, macs) in MODELS.items()}


@pytest.mark.network
def test_a_step_of_training_counts_three_times_the_work_and_reports_the_first_loss(
    reported: Mapping[Job, Result],
) -> None:
    works = [
        (reported[job]["work"], reported[f"{job} --step training"]["work"]) for job in INFERENCE[:2]
    ]
    assert [training / inference for inference, training in works] == [3, 3]
    # A network that knows nothing yet is about as wrong as chance: log 10 of ten classes.
    assert all(0.5 < reported[job]["checksum"] / math.log(10) < 2 for job in TRAINING)


@pytest.mark.network
@pytest.mark.usefixtures("reported")
@pytest.mark.parametrize("mode", TRACED)
def test_a_trace_is_kept_when_it_is_requested(traces: Path, mode: str) -> None:
    files = [each for each in (traces / mode).rglob("*") if each.is_file()]
    assert any(b"MatMul" in each.read_bytes() for each in files)


@pytest.mark.network
def test_work_agrees_with_tensorflows_own_profiler(python: str) -> None:
    exact = [job for job in OPERATIONS if job.startswith(("matmul", "batched", "conv", "depth"))]
    more = ["attention --heads 2 --length 64 --width 64 --batch 1", "cnn"]
    reported = driven(python, "count", [*exact, *more])
    assert {job: reported[job]["work"] for job in exact} == {
        job: reported[job]["counted"] for job in exact
    }
    # The profiler counts what is added, normalised and bent as well.
    for job in more:
        assert reported[job]["work"] <= reported[job]["counted"] <= 1.03 * reported[job]["work"]


@pytest.mark.network
@pytest.mark.slow
@pytest.mark.parametrize("version", list(VERSIONS))
def test_every_version_runs_every_indicator_or_says_why_not(version: str, tmp_path: Path) -> None:
    if (sys.platform, platform.machine()) != ("linux", "x86_64"):
        pytest.skip(f"tensorflow-cpu has no wheels for {sys.platform} {platform.machine()}")
    python = environment(tmp_path / "venv", *VERSIONS[version])
    plain, both = in_modes(OPERATIONS), in_modes(with_options(OPERATIONS, "--passes", "both"))
    models = with_options(MODELS, "--batch", "1", "--samples", "1")
    models = [*in_modes(models), *in_modes(with_options(models, "--step", "training"))]
    reported = driven(python, "measure", [*plain, *both, *models, *OTHERS, *VARIANTS])
    sys.stdout.write(summary(version, reported))
    assert failed(reported) == {}
    assert disagreeing({job: reported[job] for job in (*plain, *both)}) == {}
    assert disagreeing({job: reported[job] for job in models}, 1e-3) == {}


def summary(version: str, reported: Mapping[Job, Result]) -> str:
    """Return how many jobs ran, and which were refused, by reason."""
    refused: dict[str, list[Job]] = {}
    for job, each in reported.items():
        if each["outcome"] == "unsupported":
            refused.setdefault(each["reason"][:120], []).append(job)
    ran = sum(each["outcome"] == "ok" for each in reported.values())
    lines = [f"TensorFlow {version}: {ran} of {len(reported)} ran"]
    lines += [f"  {len(jobs)} refused: {why} ({jobs[0]})" for why, jobs in refused.items()]
    return "\n".join(lines)
