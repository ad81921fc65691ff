"""Explore: requirements in, a measured ranking out."""

import time
from collections.abc import Mapping
from dataclasses import replace
from itertools import islice

from stackgen.artifacts.wheels import WheelStore
from stackgen.database import open_database
from stackgen.errors import EvidenceError
from stackgen.index import PackageIndex
from stackgen.pipeline.competition import compete
from stackgen.pipeline.environments import estimate, refuse_without_room
from stackgen.pipeline.lock_out import check_folder, keep_winner
from stackgen.pipeline.measures import indicator_calls, limits, usable_cpus
from stackgen.pipeline.options import ExploreOptions
from stackgen.pipeline.places import Places
from stackgen.pipeline.prices import metered
from stackgen.pipeline.progress import Progress
from stackgen.pipeline.selection import Selection, select
from stackgen.pipeline.sources import refuse_unbuildable
from stackgen.pipeline.wishes import beside_compared, index_config
from stackgen.pipeline.work import Work
from stackgen.pipeline.workshop import Workshop, open_workshop
from stackgen.values import ExplorePlan, ExploreReport, Kind, Place


def explore(
    options: ExploreOptions, places: Places, environ: Mapping[str, str], progress: Progress
) -> ExplorePlan | ExploreReport:
    """Explore, or only plan it (``dry_run``).

    Raises:
        StackgenError: one of its kinds for whatever stops it; what was measured is kept.
    """
    start = time.monotonic()
    if options.lock_out is not None:
        check_folder(options.lock_out, make=not options.dry_run)
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
        work = Work(
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
            found = compete(work, database)
        if options.lock_out is None:
            return found
        return keep_winner(found, options.lock_out, workshop.base.target, progress)


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


def _tell_of_gpus(work: Work) -> None:
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
