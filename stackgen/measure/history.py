"""Times of one indicator against releases or nights, from blocks of campaigns, and change points.

A point is a mean over campaigns: within one, blocks share their day and their build, so that their
spread alone would understate how far the next campaign may differ. Change points are secondary
evidence: they come from times of different campaigns, which no block compares.
"""

import math
import statistics
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from scipy.special import stdtrit

from stackgen.measure.disturbances import BlockKey
from stackgen.measure.effects import trimmed_centre
from stackgen.model.identity import CampaignId, StackId
from stackgen.model.inspections import Inspection, Role
from stackgen.model.reports.history import ChangePoint, HistoryPoint

LEVEL = 0.95
_CAMPAIGN_SD = 0.02
"""Spread of log times between campaigns where there are too few of them to show it."""
_MEDIAN_OF_NORMAL = 0.6745
_PENALISED = 20
_FEWEST = 4
"""Points that show a change: three may differ by chance in too many ways."""


@dataclass(frozen=True, slots=True)
class _Mean:
    """Log time of one campaign, on one stack or on several."""

    value: float
    error: float
    blocks: frozenset[int]


def history_points(
    inspections: Iterable[Inspection],
    *,
    labels: Mapping[tuple[StackId, CampaignId], str],
    order: Sequence[str],
    excluded: Collection[BlockKey],
) -> tuple[HistoryPoint, ...]:
    """Return a point for each label, in the given order.

    Args:
        inspections: of one indicator on one machine.
        labels: of stacks in campaigns: a release, or the day of a night; others are left out.
    """
    blocks: dict[tuple[StackId, CampaignId], dict[int, list[float]]] = {}
    for each in inspections:
        key = each.stack_id, each.campaign_id
        fresh = each.block > 0 and each.role is not Role.SEARCH and key in labels
        if not fresh or each.observation is None:
            continue
        if (each.campaign_id, each.block) not in excluded:
            log_s = math.log(each.observation.best_s)
            blocks.setdefault(key, {}).setdefault(each.block, []).append(log_s)
    stacks: dict[tuple[str, CampaignId], list[_Mean]] = {}
    for key, times in sorted(blocks.items()):
        values = [math.fsum(each) / len(each) for each in times.values()]
        centre = trimmed_centre(values) if len(values) > 1 else None
        mean = _Mean(values[0], math.inf, frozenset(times))
        if centre is not None:
            mean = _Mean(centre.mean, centre.error, frozenset(times))
        stacks.setdefault((labels[key], key[1]), []).append(mean)
    campaigns: dict[str, list[_Mean]] = {}
    for (label, _), means in stacks.items():
        campaigns.setdefault(label, []).append(_joined(means))
    return tuple(_point(label, campaigns[label]) for label in order if label in campaigns)


def _joined(means: Sequence[_Mean]) -> _Mean:
    """Return the mean over stacks of one campaign, which are no campaigns of their own."""
    return _Mean(
        value=math.fsum(each.value for each in means) / len(means),
        error=math.sqrt(math.fsum(each.error**2 for each in means)) / len(means),
        blocks=frozenset[int]().union(*(each.blocks for each in means)),
    )


def _point(label: str, means: Sequence[_Mean]) -> HistoryPoint:
    """Return the mean over campaigns; of a single one, with the spread that others would have."""
    count = len(means)
    middle = math.fsum(each.value for each in means) / count
    known = [each.error**2 for each in means if math.isfinite(each.error)]
    within = math.fsum(known) / len(known) if known else math.inf
    between = math.fsum((each.value - middle) ** 2 for each in means) / max(1, count - 1)
    variance = max(between, _CAMPAIGN_SD**2 + within) / count
    reach = float(stdtrit(max(count - 1, 4), (1 + LEVEL) / 2)) * math.sqrt(variance)
    finite = math.isfinite(reach)
    return HistoryPoint(
        label=label,
        time_s=math.exp(middle),
        low_s=math.exp(middle - reach) if finite else 0.0,
        high_s=math.exp(middle + reach) if finite else math.inf,
        campaigns=count,
        blocks=sum(len(each.blocks) for each in means),
    )


def change_points(points: Sequence[HistoryPoint]) -> tuple[ChangePoint, ...]:
    """Return where the level of log times changes, in order.

    The segmentation minimises the weighted squares plus a penalty for each change, exactly, by
    dynamic programming; a single point may have a level of its own. The penalty is twice that of
    the Bayesian information criterion for the two parameters of a change (its place and its size),
    of 20 points where there are fewer: noise alone then pays for one in 1 to 2 of 100 histories.

    Source: Jackson et al. 2005, An algorithm for optimal partitioning of data on an interval;
        Yao 1988, Estimating the number of change-points via Schwarz' criterion.
    """
    usable = [each for each in points if each.low_s > 0]
    if len(usable) < _FEWEST:
        return ()
    values = [math.log(each.time_s) for each in usable]
    reach = float(stdtrit(4, (1 + LEVEL) / 2))
    weights = [(reach / max(1e-6, math.log(each.high_s / each.time_s))) ** 2 for each in usable]
    # Where neighbours differ by more than their intervals say, the intervals are too narrow.
    steps = [
        abs(b - a) / math.sqrt(1 / u + 1 / v)
        for a, b, u, v in zip(values, values[1:], weights, weights[1:], strict=False)
    ]
    excess = max(1.0, statistics.median(steps) / _MEDIAN_OF_NORMAL)
    weights = [each / excess**2 for each in weights]
    penalty = 4 * math.log(max(len(usable), _PENALISED))
    best: list[tuple[float, int]] = [(-penalty, 0)]
    for end in range(1, len(usable) + 1):
        costs = [
            (best[start][0] + _squares(values[start:end], weights[start:end]) + penalty, start)
            for start in range(end)
        ]
        best.append(min(costs))
    found, end = [], len(usable)
    starts = []
    while end > 0:
        end = best[end][1]
        starts.append(end)
    edges = [*reversed(starts), len(usable)]
    for before, start, after in zip(edges, edges[1:], edges[2:], strict=False):
        levels = [_level(values[a:b], weights[a:b]) for a, b in ((before, start), (start, after))]
        found.append(
            ChangePoint(
                label=usable[start].label,
                before=usable[start - 1].label,
                ratio=math.exp(levels[1] - levels[0]),
            )
        )
    return tuple(found)


def _level(values: Sequence[float], weights: Sequence[float]) -> float:
    return math.fsum(v * w for v, w in zip(values, weights, strict=True)) / math.fsum(weights)


def _squares(values: Sequence[float], weights: Sequence[float]) -> float:
    level = _level(values, weights)
    return math.fsum(w * (v - level) ** 2 for v, w in zip(values, weights, strict=True))
