"""From a campaign's inspections to its ranking and to what its controls say."""

import math
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum

from stackgen.measure.disturbances import BlockKey, exclude_disturbed
from stackgen.measure.effects import (
    ALPHA,
    INTERIM_ANALYSES,
    MARGIN,
    block_contrasts,
    effect,
    excludes,
    log_ratio,
    p_value,
    verdict,
)
from stackgen.measure.results import deviations
from stackgen.measure.retry_policy import blamed
from stackgen.model.evidence import Control, Effect, Ranked, Verdict
from stackgen.model.identity import IndicatorId, StackId, content_id
from stackgen.model.inspections import IndicatorCall, Inspection, Observation, Role
from stackgen.model.reports.campaigns import ExploreReport

CONTROL_ALPHA = 0.01
Times = Mapping[BlockKey, float]
"""A number per block: seconds, or the log of a ratio of seconds."""
SeriesKey = tuple[IndicatorId, StackId, bool]
"""An indicator, a stack, and whether its second run in each block (the twin) is meant."""


def block_times(
    inspections: Iterable[Inspection],
    *,
    indicator: IndicatorId,
    stack: StackId,
    twin: bool = False,
    excluded: Collection[BlockKey] | None = None,
) -> Times:
    """Return the fastest sample of each block, in seconds, in block order.

    A block that holds the same thing twice is left out: it is two blocks under one number, as
    when knowledge bases were merged that had gone on separately, and pairs nothing. So is what a
    search ran: it chose by these times, and what is chosen for being fast seems too fast.

    Args:
        inspections: of any stacks, indicators and campaigns; only those in blocks count.
        twin: take the second run of the baseline (the A/A control) instead of the first.
        excluded: blocks that are left out; by default those that something disturbed.
    """
    seen = list(inspections)
    left_out = exclude_disturbed(seen).excluded if excluded is None else excluded
    own = [each for each in seen if (each.indicator_id, each.stack_id) == (indicator, stack)]
    return all_times(own, left_out).get((indicator, stack, twin), {})


def all_times(
    inspections: Iterable[Inspection],
    excluded: Collection[BlockKey],
    value: Callable[[Observation], float | None] = lambda seen: seen.best_s,
) -> Mapping[SeriesKey, Times]:
    """Return a number per block of each stack on each indicator, twins apart, as ``block_times``.

    Args:
        inspections: of any stacks, indicators and campaigns; only those in blocks count.
        value: the number of an observation, by default its fastest sample; None leaves it out.
    """
    found: dict[SeriesKey, dict[BlockKey, list[float]]] = {}
    for each in inspections:
        block = (each.campaign_id, each.block)
        fresh = each.block > 0 and each.role is not Role.SEARCH and block not in excluded
        if fresh and each.observation is not None:
            key = each.indicator_id, each.stack_id, each.role is Role.TWIN
            if (number := value(each.observation)) is not None:
                found.setdefault(key, {}).setdefault(block, []).append(number)
    return {
        key: {block: times[0] for block, times in sorted(blocks.items()) if len(times) == 1}
        for key, blocks in found.items()
    }


def count_failures(
    inspections: Iterable[Inspection], *, stack: StackId, calls: Sequence[IndicatorCall]
) -> int:
    """Return how many failures in blocks exclude a stack (the retry policy says which do)."""
    return sum(each.stack_id == stack for each in blamed(inspections, calls))


def candidates_of(inspections: Collection[Inspection], baseline: StackId) -> set[StackId]:
    """Return the stacks that were compared with a baseline in blocks of its own."""
    blocks = {
        (each.campaign_id, each.block)
        for each in inspections
        if each.role is Role.BASELINE and each.stack_id == baseline
    }
    return {
        each.stack_id
        for each in inspections
        if each.role is Role.CANDIDATE and (each.campaign_id, each.block) in blocks
    }


def controls(
    inspections: Sequence[Inspection],
    *,
    baseline: StackId,
    calls: Sequence[IndicatorCall],
    pure: IndicatorCall,
) -> tuple[Control, ...]:
    """Judge the A/A pairs of all indicators, and the pure-Python pairs, each kind at 1 %.

    Otherwise a quiet campaign of five indicators would fail one time in twelve (docs/adr/0033).
    """
    series = all_times(inspections, exclude_disturbed(inspections).excluded)
    twins = [
        _control(
            f"same stack twice: {call.label}",
            series.get((call.id, baseline, False), {}),
            series.get((call.id, baseline, True), {}),
        )
        for call in calls
    ]
    one = series.get((pure.id, baseline, False), {})
    others = {
        e.stack_id
        for e in inspections
        if e.indicator_id == pure.id and e.block > 0 and e.role is not Role.SEARCH
    }
    pairs = [
        _control(
            f"pure Python on equal Pythons: {pure.label}",
            one,
            series.get((pure.id, other, False), {}),
        )
        for other in sorted(others - {baseline})
    ]
    if again := series.get((pure.id, baseline, True)):
        pairs.append(_control(f"same stack twice: {pure.label}", again, one))
    return (*_judged(twins), *_judged(pairs))


def _control(name: str, one: Times, two: Times) -> Control:
    """Return a control that is not judged yet."""
    contrasts = block_contrasts(a_s=one, b_s=two) if one.keys() & two.keys() else []
    p = p_value(contrasts) if contrasts else None
    return Control(name=name, blocks=len(contrasts), p_value=p, failed=False)


def _judged(found: Sequence[Control]) -> Iterator[Control]:
    """Judge controls of one kind together."""
    judged = sum(each.p_value is not None for each in found)
    for each in found:
        yield replace(each, failed=are_different(each.p_value, among=judged))


def are_different(p: float | None, *, among: int) -> bool:
    """Return whether equal runs are shown to differ, by one of several comparisons.

    Args:
        p: of "they are the same"; None where it is not known.
        among: how many are judged together, at 1 % (Bonferroni).
    """
    return p is not None and p < CONTROL_ALPHA / max(1, among)


def block_ratios(a: Times, b: Times) -> Times:
    """Return log(b / a) of each block that has both; above 0, A needs less."""
    return {block: log_ratio(b[block], a[block]) for block in a if block in b}


def weighted_mean(contrasts: Sequence[tuple[Times, float]]) -> Times:
    """Return the weighted mean of contrasts per block, of the blocks that all of them have."""
    shared = set.intersection(*(set(each) for each, _ in contrasts)) if contrasts else set()
    total = math.fsum(weight for _, weight in contrasts)
    return {
        block: math.fsum(weight / total * each[block] for each, weight in contrasts)
        for block in sorted(shared)
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class _Comparer:
    """Compares stacks by their times in blocks.

    alpha: false alarms allowed of one comparison.
    """

    series: Mapping[SeriesKey, Times]
    calls: Sequence[IndicatorCall]
    weights: Mapping[IndicatorId, float]
    margin: float
    alpha: float
    tolerance: float = 0.0
    analyses: tuple[int, ...] = INTERIM_ANALYSES

    def effects(self, a: StackId, b: StackId) -> tuple[Effect, ...]:
        """Return how much faster A is than B, of the indicators that have both."""
        found = ((call.id, self._contrasts(call.id, a, b)) for call in self.calls)
        return tuple(self._effect(a, b, what, each) for what, each in found if each)

    def together(self, a: StackId, b: StackId) -> Effect | None:
        """Return how much faster A is than B over all indicators; None where no block has all."""
        weights = [self.weights.get(call.id, 1.0) for call in self.calls]
        per_call = [self._contrasts(call.id, a, b) for call in self.calls]
        mean = weighted_mean(list(zip(per_call, weights, strict=True)))
        if not mean:
            return None
        pairs = [[call.id, weight] for call, weight in zip(self.calls, weights, strict=True)]
        return self._effect(a, b, IndicatorId(content_id("indicators", pairs)), mean)

    def _contrasts(
        self, indicator: IndicatorId, a: StackId, b: StackId
    ) -> Mapping[BlockKey, float]:
        a_s = self.series.get((indicator, a, False), {})
        b_s = self.series.get((indicator, b, False), {})
        return block_ratios(a_s, b_s)

    def _effect(self, a: StackId, b: StackId, indicator: IndicatorId, contrasts: Times) -> Effect:
        return effect(
            a=a,
            b=b,
            indicator_id=indicator,
            contrasts=[contrasts[block] for block in sorted(contrasts)],
            margin=self.margin,
            alpha=self.alpha,
            tolerance=self.tolerance,
            analyses=self.analyses,
        )


def rank(
    inspections: Sequence[Inspection],
    *,
    labels: Mapping[StackId, str],
    baseline: StackId,
    calls: Sequence[IndicatorCall],
    margin: float = MARGIN,
    weights: Mapping[IndicatorId, float] | None = None,
    total_alpha: float = ALPHA,
    tolerance: float = 0.0,
    planned: int = 0,
    analyses: tuple[int, ...] = INTERIM_ANALYSES,
) -> tuple[Ranked, ...]:
    """Order the stacks, fastest first, by the weighted geometric mean of their indicators' ratios.

    ``best`` marks every stack that the fastest is not shown to beat. A stack that failed in a
    block, or lacks an indicator, is neither: what is left of its runs is what survived. Nor is one
    that computes something else than the baseline. Such stacks come last, with their effects.
    Blocks that something disturbed, and what a search ran, take no part.

    Args:
        inspections: of the campaign, calibrations included.
        labels: of the stacks that are ranked, the baseline among them.
        weights: of indicators, above 0; 1 where none is given.
        total_alpha: false alarms allowed over the whole ranking.
        tolerance: by which two builds of one stack may differ: only more is faster or slower.
        planned: how many stacks will be compared with the baseline, where not all have begun.
        analyses: numbers of blocks after which interim analyses are made.
    """
    series = all_times(inspections, exclude_disturbed(inspections).excluded)
    whole = _Comparer(
        series=series,
        calls=calls,
        weights=weights or {},
        margin=margin,
        alpha=total_alpha,
        tolerance=tolerance,
        analyses=analyses,
    )
    comparison, pairs = _shared_alpha(whole, baseline, planned)
    failures = Counter(each.stack_id for each in blamed(inspections, calls))
    wrong = deviations(inspections, baseline=baseline, stacks=labels, calls=calls)
    rows = []
    for stack, label in labels.items():
        own = stack == baseline
        row = Ranked(
            stack_id=stack,
            label=label,
            effects=() if own else comparison.effects(stack, baseline),
            is_baseline=own,
            failures=failures[stack],
            deviations=wrong.get(stack, ()),
            overall=None if own or len(calls) < 2 else comparison.together(stack, baseline),
        )
        rows.append(row)
    return _ordered(rows, pairs, baseline)


def _ordered(rows: Sequence[Ranked], pairs: _Comparer, baseline: StackId) -> tuple[Ranked, ...]:
    """Return rows, the fastest first, and mark those that the fastest is not shown to beat."""
    scores = {baseline: 0.0} | {
        row.stack_id: _score(row.effects, row.overall, pairs.weights)
        for row in rows
        if not row.is_baseline and row.counts and len(row.effects) == len(pairs.calls)
    }
    leader = max(scores, key=lambda stack: scores[stack])
    beaten = {each for each in scores if each != leader and _beats(pairs, leader, each, baseline)}
    ordered = sorted(
        rows,
        key=lambda row: (row.stack_id not in scores, -scores.get(row.stack_id, 0.0), row.label),
    )
    return tuple(
        replace(row, best=row.stack_id in scores and row.stack_id not in beaten) for row in ordered
    )


def _shared_alpha(whole: _Comparer, baseline: StackId, planned: int) -> tuple[_Comparer, _Comparer]:
    """Return what compares stacks with the baseline, and what compares them with each other.

    A ranking of k stacks on m indicators is k - 1 comparisons on each indicator and, where there
    are several, k - 1 on all of them together. Each is made at the total alpha divided by their
    number: the chance that any stack is wrongly called faster stays at that (Bonferroni).

    The k are all stacks that the campaign has compared or is going to, ranked now or not; of the
    stars each of the k (k - 1) / 2 pairs could have been the reported one.
    """
    count = max(planned, len({stack for _, stack, _ in whole.series} - {baseline}))
    each_alone = len(whole.calls) + 1 if len(whole.calls) > 1 else 1
    return (
        replace(whole, alpha=whole.alpha / max(1, count * each_alone)),
        replace(whole, alpha=whole.alpha / max(1, count * (count + 1) // 2)),
    )


def _score(
    effects: Sequence[Effect], overall: Effect | None, weights: Mapping[IndicatorId, float]
) -> float:
    """Return the log of a stack's ratio over all indicators."""
    if overall is not None:
        return math.log(overall.ratio)
    own = [weights.get(each.indicator_id, 1.0) for each in effects]
    logs = (weight * math.log(e.ratio) for weight, e in zip(own, effects, strict=True))
    return math.fsum(logs) / math.fsum(own)


def _beats(comparison: _Comparer, leader: StackId, other: StackId, baseline: StackId) -> bool:
    """Return whether the leader is shown to be faster, over all indicators together.

    Where no block holds both, as when another run compared the other one, it is so where even the
    least that the leader gains on the baseline is more than the most of the other.
    """
    direct = comparison.together(leader, other)
    if direct is not None:
        return direct.verdict is Verdict.FASTER
    one, two = comparison.together(leader, baseline), comparison.together(other, baseline)
    if one is None or two is None or not one.low or not two.low:
        return False
    return verdict(one.low / two.high, one.high / two.low, comparison.margin) is Verdict.FASTER


def decided(ranking: Sequence[Ranked], calls: Sequence[IndicatorCall]) -> bool:
    """Return whether every comparison has its answer, so that more blocks would add nothing."""
    return all(
        _is_complete(row, calls)
        and all(each.verdict is not Verdict.INCONCLUSIVE for each in _answers(row))
        for row in ranking
        if not row.is_baseline and not row.failures
    )


def is_futile(
    inspections: Sequence[Inspection],
    ranking: Sequence[Ranked],
    calls: Sequence[IndicatorCall],
    detect: float,
) -> bool:
    """Return whether every comparison is decided, or excludes an effect of this size.

    That of all indicators together does not count.
    """
    series = all_times(inspections, exclude_disturbed(inspections).excluded)
    for row in ranking:
        if row.is_baseline or row.failures:
            continue
        if len(row.effects) < len(calls):
            return False
        for each in row.effects:
            own, base = (series.get((each.indicator_id, x, False), {}) for x in (each.a, each.b))
            ratios = block_ratios(own, base)
            contrasts = [ratios[block] for block in sorted(ratios)]
            if each.verdict is Verdict.INCONCLUSIVE and not excludes(contrasts, detect):
                return False
    return True


def fewest_blocks(ranking: Sequence[Ranked], calls: Sequence[IndicatorCall]) -> int:
    """Return the blocks of the comparison that has the fewest, 0 where one was never made."""
    return min(
        (
            min(each.blocks for each in _answers(row)) if _is_complete(row, calls) else 0
            for row in ranking
            if not row.is_baseline and not row.failures
        ),
        default=INTERIM_ANALYSES[-1],
    )


def blocks_to_analysis(
    inspections: Sequence[Inspection],
    stacks: Iterable[StackId],
    *,
    baseline: StackId,
    calls: Sequence[IndicatorCall],
) -> int:
    """Return how many more blocks the next interim analysis of any of these stacks takes.

    0 where none has an analysis left. Stacks may have begun at different blocks.
    """
    series = all_times(inspections, exclude_disturbed(inspections).excluded)
    left = []
    for stack in stacks:
        pairs = ((call.id, stack, False) for call in calls)
        own = (series.get(each, {}).keys() for each in pairs)
        bases = (series.get((call.id, baseline, False), {}).keys() for call in calls)
        done = min(len(one & other) for one, other in zip(own, bases, strict=True))
        left += [each - done for each in INTERIM_ANALYSES if each > done][:1]
    return min(left, default=0)


def is_open(row: Ranked) -> bool:
    """Return whether the comparison of a stack with the baseline is not decided."""
    if row.is_baseline:
        return False
    effects = row.effects if row.overall is None else (row.overall,)
    return not effects or any(each.verdict is Verdict.INCONCLUSIVE for each in effects)


def _is_complete(row: Ranked, calls: Sequence[IndicatorCall]) -> bool:
    """Return whether a stack was compared on every indicator, and on all of them together."""
    return len(row.effects) == len(calls) and (len(calls) == 1 or row.overall is not None)


def _answers(row: Ranked) -> tuple[Effect, ...]:
    return row.effects if row.overall is None else (*row.effects, row.overall)


# The conclusion of an exploration: which stack to take, or why there is none


class RankingAnswer(str, Enum):
    """What a ranking answers.

    FASTER: a stack is shown to be faster than the baseline.
    NOTHING_FASTER: none is, so that the baseline stays.
    BETTER: a stack is shown to be better than the baseline by the goals of the user.
    WITHIN_LIMITS: the baseline exceeds a limit, and the stack that is named does not.
    NONE_WITHIN_LIMITS: no stack that was compared keeps to the limits.
    FRONT: several goals without weights have a Pareto front.
    NOTHING_COMPARED: no other stack runs and computes the same, or none was measured.
    BASELINE_FAILED: what all others are compared with failed while it was measured.
    CONTROLS_FAILED: the machine showed differences where there are none.
    TOO_EARLY: there are too few blocks for any interval.
    """

    FASTER = "faster"
    NOTHING_FASTER = "nothing faster"
    BETTER = "better"
    WITHIN_LIMITS = "within limits"
    NONE_WITHIN_LIMITS = "none within limits"
    FRONT = "pareto front"
    NOTHING_COMPARED = "nothing compared"
    BASELINE_FAILED = "baseline failed"
    CONTROLS_FAILED = "controls failed"
    TOO_EARLY = "too early"


@dataclass(frozen=True, slots=True, kw_only=True)
class Conclusion:
    """An answer, and the row of the stack to take; None where there is none to be named."""

    answer: RankingAnswer
    winner: Ranked | None = None


def compared(report: ExploreReport) -> int:
    """Return how many stacks were compared, the baseline included.

    Those that a search saw to compute something else are in the ranking as well.
    """
    return sum(row.is_baseline or bool(row.effects) for row in report.ranking)


def conclusion(report: ExploreReport) -> Conclusion:
    """Return which stack a report shows to be the best to take.

    It is the first of those that are not beaten and are shown to be faster than the baseline, or
    the one among them that a search had found (docs/adr/0021); where there are none, the baseline
    itself. What failed, or computes something else, answers nothing.
    """
    if not any(row.effects for row in report.ranking):
        return Conclusion(answer=RankingAnswer.NOTHING_COMPARED)
    baseline = next((row for row in report.ranking if row.is_baseline), None)
    if baseline is not None and baseline.failures:
        return Conclusion(answer=RankingAnswer.BASELINE_FAILED)
    if any(control.failed for control in report.health.controls):
        return Conclusion(answer=RankingAnswer.CONTROLS_FAILED)
    others = [row for row in report.ranking if row.counts and not row.is_baseline]
    if baseline is None or not baseline.counts or not others:
        return Conclusion(answer=RankingAnswer.NOTHING_COMPARED)
    if all(effect.low <= 0 for row in others for effect in row.effects):
        return Conclusion(answer=RankingAnswer.TOO_EARLY)
    if report.goals.goals.decides:
        return _by_goals(report, baseline, others)
    found = report.search.leader if report.search else ""
    fastest = [row for row in others if row.best and row.is_faster]
    if fastest:
        winner = next((row for row in fastest if row.stack_id == found), fastest[0])
        return Conclusion(answer=RankingAnswer.FASTER, winner=winner)
    return Conclusion(answer=RankingAnswer.NOTHING_FASTER, winner=baseline)


def _by_goals(report: ExploreReport, baseline: Ranked, others: Sequence[Ranked]) -> Conclusion:
    """Return what the goals and limits of the user lead to."""
    found = {row.stack_id: report.goals.of(row.stack_id) for row in (baseline, *others)}
    within = [row for row in others if not found[row.stack_id].exceeded]
    keeps = not found[baseline.stack_id].exceeded
    if not within and not keeps:
        return Conclusion(answer=RankingAnswer.NONE_WITHIN_LIMITS)
    if report.goals.goals.has_front:
        return Conclusion(answer=RankingAnswer.FRONT)
    scores = {row.stack_id: found[row.stack_id].decision for row in within}
    ordered = sorted(
        within, key=lambda row: -(each.ratio if (each := scores[row.stack_id]) is not None else 0)
    )
    better = [
        row
        for row in ordered
        if (each := scores[row.stack_id]) is not None and each.verdict is Verdict.FASTER
    ]
    if better:
        return Conclusion(answer=RankingAnswer.BETTER, winner=better[0])
    if keeps:
        return Conclusion(answer=RankingAnswer.NOTHING_FASTER, winner=baseline)
    return Conclusion(answer=RankingAnswer.WITHIN_LIMITS, winner=ordered[0])
