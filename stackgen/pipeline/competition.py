"""Let the stacks of a selection compete: have them built, measure them, and report."""

from collections.abc import Callable, Sequence

from stackgen.database import Database
from stackgen.errors import EngineError, StorageError
from stackgen.measure import Design
from stackgen.pipeline.campaign import Runner
from stackgen.pipeline.environments import Preparer, Ready
from stackgen.pipeline.failing import nothing_runs
from stackgen.pipeline.foresight import too_short
from stackgen.pipeline.measuring import Stopped, measure
from stackgen.pipeline.reporting import Outcome, report
from stackgen.pipeline.work import Work, open_runner
from stackgen.values import ExploreReport, StackId

BUILD_SHARE = 0.6
"""Once two stacks work, no further one is built when this share of the budget is spent."""


def compete(work: Work, database: Database) -> ExploreReport:
    """Measure the stacks of a selection against each other within the budget.

    Raises:
        StackgenError: none of them runs, or nothing can be measured at all.
    """
    runner = open_runner(work, database)
    for call in (*work.calls, work.control):
        database.add_indicator(call)
    _tell_estimate(work)
    preparer = Preparer(
        facts=work.workshop.base.facts,
        selection=work.selection,
        runner=runner,
        call=work.calls[0],
        progress=work.progress,
    )
    found = _all_at_once(work, runner, preparer)
    if found.stopped.error is not None:
        work.progress.note(f"error: {found.stopped.error}")
    return report(work, runner, found)


def _all_at_once(work: Work, runner: Runner, preparer: Preparer) -> Outcome:
    """Build stacks first, then measure all of them in each block."""
    ready: list[Ready] = []
    stopped = Stopped(blocks=0, why="you interrupted it", interrupted=True)
    try:
        _prepare(work, preparer, runner, ready)
        if not ready:
            raise nothing_runs(preparer.failures, work.places, work.calls[0].program)
        design = calibrated(work, runner, ready)
        if work.calls[0].program and (note := too_short(design, runner.inspections, runner.left_s)):
            work.progress.note(note)
        stopped = measure(runner, design, _labels(ready), work.judging)
    except KeyboardInterrupt:
        work.progress.note("Interrupted; everything measured so far is kept.")
    labels = _labels(ready)
    return Outcome(
        stacks=tuple(each.chosen for each in ready),
        compared=labels,
        labels=labels,
        failures=tuple(preparer.failures),
        untried=max(0, work.plan.choices - len(ready) - len(preparer.failures)),
        stopped=stopped,
    )


def _prepare(work: Work, preparer: Preparer, runner: Runner, ready: list[Ready]) -> None:
    """Fill ``ready``; a full disk or a lost engine ends it, and those that are ready go on."""
    try:
        for each in preparer.prepare(work.options.stacks, until=_enough(work, runner)):
            ready.append(each)  # noqa: PERF402 # Ctrl-C must not lose those that are ready
    except (StorageError, EngineError) as error:
        if len(ready) < 2:
            raise
        work.progress.note(f"No further stacks: {error.what} ({error.why})")


def _enough(work: Work, runner: Runner) -> Callable[[int], bool]:
    """Return what ends building early: measuring needs its share of the budget.

    One stack alone answers nothing, so the second may take as long again as the whole budget.
    """
    share = (1 - BUILD_SHARE) * work.options.budget_s
    return lambda working: runner.left_s < (share if working >= 2 else -work.options.budget_s)


def _tell_estimate(work: Work) -> None:
    found = work.plan.estimate
    if found.wheels:
        work.progress.note(
            f"To come: {found.wheels} wheels, {found.download_bytes / 1e9:.2f} GB to download, "
            f"about {found.disk_bytes / 1e9:.1f} GB on disk ({found.free_bytes / 1e9:.0f} GB "
            f"free) and {max(1, round(found.seconds / 60))} min until measuring begins."
        )


def calibrated(work: Work, runner: Runner, ready: Sequence[Ready]) -> Design:
    """Return what the blocks hold, once the reference (the first) told the numbers of loops."""
    reference, *challengers = (each.environment for each in ready)
    return Design(
        campaign_id=runner.campaign.id,
        seed=work.options.seed,
        reference=reference,
        challengers=tuple(challengers),
        calls=work.calls,
        control=work.control,
        loops=runner.calibrate(reference, (*work.calls, work.control)),
        limits=runner.limits,
        own_limits=runner.own_limits,
    )


def _labels(ready: Sequence[Ready]) -> dict[StackId, str]:
    return {each.chosen.stack_id: each.chosen.label for each in ready}
