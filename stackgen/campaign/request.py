"""What a command was asked to do, parsed; nothing below the command line sees a string option."""

import json
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path

from stackgen.measure import MARGIN
from stackgen.model.identity import content_id
from stackgen.model.inspections import IndicatorCall
from stackgen.model.packages import Lock
from stackgen.model.stacks import BaseFacts
from stackgen.resolve import Completion, Granularity, Requirements

STACKS, NEWEST = 16, 6
"""How many stacks take part where nobody says it; NEWEST: of the strategy that is called so."""
FEWEST = 4
"""Fewer stacks are compared at once: the reference and the best two would be all of them."""


class ExecutorChoice(str, Enum):
    """Where stacks run."""

    AUTO = "auto"
    VIRTUALENV = "virtualenv"
    DOCKER = "docker"


class Strategy(str, Enum):
    """Which stacks are measured in which block.

    RACING, RANDOM, PAIRWISE: a few stacks in each block, chosen by what is known, at random, or so
    that all pairs of versions are seen; the best ones are then compared in blocks of their own.
    EXHAUSTIVE, NEWEST: all of them in every block, or the newest ones alone.
    """

    RACING = "racing"
    EXHAUSTIVE = "exhaustive"
    RANDOM = "random"
    PAIRWISE = "pairwise"
    NEWEST = "newest"

    @property
    def searches(self) -> bool:
        """Return whether some stacks are looked at before the best ones are compared."""
        return self not in (Strategy.EXHAUSTIVE, Strategy.NEWEST)


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexOptions:
    """Which package indexes are asked; what is not given comes from the user's configuration."""

    index_url: str | None = None
    extra_index_urls: tuple[str, ...] = ()
    find_links: tuple[str, ...] = ()
    compared: tuple[str, ...] = ()
    no_index: bool = False
    offline: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ExploreOptions:
    """What to explore, where, and how long.

    asked: what the stacks must satisfy.
    vary, fixed: packages added to the default ones, and taken from them.
    settings: environment variables, each with the values to be tried.
    lock: a user's lock to explore around; it is the reference.
    reference: a lock to compare with, where no user's lock is (the best known one, at night).
    reference_file: the file that the user gave of it; it is read once the target is known.
    sides: identities of the two stacks that ``compare`` measures.
    kind: ``explore``, ``compare`` or ``nightly``.
    granularity: which versions of the varied packages are told apart.
    completion: how the packages that are not varied are chosen.
    indicators: names, or paths of the user's own files; empty means the framework's matmul.
    parameters: values for their parameters, by name.
    program: a command of the user's that is measured, before the indicators.
    project: packages that the user's project asks for: they are in every stack, and do not vary.
    base: a base's name, an image, or an interpreter; "" chooses.
    budget_s: seconds for building and measuring together.
    stacks: how many take part, settings included; 0 chooses by the strategy.
    threads: 0 chooses max(1, cores - 1).
    gpus: numbers or ids with commas between them, or "all"; "" shows none to what is measured.
    rebuild: try source distributions again that failed to build.
    cpus: numbers of CPUs that everything is measured on; empty means one number, by ``threads``.
    measure_cpus: the CPUs that are measured on; empty means the last ones.
    build_cpus: where all else that stackgen does is done; empty means anywhere.
    price_per_hour: of this machine, all of its CPUs; None where nobody said it.
    prices: a file with prices by number of CPUs.
    lock_out: a folder that the best stack is written into, as locks.
    strategy: which stacks are measured in which block.
    confidence: at which a search ends: of the leader being within ``margin`` of the best.
    margin: a relative difference that nobody cares about.
    weights: of indicators, by their names; 1 where none is given.
    """

    asked: Requirements
    vary: tuple[str, ...] = ()
    fixed: tuple[str, ...] = ()
    settings: tuple[tuple[str, tuple[str, ...]], ...] = ()
    lock: Path | None = None
    reference: Lock | None = None
    reference_file: Path | None = None
    sides: tuple[str, ...] = ()
    kind: str = "explore"
    indicators: tuple[str, ...] = ()
    parameters: tuple[tuple[str, str], ...] = ()
    program: IndicatorCall | None = None
    project: tuple[str, ...] = ()
    base: str = ""
    executor: ExecutorChoice = ExecutorChoice.AUTO
    budget_s: float = 1800.0
    stacks: int = 0
    seed: int = 0
    threads: int = 0
    gpus: str = ""
    granularity: Granularity = Granularity.MINOR
    completion: Completion = Completion.NEWEST_WORKING
    dry_run: bool = False
    rebuild: bool = False
    cpus: tuple[int, ...] = ()
    measure_cpus: tuple[int, ...] = ()
    build_cpus: tuple[int, ...] = ()
    price_per_hour: float | None = None
    prices: Path | None = None
    lock_out: Path | None = None
    strategy: Strategy = Strategy.RACING
    confidence: float = 0.95
    margin: float = MARGIN
    weights: tuple[tuple[str, float], ...] = ()
    index: IndexOptions = field(default_factory=IndexOptions)

    @property
    def wanted(self) -> int:
        """Return how many stacks take part."""
        return self.stacks or (NEWEST if self.strategy is Strategy.NEWEST else STACKS)

    def searches(self, choices: int) -> bool:
        """Return whether the best stacks are searched first, where there are so many choices."""
        return self.strategy.searches and min(self.wanted, choices) >= FEWEST

    def request(self, executor: str, facts: BaseFacts, *, where: str) -> str:
        """Return canonical JSON of what makes two runs on a machine the same campaign.

        Args:
            executor: where stacks run.
            facts: of the base that they are installed on.
            where: identity of the knowledge base: two of them never number the same blocks.

        How much is measured (stacks, budget) is no part of it: a rerun with more goes on.
        """
        asked: dict[str, object] = {
            "executor": executor,
            "where": where,
            "base": facts.content,
            "asked": self.asked.content,
            "vary": sorted(self.vary),
            "fixed": sorted(self.fixed),
            "settings": [[name, list(values)] for name, values in self.settings],
            "lock": content_id("file", self.lock.read_text("utf-8")) if self.lock else None,
            "reference": self.reference.id if self.reference else None,
            "indicators": sorted(self.indicators),
            "parameters": sorted(self.parameters),
            "threads": self.threads,
            "granularity": self.granularity.value,
            "completion": self.completion.value,
        }
        if self.gpus:  # left out where there is none: campaigns of earlier versions go on
            asked["gpus"] = self.gpus
        if self.program:
            asked["program"] = self.program.arguments
        if self.sides:
            asked["sides"] = list(self.sides)
        if self.project:
            asked["project"] = sorted(self.project)
        if self.cpus:
            asked["cpus"] = list(self.cpus)
        if self.measure_cpus:
            asked["measure_cpus"] = list(self.measure_cpus)
        if self.strategy is not Strategy.NEWEST:
            asked["strategy"] = self.strategy.value
        return json.dumps(asked, sort_keys=True, separators=(",", ":"))
