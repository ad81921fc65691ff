"""Advise: a lock file in, the fastest known versions out, from evidence alone."""

import shlex
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path

from stackgen.advice import advise as recommend
from stackgen.database import Database, open_database
from stackgen.executors.machine import this_machine
from stackgen.measure import ALPHA, MARGIN, controls
from stackgen.pipeline.measures import CONTROL
from stackgen.pipeline.places import Places
from stackgen.pipeline.selection import read_lock_file
from stackgen.values import (
    Advice,
    AdviceReport,
    CampaignId,
    IndicatorCall,
    IndicatorId,
    Inspection,
    InspectionId,
    Role,
)
from stackgen.values.noise import NOISE


def advise(path: Path, places: Places) -> AdviceReport:
    """Return the advice for a lock file.

    Raises:
        UsageError: it is no lock file that we read.
        EvidenceError: nothing that was measured says anything about it.
    """
    lockfile = read_lock_file(path)
    with open_database(places.knowledge, reading=True) as database:
        calls = database.calls()
        inspections = database.inspections()
        trusted = trusted_campaigns(database, inspections, calls)
        advice = recommend(
            lockfile=lockfile,
            stacks=database.stacks(),
            inspections=inspections,
            calls=calls,
            machine=this_machine(),
            machines=database.machines(),
            trusted=trusted,
            margin=MARGIN,
            alpha=ALPHA,
        )
        origins = database.origins()
    behind = _behind(advice, [each for each in inspections if each.campaign_id in trusted])
    return AdviceReport(
        lockfile=lockfile,
        advice=advice,
        indicators=tuple((call.id, call.label) for call in calls),
        knowledge_base=str(places.knowledge),
        explore_command=f"stackgen explore --from {shlex.quote(str(path))}",
        inspections=len(behind),
        merged=tuple(
            Counter(origin for each in behind for origin in origins.get(each, ())).items()
        ),
    )


def _behind(advice: Advice, trusted: Iterable[Inspection]) -> Collection[InspectionId]:
    """Return what the effects of an advice were computed from: all of the blocks of both stacks."""
    blocks: dict[tuple[IndicatorId, CampaignId, int], list[Inspection]] = {}
    for each in trusted:
        if each.block and each.role is not Role.SEARCH:
            key = each.indicator_id, each.campaign_id, each.block
            blocks.setdefault(key, []).append(each)
    stacks = {effect.indicator_id: effect.a for effect in advice.effects}
    return {
        each.id
        for (indicator, _, _), block in blocks.items()
        if stacks.get(indicator) in {each.stack_id for each in block}
        for each in block
    }


def trusted_campaigns(
    database: Database,
    inspections: tuple[Inspection, ...],
    calls: tuple[IndicatorCall, ...],
) -> frozenset[CampaignId]:
    """Return the campaigns whose controls were judged and hold; no others feed advice.

    Nor do those that measured one stack against itself: it is not known to be better than others.
    """
    by_campaign: dict[CampaignId, list[Inspection]] = {}
    for each in inspections:
        by_campaign.setdefault(each.campaign_id, []).append(each)
    return frozenset(
        campaign.id
        for campaign in database.campaigns()
        if campaign.kind != NOISE and _holds(by_campaign.get(campaign.id, []), calls)
    )


def _holds(inspections: list[Inspection], calls: tuple[IndicatorCall, ...]) -> bool:
    references = {each.stack_id for each in inspections if each.role is Role.REFERENCE}
    known: Mapping[str, IndicatorCall] = {call.id: call for call in calls}
    used = {each.indicator_id for each in inspections}
    pure = [call for call in calls if call.id in used and call.indicator.name == CONTROL]
    own = [known[each] for each in used if each in known and known[each] not in pure]
    judged = [
        control
        for reference in references
        for control in controls(inspections, reference=reference, calls=own, pure=(pure or own)[0])
        if control.p_value is not None
    ]
    return bool(judged) and not any(control.failed for control in judged)
