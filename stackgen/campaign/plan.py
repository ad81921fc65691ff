"""Plans a campaign: where it runs, which stacks take part, and by what they are measured."""

import math
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import islice

from stackgen.campaign.backend import Backend, any_python, open_backend
from stackgen.campaign.campaign import Campaign
from stackgen.campaign.candidates import CandidateSource, read_lock_file
from stackgen.campaign.host import limited_to, refuse_cpus
from stackgen.campaign.indicators import (
    indicator_calls,
    metered,
    refuse_unknown_indicators,
    usable_cpus,
    weights_of,
)
from stackgen.campaign.prepare import estimate
from stackgen.campaign.request import CampaignRequest
from stackgen.campaign.sdist_wheels import refuse_unbuildable
from stackgen.campaign.targets import refuse_any_python, refuse_python
from stackgen.campaign.user_input import beside_compared, index_config, open_index
from stackgen.index import PackageIndex
from stackgen.locks.reading import suits_python
from stackgen.measure import INTERIM_ANALYSES
from stackgen.measure.bandit import BLOCK
from stackgen.model.choices import Order
from stackgen.model.inspections import IndicatorCall
from stackgen.model.options import format_duration
from stackgen.model.packages import LockFile
from stackgen.model.progress import Progress
from stackgen.model.reports.campaigns import ExplorePlan, MeasurementSetup
from stackgen.storage.paths import Paths
from stackgen.storage.wheels import WheelStore

Calls = tuple[tuple[IndicatorCall, ...], IndicatorCall]
"""What is measured, and the control."""
RUN_S = 1.0
"""A short run of an indicator, with its start: 0.7 s of numpy/sort, 5 s of tensorflow/matmul."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SelectedStacks:
    """The stacks that are measured against each other.

    request: what to measure, with all that was read since.
    packages: names of what the stacks contain that an indicator may be of.
    count: of the stacks that satisfy the requirements.
    choices: how many of them differ in what varies.
    requirements: in the words of the user.
    too_large: releases that take no part because of the download budget.
    """

    request: CampaignRequest
    source: CandidateSource
    packages: frozenset[str]
    count: int
    choices: int
    requirements: tuple[str, ...]
    too_large: tuple[str, ...] = ()


SelectStacks = Callable[[PackageIndex, CampaignRequest, Backend, Progress], SelectedStacks]


def calls_of(selected: SelectedStacks) -> Calls:
    """Return the requested indicators, or the default ones, and the control."""
    varied = tuple(each for each in selected.source.varied if each in selected.packages)
    return indicator_calls(selected.request, varied, selected.packages)


@contextmanager
def open_campaign(
    select_stacks: SelectStacks,
    request: CampaignRequest,
    paths: Paths,
    environ: Mapping[str, str],
    progress: Progress,
    *,
    calls_of: Callable[[SelectedStacks], Calls] = calls_of,
) -> Iterator[Campaign]:
    """Open the backend and the index, have stacks selected, and plan their campaign.

    Args:
        select_stacks: selects the stacks, once their base is known.

    Raises:
        StackgenError: one of its kinds for whatever is in the way.
    """
    start = time.monotonic()
    refuse_cpus(request, usable_cpus())
    refuse_unknown_indicators(request)
    lockfile = _lockfile(request)
    config = index_config(request.index, environ)
    requirements = beside_compared(request.stacks.requirements, config)
    request = request.with_stacks(requirements=requirements)
    with (
        open_backend(
            request.target.executor,
            request.target.base,
            paths,
            progress,
            make=not request.dry_run,
            admits=partial(suits_python, lockfile) if lockfile else any_python,
            replica=request.replica,
        ) as backend,
        limited_to(request.processors.build_cpus),
        open_index(config, requirements.policy, backend.base.target, paths, progress) as index,
    ):
        if lockfile is not None:
            refuse_python(lockfile, backend.base.target.python, backend.base.name)
        selected = select_stacks(index, request, backend, progress)
        for note in index.notes:
            progress.note(note)
        request, (calls, control) = selected.request, calls_of(selected)
        cpus = metered(request, calls, usable_cpus())
        store = WheelStore(paths.cache, notify=progress.note)
        yield Campaign(
            request=request,
            paths=paths,
            progress=progress,
            index=index,
            store=store,
            backend=backend,
            source=selected.source,
            plan=_plan(selected, calls, backend, index, store, paths),
            control=control,
            metered=cpus,
            start=start,
            weights=weights_of(request.measurement.weights, cpus.calls),
        )


def _lockfile(request: CampaignRequest) -> LockFile | None:
    """Return the lock to explore around; it is refused where no Python of this machine fits it."""
    if request.stacks.lock is None:
        return None
    # What an advice measures is selected by itself, from a file that was resolved first.
    lockfile = read_lock_file(request.stacks.lock, partial=request.kind == "advise")
    if not request.target.base:
        refuse_any_python(lockfile)
    return lockfile


def _plan(
    selected: SelectedStacks,
    calls: Iterable[IndicatorCall],
    backend: Backend,
    index: PackageIndex,
    store: WheelStore,
    paths: Paths,
) -> ExplorePlan:
    request, source, calls = selected.request, selected.source, tuple(calls)
    first = list(islice(source.candidates(), min(request.search.wanted, sys.maxsize)))
    searched = request.search.searches(selected.choices)
    if not request.dry_run:
        refuse_unbuildable((a for each in first for a in each.lock.artifacts), backend.sdists)
    machine = dict(backend.machine.identity)
    soon = min(len(first), BLOCK) if searched else len(first)
    cost = estimate(
        [each.lock for each in first],
        backend.base,
        first=soon,
        index=index,
        store=store,
        paths=paths,
    )
    return ExplorePlan(
        requirements=selected.requirements,
        varied=source.varied,
        setup=MeasurementSetup(
            executor=backend.base.kind.value,
            base=backend.base.name,
            python=backend.base.target.python,
            machine=machine.get("cpu_name", "this machine"),
        ),
        count=selected.count,
        choices=selected.choices,
        chosen=tuple((each.label, each.choice.completions if each.choice else 1) for each in first),
        estimate=cost,
        budget_s=request.budget.budget_s,
        seed=request.budget.seed,
        strategy=request.search.strategy.value,
        searched=searched,
        spread=request.search.order is Order.SPREAD,
        too_large=selected.too_large,
        indicators=tuple(each.label for each in calls),
        short_budget=short_budget(
            request.budget.budget_s, ready_s=cost.seconds, stacks=soon, indicators=len(calls)
        ),
    )


def short_budget(budget_s: float, *, ready_s: float, stacks: int, indicators: int) -> str:
    """Return that a budget ends before the first comparison, "" where it does not.

    Args:
        ready_s: until the first block.
        stacks: of a block, the baseline among them.
    """
    block_s = RUN_S * ((stacks + 1) * indicators + 2)  # the baseline twice, and two controls
    needed_s = ready_s + INTERIM_ANALYSES[0] * block_s
    if needed_s <= budget_s:
        return ""
    rounded = 60 * round(budget_s / 60) if budget_s > 120 else round(budget_s)
    return (
        f"Nothing is decided within {format_duration(rounded)}: a new campaign needs about "
        f"{max(1, math.ceil(needed_s / 60))} min until its first comparison, after "
        f"{INTERIM_ANALYSES[0]} blocks (--budget; the same command continues)."
    )
