"""What happened at the indexes since the last night, and which releases are to be measured."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from stackgen.errors import ResolutionError
from stackgen.model.findings import FindingState, FindingStatus
from stackgen.nightly.releases import (
    Event,
    EventKind,
    PackagePage,
    Resolve,
    changes,
    predecessor,
    release_pair,
    without_last,
)
from stackgen.nightly.store import NightStore, PendingRelease, WatchState
from stackgen.nightly.watch import Watch


@dataclass(slots=True, kw_only=True)
class Detection:
    """Brings the state of a watch on one base up to the pages of today.

    Releases are queued in the state; findings of withdrawn ones are closed in the store.

    events: of the night, to which what happened is added. notes: likewise, what follows from it.
    """

    watch: Watch
    base: str
    store: NightStore
    resolve: Resolve
    state: WatchState
    events: list[Event] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def run(self, pages: Mapping[str, PackagePage | None]) -> None:
        """Note what happened, and queue what is to be measured."""
        for name, now in pages.items():
            before = self.state.pages.get(name, PackagePage(releases={}))
            found = [self._known_before(each) for each in changes(name, before, now)]
            self.events += found
            for each in found:
                self._note(each, now)
            if now is not None:
                self.state.pages[name] = now
        self._retry_resolution(pages)

    def _known_before(self, event: Event) -> Event:
        """Return an event as it is: a release that disappeared for a while is no new one."""
        package, version = event.package, event.version
        known = (*self.state.gone.get(package, ()), *self.state.unusable.get(package, ()))
        returned = event.kind is EventKind.RELEASED and version in known
        return replace(event, kind=EventKind.BACK) if returned else event

    def _note(self, event: Event, page: PackagePage | None) -> None:
        own = [
            p
            for p in self.state.pending
            if (p.package, p.version) == (event.package, event.version)
        ]
        unusable = self.state.unusable.setdefault(event.package, [])
        gone = self.state.gone.setdefault(event.package, {})
        offered = (EventKind.RELEASED, EventKind.BACK, EventKind.UNYANKED)
        if event.kind in offered and page is not None:
            if event.version in unusable:
                unusable.remove(event.version)
            files = page.releases[event.version]
            is_restored = self.state.is_restored(event.package, event.version, files)
            gone.pop(event.version, None)
            if is_restored:
                self._restore(event.package, event.version)
            elif not own and not files.yanked:
                self.state.pending.append(
                    PendingRelease(
                        package=event.package,
                        version=event.version,
                        uploaded=files.uploaded,
                        before=dict(self.state.newest),
                    )
                )
        elif event.kind in (EventKind.YANKED, EventKind.GONE) and event.version:
            known = self.state.pages[event.package].releases.get(event.version)
            if event.kind is EventKind.GONE and known and not own and event.version not in unusable:
                gone[event.version] = known.fitting
            for each in own:
                self.state.pending.remove(each)
            if event.version not in unusable:
                unusable.append(event.version)
            self._withdraw(event.package, event.version, event.kind.value, page)

    def _withdraw(self, package: str, version: str, why: str, page: PackagePage | None) -> None:
        """Close what was found of a release that is no longer offered, and leave its stacks."""
        for found in self.store.of(self.watch.name, self.base, every=False):
            if (found.finding.package, found.finding.version) == (package, version):
                self.store.close(found, f"the release is {why}", FindingStatus.WITHDRAWN)
                self.notes.append(f"withdrawn: {found.finding.title}")
        rechecks = (package, version)
        self.state.recheck = [
            e for e in self.state.recheck if (e.finding.package, e.finding.version) != rechecks
        ]
        uses = version in (self.state.newest.get(package), self.state.best.get(package))
        previous = predecessor(page, version, self.state.unusable[package]) if page else ""
        if not uses or not previous:
            return
        for name in ("newest", "best"):
            stack = getattr(self.state, name)
            if stack.get(package) != version:
                continue
            try:
                pair = release_pair(
                    self.resolve,
                    self.watch.requirements,
                    stack,
                    package=package,
                    version=previous,
                    previous=previous,
                )
            except ResolutionError as error:
                self.notes.append(f"{package} {version} stays in the {name} stack: {error.why}")
            else:
                setattr(self.state, name, dict(pair.new))

    def _restore(self, package: str, version: str) -> None:
        """Let the findings of a release count again that disappeared for a while, unchanged."""
        for each in self.store.of(self.watch.name, self.base):
            release = each.finding.package, each.finding.version
            if release == (package, version) and each.status is FindingStatus.WITHDRAWN:
                self.store.put(replace(each, status=FindingStatus.OPEN, note="the release is back"))
        self.notes.append(f"{package} {version} is back, with the same files: not measured again")

    def _retry_resolution(self, pages: Mapping[str, PackagePage | None]) -> None:
        """Queue releases again that could not be resolved, and can be now: a file was late.

        They are queued for good before their findings are closed: a night that is killed in between
        must not forget them.
        """
        resolved: list[FindingState] = []
        for found in self.store.of(self.watch.name, self.base, every=False):
            finding, page = found.finding, pages.get(found.finding.package)
            if finding.measure != "resolve" or page is None or finding.version not in page.releases:
                continue
            try:
                self.resolve([f"{finding.package}=={finding.version}"], [])
            except ResolutionError:
                continue
            resolved.append(found)
            self.notes.append(f"{finding.package} {finding.version} can be resolved now")
            self._note(
                Event(kind=EventKind.RELEASED, package=finding.package, version=finding.version),
                page,
            )
        if resolved:
            self.store.save(self.watch.key(self.base), self.state)
        for found in resolved:
            self.store.close(found, "it can be resolved now")


def first_state(
    watch: Watch,
    base: str,
    store: NightStore,
    resolve: Resolve,
    pages: Mapping[str, PackagePage | None],
    *,
    releases: int,
) -> WatchState:
    """Return the state of a first night: all that is there counts as handled.

    releases: so many of each package count as new.

    Raises:
        ResolutionError: a package does not exist, or no stack satisfies the requirements.
    """
    for name, page in pages.items():
        if page is None:
            raise no_package(name)
    before = {
        name: first_page(watch, base, store, name, page, releases=releases)
        for name, page in pages.items()
        if page
    }
    excluded = [
        f"{name}!={version}"
        for name, page in before.items()
        for version in (pages[name] or page).releases.keys() - page.releases.keys()
    ]
    newest = dict(resolve(watch.requirements, sorted(excluded)))
    return WatchState(pages=before, newest=newest, best=newest)


def no_package(name: str) -> ResolutionError:
    """Return the error of a package that cannot be watched."""
    return ResolutionError(
        f"there is no package {name}",
        why="no index has it",
        fix="correct the requirement, or name an index in your pip configuration",
    )


def first_page(
    watch: Watch, base: str, store: NightStore, name: str, page: PackagePage, *, releases: int
) -> PackagePage:
    """Return a package's page as it is before a first night, without what counts as new."""
    indicators = ", ".join(sorted(set(watch.indicators))) or "default indicators"
    decided = store.decided(f"{name} | {base} | {indicators}", name)
    if not decided or releases:
        return without_last(page, releases)
    kept = {v: files for v, files in page.releases.items() if v in decided}
    return replace(page, releases=kept)
