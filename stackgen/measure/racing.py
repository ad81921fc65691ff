"""What to measure next, so that the fastest stack is found in a fraction of the time.

Blocks that cover every version come first, then top-two Thompson sampling (Russo 2020, Simple
Bayesian algorithms for best-arm identification): the stack that a guess from the model calls the
fastest, and those that further guesses call it, where what costs more is asked less often. It ends
when the leader is within the margin of the best with the confidence that was asked for; leader,
runner-up and reference then meet in fresh blocks, which alone give what is reported.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from stackgen.measure.model import Array, Measured, Model, Prediction, Versions

BLOCK = 4
"""Stacks in a block of a race."""
GUESSES = 1000
"""Draws from the model by which its confidence is judged."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Runner:
    """A stack in a race.

    versions: of what varies. run_s: what an inspection of it takes. build_s: what having it ready
    takes, 0 once it is. All in seconds.
    """

    versions: Versions
    run_s: float
    build_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """How a race stands.

    leader: the place of the stack with the lowest predicted time. runner_up: the next one.
    confidence: of the leader being within the margin of the best.
    """

    leader: int
    runner_up: int
    confidence: float


@dataclass(frozen=True, slots=True)
class Race:
    """A race of at least two stacks, decided by what was measured, seed and number of the block.

    margin: a relative difference that nobody cares about.
    """

    runners: Sequence[Runner]
    model: Model
    seed: int
    margin: float = 0.02

    def next_block(self, measured: Sequence[Measured], failed: frozenset[int]) -> tuple[int, ...]:
        """Return which stacks the next block holds, in no order; as many as are left, four at most.

        Args:
            measured: everything that went well so far.
            failed: places of stacks that cannot be measured.
        """
        alive = [place for place in range(len(self.runners)) if place not in failed]
        number = max((each.block for each in measured), default=0) + 1
        dice = np.random.default_rng([self.seed, number])
        cover = self._cover({each.stack for each in measured}, alive, dice)
        if cover:
            return cover
        prediction = self.model.predict(measured)
        return self._thompson(prediction, alive, dice)

    def standing(self, measured: Sequence[Measured], failed: frozenset[int]) -> Standing:
        """Return who leads, and how certain that is. Of stacks that failed nobody asks."""
        alive = [place for place in range(len(self.runners)) if place not in failed]
        prediction = self.model.predict(measured)
        order = sorted(alive, key=lambda place: (prediction.mean[place], place))
        # Only what was measured can be recommended: a guess alone never leads.
        seen = {each.stack for each in measured}
        order.sort(key=lambda place: place not in seen)
        draws = prediction.draws(GUESSES, np.random.default_rng([self.seed, len(measured)]))
        best = draws[:, alive].min(axis=1)
        within = draws[:, order[0]] - best <= math.log1p(self.margin)
        return Standing(
            leader=order[0], runner_up=order[1 % len(order)], confidence=float(within.mean())
        )

    def _cover(
        self, seen: set[int], alive: Sequence[int], dice: np.random.Generator
    ) -> tuple[int, ...]:
        """Return a block with versions that no measured stack has; () where all are covered."""
        covered = {each for place in seen for each in self.runners[place].versions}
        chosen: list[int] = []
        order = [int(place) for place in dice.permutation(alive)]
        while len(chosen) < BLOCK:
            new = {
                place: len(set(self.runners[place].versions) - covered)
                for place in order
                if place not in chosen
            }
            best = max(new, key=lambda place: new[place], default=None)
            if best is None or not new[best]:
                break
            chosen.append(best)
            covered |= set(self.runners[best].versions)
        if not chosen:
            return ()
        # A block joins what it holds to what was measured before, or nothing could be compared.
        links = [place for place in order if place in seen and place not in chosen]
        others = [place for place in order if place not in seen and place not in chosen]
        filled = [*chosen[: BLOCK - 1 if links else BLOCK], *links[:1], *others]
        return tuple(filled[:BLOCK])

    def _thompson(
        self, prediction: Prediction, alive: Sequence[int], dice: np.random.Generator
    ) -> tuple[int, ...]:
        draws = prediction.draws(GUESSES, dice)[:, alive]
        votes = np.bincount(draws.argmin(axis=1), minlength=len(alive)) / GUESSES
        leader = int(np.argmin(prediction.mean[alive]))
        worth = votes * self._information(prediction, alive, leader) / self._costs(alive)
        chosen = [leader]
        while len(chosen) < min(BLOCK, len(alive)):
            worth[chosen] = 0.0
            if worth.sum() <= 0:  # nobody else is ever the best: the most uncertain ones
                worth = self._information(prediction, alive, leader) + 1e-12
                worth[chosen] = 0.0
            chosen.append(int(dice.choice(len(alive), p=worth / worth.sum())))
        return tuple(alive[place] for place in chosen)

    @staticmethod
    def _information(prediction: Prediction, alive: Sequence[int], leader: int) -> Array:
        """Return how much one more block would take off the variance of each against the leader."""
        part = prediction.covariance[np.ix_(alive, alive)]
        variance = np.diag(part) + part[leader, leader] - 2 * part[leader]
        found: Array = variance**2 / (variance + 2 * prediction.noise**2)
        return found

    def _costs(self, alive: Sequence[int]) -> Array:
        return np.array(
            [self.runners[place].run_s + self.runners[place].build_s for place in alive]
        )
