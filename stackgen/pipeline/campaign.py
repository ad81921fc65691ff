"""The inspections of a campaign: stacks are tried, indicators calibrated, blocks run.

Everything is written to the knowledge base as it happens, and read back from it: a campaign that
was interrupted, even killed, goes on where it was.
"""

import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from stackgen.database import Database
from stackgen.errors import (
    EngineError,
    IndexRefusalError,
    IndexUnavailableError,
    MeasurementError,
)
from stackgen.executors import Executor
from stackgen.knowledge import blames_damaged_cache
from stackgen.measure import calibration_plan
from stackgen.pipeline.host import Host
from stackgen.pipeline.patience import Patience
from stackgen.pipeline.progress import Progress
from stackgen.values import (
    Campaign,
    Environment,
    IndicatorCall,
    IndicatorId,
    Inspection,
    InspectionId,
    InspectionPlan,
    Kind,
    Limits,
    Outcome,
    Role,
    Stack,
    StackId,
)

Clock = Callable[[], float]
Build = Callable[[Stack, str], Environment]
PlanBlock = Callable[[int, Sequence[Environment]], Sequence[InspectionPlan]]

LASTING = (
    Outcome.OK,
    Outcome.UNSUPPORTED,
    Outcome.IMPORT_FAILED,
    Outcome.CRASHED,
    Outcome.INVALID_OUTPUT,
)
"""What a stack's own interpreter ended with would be the same again: it is never tried again."""
DOUBTFUL = (
    Outcome.TIMEOUT,
    Outcome.OUT_OF_MEMORY,
    Outcome.BUILD_FAILED,
    Outcome.HASH_MISMATCH,
)
"""What a busy or full machine, or a spoilt copy, may have caused: a later run tries it once more.

Seen twice, it is the stack's own. Nothing but infrastructure faults is tried twice in one run.
"""
_EXIT_CODE = re.compile(r"exit code \d+")
_KILLED = "killed by SIGKILL"  # not by itself: by somebody, mostly by a kernel without memory


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
    patience: Patience
    progress: Progress
    deadline: float
    clock: Clock = time.monotonic
    rebuild: bool = False
    own_limits: Mapping[IndicatorId, Limits] = field(default_factory=dict)
    added: int = 0
    _past: list[Inspection] = field(default_factory=list)
    _own: set[InspectionId] = field(default_factory=set)
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
        self._own.add(inspection.id)
        self.added += 1
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
        """Return how trying a stack ended before, where trying it again would tell nothing."""
        past = [
            each
            for each in self._past
            if (each.stack_id, each.indicator_id) == (stack, call.id)
            and each.role is Role.CALIBRATION
            and not self._forgiven(each)
        ]
        lasting = [each for each in past if each.outcome in LASTING and not _doubtful(each)]
        doubtful = [each for each in past if _doubtful(each)]
        if lasting:
            return min(lasting, key=lambda each: each.outcome is not Outcome.OK)
        twice = len(doubtful) > 1 or any(each.id in self._own for each in doubtful)
        return doubtful[-1] if twice else None

    def _forgiven(self, past: Inspection) -> bool:
        """Return whether a build that failed in an earlier run is tried again, however often.

        The user wants it, or the cache was to blame.
        """
        again = self.rebuild or blames_damaged_cache(past)
        return again and past.outcome is Outcome.BUILD_FAILED and past.id not in self._own

    def environment(self, stack: Stack, label: str) -> Environment:
        """Return a stack's environment; an index or an engine that is gone is waited for.

        Raises:
            StackgenError: it cannot be built, or the patience of this run is over.
        """
        while True:
            try:
                made = self.build(stack, label)
            except IndexRefusalError:
                raise
            except (IndexUnavailableError, EngineError) as error:
                if not self.patience.pause(error, at_most_s=self.left_s):
                    raise
            else:
                self.patience.over()
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
            if ran.outcome is not Outcome.ENGINE_LOST:
                return ran
            (environment,) = self._restored((environment,), _lost(environment, ran))

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
        """Return the first failure of each stack that failed while it was measured."""
        ids = {call.id for call in calls}
        found: dict[StackId, Inspection] = {}
        for each in self._past:
            own = each.outcome is not Outcome.OK and not each.outcome.is_infrastructure
            if each.block and each.indicator_id in ids and own:
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
                self.progress.doing(
                    f"measuring block {block}, {_minutes(self.left_s)} of the budget left",
                    done=done,
                    total=len(plans),
                )
                if inspection.outcome is Outcome.ENGINE_LOST:
                    raise _lost(each.environment, inspection)
            return self.clock() - start

    def _restored(
        self, environments: Sequence[Environment], problem: EngineError
    ) -> tuple[Environment, ...]:
        """Wait for a lost engine, and make environments again where they are gone.

        Raises:
            EngineError: what was lost at first; the patience of this run is over.
        """
        if not self.patience.pause(problem, at_most_s=self.left_s):
            raise problem
        try:
            return tuple(
                self.environment(each.stack, f"stack {each.stack.id[:12]} again")
                for each in environments
            )
        except EngineError as error:
            raise problem from error

    def _catch_up(self) -> None:
        """Read what other processes with the same command have recorded meanwhile."""
        if self.database.count_inspections(self.campaign.id) != len(self._past):
            self._past = list(self.database.inspections(campaign=self.campaign.id))


def _doubtful(inspection: Inspection) -> bool:
    killed = inspection.outcome is Outcome.CRASHED and _KILLED in inspection.log
    return killed or inspection.outcome in DOUBTFUL


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
