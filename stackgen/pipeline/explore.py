"""Explore: requirements in, a measured ranking out."""

import random
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from functools import partial
from itertools import islice

from stackgen import __version__
from stackgen.artifacts.built import BuiltWheels
from stackgen.artifacts.wheels import WheelStore
from stackgen.database import Database, open_database
from stackgen.errors import (
    EngineError,
    EvidenceError,
    MeasurementError,
    StorageError,
)
from stackgen.index import PackageIndex
from stackgen.measure import Design, controls, rank
from stackgen.measure.costs import costs, gives_figure, reference_times, scaled
from stackgen.measure.memory import peak_memory
from stackgen.pipeline.campaign import Runner, Stopped
from stackgen.pipeline.environments import Builder, Preparer, Ready, estimate, refuse_without_room
from stackgen.pipeline.failing import failed_in_blocks, nothing_runs
from stackgen.pipeline.foresight import too_short
from stackgen.pipeline.host import Host
from stackgen.pipeline.measures import indicator_calls, limits, usable_cpus
from stackgen.pipeline.options import ExploreOptions
from stackgen.pipeline.patience import Patience, allowance_s
from stackgen.pipeline.places import Places
from stackgen.pipeline.prices import Metered, metered
from stackgen.pipeline.program import Watching, own_files
from stackgen.pipeline.progress import Progress
from stackgen.pipeline.selection import Selection, select
from stackgen.pipeline.sources import Sources, refuse_unbuildable
from stackgen.pipeline.wishes import beside_compared, index_config
from stackgen.pipeline.workshop import Workshop, open_workshop
from stackgen.values import (
    Campaign,
    Control,
    ExplorePlan,
    ExploreReport,
    IndicatorCall,
    Kind,
    Place,
    Ranked,
    StackId,
    content_id,
)

INTERRUPTED = 130
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
    calls: tuple[IndicatorCall, ...]
    control: IndicatorCall
    metered: Metered
    start: float


def explore(
    options: ExploreOptions, places: Places, environ: Mapping[str, str], progress: Progress
) -> ExplorePlan | ExploreReport:
    """Explore, or only plan it (``dry_run``).

    Raises:
        StackgenError: one of its kinds for whatever stops it; what was measured is kept.
    """
    start = time.monotonic()
    config = index_config(options.index, environ)
    options = replace(options, asked=beside_compared(options.asked, config))
    with (
        open_workshop(
            options.executor, options.base, places, progress, make=not options.dry_run
        ) as workshop,
        PackageIndex(config, places.cache) as index,
    ):
        selection = select(index, options, workshop.base.target, progress)
        packages = frozenset(selection.space.packages)
        calls, control = indicator_calls(options, selection.varied, packages)
        cpus = metered(options, calls, limits(options.threads, options.gpus), usable_cpus())
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
            calls=cpus.calls,
            control=control,
            metered=cpus,
            start=start,
        )
        if options.dry_run:
            return work.plan
        _refuse_one_stack(work.plan)
        _tell_of_gpus(work)
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
    if not options.dry_run:
        refuse_unbuildable((a for each in first for a in each.lock.artifacts), workshop.sdists)
    machine = dict(workshop.machine.identity)
    return ExplorePlan(
        requirements=options.asked.texts,
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
        estimate=estimate(
            [each.lock for each in first], workshop.base, index=index, store=store, places=places
        ),
        budget_s=options.budget_s,
        seed=options.seed,
    )


def _tell_of_gpus(work: _Work) -> None:
    name = dict(work.workshop.machine.identity).get("gpu0")
    if name and not work.options.gpus:
        work.progress.note(
            f"Stacks are measured without this machine's {name}: --gpus all shows it."
        )
    # An engine refuses what it cannot pass on; in a virtualenv nobody would notice.
    if work.options.gpus and not name and work.workshop.base.kind is not Kind.DOCKER:
        work.progress.note("No GPU was found here: stacks run as they would without --gpus.")


def _refuse_one_stack(plan: ExplorePlan) -> None:
    if len(plan.chosen) < 2:
        raise EvidenceError(
            "there is only one stack, and nothing to compare it with",
            why=f"{' and '.join(plan.varied)} can be chosen in one way only",
            fix="ask for a wider range, vary another package with --vary, or give "
            "--granularity patch",
        )


def _explore(work: _Work, database: Database) -> ExploreReport:
    calls, control = work.calls, work.control
    runner = _runner(work, database)
    for call in (*calls, control):
        database.add_indicator(call)
    _tell_estimate(work)
    preparer = Preparer(
        facts=work.workshop.base.facts,
        selection=work.selection,
        runner=runner,
        call=calls[0],
        progress=work.progress,
    )
    ready: list[Ready] = []
    stopped = Stopped(blocks=0, why="you interrupted it", interrupted=True)
    try:
        _prepare(work, preparer, runner, ready)
        if not ready:
            raise nothing_runs(preparer.failures, work.places, calls[0].program)
        design = _design(work, runner, ready, calls, control)
        if calls[0].program and (note := too_short(design, runner.inspections, runner.left_s)):
            work.progress.note(note)
        stopped = runner.measure(design, _labels(ready))
    except KeyboardInterrupt:
        work.progress.note("Interrupted; everything measured so far is kept.")
    if stopped.error is not None:
        work.progress.note(f"error: {stopped.error}")
    return _report(work, runner, preparer, ready, calls, control, stopped)


def _prepare(work: _Work, preparer: Preparer, runner: Runner, ready: list[Ready]) -> None:
    """Fill ``ready``; a full disk or a lost engine ends it, and those that are ready go on."""
    try:
        for each in preparer.prepare(work.options.stacks, until=_enough(work, runner)):
            ready.append(each)  # noqa: PERF402 # Ctrl-C must not lose those that are ready
    except (StorageError, EngineError) as error:
        if len(ready) < 2:
            raise
        work.progress.note(f"No further stacks: {error.what} ({error.why})")


def _runner(work: _Work, database: Database) -> Runner:
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
        limits=limits(work.options.threads, work.options.gpus),
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


def _sources(work: _Work, host: Host) -> Sources:
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


def _enough(work: _Work, runner: Runner) -> Callable[[int], bool]:
    """Return what ends building early: measuring needs its share of the budget.

    One stack alone answers nothing, so the second may take as long again as the whole budget.
    """
    share = (1 - BUILD_SHARE) * work.options.budget_s
    return lambda working: runner.left_s < (share if working >= 2 else -work.options.budget_s)


def _tell_estimate(work: _Work) -> None:
    found = work.plan.estimate
    if found.wheels:
        work.progress.note(
            f"To come: {found.wheels} wheels, {found.download_bytes / 1e9:.2f} GB to download, "
            f"about {found.disk_bytes / 1e9:.1f} GB on disk ({found.free_bytes / 1e9:.0f} GB "
            f"free) and {max(1, round(found.seconds / 60))} min until measuring begins."
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
        own_limits=runner.own_limits,
    )


def _labels(ready: list[Ready]) -> dict[StackId, str]:
    return {each.chosen.stack_id: each.chosen.label for each in ready}


def _report(
    work: _Work,
    runner: Runner,
    preparer: Preparer,
    ready: list[Ready],
    calls: tuple[IndicatorCall, ...],
    control: IndicatorCall,
    stopped: Stopped,
) -> ExploreReport:
    seen = runner.inspections
    ranking: tuple[Ranked, ...] = ()
    checked: tuple[Control, ...] = ()
    if ready:
        reference = ready[0].chosen.stack_id
        ranking = rank(seen, labels=_labels(ready), reference=reference, calls=calls)
        checked = controls(seen, reference=reference, calls=calls, pure=control)
    for call in calls:
        if call.id in work.metered.per_hour and gives_figure(seen, call.id):
            work.progress.note(f"{call.label} has no cost: it gives a figure in place of a time.")
    return ExploreReport(
        plan=work.plan,
        memory=peak_memory(seen, (call.id for call in calls)),
        figures=tuple(call.id for call in calls if gives_figure(seen, call.id)),
        reference_s=reference_times(seen, calls),
        checks=tuple(
            (call.id, call.program.check) for call in calls if call.program and call.program.check
        ),
        stacks=tuple(each.chosen for each in ready),
        failed=(*preparer.failures, *failed_in_blocks(runner, _labels(ready), calls)),
        ranking=ranking,
        controls=checked,
        indicators=tuple((call.id, call.label) for call in (*calls, control)),
        blocks=stopped.blocks,
        new_inspections=runner.added,
        seconds=time.monotonic() - work.start,
        untried=max(0, work.plan.choices - len(ready) - len(preparer.failures)),
        stopped=stopped.why,
        interrupted=stopped.interrupted,
        exit_code=_exit_code(stopped, ranking, checked),
        knowledge_base=str(work.places.knowledge),
        costs=costs(seen, ranking=ranking, calls=calls, per_hour=work.metered.per_hour),
        currency=work.metered.currency,
        scaled=scaled(seen, ranking=ranking, counts=work.metered.counts),
    )


def _exit_code(stopped: Stopped, ranking: Sequence[Ranked], checked: Sequence[Control]) -> int:
    """Return the exit code that tells a script how far to trust the report."""
    if stopped.interrupted:
        return INTERRUPTED
    if stopped.error is not None:
        return stopped.error.exit_code
    if any(control.failed for control in checked):
        return MeasurementError.exit_code
    answered = any(effect.low > 0 for row in ranking for effect in row.effects)
    return 0 if answered else EvidenceError.exit_code


def _where(work: _Work) -> str:
    """Return what tells this knowledge base from others, so that merged ones never share blocks."""
    host = dict(work.workshop.machine.circumstances).get("host", "")
    return content_id("knowledge base", [host, str(work.places.knowledge)])
