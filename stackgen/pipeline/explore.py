"""Explore: requirements in, a measured ranking out."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path

from stackgen.artifacts.wheels import WheelStore
from stackgen.database import open_database
from stackgen.errors import EvidenceError, UsageError
from stackgen.index import PackageIndex
from stackgen.pipeline.competition import compete
from stackgen.pipeline.cpus import cpu_list, kept_to, refuse_cpus, shared_cores
from stackgen.pipeline.environments import estimate, refuse_without_room
from stackgen.pipeline.lock_out import check_folder, keep_winner
from stackgen.pipeline.measures import indicator_calls, limits, usable_cpus, weights_of
from stackgen.pipeline.options import ExploreOptions
from stackgen.pipeline.pinned import pinned, read_pins
from stackgen.pipeline.places import Places
from stackgen.pipeline.prices import metered
from stackgen.pipeline.progress import Progress
from stackgen.pipeline.selection import Contenders, select
from stackgen.pipeline.sources import refuse_unbuildable
from stackgen.pipeline.wishes import beside_compared, index_config
from stackgen.pipeline.work import Work
from stackgen.pipeline.workshop import Workshop, open_workshop
from stackgen.resolve import Policy
from stackgen.values import ExplorePlan, ExploreReport, Kind, Place


@dataclass(frozen=True, slots=True, kw_only=True)
class Chosen:
    """What is measured against each other.

    options: what was asked for, with all that was read since.
    packages: names of what the stacks contain that an indicator may be of.
    count: of the stacks that satisfy what was asked for.
    choices: how many of them could be told apart.
    requirements: what was asked for, in words.
    """

    options: ExploreOptions
    contenders: Contenders
    packages: frozenset[str]
    count: int
    choices: int
    requirements: tuple[str, ...]


Choose = Callable[[PackageIndex, ExploreOptions, Workshop, Progress], Chosen]


def explore(
    options: ExploreOptions, places: Places, environ: Mapping[str, str], progress: Progress
) -> ExplorePlan | ExploreReport:
    """Explore, or only plan it (``dry_run``).

    Raises:
        StackgenError: one of its kinds for whatever stops it; what was measured is kept.
    """
    _refuse_two_references(options)
    found = measured(_selected, options, places, environ, progress)
    if isinstance(found, ExploreReport) and options.reference_file is not None:
        _tell_of_other_reference(found, options.reference_file, progress)
    return found


def measured(
    choose: Choose,
    options: ExploreOptions,
    places: Places,
    environ: Mapping[str, str],
    progress: Progress,
) -> ExplorePlan | ExploreReport:
    """Measure what is chosen, or only plan it (``dry_run``).

    Args:
        choose: says which stacks they are, once it is known what they are installed on.
        options: what was asked for.
        places: where things are kept.
        environ: the user's variables.
        progress: who is told.

    Raises:
        StackgenError: one of its kinds for whatever stops it; what was measured is kept.
    """
    start = time.monotonic()
    if options.lock_out is not None:
        check_folder(options.lock_out, make=not options.dry_run)
    usable = usable_cpus()
    refuse_cpus(options, usable)
    config = index_config(options.index, environ)
    options = replace(options, asked=beside_compared(options.asked, config))
    with (
        open_workshop(
            options.executor, options.base, places, progress, make=not options.dry_run
        ) as workshop,
        kept_to(options.build_cpus),
        PackageIndex(config, places.cache) as index,
    ):
        chosen = choose(index, options, workshop, progress)
        options = chosen.options
        varied = tuple(each for each in chosen.contenders.varied if each in chosen.packages)
        calls, control = indicator_calls(options, varied, chosen.packages)
        allowed = limits(options.threads, options.gpus, among=options.measure_cpus)
        cpus = metered(options, calls, allowed, usable)
        store = WheelStore(places.cache)
        work = Work(
            options=options,
            places=places,
            progress=progress,
            index=index,
            store=store,
            workshop=workshop,
            selection=chosen.contenders,
            plan=_plan(chosen, workshop, index, store, places),
            calls=cpus.calls,
            control=control,
            metered=cpus,
            start=start,
            weights=weights_of(options.weights, cpus.calls),
        )
        if options.dry_run:
            return work.plan
        _refuse_one_stack(work.plan)
        _tell_of_gpus(work)
        _tell_of_cpus(work)
        refuse_without_room(work.plan.estimate, places)
        with open_database(places.knowledge) as database:
            found = compete(work, database)
        if options.lock_out is None:
            return found
        return keep_winner(found, options.lock_out, workshop.base.target, config, progress)


def _selected(
    index: PackageIndex, options: ExploreOptions, workshop: Workshop, progress: Progress
) -> Chosen:
    """Return the stacks that satisfy what was asked for."""
    target = workshop.base.target
    if options.reference_file is not None:
        lock = pinned(index, read_pins(options.reference_file), target, _any_release(options))
        options = replace(options, reference=lock)
    selection = select(index, options, target, progress)
    return Chosen(
        options=options,
        contenders=selection,
        packages=frozenset(selection.space.packages),
        count=selection.space.count,
        choices=len(selection.choices) * len(selection.settings),
        requirements=options.asked.texts,
    )


def _any_release(options: ExploreOptions) -> Policy:
    """Return what files of a given lock will do: what it names counts, whatever is asked for."""
    return Policy(prereleases=True, allow_build=options.asked.policy.allow_build)


def _refuse_two_references(options: ExploreOptions) -> None:
    if options.reference_file is not None and options.lock is not None:
        raise UsageError(
            "there are two references",
            why=f"--from {options.lock} is explored around, and compared with; --reference "
            f"{options.reference_file} is another one",
            fix="leave one of them out; with --reference, name what may vary: "
            f"stackgen explore NAME --reference {options.reference_file}",
        )


def _tell_of_other_reference(report: ExploreReport, given: Path, progress: Progress) -> None:
    """Say so where the lock to compare with does not run, and another stack stood in for it."""
    reference = next((row.label for row in report.ranking if row.is_reference), None)
    if reference is not None and all(each.completion != "lock" for each in report.stacks):
        progress.note(f"{given} does not run here: stacks were compared with {reference} instead.")


def _plan(
    chosen: Chosen,
    workshop: Workshop,
    index: PackageIndex,
    store: WheelStore,
    places: Places,
) -> ExplorePlan:
    options, selection = chosen.options, chosen.contenders
    first = list(islice(selection.candidates(), options.wanted))
    if not options.dry_run:
        refuse_unbuildable((a for each in first for a in each.lock.artifacts), workshop.sdists)
    machine = dict(workshop.machine.identity)
    return ExplorePlan(
        requirements=chosen.requirements,
        varied=selection.varied,
        place=Place(
            executor=workshop.base.kind.value,
            base=workshop.base.name,
            python=workshop.base.target.python,
            machine=machine.get("cpu_name", "this machine"),
        ),
        count=chosen.count,
        choices=chosen.choices,
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


def _tell_of_cpus(work: Work) -> None:
    both = shared_cores(work.options.measure_cpus, work.options.build_cpus)
    if both:
        work.progress.note(
            f"The --build-cpus {cpu_list(both)} share cores with those that are measured on: what "
            "runs on one half of a core slows the other."
        )
    if work.options.build_cpus and work.workshop.base.kind is Kind.DOCKER:
        work.progress.note(
            "The container engine loads images on any CPU: --build-cpus binds stackgen alone."
        )


def _refuse_one_stack(plan: ExplorePlan) -> None:
    if len(plan.chosen) < 2:
        raise EvidenceError(
            "there is only one stack, and nothing to compare it with",
            why=f"{' and '.join(plan.varied)} can be chosen in one way only",
            fix="ask for a wider range, vary another package with --vary, or give "
            "--granularity patch",
        )
