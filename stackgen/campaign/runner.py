"""The inspections of a campaign: stacks are tried, indicators calibrated, blocks run.

Everything is written to the knowledge base as it happens, and read back from it: a campaign that
was interrupted, even killed, goes on where it was.
"""

import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from stackgen.campaign.host import Host, RetryPolicy
from stackgen.errors import EngineError, IndexRefusalError, IndexUnavailableError, MeasurementError
from stackgen.executors import Executor
from stackgen.knowledge import blames_damaged_cache
from stackgen.knowledge.database import Database
from stackgen.measure import calibration_plan
from stackgen.measure.retry_policy import (
    Cause,
    blamed,
    cause_of,
    idle_blocks,
    killed_again_and_again,
    known_trial,
    nothing_runs,
)
from stackgen.model.evidence import Campaign
from stackgen.model.identity import IndicatorId, InspectionId, StackId
from stackgen.model.inspections import (
    IndicatorCall,
    Inspection,
    InspectionPlan,
    Limits,
    Outcome,
    Role,
)
from stackgen.model.progress import Progress
from stackgen.model.stacks import Environment, Kind, Stack

Clock = Callable[[], float]
Build = Callable[[Stack, str], Environment]
PlanBlock = Callable[[int, Sequence[Environment]], Sequence[InspectionPlan]]

_EXIT_CODE = re.compile(r"exit code \d+")


@dataclass(slots=True, kw_only=True)
class Runner:
    """Runs inspections of one campaign and records each before the next one starts.

    own_limits: of the calls that do not run under ``limits``.
    build: makes (again) the environment of a stack, which a label names for the user.
    deadline: on ``clock``, when the budget is spent; what was waited for others comes on top.
    rebuild: what failed to be built in earlier runs is built again.
    added: how many inspections this run has recorded.
    """

    database: Database
    executor: Executor
    campaign: Campaign
    limits: Limits
    host: Host
    build: Build
    retry_policy: RetryPolicy
    progress: Progress
    deadline: float
    clock: Clock = time.monotonic
    rebuild: bool = False
    own_limits: Mapping[IndicatorId, Limits] = field(default_factory=dict)
    added: int = 0
    _past: list[Inspection] = field(default_factory=list)
    _run: list[Inspection] = field(default_factory=list)
    _own: set[InspectionId] = field(default_factory=set)
    _labels: dict[StackId, str] = field(default_factory=dict)
    _told: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self._catch_up()

    @property
    def inspections(self) -> Sequence[Inspection]:
        """Return everything that this campaign has recorded, earlier runs included."""
        return self._past

    @property
    def left_s(self) -> float:
        """Return how much of the budget is left, in seconds."""
        return self.deadline + self.host.waited_s - self.clock()

    def record(self, inspection: Inspection) -> None:
        """Write an inspection down for good."""
        self.database.add_inspection(inspection)
        self._past.append(inspection)
        self._run.append(inspection)
        self._own.add(inspection.id)
        self.added += 1
        if inspection.outcome is Outcome.OK:
            self.retry_policy.engine_works()
        self._tell_unenforced(inspection)

    def _tell_unenforced(self, inspection: Inspection) -> None:
        """Say, once each, what is not enforced here while packages run."""
        new = [each for each in inspection.unenforced if each not in self._told]
        if new:
            self._told.update(new)
            self.progress.note(
                f"Packages run here without: {', '.join(new)} (stackgen doctor tells what helps)."
            )

    def known(self, stack: StackId, call: IndicatorCall) -> Inspection | None:
        """Return how trying a stack ended before, where the retry policy does not repeat it."""
        trials = [
            each
            for each in self._past
            if (each.stack_id, each.indicator_id) == (stack, call.id)
            and each.role is Role.CALIBRATION
            and not self._forgiven(each)
        ]
        if not trials:
            return None
        ran = any(e.outcome is Outcome.OK and e.indicator_id == call.id for e in self._past)
        return known_trial(trials, current=self._own, anything_ran=ran)

    def killed(self, calls: Sequence[IndicatorCall]) -> Mapping[StackId, Inspection]:
        """Return the stacks that this run leaves out because they are killed again and again."""
        return killed_again_and_again(self._run, calls)

    def refuse_idle(self, calls: Sequence[IndicatorCall], *, reference: StackId) -> None:
        """Refuse to go on where nothing runs on this machine any more.

        Raises:
            MeasurementError: nothing does; the same command tries again.
        """
        last = nothing_runs(self._run, calls, reference=reference)
        if last is None:
            return
        name = next(call.label for call in calls if call.id == last.indicator_id)
        raise MeasurementError(
            f"no stack ran {name} in block {last.block}",
            why=f"{last.outcome.value} in block {last.block}: {telling_line(last.log)}",
            fix="look at the machine (memory, disk, processes that end others), then run the same "
            "command again: no stack is blamed for it",
        )

    def _forgiven(self, past: Inspection) -> bool:
        """Return whether a build that failed in an earlier run is tried again, however often.

        The user wants it, or the cache was to blame.
        """
        again = self.rebuild or blames_damaged_cache(past)
        return again and past.outcome is Outcome.BUILD_FAILED and past.id not in self._own

    def environment(self, stack: Stack, label: str) -> Environment:
        """Return a stack's environment; an index or an engine that is gone is waited for.

        Raises:
            StackgenError: it cannot be built, or the retry policy of this run gives up.
        """
        self._labels.setdefault(stack.id, label)
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

    def trial(self, environment: Environment, call: IndicatorCall) -> Inspection:
        """Return how one calibration run of an indicator on a stack ended, now or before.

        Raises:
            EngineError: the engine went away, and did not come back.
        """
        while True:
            with self.host.measuring(self.progress):
                # Another process with the same command may have been faster.
                self._catch_up()
                past = self.known(environment.stack.id, call)
                if past is not None:
                    return past
                limits = self.own_limits.get(call.id, self.limits)
                plan = calibration_plan(
                    environment, call, campaign_id=self.campaign.id, limits=limits
                )
                (ran,) = self.executor.inspect([plan])
                self.record(ran)
            if ran.outcome is Outcome.ENGINE_LOST:
                (environment,) = self._restored((environment,), _lost(environment, ran))
            elif not self.again_after_kill(ran, self.known(environment.stack.id, call)):
                return ran

    def again_after_kill(self, ran: Inspection, known: Inspection | None) -> bool:
        """Return whether what was tried is tried again at once: it was killed, and not too often.

        Args:
            ran: how it ended.
            known: the same where it is known for the rest of this run.
        """
        if cause_of(ran) is not Cause.KILLED or known is not None:
            return False
        problem = MeasurementError(
            f"{self._label(ran.stack_id)} was stopped while it was built or tried",
            why=_ending(ran),
            fix="run the same command again",
        )
        if not self.retry_policy.pause(problem, at_most_s=self.left_s):
            self.progress.note(f"{problem.what} ({problem.why}); trying again.")
        return True

    def calibrate(
        self, environment: Environment, calls: Sequence[IndicatorCall]
    ) -> dict[IndicatorId, int]:
        """Return the number of loops of each indicator, found on the reference.

        Raises:
            MeasurementError: an indicator does not run on the reference.
            EngineError: the engine went away.
        """
        loops = {}
        for call in calls:
            self.progress.doing(f"calibrating {call.indicator.name}")
            ran = self.trial(environment, call)
            if ran.observation is None:
                raise MeasurementError(
                    f"{call.label} does not run on the reference stack",
                    why=f"{ran.outcome.value}: {telling_line(ran.log)}",
                    fix="choose another indicator with --pi (stackgen pis lists them)",
                )
            loops[call.id] = ran.observation.loops
        return loops

    def failed_in_blocks(self, calls: Sequence[IndicatorCall]) -> tuple[Inspection, ...]:
        """Return the failure of each stack that is left out of blocks, first its own ones."""
        found: dict[StackId, Inspection] = {}
        for each in (*blamed(self._past, calls), *self.killed(calls).values()):
            found.setdefault(each.stack_id, each)
        return tuple(found.values())

    def run_block(
        self, environments: Sequence[Environment], plan: PlanBlock
    ) -> tuple[tuple[Environment, ...], float]:
        """Run a block; return its environments for the next one, and how many seconds it took.

        An engine that was lost, or an environment that was removed, is had again first; the block
        then counts as one that took no time.

        Args:
            environments: what the block needs.
            plan: from its number and the environments to its inspections.

        Raises:
            EngineError: the engine went away, and did not come back.
        """
        try:
            return tuple(environments), self._run_block(environments, plan)
        except EngineError as error:
            return self._restored(environments, error), 0.0

    def _run_block(self, environments: Sequence[Environment], plan: PlanBlock) -> float:
        """Run the next block; return how many seconds it took, waiting for others left out.

        Raises:
            EngineError: the engine went away.
        """
        with self.host.measuring(self.progress):
            start = self.clock()
            self._catch_up()
            block = self.database.last_block(self.campaign.id) + 1
            plans = plan(block, environments)
            results = zip(plans, self.executor.inspect(plans), strict=True)
            for done, (each, inspection) in enumerate(results, start=1):
                self.record(inspection)
                self._tell_kill(inspection)
                self.progress.doing(
                    f"measuring block {block}, {_minutes(self.left_s)} of the budget left",
                    done=done,
                    total=len(plans),
                )
                if inspection.outcome is Outcome.ENGINE_LOST:
                    raise _lost(each.environment, inspection)
            return self.clock() - start

    def _tell_kill(self, inspection: Inspection) -> None:
        """Say that a process was killed, and that a later block takes its place."""
        if cause_of(inspection) is Cause.KILLED:
            self.progress.note(
                f"{self._label(inspection.stack_id)} was stopped in block {inspection.block} "
                f"({_ending(inspection)}, not by stackgen): this block lacks it, and it is "
                "measured again."
            )

    def _label(self, stack: StackId) -> str:
        return self._labels.get(stack, f"stack {stack[:12]}")

    def pause_after_idle_block(self, calls: Sequence[IndicatorCall]) -> bool:
        """Wait where nothing ran in the last block (memory may be free again); return if so."""
        for call in calls:
            if idle := idle_blocks(self._run, call):
                problem = MeasurementError(
                    f"everything was stopped in block {idle[0][-1].block}",
                    why=_ending(idle[0][-1]),
                    fix="run the same command again",
                )
                self.retry_policy.pause(problem, at_most_s=self.left_s)
                return True
        return False

    def _restored(
        self, environments: Sequence[Environment], problem: EngineError
    ) -> tuple[Environment, ...]:
        """Wait for a lost engine, and make environments again where they are gone.

        Raises:
            EngineError: what was lost at first, where the retry policy of this run gives up.
        """
        if not self.retry_policy.pause(problem, at_most_s=self.left_s):
            raise problem
        try:
            return tuple(
                self.environment(each.stack, f"{self._label(each.stack.id)} again")
                for each in environments
            )
        except EngineError as error:
            raise problem from error

    def _catch_up(self) -> None:
        """Read what other processes with the same command have recorded meanwhile."""
        if self.database.count_inspections(self.campaign.id) != len(self._past):
            self._past = list(self.database.inspections(campaign=self.campaign.id))


def _ending(inspection: Inspection) -> str:
    """Return how a process was killed, as the last line of its log says."""
    return inspection.log.rstrip().rpartition("\n")[2]


def _lost(environment: Environment, inspection: Inspection) -> EngineError:
    docker = environment.kind is Kind.DOCKER
    return EngineError(
        "the container engine went away" if docker else "an environment went away",
        why=telling_line(inspection.log),
        fix=("start it and " if docker else "")
        + "run the same command again; everything measured is kept",
    )


def telling_line(log: str) -> str:
    """Return the last line of a log that says something, for a report."""
    lines = [line.strip() for line in log.splitlines() if line.strip()]
    errors = [line for line in lines if "Error" in line]
    if not errors and len(lines) > 1 and _EXIT_CODE.fullmatch(lines[-1]):
        return f"{lines[-1]}: {lines[-2]}"[:200]
    return (errors or lines or ["it printed nothing"])[-1][:200]


def _minutes(seconds: float) -> str:
    seconds = max(0, round(seconds))
    return f"{seconds // 60} min {seconds % 60} s" if seconds >= 60 else f"{seconds} s"
