"""Races simulated: how often the winner is within 2 % of the best, and at how many inspections.

Truths are additive (one effect for each version) or interacting (pairs of versions differ, too).
Beside stackgen's race: uniform repetition, every stack in every block until it is as certain, and
successive halving (Karnin et al. 2013) with as many inspections as the race took.

python benchmarks/measure.py [--races 40] [--large]
"""

import argparse
import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product

import numpy as np

from stackgen.measure.model import Array, Measured, Model, Versions
from stackgen.measure.racing import GUESSES, Race, Runner

MARGIN, CONFIDENCE = 0.02, 0.95
MOST_INSPECTIONS = 800


@dataclass(frozen=True)
class Truth:
    """Log times of stacks, and what an inspection makes of them."""

    stacks: Sequence[Versions]
    log_s: Array
    noise: float
    dice: np.random.Generator

    def block(self, places: Sequence[int]) -> list[float]:
        """Return what one block would measure of these stacks."""
        drift = self.dice.normal(0, 0.1)
        return [float(self.log_s[p] + drift + self.dice.normal(0, self.noise)) for p in places]

    def is_fast(self, place: int) -> bool:
        """Return whether a stack is within the margin of the best."""
        return bool(self.log_s[place] - self.log_s.min() <= math.log1p(MARGIN))


def truth(rows: int, columns: int, pairs: float, noise: float, seed: int) -> Truth:
    """Return a truth with versions of two packages, and pairs of them where they interact."""
    dice = np.random.default_rng(seed)
    log_s = dice.normal(0, 0.06, (rows, 1)) + dice.normal(0, 0.04, (1, columns))
    log_s = log_s + dice.normal(0, pairs, (rows, columns))
    stacks = [
        (("numpy", str(column)), ("tensorflow", str(row)))
        for row, column in product(range(rows), range(columns))
    ]
    return Truth(stacks=stacks, log_s=log_s.ravel(), noise=noise, dice=dice)


def race(world: Truth, seed: int) -> tuple[int, int]:
    """Return the winner of stackgen's race, and how many inspections it took."""
    runners = [Runner(versions=each, run_s=3.0) for each in world.stacks]
    held = Race(runners, Model(world.stacks), seed, MARGIN)
    measured: list[Measured] = []
    block = 0
    while True:
        block += 1
        places = held.next_block(measured, frozenset(), block)
        values = world.block(places)
        measured += [Measured(block, p, v) for p, v in zip(places, values, strict=True)]
        standing = held.standing(measured, frozenset())
        if standing.confidence >= CONFIDENCE or len(measured) >= MOST_INSPECTIONS:
            return standing.leader, len(measured)


def uniform(world: Truth, _: int) -> tuple[int, int]:
    """Return the same of every stack in every block, each judged by itself."""
    count = len(world.stacks)
    blocks: list[Array] = []
    while True:
        values = np.array(world.block(range(count)))
        blocks.append(values - values.mean())
        if len(blocks) < 3:
            continue
        held = np.array(blocks)
        means, freedom = held.mean(axis=0), (len(blocks) - 1) * (count - 1)
        noise = math.sqrt(float(((held - means) ** 2).sum()) / freedom)
        guesses = world.dice.normal(means, noise / math.sqrt(len(blocks)), (GUESSES, count))
        leader = int(means.argmin())
        within = guesses[:, leader] - guesses.min(axis=1) <= math.log1p(MARGIN)
        if within.mean() >= CONFIDENCE or len(blocks) * count >= 20 * MOST_INSPECTIONS:
            return leader, len(blocks) * count


def halving(world: Truth, inspections: int) -> tuple[int, int]:
    """Return the same of successive halving with so many inspections."""
    alive = list(range(len(world.stacks)))
    rounds = math.ceil(math.log2(len(alive)))
    used = 0
    while len(alive) > 1:
        blocks = max(1, inspections // (rounds * len(alive)))
        times = np.mean([world.block(alive) for _ in range(blocks)], axis=0)
        used += blocks * len(alive)
        alive = [alive[int(k)] for k in np.argsort(times)[: math.ceil(len(alive) / 2)]]
    return alive[0], used


def report(name: str, world: Callable[[int], Truth], races: int) -> None:
    """Print one row: how often each way found a fast stack, and what it took."""
    ours = [race(world(seed), seed) for seed in range(races)]
    others = [uniform(world(seed), seed) for seed in range(races)]
    halved = [halving(world(seed), ours[seed][1]) for seed in range(races)]
    cells = []
    for found in (ours, others, halved):
        good = sum(world(seed).is_fast(winner) for seed, (winner, _) in enumerate(found)) / races
        cells.append(f"{good:4.2f} {statistics.median(count for _, count in found):6.0f}")
    gain = statistics.median(b[1] / a[1] for a, b in zip(ours, others, strict=True))
    print(f"{name:34}  {cells[0]}   {cells[1]}   {cells[2]}   {gain:5.1f}", flush=True)


def main() -> None:
    """Print a table; with --large also races of 400 stacks, which take long."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--races", type=int, default=40)
    parser.add_argument("--large", action="store_true")
    options = parser.parse_args()
    print("share of winners within 2 % of the best, and median inspections")
    print(f"{'':34}  {'race':11}   {'uniform':11}   {'halving':11}   uniform / race")
    for rows, columns in ((8, 4), (20, 20))[: 2 if options.large else 1]:
        for pairs, noise in product((0.0, 0.02), (0.04, 0.1)):
            kind = "interacting" if pairs else "additive"
            name = f"{rows * columns} stacks, {kind}, noise {noise:.0%}"
            report(name, partial(truth, rows, columns, pairs, noise), options.races)


if __name__ == "__main__":
    main()
