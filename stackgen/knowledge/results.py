"""Stacks that compute something else are explained like those that fail: by what they share."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from stackgen.knowledge.failures import FailureGroup, Place, group_of, traits_of
from stackgen.measure import by_place, deviations
from stackgen.values import (
    CampaignId,
    Difference,
    IndicatorCall,
    IndicatorId,
    Inspection,
    MachineId,
    Role,
    Stack,
    StackId,
)

Wrong = tuple[MachineId, Difference, IndicatorId]


def explain_results(
    stacks: Iterable[Stack], inspections: Iterable[Inspection], calls: Sequence[IndicatorCall]
) -> tuple[FailureGroup, ...]:
    """Return the groups of stacks that do not compute what their campaign's reference computes.

    Those that do are what they are compared with; what differs from one reference and agrees with
    another is in a group all the same. The largest group comes first.
    """
    seen = list(inspections)
    traits = {stack.id: traits_of(stack) for stack in stacks}
    names = {call.id: call.label for call in calls}
    wrong, right = _told_apart(seen, calls)
    groups = []
    for (machine, kind, indicator), members in wrong.items():
        runs = [
            each
            for each in seen
            if (each.machine_id, each.indicator_id) == (machine, indicator)
            and each.stack_id in members
        ]
        told = (machine, kind, names[indicator], False)
        groups.append(replace(group_of(told, runs, right, traits), log=""))
    return tuple(sorted(groups, key=lambda g: (-len(g.stacks), g.reason, g.machine_id)))


def _told_apart(
    inspections: Iterable[Inspection], calls: Sequence[IndicatorCall]
) -> tuple[Mapping[Wrong, set[StackId]], set[Place]]:
    """Return the stacks that compute something else, by place and kind, and those that do not."""
    campaigns: dict[tuple[CampaignId, MachineId], list[Inspection]] = {}
    for each in inspections:
        campaigns.setdefault((each.campaign_id, each.machine_id), []).append(each)
    wrong: dict[Wrong, set[StackId]] = {}
    right: set[Place] = set()
    for (_, machine), own in campaigns.items():
        seen = by_place(own)
        for reference in {each.stack_id for each in own if each.role is Role.REFERENCE}:
            stacks = {stack for _, stack in seen}
            found = deviations(own, reference=reference, stacks=stacks, calls=calls)
            places = {(one.indicator_id, stack) for stack, rows in found.items() for one in rows}
            right |= {(machine, *place) for place in seen.keys() - places}
            for stack, rows in found.items():
                for one in rows:
                    wrong.setdefault((machine, one.kind, one.indicator_id), set()).add(stack)
    return wrong, right
