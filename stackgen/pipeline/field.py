"""Who takes part in a search: candidates by place, built when they are first measured."""

from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from stackgen.artifacts.wheels import WheelStore
from stackgen.errors import StorageError
from stackgen.index import PackageIndex, artifact_key
from stackgen.measure.racing import Runner as Racer
from stackgen.pipeline.environments import BUILD_BYTES_S, DOWNLOAD_BYTES_S, Preparer, Ready
from stackgen.pipeline.progress import Progress
from stackgen.pipeline.selection import Candidate
from stackgen.values import Artifact, Environment, Stack, StackId

Versions = tuple[tuple[str, str], ...]
LAYING_OUT_S = 3.0
"""What a build takes beside its downloads, roughly."""


@dataclass(slots=True, kw_only=True)
class Entrant:
    """One who takes part.

    versions: of what varies, settings included.
    lost: it does not run, or something makes it impossible to build.
    """

    candidate: Candidate
    versions: Versions
    ready: Ready | None = None
    lost: bool = False


@dataclass(slots=True, kw_only=True)
class Field:
    """The candidates that take part, newest first; what does not run is replaced by further ones.

    wanted: how many shall run.
    budget_s: for everything; a first one that runs is looked for up to twice as long.
    varied: names of the packages that vary.
    full: whether the disk has no room for further stacks.
    """

    preparer: Preparer
    store: WheelStore
    index: PackageIndex
    progress: Progress
    varied: tuple[str, ...]
    wanted: int
    budget_s: float
    entrants: list[Entrant] = field(default_factory=list)
    full: bool = False
    _further: Iterator[Candidate] = field(default_factory=lambda: iter(()))

    def fill(self, candidates: Iterable[Candidate]) -> None:
        """Let the first candidates take part."""
        self._further = iter(candidates)
        self._refill()

    def _refill(self) -> None:
        while sum(not each.lost for each in self.entrants) < self.wanted:
            candidate = next(self._further, None)
            if candidate is None or len(self.entrants) >= 2 * self.wanted:
                return
            versions = _versions(candidate, self.varied)
            self.entrants.append(Entrant(candidate=candidate, versions=versions))

    def have_ready(self, place: int) -> Ready | None:
        """Return an entrant that was built and runs; None where it does not, for good.

        Raises:
            StackgenError: what has nothing to do with this entrant, such as a lost engine.
        """
        entrant = self.entrants[place]
        if entrant.ready is None and not entrant.lost:
            try:
                entrant.ready = self.preparer.ready(entrant.candidate)
            except StorageError as error:
                if not any(each.ready for each in self.entrants):
                    raise
                self.full = True
                self.progress.note(f"No further stacks: {error.what} ({error.why})")
                return None
            if entrant.ready is None or self._is_there(entrant.ready, place):
                entrant.ready, entrant.lost = None, True
                self._refill()
        return entrant.ready

    def renew(self, environments: Iterable[tuple[int, Environment]]) -> None:
        """Take over environments that had to be made again."""
        for place, environment in environments:
            entrant = self.entrants[place]
            if entrant.ready is not None:
                entrant.ready = replace(entrant.ready, environment=environment)

    def _is_there(self, ready: Ready, place: int) -> bool:
        """Return whether another place has the same stack, as when both were completed alike."""
        others = [e.ready for p, e in enumerate(self.entrants) if p != place and e.ready]
        return any(each.chosen.stack_id == ready.chosen.stack_id for each in others)

    def first_ready(self, failed: Container[StackId] = ()) -> int | None:
        """Have entrants built until one runs; return its place: the reference of all others.

        Args:
            failed: stacks that run, but failed in blocks: one of them only where no other runs.
        """
        place, doubtful = 0, None
        while place < len(self.entrants):
            ready = self.have_ready(place)
            if ready is not None and ready.chosen.stack_id not in failed:
                return place
            if ready is not None and doubtful is None:
                doubtful = place
            late = self.preparer.runner.left_s < -self.budget_s
            if self.preparer.nothing_helps or late:
                break
            place += 1
        return doubtful

    def racers(self, run_s: float) -> tuple[Racer, ...]:
        """Return what measuring each costs; ``run_s``: seconds of its inspections in a block."""
        return tuple(
            Racer(
                versions=each.versions,
                run_s=run_s,
                build_s=0.0 if each.ready else self._build_s(each.candidate.lock.artifacts),
            )
            for each in self.entrants
        )

    def _build_s(self, artifacts: tuple[Artifact, ...]) -> float:
        missing = self.store.missing(artifacts)
        sizes = self.index.sizes(missing) if missing else {}
        moved = sum(sizes.get(artifact_key(each)) or 0 for each in missing)
        return LAYING_OUT_S + moved / DOWNLOAD_BYTES_S + moved / BUILD_BYTES_S

    def places(
        self, seen: Iterable[StackId], stack: Callable[[StackId], Stack]
    ) -> Mapping[StackId, int]:
        """Return the place of each of these stacks that takes part, or did in an earlier run.

        A stack that was completed otherwise, because the newest versions did not run together,
        has the place of the versions that vary.
        """
        own = {self.preparer.stack(e.candidate).id: p for p, e in enumerate(self.entrants)}
        alike = {e.versions: p for p, e in enumerate(self.entrants) if e.candidate.choice}
        found = {}
        for each in seen:
            known = stack(each)
            versions = _of_stack(known, self.varied)
            place = own.get(each, alike.get(versions))
            if place is not None:
                found[each] = place
        return found


def _versions(candidate: Candidate, varied: tuple[str, ...]) -> Versions:
    versions = dict(candidate.choice.versions) if candidate.choice else candidate.lock.versions
    pairs = [(name, versions[name]) for name in varied if name in versions]
    given = [("", "as given")] if candidate.choice is None else []
    return tuple(sorted([*pairs, *candidate.settings, *given]))


def _of_stack(stack: Stack, varied: tuple[str, ...]) -> Versions:
    versions = stack.lock.versions
    pairs = [(name, versions[name]) for name in varied if name in versions]
    return tuple(sorted([*pairs, *stack.settings]))
