"""Searches the best stacks in blocks of a few each; a comparison in fresh blocks follows."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from stackgen.campaign.candidates import Candidate
from stackgen.campaign.comparison import Comparison, first_answers_s, refuse_failed_baseline
from stackgen.campaign.prepare import Candidates
from stackgen.campaign.session import Session
from stackgen.measure import Design, deviations, fewest_blocks, plan_search
from stackgen.measure.bandit import (
    Race,
    SearchState,
    predicted_speeds,
    searched,
    uniform_blocks,
)
from stackgen.measure.disturbances import exclude_disturbed
from stackgen.measure.posterior import Measured, Model, calibration
from stackgen.model.choices import Strategy
from stackgen.model.identity import IndicatorId, StackId
from stackgen.model.inspections import Inspection, Role
from stackgen.model.progress import Progress
from stackgen.model.reports.campaigns import SearchReport

MOST_BLOCKS = 200
"""Of one search; far more than any has needed."""


@dataclass(slots=True, kw_only=True)
class Search:
    """One search, and what it knows.

    Candidates are named by their place in ``candidates``, which is that in the model.

    design: of the comparison afterwards; its baseline takes part like any other candidate.
    baseline: place of the baseline.
    confidence: at which it ends: of the leader being within ``margin`` of the best.
    weights: of the indicators, where the user gave any.
    """

    session: Session
    candidates: Candidates
    design: Design
    baseline: int
    strategy: Strategy
    confidence: float
    margin: float
    weights: Mapping[IndicatorId, float]
    progress: Progress
    _longest_s: float = 0.0
    _known: int = -1
    _measured: list[Measured] = field(default_factory=list)
    _all: list[Measured] = field(default_factory=list)
    _failed: frozenset[int] = frozenset()
    _wrong: frozenset[StackId] = frozenset()

    def run(self) -> None:
        """Measure until the best is found with the required confidence, or the budget is spent.

        Raises:
            StackgenError: the baseline failed, or the engine went away.
        """
        while places := self._next_places():
            for place in places:
                self.candidates.prepare(place)
                if self.session.left_s <= self.reserve_s():
                    return  # a build took longer than estimated: the comparison needs the rest
            prepared = (self.candidates.members[place].environment for place in places)
            environments = [each for each in prepared if each is not None]
            if len(environments) < len(places):
                continue  # one has failed to build: the next block is chosen without it
            plan = partial(plan_search, self.design, environments=environments)
            environments_now, stored = self.session.run_block(environments, plan)
            self._longest_s = max(self._longest_s, stored.seconds)
            self.candidates.renew(zip(places, environments_now, strict=True))

    def _next_places(self) -> tuple[int, ...]:
        """Return the places of the stacks that the next block compares; none ends the search.

        Raises:
            StackgenError: the baseline failed, or nothing runs any more.
        """
        self._catch_up()
        calls, baseline = self.design.calls, self.design.baseline.stack.id
        self.session.record.refuse_idle(calls, baseline=baseline)
        refuse_failed_baseline(self.session.record, self.design, self._failed_stacks())
        if len(self._alive()) < 2 or self._blocks() >= MOST_BLOCKS:
            return ()
        state = self._race().state(self._measured, self._out())
        if self._measured and state.confidence >= self.confidence:
            return ()
        if self.session.left_s <= self.reserve_s() + self._longest_s:
            return ()
        block = self.session.record.database.last_block(self.session.record.campaign.id) + 1
        barred = self._out() | self._too_expensive()
        places = self._race().next_block(self._measured, barred, block)
        if len(places) < 2:
            return ()  # the budget has no time for a block that compares two
        if self.session.pause_after_idle_block(self.design.calls):
            # With the baseline in the block it is seen whether the machine or a stack is at fault.
            others = [place for place in places if place != self.baseline]
            places = (self.baseline, *others[: max(1, len(places) - 1)])
        self._report_progress(state)
        return places

    def best(self, count: int) -> tuple[int, ...]:
        """Return the places of the best stacks that were measured, the baseline left out."""
        self._catch_up()
        seen = {each.stack for each in self._measured}
        if not self._alive():
            return ()
        order = self._race().state(self._measured, self._out()).order
        return tuple(p for p in order if p != self.baseline and p in seen)[:count]

    def another(self) -> Candidate | None:
        """Return a stack to compare with where no other was measured; None where none is left.

        One stack alone answers nothing. Where it does not run, a further one is prepared, for as
        long again as the whole budget.
        """
        tried = {self.baseline}
        while left := [place for place in self._alive() if place not in tried]:
            tried.add(left[0])
            found = self.candidates.prepare(left[0])
            if found.environment is not None:
                return found
            if self.session.left_s < -self.candidates.budget_s:
                break
        return None

    @property
    def failed(self) -> bool:
        """Return whether any stack failed in a block, or computed something else."""
        return bool(self._failed)

    def _catch_up(self) -> None:
        """Read what was recorded since the last call."""
        seen = self.session.inspections
        if self._known == len(seen):
            return
        self._known = len(seen)
        stacks = {each.stack_id for each in seen if each.block}
        places = self.candidates.places(stacks)
        calls = self.design.calls
        times = partial(
            searched,
            seen,
            places=places,
            calls=calls,
            weights=self.weights,
            excluded=exclude_disturbed(seen).excluded,
        )
        self._measured = times()
        self._all = times(roles=(Role.SEARCH, Role.BASELINE, Role.CANDIDATE))
        wrong = deviations(seen, baseline=self.design.baseline.stack.id, stacks=stacks, calls=calls)
        self._wrong = frozenset(wrong.keys() - {self.design.baseline.stack.id})
        bad = {each.stack_id for each in self.session.record.failed_in_blocks(calls)} | self._wrong
        self._failed = frozenset(places[each] for each in bad if each in places)

    def _failed_stacks(self) -> set[StackId]:
        members = self.candidates.members
        return {members[p].stack_id for p in self._failed if members[p].environment is not None}

    def _out(self) -> frozenset[int]:
        """Return the places of what fails, or computes something else."""
        lost = {p for p, each in enumerate(self.candidates.members) if not each.may_run}
        return self._failed | lost

    def _alive(self) -> list[int]:
        out = self._out()
        return [place for place in range(len(self.candidates.members)) if place not in out]

    def _blocks(self) -> int:
        return len({each.block for each in self._searched()})

    def _searched(self) -> list[Inspection]:
        return [each for each in self.session.inspections if each.role is Role.SEARCH]

    def _race(self) -> Race:
        arms = self.candidates.arms(self._run_s())
        return Race(arms=arms, seed=self.design.seed, margin=self.margin, strategy=self.strategy)

    def _run_s(self) -> float:
        """Return the seconds of one stack's inspections in a block, 1 while these are unknown."""
        took = (
            [e.duration_s for e in self.session.inspections if e.indicator_id == call.id]
            for call in self.design.calls
        )
        return sum(float(np.median(each)) for each in took if each) or 1.0

    def reserve_s(self) -> float:
        """Return what the comparison afterwards needs until its first answers."""
        return first_answers_s(
            self.design, self.session.inspections, candidates=2, done=self._compared()
        )

    def _compared(self) -> int:
        """Return how many blocks have compared the stacks that are the best now."""
        best = [self.candidates.members[place] for place in self.best(2)]
        if not best or not all(each.environment for each in best):
            return 0
        baseline = self.design.baseline.stack.id
        comparison = Comparison(
            session=self.session,
            design=self.design,
            labels={each.stack_id: each.label for each in best} | {baseline: "the baseline"},
            margin=self.margin,
            weights=self.weights,
        )
        return fewest_blocks(comparison.ranking(), self.design.calls)

    def _too_expensive(self) -> frozenset[int]:
        """Return the places of what cannot be built with the rest of the budget or of the disk."""
        left = self.session.left_s - self.reserve_s() - self._longest_s
        arms = enumerate(self.candidates.arms(0.0))
        return frozenset(
            place
            for place, each in arms
            if each.build_s and (self.candidates.full or each.build_s > left)
        )

    def _report_progress(self, state: SearchState) -> None:
        leader = self.candidates.members[state.leader].label
        alive = len(self._alive())
        self.progress.doing(
            f"searching: {self._blocks()} blocks of {alive} stacks, {leader} leads "
            f"({state.confidence:.0%} sure)"
        )

    def computes_otherwise(self) -> dict[StackId, str]:
        """Return the labels of the stacks that compute something else than the baseline."""
        self._catch_up()
        return {each: label for each, label in self.labels().items() if each in self._wrong}

    def labels(self) -> dict[StackId, str]:
        """Return the labels of all stacks in blocks, also of earlier runs, failed or not."""
        stacks = {each.stack_id for each in self.session.inspections if each.block}
        places = self.candidates.places(stacks)
        return {each: self.candidates.members[place].label for each, place in places.items()}

    def report(self) -> SearchReport | None:
        """Return the report of this search; None where no two stacks were measured."""
        self._catch_up()
        done, seen = self._searched(), {each.stack for each in self._all}
        alive = self._alive()
        if not done or not alive or len(seen) < 2 or self.baseline not in seen:
            return None
        model = Model([each.versions(self.candidates.varied) for each in self.candidates.members])
        # The choice rests on the search alone; the predictions, on everything that was measured.
        prediction = model.predict(self._all)
        state = self._race().state(self._measured, self._out())
        blocks = uniform_blocks(
            prediction,
            alive,
            margin=self.margin,
            confidence=min(self.confidence, state.confidence),
            seed=self.design.seed,
        )
        uniform = blocks * len(alive) * len(self.design.calls)
        machine_s = sum(each.duration_s for each in done)
        after = [e for e in self.session.inspections if e.block and e.role is not Role.SEARCH]
        leader = self.candidates.members[state.leader]
        return SearchReport(
            strategy=self.strategy.value,
            leader=leader.stack_id if leader.environment else "",
            leader_label=leader.label,
            confidence=state.confidence,
            required_confidence=self.confidence,
            margin=self.margin,
            blocks=self._blocks(),
            inspections=len(done),
            machine_s=machine_s,
            comparison_inspections=len(after),
            comparison_s=sum(each.duration_s for each in after),
            uniform_inspections=uniform,
            uniform_s=uniform * machine_s / len(done),
            predictions=predicted_speeds(
                prediction,
                alive,
                labels=[each.label for each in self.candidates.members],
                counts=Counter(each.stack for each in self._all),
                baseline=self.baseline,
                margin=self.margin,
                dice=np.random.default_rng([self.design.seed, len(done)]),
            ),
            calibration=calibration(model, self._measured),
        )
