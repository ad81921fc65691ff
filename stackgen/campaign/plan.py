"""From what was asked for to work that is ready to be done: where, on which stacks, by what."""

import random
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timezone
from functools import partial
from itertools import islice

from stackgen import __version__
from stackgen.campaign.backend import Backend, any_python, open_backend
from stackgen.campaign.candidates import Contenders, read_lock_file
from stackgen.campaign.comparison import Judging
from stackgen.campaign.host import Host, RetryPolicy, allowance_s, kept_to, refuse_cpus
from stackgen.campaign.indicators import (
    Metered,
    indicator_calls,
    limits,
    metered,
    usable_cpus,
    weights_of,
)
from stackgen.campaign.prepare import Builder, Sources, estimate, refuse_unbuildable
from stackgen.campaign.program import Watching, own_files
from stackgen.campaign.request import CampaignRequest
from stackgen.campaign.runner import Budget, LocalBlockRunner, Record
from stackgen.campaign.session import Session
from stackgen.campaign.targets import refuse_any_python, refuse_python
from stackgen.campaign.user_input import beside_compared, index_config
from stackgen.images.built_wheels import BuiltWheels
from stackgen.index import PackageIndex
from stackgen.knowledge.database import Database
from stackgen.knowledge.evidence import admits_python
from stackgen.measure.racing import BLOCK
from stackgen.model.evidence import Campaign
from stackgen.model.identity import IndicatorId, content_id
from stackgen.model.inspections import IndicatorCall
from stackgen.model.progress import Progress
from stackgen.model.reports import ExplorePlan, MeasurementSetup
from stackgen.storage.paths import Paths
from stackgen.storage.wheels import WheelStore

# What the phases of one exploration share, and what runs its inspections


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """What the phases of one exploration share.

    weights: of the indicators, where the user gave any.
    start: on the monotonic clock, when the budget began to run.
    """

    request: CampaignRequest
    paths: Paths
    progress: Progress
    index: PackageIndex
    store: WheelStore
    backend: Backend
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
        return Judging(margin=self.request.measurement.margin, weights=self.weights)


def open_session(work: Work, database: Database) -> Session:
    """Return what runs this campaign's inspections; the campaign is in the database then."""
    base = work.backend.base
    campaign = Campaign(
        kind=work.request.kind,
        request=work.request.identity(base.kind.value, base.facts, where=_where(work)),
        seed=work.request.budget.seed,
        machine_id=work.backend.machine.id,
        stackgen_version=__version__,
    )
    database.add_machine(work.backend.machine)
    database.add_campaign(campaign, datetime.now(timezone.utc).isoformat(timespec="seconds"))
    host = Host(cache=work.paths.cache)
    budget = Budget(
        deadline=work.start + work.request.budget.budget_s, host=host, clock=time.monotonic
    )
    record = Record(database=database, campaign=campaign, rebuild=work.request.target.rebuild)
    own = own_files(work.paths.knowledge, work.paths.cache)
    return Session(
        record=record,
        block_runner=LocalBlockRunner(
            record=record,
            executor=Watching(work.backend.executor, own),
            budget=budget,
            progress=work.progress,
        ),
        limits=limits(
            work.request.processors.threads,
            work.request.processors.gpus,
            among=work.request.processors.measure_cpus,
        ),
        build=Builder(
            index=work.index,
            store=work.store,
            backend=work.backend,
            varied=frozenset(work.selection.varied),
            sources=_sources(work, host),
            host=host,
            progress=work.progress,
        ),
        retry_policy=RetryPolicy(
            left_s=allowance_s(work.request.budget.budget_s),
            dice=random.Random(f"{campaign.id}/{campaign.seed}"),  # noqa: S311
            progress=work.progress,
        ),
        budget=budget,
        progress=work.progress,
        own_limits=work.metered.limits,
    )


def _sources(work: Work, host: Host) -> Sources:
    return Sources(
        base=work.backend.base,
        build=work.backend.build,
        sdists=work.backend.sdists,
        index=work.index,
        store=work.store,
        built=BuiltWheels(work.paths.cache / "built"),
        policy=work.request.stacks.requirements.policy,
        progress=work.progress,
        turn=partial(host.building, work.progress),
        again=work.request.target.rebuild,
    )


def _where(work: Work) -> str:
    """Return what tells this knowledge base from others, so that merged ones never share blocks."""
    host = dict(work.backend.machine.circumstances).get("host", "")
    return content_id("knowledge base", [host, str(work.paths.knowledge)])


Calls = tuple[tuple[IndicatorCall, ...], IndicatorCall]
"""What is measured, and the control."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Chosen:
    """What is measured against each other.

    request: what to measure, with all that was read since.
    packages: names of what the stacks contain that an indicator may be of.
    count: of the stacks that satisfy what was asked for.
    choices: how many of them could be told apart.
    requirements: what was asked for, in words.
    """

    request: CampaignRequest
    contenders: Contenders
    packages: frozenset[str]
    count: int
    choices: int
    requirements: tuple[str, ...]


Choose = Callable[[PackageIndex, CampaignRequest, Backend, Progress], Chosen]


def calls_of(chosen: Chosen) -> Calls:
    """Return the indicators that were asked for, or the default ones, and the control."""
    varied = tuple(each for each in chosen.contenders.varied if each in chosen.packages)
    return indicator_calls(chosen.request, varied, chosen.packages)


@contextmanager
def opened(
    choose: Choose,
    request: CampaignRequest,
    paths: Paths,
    environ: Mapping[str, str],
    progress: Progress,
    *,
    calls_of: Callable[[Chosen], Calls] = calls_of,
) -> Iterator[Work]:
    """Open the backend and the index, have stacks chosen, and plan what is to be done.

    Args:
        choose: says which stacks they are, once it is known what they are installed on.
        request: what to measure.
        paths: where things are kept.
        environ: the user's variables.
        progress: who is told.
        calls_of: says by what they are measured, once they are known.

    Raises:
        StackgenError: one of its kinds for whatever is in the way.
    """
    start = time.monotonic()
    usable = usable_cpus()
    refuse_cpus(request, usable)
    config = index_config(request.index, environ)
    request = request.with_stacks(requirements=beside_compared(request.stacks.requirements, config))
    lockfile = read_lock_file(request.stacks.lock) if request.stacks.lock else None
    if lockfile is not None and not request.target.base:
        refuse_any_python(lockfile)
    with (
        open_backend(
            request.target.executor,
            request.target.base,
            paths,
            progress,
            make=not request.dry_run,
            admits=partial(admits_python, lockfile) if lockfile else any_python,
        ) as backend,
        kept_to(request.processors.build_cpus),
        PackageIndex(config, paths.cache) as index,
    ):
        if lockfile is not None:
            refuse_python(lockfile, backend.base.target.python, backend.base.name)
        chosen = choose(index, request, backend, progress)
        request = chosen.request
        calls, control = calls_of(chosen)
        allowed = limits(
            request.processors.threads,
            request.processors.gpus,
            among=request.processors.measure_cpus,
        )
        cpus = metered(request, calls, allowed, usable)
        store = WheelStore(paths.cache, notify=progress.note)
        yield Work(
            request=request,
            paths=paths,
            progress=progress,
            index=index,
            store=store,
            backend=backend,
            selection=chosen.contenders,
            plan=_plan(chosen, backend, index, store, paths),
            calls=cpus.calls,
            control=control,
            metered=cpus,
            start=start,
            weights=weights_of(request.measurement.weights, cpus.calls),
        )


def _plan(
    chosen: Chosen,
    backend: Backend,
    index: PackageIndex,
    store: WheelStore,
    paths: Paths,
) -> ExplorePlan:
    request, selection = chosen.request, chosen.contenders
    first = list(islice(selection.candidates(), request.search.wanted))
    searched = request.search.searches(chosen.choices)
    if not request.dry_run:
        refuse_unbuildable((a for each in first for a in each.lock.artifacts), backend.sdists)
    machine = dict(backend.machine.identity)
    return ExplorePlan(
        requirements=chosen.requirements,
        varied=selection.varied,
        setup=MeasurementSetup(
            executor=backend.base.kind.value,
            base=backend.base.name,
            python=backend.base.target.python,
            machine=machine.get("cpu_name", "this machine"),
        ),
        count=chosen.count,
        choices=chosen.choices,
        chosen=tuple((each.label, each.choice.completions if each.choice else 1) for each in first),
        estimate=estimate(
            [each.lock for each in first],
            backend.base,
            first=BLOCK if searched else len(first),
            index=index,
            store=store,
            paths=paths,
        ),
        budget_s=request.budget.budget_s,
        seed=request.budget.seed,
        strategy=request.search.strategy.value,
        searched=searched,
    )
