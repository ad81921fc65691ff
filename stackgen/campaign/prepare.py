"""Builds candidates and tries them; every failure is recorded."""

import threading
import zipfile
from collections.abc import Callable, Collection, Container, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from itertools import count
from pathlib import Path

from stackgen.campaign.backend import Backend
from stackgen.campaign.candidates import Candidate, CandidateSource, CandidateState, versions_of
from stackgen.campaign.host import Host
from stackgen.campaign.runner import last_line
from stackgen.campaign.sdist_wheels import SdistWheels
from stackgen.campaign.session import Session
from stackgen.errors import (
    BuildError,
    EngineError,
    IndexUnavailableError,
    StackgenError,
    StorageError,
)
from stackgen.images.layer_store import LayerStore
from stackgen.images.virtualenvs import VirtualenvStore
from stackgen.index import PackageIndex, artifact_key
from stackgen.measure.bandit import Arm
from stackgen.measure.retry_policy import FailureCause, cause_of
from stackgen.model.identity import StackId
from stackgen.model.inspections import IndicatorCall, Inspection, Outcome, Role
from stackgen.model.packages import Artifact, Lock
from stackgen.model.progress import Progress
from stackgen.model.reports.campaigns import Estimate, FailedStack
from stackgen.model.stacks import Base, BaseFacts, Environment, EnvironmentKind, Stack
from stackgen.sandbox.process import log_tail
from stackgen.storage.files import free_bytes
from stackgen.storage.paths import Paths
from stackgen.storage.wheels import HashMismatchError, WheelStore, installed_bytes

DOWNLOAD_BYTES_S = 20e6
BUILD_BYTES_S = 25e6
"""Rough rates for estimates alone: downloads, and wheel bytes installed."""

BROKEN = (Outcome.IMPORT_FAILED, Outcome.CRASHED)
"""Outcomes that another completion of the same choice may not have."""
ALIKE = 3
"""After so many failures for the same reason, and nothing that works, no further one is tried."""


class _DownloadsEndedError(Exception):
    """Downloads ahead of their need are to end."""


class _SearchEndedError(Exception):
    """A search for working versions met something that says nothing about versions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Builder:
    """Fetches the wheels of a stack and builds it.

    varied: the packages that differ between the stacks of a campaign.
    sources: makes wheels of what has none.
    """

    index: PackageIndex
    store: WheelStore
    backend: Backend
    varied: frozenset[str]
    sources: SdistWheels
    host: Host
    progress: Progress

    def __call__(self, stack: Stack, label: str) -> Environment:
        """Return a stack's environment, made now or before.

        Raises:
            StackgenError: a wheel cannot be had, or the stack cannot be built.
        """
        ready, wheels = self._wheels(stack, label)
        try:
            made = self._build(ready, wheels, label)
        except (BuildError, FileNotFoundError) as error:
            # A disk may damage files, and files may change between check and use.
            if isinstance(error, EngineError) or not self.store.any_damaged(ready.lock.artifacts):
                raise
            ready, wheels = self._wheels(stack, label)
            made = self._build(ready, wheels, label)
        # The requested stack is recorded: its files are published, those built here are not.
        return replace(made, stack=stack)

    def _wheels(self, stack: Stack, label: str) -> tuple[Stack, dict[str, Path]]:
        downloaded: dict[str, int] = {}
        if self.store.missing(stack.lock.artifacts):
            self.progress.doing(f"downloading for {label}")

        def report(artifact: Artifact, count: int) -> None:
            downloaded[artifact.sha256] = count
            megabytes = sum(downloaded.values()) // 1_000_000
            self.progress.doing(f"downloading for {label}: {megabytes} MB")

        files = self.store.fetch(stack.lock.artifacts, downloader=self.index, progress=report)
        return self.sources.installable(stack, files)

    def _build(self, ready: Stack, wheels: Mapping[str, Path], label: str) -> Environment:
        with self.host.building(self.progress):
            self.progress.doing(f"building {label}")
            return self.backend.build(ready, wheels, self.varied)


@dataclass(slots=True, kw_only=True)
class Preparer:
    """Builds a candidate and tries it, with older dependencies where it must be.

    call: the indicator that it is tried with.
    reserve_s: what of the budget is left for others when versions that work are looked for.
    """

    facts: BaseFacts
    source: CandidateSource
    session: Session
    call: IndicatorCall
    progress: Progress
    reserve_s: Callable[[], float] = lambda: 0.0

    def prepare(self, candidate: Candidate) -> Candidate:
        """Return a candidate that is ready, or has failed.

        Raises:
            StackgenError: what has nothing to do with this stack: a lost engine, a full disk.
        """
        environment, ran = self._try(candidate)
        if environment is not None and ran.observation is not None:
            return replace(candidate, environment=environment)
        if _is_broken(ran) and candidate.may_search:
            self.progress.note(
                f"{candidate.label} with everything newest does not run "
                f"({last_line(ran.log)}); looking for versions that do."
            )
            again = self._search(candidate)
            if again is not None:
                environment, ran = self._try(again)
                if environment is not None and ran.observation is not None:
                    before, now = candidate.lock.versions, again.lock.versions
                    older = ((name, v) for name, v in now.items() if before.get(name, v) != v)
                    return replace(again, environment=environment, held_back=tuple(older))
        failure = FailedStack(
            label=candidate.label, outcome=ran.outcome, reason=last_line(ran.log), log=ran.log
        )
        return replace(candidate, failure=failure)

    def _search(self, candidate: Candidate) -> Candidate | None:
        """Look for versions that run, as long as the budget lasts."""

        def works(other: Candidate) -> bool:
            if self.session.left_s <= self.reserve_s():
                raise _SearchEndedError
            _, ran = self._try(other)
            explained = _is_broken(ran) or ran.outcome is Outcome.UNSUPPORTED
            if ran.observation is None and not explained:
                raise _SearchEndedError
            return ran.observation is not None

        try:
            return candidate.search(works)
        except _SearchEndedError:
            return None

    def _try(self, candidate: Candidate) -> tuple[Environment | None, Inspection]:
        """Build a candidate and run the indicator on it once; any failure is recorded.

        What is known to fail is neither built nor run again.
        """
        stack = candidate.stack(self.facts)
        self.session.record.database.add_stack(stack)
        known = self.session.record.known(stack.id, self.call)
        if known is not None and known.observation is None:
            return None, known
        environment = self._built(stack, candidate.label)
        if isinstance(environment, Inspection):
            return None, environment
        self.progress.doing(f"trying {candidate.label}")
        return environment, self.session.trial(environment, self.call)

    def _built(self, stack: Stack, label: str) -> Environment | Inspection:
        """Return a stack's environment, or how building it failed, which is recorded.

        Raises:
            EngineError: nothing of this stack's: the next one would meet the same.
        """
        while True:
            started = datetime.now(timezone.utc).isoformat(timespec="milliseconds")
            try:
                return self.session.environment(stack, label)
            except (IndexUnavailableError, BuildError) as error:
                log = f"{error.what}: {error.why}"
                campaign = self.session.record.campaign
                failed = Inspection(
                    stack_id=stack.id,
                    machine_id=campaign.machine_id,
                    indicator_id=self.call.id,
                    campaign_id=campaign.id,
                    block=0,
                    position=0,
                    role=Role.CALIBRATION,
                    outcome=_outcome(error),
                    started_at=started,
                    duration_s=0.0,
                    log=log_tail(log),
                )
                self.session.record.add(failed)
                if failed.outcome is Outcome.ENGINE_LOST:
                    raise
            known = self.session.record.known(stack.id, self.call)
            if not self.session.again_after_kill(failed, known):
                return failed


def _is_broken(ran: Inspection) -> bool:
    """Return whether other versions may run where these failed; a kill says nothing of them."""
    return ran.outcome in BROKEN and cause_of(ran) is not FailureCause.KILLED


def _outcome(error: Exception) -> Outcome:
    if isinstance(error, HashMismatchError):
        return Outcome.HASH_MISMATCH
    if isinstance(error, IndexUnavailableError):
        return Outcome.DOWNLOAD_FAILED
    if isinstance(error, EngineError):
        return Outcome.ENGINE_LOST
    return Outcome.BUILD_FAILED


LAYING_OUT_S = 3.0
"""What a build takes beside its downloads, roughly."""


@dataclass(slots=True, kw_only=True)
class Candidates:
    """The candidates that take part, newest first; what does not run is replaced by further ones.

    The position in ``members`` is the place of a candidate in the model of a search.

    wanted: how many shall run; twice as many are tried at most.
    budget_s: for everything; a first one that runs is looked for up to twice as long.
    full: whether the disk has no space for further stacks.
    """

    preparer: Preparer
    store: WheelStore
    index: PackageIndex
    progress: Progress
    wanted: int
    budget_s: float
    members: list[Candidate] = field(default_factory=list)
    full: bool = False
    _further: Iterator[Candidate] | None = None

    @property
    def varied(self) -> tuple[str, ...]:
        """Return the packages in which they differ."""
        return self.preparer.source.varied

    @property
    def ready(self) -> list[Candidate]:
        """Return those that were built and run."""
        return [each for each in self.members if each.state is CandidateState.READY]

    @property
    def failures(self) -> tuple[FailedStack, ...]:
        """Return how others failed, in the order in which they were tried."""
        return tuple(each.failure for each in self.members if each.failure is not None)

    @property
    def hopeless(self) -> bool:
        """Return whether so many failed alike that others will, where none runs."""
        kinds = {(each.outcome, each.reason) for each in self.failures}
        return len(self.failures) >= ALIKE and len(kinds) == 1

    def fill(self) -> None:
        """Let the first candidates take part, and further ones in place of those that fail."""
        if self._further is None:
            self._further = self.preparer.source.candidates()
        while sum(each.may_run for each in self.members) < self.wanted:
            candidate = next(self._further, None)
            if candidate is None or len(self.members) >= 2 * self.wanted:
                return
            self.members.append(candidate)

    def prepare(self, place: int) -> Candidate:
        """Return a candidate in its state after it was built and tried, now or before.

        On a full disk it stays planned.

        Raises:
            StackgenError: what has nothing to do with this candidate, such as a lost engine.
        """
        try:
            return self._prepared(place)
        except StorageError as error:
            if not self.ready:
                raise
            self.full = True
            self.progress.note(f"No further stacks: {error.what} ({error.why})")
            return self.members[place]

    def _prepared(self, place: int) -> Candidate:
        candidate = self.members[place]
        if candidate.state is not CandidateState.PLANNED:
            return candidate
        if not self._is_twin(candidate.stack(self.preparer.facts).id):
            candidate = self.preparer.prepare(candidate)
        stack = candidate.environment.stack if candidate.environment else None
        if candidate.failure is None and (stack is None or self._is_twin(stack.id)):
            candidate = replace(candidate, environment=None, excluded=True)
        self.members[place] = candidate
        if not candidate.may_run:
            self.fill()
        elif candidate.state is CandidateState.READY:
            whole = sum(each.may_run for each in self.members)
            self.progress.note(f"Ready ({len(self.ready)} of {whole}): {candidate.label}")
        return candidate

    def _is_twin(self, stack: StackId) -> bool:
        """Return whether another is the same stack, as when both were completed alike."""
        return any(e.environment and e.environment.stack.id == stack for e in self.members)

    def prepare_all(
        self, enough: Callable[[int], bool], between: Callable[[int], None] = lambda _: None
    ) -> None:
        """Prepare them in order until as many run as are wanted.

        A full disk or a lost engine ends it, and those that are ready go on.

        Args:
            enough: called before each further one with the number that run; True ends it.
            between: called while nothing is built or downloaded, with the number that is still to
                be prepared.

        Raises:
            StorageError: the disk is full, and there are not two to compare.
            EngineError: the engine went away, and there are not two to compare.
        """
        try:
            with self._downloading_ahead() as downloads:
                for place in count():
                    done = place >= len(self.members) or len(self.ready) >= self.wanted
                    if done or enough(len(self.ready)) or (self.hopeless and not self.ready):
                        return
                    self._prepared(place)
                    to_come = min(self.wanted, sum(each.may_run for each in self.members))
                    if to_come > len(self.ready) and not downloads.is_alive():
                        between(to_come - len(self.ready))
        except (StorageError, EngineError) as error:
            if len(self.ready) < 2:
                raise
            self.progress.note(f"No further stacks: {error.what} ({error.why})")

    @contextmanager
    def _downloading_ahead(self) -> Iterator[threading.Thread]:
        """Download the wheels of all members, in order, while the first ones are built and tried.

        Downloads end with the context, before anything is measured. What fails is met again, and
        reported, by the stack that needs it.
        """
        stop = threading.Event()

        def check(_: Artifact, __: int) -> None:
            if stop.is_set():
                raise _DownloadsEndedError

        def download(locks: Sequence[Lock]) -> None:
            with suppress(StackgenError, OSError, _DownloadsEndedError):
                for lock in locks:
                    if stop.is_set():
                        return
                    self.store.fetch(lock.artifacts, downloader=self.index, progress=check)

        locks = [each.lock for each in self.members]
        thread = threading.Thread(target=download, args=(locks,), name="downloads ahead")
        thread.start()
        try:
            yield thread
        finally:
            stop.set()
            thread.join()

    def prepare_first(self, failed: Container[StackId] = ()) -> int | None:
        """Prepare them in order until one runs; return its place: the baseline of all others.

        Args:
            failed: stacks that run, but failed in blocks: one of them only where no other runs.
        """
        doubtful = None
        for place in count():
            if place >= len(self.members):
                break
            environment = self.prepare(place).environment
            if environment is not None and environment.stack.id not in failed:
                return place
            if environment is not None and doubtful is None:
                doubtful = place
            if self.hopeless or self.preparer.session.left_s < -self.budget_s:
                break
        return doubtful

    def renew(self, environments: Iterable[tuple[int, Environment]]) -> None:
        """Take over environments that had to be made again."""
        for place, environment in environments:
            self.members[place] = replace(self.members[place], environment=environment)

    def arms(self, run_s: float) -> tuple[Arm, ...]:
        """Return what measuring each costs; ``run_s``: seconds of its inspections in a block."""
        return tuple(
            Arm(
                versions=each.versions(self.varied),
                run_s=run_s,
                build_s=0.0 if each.environment else self._build_s(each.lock.artifacts),
            )
            for each in self.members
        )

    def _build_s(self, artifacts: tuple[Artifact, ...]) -> float:
        missing = self.store.missing(artifacts)
        sizes = self.index.sizes(missing) if missing else {}
        moved = sum(sizes.get(artifact_key(each)) or 0 for each in missing)
        return LAYING_OUT_S + moved / DOWNLOAD_BYTES_S + moved / BUILD_BYTES_S

    def places(self, seen: Iterable[StackId]) -> Mapping[StackId, int]:
        """Return the place of each of these stacks that takes part, or did in an earlier run.

        A stack that was completed otherwise, because the newest versions did not run together,
        has the place of the versions that vary.
        """
        own = {each.stack(self.preparer.facts).id: p for p, each in enumerate(self.members)}
        alike = {
            each.versions(self.varied): p for p, each in enumerate(self.members) if each.choice
        }
        found = {}
        for each in seen:
            known = self.preparer.session.record.database.stack(each)
            place = own.get(each, alike.get(versions_of(known, self.varied)))
            if place is not None:
                found[each] = place
        return found


# Before anything is built: what stacks that are not there yet will move and take

_INSTALLED = 3.5  # bytes per byte of wheel, where only its size is known: seen 1.2 to 5
_LARGE = 50_000_000  # the directory of a larger wheel is read: CUDA's libraries hardly compress
_LINKS = 500_000  # of folders and small files, for each wheel that a virtualenv links


def disk_space_for(
    locks: Sequence[Lock], base: Base, *, paths: Paths, downloads: Mapping[str, int]
) -> int:
    """Return about how many bytes building these locks takes, beside their wheels.

    The layers of an image are in the engine, whose disk may be another one: they are counted as if
    it were not. While an image is loaded, its new layers exist twice more, as archives of ours and
    of the engine. Layers that exist may still have to be sent where the engine has no stack of
    ours.

    Args:
        downloads: installed sizes of the wheels that are not here yet, by their sha256.
    """
    wheels = WheelStore(paths.cache)
    distinct: dict[str, Artifact] = {each.sha256: each for lock in locks for each in lock.artifacts}

    def installed(artifacts: Sequence[Artifact]) -> int:
        return sum(_installed(each, wheels, downloads) for each in artifacts)

    if base.kind is EnvironmentKind.VIRTUALENV:
        virtualenvs = VirtualenvStore(paths.cache / "virtualenvs")
        made = [x for x in locks if virtualenvs.has(Stack(lock=x, facts=base.facts))]
        links = sum(len(lock.artifacts) for lock in locks if lock not in made) * _LINKS
        lacking = distinct.keys() - {each.sha256 for lock in made for each in lock.artifacts}
        return links + installed(virtualenvs.missing(base, [distinct[x] for x in lacking]))
    layers = LayerStore(paths.cache / "layers")
    missing = layers.missing(base, distinct.values())
    sent = missing if layers.stacks() else tuple(distinct.values())
    archives = (installed([e for e in sent if e in lock.artifacts]) for lock in locks)
    return installed(sent) + 2 * max(archives, default=0)


def _installed(artifact: Artifact, wheels: WheelStore, downloads: Mapping[str, int]) -> int:
    path = wheels.path(artifact) if artifact.is_wheel else None
    if path is None:
        return downloads.get(artifact.sha256) or round((artifact.size or 0) * _INSTALLED)
    try:
        with zipfile.ZipFile(path) as archive:
            return installed_bytes(archive)
    except zipfile.BadZipFile:
        return round(path.stat().st_size * _INSTALLED)


def estimate(
    locks: Sequence[Lock],
    base: Base,
    *,
    first: int,
    index: PackageIndex,
    store: WheelStore,
    paths: Paths,
) -> Estimate:
    """Return what building these locks will move and take; requests unknown sizes from the index.

    Args:
        locks: of all stacks, in the order in which they are built.
        first: how many of them are built before the first block.
    """
    missing = store.missing(_artifacts(locks))
    sizes = index.sizes(missing)
    known = {each.sha256: sizes.get(artifact_key(each)) or 0 for each in missing}
    large = index.installed_sizes(each for each in missing if known[each.sha256] > _LARGE)
    installed = {
        each.sha256: large.get(artifact_key(each)) or round(known[each.sha256] * _INSTALLED)
        for each in missing
    }
    download = sum(known.values())
    soon = sum(known.get(each.sha256, 0) for each in _artifacts(locks[:first]))
    return Estimate(
        wheels=len(missing),
        download_bytes=download,
        disk_bytes=download + disk_space_for(locks, base, paths=paths, downloads=installed),
        free_bytes=free_bytes(paths.cache),
        seconds=round(soon / DOWNLOAD_BYTES_S + soon / BUILD_BYTES_S + 10 * len(locks[:first])),
    )


def rough_estimate(
    own: Lock, varied: Collection[str], others: int, *, index: PackageIndex, store: WheelStore
) -> tuple[int, int] | None:
    """Return about how many bytes a lock and others like it will move, and take as images.

    Args:
        varied: the packages that differ in the others; the size of theirs is taken to be the same.
        others: how many stacks beside the lock.

    Raises:
        IndexUnavailableError: an index cannot be read.
    """
    found = index.sizes(own.artifacts)
    sizes = {each.sha256: found.get(artifact_key(each)) for each in own.artifacts}
    if any(each.name in varied and sizes[each.sha256] is None for each in own.artifacts):
        return None
    moved = {key: size or 0 for key, size in sizes.items()}
    missing = store.missing(own.artifacts)
    large = index.installed_sizes(each for each in missing if moved[each.sha256] > _LARGE)
    downloads = {e.sha256: large[k] for e in missing if (k := artifact_key(e)) in large}
    downloads |= {x: round(size * _INSTALLED) for x, size in moved.items() if x not in downloads}
    changed = [each for each in own.artifacts if each.name in varied]
    download = sum(moved[each.sha256] for each in missing)
    download += others * sum(moved[each.sha256] for each in changed)
    every = sum(_installed(each, store, downloads) for each in own.artifacts)
    new = others * sum(_installed(each, store, downloads) for each in changed)
    return download, download + new + 3 * every


def _artifacts(locks: Iterable[Lock]) -> list[Artifact]:
    """Return what some locks need, each once."""
    return list({each.sha256: each for lock in locks for each in lock.artifacts}.values())


def refuse_without_disk_space(found: Estimate, paths: Paths) -> None:
    """Refuse to begin what cannot fit.

    Raises:
        StorageError: the estimate exceeds what is free.
    """
    if found.disk_bytes > found.free_bytes:
        raise StorageError(
            "there is not enough disk space for these stacks",
            why=f"they need about {found.disk_bytes / 1e9:.1f} GB and {paths.cache} has "
            f"{found.free_bytes / 1e9:.1f} GB free",
            fix="explore fewer with --stacks, or set STACKGEN_CACHE to a larger disk",
        )
