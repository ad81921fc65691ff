"""One run of a campaign: what is lost or killed is had again, as long as its budget lasts."""

import random
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from stackgen.campaign.runner import (
    BlockRunner,
    Budget,
    PlanBlock,
    Record,
    StoredBlock,
    ending_line,
    last_line,
)
from stackgen.errors import (
    EngineError,
    IndexRefusalError,
    IndexUnavailableError,
    MeasurementError,
    StackgenError,
)
from stackgen.measure import calibration_plan
from stackgen.measure.retry_policy import FailureCause, cause_of, idle_blocks
from stackgen.model.identity import IndicatorId
from stackgen.model.inspections import IndicatorCall, Inspection, InspectionPlan, Limits
from stackgen.model.progress import Progress
from stackgen.model.stacks import Environment, Stack

FIRST_PAUSE_S, LONGEST_PAUSE_S = 2.0, 10.0
MOST_S, SHARE = 60.0, 0.1
ENGINE_S = 60.0
"""How long an engine may be away each time: without it nothing at all can go on."""
_LEAST_S = 0.01


def allowance_s(budget_s: float) -> float:
    """Return how long one run may wait for indexes in all: a tenth of its budget, a minute at most.

    What comes back at all (an index behind a proxy that restarts) is back by then, and meanwhile
    the stacks that are ready wait; the same command goes on afterwards.
    """
    return min(MOST_S, SHARE * budget_s)


@dataclass(slots=True, kw_only=True)
class RetryPolicy:
    """The pauses of one run: 2, 4, 8, 10, 10, ... seconds, each spread by a seeded half.

    left_s: for how long it may still pause for anything but an engine. The first thing that is gone
        uses it up, so that a dead index is not waited for again at each further stack.
    engine_s: for how long it waits each time that an engine goes away.
    dice: spreads the pauses of several runs that lost the same thing; seeded with the campaign.
    """

    left_s: float
    dice: random.Random
    progress: Progress
    sleep: Callable[[float], None] = time.sleep
    engine_s: float = ENGINE_S
    _tries: int = 0
    _engine_left_s: float = field(init=False)

    def __post_init__(self) -> None:
        self._engine_left_s = self.engine_s

    def pause(self, problem: StackgenError, *, at_most_s: float) -> bool:
        """Say what is wrong and wait before another try; False where it is time to give up.

        Args:
            at_most_s: what is left of the budget.
        """
        is_engine = isinstance(problem, EngineError)
        wanted = min(LONGEST_PAUSE_S, FIRST_PAUSE_S * 2**self._tries)
        allowed = self._engine_left_s if is_engine else self.left_s
        pause_s = min(wanted * self.dice.uniform(0.5, 1.5), allowed, at_most_s)
        if pause_s < _LEAST_S:
            return False
        self._tries += 1
        if is_engine:
            self._engine_left_s -= pause_s
        else:
            self.left_s -= pause_s
        why = problem.why.splitlines()[0] if problem.why else problem.what
        self.progress.note(f"{problem.what} ({why}); trying again in {pause_s:.1f} s.")
        self.sleep(pause_s)
        return True

    def over(self) -> None:
        """Note that it works again: the next pause is a short one."""
        self._tries = 0

    def engine_works(self) -> None:
        """Note that a process ran: an engine that goes away again is waited for as long."""
        self._tries = 0
        self._engine_left_s = self.engine_s


BuildStack = Callable[[Stack, str], Environment]
"""Makes (again) the environment of a stack, which a label names for the user."""


@dataclass(slots=True, kw_only=True)
class Session:
    """Builds, tries and measures stacks, with the retry policy of one run of a command.

    own_limits: of the calls that do not run under ``limits``.
    """

    record: Record
    block_runner: BlockRunner
    build: BuildStack
    retry_policy: RetryPolicy
    budget: Budget
    progress: Progress
    limits: Limits
    own_limits: Mapping[IndicatorId, Limits] = field(default_factory=dict)

    @property
    def inspections(self) -> Sequence[Inspection]:
        """Return everything that this campaign has recorded, earlier runs included."""
        return self.record.inspections

    @property
    def left_s(self) -> float:
        """Return how much of the budget is left, in seconds."""
        return self.budget.left_s

    def environment(self, stack: Stack, label: str) -> Environment:
        """Return a stack's environment; an index or an engine that is gone is waited for.

        Raises:
            StackgenError: it cannot be built, or the retry policy gives up.
        """
        self.record.labels.setdefault(stack.id, label)
        while True:
            try:
                made = self.build(stack, label)
            except IndexRefusalError:
                raise
            except (IndexUnavailableError, EngineError) as error:
                if not self.retry_policy.pause(error, at_most_s=self.left_s):
                    raise
            else:
                self.retry_policy.over()
                return made

    def run_block(
        self, environments: Sequence[Environment], plan: PlanBlock
    ) -> tuple[tuple[Environment, ...], StoredBlock]:
        """Run a block; return its environments for the next one, and what was stored.

        An engine that was lost, or an environment that was removed, is had again first; the block
        then counts as an empty one that took no time.

        Raises:
            EngineError: the engine went away, and did not come back.
        """
        before = self.record.ran
        try:
            return tuple(environments), self.block_runner.run_block(plan)
        except EngineError as error:
            problem = error
        finally:
            if self.record.ran > before:
                self.retry_policy.engine_works()
        if not self.retry_policy.pause(problem, at_most_s=self.left_s):
            raise problem
        try:
            again = tuple(
                self.environment(each.stack, f"{self.record.label(each.stack.id)} again")
                for each in environments
            )
        except EngineError as error:
            raise problem from error
        return again, StoredBlock(inspections=(), seconds=0.0)

    def trial(self, environment: Environment, call: IndicatorCall) -> Inspection:
        """Return how one calibration run of an indicator on a stack ended, now or before.

        Raises:
            EngineError: the engine went away, and did not come back.
        """
        stack = environment.stack.id

        def plan(_: int) -> tuple[InspectionPlan, ...]:
            if self.record.known(stack, call):  # another process with the same command was faster
                return ()
            limits = self.own_limits.get(call.id, self.limits)
            campaign = self.record.campaign.id
            return (calibration_plan(environment, call, campaign_id=campaign, limits=limits),)

        if (known := self.record.known(stack, call)) is not None:
            return known  # without waiting for others
        while True:
            (environment,), block = self.run_block((environment,), plan)
            known = self.record.known(stack, call)
            if block.inspections:
                (ran,) = block.inspections
                if not self.again_after_kill(ran, known):
                    return ran
            elif known is not None:
                return known

    def again_after_kill(self, ran: Inspection, known: Inspection | None) -> bool:
        """Return whether what was tried is tried again at once: it was killed, and not too often.

        Args:
            ran: how it ended.
            known: the same where it is known for the rest of this run.
        """
        if cause_of(ran) is not FailureCause.KILLED or known is not None:
            return False
        problem = MeasurementError(
            f"{self.record.label(ran.stack_id)} was stopped while it was built or tried",
            why=ending_line(ran),
            fix="run the same command again",
        )
        if not self.retry_policy.pause(problem, at_most_s=self.left_s):
            self.progress.note(f"{problem.what} ({problem.why}); trying again.")
        return True

    def calibrate(
        self, environment: Environment, calls: Sequence[IndicatorCall]
    ) -> dict[IndicatorId, int]:
        """Return the number of loops of each indicator, found on the baseline.

        Raises:
            MeasurementError: an indicator does not run on the baseline.
            EngineError: the engine went away.
        """
        loops = {}
        for call in calls:
            self.progress.doing(f"calibrating {call.indicator.name}")
            ran = self.trial(environment, call)
            if ran.observation is None:
                raise MeasurementError(
                    f"{call.label} does not run on the baseline stack",
                    why=f"{ran.outcome.value}: {last_line(ran.log)}",
                    fix="choose another indicator with --pi (stackgen pis lists them)",
                )
            loops[call.id] = ran.observation.loops
        return loops

    def pause_after_idle_block(self, calls: Sequence[IndicatorCall]) -> bool:
        """Wait where nothing ran in the last block (memory may be free again); return if so."""
        for call in calls:
            if idle := idle_blocks(self.record.this_run(), call):
                problem = MeasurementError(
                    f"everything was stopped in block {idle[0][-1].block}",
                    why=ending_line(idle[0][-1]),
                    fix="run the same command again",
                )
                self.retry_policy.pause(problem, at_most_s=self.left_s)
                return True
        return False
