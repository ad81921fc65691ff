"""What the phases of one exploration share, and what runs its inspections."""

import random
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timezone
from functools import partial

from stackgen import __version__
from stackgen.artifacts.built import BuiltWheels
from stackgen.artifacts.wheels import WheelStore
from stackgen.database import Database
from stackgen.index import PackageIndex
from stackgen.pipeline.campaign import Runner
from stackgen.pipeline.environments import Builder
from stackgen.pipeline.host import Host
from stackgen.pipeline.measures import limits
from stackgen.pipeline.measuring import Judging
from stackgen.pipeline.options import ExploreOptions
from stackgen.pipeline.patience import Patience, allowance_s
from stackgen.pipeline.places import Places
from stackgen.pipeline.prices import Metered
from stackgen.pipeline.program import Watching, own_files
from stackgen.pipeline.progress import Progress
from stackgen.pipeline.selection import Contenders
from stackgen.pipeline.sources import Sources
from stackgen.pipeline.workshop import Workshop
from stackgen.values import (
    Campaign,
    ExplorePlan,
    IndicatorCall,
    IndicatorId,
    content_id,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """What the phases of one exploration share.

    weights: of the indicators, where the user gave any.
    start: on the monotonic clock, when the budget began to run.
    """

    options: ExploreOptions
    places: Places
    progress: Progress
    index: PackageIndex
    store: WheelStore
    workshop: Workshop
    selection: Contenders
    plan: ExplorePlan
    calls: tuple[IndicatorCall, ...]
    control: IndicatorCall
    metered: Metered
    start: float
    weights: Mapping[IndicatorId, float] = field(default_factory=dict)

    @property
    def judging(self) -> Judging:
        """Return how observations are judged."""
        return Judging(margin=self.options.margin, weights=self.weights)


def open_runner(work: Work, database: Database) -> Runner:
    """Return what runs this campaign's inspections; the campaign is in the database then."""
    base = work.workshop.base
    campaign = Campaign(
        kind=work.options.kind,
        request=work.options.request(base.kind.value, base.facts, where=_where(work)),
        seed=work.options.seed,
        machine_id=work.workshop.machine.id,
        stackgen_version=__version__,
    )
    database.add_machine(work.workshop.machine)
    database.add_campaign(campaign, datetime.now(timezone.utc).isoformat(timespec="seconds"))
    host = Host(cache=work.places.cache)
    return Runner(
        database=database,
        executor=Watching(
            work.workshop.executor, own_files(work.places.knowledge, work.places.cache)
        ),
        campaign=campaign,
        limits=limits(work.options.threads, work.options.gpus, among=work.options.measure_cpus),
        host=host,
        build=Builder(
            index=work.index,
            store=work.store,
            workshop=work.workshop,
            varied=frozenset(work.selection.varied),
            sources=_sources(work, host),
            host=host,
            progress=work.progress,
        ),
        patience=Patience(
            left_s=allowance_s(work.options.budget_s),
            dice=random.Random(f"{campaign.id}/{campaign.seed}"),  # noqa: S311
            progress=work.progress,
        ),
        progress=work.progress,
        deadline=work.start + work.options.budget_s,
        rebuild=work.options.rebuild,
        own_limits=work.metered.limits,
    )


def _sources(work: Work, host: Host) -> Sources:
    return Sources(
        base=work.workshop.base,
        build=work.workshop.build,
        sdists=work.workshop.sdists,
        index=work.index,
        store=work.store,
        built=BuiltWheels(work.places.cache / "built"),
        policy=work.options.asked.policy,
        progress=work.progress,
        turn=partial(host.building, work.progress),
        again=work.options.rebuild,
    )


def _where(work: Work) -> str:
    """Return what tells this knowledge base from others, so that merged ones never share blocks."""
    host = dict(work.workshop.machine.circumstances).get("host", "")
    return content_id("knowledge base", [host, str(work.places.knowledge)])
