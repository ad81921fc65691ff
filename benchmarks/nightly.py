"""False alerts and power of nights, by simulation through the code that decides.

    python -m benchmarks.nightly              10,000 release-nights without a difference
    python -m benchmarks.nightly --power      nights with one slower indicator, by noise and effect
    python -m benchmarks.nightly --stated     the same, as slow as a quiet night says it would show
    ... --plain                               noise is all there is beside builds and days

Each release-night is three campaigns at most: old and new stack in randomised blocks, decided by
``stackgen.nightly.decide`` as a real night is; the first one ends where what a watch is to detect
is excluded. The generator gives each build its own offset for
good, each day and stack a small effect, and each process drift, a second mode (6 % slower, one in
twenty) and a busy neighbour (bursts that slow single processes). Rules that others use judge the
data of the first campaign, all 90 blocks of it.
"""

import argparse
import math
import random
import statistics
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.stats import mannwhitneyu, ttest_ind

from stackgen.measure.effects import LONG_ANALYSES
from stackgen.nightly.decide import (
    CONFIRM_ALPHA,
    ComparedQuantity,
    PairResult,
    Series,
    confirmed,
    flagged,
    is_settled,
    needs_third,
    smallest_detectable,
)

THRESHOLD, P_VALUE = 0.05, 0.001
DETECT = 0.05
"""What a watch is to detect unless it says otherwise."""


@dataclass(frozen=True, kw_only=True)
class World:
    """How noisy simulated nights are; all are relative.

    noise: standard deviation of a block's log contrast, before modes and neighbours.
    build: of a build's offset. day: of a day's effect on one stack.
    slow_mode: probability of a process in it. busy: probability that a block has a busy neighbour.
    """

    indicators: int = 5
    noise: float = 0.04
    build: float = 0.005
    day: float = 0.002
    slow_mode: float = 0.05
    busy: float = 0.1
    effect: float = 0.0


Times = tuple[list[float], list[float]]
"""Log times of the old and of the new stack, by block."""


def campaign(world: World, dice: random.Random) -> Iterator[list[Times]]:
    """Yield the times of each indicator after each interim analysis; the last has an effect."""
    found: list[Times] = [([], []) for _ in range(world.indicators)]
    shifts = [
        [dice.gauss(0, world.build) + dice.gauss(0, world.day) for _ in range(2)]
        for _ in range(world.indicators)
    ]
    shifts[-1][1] += math.log1p(world.effect)
    level = 0.0
    for until in LONG_ANALYSES:
        while len(found[0][0]) < until:
            level += dice.gauss(0, 0.01)  # drift between blocks, shared by both
            is_busy = dice.random() < world.busy
            for times, shift in zip(found, shifts, strict=True):
                slope = dice.gauss(0, 0.003)
                first = dice.random() < 0.5
                for stack in range(2):
                    value = level + shift[stack] + slope * (first == bool(stack))
                    value += dice.gauss(0, world.noise / math.sqrt(2))
                    value += 0.06 * (dice.random() < world.slow_mode)
                    value += dice.expovariate(10) * (is_busy and dice.random() < 0.5)
                    times[stack].append(value)
        yield found


def measured(found: Sequence[Times], dice: random.Random) -> PairResult:
    """Return the campaign as a night sees it, with an import that does not differ."""
    series = [
        Series(
            quantity=ComparedQuantity.TIME,
            measure=f"indicator {place}",
            contrasts=tuple(a - b for a, b in zip(old, new, strict=True)),
        )
        for place, (old, new) in enumerate(found)
    ]
    blocks = len(found[0][0])
    for quantity, noise in ((ComparedQuantity.IMPORT, 0.05), (ComparedQuantity.MEMORY, 0.002)):
        drawn = tuple(dice.gauss(0, noise) for _ in range(blocks))
        series.append(Series(quantity=quantity, measure=quantity.value, contrasts=drawn))
    return PairResult(series=tuple(series), blocks=blocks)


def whole(
    world: World, dice: random.Random, alpha: float | None = None
) -> tuple[PairResult, list[Times]]:
    """Return a campaign at the interim analysis at which a night would end it, and all blocks.

    Other rules judge as many blocks as a night may take at most.
    """
    found: list[Times] = []
    last, is_ended = PairResult(), False
    for found in campaign(world, dice):
        if not is_ended:
            last = measured(found, dice)
            is_ended = is_settled(last, detect=DETECT if alpha is None else 0.0, alpha=alpha)
    return last, found


@dataclass
class Counted:
    """How many nights raised an alert, by rule, and what they took."""

    nights: int = 0
    flagged: int = 0
    thirds: int = 0
    alerts: int = 0
    right: int = 0
    threshold: int = 0
    mann_whitney: int = 0
    e_divisive: int = 0
    blocks: int = 0


def simulate(world: World, nights: int, seed: int, *, others: bool) -> Counted:
    """Return the alerts of independent release-nights."""
    counted = Counted()
    for night in range(nights):
        dice = random.Random(f"{seed} {night} {world}")
        first, times = whole(world, dice)
        signals = flagged(first)
        counted.nights += 1
        counted.blocks += first.blocks
        counted.flagged += bool(signals)
        if signals:
            second, _ = whole(world, dice, CONFIRM_ALPHA)
            counted.blocks += second.blocks
            found = confirmed(signals, second)
            if needs_third(signals, second):
                third, _ = whole(world, dice, CONFIRM_ALPHA)
                counted.blocks += third.blocks
                counted.thirds += 1
                found = confirmed(signals, second, third)
            counted.alerts += bool(found)
            last = f"indicator {world.indicators - 1}"
            counted.right += any(each.measure == last for each in found)
        if others:
            counted.threshold += any(_by_threshold(*each) for each in times)
            counted.mann_whitney += any(_by_mann_whitney(*each) for each in times)
            counted.e_divisive += any(_by_e_divisive(*each) for each in times)
    return counted


def stated(world: World, nights: int, seed: int) -> float:
    """Return the median of what quiet nights say that they would have shown."""
    found = []
    for night in range(nights):
        first, _ = whole(world, random.Random(f"{seed} quiet {night} {world}"))
        found.append(smallest_detectable(first, DETECT) - 1)
    return statistics.median(found)


def _by_threshold(old: Sequence[float], new: Sequence[float]) -> bool:
    ratio = statistics.fmean(map(math.exp, new)) / statistics.fmean(map(math.exp, old))
    return abs(ratio - 1) > THRESHOLD


def _by_mann_whitney(old: Sequence[float], new: Sequence[float]) -> bool:
    return float(mannwhitneyu(old, new).pvalue) < P_VALUE


def _by_e_divisive(old: Sequence[float], new: Sequence[float]) -> bool:
    """Return whether old times, and then new ones, have a change point, in the order of time.

    As in a history: blocks before the release have the old stack, those after it the new one.
    The split with the largest energy statistic (Matteson and James 2014, E-divisive), judged by
    Student's t-test as Otava does instead of by permutations.
    """
    half = len(old) // 2
    series = np.array([*old[:half], *new[half:]])
    apart = np.abs(series[:, None] - series)
    sums = apart.cumsum(axis=0).cumsum(axis=1)
    size = np.arange(2, len(series) - 1)
    left = sums[size - 1, size - 1]
    across = sums[size - 1, -1] - left
    right = sums[-1, -1] - left - 2 * across
    rest = len(series) - size
    means = 2 * across / (size * rest) - left / (size * (size - 1)) - right / (rest * (rest - 1))
    split = int(size[(means * size * rest / len(series)).argmax()])
    return float(ttest_ind(series[:split], series[split:]).pvalue) < P_VALUE


def main() -> None:
    """Print the figures of ADR 30."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--nights", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--build", type=float, default=0.005)
    parser.add_argument("--series", type=int, nargs="+", default=[1, 5, 40])
    parser.add_argument("--power", action="store_true")
    parser.add_argument("--stated", action="store_true")
    parser.add_argument("--plain", action="store_true", help="no second mode, no neighbour")
    given = parser.parse_args()
    start = time.process_time()
    world = World(build=given.build)
    if given.plain:
        world = replace(world, slow_mode=0.0, busy=0.0)
    if given.stated:
        print("indicators  noise  stated effect  alert sent  blocks per night")
        for indicators in given.series:
            for noise in (0.02, 0.04, 0.08):
                own = replace(world, indicators=indicators, noise=noise)
                effect = stated(own, 20, given.seed)
                found = simulate(
                    replace(own, effect=effect), given.nights, given.seed, others=False
                )
                share, blocks = found.right / found.nights, found.blocks / found.nights
                cell = f"{indicators:10}  {noise:5.0%}  {effect:13.1%}  {share:10.3f}"
                print(f"{cell}  {blocks:.0f}", flush=True)
    elif given.power:
        print("indicators  noise  effect  alert sent  blocks per night")
        for indicators in given.series:
            for noise in (0.02, 0.04, 0.08):
                for effect in (0.03, 0.05, 0.10):
                    own = replace(world, indicators=indicators, noise=noise, effect=effect)
                    found = simulate(own, given.nights, given.seed, others=False)
                    share, blocks = found.right / found.nights, found.blocks / found.nights
                    cell = f"{indicators:10}  {noise:5.0%}  {effect:6.0%}  {share:10.3f}"
                    print(f"{cell}  {blocks:.0f}", flush=True)
    else:
        per_noise = given.nights // 4
        total = Counted()
        for noise in (0.01, 0.02, 0.04, 0.08):
            found = simulate(replace(world, noise=noise), per_noise, given.seed, others=True)
            print(f"noise {noise:.0%}: {found}", flush=True)
            for name, value in vars(found).items():
                setattr(total, name, getattr(total, name) + value)
        print(f"all: {total}")
    print(f"{time.process_time() - start:.0f} s of CPU time")


if __name__ == "__main__":
    main()
