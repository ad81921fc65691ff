"""Which inspections make a block, and in which order: random, but the same for the same seed."""

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from stackgen.model.identity import CampaignId, IndicatorId
from stackgen.model.inspections import IndicatorCall, InspectionPlan, Limits, Role
from stackgen.model.stacks import Environment

_Slot: TypeAlias = tuple[Role, Environment]

SAMPLES = 30
"""Samples stored per inspection; the minimum depends on their number, so it never changes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Design:
    """What every block of a campaign holds.

    candidates: measured in every block beside the baseline and its twin.
    calls: what users want to know; each is one round of the block.
    control: the pure-Python indicator, run on the baseline and on the first candidate with the
        same settings: some change Python itself (PYTHONMALLOC), and are no fault of the machine.
    loops: operations per sample of each indicator, found once on the baseline.
    own_limits: of the calls that do not run under ``limits``.
    """

    campaign_id: CampaignId
    seed: int
    baseline: Environment
    candidates: tuple[Environment, ...]
    calls: tuple[IndicatorCall, ...]
    control: IndicatorCall
    loops: Mapping[IndicatorId, int]
    limits: Limits
    own_limits: Mapping[IndicatorId, Limits] = field(default_factory=dict)


def calibration_plan(
    environment: Environment, call: IndicatorCall, *, campaign_id: CampaignId, limits: Limits
) -> InspectionPlan:
    """Plan the run that finds the number of loops, or that shows whether a stack works at all."""
    return InspectionPlan(
        environment=environment,
        call=call,
        campaign_id=campaign_id,
        limits=replace(limits, timeout_s=call.indicator.timeout_s),
        role=Role.CALIBRATION,
        samples=_samples(call),
    )


def plan_block(design: Design, block: int) -> tuple[InspectionPlan, ...]:
    """Return the plans of one block, one randomly ordered round per indicator.

    The order depends on campaign, seed and block number alone, so an interrupted campaign goes on
    as it would have gone on.
    """
    calls = (*design.calls, design.control)
    return _rounds(design, block, [(call, _slots(design, call)) for call in calls])


def plan_search(
    design: Design, block: int, environments: Sequence[Environment]
) -> tuple[InspectionPlan, ...]:
    """Return the plans of one block of a search: of these stacks alone, without controls.

    What it finds helps to choose, and never takes part in an effect.
    """
    slots = [(Role.SEARCH, each) for each in environments]
    return _rounds(design, block, [(call, slots) for call in design.calls])


def _rounds(
    design: Design, block: int, rounds: Sequence[tuple[IndicatorCall, Sequence[_Slot]]]
) -> tuple[InspectionPlan, ...]:
    order = random.Random(f"{design.campaign_id}/{design.seed}/{block}")  # noqa: S311
    plans: list[InspectionPlan] = []
    for call, slots in rounds:
        shuffled = list(slots)
        order.shuffle(shuffled)
        plans += [_plan(design, call, slot, block) for slot in shuffled]
    return tuple(replace(plan, position=place) for place, plan in enumerate(plans))


def _slots(design: Design, call: IndicatorCall) -> Sequence[_Slot]:
    baseline = (Role.BASELINE, design.baseline)
    candidates = [(Role.CANDIDATE, each) for each in design.candidates]
    if call.id == design.control.id:
        settings = design.baseline.stack.settings
        alike = [slot for slot in candidates if slot[1].stack.settings == settings]
        return [baseline, alike[0] if alike else _twin(design)]
    return [baseline, _twin(design), *candidates]


def _twin(design: Design) -> _Slot:
    return Role.TWIN, design.baseline


def _plan(design: Design, call: IndicatorCall, slot: _Slot, block: int) -> InspectionPlan:
    role, environment = slot
    limits = design.own_limits.get(call.id, design.limits)
    return InspectionPlan(
        environment=environment,
        call=call,
        campaign_id=design.campaign_id,
        limits=replace(limits, timeout_s=call.indicator.timeout_s),
        block=block,
        role=role,
        loops=design.loops.get(call.id),
        samples=_samples(call),
    )


def _samples(call: IndicatorCall) -> int:
    return 1 if call.indicator.one_shot else SAMPLES
