"""What the inspections of a search say: log times for the model, beliefs for the report."""

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from stackgen.measure.model import Array, Measured, Prediction
from stackgen.values import (
    CampaignId,
    IndicatorCall,
    IndicatorId,
    Inspection,
    Role,
    StackId,
)

_PROBABILITY = 0.95
Block = tuple[CampaignId, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Believed:
    """What is believed of one stack: its speed relative to another, and how good it may be.

    ratio: above 1 means faster. low, high: hold it with 95 % probability.
    within: the probability that it is within the margin of the best.
    """

    place: int
    ratio: float
    low: float
    high: float
    within: float


def searched(
    inspections: Iterable[Inspection],
    *,
    places: Mapping[StackId, int],
    calls: Sequence[IndicatorCall],
    weights: Mapping[IndicatorId, float],
    aside: Collection[Block] = (),
    roles: Collection[Role] = (Role.SEARCH,),
) -> list[Measured]:
    """Return what a search has measured, in order of blocks.

    A stack counts in a block where all indicators ran well on it; its log time is their weighted
    mean. What is constant within a block, such as the scales of the indicators, cancels there.

    Args:
        inspections: of any kind.
        places: of the stacks that take part.
        calls: what is measured.
        weights: of the indicators; 1 where none is given.
        aside: blocks that do not count.
        roles: of the inspections that count; by default those of searches alone.
    """
    found: dict[tuple[Block, int], dict[IndicatorId, list[float]]] = {}
    for each in inspections:
        block = each.campaign_id, each.block
        counts = each.role in roles and each.stack_id in places and block not in aside
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


def beliefs(
    prediction: Prediction,
    alive: Sequence[int],
    *,
    reference: int,
    margin: float,
    draws: Array,
) -> tuple[Believed, ...]:
    """Return what is believed of each stack, the fastest first.

    Args:
        prediction: of all stacks.
        alive: places of those that can be measured.
        reference: the place of the stack that others are compared with.
        margin: a relative difference that nobody cares about.
        draws: guesses of all log times, shape (n, stacks).
    """
    best = draws[:, list(alive)].min(axis=1)
    from scipy.stats import t

    reach = float(t.isf((1 - _PROBABILITY) / 2, prediction.freedom))
    found = []
    for place in sorted(alive, key=lambda each: (prediction.mean[each], each)):
        low, high = prediction.interval(place, reference, reach)
        within = (draws[:, place] - best <= math.log1p(margin)).mean()
        found.append(
            Believed(
                place=place,
                ratio=math.exp((low + high) / 2),
                low=math.exp(low),
                high=math.exp(high),
                within=float(within),
            )
        )
    return tuple(found)
