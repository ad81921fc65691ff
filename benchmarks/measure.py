"""Races simulated: how often the winner is within 2 % of the best, and at how many inspections.

Truths are additive (one effect for each version) or interacting (pairs of versions differ, too);
noise is normal, or has the tails of a t distribution with 3 degrees of freedom and the same
standard deviation. Beside stackgen's race: uniform repetition, every stack in every block until it
is as certain, and successive halving (Karnin et al. 2013) with as many inspections as the race
took. All ways but halving end when they were certain after two blocks in a row.

"confirmed" is the winner once leader, runner-up and the baseline with its twin met in six more
blocks: the leader, unless the runner-up was certainly faster there.

python -m benchmarks.measure [--races 100] [--large]
"""

import argparse
import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product

import numpy as np

from stackgen.measure import effect
from stackgen.measure.bandit import Arm, Race, leader_confidence
from stackgen.measure.posterior import Array, Measured, Versions
from stackgen.model.evidence import Verdict
from stackgen.model.identity import IndicatorId, StackId

MARGIN, CONFIDENCE = 0.02, 0.95
MOST_INSPECTIONS = 1600
CONFIRMING, IN_A_BLOCK = 6, 4
TAILS = 3


@dataclass(frozen=True)
class Truth:
    """Log times of stacks, and what an inspection makes of them.

    tails: degrees of freedom of the noise, 0 where it is normal.
    """

    stacks: Sequence[Versions]
    log_s: Array
    noise: float
    tails: int
    dice: np.random.Generator

    def block(self, places: Sequence[int]) -> Array:
        """Return what one block would measure of these stacks."""
        drift = self.dice.normal(0, 0.1)
        if self.tails:
            noise = self.dice.standard_t(self.tails, len(places))
            noise = noise / math.sqrt(self.tails / (self.tails - 2))
        else:
            noise = self.dice.standard_normal(len(places))
        found: Array = self.log_s[list(places)] + drift + self.noise * noise
        return found

    def is_fast(self, place: int) -> bool:
        """Return whether a stack is within the margin of the best."""
        return bool(self.log_s[place] - self.log_s.min() <= math.log1p(MARGIN))


@dataclass(frozen=True)
class Found:
    """What a way to choose ended with: its winner, the next one, the inspections it took."""

    winner: int
    second: int
    inspections: int


def truth(rows: int, columns: int, pairs: float, noise: float, tails: int, seed: int) -> Truth:
    """Return a truth with versions of two packages, and pairs of them where they interact."""
    dice = np.random.default_rng(seed)
    log_s = dice.normal(0, 0.06, (rows, 1)) + dice.normal(0, 0.04, (1, columns))
    log_s = log_s + dice.normal(0, pairs, (rows, columns))
    stacks = [
        (("numpy", str(column)), ("tensorflow", str(row)))
        for row, column in product(range(rows), range(columns))
    ]
    return Truth(stacks=stacks, log_s=log_s.ravel(), noise=noise, tails=tails, dice=dice)


def race(world: Truth, seed: int) -> Found:
    """Return how stackgen's race ended."""
    arms = [Arm(versions=each, run_s=3.0) for each in world.stacks]
    stored = Race(arms=arms, seed=seed, margin=MARGIN)
    measured: list[Measured] = []
    block = 0
    while True:
        block += 1
        places = stored.next_block(measured, frozenset(), block)
        values = world.block(places)
        measured += [Measured(block, p, float(v)) for p, v in zip(places, values, strict=True)]
        state = stored.state(measured, frozenset())
        if state.confidence >= CONFIDENCE or len(measured) >= MOST_INSPECTIONS:
            return Found(state.order[0], state.order[1], len(measured))


def confirmed(world: Truth, found: Found) -> Found:
    """Return the winner after leader, runner-up and baseline met in blocks of their own."""
    first = second = 0.0
    contrasts = []
    for _ in range(CONFIRMING):
        first, second, *_ = world.block((found.winner, found.second, 0, 0))
        contrasts.append(second - first)
    judged = effect(
        a=StackId("first"),
        b=StackId("second"),
        indicator_id=IndicatorId("x"),
        contrasts=contrasts,
        margin=MARGIN,
    )
    lost = judged.verdict is Verdict.SLOWER
    return Found(
        found.second if lost else found.winner,
        found.winner if lost else found.second,
        found.inspections + CONFIRMING * IN_A_BLOCK,
    )


def uniform(world: Truth) -> Found:
    """Return the same of every stack in every block, each judged by itself."""
    count = len(world.stacks)
    sums, squares, blocks, certain = np.zeros(count), 0.0, 0, 0
    while True:
        values = world.block(range(count))
        values = values - values.mean()
        blocks, sums, squares = blocks + 1, sums + values, squares + float(values @ values)
        if blocks < 3:
            continue
        means, freedom = sums / blocks, (blocks - 1) * (count - 1)
        noise = math.sqrt(max(0.0, squares - blocks * float(means @ means)) / freedom)
        sure = leader_confidence(means, error=noise / math.sqrt(blocks), margin=math.log1p(MARGIN))
        certain = certain + 1 if sure >= CONFIDENCE else 0
        if certain == 2 or blocks * count >= 100 * MOST_INSPECTIONS:
            order = np.argsort(means)
            return Found(int(order[0]), int(order[1]), blocks * count)


def halving(world: Truth, inspections: int) -> Found:
    """Return the same of successive halving with so many inspections."""
    alive = list(range(len(world.stacks)))
    rounds = math.ceil(math.log2(len(alive)))
    used = 0
    while len(alive) > 1:
        blocks = max(1, inspections // (rounds * len(alive)))
        times = np.mean([world.block(alive) for _ in range(blocks)], axis=0)
        used += blocks * len(alive)
        alive = [alive[int(k)] for k in np.argsort(times)[: math.ceil(len(alive) / 2)]]
    return Found(alive[0], alive[0], used)


def report(name: str, world: Callable[[int], Truth], races: int) -> None:
    """Print one row: how often each way found a fast stack, and what it took."""
    ours = [race(world(seed), seed) for seed in range(races)]
    # Other dice than those that the race was run with, or it would be confirmed by them.
    again = [confirmed(fresh(world(seed), seed), ours[seed]) for seed in range(races)]
    others = [uniform(fresh(world(seed), seed)) for seed in range(races)]
    halved = [halving(fresh(world(seed), seed), ours[seed].inspections) for seed in range(races)]
    cells = []
    for found in (ours, again, others, halved):
        good = sum(world(seed).is_fast(each.winner) for seed, each in enumerate(found)) / races
        cells.append(f"{good:.3f} {statistics.median(each.inspections for each in found):6.0f}")
    gains = [b.inspections / a.inspections for a, b in zip(ours, others, strict=True)]
    shown = f"{statistics.median(gains):5.1f}"
    print(f"{name:42}  {'   '.join(cells)}   {shown}", flush=True)


def fresh(world: Truth, seed: int) -> Truth:
    """Return the same truth with dice that nobody has thrown."""
    return Truth(
        world.stacks, world.log_s, world.noise, world.tails, np.random.default_rng([seed, 1])
    )


def main() -> None:
    """Print a table; with --large also races of 400 stacks, which take long."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--races", type=int, default=100)
    parser.add_argument("--large", action="store_true", help="400 stacks instead of 32")
    options = parser.parse_args()
    rows, columns = (20, 20) if options.large else (8, 4)
    print(f"share of winners within 2 % of the best, and median inspections; {options.races} races")
    heads = "   ".join(f"{each:12}" for each in ("race", "confirmed", "uniform", "halving"))
    print(f"{'':42}  {heads}   uniform / race")
    for tails, pairs, noise in (*product((0,), (0.0, 0.02), (0.04, 0.1)), (TAILS, 0.02, 0.1)):
        kind = "interacting" if pairs else "additive"
        name = f"{rows * columns} stacks, {kind}, noise {noise:.0%}{', tails' if tails else ''}"
        report(name, partial(truth, rows, columns, pairs, noise, tails), options.races)


if __name__ == "__main__":
    main()
