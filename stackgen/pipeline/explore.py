"""Explore: requirements in, a measured ranking out."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timezone
from itertools import islice

from stackgen import __version__
from stackgen.artifacts.wheels import WheelStore
from stackgen.database import Database, open_database
from stackgen.errors import BuildError
from stackgen.index import PackageIndex, load_config
from stackgen.measure import Design, controls
from stackgen.pipeline.campaign import Runner, Stopped
from stackgen.pipeline.environments import Preparer, Ready, estimate, refuse_without_room
from stackgen.pipeline.measures import indicator_calls, limits
from stackgen.pipeline.options import ExploreOptions
from stackgen.pipeline.places import Places
from stackgen.pipeline.progress import Progress
from stackgen.pipeline.selection import Selection, select
from stackgen.pipeline.workshop import Workshop, open_workshop
from stackgen.values import (
    Campaign,
    ExplorePlan,
    ExploreReport,
    IndicatorCall,
    Place,
    StackId,
)

BUILD_SHARE = 0.6
"""Once two stacks work, no further one is built when this share of the budget is spent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Work:
    """What the phases of one exploration share."""

    options: ExploreOptions
    places: Places
    progress: Progress
    index: PackageIndex
    store: WheelStore
    workshop: Workshop
    selection: Selection
    plan: ExplorePlan
    start: float


def explore(
    options: ExploreOptions, places: Places, environ: Mapping[str, str], progress: Progress
) -> ExplorePlan | ExploreReport:
    """Explore, or only plan it (``dry_run``).

    Raises:
        StackgenError: one of its kinds for whatever stops it; what was measured is kept.
    """
    start = time.monotonic()
    given = options.index
    config = load_config(
        environ=environ,
        index_url=given.index_url,
        extra_index_urls=given.extra_index_urls,
        find_links=given.find_links,
        no_index=given.no_index,
        offline=given.offline,
    )
    with (
        open_workshop(options.executor, options.base, places, progress) as workshop,
        PackageIndex(config, places.cache) as index,
    ):
        selection = select(index, options, workshop.base.target, progress)
        store = WheelStore(places.cache)
        work = _Work(
            options=options,
            places=places,
            progress=progress,
            index=index,
            store=store,
            workshop=workshop,
            selection=selection,
            plan=_plan(options, workshop, selection, index, store, places),
            start=start,
        )
        if options.dry_run:
            return work.plan
        refuse_without_room(work.plan.estimate, places)
        with open_database(places.knowledge) as database:
            return _explore(work, database)


def _plan(
    options: ExploreOptions,
    workshop: Workshop,
    selection: Selection,
    index: PackageIndex,
    store: WheelStore,
    places: Places,
) -> ExplorePlan:
    first = list(islice(selection.candidates(), options.stacks))
    machine = dict(workshop.machine.identity)
    return ExplorePlan(
        requirements=tuple(str(each) for each in options.requirements),
        varied=selection.varied,
        place=Place(
            executor=workshop.base.kind.value,
            base=workshop.base.name,
            python=workshop.base.target.python,
            machine=machine.get("cpu_name", "this machine"),
        ),
        count=selection.space.count,
        choices=len(selection.choices) * len(selection.settings),
        chosen=tuple((each.label, each.choice.completions if each.choice else 1) for each in first),
        estimate=estimate([each.lock for each in first], index=index, store=store, places=places),
        budget_s=options.budget_s,
        seed=options.seed,
    )


def _explore(work: _Work, database: Database) -> ExploreReport:
    calls, control = indicator_calls(work.options, work.selection.varied)
    runner = _runner(work, database)
    for call in (*calls, control):
        database.add_indicator(call)
    _tell_estimate(work)
    preparer = Preparer(
        index=work.index,
        store=work.store,
        workshop=work.workshop,
        selection=work.selection,
        runner=runner,
        call=calls[0],
        progress=work.progress,
    )
    ready: list[Ready] = []
    stopped, design = Stopped(blocks=0, why="interrupted", interrupted=True), None
    try:
        for each in preparer.prepare(work.options.stacks, until=_enough(work, runner)):
            ready.append(each)  # noqa: PERF402 # Ctrl-C must not lose those that are ready
        if not ready:
            raise _nothing_runs(preparer)
        design = _design(work, runner, ready, calls, control)
        stopped = runner.measure(design, _labels(ready))
    except KeyboardInterrupt:
        work.progress.note("Interrupted; everything measured so far is kept.")
    return _report(work, runner, preparer, ready, design, calls, control, stopped)


def _runner(work: _Work, database: Database) -> Runner:
    campaign = Campaign(
        kind=work.options.kind,
        request=work.options.request + work.workshop.base.facts.python_build,
        seed=work.options.seed,
        machine_id=work.workshop.machine.id,
        stackgen_version=__version__,
    )
    database.add_machine(work.workshop.machine)
    database.add_campaign(campaign, datetime.now(timezone.utc).isoformat(timespec="seconds"))
    return Runner(
        database=database,
        executor=work.workshop.executor,
        campaign=campaign,
        limits=limits(work.options.threads),
        measuring_lock=work.places.measuring_lock,
        progress=work.progress,
        deadline=work.start + work.options.budget_s,
    )


def _enough(work: _Work, runner: Runner) -> Callable[[int], bool]:
    """Return what ends building early: measuring needs its share of the budget."""
    share = (1 - BUILD_SHARE) * work.options.budget_s
    return lambda working: working >= 2 and runner.left_s < share


def _tell_estimate(work: _Work) -> None:
    found = work.plan.estimate
    if found.wheels:
        work.progress.note(
            f"To come: {found.wheels} wheels, {found.download_bytes / 1e9:.2f} GB to download, "
            f"about {found.disk_bytes / 1e9:.1f} GB on disk ({found.free_bytes / 1e9:.0f} GB "
            f"free) and {max(1, round(found.seconds / 60))} min until measuring begins."
        )


def _nothing_runs(preparer: Preparer) -> BuildError:
    first = preparer.failures[0] if preparer.failures else None
    return BuildError(
        "none of the stacks that were tried runs",
        why=f"{first.label}: {first.outcome.value}: {first.reason}" if first else "none was tried",
        fix="see stackgen kb failures, or name older versions",
    )


def _design(
    work: _Work,
    runner: Runner,
    ready: list[Ready],
    calls: tuple[IndicatorCall, ...],
    control: IndicatorCall,
) -> Design:
    reference, *challengers = (each.environment for each in ready)
    return Design(
        campaign_id=runner.campaign.id,
        seed=work.options.seed,
        reference=reference,
        challengers=tuple(challengers),
        calls=calls,
        control=control,
        loops=runner.calibrate(reference, (*calls, control)),
        limits=runner.limits,
    )


def _labels(ready: list[Ready]) -> dict[StackId, str]:
    return {each.chosen.stack_id: each.chosen.label for each in ready}


def _report(
    work: _Work,
    runner: Runner,
    preparer: Preparer,
    ready: list[Ready],
    design: Design | None,
    calls: tuple[IndicatorCall, ...],
    control: IndicatorCall,
    stopped: Stopped,
) -> ExploreReport:
    ranking = runner.ranking(design, _labels(ready)) if design else ()
    checked = (
        controls(runner.inspections, reference=design.reference.stack.id, calls=calls, pure=control)
        if design
        else ()
    )
    return ExploreReport(
        plan=work.plan,
        stacks=tuple(each.chosen for each in ready),
        failed=tuple(preparer.failures),
        ranking=ranking,
        controls=checked,
        indicators=tuple((call.id, call.label) for call in (*calls, control)),
        blocks=stopped.blocks,
        new_inspections=runner.added,
        seconds=time.monotonic() - work.start,
        untried=max(0, work.plan.choices - len(ready) - len(preparer.failures)),
        stopped=stopped.why,
        interrupted=stopped.interrupted,
        engine_lost=stopped.engine_lost,
        knowledge_base=str(work.places.knowledge),
    )
