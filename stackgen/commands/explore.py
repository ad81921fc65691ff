"""Explore: requirements in, a measured ranking out."""

from collections.abc import Callable, Mapping
from dataclasses import replace

from stackgen.campaign.backend import Backend
from stackgen.campaign.campaign import Campaign
from stackgen.campaign.candidates import pinned, read_pins, select
from stackgen.campaign.host import cpu_list, shared_cores
from stackgen.campaign.options import NEWEST_STACKS
from stackgen.campaign.plan import (
    Calls,
    SelectedStacks,
    SelectStacks,
    calls_of,
    open_campaign,
)
from stackgen.campaign.prepare import refuse_without_disk_space
from stackgen.campaign.request import CampaignRequest
from stackgen.campaign.spread import with_defaults
from stackgen.campaign.user_input import index_config
from stackgen.commands.lock_out import check_folder, keep_winner
from stackgen.errors import EvidenceError, UsageError
from stackgen.index import PackageIndex
from stackgen.knowledge.database import open_database
from stackgen.knowledge.loading import prepare
from stackgen.model.choices import Prereleases, Strategy
from stackgen.model.progress import Progress
from stackgen.model.reports.campaigns import ExplorePlan, ExploreReport
from stackgen.model.stacks import EnvironmentKind
from stackgen.resolve.candidates import Policy
from stackgen.storage.paths import Paths


def _select(
    index: PackageIndex, request: CampaignRequest, backend: Backend, progress: Progress
) -> SelectedStacks:
    """Return the stacks that satisfy the requirements."""
    target = backend.base.target
    if request.stacks.baseline_file is not None:
        lock = pinned(index, read_pins(request.stacks.baseline_file), target, _any_release(request))
        request = request.with_stacks(baseline=lock)
    selection = select(index, request, target, progress)
    return SelectedStacks(
        request=request,
        source=selection,
        packages=frozenset(selection.space.packages),
        count=selection.space.count,
        choices=len(selection.choices) * len(selection.settings),
        requirements=request.stacks.requirements.texts,
        too_large=selection.too_large,
    )


def explore(
    request: CampaignRequest,
    paths: Paths,
    environ: Mapping[str, str],
    progress: Progress,
    *,
    select_stacks: SelectStacks = _select,
    calls_of: Callable[[SelectedStacks], Calls] = calls_of,
) -> ExplorePlan | ExploreReport:
    """Measure stacks against each other, or only plan it (``dry_run``).

    Args:
        select_stacks: selects the stacks, once their base is known.
        calls_of: returns the indicators that they are measured by.

    Raises:
        StackgenError: one of its kinds for whatever stops it; what was measured is stored.
    """
    _refuse_two_baselines(request)
    for each in request.stacks.left_out:
        progress.note(f"left out: {each}")
    request = _without_search(with_defaults(request), progress)
    if request.lock_out is not None:
        check_folder(request.lock_out, make=not request.dry_run)
    with open_campaign(
        select_stacks, request, paths, environ, progress, calls_of=calls_of
    ) as campaign:
        _refuse_one_stack(campaign.plan)
        if request.dry_run:
            return campaign.plan
        _note_gpus(campaign)
        _note_cpus(campaign)
        refuse_without_disk_space(campaign.plan.estimate, paths)
        with open_database(paths.knowledge) as database:
            found = campaign.run(database)
            if not found.run.interrupted:
                prepare(database, campaign.backend.machine)  # so that the next answer is quick
        if request.lock_out is None:
            return found
        config = index_config(request.index, environ)
        return keep_winner(found, request.lock_out, campaign.backend.base.target, config, progress)


def _without_search(request: CampaignRequest, progress: Progress) -> CampaignRequest:
    """Return a request that measures all stacks where goals decide: a search is for speed alone."""
    search = request.search
    if not (request.measurement.goals.decides and search.strategy.searches):
        return request
    stacks = search.stacks or NEWEST_STACKS
    progress.note(
        f"A search looks for speed alone: with these goals, {stacks} stacks are measured in every "
        "block (--stacks sets how many)."
    )
    found = replace(search, strategy=Strategy.EXHAUSTIVE, stacks=stacks, confidence=None)
    return replace(request, search=found)


def _any_release(request: CampaignRequest) -> Policy:
    """Return what files of a given lock will do: whatever else is required."""
    return Policy(
        prereleases=Prereleases.ALLOW, allow_build=request.stacks.requirements.policy.allow_build
    )


def _refuse_two_baselines(request: CampaignRequest) -> None:
    if request.stacks.baseline_file is not None and request.stacks.lock is not None:
        raise UsageError(
            "there are two baselines",
            why=f"--from {request.stacks.lock} is explored around, and compared with; --baseline "
            f"{request.stacks.baseline_file} is another one",
            fix="leave one of them out; with --baseline, name what may vary: "
            f"stackgen explore NAME --baseline {request.stacks.baseline_file}",
        )


def _note_gpus(campaign: Campaign) -> None:
    name = dict(campaign.backend.machine.identity).get("gpu0")
    if name and not campaign.request.processors.gpus:
        campaign.progress.note(
            f"Stacks are measured without this machine's {name}: --gpus all shows it."
        )
    # An engine refuses what it cannot pass on; in a virtualenv it would go unnoticed.
    if (
        campaign.request.processors.gpus
        and not name
        and campaign.backend.base.kind is not EnvironmentKind.DOCKER
    ):
        campaign.progress.note("No GPU was found here: stacks run as they would without --gpus.")


def _note_cpus(campaign: Campaign) -> None:
    both = shared_cores(
        campaign.request.processors.measure_cpus, campaign.request.processors.build_cpus
    )
    if both:
        campaign.progress.note(
            f"The --build-cpus {cpu_list(both)} share cores with those that are measured on: what "
            "runs on one half of a core slows the other."
        )
    if (
        campaign.request.processors.build_cpus
        and campaign.backend.base.kind is EnvironmentKind.DOCKER
    ):
        campaign.progress.note(
            "The container engine loads images on any CPU: --build-cpus binds stackgen alone."
        )


def _refuse_one_stack(plan: ExplorePlan) -> None:
    if len(plan.chosen) < 2:
        raise EvidenceError(
            "there is only one stack, and nothing to compare it with",
            why=f"{' and '.join(plan.varied)} can be chosen in one way only"
            if plan.choices < 2
            else f"of {plan.choices} choices of {' and '.join(plan.varied)}, one takes part",
            fix="give a wider range, vary another package with --vary, or give --granularity patch"
            if plan.choices < 2
            else "let more take part: --stacks 2 or more, or a larger --download-budget",
        )
