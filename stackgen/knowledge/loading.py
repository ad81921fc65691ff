"""What a knowledge base knows, loaded from its file: all of it, or the part around some locks."""

import gc
from collections.abc import Collection, Container, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from stackgen.knowledge import outline
from stackgen.knowledge.database import Database
from stackgen.knowledge.derived import controls_hold
from stackgen.knowledge.equivalence import LockedOn
from stackgen.knowledge.judgement import Knowledge
from stackgen.measure.contrasts import CampaignContrasts
from stackgen.model.identity import CampaignId
from stackgen.model.inspections import IndicatorCall
from stackgen.model.packages import LockFile
from stackgen.model.reports.campaigns import NOISE
from stackgen.model.stacks import PROGRAM, Machine


@contextmanager
def without_collection() -> Iterator[None]:
    """Collect no cycles meanwhile: what is loaded stays, and grows by a million objects."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


@without_collection()
def load_knowledge(
    database: Database, machine: Machine, *, locks: Sequence[LockFile] = ()
) -> tuple[Knowledge, tuple[CampaignContrasts, ...], Container[CampaignId]]:
    """Return what is known, with the contrasts that were loaded, and which campaigns are trusted.

    Args:
        database: the knowledge base.
        machine: the user's own.
        locks: that are to be answered; of a large knowledge base only what that takes is loaded.
            Without locks, everything is.
    """
    calls = database.calls()
    part = _part(database, calls, locks) if locks else None
    found = database.derived(campaigns=None if part is None else part.campaigns)
    trusted = trusted_campaigns(database, calls, found.contrasts)
    known = Knowledge(
        stacks=database.stacks(None if part is None else part.stacks),
        summaries=found.summaries,
        calls=calls,
        contrasts=found.contrasts,
        machine=machine,
        machines=database.machines(),
        trusted=trusted,
        trusted_origins=database.trusted_origins | database.own_origins,
        whole=None if part is None else part.whole,
    )
    if locks and part is None and _is_large(found.contrasts):
        database.store_outline(outline.outlined(known))
    return known, found.contrasts, trusted


@without_collection()
def prepare(database: Database, machine: Machine) -> None:
    """Derive what a large knowledge base says, and its outline, so that the next answer is quick.

    A small one is derived when it is read.

    Args:
        database: the knowledge base.
        machine: the user's own.
    """
    if len(database.campaigns()) >= outline.LARGE and database.outline() is None:
        known, contrasts, _ = load_knowledge(database, machine)
        if _is_large(contrasts):
            database.store_outline(outline.outlined(known))


def _part(
    database: Database, calls: Collection[IndicatorCall], locks: Sequence[LockFile]
) -> outline.Part | None:
    stored = database.outline()
    whole = None if stored is None else outline.decoded(stored)
    if whole is None:
        return None
    programs = {call.id for call in calls if call.indicator.component == PROGRAM}
    chooser = outline.Chooser(whole, stack_of=database.stack, programs=programs)
    return chooser.part([LockedOn(each) for each in locks])


def _is_large(contrasts: Iterable[CampaignContrasts]) -> bool:
    return len({each.campaign_id for each in contrasts}) >= outline.LARGE


def trusted_campaigns(
    database: Database,
    calls: tuple[IndicatorCall, ...],
    contrasts: Iterable[CampaignContrasts] = (),
) -> Container[CampaignId]:
    """Return the campaigns whose controls were judged and hold; no others feed advice.

    Nor do those that measured one stack against itself: it is not known to be better than others.

    Args:
        database: with the campaigns.
        calls: all indicators.
        contrasts: of campaigns that are known to be trusted.
    """
    return _Trusted(
        frozenset(each.id for each in database.campaigns(kind=NOISE)),
        database,
        calls,
        dict.fromkeys((each.campaign_id for each in contrasts), True),
    )


@dataclass
class _Trusted(Container[CampaignId]):
    """Evaluates the controls of a campaign on first use: few are needed, and it takes long."""

    noise: frozenset[CampaignId]
    database: Database
    calls: tuple[IndicatorCall, ...]
    known: dict[CampaignId, bool]

    def __contains__(self, campaign: object) -> bool:
        found = CampaignId(str(campaign))
        if found in self.noise:
            return False
        if found not in self.known:
            self.known[found] = controls_hold(self.database.inspections(campaign=found), self.calls)
        return self.known[found]
