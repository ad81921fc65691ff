"""Search the best stacks in blocks of a few each; those that were found are compared afterwards."""

from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np

from stackgen.campaign.candidates import Candidate
from stackgen.campaign.comparison import first_answers_s, ranked, refuse_failed_baseline
from stackgen.campaign.plan import Work
from stackgen.campaign.prepare import BUILD_BYTES_S, DOWNLOAD_BYTES_S, Preparer, Ready
from stackgen.campaign.session import Session
from stackgen.errors import StorageError
from stackgen.index import PackageIndex, artifact_key
from stackgen.measure import Design, deviations, fewest_blocks, plan_search
from stackgen.measure.model import Measured, Model, Prediction, calibration
from stackgen.measure.pressure import exclude_disturbed
from stackgen.measure.racing import (
    GUESSES,
    Arm,
    Chooser,
    SearchState,
    chooser,
    posterior_summaries,
    searched,
    uniform_blocks,
)
from stackgen.model.identity import StackId
from stackgen.model.inspections import Inspection, Role
from stackgen.model.packages import Artifact
from stackgen.model.progress import Progress
from stackgen.model.reports import PredictedSpeed, SearchReport
from stackgen.model.stacks import Environment, Stack
from stackgen.storage.wheels import WheelStore

# Who takes part in a search: candidates by place, built when they are first measured

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
        """Have entrants built until one runs; return its place: the baseline of all others.

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
            late = self.preparer.session.left_s < -self.budget_s
            if self.preparer.nothing_helps or late:
                break
            place += 1
        return doubtful

    def arms(self, run_s: float) -> tuple[Arm, ...]:
        """Return what measuring each costs; ``run_s``: seconds of its inspections in a block."""
        return tuple(
            Arm(
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


MOST_BLOCKS = 200
"""Of one search; far more than any has needed."""


@dataclass(slots=True, kw_only=True)
class Search:
    """One search, and what it knows.

    competitors: who takes part.
    design: of the comparison afterwards; its baseline takes part like everybody else.
    baseline: place of the baseline.
    """

    work: Work
    session: Session
    competitors: Field
    design: Design
    baseline: int
    _longest_s: float = 0.0
    _known: int = -1
    _measured: list[Measured] = field(default_factory=list)
    _all: list[Measured] = field(default_factory=list)
    _failed: frozenset[int] = frozenset()
    _wrong: frozenset[StackId] = frozenset()

    def run(self) -> None:
        """Measure until the best is found with the confidence asked for, or time is up.

        Raises:
            StackgenError: the baseline failed, or the engine went away.
        """
        request = self.work.request
        while True:
            self._look()
            calls, baseline = self.work.calls, self.design.baseline.stack.id
            self.session.record.refuse_idle(calls, baseline=baseline)
            refuse_failed_baseline(self.session, self.design, self._failed_stacks())
            if len(self._alive()) < 2 or self._blocks() >= MOST_BLOCKS:
                return
            state = self._chooser().state(self._measured, self._out())
            if self._measured and state.confidence >= request.search.required_confidence:
                return
            if self.session.left_s <= self.reserve_s() + self._longest_s:
                return
            if not self._next_block(state):
                return

    def _next_block(self, state: SearchState) -> bool:
        """Run one block; return False where none that fits into the budget would tell anything."""
        block = self.session.record.database.last_block(self.session.record.campaign.id) + 1
        barred = self._out() | self._too_dear()
        places = self._chooser().next_block(self._measured, barred, block)
        if len(places) < 2:
            return False
        if self.session.pause_after_idle_block(self.work.calls):
            # Whether the machine or the stacks are at fault: the baseline will tell.
            others = [place for place in places if place != self.baseline]
            places = (self.baseline, *others[: max(1, len(places) - 1)])
        self._tell(state)
        ready = []
        for place in places:
            ready.append(self.competitors.have_ready(place))
            if self.session.left_s <= self.reserve_s():
                return False  # a build took longer than thought: the comparison needs the rest
        environments = [each.environment for each in ready if each is not None]
        if len(environments) < len(places):
            return True  # what does not run is known now: choose again
        again, stored = self.session.run_block(
            environments, lambda number: plan_search(self.design, number, environments)
        )
        self._longest_s = max(self._longest_s, stored.seconds)
        self.competitors.renew(zip(places, again, strict=True))
        return True

    def best(self, count: int) -> tuple[int, ...]:
        """Return the places of the best stacks that were measured, the baseline left out."""
        self._look()
        seen = {each.stack for each in self._measured}
        if not self._alive():
            return ()
        order = self._chooser().state(self._measured, self._out()).order
        return tuple(p for p in order if p != self.baseline and p in seen)[:count]

    def another(self) -> Ready | None:
        """Return a stack to compare with where no other was measured; None where none is left.

        One stack alone answers nothing. Where it does not run, a further one is had within as long
        again as the whole budget.
        """
        tried = {self.baseline}
        while left := [place for place in self._alive() if place not in tried]:
            tried.add(left[0])
            found = self.competitors.have_ready(left[0])
            if found is not None:
                return found
            if self.session.left_s < -self.work.request.budget.budget_s:
                break
        return None

    @property
    def failed(self) -> bool:
        """Return whether any stack failed in a block, or computed something else."""
        return bool(self._failed)

    def _look(self) -> None:
        """Read what was recorded since the last look."""
        seen = self.session.inspections
        if self._known == len(seen):
            return
        self._known = len(seen)
        stacks = {each.stack_id for each in seen if each.block}
        places = self.competitors.places(stacks, self.session.record.database.stack)
        calls = self.work.calls
        times = partial(
            searched,
            seen,
            places=places,
            calls=calls,
            weights=self.work.weights,
            excluded=exclude_disturbed(seen).excluded,
        )
        self._measured = times()
        self._all = times(roles=(Role.SEARCH, Role.BASELINE, Role.CANDIDATE))
        wrong = deviations(seen, baseline=self.design.baseline.stack.id, stacks=stacks, calls=calls)
        self._wrong = frozenset(wrong.keys() - {self.design.baseline.stack.id})
        bad = {each.stack_id for each in self.session.record.failed_in_blocks(calls)} | self._wrong
        self._failed = frozenset(places[each] for each in bad if each in places)

    def _failed_stacks(self) -> set[StackId]:
        return {
            each.chosen.stack_id
            for place in self._failed
            if (each := self.competitors.entrants[place].ready) is not None
        }

    def _out(self) -> frozenset[int]:
        """Return who does not run, or not always, or computes something else."""
        lost = {p for p, each in enumerate(self.competitors.entrants) if each.lost}
        return self._failed | lost

    def _alive(self) -> list[int]:
        out = self._out()
        return [place for place in range(len(self.competitors.entrants)) if place not in out]

    def _blocks(self) -> int:
        return len({each.block for each in self._searched()})

    def _searched(self) -> list[Inspection]:
        return [each for each in self.session.inspections if each.role is Role.SEARCH]

    def _chooser(self) -> Chooser:
        request = self.work.request
        return chooser(
            request.search.strategy.value,
            self.competitors.arms(self._run_s()),
            seed=request.budget.seed,
            margin=request.measurement.margin,
        )

    def _run_s(self) -> float:
        """Return the seconds of one stack's inspections in a block, as far as these are known."""
        return self._block_s(1) or 1.0

    def _block_s(self, stacks: int) -> float:
        calls = self.work.calls
        took = {
            call.id: [e.duration_s for e in self.session.inspections if e.indicator_id == call.id]
            for call in calls
        }
        return stacks * sum(float(np.median(each)) for each in took.values() if each)

    def reserve_s(self) -> float:
        """Return what the comparison afterwards needs until its first answers."""
        return first_answers_s(
            self.design, self.session.inspections, candidates=2, done=self._compared()
        )

    def _compared(self) -> int:
        """Return how many blocks have compared the stacks that are the best now."""
        places = self.best(2)
        ready = [self.competitors.entrants[place].ready for place in places]
        chosen = [each.chosen for each in ready if each is not None]
        if not chosen or len(chosen) < len(places):
            return 0
        baseline = self.design.baseline.stack.id
        labels = {each.stack_id: each.label for each in chosen} | {baseline: "the baseline"}
        ranking = ranked(self.session, self.design, labels, self.work.judging)
        return fewest_blocks(ranking, self.work.calls)

    def _too_dear(self) -> frozenset[int]:
        """Return who cannot be built within what is left of the budget, or of the disk."""
        left = self.session.left_s - self.reserve_s() - self._longest_s
        arms = enumerate(self.competitors.arms(0.0))
        return frozenset(
            place
            for place, each in arms
            if each.build_s and (self.competitors.full or each.build_s > left)
        )

    def _tell(self, state: SearchState) -> None:
        leader = self.competitors.entrants[state.leader].candidate.label
        alive = len(self._alive())
        self.work.progress.doing(
            f"searching: {self._blocks()} blocks of {alive} stacks, {leader} leads "
            f"({state.confidence:.0%} sure)"
        )

    def otherwise(self) -> dict[StackId, str]:
        """Return the labels of the stacks that compute something else than the baseline."""
        self._look()
        return {each: label for each, label in self.labels().items() if each in self._wrong}

    def labels(self) -> dict[StackId, str]:
        """Return the labels of all stacks in blocks, also of earlier runs, failed or not."""
        stacks = {each.stack_id for each in self.session.inspections if each.block}
        places = self.competitors.places(stacks, self.session.record.database.stack)
        entrants = self.competitors.entrants
        return {each: entrants[place].candidate.label for each, place in places.items()}

    def report(self) -> SearchReport | None:
        """Return what this search did and believes; None where nothing was compared."""
        self._look()
        done, seen = self._searched(), {each.stack for each in self._all}
        request, alive = self.work.request, self._alive()
        if not done or not alive or len(seen) < 2 or self.baseline not in seen:
            return None
        model = Model([each.versions for each in self.competitors.entrants])
        # What is chosen rests on the search alone; what is told, on everything that was measured.
        prediction = model.predict(self._all)
        dice = np.random.default_rng([request.budget.seed, len(done)])
        state = self._chooser().state(self._measured, self._out())
        held = calibration(model, self._measured)
        blocks = uniform_blocks(
            prediction,
            alive,
            margin=request.measurement.margin,
            confidence=min(request.search.required_confidence, state.confidence),
            seed=request.budget.seed,
        )
        uniform = blocks * len(alive) * len(self.work.calls)
        machine_s = sum(each.duration_s for each in done)
        after = [e for e in self.session.inspections if e.block and e.role is not Role.SEARCH]
        leader = self.competitors.entrants[state.leader]
        return SearchReport(
            strategy=request.search.strategy.value,
            leader=leader.ready.chosen.stack_id if leader.ready else "",
            leader_label=leader.candidate.label,
            confidence=state.confidence,
            wanted=request.search.required_confidence,
            margin=request.measurement.margin,
            blocks=self._blocks(),
            inspections=len(done),
            machine_s=machine_s,
            compared=len(after),
            compared_s=sum(each.duration_s for each in after),
            uniform_inspections=uniform,
            uniform_s=uniform * machine_s / len(done),
            predictions=self._predicted(prediction, dice),
            foretold=(held.inside, held.total),
        )

    def _predicted(
        self, prediction: Prediction, dice: np.random.Generator
    ) -> tuple[PredictedSpeed, ...]:
        """Return what is believed of everybody who is left, the fastest first."""
        believed = posterior_summaries(
            prediction,
            self._alive(),
            baseline=self.baseline,
            margin=self.work.request.measurement.margin,
            draws=prediction.draws(GUESSES, dice),
        )
        counts = Counter(each.stack for each in self._all)
        return tuple(
            PredictedSpeed(
                label=self.competitors.entrants[each.place].candidate.label,
                ratio=each.ratio,
                low=each.low,
                high=each.high,
                within=each.within,
                measured=counts[each.place],
            )
            for each in believed
        )
