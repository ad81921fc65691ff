"""Reports on lock files: advice and validation."""

from dataclasses import dataclass
from enum import Enum

from stackgen.errors import EvidenceError
from stackgen.model.choices import AdviceType
from stackgen.model.evidence import Advice, Answer, Change, Effect, Origin
from stackgen.model.identity import CampaignId, StackId
from stackgen.model.packages import LockFile
from stackgen.model.reports.campaigns import RunSummary, StackQuantities


@dataclass(frozen=True, slots=True, kw_only=True)
class AdvisedStack:
    """A measured stack of an advice, with all that is known of it.

    changes: of the lock; none for the lock's own versions, which come first.
    ratio, low, high: of the speeds, over all indicators; None for the lock itself.
    needs: import time, memory and sizes, where one campaign measured it beside the lock's versions.
    against: what the user's options and requirements have against it, in a word; "" for nothing.
    """

    stack_id: StackId
    changes: tuple[Change, ...]
    needs: StackQuantities
    ratio: float | None = None
    low: float | None = None
    high: float | None = None
    is_faster: bool = False
    against: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockEvidence:
    """The processes of one block that measured one of two stacks.

    current_s, candidate_s: samples of each process, in order; a program's figures where it gives
        some. The candidate is what the lock is compared with.
    """

    block: int
    started_at: str
    current_s: tuple[tuple[float, ...], ...]
    candidate_s: tuple[tuple[float, ...], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class CampaignEvidence:
    """What one campaign contributes to an effect.

    share: of the effect's variance. stacks: that the campaign measured beside the two.
    blocks: those that hold both stacks; empty where it contributes by way of others.
    machine: (name, value) pairs of its identity. bases: what the stacks are installed on; the
        digest of an image is part of it.
    """

    campaign_id: CampaignId
    share: float
    kind: str
    seed: int
    stackgen_version: str
    machine: tuple[tuple[str, str], ...]
    bases: tuple[str, ...]
    stacks: int
    blocks: tuple[BlockEvidence, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class EffectEvidence:
    """All that an effect rests on, down to raw samples and hashes of wheels.

    wheels: (side, file name, SHA-256) of the files in which the two stacks differ; the side is
        ``current`` or ``candidate``.
    """

    indicator: str
    effect: Effect
    campaigns: tuple[CampaignEvidence, ...]
    wheels: tuple[tuple[str, str, str], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class AdviceReport:
    """An advice for a lock file.

    indicators: (id, label) pairs of what the advice rests on.
    new: path of the lock that is compared with it; "" where versions are recommended.
    stacks: the lock's own versions, what the answer is about, the runner-up and others.
    conflicting: whether the first of them is shown to need more than the lock's own in import time,
        memory or size: ``on_front`` of their needs names the Pareto set.
    measure_command: that measures what would decide; "" where nothing would.
    measure_download_bytes, measure_disk_bytes: about what it moves and takes, as images; None where
        the index does not say how large the lock's own packages are, and where it goes on.
    inspections: how many the effects were computed from.
    merged: how many of them came from each other knowledge base; empty where all were recorded in
        this one.
    runs: campaigns that were run for this answer.
    explanation: of each effect, where requested.
    """

    lockfile: LockFile
    advice: Advice
    indicators: tuple[tuple[str, str], ...]
    knowledge_base: str
    explore_command: str
    kind: AdviceType = AdviceType.PERFORMANCE
    new: str = ""
    stacks: tuple[AdvisedStack, ...] = ()
    conflicting: bool = False
    measure_command: str = ""
    measure_download_bytes: int | None = None
    measure_disk_bytes: int | None = None
    inspections: int = 0
    merged: tuple[tuple[Origin, int], ...] = ()
    runs: tuple[RunSummary, ...] = ()
    explanation: tuple[EffectEvidence, ...] = ()

    @property
    def exit_code(self) -> int:
        """Return the exit code of ``advise``."""
        answer = self.advice.answer
        if self.advice.lock is not None:
            return 0
        if answer is Answer.ELSEWHERE:
            return MEASURED_ELSEWHERE
        if self.new and answer in (Answer.FASTER, Answer.NO_DIFFERENCE):
            return 0
        return SLOWER if self.new and answer is Answer.SLOWER else EvidenceError.exit_code


MEASURED_ELSEWHERE, SLOWER = 11, 7
"""Exit codes: what answers was measured on other machines alone; an update is slower."""

NO_VERDICT, CONTRADICTED, UNREACHABLE = 3, 4, 8
"""Exit codes: no validator has a verdict, one refuses the lock, the index does not answer."""


class Validity(str, Enum):
    """Whether a lock holds on a target, as one validator resolves it."""

    HOLDS = "holds"
    FAILS = "does not hold"
    UNKNOWN = "no verdict"


@dataclass(frozen=True, slots=True, kw_only=True)
class Validation:
    """Result of one validator for a stack.

    validator: name and version.
    reasons: its messages where it refuses, else why there is no verdict.
    missing: pins that it would add, as ``name==version``.
    superfluous: pins that no requirement needs.
    unreachable: there is no verdict because the package index did not answer.
    """

    validator: str
    validity: Validity
    reasons: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    superfluous: tuple[str, ...] = ()
    unreachable: bool = False

    def __post_init__(self) -> None:
        if self.validity is Validity.FAILS and not (
            self.reasons or self.missing or self.superfluous
        ):
            raise ValueError("a validator that refuses gives a reason")


@dataclass(frozen=True, slots=True, kw_only=True)
class Verification:
    """Results of all validators for a lock on one target.

    target: the base that the lock was read for, with its Python.
    pins: the whole stack as ``name==version``, sorted.
    skipped: what the lock holds and no index has, in words.
    superfluous_unknown: why superfluous packages cannot be found; "" where they can.
    """

    path: str
    target: str
    pins: tuple[str, ...]
    validations: tuple[Validation, ...]
    skipped: tuple[str, ...] = ()
    superfluous_unknown: str = ""

    @property
    def exit_code(self) -> int:
        """Return 0 where the lock holds for at least one validator and fails for none."""
        found = {each.validity for each in self.validations}
        if Validity.FAILS in found:
            return CONTRADICTED
        if Validity.HOLDS in found:
            return 0
        return UNREACHABLE if any(each.unreachable for each in self.validations) else NO_VERDICT
