"""Report of a bisection: which of the packages that changed is responsible."""

from dataclasses import dataclass
from enum import Enum

from stackgen.model.reports.campaigns import ExplorePlan

BISECT = "bisect"
"""The kind of campaigns that look for a cause; what they measure is no evidence of an effect."""


class BisectAnswer(str, Enum):
    """What a bisection comes to.

    CULPRIT: one package. TOGETHER: two, whose new versions are both needed. BOTH: two, or of times
    three, each of which suffices or has an effect of its own. INVOLVED: a package takes part for
    certain; whether others do is open. NO_DIFFERENCE: the bad stack is as good as the good one.
    NONE: the difference is not of the packages. MANY: none of so few packages explains what was
    measured.
    UNDECIDED: nothing is certain yet.
    """

    CULPRIT = "culprit"
    TOGETHER = "together"
    BOTH = "both"
    INVOLVED = "involved"
    NO_DIFFERENCE = "no difference"
    NONE = "none"
    MANY = "many"
    UNDECIDED = "undecided"


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangedPackage:
    """A package that differs; "" where a stack does without it.

    follows: it comes with others, and is not varied by itself.
    """

    package: str
    good: str
    bad: str
    follows: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Hypothesis:
    """A possible cause with its posterior.

    kind: ``single``, ``together``, ``both``, ``three``, ``many`` or ``none``.
    packages: those that always change together are joined by " and ".
    """

    kind: str
    packages: tuple[str, ...]
    posterior: float


@dataclass(frozen=True, slots=True, kw_only=True)
class HybridResult:
    """What was observed of one stack.

    new: the packages that are as in the bad stack; of releases, the release.
    ratio: its time over that of its reference, None where no times count.
    reference: ``new`` of the stack that ran beside it; empty: the good stack.
    failures: of its runs, where failures are in question.
    unusable: why it says nothing, "" where it does.
    """

    new: tuple[str, ...]
    blocks: int
    ratio: float | None = None
    failures: int = 0
    unusable: str = ""
    reference: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class FirstBad:
    """The first release of the culprit that is bad.

    release: it; "" where that is not decided. before: the last one that is good.
    posterior: of it. among: the releases that come into question.
    """

    package: str
    release: str
    before: str
    posterior: float
    among: tuple[str, ...] = ()
    results: tuple[HybridResult, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchEffort:
    """How an answer was found.

    blocks, builds: that counted. bound: the fewest blocks that could have given as much
    information: the entropy removed over the most that one block was expected to give.
    entropy_bits: before and after.
    """

    blocks: int = 0
    builds: int = 0
    bound: float = 0.0
    entropy_bits: tuple[float, float] = (0.0, 0.0)
    results: tuple[HybridResult, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class BisectReport:
    """What a bisection found.

    failure: how the bad stack fails; "" where its time is in question.
    ratio: time of the bad stack over the good one's with its interval (low, middle, high); None
        where it fails.
    packages: that the answer names. partners: others that may be needed beside these, where no
        valid stack distinguishes that.
    shares: of two packages whose effects add up, the ratio of each with its interval.
    misfit: probability of data as unlikely as these if the answer holds.
    """

    plan: ExplorePlan
    changes: tuple[ChangedPackage, ...]
    answer: BisectAnswer
    packages: tuple[str, ...] = ()
    partners: tuple[str, ...] = ()
    posterior: float = 0.0
    failure: str = ""
    ratio: tuple[float, float, float] | None = None
    shares: tuple[tuple[str, float, float, float], ...] = ()
    ranking: tuple[Hypothesis, ...] = ()
    misfit: float = 1.0
    search: SearchEffort = SearchEffort()
    first_bad: FirstBad | None = None
    stopped: str = ""
    new_inspections: int = 0
    seconds: float = 0.0
    knowledge_base: str = ""
    interrupted: bool = False
    exit_code: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class BisectPlan:
    """What a bisection would do.

    together: groups of packages that no valid stack separates.
    hypotheses: how many there are, with their entropy in bits.
    builds, blocks: a rough number, of which simulations needed nine of ten fewer.
    """

    plan: ExplorePlan
    changes: tuple[ChangedPackage, ...]
    together: tuple[tuple[str, ...], ...]
    hypotheses: int
    entropy_bits: float
    builds: int
    blocks: int
