"""Noise: one stack measured against itself, and what this machine can show in spite of that."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial

import psutil

from stackgen import interrupts
from stackgen.campaign.backend import Backend
from stackgen.campaign.campaign import INTERRUPTED, Campaign
from stackgen.campaign.candidates import Candidate, Selection, select
from stackgen.campaign.comparison import Stopped
from stackgen.campaign.indicators import CONTROL, component_of, known_indicators, limits
from stackgen.campaign.options import SearchOptions
from stackgen.campaign.plan import Calls, SelectedStacks, calls_of, open_campaign
from stackgen.campaign.prepare import refuse_without_disk_space
from stackgen.campaign.request import CampaignRequest
from stackgen.campaign.runner import last_line
from stackgen.campaign.session import Session
from stackgen.errors import EvidenceError, MeasurementError, StackgenError, UsageError
from stackgen.index import PackageIndex
from stackgen.indicators.declaration import bind, find
from stackgen.knowledge.database import Database, open_database
from stackgen.measure import INTERIM_ANALYSES, Design, block_times, plan_block
from stackgen.measure.disturbances import exclude_disturbed
from stackgen.measure.noise import disturbance, indicator_noise, run_s
from stackgen.measure.retry_policy import FailureCause, cause_of
from stackgen.model.identity import StackId
from stackgen.model.inspections import IndicatorCall, Inspection
from stackgen.model.progress import Progress
from stackgen.model.reports.campaigns import NOISE, ExplorePlan, IndicatorNoise, NoiseReport
from stackgen.storage.paths import Paths

MOST_S = 600.0
"""The longest budget: what ten minutes do not show of a machine, more of them hardly do."""
MOST_BLOCKS = INTERIM_ANALYSES[-1]
DEFAULTS = {
    "numpy": ("numpy/matmul", "numpy/sort", "numpy/ufunc"),
    "tensorflow": ("tensorflow/matmul",),
    "torch": ("torch/matmul",),
}


def noise(
    request: CampaignRequest, paths: Paths, environ: Mapping[str, str], progress: Progress
) -> ExplorePlan | NoiseReport:
    """Measure one stack, the newest that works, against itself, or only plan it (``dry_run``).

    Args:
        request: as of an exploration; of the stacks that satisfy the requirements, one is measured.

    Raises:
        StackgenError: one of its kinds for whatever stops it; what was measured is stored.
    """
    _refuse_long(request.budget.budget_s)
    request = replace(request, kind=NOISE, search=SearchOptions(stacks=1))
    with open_campaign(_chosen, request, paths, environ, progress, calls_of=_calls_of) as campaign:
        if request.dry_run:
            return campaign.plan
        refuse_without_disk_space(campaign.plan.estimate, paths)
        with open_database(paths.knowledge) as database:
            return _against_itself(campaign, database)


def _chosen(
    index: PackageIndex, request: CampaignRequest, backend: Backend, progress: Progress
) -> SelectedStacks:
    """Return the stacks of which the newest that works is measured."""
    selection = select(index, request, backend.base.target, progress)
    return SelectedStacks(
        request=_with_indicators(request, selection),
        source=selection,
        packages=frozenset(selection.space.packages),
        count=selection.space.count,
        choices=len(selection.choices),
        requirements=request.stacks.requirements.texts,
    )


def _refuse_long(budget_s: float) -> None:
    if budget_s > MOST_S:
        raise UsageError(
            f"a budget of {budget_s:g} s is more than this takes",
            why="ten minutes show how much a machine scatters; the rest is for comparing stacks",
            fix="give --budget 10m or less; the same command given again continues from there",
        )


def _with_indicators(request: CampaignRequest, selection: Selection) -> CampaignRequest:
    """Return options that name their indicators, so that defaults given by name are the same."""
    if request.measurement.indicators:
        return request
    component = component_of(selection.varied, frozenset(selection.space.packages))
    if component not in DEFAULTS:
        raise UsageError(
            "there is no indicator for these packages",
            why="stackgen measures NumPy, TensorFlow and PyTorch by itself",
            fix="say what to measure: --pi (stackgen pis lists them, or give your own file)",
        )
    return request.with_indicators(CONTROL, *DEFAULTS[component])


def _calls_of(chosen: SelectedStacks) -> Calls:
    """Return what is measured besides the control, which always is."""
    request = chosen.request
    threads = limits(request.processors.threads).threads
    control = bind(find(known_indicators(), CONTROL), {"threads": str(threads)})
    names = tuple(each for each in request.measurement.indicators if each != CONTROL)
    if not names:
        return (), control
    return calls_of(replace(chosen, request=request.with_indicators(*names)))[0], control


def _against_itself(campaign: Campaign, database: Database) -> NoiseReport:
    campaign.begin(database)
    candidate = _first_working(campaign)
    try:
        ended = measure_pairs(campaign.session, campaign.design([candidate]))
    except KeyboardInterrupt:
        interrupts.refuse_second()
        ended = INTERRUPTED
    if ended.error is not None:
        campaign.progress.note(f"error: {ended.error}")
    return _report(campaign, candidate, ended)


def _first_working(campaign: Campaign) -> Candidate:
    """Return the newest stack that works; having one may take as long again as the budget.

    Raises:
        StackgenError: none does.
    """
    latest_s = -campaign.request.budget.budget_s
    campaign.candidates.fill()
    campaign.candidates.prepare_all(lambda _: campaign.session.left_s < latest_s)
    if not campaign.candidates.ready:
        raise campaign.nothing_runs()
    return campaign.candidates.ready[0]


def measure_pairs(session: Session, design: Design) -> Stopped:
    """Run blocks of equal runs until there are enough, the budget is spent, or Ctrl-C.

    An indicator that failed in a block takes part in no further one.
    """
    longest = 0.0
    while True:
        seen = _of(session, design.baseline.stack.id)
        failed = {call.id for call in _every(design) if _failure(seen, call)}
        left = tuple(call for call in design.calls if call.id not in failed)
        if design.control.id in failed or (failed and not left):
            return Stopped(why="what was to be measured failed")
        design = replace(design, calls=left)
        if error := _stopped_again_and_again(session, design):
            return Stopped(why=error.what, error=error)
        if _fewest_pairs(session, design) >= MOST_BLOCKS:
            why = f"{MOST_BLOCKS} blocks show enough (with another --seed they are measured anew)"
            return Stopped(why=why)
        # One block is always run: with none, all that was built would show nothing.
        if session.left_s <= longest and any(each.block for each in seen):
            return Stopped(why="the budget is spent")
        try:
            session.pause_after_idle_block(_every(design))
            (environment,), stored = session.run_block(
                (design.baseline,), partial(plan_block, design)
            )
        except KeyboardInterrupt:
            interrupts.refuse_second()
            return INTERRUPTED
        except StackgenError as error:
            return Stopped(why=error.what, error=error)
        design = replace(design, baseline=environment)
        longest = max(longest, stored.seconds)


def _stopped_again_and_again(session: Session, design: Design) -> StackgenError | None:
    """Return why this run ends, where what it measures is killed; the next one tries again."""
    stack = design.baseline.stack.id
    killed = session.record.killed(_every(design)).get(stack)
    try:
        session.record.refuse_idle(_every(design), baseline=stack)
    except MeasurementError as error:
        return error
    if killed is None:
        return None
    return MeasurementError(
        "what was to be measured was stopped again and again",
        why=f"{killed.outcome.value} in block {killed.block}: {last_line(killed.log)}",
        fix="find out what ends it (too little free memory?), then run the same command again",
    )


def _fewest_pairs(session: Session, design: Design) -> int:
    """Return the blocks that count of the indicator that has the fewest."""
    stack = design.baseline.stack.id
    return min(
        len(block_times(session.inspections, indicator=call.id, stack=stack, twin=True))
        for call in _every(design)
    )


def _every(design: Design) -> tuple[IndicatorCall, ...]:
    return (*design.calls, design.control)


def _of(session: Session, stack: StackId) -> list[Inspection]:
    """Return the inspections of a stack: before a new release, another one was the newest."""
    return [each for each in session.inspections if each.stack_id == stack]


def _failure(inspections: Sequence[Inspection], call: IndicatorCall) -> Inspection | None:
    """Return the first run of an indicator that failed by itself in a block in which others ran."""
    ran = {each.block for each in inspections if each.observation is not None}
    return next(
        (
            each
            for each in inspections
            if each.indicator_id == call.id
            and each.block > 0
            and each.block in ran
            and cause_of(each) in (FailureCause.UNCERTAIN, FailureCause.OWN)
        ),
        None,
    )


def _report(campaign: Campaign, candidate: Candidate, ended: Stopped) -> NoiseReport:
    seen = _of(campaign.session, candidate.stack_id)
    disturbed = exclude_disturbed(seen)
    calls = (*campaign.calls, campaign.control)
    # A later version of an indicator is another one, and earlier blocks say nothing of it.
    recorded = {each.block for each in seen if each.indicator_id in {call.id for call in calls}}
    rows = tuple(_row(campaign, seen, candidate, call, len(calls)) for call in calls)
    return NoiseReport(
        requirements=campaign.plan.requirements,
        stack=candidate.label,
        setup=campaign.plan.setup,
        seed=campaign.request.budget.seed,
        indicators=rows,
        disturbance=disturbance(seen, cpus=psutil.cpu_count() or 1),
        control_s=run_s(each for each in seen if each.indicator_id == campaign.control.id),
        excluded=tuple(
            (block, why)
            for (_, block), why in sorted(disturbed.excluded.items())
            if block in recorded
        ),
        tolerated=sum(block in recorded for _, block in disturbed.tolerated),
        new_inspections=campaign.session.record.added,
        seconds=time.monotonic() - campaign.start,
        stopped=ended.why,
        interrupted=ended.interrupted,
        exit_code=_exit_code(ended, rows),
        knowledge_base=str(campaign.paths.knowledge),
    )


def _row(
    campaign: Campaign,
    seen: Sequence[Inspection],
    candidate: Candidate,
    call: IndicatorCall,
    count: int,
) -> IndicatorNoise:
    failure = _failure(seen, call)
    if failure is not None:
        why = f"failed in block {failure.block}: {failure.outcome.value}: "
        return IndicatorNoise(
            indicator_id=call.id,
            label=call.label,
            run_s=None,
            blocks=0,
            unusable=why + last_line(failure.log),
            failed=True,
        )
    return indicator_noise(
        seen,
        stack=candidate.stack_id,
        call=call,
        control=campaign.control,
        seed=campaign.request.budget.seed,
        indicators=count,
    )


def _exit_code(ended: Stopped, rows: Sequence[IndicatorNoise]) -> int:
    """Return the exit code: how far a script may trust the report."""
    if ended.interrupted:
        return interrupts.exit_code()
    if ended.error is not None:
        return ended.error.exit_code
    if any(row.failed or row.differs for row in rows):
        return MeasurementError.exit_code
    return 0 if all(row.detectable for row in rows) else EvidenceError.exit_code
