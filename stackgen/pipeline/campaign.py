"""Run a campaign: try stacks, calibrate, then measure block after block within a budget.

Everything is written to the knowledge base as it happens, and read back from it: a campaign that
was interrupted, even killed, goes on where it was.
"""

import fcntl
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from stackgen.database import Database
from stackgen.errors import EngineError, MeasurementError, StackgenError
from stackgen.executors import Executor
from stackgen.measure import (
    LOOKS,
    Design,
    calibration_plan,
    decided,
    fewest_blocks,
    plan_block,
    rank,
)
from stackgen.pipeline.progress import Progress
from stackgen.values import (
    Campaign,
    Environment,
    IndicatorCall,
    IndicatorId,
    Inspection,
    Limits,
    Outcome,
    Ranked,
    Role,
    StackId,
)

Clock = Callable[[], float]

LASTING = (Outcome.OK, Outcome.UNSUPPORTED, Outcome.IMPORT_FAILED, Outcome.CRASHED)
"""Outcomes of a trial that would be the same again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stopped:
    """Why measuring ended, and how many blocks there are now."""

    blocks: int
    why: str
    interrupted: bool = False
    error: StackgenError | None = None


@dataclass(slots=True, kw_only=True)
class Runner:
    """Runs inspections of one campaign and records each before the next one starts.

    deadline: on ``clock``, when the budget is spent.
    added: how many inspections this run has recorded.
    """

    database: Database
    executor: Executor
    campaign: Campaign
    limits: Limits
    measuring_lock: Path
    progress: Progress
    deadline: float
    clock: Clock = time.monotonic
    added: int = 0
    _past: list[Inspection] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._past = list(self.database.inspections(campaign=self.campaign.id))

    @property
    def inspections(self) -> Sequence[Inspection]:
        """Return everything that this campaign has recorded, earlier runs included."""
        return self._past

    @property
    def left_s(self) -> float:
        """Return how much of the budget is left, in seconds."""
        return self.deadline - self.clock()

    def record(self, inspection: Inspection) -> None:
        """Write an inspection down for good."""
        self.database.add_inspection(inspection)
        self._past.append(inspection)
        self.added += 1

    def trial(self, environment: Environment, call: IndicatorCall) -> Inspection:
        """Return how one calibration run of an indicator on a stack ended, now or before.

        A package's own faults never change; whatever the machine may have caused is tried again.
        """
        for past in self._past:
            same = (past.stack_id, past.indicator_id) == (environment.stack.id, call.id)
            if same and past.role is Role.CALIBRATION and past.outcome in LASTING:
                return past
        plan = calibration_plan(environment, call, campaign_id=self.campaign.id, limits=self.limits)
        with _alone(self.measuring_lock, self.progress):
            (inspection,) = self.executor.inspect([plan])
        self.record(inspection)
        if inspection.outcome is Outcome.ENGINE_LOST:
            raise _engine_lost(inspection)
        return inspection

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

    def measure(self, design: Design, labels: dict[StackId, str]) -> Stopped:
        """Run blocks until every comparison is decided, the budget is spent, or Ctrl-C.

        What stops it is returned, never raised: everything recorded until then can be reported.
        """
        if not design.challengers:
            return self._stopped(
                "only one stack runs here, and there is nothing to compare it with"
            )
        longest = 0.0
        while True:
            ranking = self.ranking(design, labels)
            if decided(ranking, design.calls):
                return self._stopped("every comparison is decided")
            if fewest_blocks(ranking, design.calls) >= LOOKS[-1]:
                return self._stopped(f"{LOOKS[-1]} blocks are the most ever taken")
            # One block is always run: with none, all that was built would show nothing.
            if self.left_s <= longest and any(each.block for each in self._past):
                return self._stopped("the budget is spent")
            try:
                longest = max(longest, self._run_block(design))
            except KeyboardInterrupt:
                return self._stopped("you interrupted it", interrupted=True)
            except StackgenError as error:
                return self._stopped(error.what, error=error)

    def _stopped(
        self, why: str, *, interrupted: bool = False, error: StackgenError | None = None
    ) -> Stopped:
        blocks = max((each.block for each in self._past), default=0)
        return Stopped(blocks=blocks, why=why, interrupted=interrupted, error=error)

    def ranking(self, design: Design, labels: dict[StackId, str]) -> tuple[Ranked, ...]:
        """Return the ranking that the evidence allows now."""
        reference = design.reference.stack.id
        return rank(self._past, labels=labels, reference=reference, calls=design.calls)

    def _run_block(self, design: Design) -> float:
        """Run the next block; return how many seconds it took, waiting for others left out.

        Raises:
            EngineError: the engine went away.
        """
        with _alone(self.measuring_lock, self.progress):
            start = self.clock()
            block = self.database.last_block(self.campaign.id) + 1
            plans = plan_block(design, block)
            for done, inspection in enumerate(self.executor.inspect(plans), start=1):
                self.record(inspection)
                self.progress.doing(
                    f"measuring block {block}, {_minutes(self.left_s)} of the budget left",
                    done=done,
                    total=len(plans),
                )
                if inspection.outcome is Outcome.ENGINE_LOST:
                    raise _engine_lost(inspection)
            return self.clock() - start


def _engine_lost(inspection: Inspection) -> EngineError:
    return EngineError(
        "the container engine went away",
        why=telling_line(inspection.log),
        fix="start it and run the same command again; everything measured is kept",
    )


@contextmanager
def _alone(path: Path, progress: Progress) -> Iterator[None]:
    """Keep every other stackgen on this machine from measuring at the same time."""
    with path.open("a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            progress.doing("waiting: another stackgen is measuring on this machine")
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def failed(
    environment_stack: StackId,
    runner: Runner,
    call: IndicatorCall,
    outcome: Outcome,
    *,
    started_at: str,
    log: str,
) -> Inspection:
    """Return the record of a stack that never came to run."""
    return Inspection(
        stack_id=environment_stack,
        machine_id=runner.campaign.machine_id,
        indicator_id=call.id,
        campaign_id=runner.campaign.id,
        block=0,
        position=0,
        role=Role.CALIBRATION,
        outcome=outcome,
        started_at=started_at,
        duration_s=0.0,
        log=log,
    )


def telling_line(log: str) -> str:
    """Return the last line of a log that says something, for a report."""
    lines = [line.strip() for line in log.splitlines() if line.strip()]
    errors = [line for line in lines if "Error" in line]
    return (errors or lines or ["it printed nothing"])[-1][:200]


def _minutes(seconds: float) -> str:
    seconds = max(0, round(seconds))
    return f"{seconds // 60} min {seconds % 60} s" if seconds >= 60 else f"{seconds} s"
