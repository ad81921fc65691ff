"""Campaigns, effects between stacks, and the advice that follows from them."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from stackgen.model.choices import AdviceType
from stackgen.model.identity import CampaignId, IndicatorId, MachineId, StackId, content_id
from stackgen.model.packages import Lock


class Verdict(str, Enum):
    """What an effect's interval says, decided in this order (MEASUREMENT.md)."""

    EQUIVALENT = "equivalent"
    FASTER = "faster"
    SLOWER = "slower"
    INCONCLUSIVE = "inconclusive"


@dataclass(frozen=True, slots=True, kw_only=True)
class Effect:
    """How much faster A is than B on one indicator, from within-block contrasts alone.

    ratio: time of B over time of A, so above 1 means that A is faster.
    low, high: the interval of the ratio; 0 and infinity where too few blocks allow none.
    blocks: how many blocks contain both.
    smallest_detectable: the smallest ratio above 1 that this evidence could have shown.
    """

    a: StackId
    b: StackId
    indicator_id: IndicatorId
    ratio: float
    low: float
    high: float
    blocks: int
    verdict: Verdict
    smallest_detectable: float


@dataclass(frozen=True, slots=True, kw_only=True)
class CampaignIdentity:
    """What distinguishes a campaign of explore, compare or nightly from others.

    request: canonical JSON of the request, so that a rerun finds its campaign.
    stated_id: of a campaign whose request a public export left out; "" elsewhere.
    """

    kind: str
    request: str
    seed: int
    machine_id: MachineId
    stackgen_version: str
    stated_id: str = ""

    @property
    def id(self) -> CampaignId:
        """Return the digest of the whole plan; the same plan goes on with the same campaign."""
        content = [self.kind, self.request, self.seed, self.machine_id]
        return CampaignId(self.stated_id or content_id("campaign", content))

    @property
    def request_values(self) -> Mapping[str, object]:
        """Return the request by its keys; empty where a public export left it out, or it is none.

        Campaigns of other knowledge bases are read as well.
        """
        try:
            found: object = json.loads(self.request)
        except (ValueError, RecursionError):
            return {}
        return found if isinstance(found, dict) else {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Control:
    """An inspection pair whose answer is known: it must show no difference.

    p_value: of the paired test; None while there are too few blocks.
    """

    name: str
    blocks: int
    p_value: float | None
    failed: bool


class Difference(str, Enum):
    """In what a stack's result differs from what it should be."""

    NUMBERS = "numerically different"
    TEXT = "different result"
    NOT_REPEATABLE = "not repeatable"


@dataclass(frozen=True, slots=True, kw_only=True)
class Deviation:
    """That a stack does not compute what the baseline computes, on one indicator.

    checksum, expected: of the stack and of the baseline (medians); of what is not repeatable, the
        stack's own farthest and median. None where the result has no numbers.
    difference: of the two, as a ratio of the larger one; infinite where even the text differs.
    tolerance: up to which results count as the same.
    """

    indicator_id: IndicatorId
    kind: Difference
    checksum: float | None
    expected: float | None
    difference: float
    tolerance: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Ranked:
    """One row of a ranking.

    effects: against the baseline, one per indicator; empty for the baseline itself.
    best: whether the fastest stack is not shown to beat this one.
    failures: how many of its runs in blocks failed; such a stack is never the best.
    deviations: where it computes something else than the baseline; such a stack is never the
        best either. The baseline's own: where it does not compute the same twice.
    overall: against the baseline, over all indicators together (the weighted geometric mean of
        each block's ratios); None for the baseline, and where there is one indicator alone.
    """

    stack_id: StackId
    label: str
    effects: tuple[Effect, ...]
    is_baseline: bool = False
    best: bool = False
    failures: int = 0
    deviations: tuple[Deviation, ...] = ()
    overall: Effect | None = None

    @property
    def counts(self) -> bool:
        """Return whether its speed is that of a stack which works and computes what it should."""
        return not self.failures and (self.is_baseline or not self.deviations)

    @property
    def is_faster(self) -> bool:
        """Return whether it is shown to be faster than the baseline.

        Of several indicators, the overall effect decides; without one, at least one indicator is
        faster and none is slower.
        """
        if self.overall is not None:
            return self.overall.verdict is Verdict.FASTER
        verdicts = [each.verdict for each in self.effects]
        return Verdict.FASTER in verdicts and Verdict.SLOWER not in verdicts


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One package that an advice would change; None where it is absent on that side."""

    name: str
    current: str | None
    recommended: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """An installation that recorded rows.

    id: random, 32 hexadecimal digits.
    label: the file from which its rows came first, without folders; "" of rows recorded here.
    first_seen: ISO 8601 in UTC.
    """

    id: str
    label: str
    first_seen: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Provenance:
    """What an advised effect was measured on, and when.

    compared: in which packages the lock's own versions (``current``) differ from those that they
        were compared with (``recommended``), as they were measured.
    machine: the name of its CPU. python: of the base, in full.
    first, last: when the first and the last of its campaigns began, ISO 8601 in UTC.
    machines: how many carry it. family: of the operation.
    shares: of each campaign in the variance.
    is_figure: whether a program's own figure was compared in place of a time.
    campaigns: that carry it, the one with the largest share first.
    origins: that measured them; "" is this installation.
    path: the stacks that lead from one to the other, both included, where none of the campaigns
        measured both; empty where one did.
    """

    indicator_id: IndicatorId
    indicator: str
    compared: tuple[Change, ...]
    machine: str
    python: str
    first: str
    last: str
    is_figure: bool = False
    campaigns: tuple[CampaignId, ...] = ()
    origins: tuple[str, ...] = ()
    path: tuple[str, ...] = ()
    machines: int = 1
    family: str = ""
    shares: tuple[float, ...] = ()


class Answer(str, Enum):
    """What an advice comes to; only the first two recommend anything.

    NOT_SLOWER: what another type than ``performance`` recommends. SLOWER: of an update from one
    lock to another. UNDECIDED: the intervals are too wide to say that there is no difference.
    """

    FASTER = "faster"
    NOT_SLOWER = "not slower"
    NO_DIFFERENCE = "no measurable difference"
    ELSEWHERE = "measured elsewhere"
    OLDER = "faster, but older"
    MAJOR = "faster, but a major update"
    REFUSED = "measured, but refused"
    SLOWER = "slower"
    UNDECIDED = "not decided"
    UNKNOWN = "unknown"


class Scope(str, Enum):
    """What an advice speaks of.

    OVERALL: it rests on enough families of operations, and all of them together are decided.
    """

    OVERALL = "overall"
    OPERATIONS = "these operations only"
    PROGRAM = "your program"
    NOTHING = "nothing"


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangePolicy:
    """Which changes of a lock may be recommended.

    only: no other packages change; empty admits all. keep: these do not.
    allow_major: beyond the major version where the user's own requirements do not say so.
    allow_downgrade: to an older version of anything with compiled code.
    allow_vulnerable: to a release with a known vulnerability.
    """

    kind: AdviceType = AdviceType.PERFORMANCE
    only: tuple[str, ...] = ()
    keep: tuple[str, ...] = ()
    allow_major: bool = False
    allow_downgrade: bool = False
    allow_vulnerable: bool = False


CAREFUL = ChangePolicy()
"""Neither older versions nor new major ones."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Nearest:
    """A measured stack near to a lock that nothing was measured of, and what is known of it.

    versions: (name, version) pairs of its framework and of NumPy.
    without: frameworks of the lock that it does not have: then it says what NumPy does by itself.
    effects: of the fastest that was compared with it; empty where nothing was.
    provenance: of each effect, in their order.
    """

    versions: tuple[tuple[str, str], ...]
    effects: tuple[Effect, ...] = ()
    provenance: tuple[Provenance, ...] = ()
    without: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposal:
    """Versions that were never measured together and are expected to be faster.

    changes: of the lock. ratio: above 1 where they are faster, with its 95 % interval.
    command: that measures them beside the lock.
    pins: (name, version) pairs of all that varies, changed or not.
    """

    changes: tuple[Change, ...]
    indicator: str
    ratio: float
    low: float
    high: float
    command: str
    pins: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Alternative:
    """A measured stack beside the lock, over all indicators that compare them.

    ratio: geometric mean of its speeds; above 1 it is faster. low, high: hold with those of all
        others. is_faster: whether it is shown to be.
    against: what the user's options and requirements have against it, in a word; "" for nothing.
    """

    stack_id: StackId
    changes: tuple[Change, ...]
    ratio: float
    low: float
    high: float
    is_faster: bool
    against: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class NextComparison:
    """Versions that a campaign beside the lock should measure next: it may decide the answer.

    pins: (name, version) pairs of what changes, and of the framework and NumPy.
    why: in words.
    error, expected_error: standard errors of the log ratio now, and after such a campaign; None
        where nothing is known yet.
    """

    changes: tuple[Change, ...]
    pins: tuple[tuple[str, str], ...]
    why: str
    error: float | None = None
    expected_error: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Advice:
    """What the evidence says of a lock: one answer, and what it rests on.

    answer: which one; ``lock`` is given for "faster" alone.
    lock: what is recommended; None where nothing is measurably faster, or may not be taken.
    effects: of what is recommended, or of the fastest that might have been; empty where nothing
        that was measured may be recommended at all.
    provenance: of each effect, in their order.
    refused: why what is (or may be) faster is not recommended, nor measured; "" where nothing is.
    option: of the command line that would admit it; "" where none would.
    same_machine: whether the evidence was measured on such a machine as this one, by whomever.
    sole_origins: without each of these alone nothing would be recommended; "" is this installation.
    why: nothing is known; "" of other answers.
    pins: (name, version) pairs of the lock's framework and NumPy.
    nearest: to a lock that nothing is known of, the nearest measured stacks, nearest first.
    proposals: what is worth measuring, most promising first; none of it is recommended.
    scope: what the answer speaks of. families: of the operations that it rests on.
    overall: of all indicators together, where there are several.
    current: the measured stack that stands for the lock; None where none does.
    alternatives: what was measured beside it, first what the answer is about, then the runner-up.
    next: what would decide the answer, the most informative first.
    possible: how fast anything that may be recommended may be at most beside the lock, as a ratio,
        where nothing is shown to be faster: intervals exclude all above it. None where all of it is
        slower, and of other answers than "no measurable difference" and "not decided".
    """

    answer: Answer
    lock: Lock | None = None
    changes: tuple[Change, ...] = ()
    effects: tuple[Effect, ...] = ()
    caveats: tuple[str, ...] = ()
    same_machine: bool = False
    provenance: tuple[Provenance, ...] = ()
    refused: str = ""
    option: str = ""
    sole_origins: tuple[str, ...] = ()
    why: str = ""
    pins: tuple[tuple[str, str], ...] = ()
    nearest: tuple[Nearest, ...] = ()
    proposals: tuple[Proposal, ...] = ()
    scope: Scope = Scope.NOTHING
    families: tuple[str, ...] = ()
    overall: Effect | None = None
    current: StackId | None = None
    alternatives: tuple[Alternative, ...] = ()
    next: tuple[NextComparison, ...] = ()
    possible: float | None = None
