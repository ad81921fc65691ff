"""What a build in another process does to a measurement: the reason for ADR 10.

Pairs of inspections of one stack, back to back: beside nothing, and beside what builds do
(unpacking a wheel and byte-compiling it, with as many processes as there are CPUs), in turns.
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
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from stackgen.resources import folder

PAIRS = 15
CALLS = (("python/pure", ()), ("numpy/matmul", ("--size", "256")))


def best_s(indicator: str, arguments: tuple[str, ...]) -> float:
    """Return the fastest of 30 samples of a fresh process on the last CPU, as stackgen takes it."""
    cpu = str(max(os.sched_getaffinity(0)))
    script = str(folder("pis") / f"{indicator}.py")
    command = ["taskset", "-c", cpu, sys.executable, script, "--threads", "1", "--samples", "30"]
    done = subprocess.run([*command, *arguments], capture_output=True, text=True, check=True)
    return float(min(json.loads(done.stdout.splitlines()[-1])["values_s"]))


def build_for_ever(wheel: Path, place: Path) -> None:
    """Unpack and compile until somebody ends this process."""
    while True:
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(place)
        compileall.compile_dir(place, quiet=2, force=True, workers=0)


@contextmanager
def beside_a_build(place: Path) -> Iterator[None]:
    """Let a build go on meanwhile."""
    command = [sys.executable, "-c", "from benchmarks.disturbance import build_for_ever, Path\n"]
    command[-1] += f"build_for_ever(Path({str(place / 'w.whl')!r}), Path({str(place / 'x')!r}))"
    with subprocess.Popen(command, start_new_session=True) as process:
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
            quiet, beside = [], []
            for _ in range(PAIRS):
                quiet += [best_s(indicator, arguments), best_s(indicator, arguments)]
                with beside_a_build(place):
                    beside.append(best_s(indicator, arguments))
            ratios = [math.log(b / q) for b, q in zip(beside, quiet[::2], strict=True)]
            twins = [math.log(b / a) for a, b in zip(quiet[::2], quiet[1::2], strict=True)]
            for word, logs in (("quiet beside quiet", twins), ("build beside quiet", ratios)):
                print(
                    f"{indicator:14} {word}: ratio of times, median "
                    f"{math.exp(statistics.median(logs)):.3f}, sd {statistics.stdev(logs):.3f}"
                )


if __name__ == "__main__":
    main()
