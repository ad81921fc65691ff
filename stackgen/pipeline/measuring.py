"""Measure stacks against the reference, block after block, until every comparison is decided."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from stackgen.errors import MeasurementError, StackgenError
from stackgen.measure import LOOKS, Design, decided, fewest_blocks, plan_block, rank
from stackgen.measure.retry_policy import Cause, cause_of
from stackgen.pipeline.campaign import Runner, telling_line
from stackgen.values import (
    Environment,
    IndicatorId,
    Inspection,
    InspectionPlan,
    Ranked,
    Role,
    StackId,
)

ALL_FAILED = "every other stack failed while it was measured"


@dataclass(frozen=True, slots=True, kw_only=True)
class Stopped:
    """Why measuring ended, and how many blocks there are now."""

    blocks: int
    why: str
    interrupted: bool = False
    error: StackgenError | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Judging:
    """How observations are judged.

    margin: a relative difference that nobody cares about.
    weights: of the indicators, where the user gave any; 1 where none is given.
    """

    margin: float
    weights: Mapping[IndicatorId, float]


def measure(
    runner: Runner, design: Design, labels: Mapping[StackId, str], judging: Judging
) -> Stopped:
    """Run blocks until every comparison is decided, the budget is spent, or Ctrl-C.

    A stack that failed in a block takes part in no further one. What stops it all is
    returned, never raised: everything recorded until then can be reported.

    Args:
        runner: what runs and records inspections.
        design: what a block holds.
        labels: of the stacks in the design.
        judging: how they are compared.
    """
    if not design.challengers:
        return stopped(runner, "only one stack runs here, and there is nothing to compare it with")
    longest = 0.0
    while True:
        ranking = ranked(runner, design, labels, judging)
        try:
            runner.refuse_idle(design.calls, reference=design.reference.stack.id)
            design = _without_failed(runner, design, ranking)
        except MeasurementError as error:
            return stopped_by(runner, error)
        if not design.challengers:
            return stopped(runner, ALL_FAILED)
        ranking = _taking_part(ranking, design)
        if decided(ranking, design.calls):
            return stopped(runner, "every comparison is decided")
        if fewest_blocks(ranking, design.calls) >= LOOKS[-1]:
            return stopped(runner, f"{LOOKS[-1]} blocks are the most ever taken")
        # One block is always run: with none, all that was built would show nothing.
        if runner.left_s <= longest and _has_compared(runner):
            return stopped(runner, "the budget is spent")
        try:
            runner.pause_after_idle_block(design.calls)
            design, took_s = _next_block(runner, design)
            longest = max(longest, took_s)
        except KeyboardInterrupt:
            return stopped(runner, "you interrupted it", interrupted=True)
        except StackgenError as error:
            return stopped_by(runner, error)


def _has_compared(runner: Runner) -> bool:
    return any(each.block and each.role is not Role.SEARCH for each in runner.inspections)


def stopped_by(runner: Runner, error: StackgenError) -> Stopped:
    """Return that measuring ended with an error."""
    return stopped(runner, error.what, error=error)


def stopped(
    runner: Runner, why: str, *, interrupted: bool = False, error: StackgenError | None = None
) -> Stopped:
    """Return why measuring ended, with the number of blocks so far."""
    blocks = max((each.block for each in runner.inspections), default=0)
    return Stopped(blocks=blocks, why=why, interrupted=interrupted, error=error)


def ranked(
    runner: Runner, design: Design, labels: Mapping[StackId, str], judging: Judging
) -> tuple[Ranked, ...]:
    """Return the ranking that the evidence allows now."""
    return rank(
        runner.inspections,
        labels=labels,
        reference=design.reference.stack.id,
        calls=design.calls,
        margin=judging.margin,
        weights=judging.weights,
    )


def _without_failed(runner: Runner, design: Design, ranking: Sequence[Ranked]) -> Design:
    """Leave out what failed in a block, for good, and what is killed again and again, for now.

    Raises:
        MeasurementError: the reference is among them, and nothing can be compared with it.
    """
    failed = {row.stack_id for row in ranking if row.failures} | runner.killed(design.calls).keys()
    refuse_failed_reference(runner, design, failed)
    left = tuple(each for each in design.challengers if each.stack.id not in failed)
    return replace(design, challengers=left)


def _taking_part(ranking: Sequence[Ranked], design: Design) -> tuple[Ranked, ...]:
    """Return the rows of the stacks that further blocks hold."""
    stacks = {each.stack.id for each in (design.reference, *design.challengers)}
    return tuple(row for row in ranking if row.stack_id in stacks)


def refuse_failed_reference(runner: Runner, design: Design, failed: set[StackId]) -> None:
    """Explain that nothing can be compared with a stack that failed.

    Raises:
        MeasurementError: the reference is among the failed ones.
    """
    if design.reference.stack.id not in failed:
        return
    first = next(
        each
        for each in runner.failed_in_blocks(design.calls)
        if each.stack_id == design.reference.stack.id
    )
    raise MeasurementError(
        "the stack that all others are compared with failed while it was measured",
        why=f"{first.outcome.value} in block {first.block}: {telling_line(first.log)}",
        fix=_fix(first, design.seed),
    )


def _fix(failure: Inspection, seed: int) -> str:
    if cause_of(failure) is Cause.KILLED:
        return (
            "find out what ends it (too little free memory?), then run the same command again: it "
            "goes on with this stack"
        )
    return (
        "run the same command again: the next stack that runs takes its place, where there is one; "
        f"or begin anew with --seed {seed + 1}; stackgen kb failures has more"
    )


def _next_block(runner: Runner, design: Design) -> tuple[Design, float]:
    """Run a block; return the design for the next one, and how many seconds it took.

    Raises:
        EngineError: the engine went away, and did not come back.
    """

    def plan(block: int, environments: Sequence[Environment]) -> tuple[InspectionPlan, ...]:
        reference, *others = environments
        now = replace(design, reference=reference, challengers=tuple(others))
        return plan_block(now, block)

    environments, took_s = runner.run_block((design.reference, *design.challengers), plan)
    reference, *others = environments
    return replace(design, reference=reference, challengers=tuple(others)), took_s
