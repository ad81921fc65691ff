"""The published experiment again: TensorFlow 1.13.1 beside 1.14.0, products of two matrices.

python -m benchmarks.live.published [--blocks N] [--sizes 64,128] [--processes N] [--threads N]

The Thoth project published in 2019 (Microbenchmarks for AI applications using Red Hat OpenShift on
PSI) how many repetitions a product of 512 by 512 needs until its rate is steady, took 2,000, and
found one of the two releases 1.46 times as fast as the other. Theirs ran in a session, with all
threads, after one run as warm-up, and told the mean of the repetitions (thoth-station/performance,
tensorflow/matmul.py). Here both run on Python 3.7 in virtualenvs, in a session, too: one process
each in every block, in random order. The ratio is the time of 1.13.1 over that of 1.14.0, of the
fastest samples, as stackgen compares, and at 512 of the means as well; above 1 the newer one is
faster. It is another machine: the published number stands beside ours, and neither has to be the
other. About 12 minutes on a machine where nothing else runs, and a third of that with --blocks 6
--sizes 64,256,512,1024 --processes 3.
"""

import argparse
import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import count, takewhile

from benchmarks.live.bench import Arm, Bench, call_of, opened, ratio, reported
from stackgen.campaign.indicators import limits
from stackgen.model.inspections import IndicatorCall, Observation
from stackgen.model.stacks import Environment

OLD, NEW, PYTHON = "1.13.1", "1.14.0", "3.7"
PERIOD = ("numpy<1.17", "protobuf<3.21")  # what either takes without a warning, or at all
PUBLISHED, PUBLISHED_SIZE = 1.46, 512
SIZES = (64, 128, 256, 512, 1024, 2048, 4096)
LONG, FEW_BLOCKS = 2048, 6  # from this size on an operation takes seconds
SEED = 1
Statistic = Callable[[Sequence[float]], float]


def environments(bench: Bench) -> dict[str, Environment]:
    """Return both releases, newest first, each with what belongs to its time."""
    return {v: bench.environment(f"tensorflow=={v}", *PERIOD) for v in (NEW, OLD)}


def arm(name: str, environment: Environment, call: IndicatorCall, threads: int) -> Arm:
    """Return a release with what it does."""
    return Arm(name=name, environment=environment, call=call, limits=limits(threads))


def product(size: int, options: argparse.Namespace) -> IndicatorCall:
    """Return the product at a size."""
    parameters = {"size": size, "dtype": "float32", "mode": options.mode}
    threads = limits(options.threads).threads
    return call_of("tensorflow/matmul", parameters, threads=threads)


def samples_of(size: int, repetitions: int) -> tuple[int, int | None]:
    """Return how many samples are kept, and the loops of each where they are given."""
    if size == PUBLISHED_SIZE:
        return repetitions, 1
    return (3 if size > LONG else 10, 1) if size >= LONG else (30, None)


def measured(
    bench: Bench, found: dict[str, Environment], size: int, options: argparse.Namespace
) -> list[dict[str, Observation]]:
    """Return the blocks of one size: each holds both releases, and the newer one twice."""
    blocks = min(options.blocks, FEW_BLOCKS) if size >= LONG else options.blocks
    samples, loops = samples_of(size, options.repetitions)
    call = product(size, options)
    arms = [arm(name, each, call, options.threads) for name, each in found.items()]
    if size < LONG:
        arms.append(arm("twin", found[NEW], call, options.threads))
    loops = loops or bench.calibrated(arms[0]).loops
    arms = [replace(each, samples=samples, loops=loops) for each in arms]
    return [bench.block(arms, number, SEED + size) for number in range(1, blocks + 1)]


def row(rows: Sequence[dict[str, Observation]], a: str, b: str, statistic: Statistic) -> str:
    """Return how much faster A is than B, with the interval of stackgen's own statistic."""
    contrasts = [
        math.log(statistic(each[b].values_s) / statistic(each[a].values_s)) for each in rows
    ]
    return reported(ratio(a, b, contrasts))


def report(size: int, rows: Sequence[dict[str, Observation]]) -> None:
    """Print the ratio at one size, and the rate of both."""
    rates = {
        name: statistics.median(2e-9 * size**3 / each[name].best_s for each in rows)
        for name in (NEW, OLD)
    }
    beside = f"  published {PUBLISHED}" if size == PUBLISHED_SIZE else ""
    print(
        f"{size:5} {rates[OLD]:8.1f} {rates[NEW]:8.1f} {len(rows):7}  "
        f"{row(rows, NEW, OLD, min)}{beside}",
        flush=True,
    )
    if size == PUBLISHED_SIZE:
        retained = len(rows[0][NEW].values_s)
        words = f"mean of {retained} repetitions"
        print(f"      {words:>25}  {row(rows, NEW, OLD, statistics.fmean)}", flush=True)
    if "twin" in rows[0]:
        print(f"      {NEW + ' beside itself':>25}  {row(rows, 'twin', NEW, min)}", flush=True)


def first_test(bench: Bench, environment: Environment, options: argparse.Namespace) -> None:
    """Print how far rates of processes are apart by how many repetitions each has made.

    The first 10 of 10,000 repetitions are what a process with 10 would have made: the same
    processes tell all rows.
    """
    processes, most = options.processes, options.most
    each = arm(NEW, environment, product(PUBLISHED_SIZE, options), options.threads)
    each = replace(each, samples=most, loops=1)
    runs = [bench.block([each], number, SEED)[NEW].values_s for number in range(processes)]
    print(f"\nTest 1: {NEW}, {PUBLISHED_SIZE} by {PUBLISHED_SIZE}, {processes} processes")
    print(f"{'':11}  rate of the mean time          of the median       of the fastest")
    print("repetitions  GFLOP/s  max/min      cv    max/min      cv    max/min      cv")
    work = 2e-9 * PUBLISHED_SIZE**3
    for repetitions in takewhile(lambda many: many <= most, (10**power for power in count(1))):
        parts = [values[:repetitions] for values in runs]
        cells = [spread([work / of(part) for part in parts]) for of in STATISTICS]
        rate = statistics.median(work / statistics.fmean(part) for part in parts)
        print(f"{repetitions:11,}  {rate:7.1f}  " + "    ".join(cells), flush=True)


STATISTICS: tuple[Statistic, ...] = (statistics.fmean, statistics.median, min)


def spread(rates: Sequence[float]) -> str:
    """Return how far rates are apart: the largest over the smallest, and the deviation."""
    deviation = statistics.stdev(rates) / statistics.fmean(rates) if len(rates) > 1 else math.nan
    return f"{max(rates) / min(rates):7.3f} {deviation:7.2%}"


def main() -> None:
    """Print the ratio at each size, then the first test."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--blocks", type=int, default=10, help=f"of large sizes {FEW_BLOCKS}")
    parser.add_argument("--sizes", default=",".join(map(str, SIZES)))
    parser.add_argument("--repetitions", type=int, default=2000, help="at 512")
    parser.add_argument("--processes", type=int, default=5, help="of test 1; 0 leaves it out")
    parser.add_argument("--most", type=int, default=10_000, help="repetitions of test 1")
    parser.add_argument("--threads", type=int, default=0, help="0: all CPUs but one")
    parser.add_argument("--mode", choices=("graph", "eager"), default="graph")
    options = parser.parse_args()
    with opened(PYTHON) as bench:
        found = environments(bench)
        print(f"TensorFlow {OLD} and {NEW} on {bench.backend.base.name}, matmul in float32,")
        threads = limits(options.threads).threads
        print(f"{threads} thread(s), {options.mode} mode; ratio: time of {OLD} / time of {NEW}")
        print(f"{'':5} {'GFLOP/s':>8}")
        print(f"{'size':>5} {OLD:>8} {NEW:>8} {'blocks':>7}  ratio (95 %)")
        for size in map(int, options.sizes.split(",")):
            report(size, measured(bench, found, size, options))
        if options.processes:
            first_test(bench, found[NEW], options)


if __name__ == "__main__":
    main()
