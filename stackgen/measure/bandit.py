"""What to measure next, so that the fastest stack is found in a fraction of the time.

Blocks that cover every version come first, then top-two Thompson sampling (Russo 2020, Simple
Bayesian algorithms for best-arm identification): the leader, and those that guesses from the model
call faster than it by more than the margin, where what costs more is measured less often. It
ends when the leader is within the margin of the best with the required confidence;
leader, runner-up and baseline then meet in fresh blocks, which alone give what is reported.
"""

import math
import statistics
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations

import numpy as np

from stackgen.errors import EvidenceError
from stackgen.measure.disturbances import BlockKey
from stackgen.measure.effects import MARGIN
from stackgen.measure.posterior import Array, Measured, Model, Prediction, Versions
from stackgen.model.choices import Strategy
from stackgen.model.identity import IndicatorId, StackId
from stackgen.model.inspections import IndicatorCall, Inspection, Role
from stackgen.model.reports.campaigns import PredictedSpeed

BLOCK = 4
"""Stacks in a block of a race."""
GUESSES = 2000
"""Draws from the model by which its confidence is judged."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Arm:
    """A stack in a race.

    versions: of what varies. run_s: what an inspection of it takes. build_s: what having it ready
    takes, 0 once it is. All in seconds.
    """

    versions: Versions
    run_s: float
    build_s: float = 0.0

    @property
    def cost_s(self) -> float:
        """Return what its next inspection takes, its build included."""
        return self.run_s + self.build_s


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchState:
    """How a race stands.

    confidence: of the leader being within the margin of the best: the lower one of now and before
        the last block, since a race is judged after every block and would end at a lucky one.
    order: places of all that have not failed, best first; those that were measured come before
        those that were only predicted.
    """

    confidence: float
    order: tuple[int, ...]

    @property
    def leader(self) -> int:
        """Return the place of the stack with the lowest predicted time."""
        return self.order[0]


@lru_cache(maxsize=2)
def _model(stacks: tuple[Versions, ...]) -> Model:
    return Model(stacks)


@dataclass(frozen=True, slots=True, kw_only=True)
class Race:
    """Covers every version, then measures the leader and arms that may be faster.

    Make another one whenever the cost of arms has changed: their model is cached.

    arms: at least one. seed: of all dice.
    margin: a relative difference below which stacks count as equal.
    strategy: PAIRWISE covers every pair of versions first, without any repetition; RANDOM draws
        each block, whatever came out so far. Both are judged by the same model.
    """

    arms: Sequence[Arm]
    seed: int
    margin: float = MARGIN
    strategy: Strategy = Strategy.RACING

    @property
    def model(self) -> Model:
        """Return the model of the times of all arms."""
        return _model(tuple(each.versions for each in self.arms))

    def next_block(
        self, measured: Sequence[Measured], failed: frozenset[int], block: int
    ) -> tuple[int, ...]:
        """Return which stacks the next block holds, in no order.

        Args:
            measured: everything that went well so far.
            failed: places of stacks that cannot be measured, or are not wanted.
            block: the number of the block, used once: the seed of its dice.

        Returns:
            As many places as are left, four at most; none where all failed.
        """
        dice = np.random.default_rng([self.seed, block])
        alive = self._alive(failed)
        if self.strategy is Strategy.RANDOM:
            return tuple(int(place) for place in dice.permutation(alive)[:BLOCK])
        seen = {each.stack for each in measured}
        order = _cheap_first(self.arms, alive, dice)
        new = [place for place in order if place not in seen]
        if self.strategy is Strategy.PAIRWISE:
            chosen = _cover([_pairs(each.versions) for each in self.arms], new, seen)
        else:
            chosen = _cover([{*each.versions} for each in self.arms], order, seen)
        if not chosen:
            return self._challenge(alive, measured, dice)
        links = [place for place in order if place in seen and place not in chosen]
        others = [place for place in new if place not in chosen]
        if self.strategy is Strategy.PAIRWISE:  # nothing is repeated before all is covered
            return tuple([*chosen, *others, *links][:BLOCK])
        # A block joins what it holds to what was measured before, or nothing could be compared.
        filled = [*chosen[: BLOCK - 1 if links else BLOCK], *links[:1], *others]
        return tuple(filled[:BLOCK])

    def state(self, measured: Sequence[Measured], failed: frozenset[int]) -> SearchState:
        """Return the leader, and how certain it is.

        Raises:
            EvidenceError: all stacks failed.
        """
        alive = self._alive(failed)
        if not alive:
            raise EvidenceError(
                "no stack is left in the race",
                why=f"all {len(self.arms)} failed",
                fix="see why: stackgen kb failures",
            )
        order, now = self._judged(alive, measured)
        newest = max((each.block for each in measured), default=0)
        earlier = [each for each in measured if each.block != newest]
        before = self._judged(alive, earlier)[1] if earlier else 0.0
        return SearchState(confidence=min(now, before), order=tuple(order))

    def _alive(self, failed: frozenset[int]) -> list[int]:
        return [place for place in range(len(self.arms)) if place not in failed]

    def _challenge(
        self, alive: Sequence[int], measured: Sequence[Measured], dice: np.random.Generator
    ) -> tuple[int, ...]:
        """Return the leader, and drawn ones that may be faster, by information per second."""
        if len(alive) <= BLOCK:
            return tuple(alive)
        prediction = self.model.predict(measured)
        leader = int(np.argmin(prediction.mean[alive]))
        draws = prediction.draws(GUESSES, dice)[:, alive]
        votes = _votes(draws, leader, math.log1p(self.margin))
        costs = np.array([self.arms[place].cost_s for place in alive])
        information = _information(prediction, alive, leader)
        worth = votes * information / costs
        chosen = [leader]
        while len(chosen) < BLOCK:
            worth[chosen] = 0.0
            if worth.sum() <= 0:  # no other is ever the best: the most uncertain ones
                worth = information + 1e-12
                worth[chosen] = 0.0
            chosen.append(int(dice.choice(len(alive), p=worth / worth.sum())))
        return tuple(alive[place] for place in chosen)

    def _judged(
        self, alive: Sequence[int], measured: Sequence[Measured]
    ) -> tuple[list[int], float]:
        """Return places, best first, and how certain it is that the first is within the margin."""
        prediction = self.model.predict(measured)
        order = sorted(alive, key=lambda place: (prediction.mean[place], place))
        # Only what was measured can be recommended: a guess alone never leads.
        seen = {each.stack for each in measured}
        order.sort(key=lambda place: place not in seen)
        dice = np.random.default_rng([self.seed, len(measured)])
        draws = prediction.draws(GUESSES, dice)[:, order]
        within = draws[:, 0] - draws.min(axis=1) <= math.log1p(self.margin)
        return order, float(within.mean())


def _cheap_first(arms: Sequence[Arm], alive: Sequence[int], dice: np.random.Generator) -> list[int]:
    """Return places: those that are ready first, then by cost, equal ones as the dice fall."""
    shuffled = [int(place) for place in dice.permutation(alive)]
    return sorted(shuffled, key=lambda each: (arms[each].build_s > 0, arms[each].cost_s))


def _pairs(versions: Versions) -> set[object]:
    """Return all pairs of versions, and each version, which is all where one package varies."""
    return {*versions, *combinations(sorted(versions), 2)}


def _cover(parts: Sequence[set[object]], order: Sequence[int], seen: set[int]) -> list[int]:
    """Return at most a block of stacks with parts not seen yet; none where all are."""
    chosen: list[int] = []
    covered = {part for place in seen for part in parts[place]}
    while len(chosen) < BLOCK:
        new = {place: len(parts[place] - covered) for place in order if place not in chosen}
        best = max(new, key=lambda place: new[place], default=None)
        if best is None or not new[best]:
            break
        chosen.append(best)
        covered |= parts[best]
    return chosen


def _votes(draws: Array, leader: int, margin: float) -> Array:
    """Return how often each stack is the best, counting where the leader is not good enough."""
    best = draws.argmin(axis=1)
    missed = draws[:, leader] - draws.min(axis=1) > margin
    counted = best[missed] if missed.any() else best
    return np.bincount(counted, minlength=draws.shape[1]) / len(draws)


def _information(prediction: Prediction, alive: Sequence[int], leader: int) -> Array:
    """Return how much one more block would take off the variance of each against the leader."""
    part = prediction.covariance[np.ix_(alive, alive)]
    variance = np.diag(part) + part[leader, leader] - 2 * part[leader]
    found: Array = variance**2 / (variance + 2 * prediction.noise**2)
    return found


# What the inspections of a search say: log times for the model, predicted_speeds for the report

_PROBABILITY = 0.95


def searched(
    inspections: Iterable[Inspection],
    *,
    places: Mapping[StackId, int],
    calls: Sequence[IndicatorCall],
    weights: Mapping[IndicatorId, float],
    excluded: Collection[BlockKey] = (),
    roles: Collection[Role] = (Role.SEARCH,),
) -> list[Measured]:
    """Return what a search has measured, in order of blocks.

    A stack counts in a block where all indicators ran well on it; its log time is their weighted
    mean. What is constant within a block, such as the scales of the indicators, cancels there.

    Args:
        roles: of the inspections that count; by default those of searches alone.
    """
    found: dict[tuple[BlockKey, int], dict[IndicatorId, list[float]]] = {}
    for each in inspections:
        block = each.campaign_id, each.block
        counts = each.role in roles and each.stack_id in places and block not in excluded
        if counts and each.observation is not None:
            times = found.setdefault((block, places[each.stack_id]), {})
            times.setdefault(each.indicator_id, []).append(math.log(each.observation.best_s))
    shares = {call.id: weights.get(call.id, 1.0) for call in calls}
    whole = math.fsum(shares.values())
    measured = []
    for (block, place), times in sorted(found.items()):
        # Twice in one block: knowledge bases were merged that had gone on separately.
        if times.keys() == shares.keys() and all(len(each) == 1 for each in times.values()):
            log_s = math.fsum(share * times[call][0] for call, share in shares.items()) / whole
            measured.append(Measured(block[1], place, log_s))
    return measured


def predicted_speeds(
    prediction: Prediction,
    alive: Sequence[int],
    *,
    labels: Sequence[str],
    counts: Mapping[int, int],
    baseline: int,
    margin: float,
    dice: np.random.Generator,
) -> tuple[PredictedSpeed, ...]:
    """Return the posterior of the speed of each stack, the fastest first.

    Args:
        alive: places of those that can be measured.
        labels: of all stacks.
        counts: in how many blocks stacks were, by their places.
        baseline: the place of the stack that others are compared with.
    """
    from scipy.special import stdtrit  # scipy.stats takes a second to import

    draws = prediction.draws(GUESSES, dice)
    best = draws[:, list(alive)].min(axis=1)
    reach = float(stdtrit(prediction.freedom, (1 + _PROBABILITY) / 2))
    found = []
    for place in sorted(alive, key=lambda each: (prediction.mean[each], each)):
        low, high = prediction.interval(place, baseline, reach)
        within = (draws[:, place] - best <= math.log1p(margin)).mean()
        found.append(
            PredictedSpeed(
                label=labels[place],
                ratio=math.exp((low + high) / 2),
                low=math.exp(low),
                high=math.exp(high),
                within=float(within),
                measured=counts.get(place, 0),
            )
        )
    return tuple(found)


# What the same confidence would have cost if every stack were measured in every block

MOST = 1000
"""Blocks beyond which counting stops."""
_CAMPAIGNS = 40
_NODES = 24
_FIRST = 3  # fewer blocks do not show how large the noise is


def uniform_blocks(
    prediction: Prediction,
    alive: Sequence[int],
    *,
    margin: float,
    confidence: float,
    seed: int,
) -> int:
    """Return how many blocks of uniform repetition would have given the same confidence.

    Campaigns are simulated with the posterior of times and noise: every stack is in every
    block, each is judged by its own blocks alone, and it ends when the leader is within the margin
    of the best with this confidence, at two analyses in a row. Rather too few than too many: at the
    end of a race the leader seems further ahead than it is.

    Args:
        prediction: the posterior now.
        alive: places of the stacks that could be measured.
        confidence: required, or reached.

    Returns:
        The median of the simulated campaigns, from 4 to 1000 blocks.
    """
    if len(alive) < 2:
        return _FIRST + 1
    dice = np.random.default_rng([seed, len(alive)])
    analyses = np.unique(np.geomspace(_FIRST, MOST, 60).round().astype(int))
    truths = prediction.draws(_CAMPAIGNS, dice)[:, list(alive)]
    needed = [
        _needed(truth, analyses, prediction.scatter, math.log1p(margin), confidence, dice)
        for truth in truths
    ]
    return int(statistics.median_low(needed))


def _needed(
    truth: Array,
    analyses: "np.ndarray[tuple[int, ...], np.dtype[np.int_]]",
    noise: float,
    margin: float,
    confidence: float,
    dice: np.random.Generator,
) -> int:
    """Return after how many blocks one campaign is certain enough."""
    steps = np.diff(analyses, prepend=0)
    walk = np.cumsum(dice.standard_normal((len(analyses), len(truth))) * np.sqrt(steps)[:, None], 0)
    sure = False
    for blocks, sums in zip(analyses, walk, strict=True):
        error = noise / math.sqrt(blocks)
        reached = leader_confidence(truth + noise * sums / blocks, error=error, margin=margin)
        if sure and reached >= confidence:  # at two analyses in a row, as a race is
            return int(blocks)
        sure = reached >= confidence
    return MOST


def leader_confidence(means: Array, *, error: float, margin: float) -> float:
    """Return how probable it is that the lowest mean is of a stack within the margin.

    Args:
        means: log times, each the mean of as many inspections, shape (stacks,), two at least.
        error: standard error of each.
        margin: a difference of log times below which stacks count as equal.

    Means are independent and normal, so for each value of the leader's the others' probabilities
    multiply; Gauss and Hermite's rule adds them up over these values.
    """
    from scipy.special import ndtr

    nodes, weights = np.polynomial.hermite_e.hermegauss(_NODES)
    leader = int(np.argmin(means))
    others = np.delete(means, leader)
    reached = (others[None, :] - means[leader] + margin) / error - nodes[:, None]
    found = weights @ np.prod(ndtr(reached), axis=1) / weights.sum()
    return float(found)
