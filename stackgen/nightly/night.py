"""One night of one watch on one base: from what was released to findings."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Protocol

from packaging.version import Version

from stackgen import interrupts
from stackgen.errors import (
    EngineError,
    EvidenceError,
    IndexUnavailableError,
    MeasurementError,
    ResolutionError,
    StackgenError,
    StorageError,
    UsageError,
)
from stackgen.model.findings import (
    Attribution,
    ExaminedRelease,
    Finding,
    FindingKind,
    FindingState,
    FindingStatus,
    NightOutcome,
    NightReport,
)
from stackgen.model.progress import Progress
from stackgen.nightly.decide import (
    CONFIRM_ALPHA,
    HOLDS_ALPHA,
    PairResult,
    Signal,
    confirmed,
    fixed,
    flagged,
    holds,
    needs_third,
    smallest_detectable,
)
from stackgen.nightly.detect import Detection, first_state
from stackgen.nightly.releases import Event, PackagePage, Pair, Pins, predecessor, release_pair
from stackgen.nightly.store import NightStore, PendingRelease, Recheck, WatchState
from stackgen.nightly.watch import Watch

FINDINGS = 7
"""The exit code of a night that found something."""
_RESOLVE_NIGHTS = 2
"""A release that no stack can have is broken after so many nights: indexes update bit by bit."""
_CLOCK_CHANGE = timedelta(hours=1)
"""A clock that was put back by less is none that was wrong: time servers correct it."""
_UNSTEADY_NIGHTS = 3
"""Where its controls failed in so many nights, a release will not be decided on this machine."""
_SEEDS = 10
"""Seeds that one attempt at a pair may use, one for each stage."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """Which campaign of a pair: each has its own seed, and its own builds.

    replica: 0 for the usual environments; others are built anew in another folder, and run with
        another size of the environment block.
    alpha: of each comparison; None: that of a first campaign, by Holm's procedure.
    is_screening: it ends where what the watch is to detect is excluded; others look for less.
    """

    seed: int
    replica: int = 0
    alpha: float | None = None
    is_screening: bool = False


FIRST = Stage(seed=1, is_screening=True)
AGAINST_BEST = Stage(seed=1)
CONFIRM = Stage(seed=2, replica=1, alpha=CONFIRM_ALPHA)
CONFIRM_AGAIN = Stage(seed=5, replica=3, alpha=CONFIRM_ALPHA)
PERSIST = Stage(seed=3, replica=2, alpha=HOLDS_ALPHA)
WITHOUT = Stage(seed=4, replica=1, alpha=HOLDS_ALPHA)


class Site(Protocol):
    """What a night needs from outside: indexes, and campaigns on one base."""

    def pages(self, specifiers: Mapping[str, str]) -> Mapping[str, PackagePage | None]:
        """Return the pages of packages as they are now, of the versions that specifiers admit.

        None where no index has the package.

        Raises:
            IndexUnavailableError: an index cannot be reached.
        """

    def resolve(self, requirements: Sequence[str], constraints: Sequence[str]) -> Pins:
        """Return the newest stack.

        Raises:
            ResolutionError: there is none.
        """

    def measure(self, pair: Pair, stage: Stage, budget_s: float) -> PairResult:
        """Run a campaign of two stacks, or go on with it.

        Raises:
            StackgenError: one of its kinds for whatever is in the way.
        """

    def command(self, pair: Pair) -> str:
        """Return the command line that measures a pair."""


Attribute = Callable[[Finding, Pair, float], Attribution | None]
"""Finds the change that causes a finding within so many seconds; None where nothing can."""


def no_attribution(_: Finding, __: Pair, ___: float) -> Attribution | None:
    """Leave the cause of each finding open."""
    return None


class _NightEndedError(Exception):
    """The engine, the disk or the user ended the night."""

    def __init__(self, why: str, exit_code: int) -> None:
        super().__init__(why)
        self.exit_code = exit_code


@dataclass(slots=True, kw_only=True)
class Night:
    """One night; its steps are methods in the order of time.

    ends: when its budget is spent, by ``clock``, in seconds of a monotonic clock.
    releases: on a first night, how many releases of each package count as new.
    attribute: names the culprit of a finding with several changes.
    """

    watch: Watch
    base: str
    site: Site
    store: NightStore
    clock: Callable[[], float]
    ends: float
    progress: Progress
    releases: int = 0
    attribute: Attribute = no_attribution
    state: WatchState = field(init=False)
    events: list[Event] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    examined: list[ExaminedRelease] = field(default_factory=list)
    undecided: list[str] = field(default_factory=list)
    _unsteady_nights: int = 0
    _absent: set[str] = field(default_factory=set)

    def run(self) -> NightReport:
        """Detect, examine and record; what stops it is reported, and the next night goes on."""
        began = self.clock()
        error, code = "", 0
        try:
            self._run()
        except _NightEndedError as ended:
            error, code = str(ended), ended.exit_code
        except UsageError:
            raise
        except StackgenError as failed:
            error, code = f"{failed.what}: {failed.why}", failed.exit_code
        return self._report(self.clock() - began, error, code)

    @property
    def _key(self) -> str:
        return self.watch.key(self.base)

    def _run(self) -> None:
        known = self.store.load(self._key)
        self._expire(known.last if known else "")
        self.progress.doing("reading the index")
        pages = self.site.pages(self.watch.specifiers)
        if known is None:
            own = (self.watch, self.base, self.store, self.site.resolve)
            self.state = first_state(*own, pages, releases=self.releases)
            self.notes.append(
                f"first night of {', '.join(self.state.pages)}: existing releases are recorded, "
                "later ones count as new"
            )
        else:
            self.state = known
        self.state.last = self.store.moment
        self._absent = {name for name, page in pages.items() if page is None}
        Detection(
            watch=self.watch,
            base=self.base,
            store=self.store,
            resolve=self.site.resolve,
            state=self.state,
            events=self.events,
            notes=self.notes,
        ).run(pages)
        self._save()
        for place, each in enumerate(rechecks := list(self.state.recheck)):
            waiting_for = len(rechecks) - place + len(self.state.pending)
            self._check_persistence(each, among=waiting_for)
        waiting = sorted(
            self.state.pending, key=lambda e: (e.uploaded, e.package, Version(e.version))
        )
        for place, release in enumerate(waiting):
            self._examine(release, among=len(waiting) - place)
        if self.state.against_best and not self.state.pending:
            self._compare_with_best()
        self._save()

    def _save(self) -> None:
        self.store.save(self._key, self.state)

    def _expire(self, last: str) -> None:
        """Expire findings, and report a clock that disagrees with the one of the last night."""
        again = self.store.expire(self.watch.name, self.watch.expire_days, last)
        if again:
            self.notes.append(f"{again} findings expired by a clock that was ahead: open again")
        passed = self.store.now - datetime.fromisoformat(last) if last else timedelta()
        if passed < -_CLOCK_CHANGE:
            self.notes.append(
                f"the clock is behind the last night ({last}): one of the two is wrong"
            )
        elif passed > timedelta(days=self.watch.expire_days):
            self.notes.append(
                f"the last night was {passed.days} days ago, or the clock is wrong: findings "
                "expire from the next night on"
            )

    def _pair(self, package: str, version: str, previous: str, reference: Pins) -> Pair:
        return release_pair(
            self.site.resolve,
            self.watch.requirements,
            reference,
            package=package,
            version=version,
            previous=previous,
        )

    # Examining: one release after the other, each against its predecessor

    def _examine(self, release: PendingRelease, *, among: int) -> None:
        """Measure one release, and once more what differs; it is handled when that is decided."""
        name = f"{release.package} {release.version}"
        if self._left_s <= 0:
            self.undecided.append(f"{name}: the budget is spent")
            return
        self.progress.note(f"New: {name}")
        try:
            missing = self._missing(release, among)
        except UsageError:
            raise
        except (EngineError, StorageError) as error:
            self.undecided.append(f"{name}: {error.what}: {error.why}")
            self._save()
            raise
        except StackgenError as error:
            missing = f"{error.what}: {error.why}"
        if missing:
            self.undecided.append(f"{name}: {missing}")
        else:
            self.state.pending.remove(release)
        self._save()

    def _missing(self, release: PendingRelease, among: int) -> str:
        """Return what is missing for an answer; "" where the release is handled."""
        if release.package in self._absent:
            return f"no index has {release.package} at present"
        if not release.new:
            why = self._resolved(release)
            if why is not None:
                return why
            self._save()
        pair = Pair(old=release.old, new=release.new)
        first, second, signals = self._campaigns(pair, FIRST, release.attempt, among)
        if signals and not self._is_offered(release):
            return "it was withdrawn while it was measured"
        recovering = {
            each.finding.measure
            for each in self._open()
            if each.finding.package == release.package and each.finding.kind is FindingKind.SLOWER
        }
        for signal in signals:
            if signal.kind is FindingKind.FASTER and signal.measure in recovering:
                continue  # against the best stack it is fixed again, or still slower
            self._record(signal, pair, package=release.package, version=release.version,
                         previous=release.previous, before=release.before)  # fmt: skip
        missing = self._blamed(release, first) or self._blamed(release, second)
        if missing:  # what was confirmed is recorded; the rest goes on the next night
            return missing
        self._done(release, pair, first, signals)
        measured = [each for each in (first, second) if each is not None]
        self.examined.append(
            ExaminedRelease(
                package=release.package,
                version=release.version,
                previous=release.previous,
                result=_result(first, signals, self.watch.detect),
                blocks=sum(each.blocks for each in measured),
                seconds=sum(each.seconds for each in measured),
            )
        )
        return ""

    def _resolved(self, release: PendingRelease) -> str | None:
        """Find the pair of a release; return None, or why there is none ("": nothing to do)."""
        package, version = release.package, release.version
        page, unusable = self.state.pages[package], self.state.unusable.get(package, [])
        reference = self.state.newest.get(package, "")
        if reference and reference not in unusable and Version(reference) < Version(version):
            release.previous = reference
        else:
            release.previous = predecessor(page, version, unusable)
        if not release.previous:
            self.notes.append(f"{package} {version}: there is no earlier release to compare with")
            return ""
        try:
            pair = self._pair(package, version, release.previous, self.state.newest)
        except ResolutionError as error:
            return self._not_resolved(release, error)
        release.old, release.new = dict(pair.old), dict(pair.new)
        return None

    def _not_resolved(self, release: PendingRelease, error: ResolutionError) -> str:
        """Tell a release that others do not admit from one that cannot be installed at all."""
        package, version = release.package, release.version
        try:
            self.site.resolve([f"{package}=={version}"], [])
        except ResolutionError as alone:
            release.nights += 1
            if release.nights < _RESOLVE_NIGHTS:
                return f"it cannot be resolved yet: {alone.why}"
            signal = Signal(kind=FindingKind.BROKEN, measure="resolve", detail=alone.why)
            pair = Pair(old=self.state.newest, new={**self.state.newest, package: version})
            self._record(signal, pair, package=package, version=version, previous=release.previous)
            self.state.unusable.setdefault(package, []).append(version)
            return ""
        self.notes.append(f"{package} {version}: other packages do not admit it ({error.why})")
        return ""

    def _campaigns(
        self, pair: Pair, stage: Stage, attempt: int, among: int
    ) -> tuple[PairResult, PairResult | None, Sequence[Signal]]:
        """Return what the first campaign says, what confirms it if any, and what both show."""
        first = self._measured(pair, stage, attempt, among)
        signals = flagged(first)
        if not signals:
            return first, None, ()
        late = PairResult(complete=False, missing="a difference is not confirmed yet")
        if self._left_s <= 0:
            return first, late, ()
        self.progress.note("A difference: measuring it a second time, independently.")
        last = second = self._measured(pair, CONFIRM, attempt, among)
        found = confirmed(signals, second)
        if needs_third(signals, second):
            if self._left_s <= 0:
                return first, late, found
            self.progress.note("Not decided by that alone: measuring it a third time.")
            third = self._measured(pair, CONFIRM_AGAIN, attempt, among)
            found = confirmed(signals, second, third)
            blocks, seconds = second.blocks + third.blocks, second.seconds + third.seconds
            last = replace(third, blocks=blocks, seconds=seconds)
        if len(found) == len(signals):
            last = replace(last, complete=True, missing="")
        return first, last, found

    def _measured(self, pair: Pair, stage: Stage, attempt: int, among: int) -> PairResult:
        own = replace(stage, seed=_SEEDS * attempt + stage.seed)
        found = self.site.measure(pair, own, max(1.0, self._left_s / among))
        self.ends += found.waited_s
        if found.interrupted:
            raise _NightEndedError("you interrupted it", interrupts.exit_code())
        return found

    def _blamed(self, release: PendingRelease, measured: PairResult | None) -> str:
        """Return why a campaign says nothing of a release; "" where it does, or is none."""
        if measured is None:
            return ""
        for failure in measured.failures:
            if failure.step is None:
                return f"not the release's fault, tried again: {failure.reason}"
            if not failure.is_new:
                self.state.unusable.setdefault(release.package, []).append(release.previous)
                release.old, release.new = {}, {}
                return f"{release.previous}, its predecessor, does not run: {failure.reason}"
        if measured.controls_failed:
            release.attempt += 1
            return self._anew(release.attempt)
        if not measured.complete and not any(each.is_new for each in measured.failures):
            return measured.missing or "it takes more blocks"
        return ""

    def _anew(self, nights: int) -> str:
        """Return why a campaign whose controls failed in so many nights says nothing."""
        if nights >= _UNSTEADY_NIGHTS:
            self._unsteady_nights = max(nights, self._unsteady_nights)
        failed = f"failed in {nights} nights" if nights > 1 else "failed"
        return f"the controls {failed}, the machine was not quiet enough; it begins anew"

    def _is_offered(self, release: PendingRelease) -> bool:
        """Return whether a release is still at the index, and not yanked."""
        specifiers = {release.package: self.watch.specifiers[release.package]}
        page = self.site.pages(specifiers)[release.package]
        files = page.releases.get(release.version) if page else None
        return files is not None and bool(files.fitting) and not files.yanked

    def _done(
        self, release: PendingRelease, pair: Pair, first: PairResult, signals: Sequence[Signal]
    ) -> None:
        """Move the newest stack on to a release that runs; leave out one that does not."""
        package, version = release.package, release.version
        if any(each.kind is FindingKind.BROKEN for each in signals):
            self.state.unusable.setdefault(package, []).append(version)
            return
        for found in self._open():
            broken = found.finding.kind is FindingKind.BROKEN
            if broken and self._is_later(found.finding, package, version):
                self._fix(found, first, pair, package, version)
        newest = self.state.newest.get(package)
        if newest is not None and Version(newest) > Version(version):
            return
        simple = self.state.newest == self.state.best == dict(pair.old)
        self.state.newest = dict(pair.new)
        if simple and not any(each.kind.is_regression for each in signals):
            self.state.best = dict(pair.new)
        elif not simple:
            self.state.against_best = True

    # Comparing the newest stack with the best one, while a regression is open

    def _compare_with_best(self) -> None:
        pair = Pair(old=self.state.best, new=self.state.newest)
        if not pair.changes or self._left_s <= 0:
            self.state.against_best = bool(pair.changes)
            return
        self.progress.note("The newest stack against the best one")
        try:
            attempt = self.state.best_attempt
            first, second, signals = self._campaigns(pair, AGAINST_BEST, attempt, 1)
        except ResolutionError as error:
            self.notes.append(f"the best stack cannot be had any more: {error.why}")
            self.state.best, self.state.against_best = dict(self.state.newest), False
            return
        measured = [each for each in (first, second) if each is not None]
        failed = [e for each in measured for e in each.failures if not e.is_new or not e.step]
        if failed:  # nothing was compared: no finding is fixed, and the best stack stays
            self.undecided.append(f"the newest stack against the best one: {failed[0].reason}")
            self.state.against_best = any(each.step is None for each in failed)
            return
        why = "" if all(each.complete for each in measured) else "it takes more blocks"
        if any(each.controls_failed for each in measured):
            self.state.best_attempt += 1
            self.state.best_unsteady += 1
            why = self._anew(self.state.best_unsteady)
        else:
            self.state.best_unsteady = 0
        if why:
            self.undecided.append(f"the newest stack against the best one: {why}")
            return
        self.state.against_best = False
        tonight = {(each.package, each.version) for each in self.examined}
        for found in self._open():
            finding = found.finding
            newest = self.state.newest.get(finding.package, "")
            if newest and self._is_later(finding, finding.package, newest):
                # A late wheel of an old release may differ; the newer release never did.
                earlier = finding.found_at != self.store.moment
                is_news = earlier or (finding.package, newest) in tonight
                self._fix(found, first, pair, finding.package, newest, is_news=is_news)
        known = {(each.finding.kind, each.finding.measure) for each in self._open()}
        for signal in signals:
            if signal.key not in known:
                names = ", ".join(name for name, _, new in pair.changes if new)
                versions = ", ".join(new for _, _, new in pair.changes if new)
                self._record(
                    signal, pair, package=names, version=versions, previous="the best stack"
                )
        if not any(each.kind.is_regression for each in signals):
            self.state.best = dict(self.state.newest)

    def _is_later(self, finding: Finding, package: str, version: str) -> bool:
        own = finding.package == package and finding.kind.is_regression
        return own and Version(version) > Version(finding.version)

    def _fix(
        self,
        found: FindingState,
        measured: PairResult,
        pair: Pair,
        package: str,
        version: str,
        *,
        is_news: bool = True,
    ) -> None:
        """Close a regression that a later release no longer has, and report that if it is news."""
        bad = found.finding
        signal = Signal(kind=bad.kind, measure=bad.measure, ratio=bad.ratio)
        if not fixed(signal, measured):
            return
        if not is_news:
            self.store.close(found, f"{version}, which is newer, does not have it")
            return
        self._record(
            Signal(kind=FindingKind.FIXED, measure=bad.measure, detail=f"not {bad.kind.value} any "
                   f"more, as {bad.version} was"),
            pair, package=package, version=version, previous=bad.version,
        )  # fmt: skip
        self.store.close(found, f"fixed in {version}")

    # Findings: recorded once, and measured again the next night

    def _open(self) -> tuple[FindingState, ...]:
        return self.store.of(self.watch.name, self.base, every=False)

    def _record(
        self,
        signal: Signal,
        pair: Pair,
        *,
        package: str,
        version: str,
        previous: str,
        before: Pins | None = None,
    ) -> None:
        finding = Finding(
            watch=self.watch.name,
            base=self.base,
            package=package,
            version=version,
            previous=previous,
            kind=signal.kind,
            measure=signal.measure,
            found_at=self.store.moment,
            ratio=signal.ratio,
            low=signal.low,
            high=signal.high,
            detail=signal.detail,
            changes=pair.changes,
            command=self.site.command(pair),
        )
        added = self.store.add(finding)
        if added is None:
            return
        cause = self._cause(finding, signal, pair, before or pair.old)
        if cause is not None:
            finding = replace(finding, attribution=cause)
            self.store.change(finding, lambda known: replace(known, finding=finding))
        known = any(each.finding.id == finding.id for each in self.state.recheck)
        if not known and signal.kind is not FindingKind.FIXED and signal.measure != "resolve":
            self.state.recheck.append(
                Recheck(finding=finding, old=dict(pair.old), new=dict(pair.new))
            )

    def _cause(
        self, finding: Finding, signal: Signal, pair: Pair, before: Pins
    ) -> Attribution | None:
        """Return what causes a finding; None where one release alone can be the cause.

        Several changed packages are bisected. Beside other releases of this night, one release is
        measured once more without these: it may be slow only together with them.
        """
        if self._left_s <= 0 or finding.kind is FindingKind.FIXED:
            return None
        if len(pair.changes) > 1:
            self.progress.note(f"Finding the cause: {finding.title}")
            return self.attribute(finding, pair, self._left_s / 2)
        (package, previous, version), *_ = pair.changes
        moved = Pair(old=before, new=pair.new).changes
        others = [(name, new) for name, _, new in moved if name != package and new]
        if not others or not previous or not version:
            return None
        release = f"{package} {version}"
        names = " and ".join(f"{name} {new}" for name, new in others)
        self.progress.note(f"Finding the cause: {finding.title}, without {names}")
        try:
            alone = self._pair(package, version, previous, before)
            if len(alone.changes) > 1 or any(alone.new.get(name) == new for name, new in others):
                return Attribution(culprits=(), answer=f"{release} needs {names}")
            shows = holds(signal, self._measured(alone, WITHOUT, 0, among=2))
        except (ResolutionError, IndexUnavailableError) as error:
            return Attribution(culprits=(), answer=f"not decided: {error.what}: {error.why}")
        if shows is None:
            return Attribution(culprits=(), answer=f"not decided whether {release} needs {names}")
        if shows:
            answer = f"{release} is responsible: it shows without {names}, too"
            return Attribution(culprits=(), answer=answer)
        return Attribution(culprits=(), answer=f"{release} and {names}, only together")

    def _check_persistence(self, recheck: Recheck, *, among: int) -> None:
        """Measure a finding of the last night again; close it where it does not show."""
        finding = recheck.finding
        found = next((e for e in self._open() if e.finding.id == finding.id), None)
        if found is None or self._left_s <= 0:
            if found is None:
                self.state.recheck.remove(recheck)
            return
        self.progress.note(f"Measuring again: {finding.title}")
        signal = Signal(kind=finding.kind, measure=finding.measure)
        pair = Pair(old=recheck.old, new=recheck.new)
        try:
            measured = self._measured(pair, PERSIST, recheck.attempt, among)
            shows = holds(signal, measured)
        except (EngineError, StorageError, UsageError):
            raise
        except StackgenError as error:
            self.undecided.append(f"{finding.title}: not measured again: {error.what}")
            return
        if shows is None:
            why = "it takes more blocks"
            if measured.controls_failed:  # the same campaign would say the same for ever
                place, attempt = self.state.recheck.index(recheck), recheck.attempt + 1
                self.state.recheck[place] = replace(recheck, attempt=attempt)
                why = self._anew(attempt)
                self._save()
            self.undecided.append(f"{finding.title}: whether it persists: {why}")
            return
        self.state.recheck.remove(recheck)
        self.store.change(finding, lambda known: replace(known, persists=shows))
        if shows:
            self.notes.append(f"persists: {finding.title}")
        else:
            self.store.close(found, "the next night did not show it")
            self.notes.append(f"not shown again, closed: {finding.title}")
        self._save()

    @property
    def _left_s(self) -> float:
        return self.ends - self.clock()

    # Reporting

    def _report(self, seconds: float, error: str, code: int) -> NightReport:
        if self._unsteady_nights and not error:
            error, code = (
                f"the controls failed in {self._unsteady_nights} nights: equal stacks differ on "
                "this machine; stackgen noise reports by how much",
                MeasurementError.exit_code,
            )
        found = tuple(
            each.finding
            for each in self.store.of(self.watch.name, self.base)
            if not each.reported
            and each.status is not FindingStatus.WITHDRAWN
            and each.persists is not False  # a killed night found it, and this one does not show it
        )
        if found:
            outcome, code = NightOutcome.FINDINGS, FINDINGS
        elif error:
            outcome = NightOutcome.COULD_NOT_RUN
        elif self.undecided:
            outcome, code = NightOutcome.UNDECIDED, EvidenceError.exit_code
        else:
            outcome = NightOutcome.ALL_WELL if self.examined else NightOutcome.NOTHING_NEW
        return NightReport(
            watch=self.watch.name,
            base=self.base,
            outcome=outcome,
            started_at=self.store.moment,
            events=(*(each.text for each in self.events), *self.notes),
            examined=tuple(self.examined),
            findings=found,
            undecided=tuple(self.undecided),
            open_findings=tuple(e for e in self._open() if e.status is FindingStatus.OPEN),
            error=error,
            seconds=seconds,
            budget_s=self.watch.budget_s,
            exit_code=code,
        )


def _result(first: PairResult, signals: Sequence[Signal], detect: float) -> str:
    """Return what was found of a release, in words."""
    if signals:
        return ", ".join(f"{each.kind.value} ({each.measure})" for each in signals)
    least = smallest_detectable(first, detect)
    if least == float("inf"):
        return "no difference"
    return f"no difference; one of {100 * (least - 1):.1f} % would have shown"
