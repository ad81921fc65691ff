"""From a campaign's inspections to its ranking and to what its controls say."""

import math
from collections.abc import Iterable, Mapping, Sequence

from stackgen.measure.effects import ALPHA, MARGIN, block_contrasts, effect, p_value
from stackgen.measure.looks import LOOKS
from stackgen.measure.results import deviations
from stackgen.values import (
    CampaignId,
    Control,
    Effect,
    IndicatorCall,
    IndicatorId,
    Inspection,
    Outcome,
    Ranked,
    Role,
    StackId,
    Verdict,
    content_id,
)

CONTROL_ALPHA = 0.01
BlockKey = tuple[CampaignId, int]
Times = Mapping[BlockKey, float]


def block_times(
    inspections: Iterable[Inspection], *, indicator: IndicatorId, stack: StackId, twin: bool = False
) -> Times:
    """Return the fastest sample of each block, in seconds, in block order.

    A block that holds the same thing twice is left out: it is two blocks under one number, as
    when knowledge bases were merged that had gone on separately, and pairs nothing.

    Args:
        inspections: of any stacks, indicators and campaigns; only those in blocks count.
        indicator: which indicator.
        stack: which stack.
        twin: take the second run of the reference (the A/A control) instead of the first.
    """
    found: dict[BlockKey, list[float]] = {}
    for each in inspections:
        if (
            each.observation is not None
            and each.block > 0
            and (each.indicator_id, each.stack_id) == (indicator, stack)
            and (each.role is Role.TWIN) is twin
        ):
            found.setdefault((each.campaign_id, each.block), []).append(each.observation.best_s)
    return {block: times[0] for block, times in sorted(found.items()) if len(times) == 1}


def count_failures(
    inspections: Iterable[Inspection], *, stack: StackId, calls: Sequence[IndicatorCall]
) -> int:
    """Return how often a stack failed in blocks; a lost engine is nobody's failure."""
    ids = {call.id for call in calls}
    return sum(
        each.block > 0
        and each.stack_id == stack
        and each.indicator_id in ids
        and each.outcome is not Outcome.OK
        and not each.outcome.is_infrastructure
        for each in inspections
    )


def controls(
    inspections: Sequence[Inspection],
    *,
    reference: StackId,
    calls: Sequence[IndicatorCall],
    pure: IndicatorCall,
) -> tuple[Control, ...]:
    """Judge the A/A pair of each indicator and the pure-Python pair, each at 1 %."""
    found = []
    for call in calls:
        one = block_times(inspections, indicator=call.id, stack=reference)
        two = block_times(inspections, indicator=call.id, stack=reference, twin=True)
        found.append(_control(f"same stack twice: {call.label}", one, two))
    one = block_times(inspections, indicator=pure.id, stack=reference)
    others = {e.stack_id for e in inspections if e.indicator_id == pure.id and e.block > 0}
    for other in sorted(others - {reference}):
        two = block_times(inspections, indicator=pure.id, stack=other)
        found.append(_control(f"pure Python on equal Pythons: {pure.label}", one, two))
    return tuple(found)


def _control(name: str, one: Times, two: Times) -> Control:
    if not one.keys() & two.keys():
        return Control(name=name, blocks=0, p_value=None, failed=False)
    contrasts = block_contrasts(a_s=one, b_s=two)
    p = p_value(contrasts)
    return Control(
        name=name,
        blocks=len(contrasts),
        p_value=p,
        failed=p is not None and p < CONTROL_ALPHA,
    )


def rank(
    inspections: Sequence[Inspection],
    *,
    labels: Mapping[StackId, str],
    reference: StackId,
    calls: Sequence[IndicatorCall],
    margin: float = MARGIN,
) -> tuple[Ranked, ...]:
    """Order the stacks, fastest first, by the geometric mean of their ratios over indicators.

    A ranking of k stacks on m indicators is (k - 1) m comparisons, each at ALPHA / ((k - 1) m):
    the chance that any stack is wrongly called faster stays at ALPHA (Bonferroni). ``best`` marks
    every stack that the fastest is not shown to beat. A stack that failed in a block, or lacks an
    indicator, is neither: what is left of its runs is what survived. Nor is one that computes
    something else than the reference. Such stacks come last, with their effects.
    """
    others = [stack for stack in labels if stack != reference]
    alpha = ALPHA / max(1, len(others) * len(calls))
    failures = {stack: count_failures(inspections, stack=stack, calls=calls) for stack in labels}
    rows = {
        stack: _compare_all(inspections, stack, reference, calls, margin, alpha) for stack in others
    }
    wrong = deviations(inspections, reference=reference, stacks=labels, calls=calls)
    scores = {reference: 0.0} | {
        stack: _score(effects)
        for stack, effects in rows.items()
        if len(effects) == len(calls) and not failures[stack] and stack not in wrong
    }
    leader = max(scores, key=lambda stack: scores[stack])
    order = sorted(scores, key=lambda stack: (-scores[stack], labels[stack]))
    order += sorted(labels.keys() - scores.keys(), key=lambda stack: labels[stack])
    return tuple(
        Ranked(
            stack_id=stack,
            label=labels[stack],
            effects=rows.get(stack, ()),
            is_reference=stack == reference,
            best=stack in scores
            and (stack == leader or not _beats(inspections, leader, stack, calls, margin, alpha)),
            failures=failures[stack],
            deviations=wrong.get(stack, ()),
        )
        for stack in order
    )


def _score(effects: Sequence[Effect]) -> float:
    return math.fsum(math.log(each.ratio) for each in effects) / len(effects)


def _compare_all(
    inspections: Sequence[Inspection],
    stack: StackId,
    reference: StackId,
    calls: Sequence[IndicatorCall],
    margin: float,
    alpha: float,
) -> tuple[Effect, ...]:
    """Return the effects of a stack against the reference, of the indicators that have both."""
    effects = (_compare(inspections, stack, reference, call.id, margin, alpha) for call in calls)
    return tuple(each for each in effects if each is not None)


def _compare(
    inspections: Sequence[Inspection],
    a: StackId,
    b: StackId,
    indicator: IndicatorId,
    margin: float,
    alpha: float,
) -> Effect | None:
    a_s = block_times(inspections, indicator=indicator, stack=a)
    b_s = block_times(inspections, indicator=indicator, stack=b)
    if not a_s.keys() & b_s.keys():
        return None
    return effect(
        a=a,
        b=b,
        indicator_id=indicator,
        contrasts=block_contrasts(a_s=a_s, b_s=b_s),
        margin=margin,
        alpha=alpha,
    )


def _beats(
    inspections: Sequence[Inspection],
    leader: StackId,
    other: StackId,
    calls: Sequence[IndicatorCall],
    margin: float,
    alpha: float,
) -> bool:
    """Return whether the leader is shown to be faster, over all indicators together."""
    per_call = []
    for call in calls:
        a_s = block_times(inspections, indicator=call.id, stack=leader)
        b_s = block_times(inspections, indicator=call.id, stack=other)
        per_call.append({k: math.log(b_s[k] / a_s[k]) for k in a_s if k in b_s})
    shared = set.intersection(*(set(each) for each in per_call)) if per_call else set()
    if not shared:
        return False
    combined = [math.fsum(each[k] for each in per_call) / len(calls) for k in sorted(shared)]
    together = IndicatorId(content_id("indicators", [call.id for call in calls]))
    found = effect(
        a=leader, b=other, indicator_id=together, contrasts=combined, margin=margin, alpha=alpha
    )
    return found.verdict is Verdict.FASTER


def decided(ranking: Sequence[Ranked], calls: Sequence[IndicatorCall]) -> bool:
    """Return whether every comparison has its answer, so that more blocks would add nothing."""
    return all(
        len(row.effects) == len(calls)
        and all(each.verdict is not Verdict.INCONCLUSIVE for each in row.effects)
        for row in ranking
        if not row.is_reference and not row.failures
    )


def fewest_blocks(ranking: Sequence[Ranked], calls: Sequence[IndicatorCall]) -> int:
    """Return the blocks of the comparison that has the fewest, 0 where one was never made."""
    return min(
        (
            min((each.blocks for each in row.effects), default=0)
            if len(row.effects) == len(calls)
            else 0
            for row in ranking
            if not row.is_reference and not row.failures
        ),
        default=LOOKS[-1],
    )
