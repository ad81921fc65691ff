"""From everything that a campaign recorded to its report."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from stackgen import interrupts
from stackgen.errors import EvidenceError, MeasurementError
from stackgen.measure import controls, rank, set_aside
from stackgen.measure.conclusion import conclusion
from stackgen.measure.costs import costs, gives_figure, reference_times, scaled
from stackgen.measure.memory import peak_memory
from stackgen.pipeline.campaign import Runner
from stackgen.pipeline.failing import failed_in_blocks
from stackgen.pipeline.measuring import Stopped
from stackgen.pipeline.work import Work
from stackgen.values import (
    ChosenStack,
    Control,
    ExploreReport,
    FailedStack,
    Ranked,
    SearchReport,
    StackId,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How the stacks of a campaign fared.

    stacks: those that run, the reference first.
    compared: labels of the stacks whose effects are reported.
    labels: of all stacks that took part.
    failures: what does not run.
    untried: choices that nothing was measured of.
    """

    stacks: tuple[ChosenStack, ...]
    compared: Mapping[StackId, str]
    labels: Mapping[StackId, str]
    failures: tuple[FailedStack, ...]
    untried: int
    stopped: Stopped
    search: SearchReport | None = None


def report(work: Work, runner: Runner, found: Outcome) -> ExploreReport:
    """Return what an exploration found."""
    seen, calls = runner.inspections, work.calls
    disturbed = set_aside(seen)
    ranking: tuple[Ranked, ...] = ()
    checked: tuple[Control, ...] = ()
    if found.stacks:
        reference = found.stacks[0].stack_id
        ranking = rank(
            seen,
            labels=found.compared,
            reference=reference,
            calls=calls,
            margin=work.options.margin,
            weights=work.weights,
        )
        checked = controls(seen, reference=reference, calls=calls, pure=work.control)
    for call in calls:
        if call.id in work.metered.per_hour and gives_figure(seen, call.id):
            work.progress.note(f"{call.label} has no cost: it gives a figure in place of a time.")
    told = ExploreReport(
        plan=work.plan,
        memory=peak_memory(seen, (call.id for call in calls)),
        figures=tuple(call.id for call in calls if gives_figure(seen, call.id)),
        reference_s=reference_times(seen, calls),
        checks=tuple(
            (call.id, call.program.check) for call in calls if call.program and call.program.check
        ),
        stacks=found.stacks,
        failed=(*found.failures, *failed_in_blocks(runner, found.labels, calls)),
        ranking=ranking,
        controls=checked,
        indicators=tuple((call.id, call.label) for call in (*calls, work.control)),
        blocks=found.stopped.blocks,
        new_inspections=runner.added,
        seconds=time.monotonic() - work.start,
        untried=found.untried,
        stopped=found.stopped.why,
        interrupted=found.stopped.interrupted,
        exit_code=_exit_code(found.stopped, ranking, checked),
        knowledge_base=str(work.places.knowledge),
        margin=work.options.margin,
        costs=costs(seen, ranking=ranking, calls=calls, per_hour=work.metered.per_hour),
        currency=work.metered.currency,
        scaled=scaled(seen, ranking=ranking, counts=work.metered.counts),
        search=found.search,
        weights=tuple(work.weights.items()),
        aside=tuple(disturbed.blocks.values()),
        tolerated=tuple(disturbed.tolerated.values()),
    )
    answer = conclusion(told)
    winner = "" if answer.winner is None else answer.winner.stack_id
    return replace(told, answer=answer.answer.value, winner=winner)


def _exit_code(stopped: Stopped, ranking: Sequence[Ranked], checked: Sequence[Control]) -> int:
    """Return the exit code that tells a script how far to trust the report."""
    if stopped.interrupted:
        return interrupts.exit_code()
    if stopped.error is not None:
        return stopped.error.exit_code
    if any(control.failed for control in checked):
        return MeasurementError.exit_code
    answered = any(effect.low > 0 for row in ranking if row.counts for effect in row.effects)
    return 0 if answered else EvidenceError.exit_code
