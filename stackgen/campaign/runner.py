"""Where a block runs: its inspections are run one after the other, and stored as they end.

``BlockRunner`` is the seam below which a block runs, on this machine or elsewhere. Everything is
written to the knowledge base as it happens, and read back from it: a campaign that was interrupted,
even killed, goes on where it was.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from stackgen.campaign.host import Host
from stackgen.errors import EngineError, MeasurementError
from stackgen.executors import Executor
from stackgen.knowledge.database import Database
from stackgen.knowledge.failures import blames_damaged_cache
from stackgen.measure.retry_policy import (
    FailureCause,
    blamed,
    cause_of,
    killed_again_and_again,
    known_trial,
    nothing_runs,
)
from stackgen.model.evidence import CampaignIdentity
from stackgen.model.identity import InspectionId, StackId
from stackgen.model.inspections import IndicatorCall, Inspection, InspectionPlan, Outcome, Role
from stackgen.model.progress import Progress
from stackgen.model.stacks import Environment, EnvironmentKind

Clock = Callable[[], float]
PlanBlock = Callable[[int], Sequence[InspectionPlan]]
"""From the number of a block to its inspections; together with campaign and seed the number is the
identity of a block's work."""

_EXIT_CODE = re.compile(r"exit code \d+")


@dataclass(slots=True, kw_only=True)
class Record:
    """What a campaign has recorded: in this run of a command, in earlier ones, and by others.

    campaign: its identity, which the database holds.
    rebuild: what failed to be built in earlier runs is built again.
    labels: of stacks, for messages.
    added: how many inspections this run has recorded.
    ran: how many of them ended well.
    standing: what is known so far, for progress messages; "" before anything is.
    """

    database: Database
    campaign: CampaignIdentity
    rebuild: bool = False
    labels: dict[StackId, str] = field(default_factory=dict)
    added: int = 0
    ran: int = 0
    standing: str = ""
    _past: list[Inspection] = field(default_factory=list)
    _run: list[Inspection] = field(default_factory=list)
    _own: set[InspectionId] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.catch_up()

    @property
    def inspections(self) -> Sequence[Inspection]:
        """Return everything that this campaign has recorded, earlier runs included."""
        return self._past

    @property
    def blocks(self) -> int:
        """Return the number of the last block."""
        return max((each.block for each in self._past), default=0)

    def label(self, stack: StackId) -> str:
        """Return what a stack is called in messages."""
        return self.labels.get(stack, f"stack {stack[:12]}")

    def catch_up(self) -> None:
        """Read what other processes with the same command have recorded meanwhile."""
        if self.database.count_inspections(self.campaign.id) != len(self._past):
            self._past = list(self.database.inspections(campaign=self.campaign.id))

    def add(self, inspection: Inspection) -> None:
        """Store an inspection for good."""
        self.database.add_inspection(inspection)
        self._past.append(inspection)
        self._run.append(inspection)
        self._own.add(inspection.id)
        self.added += 1
        self.ran += inspection.outcome is Outcome.OK

    def this_run(self) -> Sequence[Inspection]:
        """Return what this run of the command has recorded."""
        return self._run

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

    def _forgiven(self, past: Inspection) -> bool:
        """Return whether a build that failed in an earlier run is tried again, however often.

        The user wants it, or the cache was to blame.
        """
        again = self.rebuild or blames_damaged_cache(past)
        return again and past.outcome is Outcome.BUILD_FAILED and past.id not in self._own

    def killed(self, calls: Sequence[IndicatorCall]) -> Mapping[StackId, Inspection]:
        """Return the stacks that this run leaves out because they are killed again and again."""
        return killed_again_and_again(self._run, calls)

    def failed_in_blocks(self, calls: Sequence[IndicatorCall]) -> tuple[Inspection, ...]:
        """Return the failure of each stack that is left out of blocks, first its own ones."""
        found: dict[StackId, Inspection] = {}
        for each in (*blamed(self._past, calls), *self.killed(calls).values()):
            found.setdefault(each.stack_id, each)
        return tuple(found.values())

    def refuse_idle(self, calls: Sequence[IndicatorCall], *, baseline: StackId) -> None:
        """Refuse to go on where no process runs on this machine any more.

        Raises:
            MeasurementError: none does; the same command tries again.
        """
        last = nothing_runs(self._run, calls, baseline=baseline)
        if last is None:
            return
        name = next(call.label for call in calls if call.id == last.indicator_id)
        raise MeasurementError(
            f"no stack ran {name} in block {last.block}",
            why=f"{last.outcome.value} in block {last.block}: {last_line(last.log)}",
            fix="look at the machine (memory, disk, processes that end others), then run the same "
            "command again: no stack is blamed for it",
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """How long a run of a command may take.

    deadline: on ``clock``, when it is spent; what was waited for others comes on top.
    """

    deadline: float
    host: Host
    clock: Clock

    @property
    def left_s(self) -> float:
        """Return how much is left, in seconds; negative once it is spent."""
        return self.deadline + self.host.waited_s - self.clock()


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredBlock:
    """A block that was run and stored.

    seconds: it took, waiting for others left out.
    """

    inspections: tuple[Inspection, ...]
    seconds: float


class BlockRunner(Protocol):
    """Runs whole blocks, each on one host and alone there."""

    def run_block(self, plan: PlanBlock) -> StoredBlock:
        """Run the next block and return its inspections, each stored before the next one starts.

        Several processes may run blocks of one campaign: the number that ``plan`` is given is no
        other block's, and everything that was stored before is in the record then. A plan without
        inspections runs nothing.

        Raises:
            EngineError: the engine went away; what ended before is stored.
        """


@dataclass(slots=True, kw_only=True)
class LocalBlockRunner:
    """Runs blocks on this machine, under the lock that keeps every other measurement away."""

    record: Record
    executor: Executor
    budget: Budget
    progress: Progress
    _unenforced: set[str] = field(default_factory=set)

    def run_block(self, plan: PlanBlock) -> StoredBlock:
        """Run the next block under the lock of the host.

        Raises:
            EngineError: the engine went away; what ended before is stored.
        """
        record, done = self.record, []
        with self.budget.host.measuring(self.progress):
            start = self.budget.clock()
            record.catch_up()
            plans = plan(record.database.last_block(record.campaign.id) + 1)
            results = zip(plans, self.executor.inspect(plans), strict=True)
            for each, inspection in results:
                record.add(inspection)
                done.append(inspection)
                self._report(inspection, len(done), len(plans))
                if inspection.outcome is Outcome.ENGINE_LOST:
                    raise _lost(each.environment, inspection)
            return StoredBlock(inspections=tuple(done), seconds=self.budget.clock() - start)

    def _report(self, inspection: Inspection, done: int, total: int) -> None:
        new = [each for each in inspection.unenforced if each not in self._unenforced]
        if new:
            self._unenforced.update(new)
            self.progress.note(
                f"Packages run here without: {', '.join(new)} (stackgen doctor shows what helps)."
            )
        if not inspection.block:  # a trial, whose caller reports it
            return
        if cause_of(inspection) is FailureCause.KILLED:
            self.progress.note(
                f"{self.record.label(inspection.stack_id)} was stopped in block "
                f"{inspection.block} ({ending_line(inspection)}, not by stackgen): this block "
                "lacks it, and it is measured again."
            )
        standing = f"; {self.record.standing}" if self.record.standing else ""
        self.progress.doing(
            f"measuring block {inspection.block}, {minutes_text(self.budget.left_s)} of the budget "
            f"left{standing}",
            done=done,
            total=total,
        )


def ending_line(inspection: Inspection) -> str:
    """Return how a process was killed, as the last line of its log says."""
    return inspection.log.rstrip().rpartition("\n")[2]


def _lost(environment: Environment, inspection: Inspection) -> EngineError:
    docker = environment.kind is EnvironmentKind.DOCKER
    return EngineError(
        "the container engine went away" if docker else "an environment went away",
        why=last_line(inspection.log),
        fix=("start it and " if docker else "")
        + "run the same command again; everything measured is stored",
    )


def last_line(log: str) -> str:
    """Return the last line of a log that says something, for a report."""
    lines = [line.strip() for line in log.splitlines() if line.strip()]
    errors = [line for line in lines if "Error" in line]
    if not errors and len(lines) > 1 and _EXIT_CODE.fullmatch(lines[-1]):
        return f"{lines[-1]}: {lines[-2]}"[:200]
    return (errors or lines or ["it printed nothing"])[-1][:200]


def minutes_text(seconds: float) -> str:
    """Return a time that is left, in minutes and seconds."""
    seconds = max(0, round(seconds))
    return f"{seconds // 60} min {seconds % 60} s" if seconds >= 60 else f"{seconds} s"
