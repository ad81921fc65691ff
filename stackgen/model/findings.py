"""Findings of nights: what a release changed, confirmed by a second, independent campaign."""

from dataclasses import dataclass
from enum import Enum

from stackgen.model.identity import content_id


class FindingKind(str, Enum):
    """What a release changed."""

    FASTER = "faster"
    SLOWER = "slower"
    BROKEN = "broken"
    DIFFERENT = "numerically different"
    LARGER = "larger"
    FIXED = "fixed again"

    @property
    def is_regression(self) -> bool:
        """Return whether a later release may fix it."""
        return self not in (FindingKind.FASTER, FindingKind.FIXED)


class FindingStatus(str, Enum):
    """What became of a finding.

    OPEN: it counts. ACKNOWLEDGED: someone knows of it, until a moment. EXPIRED: it was open for so
    long that it no longer counts. CLOSED: a later release fixed it, or the next night did not show
    it again. WITHDRAWN: its release was yanked or removed; it counts again if that is undone.
    """

    OPEN = "open"
    ACKNOWLEDGED = "acknowledged"
    EXPIRED = "expired"
    CLOSED = "closed"
    WITHDRAWN = "withdrawn"


@dataclass(frozen=True, slots=True, kw_only=True)
class Attribution:
    """Which change causes a finding.

    culprits: hypotheses with their posterior probability, the likeliest first.
    answer: in words, also where there is none ("undecided", "X and Y always change together").
    """

    culprits: tuple[tuple[str, float], ...]
    answer: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One change that a release brought, as two campaigns have shown it.

    watch, base: of the configuration.
    package, version, previous: the release, and the one that it is compared with.
    measure: an indicator, ``import time``, ``import memory``, ``disk``; of what is broken, the
        step: ``resolve``, ``build``, ``import``, ``crash``.
    ratio, low, high: previous over new (above 1: the new one needs less) with its interval, from
        the confirmation alone: the estimate that raised the alarm is inflated. 0 where nothing was
        measured.
    detail: how it fails or differs.
    changes: all packages in which both stacks differ, with the versions (None: absent).
    command: reproduces it.
    found_at: ISO 8601, UTC.
    """

    watch: str
    base: str
    package: str
    version: str
    previous: str
    kind: FindingKind
    measure: str
    found_at: str
    ratio: float = 0.0
    low: float = 0.0
    high: float = 0.0
    detail: str = ""
    changes: tuple[tuple[str, str | None, str | None], ...] = ()
    command: str = ""
    attribution: Attribution | None = None

    @property
    def id(self) -> str:
        """Return what identifies it: the same finding of two nights is one."""
        content = [self.watch, self.base, self.package, self.version, self.kind.value, self.measure]
        return content_id("finding", content)[:12]

    @property
    def title(self) -> str:
        """Return it in one line."""
        release = f"{self.package} {self.version}"
        if self.kind is FindingKind.BROKEN:
            return f"{release} is broken ({self.measure}): {self.detail}"
        if self.kind is FindingKind.DIFFERENT:
            return f"{release} computes something else than {self.previous} on {self.measure}"
        if self.kind is FindingKind.FIXED:
            return f"{release} is fixed again: {self.detail}"
        if self.kind is FindingKind.LARGER:
            often = f"{1 / self.ratio:.2f} times" if self.ratio else "more"
            return f"{release} needs {often} the {self.measure} of {self.previous}"
        return (
            f"{release} is {self.kind.value} than {self.previous} on {self.measure}: "
            f"{self.ratio:.3f} times as fast ({self.low:.3f} to {self.high:.3f})"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class FindingState:
    """A finding with what became of it.

    until: of an acknowledgement, ISO 8601 in UTC; "" without end. Of what expired: when it did.
    note: why it was acknowledged or closed.
    persists: whether the next night showed it again; None before that.
    reported: whether a report of a night has it. A night that is killed leaves it to the next one.
    """

    finding: Finding
    status: FindingStatus = FindingStatus.OPEN
    until: str = ""
    note: str = ""
    persists: bool | None = None
    reported: bool = True


class NightOutcome(str, Enum):
    """How a night ended."""

    NOTHING_NEW = "nothing new"
    ALL_WELL = "all well"
    FINDINGS = "findings"
    UNDECIDED = "undecided"
    COULD_NOT_RUN = "could not run"


@dataclass(frozen=True, slots=True, kw_only=True)
class ExaminedRelease:
    """A release that a night has measured.

    result: in words. blocks: of both campaigns. seconds: wall time.
    """

    package: str
    version: str
    previous: str
    result: str
    blocks: int = 0
    seconds: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class NightReport:
    """What the night of one watch on one base brought.

    events: what changed at the index, in words.
    findings: new ones; ``open_findings``: all that count now.
    undecided: releases without an answer, and what is missing. They are taken up the next night.
    error: why the night could not run, or ended early; "" where it did not.
    started_at: ISO 8601, UTC. seconds: wall time. budget_s: of the night.
    """

    watch: str
    base: str
    outcome: NightOutcome
    started_at: str
    events: tuple[str, ...] = ()
    examined: tuple[ExaminedRelease, ...] = ()
    findings: tuple[Finding, ...] = ()
    undecided: tuple[str, ...] = ()
    open_findings: tuple[FindingState, ...] = ()
    error: str = ""
    seconds: float = 0.0
    budget_s: float = 0.0
    exit_code: int = 0

    @property
    def summary(self) -> str:
        """Return the night in one line."""
        where = f"{self.watch}{f' on {self.base}' if self.base else ''}"
        parts = []
        if self.findings:
            count = len(self.findings)
            parts.append(f"{count} finding{'s' * (count > 1)}: {self.findings[0].title}")
        if self.error:
            parts.append(self.error)
        if self.examined:
            parts.append(f"{len(self.examined)} examined")
        if self.undecided:
            parts.append(f"{len(self.undecided)} undecided")
        if self.open_findings:
            parts.append(f"{len(self.open_findings)} open")
        details = f" ({'; '.join(parts)})" if parts else ""
        return f"{where}: {self.outcome.value}{details}"


@dataclass(frozen=True, slots=True, kw_only=True)
class NightlyReport:
    """What the nights of one command brought, one for each watch and base."""

    summary: str
    nights: tuple[NightReport, ...]
    exit_code: int


@dataclass(frozen=True, slots=True, kw_only=True)
class NightPlan:
    """What a night of one watch on one base would do; nothing was measured or recorded.

    stack: versions that it would begin with. new: releases that it would measure.
    indicators: what it would measure them with.
    most_inspections: of each release, if its campaigns take as many blocks as they may.
    download_bytes: wheels of all these releases and their predecessors that are not cached yet.
    disk_bytes: what they take with their environments. free_bytes: on that disk.
    """

    watch: str
    base: str
    packages: tuple[tuple[str, int], ...]
    stack: tuple[tuple[str, str], ...]
    indicators: tuple[str, ...]
    new: tuple[str, ...]
    budget_s: float
    most_inspections: int
    download_bytes: int = 0
    disk_bytes: int = 0
    free_bytes: int = 0
    problems: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class NightlyPlan:
    """What the nights of one command would do."""

    plans: tuple[NightPlan, ...]
    exit_code: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class FindingsReport:
    """Findings with what became of them, the ones that changed last at the end."""

    findings: tuple[FindingState, ...]
