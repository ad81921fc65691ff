"""What work costs on each stack, and what more CPUs bring for their price."""

import statistics
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from stackgen.measure.disturbances import BlockKey, exclude_disturbed
from stackgen.measure.effects import ALPHA, block_contrasts, effect
from stackgen.measure.ranking import Times, block_times
from stackgen.model.evidence import Ranked
from stackgen.model.identity import IndicatorId, StackId
from stackgen.model.inspections import IndicatorCall, Inspection, Observation, Role
from stackgen.model.reports.campaigns import Cost, CpuScaling

_ITEMS = "items"  # a circumstance
_MILLION, _HOUR_S = 1e6, 3600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class AtCount:
    """An indicator's call with so many CPUs.

    indicator: its label, the number of CPUs apart; what has equal ones is compared.
    price: of so many CPUs per hour, or anything in proportion to it.
    """

    call: IndicatorCall
    indicator: str
    cpus: int
    price: float


def costs(
    inspections: Sequence[Inspection],
    *,
    ranking: Sequence[Ranked],
    calls: Sequence[IndicatorCall],
    per_hour: Mapping[IndicatorId, float],
) -> tuple[Cost, ...]:
    """Return what each indicator's work costs on each stack, cheapest first, call by call.

    Stacks that fail or compute something else are left out, and indicators that give a figure of
    their own in place of a time. The baseline's time is the median of its blocks' fastest samples,
    which is what stacks are compared by: neighbours on a busy machine make nothing dearer. Times of
    others are that by the ratio of their effect, so that what costs less is never what the ranking
    calls slower.
    """
    found: list[Cost] = []
    for call_id, base_s in baseline_times(inspections, calls):
        if call_id not in per_hour:
            continue
        items = _whole(dict(_of_baseline(inspections, call_id)[-1].circumstances).get(_ITEMS, ""))
        own = [
            _cost(row.stack_id, call_id, base_s / ratio, items, per_hour[call_id])
            for row in ranking
            if row.counts and (ratio := _ratio(row, call_id)) is not None
        ]
        found += sorted(own, key=lambda each: each.per_million)
    return tuple(found)


def baseline_times(
    inspections: Sequence[Inspection], calls: Iterable[IndicatorCall]
) -> tuple[tuple[IndicatorId, float], ...]:
    """Return the seconds of one operation on the baseline, of each indicator that gives a time.

    It is the median of its blocks' fastest samples; disturbed blocks, and what was the baseline of
    an earlier run, do not count.
    """
    seen = {call.id: _of_baseline(inspections, call.id) for call in calls}
    return tuple(
        (call, statistics.median(each.best_s for each in found))
        for call, found in seen.items()
        if found and not gives_figure(inspections, call)
    )


def gives_figure(inspections: Iterable[Inspection], call: IndicatorId) -> bool:
    """Return whether what an indicator gives is a figure of its own, in place of a time."""
    seen = (e.observation for e in inspections if e.indicator_id == call and e.observation)
    return any(each.gives_figure for each in seen)


def _of_baseline(inspections: Sequence[Inspection], call: IndicatorId) -> list[Observation]:
    excluded = exclude_disturbed(inspections).excluded
    own = [each for each in inspections if each.role is Role.BASELINE and each.block > 0]
    return [
        each.observation
        for each in own
        if each.observation is not None
        and (each.indicator_id, each.stack_id) == (call, own[-1].stack_id)
        and (each.campaign_id, each.block) not in excluded
    ]


def _ratio(row: Ranked, call: IndicatorId) -> float | None:
    if row.is_baseline:
        return 1.0
    return next((each.ratio for each in row.effects if each.indicator_id == call), None)


def _cost(
    stack: StackId, call: IndicatorId, seconds: float, items: int | None, per_hour: float
) -> Cost:
    each = seconds / (items or 1) / _HOUR_S * per_hour
    return Cost(
        stack_id=stack,
        indicator_id=call,
        seconds=seconds,
        items=items,
        per_hour=per_hour,
        per_million=each * _MILLION,
        per_unit=1 / each,
    )


def scaled(
    inspections: Sequence[Inspection],
    *,
    ranking: Sequence[Ranked],
    counts: Sequence[AtCount],
) -> tuple[CpuScaling, ...]:
    """Return time and cost of each stack on each number of CPUs, as ratios.

    They are to the baseline on the fewest CPUs, from blocks that hold both. All intervals of one
    indicator hold together (Bonferroni).
    """
    groups: dict[str, list[AtCount]] = {}
    for each in sorted(counts, key=lambda one: one.cpus):
        groups.setdefault(each.indicator, []).append(each)
    stacks = [row.stack_id for row in ranking if row.counts]
    excluded = exclude_disturbed(inspections).excluded
    baseline = next((row.stack_id for row in ranking if row.is_baseline), None)
    found: list[CpuScaling] = []
    for group in groups.values():
        if baseline is not None:
            base = block_times(
                inspections, indicator=group[0].call.id, stack=baseline, excluded=excluded
            )
            alpha = ALPHA / max(1, len(stacks) * len(group) - 1)
            rows = (_scaled(inspections, excluded, s, baseline, at, group[0], base, alpha)
                    for s in stacks for at in group)  # fmt: skip
            found += [row for row in rows if row is not None]
    return tuple(found)


def _scaled(
    inspections: Sequence[Inspection],
    excluded: Collection[BlockKey],
    stack: StackId,
    baseline: StackId,
    at: AtCount,
    fewest: AtCount,
    base: Times,
    alpha: float,
) -> CpuScaling | None:
    times = block_times(inspections, indicator=at.call.id, stack=stack, excluded=excluded)
    if not times.keys() & base.keys():
        return None
    same = (stack, at) == (baseline, fewest)
    found = effect(
        a=stack,
        b=baseline,
        indicator_id=at.call.id,
        contrasts=block_contrasts(a_s=times, b_s=base),
        alpha=alpha,
    )
    is_time = not gives_figure(inspections, at.call.id)
    return CpuScaling(
        stack_id=stack,
        indicator=at.indicator,
        cpus=at.cpus,
        time=1 / found.ratio,
        low=1.0 if same else 1 / found.high,
        high=1.0 if same else (1 / found.low if found.low else float("inf")),
        blocks=found.blocks,
        cost=at.price / fewest.price / found.ratio if is_time else None,
    )


def _whole(text: str) -> int | None:
    """Return a number of items; what a process printed may be anything."""
    return int(text) if text.isascii() and text.isdigit() and 0 < int(text) < 1 << 63 else None
