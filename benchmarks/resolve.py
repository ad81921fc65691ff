"""The resolver beside uv, warm, in one run: the newest stack of each, and what only we can do.

python benchmarks/resolve.py [REQUIREMENT...]
"""

import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from itertools import islice

import uv

from stackgen.builders.interpreters import probe
from stackgen.index import PackageIndex, load_config
from stackgen.pipeline.places import find_places
from stackgen.pipeline.resolution import resolve
from stackgen.resolve import Space, asked


def median_s(action: Callable[[], object], runs: int = 5) -> float:
    """Return the median seconds of several runs."""
    times = []
    for _ in range(runs):
        start = time.perf_counter()
        action()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def main() -> None:
    """Print medians and ratios."""
    wanted = sys.argv[1:] or ["tensorflow>=2.12", "numpy"]
    target = probe(sys.executable).target

    def space() -> Space:
        with PackageIndex(load_config(environ=os.environ), find_places(os.environ).cache) as index:
            return resolve(index, asked(*wanted), target)

    def with_uv() -> None:
        command = [uv.find_uv_bin(), "pip", "compile", "--quiet", "-", "--only-binary", ":all:"]
        subprocess.run(command, input="\n".join(wanted).encode(), capture_output=True, check=True)

    found = space()
    with_uv()
    ours, theirs = median_s(space), median_s(with_uv)
    one = median_s(found.newest, 20)
    print(f"{', '.join(wanted)}: {found.count:.3g} stacks, {found.nodes} nodes")
    print(f"whole space, warm     {ours:8.3f} s")
    print(f"uv pip compile, warm  {theirs:8.3f} s for one stack, {ours / theirs:.1f} times less")
    print(f"each further stack    {one * 1000:8.2f} ms: {theirs / one:,.0f} times faster than uv")
    varied = [name for name in ("tensorflow", "torch", "numpy") if name in found.packages]
    print(f"slices over {', '.join(varied)}: {median_s(lambda: found.slices(varied)):.3f} s")
    start = time.perf_counter()
    count = sum(1 for _ in islice(found.stacks(), 20_000))
    print(f"enumerated            {count / (time.perf_counter() - start):8,.0f} stacks a second")


if __name__ == "__main__":
    main()
