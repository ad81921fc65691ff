"""Explore: requirements in, a measured ranking out."""

from collections.abc import Mapping
from dataclasses import replace

from stackgen.campaign.backend import Backend
from stackgen.campaign.campaign import compete
from stackgen.campaign.candidates import pinned, read_pins, select
from stackgen.campaign.host import cpu_list, shared_cores
from stackgen.campaign.plan import Choose, Chosen, Work, opened
from stackgen.campaign.prepare import refuse_without_disk_space
from stackgen.campaign.request import ExploreOptions
from stackgen.campaign.user_input import index_config
from stackgen.commands.lock_out import check_folder, keep_winner
from stackgen.errors import EvidenceError, UsageError
from stackgen.index import PackageIndex
from stackgen.knowledge.database import open_database
from stackgen.model.choices import Prereleases
from stackgen.model.progress import Progress
from stackgen.model.reports import ExplorePlan, ExploreReport
from stackgen.model.stacks import Kind
from stackgen.resolve import Policy
from stackgen.storage.paths import Paths


def explore(
    options: ExploreOptions, paths: Paths, environ: Mapping[str, str], progress: Progress
) -> ExplorePlan | ExploreReport:
    """Explore, or only plan it (``dry_run``).

    Raises:
        StackgenError: one of its kinds for whatever stops it; what was measured is kept.
    """
    _refuse_two_references(options)
    return measured(_selected, options, paths, environ, progress)


def measured(
    choose: Choose,
    options: ExploreOptions,
    paths: Paths,
    environ: Mapping[str, str],
    progress: Progress,
) -> ExplorePlan | ExploreReport:
    """Measure what is chosen, or only plan it (``dry_run``).

    Args:
        choose: says which stacks they are, once it is known what they are installed on.
        options: what was asked for.
        paths: where things are kept.
        environ: the user's variables.
        progress: who is told.

    Raises:
        StackgenError: one of its kinds for whatever stops it; what was measured is kept.
    """
    if options.lock_out is not None:
        check_folder(options.lock_out, make=not options.dry_run)
    with opened(choose, options, paths, environ, progress) as work:
        if options.dry_run:
            return work.plan
        _refuse_one_stack(work.plan)
        _tell_of_gpus(work)
        _tell_of_cpus(work)
        refuse_without_disk_space(work.plan.estimate, paths)
        with open_database(paths.knowledge) as database:
            found = compete(work, database)
        if options.lock_out is None:
            return found
        config = index_config(options.index, environ)
        return keep_winner(found, options.lock_out, work.backend.base.target, config, progress)


def _selected(
    index: PackageIndex, options: ExploreOptions, backend: Backend, progress: Progress
) -> Chosen:
    """Return the stacks that satisfy what was asked for."""
    target = backend.base.target
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
    return Policy(prereleases=Prereleases.ALLOW, allow_build=options.asked.policy.allow_build)


def _refuse_two_references(options: ExploreOptions) -> None:
    if options.reference_file is not None and options.lock is not None:
        raise UsageError(
            "there are two references",
            why=f"--from {options.lock} is explored around, and compared with; --reference "
            f"{options.reference_file} is another one",
            fix="leave one of them out; with --reference, name what may vary: "
            f"stackgen explore NAME --reference {options.reference_file}",
        )


def _tell_of_gpus(work: Work) -> None:
    name = dict(work.backend.machine.identity).get("gpu0")
    if name and not work.options.gpus:
        work.progress.note(
            f"Stacks are measured without this machine's {name}: --gpus all shows it."
        )
    # An engine refuses what it cannot pass on; in a virtualenv nobody would notice.
    if work.options.gpus and not name and work.backend.base.kind is not Kind.DOCKER:
        work.progress.note("No GPU was found here: stacks run as they would without --gpus.")


def _tell_of_cpus(work: Work) -> None:
    both = shared_cores(work.options.measure_cpus, work.options.build_cpus)
    if both:
        work.progress.note(
            f"The --build-cpus {cpu_list(both)} share cores with those that are measured on: what "
            "runs on one half of a core slows the other."
        )
    if work.options.build_cpus and work.backend.base.kind is Kind.DOCKER:
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
