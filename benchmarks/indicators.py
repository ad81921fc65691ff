"""Times of indicators beside those of peers, and 5 % more work as it is seen.

python benchmarks/indicators.py [--python PATH] [--blocks N] [--only numpy|torch|planted]

Times of an operation by our indicators beside those of what a person would write, by ``timeit``
(NumPy) and ``torch.utils.benchmark`` (PyTorch): in turns, in random order, each in a process of
its own that is like the others (inside/peers.py), on one core with one thread. A block's ratio is
of the fastest samples, as stackgen compares stacks; the median of the ratios comes with an interval
that holds it in 95 of 100 cases, whatever their distribution, and beside it the ratio of medians.
PATH is an interpreter with NumPy and PyTorch.
"""

import argparse
import json
import math
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from scipy.stats import binom

from stackgen.campaign.indicators import load_indicators
from stackgen.indicators.declaration import find
from stackgen.sandbox.process import THREAD_VARIABLES
from stackgen.storage.paths import shipped_folder

LOCAL = Path(__file__).parent
AGREED, SHARE, WITHIN = 0.03, 0.05, 0.01
_Item = TypeVar("_Item")
_LOOP = 20_000  # iterations by which the loop is calibrated


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """An indicator, and what a person would write for it."""

    indicator: str
    arguments: tuple[str, ...]
    setup: str
    statement: str

    @property
    def library(self) -> str:
        """Return the module that it measures."""
        return self.indicator.split("/", maxsplit=1)[0]

    @property
    def jobs(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return our job and the peer's."""
        found = find(load_indicators(shipped_folder("pis")), self.indicator)
        peer = {"library": self.library, "setup": self.setup, "statement": self.statement}
        return {"script": found.path, "arguments": (found.operation, *self.arguments)}, peer


# Inputs are made as ours are: where they lie in memory changes the time of an FFT by 7 %.
_NUMPY = (
    "import sys\nimport numpy as np\nsys.argv = ['-']\n"
    "import framework_numpy\nmade = framework_numpy.start({}, {}).numbers\n"
)
_TORCH = "import torch\nfrom torch import nn\n"
PAIRS = (
    Pair(
        indicator="numpy/matmul",
        arguments=("--size", "160", "--dtype", "float64"),
        setup=_NUMPY + "a, b = made((160, 160), seed=1), made((160, 160), seed=2)",
        statement="np.matmul(a, b)",
    ),
    Pair(
        indicator="numpy/sort",
        arguments=("--size", "20000"),
        setup=_NUMPY + "a = made(20000)",
        statement="np.sort(a)",
    ),
    Pair(
        indicator="numpy/fft",
        arguments=("--size", "4096"),
        setup=_NUMPY + "a = made((4096, 2)).view('complex128').reshape(4096)",
        statement="np.fft.fft(a)",
    ),
    Pair(
        indicator="numpy/ufunc",
        arguments=("--kind", "add", "--size", "1000"),
        setup=_NUMPY + "add, out = np.add, np.empty(1000)\na, b = made(1000), made(1000)",
        statement="add(a, b, out)",
    ),
    Pair(
        indicator="numpy/reduction",
        arguments=("--kind", "sum", "--size", "512"),
        setup=_NUMPY + "a = made((512, 512), shift=0.75)",
        statement="np.sum(a, axis=-1)",
    ),
    Pair(
        indicator="torch/matmul",
        arguments=("--size", "256"),
        setup=_TORCH + "a, b = torch.rand(256, 256) - 0.5, torch.rand(256, 256) - 0.5",
        statement="torch.matmul(a, b)",
    ),
    Pair(
        indicator="torch/conv2d",
        arguments=("--size", "28", "--batch", "2"),
        setup=_TORCH + "x, w = torch.rand(2, 64, 28, 28) - 0.5, torch.rand(64, 64, 3, 3) - 0.5",
        statement="nn.functional.conv2d(x, w, padding=1)",
    ),
    Pair(
        indicator="torch/softmax",
        arguments=("--batch", "64"),
        setup=_TORCH + "x = 8 * (torch.rand(64, 1024) - 0.5)",
        statement="torch.softmax(x, -1)",
    ),
    Pair(
        indicator="torch/lstm",
        arguments=("--steps", "16"),
        setup=_TORCH + "layer, x = nn.LSTM(128, 128), torch.rand(16, 8, 128) - 0.5",
        statement="layer(x)",
    ),
    Pair(
        indicator="torch/mlp",
        arguments=("--batch", "8"),
        setup=_TORCH + "network = nn.Sequential(nn.Linear(784, 512), nn.ReLU(),\n"
        "    nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 10)).eval()\n"
        "x = torch.rand(8, 784) - 0.5",
        statement="network(x)",
    ),
)


class Took(NamedTuple):
    """Seconds of one process: its fastest sample, and its median one."""

    best: float
    median: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Laboratory:
    """Where jobs run."""

    python: str
    place: Path

    def block(self, library: str, jobs: Sequence[dict[str, Any]], together: int = 1) -> list[Took]:
        """Return what each job takes, run in random order on the last CPU.

        Jobs that stand ``together`` in the list run one after the other, in random order, too.
        """
        groups = [range(start, start + together) for start in range(0, len(jobs), together)]
        order = [at for group in _shuffled(groups) for at in _shuffled(group)]
        requested = {"library": library, "place": str(self.place / "result.json")}
        done = subprocess.run(
            [self.python, str(LOCAL / "inside" / "peers.py")],
            input=json.dumps({**requested, "jobs": [jobs[at] for at in order]}),
            env=_environment(),
            capture_output=True,
            text=True,
            check=False,
            preexec_fn=_on_the_last_cpu,
        )
        if done.returncode:
            raise SystemExit(done.stderr)
        found = dict(zip(order, json.loads(done.stdout.splitlines()[-1]), strict=True))
        return [Took(*found[at]) for at in range(len(jobs))]

    def has(self, library: str) -> bool:
        """Return whether the interpreter can import a library."""
        command = [self.python, "-c", f"import {library}; print({library}.__version__)"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        print(f"{library}: {done.stdout.strip() or 'not in this interpreter (see --python)'}")
        return done.returncode == 0


def _shuffled(items: Sequence[_Item]) -> list[_Item]:
    return random.sample(items, len(items))


def _on_the_last_cpu() -> None:
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})


def _environment() -> dict[str, str]:
    """Return what executors set."""
    return {
        "PATH": os.environ["PATH"],
        "HOME": os.environ.get("HOME", "/"),
        "LC_ALL": "C.UTF-8",
        "PYTHONHASHSEED": "0",
        "PYTHONNOUSERSITE": "1",
        "PYTHONPATH": str(shipped_folder("pis")),
        "MALLOC_MMAP_THRESHOLD_": "33554432",
        "MALLOC_TRIM_THRESHOLD_": "67108864",
        **dict.fromkeys(THREAD_VARIABLES, "1"),
    }


def interval(values: Sequence[float]) -> tuple[float, float]:
    """Return bounds that hold the median in 95 of 100 cases: order statistics, by the sign test."""
    ordered, count = sorted(values), len(values)
    cut = int(binom.ppf(0.025, count, 0.5))
    return (ordered[cut - 1], ordered[count - cut]) if cut else (-math.inf, math.inf)


def compare(laboratory: Laboratory, library: str, blocks: int) -> None:
    """Print ratios of our times to those of a library's peer."""
    pairs = [pair for pair in PAIRS if pair.library == library]
    jobs = [job for pair in pairs for job in pair.jobs]
    start = time.monotonic()
    rows = [laboratory.block(library, jobs) for _ in range(blocks)]
    peer = "torch.utils.benchmark" if library == "torch" else "timeit"
    print(f"\nOurs beside {peer}: {blocks} blocks in {time.monotonic() - start:.0f} s")
    print(f"{'':16} {'ours':>10} {'peer':>10}   ratio  interval          of medians")
    for at, pair in enumerate(pairs):
        own, other = ([row[2 * at + operand] for row in rows] for operand in (0, 1))
        ratios = [a.best / b.best for a, b in zip(own, other, strict=True)]
        medians = statistics.median(a.median / b.median for a, b in zip(own, other, strict=True))
        middle, (low, high) = statistics.median(ratios), interval(ratios)
        times = (statistics.median(each.best for each in operand) * 1e6 for operand in (own, other))
        print(
            f"{pair.indicator:16} " + " ".join(f"{us:8.2f}us" for us in times) + f"   {middle:.3f}"
            f"  ({low:.3f} to {high:.3f})  {medians:.3f}  {_within(middle - 1, AGREED)}"
        )


def _within(error: float, most: float) -> str:
    return f"{'within' if abs(error) <= most else 'NOT within'} {most:.0%}"


def plant(laboratory: Laboratory, blocks: int) -> None:
    """Print how much more time 5 % more work is seen to take."""

    def job(parts: str, iterations: int) -> dict[str, Any]:
        arguments = ("--parts", parts, "--iterations", str(iterations))
        return {"script": str(LOCAL / "inside" / "planted.py"), "arguments": arguments}

    start = time.monotonic()
    trials = [
        laboratory.block("numpy", [job("product", 1), job("loop", _LOOP)])
        for _ in range(max(5, blocks // 2))
    ]
    of_one = statistics.median(loop.best / product.best for product, loop in trials) / _LOOP
    iterations = round(SHARE / of_one)
    jobs = [job("product", 1), job("both", iterations), job("product", 1)]
    rows = [laboratory.block("numpy", jobs) for _ in range(blocks)]
    print(
        f"\nPlanted: {iterations} iterations, {SHARE:.0%} of a product by {len(trials)} blocks; "
        f"{blocks} blocks more, {time.monotonic() - start:.0f} s in all"
    )
    for name, at, truth in (("5 % more", 1, SHARE), ("nothing more", 2, 0.0)):
        seen = [row[at].best / row[0].best - 1 for row in rows]
        middle, (low, high) = statistics.median(seen), interval(seen)
        print(
            f"{name:16} seen as {middle:+.2%} ({low:+.2%} to {high:+.2%})  "
            f"{_within(middle - truth, WITHIN)} of it"
        )


def main() -> None:
    """Compare what the interpreter has."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--python", default=sys.executable, help="with NumPy and PyTorch")
    parser.add_argument("--blocks", type=int, default=20)
    parser.add_argument("--only", choices=("numpy", "torch", "planted"))
    options = parser.parse_args()
    random.seed(1)
    with tempfile.TemporaryDirectory() as place:
        laboratory = Laboratory(python=options.python, place=Path(place))
        has = {library: laboratory.has(library) for library in ("numpy", "torch")}
        for library in ("numpy", "torch"):
            if has[library] and options.only in (None, library):
                compare(laboratory, library, options.blocks)
        if has["numpy"] and options.only in (None, "planted"):
            plant(laboratory, options.blocks)


if __name__ == "__main__":
    main()
