"""How much the times of one stack differ between builds of it, on this machine.

python -m benchmarks.live.builds [--stack "numpy==2.3.5"] [--pi NAME ...] [--builds N] [--blocks N]

A night confirms a finding in environments that are built anew, elsewhere on the disk and with
another size of the environment block, because such facts move times (Mytkowicz et al. 2009,
"Producing wrong data without doing anything obviously wrong"). Here one stack is built as a night
would build it, several times; every block holds each build once, in random order. Printed by
indicator: the standard deviation of log time between builds, by a two-way analysis of variance
(builds random, blocks fixed), with a 95 % interval from the F distribution, and that of a block's
residual. Run it where nothing else runs.
"""

import argparse
import math
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.special import fdtri

from benchmarks.live.bench import Arm, Bench, call_of, opened
from stackgen.campaign.backend import open_backend, replica_folder
from stackgen.campaign.indicators import limits
from stackgen.campaign.request import PADDING_BYTES
from stackgen.images.virtualenvs import VirtualenvStore
from stackgen.model.choices import ExecutorChoice
from stackgen.model.progress import NullProgress
from stackgen.model.stacks import Environment

FIRST_REPLICA = 11
"""Numbers below belong to nights."""


@dataclass(frozen=True, slots=True)
class Spread:
    """Standard deviations of log time: between builds, with its interval, and of a residual."""

    builds: float
    low: float
    high: float
    residual: float


def spread(log_times: NDArray[np.float64]) -> Spread:
    """Return the spread between builds; log_times has the shape (blocks, builds).

    Source: Searle, Casella & McCulloch (1992), Variance Components, sections 4.2 and 3.6.
    """
    blocks, builds = log_times.shape
    centred = log_times - log_times.mean(axis=1, keepdims=True)
    means = centred.mean(axis=0)
    freedom = (blocks - 1) * (builds - 1)
    between = blocks * float((means**2).sum()) / (builds - 1)
    residual = float(((centred - means) ** 2).sum()) / freedom
    ratio = between / residual

    def sd(of_ratio: float) -> float:
        return math.sqrt(max(0.0, (of_ratio - 1) / blocks) * residual)

    low, high = (sd(ratio / float(fdtri(builds - 1, freedom, p))) for p in (0.975, 0.025))
    return Spread(sd(ratio), low, high, math.sqrt(residual))


@contextmanager
def built(bench: Bench, base: str, stack: str, count: int) -> Iterator[list[Environment]]:
    """Build a stack several times, each time in another folder; remove all of them at the end."""
    replicas = range(FIRST_REPLICA, FIRST_REPLICA + count)
    choice = ExecutorChoice.VIRTUALENV
    try:
        with ExitStack() as opened_backends:
            yield [
                replace(
                    bench,
                    backend=opened_backends.enter_context(
                        open_backend(choice, base, bench.paths, NullProgress(), replica=number)
                    ),
                ).environment(stack)
                for number in replicas
            ]
    finally:
        for number in replicas:
            VirtualenvStore(replica_folder(bench.paths, number)).clear()


def times(
    bench: Bench, environments: Sequence[Environment], indicator: str, blocks: int
) -> NDArray[np.float64]:
    """Return log seconds of the fastest sample, shape (blocks, builds)."""
    call = call_of(indicator, {})
    arms = [
        Arm(
            name=str(number),
            environment=environment,
            call=call,
            limits=limits(0, padding=PADDING_BYTES * number),
        )
        for number, environment in enumerate(environments, start=1)
    ]
    loops = bench.calibrated(arms[0]).loops
    arms = [replace(each, loops=loops) for each in arms]
    rows = []
    for number in range(1, blocks + 1):
        found = bench.block(arms, number, seed=1)
        rows.append([math.log(found[each.name].best_s) for each in arms])
    return np.array(rows)


def main() -> None:
    """Build, measure, and print the spread by indicator."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--base", default="3.11")
    parser.add_argument("--stack", default="numpy==2.3.5")
    parser.add_argument("--pi", action="append")
    parser.add_argument("--builds", type=int, default=10)
    parser.add_argument("--blocks", type=int, default=12)
    options = parser.parse_args()
    indicators = options.pi or ["numpy/matmul", "numpy/sort", "numpy/ufunc"]
    with (
        opened(options.base) as bench,
        built(bench, options.base, options.stack, options.builds) as environments,
    ):
        print(f"{options.stack}: {options.builds} builds, {options.blocks} blocks")
        for each in indicators:
            found = spread(times(bench, environments, each, options.blocks))
            print(
                f"{each:14} between builds {found.builds:.2%} ({found.low:.2%} to {found.high:.2%})"
                f", residual of a block {found.residual:.2%}",
                flush=True,
            )


if __name__ == "__main__":
    main()
