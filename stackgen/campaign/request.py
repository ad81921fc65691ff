"""What one command that measures is requested to do, once all its files were read."""

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from stackgen.campaign.options import (
    DEFAULT_MARGIN,
    BudgetOptions,
    CostOptions,
    IndexOptions,
    ProcessorOptions,
    ScalingOptions,
    SearchOptions,
    TargetOptions,
)
from stackgen.locks.reading import decode_text
from stackgen.measure import INTERIM_ANALYSES
from stackgen.model.choices import Completion, Granularity, Strategy
from stackgen.model.goals import SPEED_ALONE, Goals
from stackgen.model.identity import content_id
from stackgen.model.inspections import IndicatorCall
from stackgen.model.packages import Lock
from stackgen.model.stacks import BaseFacts
from stackgen.resolve.requirements import Requirements

PAIR_KEY, KNOWLEDGE_BASE_KEY = "sides", "where"
"""Keys of ``CampaignRequest.identity``; they are part of ids, and keep their names (ADR 28)."""
PADDING_BYTES = 1031  # bytes, a prime number: no replica has the alignment of another one


def file_identity(path: Path) -> str:
    """Return what identifies a user's file: its text, whatever its encoding and line endings."""
    text = decode_text(path.read_bytes())
    return content_id("file", text.replace("\r\n", "\n").replace("\r", "\n"))


@dataclass(frozen=True, slots=True, kw_only=True)
class StackRequest:
    """Which stacks a campaign is about.

    requirements: what every stack must satisfy.
    project: packages that the user's project requires: they are in every stack, and do not vary.
    lock: a user's lock to explore around; it is the baseline.
    baseline_file: another file of a baseline; it is read once the target is known.
    baseline: a lock to compare with, where no user's lock is (the best known one, at night).
    pair: identities of the stacks, where they are given (``compare``, ``advise``).
    vary, fixed: packages added to those that vary by default, and taken from them.
    settings: environment variables, each with the values to be tried.
    left_out: what of the user's files no index can provide, in words.
    """

    requirements: Requirements
    project: tuple[str, ...] = ()
    lock: Path | None = None
    baseline_file: Path | None = None
    baseline: Lock | None = None
    pair: tuple[str, ...] = ()
    vary: tuple[str, ...] = ()
    fixed: tuple[str, ...] = ()
    settings: tuple[tuple[str, tuple[str, ...]], ...] = ()
    granularity: Granularity = Granularity.MINOR
    completion: Completion = Completion.NEWEST_WORKING
    left_out: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasurementRequest:
    """What is measured, and how observations are compared.

    indicators: names, or paths of the user's own files; empty means the framework's matmul.
    parameters: values for their parameters, by name.
    program: a command of the user's that is measured, before the indicators.
    weights: of indicators, by their names; 1 where none is given.
    margin: a relative difference that does not matter.
    goals: what decides which stack is the best, and limits.
    alpha: false alarms allowed over all comparisons of speed; None takes the share of speed.
    tolerance: by which two builds of one stack may differ: only more is faster or slower.
    detect: where effects of this size are excluded, no further block is run; 0 excludes none.
    analyses: numbers of blocks after which interim analyses are made.
    """

    indicators: tuple[str, ...] = ()
    parameters: tuple[tuple[str, str], ...] = ()
    program: IndicatorCall | None = None
    weights: tuple[tuple[str, float], ...] = ()
    margin: float = DEFAULT_MARGIN
    goals: Goals = SPEED_ALONE
    alpha: float | None = None
    tolerance: float = 0.0
    detect: float = 0.0
    analyses: tuple[int, ...] = INTERIM_ANALYSES


@dataclass(frozen=True, slots=True, kw_only=True)
class CampaignRequest:
    """What one command that measures is requested to do, once all its files were read.

    kind: ``explore``, ``compare``, ``noise``, ``nightly`` or ``advise``.
    lock_out: a folder that the best stack is written into, as locks.
    dry_run: plan only; nothing is built.
    replica: 0, or the number of an independent repetition: its environments are built anew, in
        another folder, and its processes have an environment block of another size.
    """

    kind: str
    stacks: StackRequest
    measurement: MeasurementRequest = MeasurementRequest()
    processors: ProcessorOptions = ProcessorOptions()
    scaling: ScalingOptions = ScalingOptions()
    cost: CostOptions = CostOptions()
    budget: BudgetOptions = BudgetOptions()
    search: SearchOptions = SearchOptions()
    target: TargetOptions = TargetOptions()
    index: IndexOptions = IndexOptions()
    lock_out: Path | None = None
    dry_run: bool = False
    replica: int = 0

    @property
    def alpha(self) -> float:
        """Return how many false alarms are allowed over all comparisons of speed."""
        from stackgen.measure import ALPHA
        from stackgen.measure.goals import shares

        given = self.measurement.alpha
        return ALPHA * shares(self.measurement.goals).speed if given is None else given

    @property
    def padding(self) -> int:
        """Return how many bytes are added to the environment block of each process."""
        return PADDING_BYTES * self.replica

    def with_stacks(self, **changes: Any) -> "CampaignRequest":
        """Return the same request about other stacks."""
        return replace(self, stacks=replace(self.stacks, **changes))

    def with_indicators(self, *indicators: str) -> "CampaignRequest":
        """Return the same request of other indicators."""
        return replace(self, measurement=replace(self.measurement, indicators=indicators))

    def with_budget(self, **changes: Any) -> "CampaignRequest":
        """Return the same request with another budget or seed."""
        return replace(self, budget=replace(self.budget, **changes))

    def identity(self, executor: str, facts: BaseFacts, *, where: str) -> str:
        """Return canonical JSON of what makes two runs on a machine the same campaign.

        Args:
            where: identity of the knowledge base: two of them never number the same blocks.

        How much is measured (stacks, budget) is no part of it: a rerun with more goes on. The
        keys are frozen (ADR 28), also three that the code names otherwise by now.
        """
        stacks, measurement = self.stacks, self.measurement
        content: dict[str, object] = {
            "executor": executor,
            KNOWLEDGE_BASE_KEY: where,
            "base": facts.content,
            "asked": stacks.requirements.content,
            "vary": sorted(stacks.vary),
            "fixed": sorted(stacks.fixed),
            "settings": [[name, list(values)] for name, values in stacks.settings],
            "lock": file_identity(stacks.lock) if stacks.lock else None,
            "reference": stacks.baseline.id if stacks.baseline else None,
            "indicators": sorted(measurement.indicators),
            "parameters": sorted(measurement.parameters),
            "threads": self.processors.threads,
            "granularity": stacks.granularity.value,
            "completion": stacks.completion.value,
        }
        strategy = self.search.strategy
        further = {
            "gpus": self.processors.gpus,
            "program": measurement.program and measurement.program.arguments,
            PAIR_KEY: list(stacks.pair),
            "project": sorted(stacks.project),
            "cpus": list(self.scaling.cpus),
            "measure_cpus": list(self.processors.measure_cpus),
            "replica": self.replica,
            "strategy": "" if strategy is Strategy.NEWEST else strategy.value,
        }
        # Left out where empty: campaigns of earlier versions go on.
        content |= {name: value for name, value in further.items() if value}
        return json.dumps(content, sort_keys=True, separators=(",", ":"))
