"""What a build in another process does to a measurement: the reason for ADR 10 and ADR 24.

Pairs of inspections of one stack, back to back: beside nothing, beside what builds do (unpacking a
wheel and byte-compiling it, with as many processes as there are CPUs), and beside the same build
that is kept from the CPU of the measurement (``--build-cpus``), in turns.
"""

import compileall
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from stackgen.campaign.indicators import load_indicators
from stackgen.indicators.declaration import find
from stackgen.storage.paths import shipped_folder

PAIRS = 15
CALLS = (
    ("python/pure", ()),
    ("numpy/matmul", ("--size", "256")),
    ("numpy/reduction", ("--size", "4096")),  # 128 MiB: as fast as memory is
)


def best_s(indicator: str, arguments: tuple[str, ...]) -> float:
    """Return the fastest of 30 samples of a fresh process on the last CPU, as stackgen takes it."""
    cpu = str(max(os.sched_getaffinity(0)))
    found = find(load_indicators(shipped_folder("pis")), indicator)
    script = [part for part in (found.path, found.operation) if part]
    command = ["taskset", "-c", cpu, sys.executable, *script, "--threads", "1", "--samples", "30"]
    done = subprocess.run([*command, *arguments], capture_output=True, text=True, check=True)
    return float(min(json.loads(done.stdout.splitlines()[-1])["values_s"]))


def build_for_ever(wheel: Path, place: Path) -> None:
    """Unpack and compile until somebody ends this process."""
    while True:
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(place)
        compileall.compile_dir(place, quiet=2, force=True, workers=0)


@contextmanager
def beside_a_build(place: Path, cpus: Iterable[int]) -> Iterator[None]:
    """Let a build go on meanwhile, on these CPUs alone."""
    bound = ["taskset", "-c", ",".join(map(str, cpus))]
    command = [sys.executable, "-c", "from benchmarks.disturbance import build_for_ever, Path\n"]
    command[-1] += f"build_for_ever(Path({str(place / 'w.whl')!r}), Path({str(place / 'x')!r}))"
    with subprocess.Popen([*bound, *command], start_new_session=True) as process:
        try:
            time.sleep(1.5)  # it starts Python, too
            yield
        finally:
            os.killpg(process.pid, 9)


def main() -> None:
    """Print how much slower each indicator is beside a build, and how far the ratios scatter."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name:
        place = Path(name)
        with zipfile.ZipFile(place / "w.whl", "w", zipfile.ZIP_DEFLATED) as archive:
            root = Path(np.__file__).parent
            for source in sorted(root.rglob("*")):
                if source.is_file() and "__pycache__" not in source.parts:
                    archive.write(source, source.relative_to(root.parent))
        for indicator, arguments in CALLS:
            compare(place, indicator, arguments)


def compare(place: Path, indicator: str, arguments: tuple[str, ...]) -> None:
    """Print the ratios of an indicator's times, each against a quiet one right before it."""
    cpus = sorted(os.sched_getaffinity(0))
    beside = {"build anywhere": cpus, "build on other CPUs": cpus[:-1]}
    logs: dict[str, list[float]] = {"nothing": [], **{word: [] for word in beside}}
    for _ in range(PAIRS):
        first = best_s(indicator, arguments)
        logs["nothing"].append(math.log(best_s(indicator, arguments) / first))
        for word, where in beside.items():
            quiet = best_s(indicator, arguments)
            with beside_a_build(place, where):
                logs[word].append(math.log(best_s(indicator, arguments) / quiet))
    for word, found in logs.items():
        low, _, high = statistics.quantiles(found)
        print(
            f"{indicator:14} beside {word:20} ratio of times, median "
            f"{math.exp(statistics.median(found)):.3f}, sd of its log "
            f"{statistics.stdev(found):.3f}, half of them within {(high - low) / 2:.3f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
