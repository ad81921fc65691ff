"""From candidates to environments that run, with every failure kept as knowledge."""

import shutil
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from itertools import islice
from pathlib import Path

from stackgen.artifacts.wheels import HashMismatchError, WheelStore
from stackgen.errors import BuildError, EngineError, IndexUnavailableError, StorageError
from stackgen.executors.process import log_tail
from stackgen.index import PackageIndex, artifact_key
from stackgen.measure.retry_policy import Cause, cause_of
from stackgen.pipeline.campaign import Runner, telling_line
from stackgen.pipeline.host import Host
from stackgen.pipeline.places import Places
from stackgen.pipeline.progress import Progress
from stackgen.pipeline.room import room_for
from stackgen.pipeline.selection import Candidate, Contenders
from stackgen.pipeline.sources import Sources
from stackgen.pipeline.workshop import Workshop
from stackgen.values import (
    Artifact,
    Base,
    BaseFacts,
    ChosenStack,
    Environment,
    Estimate,
    FailedStack,
    IndicatorCall,
    Inspection,
    Lock,
    Outcome,
    Role,
    Stack,
    StackId,
)

DOWNLOAD_BYTES_S = 20e6
BUILD_BYTES_S = 25e6
"""Rough rates for estimates alone: downloads, and wheel bytes installed."""

BROKEN = (Outcome.IMPORT_FAILED, Outcome.CRASHED)
"""Outcomes that another completion of the same choice may not have."""
ALIKE = 3
"""After so many failures for the same reason, and nothing that works, no further one is tried."""


class _SearchEndedError(Exception):
    """A search for working versions met something that says nothing about versions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ready:
    """A stack that was tried and works."""

    chosen: ChosenStack
    environment: Environment


@dataclass(frozen=True, slots=True, kw_only=True)
class Builder:
    """Fetches the wheels of a stack and builds it.

    varied: the packages that differ between the stacks of a campaign.
    sources: makes wheels of what has none.
    """

    index: PackageIndex
    store: WheelStore
    workshop: Workshop
    varied: frozenset[str]
    sources: Sources
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
            # A disk may spoil what nobody touched, and files may change between check and use.
            if isinstance(error, EngineError) or not self.store.any_damaged(ready.lock.artifacts):
                raise
            ready, wheels = self._wheels(stack, label)
            made = self._build(ready, wheels, label)
        # What is recorded is what was asked for: anybody can install what is published.
        return replace(made, stack=stack)

    def _wheels(self, stack: Stack, label: str) -> tuple[Stack, dict[str, Path]]:
        here: dict[str, int] = {}

        def tell(artifact: Artifact, count: int) -> None:
            here[artifact.sha256] = count
            megabytes = sum(here.values()) // 1_000_000
            self.progress.doing(f"downloading for {label}: {megabytes} MB")

        files = self.store.fetch(stack.lock.artifacts, downloader=self.index, progress=tell)
        return self.sources.installable(stack, files)

    def _build(self, ready: Stack, wheels: Mapping[str, Path], label: str) -> Environment:
        self.progress.doing(f"building {label}")
        with self.host.building(self.progress):
            return self.workshop.build(ready, wheels, self.varied)


@dataclass(slots=True, kw_only=True)
class Preparer:
    """Has stacks built and tries them until enough of them work.

    reserve_s: what of the budget is left for others when versions that work are looked for.
    """

    facts: BaseFacts
    selection: Contenders
    runner: Runner
    call: IndicatorCall
    progress: Progress
    reserve_s: Callable[[], float] = lambda: 0.0
    failures: list[FailedStack] = field(default_factory=list)

    def prepare(self, wanted: int, *, until: Callable[[int], bool]) -> Iterator[Ready]:
        """Yield stacks that work, newest first, each stack once.

        Args:
            wanted: yield no more than this; twice as many are tried at most.
            until: asked before each further stack with the number that work so far; True ends it.
        """
        given: set[StackId] = set()
        for candidate in islice(self._distinct(given), 2 * wanted):
            if len(given) >= wanted or until(len(given)) or (not given and self.nothing_helps):
                return
            found = self.ready(candidate)
            if found is not None and found.chosen.stack_id not in given:
                given.add(found.chosen.stack_id)
                yield found

    def _distinct(self, given: Container[StackId]) -> Iterator[Candidate]:
        """Yield the candidates that are not the same stack as one that works already."""
        return (each for each in self.selection.candidates() if self.stack(each).id not in given)

    def stack(self, candidate: Candidate) -> Stack:
        """Return what a candidate is on this base."""
        return Stack(lock=candidate.lock, facts=self.facts, settings=candidate.settings)

    @property
    def nothing_helps(self) -> bool:
        """Return whether so many failed for the same reason that others will, where none runs."""
        kinds = {(each.outcome, each.reason) for each in self.failures}
        return len(self.failures) >= ALIKE and len(kinds) == 1

    def ready(self, candidate: Candidate) -> Ready | None:
        """Return a stack that was built and runs, with older dependencies where it must be.

        Returns:
            None where it does not run; that is among the failures then.

        Raises:
            StackgenError: what has nothing to do with this stack: a lost engine, a full disk.
        """
        environment, ran = self._try(candidate)
        if environment is not None and ran.observation is not None:
            return _ready(candidate, environment, candidate.lock)
        if _is_broken(ran) and self.selection.may_search(candidate):
            self.progress.note(
                f"{candidate.label} with everything newest does not run "
                f"({telling_line(ran.log)}); looking for versions that do."
            )
            again = self._search(candidate)
            if again is not None:
                environment, ran = self._try(again)
                if environment is not None and ran.observation is not None:
                    return _ready(again, environment, candidate.lock)
        failed = FailedStack(
            label=candidate.label,
            outcome=ran.outcome,
            reason=telling_line(ran.log),
            log=ran.log,
        )
        self.failures.append(failed)
        return None

    def _search(self, candidate: Candidate) -> Candidate | None:
        """Look for versions that run, as long as the budget lasts."""

        def works(other: Candidate) -> bool:
            if self.runner.left_s <= self.reserve_s():
                raise _SearchEndedError
            _, ran = self._try(other)
            said = _is_broken(ran) or ran.outcome is Outcome.UNSUPPORTED
            if ran.observation is None and not said:
                raise _SearchEndedError
            return ran.observation is not None

        try:
            return self.selection.search(candidate, works)
        except _SearchEndedError:
            return None

    def _try(self, candidate: Candidate) -> tuple[Environment | None, Inspection]:
        """Build a candidate and run the indicator on it once; any failure is recorded.

        What is known to fail is neither built nor run again.
        """
        stack = self.stack(candidate)
        self.runner.database.add_stack(stack)
        known = self.runner.known(stack.id, self.call)
        if known is not None and known.observation is None:
            return None, known
        environment = self._built(stack, candidate.label)
        if isinstance(environment, Inspection):
            return None, environment
        self.progress.doing(f"trying {candidate.label}")
        return environment, self.runner.trial(environment, self.call)

    def _built(self, stack: Stack, label: str) -> Environment | Inspection:
        """Return a stack's environment, or how building it failed, which is recorded.

        Raises:
            EngineError: nothing of this stack's: the next one would meet the same.
        """
        while True:
            started = datetime.now(timezone.utc).isoformat(timespec="milliseconds")
            try:
                return self.runner.environment(stack, label)
            except (IndexUnavailableError, BuildError) as error:
                log = f"{error.what}: {error.why}"
                outcome = _outcome(error)
                record = _failed(
                    stack.id, self.runner, self.call, outcome, started_at=started, log=log
                )
                self.runner.record(record)
                if outcome is Outcome.ENGINE_LOST:
                    raise
            known = self.runner.known(stack.id, self.call)
            if not self.runner.again_after_kill(record, known):
                return record


def _is_broken(ran: Inspection) -> bool:
    """Return whether other versions may run where these failed; a kill says nothing of them."""
    return ran.outcome in BROKEN and cause_of(ran) is not Cause.KILLED


def _ready(candidate: Candidate, environment: Environment, newest: Lock) -> Ready:
    before, now = newest.versions, candidate.lock.versions
    chosen = ChosenStack(
        stack_id=environment.stack.id,
        label=candidate.label,
        completion=candidate.completion,
        lock=candidate.lock,
        held_back=tuple((name, v) for name, v in now.items() if before.get(name, v) != v),
        settings=candidate.settings,
    )
    return Ready(chosen=chosen, environment=environment)


def _failed(
    environment_stack: StackId,
    runner: Runner,
    call: IndicatorCall,
    outcome: Outcome,
    *,
    started_at: str,
    log: str,
) -> Inspection:
    """Return the record of a stack that never came to run."""
    return Inspection(
        stack_id=environment_stack,
        machine_id=runner.campaign.machine_id,
        indicator_id=call.id,
        campaign_id=runner.campaign.id,
        block=0,
        position=0,
        role=Role.CALIBRATION,
        outcome=outcome,
        started_at=started_at,
        duration_s=0.0,
        log=log_tail(log),
    )


def _outcome(error: Exception) -> Outcome:
    if isinstance(error, HashMismatchError):
        return Outcome.HASH_MISMATCH
    if isinstance(error, IndexUnavailableError):
        return Outcome.DOWNLOAD_FAILED
    if isinstance(error, EngineError):
        return Outcome.ENGINE_LOST
    return Outcome.BUILD_FAILED


def estimate(
    locks: Sequence[Lock],
    base: Base,
    *,
    first: int,
    index: PackageIndex,
    store: WheelStore,
    places: Places,
) -> Estimate:
    """Return what building these locks will move and take; asks the index for unknown sizes.

    Args:
        locks: of all stacks, in the order in which they are built.
        base: what they are installed on.
        first: how many of them are built before the first block.
        index: says how large wheels are.
        store: holds those that are here.
        places: where things are kept.
    """
    missing = store.missing(_artifacts(locks))
    sizes = index.sizes(missing)
    known = {each.sha256: sizes.get(artifact_key(each)) or 0 for each in missing}
    download = sum(known.values())
    soon = sum(known.get(each.sha256, 0) for each in _artifacts(locks[:first]))
    return Estimate(
        wheels=len(missing),
        download_bytes=download,
        disk_bytes=download + room_for(locks, base, places=places, downloads=known),
        free_bytes=shutil.disk_usage(places.cache).free,
        seconds=round(soon / DOWNLOAD_BYTES_S + soon / BUILD_BYTES_S + 10 * len(locks[:first])),
    )


def _artifacts(locks: Iterable[Lock]) -> list[Artifact]:
    """Return what some locks need, each once."""
    return list({each.sha256: each for lock in locks for each in lock.artifacts}.values())


def refuse_without_room(found: Estimate, places: Places) -> None:
    """Refuse to begin what cannot fit.

    Raises:
        StorageError: the estimate exceeds what is free.
    """
    if found.disk_bytes > found.free_bytes:
        raise StorageError(
            "there is not enough room for these stacks",
            why=f"they need about {found.disk_bytes / 1e9:.1f} GB and {places.cache} has "
            f"{found.free_bytes / 1e9:.1f} GB free",
            fix="explore fewer with --stacks, or set STACKGEN_CACHE to a larger disk",
        )
