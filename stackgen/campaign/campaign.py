"""A campaign, from what is to be measured to its report."""

import random
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from functools import partial

from stackgen import __version__, interrupts
from stackgen.campaign.backend import Backend
from stackgen.campaign.candidates import Candidate, CandidateSource
from stackgen.campaign.comparison import (
    ALL_FAILED,
    ONE_STACK,
    Comparison,
    Stopped,
    block_costs,
    failed_in_blocks,
    first_answers_s,
    is_first_apart,
    nothing_runs,
    too_short,
)
from stackgen.campaign.host import Host
from stackgen.campaign.indicators import Metered, limits_of
from stackgen.campaign.prepare import Builder, Candidates, Preparer
from stackgen.campaign.program import Watching, own_files
from stackgen.campaign.request import CampaignRequest
from stackgen.campaign.runner import Budget, LocalBlockRunner, Record
from stackgen.campaign.sdist_wheels import SdistWheels
from stackgen.campaign.search import Search
from stackgen.campaign.session import RetryPolicy, Session, allowance_s
from stackgen.errors import EvidenceError, MeasurementError, StackgenError
from stackgen.images.sdists import BuiltWheels
from stackgen.images.unpack import stack_size
from stackgen.index import PackageIndex
from stackgen.knowledge.database import Database
from stackgen.measure import (
    INTERIM_ANALYSES,
    Design,
    candidates_of,
    controls,
    exclude_disturbed,
    rank,
)
from stackgen.measure.cost import baseline_times, costs, gives_figure, scaled
from stackgen.measure.goals import compare_goals, undecided
from stackgen.measure.ranking import blocks_to_analysis, conclusion
from stackgen.measure.results import peak_memory
from stackgen.model.evidence import CampaignIdentity, Control, Ranked
from stackgen.model.identity import IndicatorId, StackId, content_id
from stackgen.model.inspections import IndicatorCall
from stackgen.model.progress import Progress
from stackgen.model.reports.campaigns import (
    NO_QUANTITIES,
    ChosenStack,
    CostReport,
    ExplorePlan,
    ExploreReport,
    GoalReport,
    MeasuredIndicator,
    MeasurementHealth,
    RunSummary,
    StackSize,
)
from stackgen.model.stacks import Environment, Stack
from stackgen.storage.paths import Paths
from stackgen.storage.wheels import WheelStore

BUILD_SHARE = 0.6
"""Once two stacks work, no further one is built when this share of the budget is spent."""
MOST_SHOWN = 8
"""So many stacks of a plan are named before it begins."""
FIRST_STACKS = 3
"""So many are ready before any is compared."""
EARLIER = "earlier"
"""The completion of a stack that was made ready in another run."""
INTERRUPTED = Stopped(why="you interrupted it", interrupted=True)


@dataclass(slots=True, kw_only=True)
class Campaign:
    """One measurement from request to conclusion; its phases are methods in the order of time.

    metered: what is measured, under which limits and at which price.
    control: the indicator that all Pythons run equally fast.
    weights: of the indicators, where the user gave any.
    start: on the monotonic clock, when the budget began to run.
    """

    request: CampaignRequest
    paths: Paths
    progress: Progress
    index: PackageIndex
    store: WheelStore
    backend: Backend
    source: CandidateSource
    plan: ExplorePlan
    metered: Metered
    control: IndicatorCall
    weights: Mapping[IndicatorId, float]
    start: float
    session: Session = field(init=False)
    candidates: Candidates = field(init=False)
    search: Search | None = field(init=False, default=None)
    _baseline: StackId | None = field(init=False, default=None)
    _compared: dict[StackId, str] = field(init=False, default_factory=dict)

    @property
    def calls(self) -> tuple[IndicatorCall, ...]:
        """Return what users want to know, without the control."""
        return self.metered.calls

    def run(self, database: Database) -> ExploreReport:
        """Prepare, search where the plan says so, compare, and conclude.

        Raises:
            StackgenError: no stack runs, or nothing can be measured at all.
        """
        self.begin(database)
        self._report_plan()
        ended = INTERRUPTED
        try:
            design = self._prepare()
            while True:
                found = design if self.search is None else self._search(self.search)
                ended = found if isinstance(found, Stopped) else self._comparison(found).run()
                if not self._has_others(ended):
                    break
        except KeyboardInterrupt:
            interrupts.refuse_second()
            self.progress.note("Interrupted; everything measured so far is stored.")
        if ended.error is not None:
            self.progress.note(f"error: {ended.error}")
        report = self._conclude(ended)
        if ended.interrupted:
            interrupts.refuse_second()
        return report

    # Beginning: the campaign in the database, and what runs it

    def begin(self, database: Database) -> None:
        """Record the campaign, and open the session that runs it."""
        request, base = self.request, self.backend.base
        machine = self.backend.machine
        # Two knowledge bases never number the same blocks, so that merged ones share none.
        host_name = dict(machine.circumstances).get("host", "")
        where = content_id("knowledge base", [host_name, str(self.paths.knowledge)])
        campaign = CampaignIdentity(
            kind=request.kind,
            request=request.identity(base.kind.value, base.facts, where=where),
            seed=request.budget.seed,
            machine_id=machine.id,
            stackgen_version=__version__,
        )
        database.add_machine(machine)
        database.add_campaign(campaign, datetime.now(timezone.utc).isoformat(timespec="seconds"))
        for call in (*self.calls, self.control):
            database.add_indicator(call)
        self.session = self._open_session(database, campaign)
        self.candidates = Candidates(
            preparer=Preparer(
                facts=base.facts,
                source=self.source,
                session=self.session,
                call=(*self.calls, self.control)[0],
                progress=self.progress,
            ),
            store=self.store,
            index=self.index,
            progress=self.progress,
            wanted=request.search.wanted,
            budget_s=request.budget.budget_s,
        )

    def _open_session(self, database: Database, campaign: CampaignIdentity) -> Session:
        request, paths, progress = self.request, self.paths, self.progress
        host = Host(cache=paths.cache)
        budget = Budget(
            deadline=self.start + request.budget.budget_s, host=host, clock=time.monotonic
        )
        record = Record(database=database, campaign=campaign, rebuild=request.target.rebuild)
        own = own_files(paths.knowledge, paths.cache)
        return Session(
            record=record,
            block_runner=LocalBlockRunner(
                record=record,
                executor=Watching(self.backend.executor, own),
                budget=budget,
                progress=progress,
            ),
            build=Builder(
                index=self.index,
                store=self.store,
                backend=self.backend,
                varied=frozenset(self.source.varied),
                sources=SdistWheels(
                    base=self.backend.base,
                    build=self.backend.build,
                    sdists=self.backend.sdists,
                    index=self.index,
                    store=self.store,
                    built=BuiltWheels(paths.cache / "built"),
                    policy=request.stacks.requirements.policy,
                    progress=progress,
                    turn=partial(host.building, progress),
                    again=request.target.rebuild,
                ),
                host=host,
                progress=progress,
            ),
            retry_policy=RetryPolicy(
                left_s=allowance_s(request.budget.budget_s),
                dice=random.Random(f"{campaign.id}/{campaign.seed}"),  # noqa: S311
                progress=progress,
            ),
            budget=budget,
            progress=progress,
            limits=limits_of(request),
            own_limits=self.metered.limits,
        )

    def _report_plan(self) -> None:
        found, plan = self.plan.estimate, self.plan
        names = ", ".join(call.label for call in self.calls)
        how = "searched" if plan.searched else "measured in every block"
        self.progress.note(
            f"Plan: {names}; {len(plan.chosen)} stacks, {how}, for at most "
            f"{self.request.budget.budget_s / 60:.0f} min with building:"
        )
        shown = plan.chosen[:MOST_SHOWN]
        for place, (label, _) in enumerate(shown, start=1):
            self.progress.note(f"  {place}. {label}{' (baseline)' * (place == 1)}")
        if len(plan.chosen) > len(shown):
            self.progress.note(f"  and {len(plan.chosen) - len(shown)} more")
        if found.wheels:
            self.progress.note(
                f"To come{', if all stacks are built' if self.plan.searched else ''}: "
                f"{found.wheels} wheels, {found.download_bytes / 1e9:.2f} GB to download, "
                f"about {found.disk_bytes / 1e9:.1f} GB on disk ({found.free_bytes / 1e9:.0f} GB "
                f"free). About {max(1, round(found.seconds / 60))} min until measuring begins."
            )
        if plan.short_budget and not self.session.record.blocks:
            self.progress.note(plan.short_budget)

    # Preparing: the baseline, and where nothing is searched all others, are built and tried

    def _prepare(self) -> Design:
        """Have what is compared ready; return what a block holds.

        Raises:
            StackgenError: no stack runs.
        """
        candidates, failed = self.candidates, self._failed_before()
        candidates.fill()
        if self.plan.searched:
            place = candidates.prepare_first(failed)
            ready = [] if place is None else [candidates.members[place]]
        else:
            place = None
            candidates.prepare_all(self._is_enough, self._compare_first)
            ready = sorted(candidates.ready, key=lambda each: each.stack_id in failed)
        if not ready:
            raise self.nothing_runs()
        baseline = ready[0]
        self._baseline = baseline.stack_id
        self._compared = _labels(ready)
        given = self.request.stacks.baseline_file or self.request.stacks.lock
        if given is not None and baseline.completion != "lock":
            self.progress.note(
                f"{given} does not run here: stacks are compared with {baseline.label} instead."
            )
        design = self.design(ready)
        if place is not None:
            self.search = self._open_search(design, place)
        elif design.candidates and self.calls[0].program:
            note = too_short(design, self.session.inspections, self.session.left_s)
            if note:
                self.progress.note(note)
        return design

    def _failed_before(self) -> frozenset[StackId]:
        """Return the stacks that failed in blocks: none of them is a baseline, if others run.

        The two stacks of ``compare`` stay what they are.
        """
        if self.request.stacks.pair:
            return frozenset()
        return frozenset(e.stack_id for e in self.session.record.failed_in_blocks(self.calls))

    def _is_enough(self, working: int) -> bool:
        """Return whether building ends early: measuring needs its share of the budget.

        One stack alone answers nothing, so the second may take as long again as the whole budget.
        """
        budget_s = self.request.budget.budget_s
        return self.session.left_s < ((1 - BUILD_SHARE) * budget_s if working >= 2 else -budget_s)

    def _compare_first(self, to_come: int) -> None:
        """Compare the stacks that are ready, up to the first interim analysis, before others are.

        No ratio has a say in when a stack begins. Each has its interim analyses after as many
        blocks of its own, at the level of all that are planned.

        Args:
            to_come: how many stacks are not built yet.
        """
        ready, session = self.candidates.ready, self.session
        # Blocks of an earlier run: there was a first ranking, or the environments are there.
        if self.request.kind != "explore" or session.record.blocks or len(ready) < FIRST_STACKS:
            return
        design, planned = self.design(ready), len(ready) - 1 + to_come
        budget_s = self.request.budget.budget_s
        spent_s = budget_s - session.left_s
        builds_s = to_come * spent_s / len(ready)

        def all_s() -> float:  # more, once blocks show that runs take longer than they compute
            seen = session.inspections
            return builds_s + first_answers_s(design, seen, candidates=planned, done=0)

        first_s, left_s = first_answers_s(design, session.inspections), session.left_s
        if not is_first_apart(spent_s=spent_s, left_s=left_s, first_s=first_s, all_s=all_s()):
            return
        self.progress.note(
            f"Comparing the first {len(ready)} stacks; {to_come} more are built afterwards."
        )
        self._compared = _labels(ready)
        comparison = self._comparison(design)
        comparison.planned, comparison.most_blocks = planned, INTERIM_ANALYSES[0]
        least_s = (1 - BUILD_SHARE) * budget_s + builds_s
        comparison.reserve_s = lambda: max(all_s(), least_s)
        if comparison.run().interrupted:
            raise KeyboardInterrupt

    def nothing_runs(self) -> StackgenError:
        """Explain that no stack works."""
        program = self.calls[0].program if self.calls else None
        return nothing_runs(self.candidates.failures, self.paths, program)

    def design(self, ready: Sequence[Candidate]) -> Design:
        """Return what the blocks hold; loops are calibrated on the baseline, the first."""
        baseline, *candidates = (e.environment for e in ready if e.environment is not None)
        return Design(
            campaign_id=self.session.record.campaign.id,
            seed=self.request.budget.seed,
            baseline=baseline,
            candidates=tuple(candidates),
            calls=self.calls,
            control=self.control,
            loops=self.session.calibrate(baseline, (*self.calls, self.control)),
            limits=self.session.limits,
            own_limits=self.session.own_limits,
        )

    # Searching: blocks of a few stacks each, until the best are known

    def _open_search(self, design: Design, baseline: int) -> Search:
        search = Search(
            session=self.session,
            candidates=self.candidates,
            design=design,
            baseline=baseline,
            strategy=self.request.search.strategy,
            confidence=self.request.search.required_confidence,
            margin=self.request.measurement.margin,
            weights=self.weights,
            progress=self.progress,
        )
        self.candidates.preparer.reserve_s = search.reserve_s
        return search

    def _search(self, search: Search) -> Design | Stopped:
        """Search; return what compares the best two with the baseline, or why nothing can."""
        baseline = search.design.baseline.stack.id
        self._compared = {baseline: self._compared[baseline]}
        try:
            search.run()
            best = [self.candidates.prepare(place) for place in search.best(2)]
            chosen = [each for each in best if each.environment is not None]
            if not chosen and (other := search.another()):
                chosen = [other]
        except StackgenError as error:
            return Stopped(why=error.what, error=error)
        if not chosen and search.failed:
            return Stopped(why=ALL_FAILED)
        self._compared |= _labels(chosen)
        environments = (each.environment for each in chosen if each.environment is not None)
        return replace(search.design, candidates=tuple(environments))

    def _has_others(self, ended: Stopped) -> bool:
        """Return whether others take the place of the best two, which failed meanwhile."""
        if self.search is None or ended.why != ALL_FAILED or self.session.left_s <= 0:
            return False
        return bool(self.search.best(2))

    # Comparing: blocks of all that are left, until every comparison is decided

    def _comparison(self, design: Design) -> Comparison:
        """Return the comparison of what a block holds."""
        return Comparison(
            session=self.session,
            design=design,
            labels=self._compared,
            margin=self.request.measurement.margin,
            weights=self.weights,
            goals=self.request.measurement.goals,
            sizes={e.stack_id: stack_size(e.lock, self.store) for e in self.candidates.ready},
            alpha=self.request.alpha,
            tolerance=self.request.measurement.tolerance,
            detect=self.request.measurement.detect,
            analyses=self.request.measurement.analyses,
            most_blocks=self.request.measurement.analyses[-1],
            why_alone=self._why_alone(design.baseline),
        )

    def _why_alone(self, baseline: Environment) -> str:
        """Return why there is nothing to compare, should no other stack be ready."""
        if self.session.left_s > 0 or len(self.candidates.failures) + 1 >= self.plan.choices:
            return ONE_STACK
        return f"the budget ran out when only {self._compared[baseline.stack.id]} was built"

    # Concluding: from everything that was recorded to the report

    def _conclude(self, ended: Stopped) -> ExploreReport:
        """Return what was found; what earlier runs compared stands, whichever stack leads now."""
        ready = self.candidates.ready
        ready.sort(key=lambda each: each.stack_id != self._baseline)
        search = self.search
        searched = search.labels() if search else {}
        compared = self._compared if self.plan.searched else _labels(ready)
        before = self._compared_before(ready, now=compared, labels={**searched, **_labels(ready)})
        compared = {each.stack_id: each.label for each in before} | compared
        in_blocks = {**searched, **compared}
        own = {each.stack_id for each in ready}
        stacks = (*(e.row for e in ready), *(e for e in before if e.stack_id not in own))
        record, failures = self.session.record, self.candidates.failures
        different = search.computes_otherwise() if search else {}
        ranking, checked = self._ranked(stacks, {**different, **compared})
        disturbed = exclude_disturbed(record.inspections)
        sizes = {each.stack_id: stack_size(each.lock, self.store) for each in stacks}
        goals = self._goals([row.stack_id for row in ranking], stacks, sizes)
        _, block_s = block_costs(record.inspections)
        found = ExploreReport(
            plan=self.plan,
            stacks=stacks,
            failed=(
                *failures,
                *failed_in_blocks(record, {**in_blocks, **_labels(ready)}, self.calls),
            ),
            search=search.report() if search else None,
            ranking=ranking,
            indicators=self._measured_indicators(),
            run=RunSummary(
                blocks=record.blocks,
                new_inspections=record.added,
                seconds=time.monotonic() - self.start,
                campaign_id=record.campaign.id,
                waited_s=self.session.budget.host.waited_s,
                to_analysis=self._to_analysis(ranking, goals),
                block_s=block_s,
                untried=max(0, self.plan.choices - len(in_blocks) - len(failures)),
                stopped=ended.why,
                interrupted=ended.interrupted,
                exit_code=_exit_code(ended, ranking, checked),
            ),
            health=MeasurementHealth(
                controls=checked,
                excluded=tuple(disturbed.excluded.values()),
                tolerated=tuple(disturbed.tolerated.values()),
            ),
            knowledge_base=str(self.paths.knowledge),
            margin=self.request.measurement.margin,
            cost=self._cost(ranking),
            memory=peak_memory(record.inspections, (call.id for call in self.calls)),
            goals=goals,
        )
        answer = conclusion(found)
        winner = "" if answer.winner is None else answer.winner.stack_id
        return replace(found, answer=answer.answer.value, winner=winner)

    def _goals(
        self,
        ranked: Sequence[StackId],
        stacks: Sequence[ChosenStack],
        sizes: Mapping[StackId, StackSize],
    ) -> GoalReport:
        """Return what the ranked stacks need besides time; ``stacks`` begin with the baseline."""
        if not stacks:
            return NO_QUANTITIES
        return compare_goals(
            self.session.inspections,
            stacks=ranked,
            baseline=stacks[0].stack_id,
            calls=self.calls,
            weights=self.weights,
            goals=self.request.measurement.goals,
            sizes=sizes,
            margin=self.request.measurement.margin,
        )

    def _to_analysis(self, ranking: Sequence[Ranked], goals: GoalReport) -> int:
        return blocks_to_analysis(
            self.session.inspections,
            (row.stack_id for row in undecided(ranking, goals)),
            baseline=next((row.stack_id for row in ranking if row.is_baseline), StackId("")),
            calls=self.calls,
        )

    def _measured_indicators(self) -> tuple[MeasuredIndicator, ...]:
        """Return what is reported of each indicator; the control comes last."""
        seen = self.session.inspections
        times = dict(baseline_times(seen, self.calls))
        measured = [
            MeasuredIndicator(
                indicator_id=call.id,
                label=call.label,
                weight=self.weights.get(call.id, 1.0),
                is_figure=gives_figure(seen, call.id),
                baseline_s=times.get(call.id),
                checked_file=(call.program.check or "") if call.program else "",
            )
            for call in self.calls
        ]
        control = MeasuredIndicator(indicator_id=self.control.id, label=self.control.label)
        return (*measured, control)

    def _cost(self, ranking: Sequence[Ranked]) -> CostReport:
        """Return the cost on each stack, and on each number of CPUs."""
        seen, metered = self.session.inspections, self.metered
        return CostReport(
            by_stack=costs(seen, ranking=ranking, calls=self.calls, per_hour=metered.per_hour),
            currency=metered.currency,
            by_cpus=scaled(seen, ranking=ranking, counts=metered.counts),
        )

    def _compared_before(
        self,
        ready: Sequence[Candidate],
        *,
        now: Mapping[StackId, str],
        labels: Mapping[StackId, str],
    ) -> tuple[ChosenStack, ...]:
        """Return the stacks that earlier runs compared with this baseline, the first ready one.

        Args:
            now: labels of the stacks that this run compares.
            labels: of others that are known by a name.
        """
        if not ready:
            return ()
        record, baseline = self.session.record, ready[0].stack_id
        before = candidates_of(record.inspections, baseline) - now.keys() - {baseline}
        stacks = {each: record.database.stack(each) for each in sorted(before)}
        return tuple(
            ChosenStack(
                stack_id=each,
                label=labels.get(each) or _label(stack, self.source.varied),
                completion=EARLIER,
                lock=stack.lock,
                settings=stack.settings,
            )
            for each, stack in stacks.items()
        )

    def _ranked(
        self, stacks: Sequence[ChosenStack], labels: Mapping[StackId, str]
    ) -> tuple[tuple[Ranked, ...], tuple[Control, ...]]:
        """Return the ranking and the controls; the first stack is the baseline."""
        if not stacks:
            return (), ()
        seen, calls, baseline = self.session.inspections, self.calls, stacks[0].stack_id
        ranking = rank(
            seen,
            labels=labels,
            baseline=baseline,
            calls=calls,
            margin=self.request.measurement.margin,
            weights=self.weights,
            total_alpha=self.request.alpha,
            tolerance=self.request.measurement.tolerance,
            analyses=self.request.measurement.analyses,
        )
        for call in calls:
            if call.id in self.metered.per_hour and gives_figure(seen, call.id):
                self.progress.note(
                    f"{call.label} has no cost: it gives a figure in place of a time."
                )
        return ranking, controls(seen, baseline=baseline, calls=calls, pure=self.control)


def _exit_code(ended: Stopped, ranking: Sequence[Ranked], checked: Sequence[Control]) -> int:
    """Return the exit code: how far a script may trust the report."""
    if ended.interrupted:
        return interrupts.exit_code()
    if ended.error is not None:
        return ended.error.exit_code
    if any(control.failed for control in checked):
        return MeasurementError.exit_code
    answered = any(effect.low > 0 for row in ranking if row.counts for effect in row.effects)
    return 0 if answered else EvidenceError.exit_code


def _labels(ready: Sequence[Candidate]) -> dict[StackId, str]:
    return {each.stack_id: each.label for each in ready}


def _label(stack: Stack, varied: tuple[str, ...]) -> str:
    versions = stack.lock.versions
    parts = [f"{name} {versions[name]}" for name in varied if name in versions]
    return ", ".join([*parts, *(f"{name}={value}" for name, value in stack.settings)])
