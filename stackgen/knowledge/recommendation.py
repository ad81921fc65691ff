"""Which stacks are shown to be faster than a user's own, by all campaigns of all indicators.

A wrong "faster" is the worst that advice can say, so five things are required of one:

- The lower bound lies above 1 with simultaneous intervals: over all stacks that were considered,
  all of their pairs (so that the promise holds whichever of them the user has) and all indicators,
  at most 5 % of knowledge bases of equal stacks hold any wrong one.
- The estimate lies above the margin, and on no indicator the stack is shown to be slower.
- It stands, with 95 % intervals, if one stack is odd in one campaign, whichever that is, unless
  other campaigns make that implausible (docs/adr/0035). So it takes two campaigns that agree, or
  more than what an odd one would show.
- It stands without any single origin, or that origin is named: the caller decides whom to trust.
- Where five origins or more carry it, it stands without the fifth of them that favours it most.

Whether anything of it was measured on the machine in question is stated as well.
"""

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum

from stackgen.knowledge.graph import MOST_NODES, Basis, Comparisons, EvidenceGraph, Place
from stackgen.measure import ALPHA, MARGIN
from stackgen.measure.meta_analysis import Mixture, Repeats, learned_prior, simultaneous
from stackgen.model.identity import IndicatorId, MachineId

FEWEST_MACHINES = 3
"""Evidence from fewer machines other than the user's is "measured elsewhere"."""
FEWEST_ORIGINS = 5
"""From so many origins on, a fifth of them may be wrong without making a recommendation."""
OWN_SHARE = 0.05
"""From this share of a comparison on, campaigns on the user's machine count as measured there."""


class Standing(str, Enum):
    """What the evidence says of a candidate beside the user's stack."""

    FASTER = "faster"
    SLOWER = "slower on an indicator"
    NOT_SHOWN = "no difference shown"
    FEW_ORIGINS = "faster by few of many origins alone"
    ONE_CAMPAIGN = "faster by one campaign alone"


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """A candidate beside the user's stack on one indicator; ratios above 1: it is faster.

    low, high: 95 % interval of this ratio alone. lowest, highest: simultaneous interval, which
    holds although the candidate was chosen among many.
    basis: what it rests on; None of those that are neither faster nor among the first.
    """

    indicator_id: IndicatorId
    ratio: float
    low: float
    high: float
    lowest: float
    highest: float
    basis: Basis | None = None


def alpha_after(campaigns: int) -> float:
    """Return the share of false "faster" that an answer may have after so many campaigns for it.

    Campaigns go on until one decides. So that all of them together keep to ``ALPHA``, however many
    there will be, the first two get two fifths of it each, and the k-th of the later ones
    1/5 / ((k - 2) (k - 1)); the sum of all is ALPHA (docs/adr/0032). Most answers come after the
    second campaign: the first one alone does not show how far the next would differ.

    Args:
        campaigns: that were run to decide this answer; each of them is another interim analysis.
    """
    if campaigns == 0:
        return ALPHA
    if campaigns <= 2:
        return ALPHA * 2 / 5
    return ALPHA / 5 / ((campaigns - 2) * (campaigns - 1))


@dataclass(frozen=True, slots=True, kw_only=True)
class Assessment:
    """What is known of one candidate, on each indicator that compares it with the user's stack.

    compared: in order of the indicators.
    sole_origins: without each of these alone it would not be shown to be faster; "" is this
        installation. Empty where it is not faster.
    elsewhere: whether the evidence for "faster" is of fewer than three machines, and not of the
        user's own.
    """

    name: str
    standing: Standing
    compared: tuple[Compared, ...]
    sole_origins: tuple[str, ...] = ()
    elsewhere: bool = False

    @property
    def score(self) -> float:
        """Return the mean log ratio over the indicators."""
        return math.fsum(math.log(each.ratio) for each in self.compared) / len(self.compared)


def assess(
    graphs: Mapping[IndicatorId, EvidenceGraph],
    *,
    current: Mapping[IndicatorId, str],
    candidates: Mapping[str, Mapping[IndicatorId, str]],
    place: Place,
    repeated: Sequence[Repeats] = (),
    margin: float = MARGIN,
    alpha: float = ALPHA,
    explained: int = 3,
    most: int = MOST_NODES,
) -> tuple[Assessment, ...]:
    """Compare candidates with the user's stack: what is shown to be faster first, then by score.

    Args:
        graphs: by indicator.
        current: the key of the user's stack in each graph that has it.
        candidates: by name, the key of each in the graphs that have it.
        place: the user's machine and base.
        repeated: what repeated campaigns of the whole knowledge base say of the spread between
            campaigns, by machine.
        margin: relative difference that is of no importance.
        alpha: the share of knowledge bases of equal stacks that may hold any wrong "faster".
        explained: of how many candidates that are not faster the basis is given, best first.
        most: nodes of a graph that take part.

    Returns:
        Those candidates that can be compared on any indicator.
    """
    pairs = []
    for indicator, key in sorted(current.items()):
        keys = {each[indicator] for each in candidates.values() if indicator in each} - {key}
        if indicator in graphs and keys & set(graphs[indicator].component(key)):
            said = [each.without(indicator) for each in repeated]
            own = next((each for each in said if each.machine_id == place.machine_id), None)
            prior = learned_prior(own, [each for each in said if each is not own])
            known = graphs[indicator].fit(key, place, of=keys, prior=prior, most=most)
            if len(known.stacks) > 1:
                pairs.append(_Question(known, indicator, key, place))
    if not pairs:
        return ()
    family = [(each.posterior, (len(each.others) + 1) / 2) for each in pairs]
    judge = _Judge(pairs, simultaneous(family, 1 - alpha), math.log1p(margin))
    found = (judge.assessment(name, keys) for name, keys in sorted(candidates.items()))
    ranked = [each for each in found if each is not None]
    ranked.sort(key=lambda each: (each.standing is not Standing.FASTER, -each.score, each.name))
    rest = sum(each.standing is Standing.FASTER for each in ranked)
    ranked[rest : rest + explained] = [
        judge.explained(each, candidates[each.name]) for each in ranked[rest : rest + explained]
    ]
    return tuple(ranked)


class _Question:
    """Candidates beside the user's stack on one indicator."""

    def __init__(
        self, fit: Comparisons, indicator: IndicatorId, current: str, place: Place
    ) -> None:
        self.fit, self.indicator, self.current, self.place = fit, indicator, current, place
        self.others = [key for key in fit.stacks if key != current]
        self.posterior: Mixture = fit.log_ratios(current, self.others)
        self.mean = self.posterior.mean
        self.low, self.high = self.posterior.bounds

    def bounds(self, key: str, factor: float) -> tuple[float, float, float]:
        """Return the estimate and its simultaneous bounds, all as log ratios."""
        at = self.others.index(key)
        mean, low, high = float(self.mean[at]), float(self.low[at]), float(self.high[at])
        return mean, mean - factor * (mean - low), mean + factor * (high - mean)

    def without(self, origins: Collection[str], key: str) -> "_Question | None":
        """Return the same of one candidate without some origins; None where nothing is left."""
        left = self.fit.without(origins, self.current, key)
        if left is None:
            return None
        return _Question(left, self.indicator, self.current, self.place)


@dataclass(frozen=True, slots=True)
class _Judge:
    """Judges candidates by simultaneous intervals.

    factor: of their widths to those of 95 % intervals of each alone. margin: as a log ratio.
    """

    questions: Sequence[_Question]
    factor: float
    margin: float

    def assessment(self, name: str, keys: Mapping[IndicatorId, str]) -> Assessment | None:
        """Return what is known of one candidate; None where nothing compares it."""
        measured = [q for q in self.questions if keys.get(q.indicator) in q.others]
        if not measured:
            return None
        compared = tuple(self._compared(q, keys[q.indicator]) for q in measured)
        plain = Assessment(name=name, standing=Standing.NOT_SHOWN, compared=compared)
        faster = [q for q in measured if self._is_faster(q, keys[q.indicator])]
        if any(each.high < 1 for each in compared):
            return replace(plain, standing=Standing.SLOWER)
        if not faster:
            return plain
        faster = [q for q in faster if self._stands_if_odd(q, keys[q.indicator])]
        if not faster:
            return replace(plain, standing=Standing.ONE_CAMPAIGN)
        if not any(self._stands_without_a_fifth(q, keys[q.indicator]) for q in faster):
            return replace(plain, standing=Standing.FEW_ORIGINS)
        bases = [q.fit.basis(q.current, keys[q.indicator]) for q in faster]
        origins = sorted({origin for each in bases for origin in each.origins})
        return replace(
            self.explained(plain, keys),
            standing=Standing.FASTER,
            sole_origins=tuple(
                origin
                for origin in origins
                if not any(self._stands(q, keys[q.indicator], [origin]) for q in faster)
            ),
            elsewhere=all(map(self._is_elsewhere, bases)),
        )

    def explained(self, assessment: Assessment, keys: Mapping[IndicatorId, str]) -> Assessment:
        """Return the same with what each comparison rests on."""
        questions = {q.indicator: q for q in self.questions}
        compared = (
            replace(each, basis=q.fit.basis(q.current, keys[q.indicator]))
            for each in assessment.compared
            for q in [questions[each.indicator_id]]
        )
        return replace(assessment, compared=tuple(compared))

    def _is_elsewhere(self, basis: Basis) -> bool:
        return measured_elsewhere(basis, self.questions[0].place.machine_id)

    def _is_faster(self, question: _Question, key: str) -> bool:
        mean, lowest, _ = question.bounds(key, self.factor)
        return lowest > 0 and mean > self.margin

    def _stands_if_odd(self, question: _Question, key: str) -> bool:
        """Return whether a candidate stays faster if one stack is odd in any one campaign."""
        return question.fit.below_if_odd(question.current, key) < ALPHA / 2

    def _stands(self, question: _Question, key: str, without: Collection[str]) -> bool:
        left = question.without(without, key)
        return left is not None and self._is_faster(left, key)

    def _stands_without_a_fifth(self, question: _Question, key: str) -> bool:
        """Return whether a candidate stays faster without the origins that favour it most."""
        origins = question.fit.basis(question.current, key).origins
        origins = tuple(sorted({*origins, *question.fit.direct_origins(question.current, key)}))
        if len(origins) < FEWEST_ORIGINS:
            return True

        def without(origin: str) -> float:
            left = question.without([origin], key)
            return -math.inf if left is None else float(left.mean[0])

        favouring = sorted(origins, key=lambda origin: (without(origin), origin))
        return self._stands(question, key, favouring[: len(origins) // FEWEST_ORIGINS])

    def _compared(self, question: _Question, key: str) -> Compared:
        at = question.others.index(key)
        mean, lowest, highest = question.bounds(key, self.factor)
        return Compared(
            indicator_id=question.indicator,
            ratio=_ratio(mean),
            low=_ratio(float(question.low[at])),
            high=_ratio(float(question.high[at])),
            lowest=_ratio(lowest),
            highest=_ratio(highest),
        )


def _ratio(log_ratio: float) -> float:
    return math.exp(min(log_ratio, _LARGEST_LOG))


def measured_elsewhere(basis: Basis, own: MachineId) -> bool:
    """Return whether evidence is of fewer than three machines, and not of the user's own."""
    others = sum(machine != own for machine, _ in basis.machines)
    return dict(basis.machines).get(own, 0.0) < OWN_SHARE and others < FEWEST_MACHINES


_LARGEST_LOG = 700.0  # beyond it, a float has no room for the ratio
