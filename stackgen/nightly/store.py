"""What a night remembers: what is watched, and findings with what became of them (state.db)."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import TypeVar

import msgspec
from packaging.version import Version

from stackgen.errors import EvidenceError, StorageError, UsageError
from stackgen.knowledge.database import open_database
from stackgen.model.findings import Finding, FindingsReport, FindingState, FindingStatus
from stackgen.nightly.releases import PackagePage, ReleaseFiles
from stackgen.nightly.watch import Watch
from stackgen.storage.leases import Leases
from stackgen.storage.paths import Paths
from stackgen.storage.state import StateDatabase, state_path

_T = TypeVar("_T")


@dataclass(slots=True, kw_only=True)
class PendingRelease:
    """A release that is not fully handled.

    before: the newest stack when it appeared, without other releases of that night.
    old, new: the pair that is measured; empty until it is resolved. It stays the same over nights,
    so that campaigns go on where they were.
    attempt: how often it began anew, since controls failed. nights: how often it could not be
    resolved.
    """

    package: str
    version: str
    uploaded: str = ""
    previous: str = ""
    before: dict[str, str] = field(default_factory=dict)
    old: dict[str, str] = field(default_factory=dict)
    new: dict[str, str] = field(default_factory=dict)
    attempt: int = 0
    nights: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Recheck:
    """A finding of the last night that the next one measures again.

    attempt: how often that began anew, since controls failed.
    """

    finding: Finding
    old: dict[str, str]
    new: dict[str, str]
    attempt: int = 0


@dataclass(slots=True, kw_only=True)
class WatchState:
    """What is known of a watch on one base after its last night.

    newest: the stack with all handled releases that run. best: the one that is not shown to be
    worse; the same where no regression is open. against_best: whether they are to be compared.
    best_attempt: how often that began anew; best_unsteady: in how many nights in a row its controls
    failed.
    unusable: by package, releases that are broken or yanked.
    gone: by package, releases that were handled before they disappeared, with their files.
    last: when the last night was, ISO 8601 in UTC.
    """

    pages: dict[str, PackagePage]
    newest: dict[str, str]
    best: dict[str, str]
    pending: list[PendingRelease] = field(default_factory=list)
    unusable: dict[str, list[str]] = field(default_factory=dict)
    gone: dict[str, dict[str, str]] = field(default_factory=dict)
    recheck: list[Recheck] = field(default_factory=list)
    against_best: bool = False
    best_attempt: int = 0
    best_unsteady: int = 0
    last: str = ""

    def is_restored(self, package: str, version: str, files: ReleaseFiles) -> bool:
        """Return whether a release that is offered again was handled before, with these files."""
        newest = self.newest.get(package)
        unchanged = self.gone.get(package, {}).get(version, "") == files.fitting
        return unchanged and newest is not None and Version(version) <= Version(newest)


@dataclass(frozen=True, slots=True, kw_only=True)
class NightStore:
    """The part of state.db that belongs to nights of one knowledge base.

    path: of state.db. now: the clock; the times of findings are UTC.
    """

    path: Path
    knowledge_base: str
    now: datetime

    @property
    def moment(self) -> str:
        """Return the time as it is stored."""
        return self.now.astimezone(timezone.utc).isoformat(timespec="seconds")

    @contextmanager
    def night(self, watch: str) -> Iterator[None]:
        """Exclude other nights of a watch, also those of other processes.

        Raises:
            EvidenceError: another night of it is under way.
            StorageError: the folder cannot be written.
        """
        with ExitStack() as context:
            try:
                locks = context.enter_context(Leases(self.path.parent / "nights").locks())
            except OSError as error:
                raise StorageError(
                    f"cannot lock {self.path.parent}",
                    why=str(error),
                    fix="make the folder writable",
                ) from error
            if not locks.try_acquire(watch):
                raise EvidenceError(
                    "another night of this watch is under way",
                    why="two nights would measure the same releases twice",
                    fix="wait until it ends, or end it; its work is not lost",
                )
            yield

    def load(self, watch: str) -> WatchState | None:
        """Return the state of a watch, None before its first night."""
        if not self.path.exists():
            return None
        with StateDatabase(self.path) as state:
            text = state.watch(self.knowledge_base, watch)
        return self._decoded(text, WatchState) if text else None

    def has_begun(self, watch: Watch) -> bool:
        """Return whether a watch had a night on any base."""
        if not self.path.exists():
            return False
        with StateDatabase(self.path) as state:
            known = state.watches(self.knowledge_base)
        return any(each.startswith(f"{watch.name} | ") for each in known)

    def save(self, watch: str, content: WatchState) -> None:
        """Store the state of a watch in one transaction."""
        with StateDatabase(self.path) as state:
            state.put_watch(self.knowledge_base, watch, msgspec.json.encode(content).decode())

    def decided(self, watch: str, package: str) -> frozenset[str]:
        """Return the releases that versions of stackgen without watches had decided."""
        if not self.path.exists():
            return frozenset()
        with StateDatabase(self.path) as state:
            found = state.decided_releases(self.knowledge_base, watch)
            return found or state.decided_releases(self.knowledge_base, package)

    def listed(self, *, every: bool = False) -> FindingsReport:
        """Return the findings that count, or all of them."""
        counted = (FindingStatus.OPEN, FindingStatus.ACKNOWLEDGED)
        found = tuple(e for e in self.findings() if every or e.status in counted)
        return FindingsReport(findings=found)

    def of(self, watch: str, base: str, *, every: bool = True) -> tuple[FindingState, ...]:
        """Return the findings of a watch on one base: all of them, or those that count."""
        found = self.listed(every=every).findings
        return tuple(e for e in found if (e.finding.watch, e.finding.base) == (watch, base))

    def findings(self) -> tuple[FindingState, ...]:
        """Return all findings, the ones that changed last at the end."""
        if not self.path.exists():
            return ()
        with StateDatabase(self.path, reading=True) as state:
            rows = state.findings(self.knowledge_base)
        return tuple(self._decoded(text, FindingState) for text, _ in rows)

    def add(self, finding: Finding) -> FindingState | None:
        """Record a finding that is to be reported; return None where it is known.

        One that no report has yet, or that was withdrawn with its release, counts as new; one that
        a later night measured again and did not show is known, whether a report had it or not.
        """
        known = next((each for each in self.findings() if each.finding.id == finding.id), None)
        added = FindingState(finding=finding, reported=False)
        if known and known.status is FindingStatus.WITHDRAWN:
            added = replace(added, persists=known.persists)
        elif known and (known.reported or known.persists is False):
            return None
        elif known:  # a night was killed before its report; the user may know of it by now
            added = replace(known, finding=finding)
        self.put(added)
        return added

    def reported(self, findings: Iterable[Finding]) -> None:
        """Record that these were reported."""
        for each in findings:
            self.change(each, lambda known: replace(known, reported=True))

    def change(self, finding: Finding, changed: Callable[[FindingState], FindingState]) -> None:
        """Change what became of a finding, as it is now.

        What was read before a campaign may be hours old, and acknowledged since.
        """
        for each in self.findings():
            if each.finding.id == finding.id:
                self.put(changed(each))

    def put(self, found: FindingState) -> None:
        """Replace what became of a finding."""
        text = msgspec.json.encode(found).decode()
        with StateDatabase(self.path) as state:
            state.put_finding(self.knowledge_base, found.finding.id, text, self.moment)

    def find(self, beginning: str) -> FindingState:
        """Return the finding whose id begins so.

        Raises:
            UsageError: there is none, or there are several.
        """
        found = [each for each in self.findings() if each.finding.id.startswith(beginning)]
        if len(found) != 1 or not beginning:
            several = ", ".join(each.finding.id for each in found)
            raise UsageError(
                f"there is no finding {beginning}" if not found else f"{beginning} is not unique",
                why=f"these begin so: {several}" if found else "no finding has an id like this",
                fix="see: stackgen findings list --all",
            )
        return found[0]

    def acknowledge(self, found: FindingState, *, days: int | None, note: str) -> FindingState:
        """Record that someone knows of a finding; it is open again after so many days."""
        until = ""
        if days is not None:
            until = (self.now + timedelta(days=days)).astimezone(timezone.utc).isoformat()
        changed = replace(found, status=FindingStatus.ACKNOWLEDGED, until=until, note=note)
        self.put(changed)
        return changed

    def reopen(self, found: FindingState) -> FindingState:
        """Let a finding count again, from now on."""
        finding = replace(found.finding, found_at=self.moment)
        changed = replace(
            found, finding=finding, status=FindingStatus.OPEN, until="", note="reopened"
        )
        self.put(changed)
        return changed

    def close(
        self, found: FindingState, note: str, status: FindingStatus = FindingStatus.CLOSED
    ) -> None:
        """Record that a finding no longer counts, and why."""
        self.change(found.finding, lambda known: replace(known, status=status, note=note))

    def expire(self, watch: str, days: int, last: str) -> int:
        """Expire what was open for long, and reopen what was acknowledged until now.

        A clock may be wrong for one night: time has passed only where the last night of the watch
        saw it, too. What a wrong clock expired is open again once it is right.

        Args:
            watch: whose findings.
            days: for how long an open finding counts.
            last: when the last night was, as it is stored; "" before the first one.

        Returns:
            How many findings that expired are open again.
        """
        before = datetime.fromisoformat(last) if last else None
        again = 0
        for each in self.findings():
            found_at = datetime.fromisoformat(each.finding.found_at)
            until = datetime.fromisoformat(each.until) if each.until else None
            if each.finding.watch != watch:
                continue
            if each.status is FindingStatus.EXPIRED and until and until > self.now:
                self.put(replace(each, status=FindingStatus.OPEN, until=""))
                again += 1
            elif before is None:
                continue
            elif each.status is FindingStatus.OPEN and found_at > max(self.now, before):
                self.put(replace(each, finding=replace(each.finding, found_at=self.moment)))
            elif each.status is FindingStatus.OPEN and (
                min(self.now, before) - found_at > timedelta(days=days)
            ):
                self.put(replace(each, status=FindingStatus.EXPIRED, until=self.moment))
            elif (
                each.status is FindingStatus.ACKNOWLEDGED
                and until
                and until <= min(self.now, before)
            ):
                self.reopen(each)
        return again

    def notified(self, finding: Finding, target: str) -> bool:
        """Return whether a target knows of a finding."""
        with StateDatabase(self.path) as state:
            return state.notified(finding.id, target)

    def add_notification(self, finding: Finding, target: str) -> None:
        """Record that a target knows of a finding."""
        with StateDatabase(self.path) as state:
            state.add_notification(finding.id, target, self.moment)

    def _decoded(self, text: str, kind: type[_T]) -> _T:
        try:
            return msgspec.json.decode(text, type=kind)
        except msgspec.DecodeError as error:
            raise StorageError(
                f"{self.path} is damaged",
                why=f"a row of nights cannot be read: {error}",
                fix="move the file away; the next night is a first one",
            ) from error


def open_store(paths: Paths, *, reading: bool = False) -> NightStore:
    """Return what nights remember beside a knowledge base; ``reading`` makes none."""
    identity = ""
    if paths.knowledge.exists() or not reading:
        with open_database(paths.knowledge, reading=reading) as database:
            identity = database.base_id
    now = datetime.now(timezone.utc)
    return NightStore(path=state_path(paths.knowledge), knowledge_base=identity, now=now)
