"""Bisect: two stacks in, the package that makes one of them slower, or fail, out."""

import math
import re
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from stackgen import interrupts
from stackgen.campaign.backend import Backend
from stackgen.campaign.campaign import Campaign
from stackgen.campaign.candidates import Candidate, GivenStacks
from stackgen.campaign.hybrids import Hybrids, Releases, hybrids, releases_between
from stackgen.campaign.options import SearchOptions
from stackgen.campaign.plan import SelectedStacks, open_campaign
from stackgen.campaign.prepare import refuse_without_disk_space
from stackgen.campaign.request import CampaignRequest
from stackgen.campaign.runner import last_line
from stackgen.campaign.session import Session
from stackgen.campaign.spread import Settings
from stackgen.commands.compare import Resolver, named
from stackgen.errors import EvidenceError, MeasurementError, StackgenError, UsageError
from stackgen.index import PackageIndex
from stackgen.knowledge.database import open_database
from stackgen.measure import INTERIM_ANALYSES, Design, effect, exclude_disturbed, plan_search
from stackgen.measure.attribution import (
    CauseKind,
    CulpritAnswer,
    CulpritSearch,
    Hybrid,
    HybridProposal,
    Trial,
    outlying,
    stacks_of,
)
from stackgen.measure.bandit import searched
from stackgen.measure.effects import trimmed_centre
from stackgen.measure.likelihoods import Failures, Timings
from stackgen.measure.retry_policy import FailureCause, cause_of
from stackgen.model.choices import Strategy
from stackgen.model.evidence import Effect, Verdict
from stackgen.model.identity import StackId
from stackgen.model.inspections import Inspection
from stackgen.model.packages import Lock
from stackgen.model.progress import Progress
from stackgen.model.reports.bisect import (
    BISECT,
    BisectAnswer,
    BisectPlan,
    BisectReport,
    ChangedPackage,
    FirstBad,
    HybridResult,
    Hypothesis,
    SearchEffort,
)
from stackgen.model.stacks import Environment
from stackgen.storage.paths import Paths

BUILD_SD = 0.004
"""Scale of the offset of a build: the log of its time over that of another build of one stack."""
BUILD_BLOCKS = 2.0
"""What a build costs, in blocks of two runs."""
LEVEL = 0.01
"""Of the test whether the two stacks differ at all."""
SELECTED = 0.2
"""The share of the effect by which a first comparison, which ended when it was seen, may err."""
SHOWN, SHOWN_FROM = 3, 0.01
REACH = 1.96
OF_THE_STACK = (FailureCause.UNCERTAIN, FailureCause.OWN)
NOTHING_FURTHER = "no further block is expected to say enough for its cost"
ANSWERS = {
    CauseKind.NONE: BisectAnswer.NONE,
    CauseKind.SINGLE: BisectAnswer.CULPRIT,
    CauseKind.TOGETHER: BisectAnswer.TOGETHER,
    CauseKind.BOTH: BisectAnswer.BOTH,
    CauseKind.THREE: BisectAnswer.BOTH,
}
Space: TypeAlias = Hybrids | Releases


def bisect(
    good: str,
    bad: str,
    request: CampaignRequest,
    paths: Paths,
    environ: Mapping[str, str],
    progress: Progress,
    *,
    releases: bool = False,
) -> BisectPlan | BisectReport:
    """Find which of the packages that changed between two stacks is responsible.

    Each stack is a lock file, the beginning of a stack's id, or versions. The request is that of a
    comparison; with ``dry_run`` nothing is built. With ``releases`` the first bad release of the
    culprit is looked for, too.

    Raises:
        StackgenError: one of its kinds for whatever stops it; what was measured is kept.
    """
    operands = (named(good, paths), named(bad, paths))
    request = replace(
        request, kind=BISECT, search=SearchOptions(strategy=Strategy.NEWEST, stacks=2)
    )
    between: list[Hybrids] = []

    def select_both(
        index: PackageIndex, request: CampaignRequest, backend: Backend, progress: Progress
    ) -> SelectedStacks:
        resolver = Resolver(index=index, request=request, base=backend.base, progress=progress)
        source = _source(*map(resolver.candidate, operands))
        policy = request.stacks.requirements.policy
        locks = source.members[0].lock, source.members[1].lock
        between.append(hybrids(index, *locks, backend.base.target, policy, progress))
        return SelectedStacks(
            request=request.with_stacks(pair=tuple(each.id for each in locks)),
            source=source,
            packages=frozenset(locks[0].versions) & frozenset(locks[1].versions),
            count=2,
            choices=2,
            requirements=tuple(each.text for each in operands),
        )

    with open_campaign(select_both, request, paths, environ, progress) as campaign:
        (found,) = between
        if request.dry_run:
            return _plan(campaign, found)
        refuse_without_disk_space(campaign.plan.estimate, paths)
        with open_database(paths.knowledge) as database:
            campaign.begin(database)
            return _Bisection(
                campaign=campaign,
                between=found,
                settings=next(campaign.source.candidates()).settings,
            ).run(releases=releases)


def _source(good: Candidate, bad: Candidate) -> GivenStacks:
    """Return both as candidates.

    Raises:
        EvidenceError: they are the same stack.
        UsageError: they differ in more than packages.
    """
    if good.settings != bad.settings:
        raise UsageError(
            "the stacks differ in settings",
            why="a bisection exchanges packages alone",
            fix="find out by a comparison whether settings matter: stackgen compare GOOD BAD",
        )
    versions = good.lock.versions, bad.lock.versions
    names = sorted({name for name, _ in versions[0].items() ^ versions[1].items()})
    if not names:
        raise EvidenceError(
            "good and bad are the same versions",
            why="no package changed between them",
            fix="name another stack; how much one stack differs from itself: stackgen noise",
        )
    members = replace(good, label="GOOD"), replace(bad, label="BAD")
    return GivenStacks(
        members=tuple(replace(each, selection=None) for each in members), varied=tuple(names)
    )


def _changes(between: Hybrids) -> tuple[ChangedPackage, ...]:
    return tuple(
        ChangedPackage(package=name, good=old, bad=new, follows=name not in between.packages)
        for name, old, new in between.changes()
    )


_UNKNOWN = Timings(effect=0.1, effect_sd=0.04, noise_sd=0.04, freedom=15, build_sd=BUILD_SD)
"""For plans alone: an effect of 2.5 standard deviations of a block."""


def _plan(campaign: Campaign, between: Hybrids) -> BisectPlan:
    search = CulpritSearch(
        between, _UNKNOWN, build_cost=BUILD_BLOCKS, seed=campaign.request.budget.seed
    )
    units = len(search.together)
    return BisectPlan(
        plan=campaign.plan,
        changes=_changes(between),
        together=tuple(each for each in search.together.values() if len(each) > 1),
        hypotheses=search.hypotheses,
        entropy_bits=search.prior_entropy_bits,
        builds=2 if units == 1 else min(14, 5 + units // 2),
        blocks=6 if units == 1 else 40 + 5 * units,
    )


_ERROR = re.compile(r"([A-Za-z_][\w.]*(?:Error|Exception|Interrupt|Exit))\b")


@dataclass(frozen=True, slots=True)
class _Symptom:
    """How the bad stack fails: other failures of hybrids are of no use."""

    reason: str
    outcome: str

    @classmethod
    def of(cls, failed: Inspection | Candidate) -> "_Symptom":
        """Return the symptom of a failure."""
        if isinstance(failed, Candidate):
            assert failed.failure is not None  # noqa: S101 # it failed
            return cls(failed.failure.reason, failed.failure.outcome.value)
        return cls(last_line(failed.log), failed.outcome.value)

    def is_same(self, other: "_Symptom") -> bool:
        """Return whether two failures look like the same one: the same error, or outcome."""
        errors = _ERROR.search(self.reason), _ERROR.search(other.reason)
        if errors[0] and errors[1]:
            return errors[0][1] == errors[1][1]
        return self.outcome == other.outcome


@dataclass(frozen=True, slots=True, kw_only=True)
class _Found:
    """What a search came to; trials are those that counted."""

    search: CulpritSearch
    answer: CulpritAnswer
    trials: tuple[Trial, ...]

    @property
    def culprit(self) -> str:
        """Return the package that is responsible by itself, "" where there is none."""
        causes = self.answer.causes
        alone = len(causes) == 1 and causes[0].kind is CauseKind.SINGLE
        names = self.search.together[causes[0].packages[0]] if alone else ()
        return names[0] if len(names) == 1 else ""


@dataclass(slots=True, kw_only=True)
class _Bisection:
    """One bisection; its phases are methods in the order of time.

    between: the hybrids. settings: of all of them.
    """

    campaign: Campaign
    between: Hybrids
    settings: Settings
    _design: Design = field(init=False)
    _bad: Environment | None = None
    _symptom: _Symptom | None = None
    _effect: Effect | None = None
    _skipped: int = 0
    _why_unusable: dict[Hybrid, str] = field(default_factory=dict)
    _longest_s: float = 0.0
    _stopped: str = ""
    _exit: int | None = None

    @property
    def session(self) -> Session:
        """Return the session that measures."""
        return self.campaign.session

    def run(self, *, releases: bool) -> BisectReport:
        """Compare both stacks, search the cause, then the first bad release."""
        found: _Found | None = None
        first: FirstBad | None = None
        interrupted = False
        try:
            evidence = self._begin()
            if evidence is not None:
                found = self._search(self.between, evidence, tuple(CauseKind))
                if releases and found.culprit:
                    first = self._first_bad(found.culprit, evidence)
        except KeyboardInterrupt:
            interrupts.refuse_second()
            interrupted, self._exit = True, interrupts.exit_code()
            self._stopped = "you interrupted it"
        except StackgenError as error:
            if not any(each.block for each in self.session.inspections):
                raise
            self.campaign.progress.note(f"error: {error}")
            self._stopped, self._exit = error.what, error.exit_code
        return self._report(found, first, interrupted=interrupted)

    # The two stacks: does the bad one fail, or how much slower is it?

    def _begin(self) -> Timings | Failures | None:
        """Return what hybrids are judged by; None where there is nothing to look for.

        Raises:
            MeasurementError: the good stack does not run.
        """
        good = self._prepared(self.between.good, "GOOD")
        if good.environment is None:
            assert good.failure is not None  # noqa: S101 # it is not ready
            raise MeasurementError(
                "the good stack does not run here",
                why=f"{good.failure.outcome.value}: {good.failure.reason}",
                fix="name one that runs; the log: stackgen kb failures",
            )
        self._design = self.campaign.design([replace(good)])
        bad = self._prepared(self.between.bad, "BAD")
        self._bad = bad.environment
        if bad.failure is not None:
            self._symptom = _Symptom.of(bad)
            self.campaign.progress.note(f"BAD fails: {self._symptom.reason}")
            return Failures()
        return self._compared()

    def _prepared(self, lock: Lock, label: str) -> Candidate:
        """Return a stack that was built and tried, now or before."""
        candidate = Candidate(
            lock=lock, label=label, completion="hybrid", settings=self.settings, choice=None
        )
        return self.campaign.candidates.preparer.prepare(candidate)

    def _compared(self) -> Timings | Failures | None:
        """Compare both stacks; these blocks are the prior, and take no part in the search."""
        bad = self._bad
        assert bad is not None  # noqa: S101 # it is ready
        while True:
            if failed := self._failure_in_blocks(bad.stack.id):
                self._symptom = _Symptom.of(failed)
                self.campaign.progress.note(f"BAD fails now and then: {self._symptom.reason}")
                return Failures()
            both = self._contrasts(self._times()).get((bad.stack.id, self._good), [])
            contrasts = [each for _, each in both]
            if contrasts:
                self._effect = found = effect(
                    contrasts=contrasts,
                    a=self._design.baseline.stack.id,
                    b=bad.stack.id,
                    indicator_id=self._design.calls[0].id,
                    alpha=LEVEL,
                    margin=self.campaign.request.measurement.margin,
                )
                if found.verdict in (Verdict.FASTER, Verdict.SLOWER):
                    self._skipped = found.blocks
                    break
                if found.verdict is Verdict.EQUIVALENT or len(contrasts) >= INTERIM_ANALYSES[-1]:
                    self._stopped = "both stacks were compared"
                    return None
                if self._is_spent():
                    return None
            self._run([bad], f"comparing GOOD with BAD, block {len(contrasts) + 1}")
        centre = trimmed_centre(contrasts[: self._skipped])
        spread = max(centre.error * math.sqrt(self._skipped), 1e-4)
        return Timings(
            effect=centre.mean,
            effect_sd=math.hypot(centre.error, math.sqrt(2) * BUILD_SD, SELECTED * centre.mean),
            noise_sd=spread,
            freedom=centre.freedom,
            build_sd=BUILD_SD,
        )

    # The search: hybrids are measured until the posterior names a cause

    def _search(
        self, space: Space, evidence: Timings | Failures, kinds: Sequence[CauseKind]
    ) -> _Found:
        seed, search = self.campaign.request.budget.seed, None
        while True:
            trials = self._trials(space)
            if search is None:
                search = CulpritSearch(
                    space, evidence, build_cost=BUILD_BLOCKS, seed=seed, kinds=kinds
                )
            answer = search.answer(trials)
            found = _Found(search=search, answer=answer, trials=trials)
            if len(search.together) < 2:
                self._stopped = "no valid stack separates what changed"
                return found
            self.session.record.standing = _standing(found)
            best = search.next_run(trials, answer)
            if best is None:
                decided = bool(answer.causes) or answer.none_fits
                self._stopped = "the posterior decides" if decided else NOTHING_FURTHER
                return found
            if self._is_spent():
                return found
            if not self._observe(space, best):
                search = None  # what is valid has changed

    def _observe(self, space: Space, best: HybridProposal) -> bool:
        """Run one block of a hybrid and its reference; False where one proves to be of no use."""
        environments = []
        pair = [each for each in (best.reference, best.hybrid) if each]
        for hybrid in pair:
            label, before = _named_hybrid(space, hybrid), len(self.session.inspections)
            candidate = self._prepared(space.lock(hybrid), label)
            if self._symptom is not None:
                other = self._other_failure(candidate)
                if other:
                    return self._leave_out(space, hybrid, other)
                if len(self.session.inspections) == before:  # it was tried in an earlier step
                    stack = candidate.stack(self._design.baseline.stack.facts)
                    self._run_alone(self.session.environment(stack, label), label)
                return True
            failure = candidate.failure
            if candidate.environment is None:
                reason = failure.reason if failure else "it is another stack once more"
                return self._leave_out(space, hybrid, reason)
            environments.append(candidate.environment)
        shown = _named_hybrid(space, best.hybrid)
        if best.reference:
            shown += f" beside {_named_hybrid(space, best.reference)}"
        self._run(environments, f"measuring {shown}", beside_good=not best.reference)
        for hybrid, each in zip(pair, environments, strict=True):
            if failed := self._failure_in_blocks(each.stack.id):
                return self._leave_out(space, hybrid, last_line(failed.log))
        return True

    def _other_failure(self, candidate: Candidate) -> str:
        """Return how a stack fails otherwise than the bad one, "" where it does not."""
        assert self._symptom is not None  # noqa: S101 # failures are in question
        if candidate.failure is None or self._symptom.is_same(_Symptom.of(candidate)):
            return ""
        return f"fails otherwise: {candidate.failure.reason}"

    def _leave_out(self, space: Space, hybrid: Hybrid, why: str) -> bool:
        self.campaign.progress.note(f"{_named_hybrid(space, hybrid)} is of no use: {why}")
        space.unusable.add(hybrid)
        self._why_unusable[hybrid] = why
        return False

    def _run(
        self, environments: Sequence[Environment], doing: str, *, beside_good: bool = True
    ) -> None:
        """Run a block of stacks; it never counts as evidence of an effect."""
        self.campaign.progress.doing(doing)
        run = (self._design.baseline, *environments) if beside_good else tuple(environments)
        self.session.record.refuse_idle(self._design.calls, baseline=self._good)
        self.session.pause_after_idle_block(self._design.calls)
        (again, *_), stored = self.session.run_block(
            run, lambda number: plan_search(self._design, number, run)
        )
        if beside_good:
            self._design = replace(self._design, baseline=again)
        self._longest_s = max(self._longest_s, stored.seconds)

    def _run_alone(self, environment: Environment, label: str) -> None:
        self.campaign.progress.doing(f"running {label} again")
        design = replace(self._design, calls=self._design.calls[:1])
        self.session.run_block(
            (environment,), lambda number: plan_search(design, number, (environment,))
        )

    def _is_spent(self) -> bool:
        spent = self.session.left_s <= self._longest_s
        if spent:
            self._stopped = "the budget is spent"
        return spent

    # What the record says: the same after any number of runs of the command

    @property
    def _good(self) -> StackId:
        return self._design.baseline.stack.id

    def _trials(self, space: Space) -> tuple[Trial, ...]:
        if self._symptom is not None:
            return self._failing_trials(space)
        found = []
        blocks = self._times()
        outliers = outlying(blocks)
        for (stack, reference), contrasts in self._contrasts(blocks).items():
            hybrid, beside = self._hybrid(space, stack), self._hybrid(space, reference)
            prior = self._bad and (stack, reference) == (self._bad.stack.id, self._good)
            own = contrasts[self._skipped if prior else 0 :]
            seen = tuple(each for block, each in own if block not in outliers)
            if hybrid and beside is not None and not {hybrid, beside} & space.unusable and seen:
                found.append(Trial(hybrid=hybrid, reference=beside, log_contrasts=seen))
        return tuple(found)

    def _hybrid(self, space: Space, stack: StackId) -> Hybrid | None:
        if stack == self._good:
            return frozenset()
        # Another stack that is as good as the good one is no hybrid of it.
        return space.hybrid(self.session.record.database.stack(stack).lock) or None

    def _failing_trials(self, space: Space) -> tuple[Trial, ...]:
        assert self._symptom is not None  # noqa: S101 # failures are in question
        call = self._design.calls[0].id
        counts: dict[Hybrid, list[int]] = {}
        for each in self.session.inspections:
            judged = each.indicator_id == call and (
                each.observation is not None or cause_of(each) in OF_THE_STACK
            )
            if not judged:
                continue
            hybrid = space.hybrid(self.session.record.database.stack(each.stack_id).lock)
            if not hybrid or hybrid in space.unusable:
                continue
            failed = each.observation is None
            if failed and not self._symptom.is_same(_Symptom.of(each)):
                space.unusable.add(hybrid)
                self._why_unusable[hybrid] = f"fails otherwise: {last_line(each.log)}"
                counts.pop(hybrid, None)
                continue
            counts.setdefault(hybrid, [0, 0])[not failed] += 1
        return tuple(
            Trial(hybrid=hybrid, failures=failures, successes=successes)
            for hybrid, (failures, successes) in counts.items()
        )

    def _times(self) -> dict[int, dict[StackId, float]]:
        """Return log(seconds) of the stacks of each block that nothing disturbed, in block order.

        In each, stacks are in the order in which they were run first.
        """
        inspections = self.session.inspections
        stacks = list(dict.fromkeys(each.stack_id for each in inspections if each.block))
        blocks: dict[int, dict[StackId, float]] = {}
        for each in searched(
            inspections,
            places={stack: place for place, stack in enumerate(stacks)},
            calls=self._design.calls,
            weights=self.campaign.weights,
            excluded=exclude_disturbed(inspections).excluded,
        ):
            blocks.setdefault(each.block, {})[stacks[each.stack]] = each.log_s
        return {
            block: {stack: times[stack] for stack in stacks if stack in times}
            for block, times in sorted(blocks.items())
        }

    def _contrasts(
        self, blocks: Mapping[int, Mapping[StackId, float]]
    ) -> dict[tuple[StackId, StackId], list[tuple[int, float]]]:
        """Return (block, log(time / time of its reference)) of each two stacks, in block order.

        The reference is the good stack, or in blocks without it what was run first of all.
        """
        found: dict[tuple[StackId, StackId], list[tuple[int, float]]] = {}
        for block, times in blocks.items():
            reference = self._good if self._good in times else next(iter(times))
            for stack in times.keys() - {reference}:
                log_ratio = times[stack] - times[reference]
                found.setdefault((stack, reference), []).append((block, log_ratio))
        return found

    def _failure_in_blocks(self, stack: StackId) -> Inspection | None:
        """Return how a stack failed by itself in a block."""
        for each in self.session.inspections:
            failed = each.observation is None and cause_of(each) in OF_THE_STACK
            if failed and each.block and each.stack_id == stack:
                return each
        return None

    # The releases of the culprit

    def _first_bad(self, name: str, evidence: Timings | Failures) -> FirstBad:
        campaign = self.campaign
        space = releases_between(
            campaign.index,
            self.between,
            name,
            campaign.backend.base.target,
            campaign.request.stacks.requirements.policy,
            campaign.progress,
        )
        found = self._search(space, evidence, (CauseKind.SINGLE,))
        order = list(space.packages)
        causes = found.answer.causes
        group = found.search.together[causes[0].packages[0]] if len(causes) == 1 else ()
        before = order[order.index(group[0]) - 1] if group and group[0] != order[0] else ""
        return FirstBad(
            package=name,
            release=group[0] if len(group) == 1 else "",
            before=before or self.between.good.versions[name],
            posterior=found.answer.posterior,
            among=tuple(group or (each for each, p in found.answer.involved if p >= SHOWN_FROM)),
            results=self._results(space, found),
        )

    # The report

    def _report(
        self, found: _Found | None, first: FirstBad | None, *, interrupted: bool
    ) -> BisectReport:
        answer, packages = self._answer(found)
        known, seen = found.answer if found else None, self._effect
        undecided = answer in (BisectAnswer.UNDECIDED, BisectAnswer.MANY)
        usual_exit = EvidenceError.exit_code if undecided else 0
        return BisectReport(
            plan=self.campaign.plan,
            changes=_changes(self.between),
            answer=answer,
            packages=packages,
            posterior=_posterior(found, packages),
            failure=self._symptom.reason if self._symptom else "",
            ratio=None if seen is None else (seen.low, seen.ratio, seen.high),
            partners=_partners(found, packages),
            shares=() if known is None or answer is not BisectAnswer.BOTH else _shares(known),
            ranking=() if found is None else _ranking(found),
            misfit=known.misfit if known else 1.0,
            search=self._summary(found),
            first_bad=first,
            stopped=self._stopped,
            new_inspections=self.session.record.added,
            seconds=time.monotonic() - self.campaign.start,
            knowledge_base=str(self.campaign.paths.knowledge),
            interrupted=interrupted,
            exit_code=usual_exit if self._exit is None else self._exit,
        )

    def _answer(self, found: _Found | None) -> tuple[BisectAnswer, tuple[str, ...]]:
        """Return what is known, and the packages that it names."""
        if found is None:
            seen = self._effect
            same = seen is not None and (
                seen.verdict is Verdict.EQUIVALENT or seen.blocks >= INTERIM_ANALYSES[-1]
            )
            return (BisectAnswer.NO_DIFFERENCE if same else BisectAnswer.UNDECIDED), ()
        answer, search = found.answer, found.search
        if len(search.together) < 2:
            return BisectAnswer.CULPRIT, _all_names(found, search.together)
        if answer.none_fits:
            return BisectAnswer.MANY, ()
        if answer.causes:
            kind = answer.causes[0].kind
            names = tuple(dict.fromkeys(name for each in answer.causes for name in each.packages))
            if len(answer.causes) == 1:
                return ANSWERS[kind], _all_names(found, names)
            # No valid hybrid distinguishes these causes: only what all of them name is certain.
            certain = [each for each in names if all(each in c.packages for c in answer.causes)]
            if certain:
                return BisectAnswer.INVOLVED, _all_names(found, certain)
            return BisectAnswer.CULPRIT, _all_names(found, names)
        if answer.responsible:
            return BisectAnswer.INVOLVED, _all_names(found, answer.responsible)
        return BisectAnswer.UNDECIDED, ()

    def _summary(self, found: _Found | None) -> SearchEffort:
        if found is None:
            return SearchEffort(results=())
        search, answer = found.search, found.answer
        return SearchEffort(
            blocks=sum(map(_blocks, found.trials)),
            builds=sum(map(bool, stacks_of(found.trials))),
            bound=search.bound(answer),
            entropy_bits=(search.prior_entropy_bits, answer.entropy_bits),
            results=self._results(self.between, found),
        )

    def _results(self, space: Space, found: _Found) -> tuple[HybridResult, ...]:
        rows = [
            HybridResult(
                new=_shown_names(space, each.hybrid),
                reference=_shown_names(space, each.reference) if each.reference else (),
                blocks=_blocks(each),
                ratio=math.exp(sum(each.log_contrasts) / len(each.log_contrasts))
                if each.log_contrasts
                else None,
                failures=each.failures,
            )
            for each in found.trials
        ]
        rows += [
            HybridResult(new=_shown_names(space, each), blocks=0, unusable=why)
            for each, why in self._why_unusable.items()
            if each in space.unusable
        ]
        return tuple(rows)


def _blocks(trial: Trial) -> int:
    return len(trial.log_contrasts) + trial.failures + trial.successes


def _standing(found: _Found) -> str:
    cause, probability = found.answer.ranking[0]
    names = " and ".join(_all_names(found, cause.packages)) or cause.kind.value
    return f"{probability:.0%} {names}"


def _shown_names(space: Space, hybrid: Hybrid) -> tuple[str, ...]:
    if isinstance(space, Releases):
        return (space.packages[len(hybrid) - 1],)
    return tuple(name for name in space.packages if name in hybrid)


def _named_hybrid(space: Space, hybrid: Hybrid) -> str:
    if isinstance(space, Releases):
        return f"{space.name} {space.packages[len(hybrid) - 1]}"
    if len(hybrid) == len(space.packages):
        return "BAD"
    shown = _shown_names(space, hybrid)
    more = f" and {len(shown) - SHOWN} more" if len(shown) > SHOWN else ""
    return f"GOOD with new {', '.join(shown[:SHOWN])}{more}"


def _all_names(found: _Found, firsts: Iterable[str]) -> tuple[str, ...]:
    """Return the packages with those that no valid hybrid separates from them."""
    return tuple(name for first in firsts for name in found.search.together[first])


def _posterior(found: _Found | None, packages: Sequence[str]) -> float:
    if found is None:
        return 0.0
    if len(found.search.together) < 2:
        return 1.0
    if found.answer.causes or not packages:
        return found.answer.posterior
    involved = dict(found.answer.involved)
    return min(involved.get(name, 1.0) for name in packages)


def _partners(found: _Found | None, packages: Sequence[str]) -> tuple[str, ...]:
    """Return the packages that only some of the causes name which no valid hybrid distinguishes."""
    if found is None or len(found.answer.causes) < 2:
        return ()
    named = _all_names(found, (n for each in found.answer.causes for n in each.packages))
    return tuple(dict.fromkeys(each for each in named if each not in packages))


def _ranking(found: _Found) -> tuple[Hypothesis, ...]:
    return tuple(
        Hypothesis(
            kind=cause.kind.value,
            packages=tuple(" and ".join(found.search.together[each]) for each in cause.packages),
            posterior=probability,
        )
        for cause, probability in found.answer.ranking
        if probability >= SHOWN_FROM
    )


def _shares(answer: CulpritAnswer) -> tuple[tuple[str, float, float, float], ...]:
    return tuple(
        (name, math.exp(mean - REACH * sd), math.exp(mean), math.exp(mean + REACH * sd))
        for name, mean, sd in answer.parts
    )
