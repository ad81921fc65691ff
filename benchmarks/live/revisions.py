"""Times of indicators as they were at a commit beside those of this tree: an A/A comparison.

python -m benchmarks.live.revisions FOLDER [--commit NAME] [--minutes N] [--only LIBRARY]

One command: it takes the old scripts from the history, makes an interpreter with NumPy, TensorFlow
and PyTorch in FOLDER (PyTorch without CUDA where ``PIP_FIND_LINKS`` has it), measures for the given
time, and prints the verdicts. Each block is a line of FOLDER/blocks.jsonl: the same command goes on
with more blocks, ``--minutes 0`` prints the verdicts of those that are there.

In a block, old and new run one after the other in random order, each in a fork of a process that
has imported the library (inside/peers.py), on one core with one thread. A contrast is the logarithm
of the ratio of the fastest samples; the interval of its mean (95 %, by t) must lie within 2 %.
Where contrasts scatter by more than 4 %, the smallest effect that would be found four times in
five is printed instead.
"""

import argparse
import io
import json
import math
import os
import statistics
import subprocess
import sys
import tarfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scipy.stats import t as student
from uv import find_uv_bin

from benchmarks.indicators import Laboratory
from stackgen.campaign.indicators import load_indicators
from stackgen.indicators.declaration import find
from stackgen.storage.paths import shipped_folder

TABLES = "8f730d8"  # NumPy's indicators became rows of tables; the others did after it
WITHIN, SCATTER, LEVEL, POWER = 0.02, 0.04, 0.95, 0.8
LEAST_BLOCKS = 3
PACKAGES = {"numpy": "numpy<2.4", "tensorflow": "tensorflow-cpu<2.22", "torch": "torch<2.14"}
TRAINING = ("--step", "training")
INDICATORS: dict[str, tuple[str, ...]] = {
    "numpy/matmul": ("--size", "160"),
    "numpy/svd": ("--size", "64"),
    "numpy/fft": ("--size", "4096"),
    "numpy/sort": ("--size", "20000"),
    "numpy/ufunc": ("--size", "100000"),
    "tensorflow/matmul": ("--size", "256"),
    "tensorflow/conv2d": ("--size", "28", "--batch", "2"),
    "tensorflow/mlp": TRAINING,
    "tensorflow/cnn": (),
    "tensorflow/lstm": ("--steps", "16"),
    "torch/matmul": ("--size", "256"),
    "torch/conv2d": ("--size", "28", "--batch", "2"),
    "torch/mlp": TRAINING,
    "torch/cnn": (),
    "torch/lstm": ("--steps", "16"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """Old beside new of one indicator, as ratios of times (above 1: the new one is faster).

    scatter: standard deviation of a contrast.
    detectable: relative effect that is found with ``POWER``.
    """

    blocks: int
    ratio: float
    low: float
    high: float
    scatter: float
    detectable: float

    @property
    def verdict(self) -> str:
        """Return what the interval says of the bounds."""
        if self.scatter > SCATTER:
            return f"scatters by {self.scatter:.1%}: finds {self.detectable:.1%}"
        if math.exp(-WITHIN) <= self.low and self.high <= math.exp(WITHIN):
            return f"within {WITHIN:.0%}"
        apart = self.high < math.exp(-WITHIN) or self.low > math.exp(WITHIN)
        return f"NOT within {WITHIN:.0%}" if apart else "too few blocks"


def compared(contrasts: Sequence[float]) -> Comparison:
    """Compare by log(old / new) of each block, at least two."""
    count, mean, scatter = len(contrasts), statistics.mean(contrasts), statistics.stdev(contrasts)
    error, freedom = scatter / math.sqrt(count), len(contrasts) - 1
    boundary = float(student.ppf((1 + LEVEL) / 2, freedom))
    needed = boundary + float(student.ppf(POWER, freedom))
    return Comparison(
        blocks=count,
        ratio=math.exp(mean),
        low=math.exp(mean - boundary * error),
        high=math.exp(mean + boundary * error),
        scatter=scatter,
        detectable=math.expm1(needed * error),
    )


def old_scripts(commit: str, folder: Path) -> Path:
    """Return ``pis/`` as it was before a commit, taken from the history once."""
    root = Path(__file__).parents[2]
    if not (folder / "pis").exists():
        command = ["git", "-C", str(root), "archive", f"{commit}^", "pis"]
        with tarfile.open(fileobj=io.BytesIO(subprocess.check_output(command))) as archive:
            archive.extractall(folder, filter="data")
    return folder / "pis"


def interpreter(folder: Path) -> str:
    """Return an interpreter with the three libraries, made once."""
    python = folder / "venv" / "bin" / "python"
    ready = folder / "ready"
    if not ready.exists():
        environ = {**os.environ, "UV_FIND_LINKS": os.environ.get("PIP_FIND_LINKS", "")}
        make = [find_uv_bin(), "venv", "--quiet", "--clear", "--python", "3.11"]
        subprocess.run([*make, str(folder / "venv")], check=True)
        install = [find_uv_bin(), "pip", "install", "--quiet", "--python", str(python)]
        subprocess.run([*install, *PACKAGES.values()], env=environ, check=True)
        ready.touch()
    return str(python)


def jobs(old: Path, names: Sequence[str]) -> list[dict[str, Any]]:
    """Return the jobs of the old and the new script of each indicator, in turn."""
    new, found = load_indicators(shipped_folder("pis")), []
    for name in names:
        local = find(new, name)
        arguments = INDICATORS[name]
        found += [
            {"script": str(old / f"{name}.py"), "arguments": arguments},
            {"script": local.path, "arguments": (local.operation, *arguments)},
        ]
    return found


def measure(folder: Path, commit: str, minutes: float, only: str) -> None:
    """Append blocks, one library after the other, until the time is over."""
    python, old = interpreter(folder), old_scripts(commit, folder)
    laboratory = Laboratory(python=python, place=folder)
    end = time.monotonic() + minutes * 60
    while True:
        for library in [only] if only else PACKAGES:
            names = [name for name in INDICATORS if name.startswith(f"{library}/")]
            start = time.monotonic()
            if start > end:
                return
            took = laboratory.block(library, jobs(old, names), together=2)
            best = [each.best for each in took]
            row = dict(zip(names, zip(best[::2], best[1::2], strict=True), strict=True))
            with (folder / "blocks.jsonl").open("a", encoding="utf-8") as file:
                file.write(json.dumps(row) + "\n")
            print(f"{library}: a block in {time.monotonic() - start:.0f} s", file=sys.stderr)


def contrasts(folder: Path) -> dict[str, list[float]]:
    """Return log(old / new) of each block, by indicator."""
    found: dict[str, list[float]] = {name: [] for name in INDICATORS}
    for line in (folder / "blocks.jsonl").read_text(encoding="utf-8").splitlines():
        for name, (old, new) in json.loads(line).items():
            found[name].append(math.log(old / new))
    return found


def report(found: dict[str, list[float]]) -> int:
    """Print a line for each indicator; return 1 unless all are within the bounds or explained."""
    print(f"{'':20} blocks  old/new  interval          of a block  verdict")
    failed = 0
    for name, values in found.items():
        if len(values) < LEAST_BLOCKS:
            print(f"{name:20} {len(values):6}  {'too few blocks':>43}")
            failed += 1
            continue
        one = compared(values)
        interval = f"{one.low:.3f} to {one.high:.3f}"
        print(
            f"{name:20} {one.blocks:6}    {one.ratio:.3f}  {interval:16} {one.scatter:11.1%}"
            f"  {one.verdict}"
        )
        failed += one.verdict in {f"NOT within {WITHIN:.0%}", "too few blocks"}
    return int(failed > 0)


def main() -> int:
    """Measure and report."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--commit", default=TABLES, help="compare with the scripts before it")
    parser.add_argument("--minutes", type=float, default=20)
    parser.add_argument("--only", choices=tuple(PACKAGES), default="")
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    folder = options.folder.resolve()
    if options.minutes:
        measure(folder, options.commit, options.minutes, options.only)
    return report(contrasts(folder))


if __name__ == "__main__":
    sys.exit(main())
