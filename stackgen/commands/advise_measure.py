"""Measures what would decide an advice: the lock beside what may be faster, in a campaign.

The choice rests on what is known; the campaign's blocks are fresh evidence, and are put together
with the rest. One campaign alone does not show how far the next one would differ, so a first one
leaves time for a second (docs/adr/0035). A later call goes on with a campaign that was begun, once
there are two of the same stacks, which differ in their seed.
"""

import json
import time
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from packaging.utils import canonicalize_name

from stackgen.campaign.backend import Backend
from stackgen.campaign.candidates import (
    Candidate,
    GivenStacks,
    installable,
    pinned,
    read_lock_file,
    read_pins,
    select,
)
from stackgen.campaign.indicators import indicator_calls, known_indicators
from stackgen.campaign.options import BudgetOptions, SearchOptions
from stackgen.campaign.plan import Calls, SelectedStacks
from stackgen.campaign.request import (
    KNOWLEDGE_BASE_KEY,
    PAIR_KEY,
    CampaignRequest,
    StackRequest,
)
from stackgen.campaign.user_input import read_measurement
from stackgen.commands.advise import Sources, answer, open_sources
from stackgen.commands.advise_next import CANDIDATES, free_requirements
from stackgen.commands.advise_request import ADVISE, AdviseRequest
from stackgen.commands.advise_security import Security
from stackgen.commands.explore import explore
from stackgen.commands.lock_changes import completed
from stackgen.errors import EvidenceError, ResolutionError, UsageError
from stackgen.index import PackageIndex
from stackgen.indicators.declaration import bind
from stackgen.indicators.families import DEFAULTS, FEWEST_FAMILIES, families_of, family_of
from stackgen.knowledge.allowed import Allowed, listed_changes
from stackgen.knowledge.equivalence import (
    FRAMEWORKS,
    VARIED,
    by_importance,
    differences,
    is_pure,
    varied_in,
)
from stackgen.knowledge.evidence import CONTROL_COMPONENT
from stackgen.measure import INTERIM_ANALYSES, decided, fewest_blocks, rank
from stackgen.model.choices import Granularity, Prereleases, Strategy
from stackgen.model.evidence import Advice, Answer, CampaignIdentity, Scope
from stackgen.model.identity import content_id
from stackgen.model.inspections import IndicatorCall, Inspection, Role
from stackgen.model.packages import Lock, LockFile
from stackgen.model.progress import Progress
from stackgen.model.reports.campaigns import ExplorePlan, ExploreReport, RunSummary
from stackgen.model.reports.locks import AdviceReport
from stackgen.model.stacks import BaseFacts
from stackgen.resolve.candidates import Policy
from stackgen.resolve.dependencies import parse_requirement
from stackgen.resolve.requirements import Requirements, parse_requirements
from stackgen.storage.paths import Paths

_MOST_TRIED = 12  # choices that are resolved, until enough of them may be recommended
_LEAST_S = 5.0  # with less of the budget left, no further campaign begins
_SPLIT_FROM_S, _FIRST_SHARE = 480.0, 0.6
"""From which budget on the first campaign leaves time for a second, and what it may take: more than
half, since it builds the stacks for both."""
_ENOUGH = INTERIM_ANALYSES[0]  # blocks of a campaign that another one may follow


@dataclass(frozen=True, slots=True, kw_only=True)
class Earlier:
    """A campaign of an earlier call for the same lock.

    locks: of its stacks, by their identities as the request spells them.
    blocks: of the comparison that has fewest. finished: whether more of them would decide nothing.
    """

    identity: CampaignIdentity
    locks: Mapping[str, Lock]
    has_compared: bool
    blocks: int
    finished: bool

    @property
    def pair(self) -> list[str]:
        """Return the identities of its stacks, the lock's first."""
        found = self.identity.request_values.get(PAIR_KEY, [])
        return [str(each) for each in found] if isinstance(found, list) else []


@dataclass(frozen=True, slots=True, kw_only=True)
class NextCampaign:
    """What is measured next.

    pins: of each candidate.
    with_newest: whether the newest versions are candidates too, as nothing is known of the lock.
    known: indicators that are in the evidence already.
    """

    pins: tuple[tuple[tuple[str, str], ...], ...]
    with_newest: bool
    known: tuple[IndicatorCall, ...]
    earlier: tuple[Earlier, ...]


def measure(
    request: AdviseRequest,
    paths: Paths,
    environ: Mapping[str, str],
    progress: Progress,
    *,
    dry_run: bool,
) -> AdviceReport | ExplorePlan:
    """Measure what would decide the answer within the budget, and answer again.

    Args:
        dry_run: return the plan alone.

    Raises:
        EvidenceError: nothing that can be measured would decide the answer.
        StackgenError: one of its kinds for whatever stops it; what was measured is kept.
    """
    budget_s = request.measure.budget_s or 0.0
    ends = time.monotonic() + budget_s
    runs: list[RunSummary] = []
    is_first_of_two = False
    while True:
        with open_sources(request, paths, environ, progress) as sources:
            advice = answer(sources, most_next=CANDIDATES)
            step = _next_step(sources, advice, goes_on=not runs)
            left_s = ends - time.monotonic()
            if step is None and not runs:
                _explain_nothing(request, advice, progress)
            over = bool(runs) and _is_over(runs[-1], is_first_of_two=is_first_of_two)
            if step is None or left_s < _LEAST_S or over:
                return sources.report(advice, runs)
        alone = not any(each.blocks >= _ENOUGH for each in step.earlier)
        is_first_of_two = not runs and left_s >= _SPLIT_FROM_S and alone
        share_s = _FIRST_SHARE * left_s if is_first_of_two else left_s
        if is_first_of_two:
            progress.note(
                f"The first campaign ends after {share_s / 60:.0f} of {left_s / 60:.0f} min at the "
                "latest: a second one shows how far campaigns differ."
            )
        campaign_request = _request(request, share_s, dry_run=dry_run)
        campaign = _Chosen(request=request, step=step, environ=environ)
        found = explore(
            campaign_request,
            paths,
            environ,
            progress,
            select_stacks=campaign.select,
            calls_of=campaign.calls,
        )
        if isinstance(found, ExplorePlan):
            return found
        _note_run(found, progress)
        ends += found.run.waited_s
        runs.append(found.run)


def _is_over(run: RunSummary, *, is_first_of_two: bool) -> bool:
    """Return whether a run ended so that the next one would end alike, or has no time left.

    Args:
        is_first_of_two: whether it had a part of the budget.
    """
    spent = run.stopped.startswith("the budget")  # waits count for no budget of ours either
    return run.interrupted or run.new_inspections == 0 or (spent and not is_first_of_two)


def _note_run(found: ExploreReport, progress: Progress) -> None:
    for each in found.failed:
        progress.note(f"{each.label} takes no part: {each.outcome.value}: {each.reason}")
    for control in found.health.controls:
        if control.failed:
            progress.note(
                f"A control failed ({control.name}): the machine was not quiet enough, and nothing "
                "of this campaign counts."
            )
    progress.note(f"Measured {found.run.new_inspections} inspections: {found.run.stopped}.")


def _explain_nothing(request: AdviseRequest, advice: Advice, progress: Progress) -> None:
    """Say that nothing is measured, where the answer stands without that."""
    if advice.scope is Scope.PROGRAM:
        raise EvidenceError(
            "what was measured of your own program decides here, and --measure cannot run it",
            why="the command, its folder and its data are not part of the knowledge base",
            fix=f"repeat its campaign: stackgen explore --from {request.path} --pi-command "
            '"COMMAND" --seed N',
        )
    why = advice.refused or "no campaign that may be run would decide more"
    progress.note(f"Nothing to measure: {why}.")


def _next_step(sources: Sources, advice: Advice, *, goes_on: bool) -> NextCampaign | None:
    """Return what is measured next, None where the answer needs nothing more.

    Args:
        goes_on: whether a campaign of an earlier call is to be finished in any case.
    """
    request = sources.request
    if advice.scope is Scope.PROGRAM:
        return None
    earlier = tuple(_earlier(sources))
    is_open = goes_on and any(each.has_compared and not each.finished for each in earlier)
    pins = tuple(each.pins for each in advice.next)
    if request.new is not None:
        pins = ()
    if not (sources.measures(advice) or is_open):
        return None
    indicators = [each.indicator_id for each in advice.provenance]
    indicators += [each.indicator_id for near in advice.nearest for each in near.provenance]
    known = tuple(sources.known.calls[each] for each in dict.fromkeys(indicators))
    unknown = advice.answer is Answer.UNKNOWN
    return NextCampaign(pins=pins, with_newest=unknown, known=known, earlier=earlier)


def _earlier(sources: Sources) -> Iterator[Earlier]:
    """Yield the campaigns of earlier calls for this lock on this machine, the latest first."""
    for campaign in sources.own_campaigns():
        inspections = sources.database.inspections(campaign=campaign.id)
        stacks = {each.stack_id for each in inspections}
        found = (sources.known.stacks[each] for each in stacks)
        compared = [each for each in inspections if each.block and each.role is not Role.SEARCH]
        blocks, finished = _progress(inspections, sources.calls)
        yield Earlier(
            identity=campaign,
            locks={side(each.lock, each.settings): each.lock for each in found},
            has_compared=bool(compared),
            blocks=blocks,
            finished=finished,
        )


def _progress(
    inspections: Sequence[Inspection], calls: Sequence[IndicatorCall]
) -> tuple[int, bool]:
    """Return how many blocks each comparison of a campaign has at least, and whether it is over.

    It is over where each comparison is decided, or has all blocks it may have.

    Args:
        inspections: of the campaign, calibrations included: they tell what disturbed a block.
        calls: all indicators.
    """
    compared = [each for each in inspections if each.block and each.role is not Role.SEARCH]
    baseline = next((each.stack_id for each in compared if each.role is Role.BASELINE), None)
    used = {each.indicator_id for each in compared}
    own = [c for c in calls if c.id in used and c.indicator.component != CONTROL_COMPONENT]
    if baseline is None or not own:
        return 0, False
    labels = {each.stack_id: "" for each in compared}
    rows = rank(inspections, labels=labels, baseline=baseline, calls=own)
    blocks = fewest_blocks(rows, own)
    return blocks, decided(rows, own) or blocks >= INTERIM_ANALYSES[-1]


def _request(request: AdviseRequest, budget_s: float, *, dry_run: bool) -> CampaignRequest:
    names = frozenset(request.sources.allow_build)
    requirements = Requirements(policy=Policy(prereleases=Prereleases.ALLOW, allow_build=names))
    return CampaignRequest(
        kind=ADVISE,
        stacks=StackRequest(
            requirements=requirements, lock=request.path, granularity=Granularity.PATCH
        ),
        measurement=read_measurement(request.indicators),
        budget=BudgetOptions(budget_s=budget_s),
        search=SearchOptions(strategy=Strategy.NEWEST),
        target=replace(request.target, base=request.target.base or request.options.python),
        index=request.index,
        dry_run=dry_run,
    )


def side(lock: Lock, settings: Sequence[tuple[str, str]]) -> str:
    """Return what a request calls a stack, whatever base it is installed on."""
    return content_id("side", [lock.id, list(settings)])


@dataclass(slots=True, kw_only=True)
class _Chosen:
    """Chooses stacks and indicators of a campaign, once its base is known."""

    request: AdviseRequest
    step: NextCampaign
    environ: Mapping[str, str]

    def select(
        self, index: PackageIndex, request: CampaignRequest, backend: Backend, progress: Progress
    ) -> SelectedStacks:
        """Return the stacks: of a campaign that goes on its own, otherwise what would decide."""
        calls, _ = self._calls(request, self._packages(request))
        request = request.with_indicators(*sorted(each.label for each in calls))
        question = _question(request, backend)
        alike = [
            each
            for each in self.step.earlier
            if _without_pair(each.identity.request_values) == question
        ]
        measured = Counter(frozenset(each.pair) for each in alike if each.has_compared)
        for each in alike:
            alone = measured[frozenset(each.pair)] == 1 and each.blocks >= _ENOUGH
            is_open = each.has_compared and not each.finished and not alone
            if is_open and {*each.pair} <= each.locks.keys():
                progress.note("Going on with the campaign that an earlier call began.")
                locks = [each.locks[one] for one in each.pair]
                return self._selected(
                    request.with_budget(seed=each.identity.seed), _as_they_are(locks)
                )
        stacks = self._new(index, request, backend, progress)
        pair = frozenset(side(each.lock, each.settings) for each in stacks.candidates())
        return self._selected(request.with_budget(seed=measured[pair]), stacks)

    def _selected(self, request: CampaignRequest, stacks: GivenStacks) -> SelectedStacks:
        every = list(stacks.candidates())
        pair = tuple(side(each.lock, each.settings) for each in every)
        search = SearchOptions(strategy=Strategy.NEWEST, stacks=max(2, len(every)))
        return SelectedStacks(
            request=replace(request.with_stacks(pair=pair), search=search),
            source=stacks,
            packages=frozenset.intersection(*(frozenset(e.lock.versions) for e in every)),
            count=len(every),
            choices=len(every),
            requirements=tuple(filter(None, (str(self.request.path), str(self.request.new or "")))),
        )

    def _new(
        self, index: PackageIndex, request: CampaignRequest, backend: Backend, progress: Progress
    ) -> GivenStacks:
        """Return the lock and what would decide.

        Raises:
            ResolutionError: none of it can be installed here.
        """
        target = backend.base.target
        if self.request.new is not None:
            policy = request.stacks.requirements.policy
            paths = (self.request.path, self.request.new)
            return _as_they_are([pinned(index, read_pins(each), target, policy) for each in paths])
        found: dict[str, Candidate] = {}
        barred: dict[str, tuple[Candidate, str]] = {}
        problems: list[ResolutionError] = []
        policy = request.stacks.requirements.policy
        free = {*varied_in(self._packages(request)), *self.request.options.only}
        given = read_lock_file(self.request.path, partial=True)
        given = completed(given, target, index=index, progress=progress)
        lockfile = installable(index, given, free, target, policy, progress)
        allowed = self._allowed(index, lockfile, backend.base.facts)
        for pins in (*self.step.pins, ()):
            if not pins and len(found) > (CANDIDATES if self.step.with_newest else 1):
                break  # the newest versions matter where nothing that would decide can be installed
            # What varies by itself comes first, in the names of the stacks as well.
            ordered = sorted(pins, key=lambda pin: by_importance(pin[0]))
            lines: Sequence[str] = [f"{name}=={version}" for name, version in ordered]
            if not pins:
                lines = free_requirements(lockfile, self.request.options.policy, target)
            wanted = parse_requirements(*lines)
            early = policy.prereleases if pins else wanted.policy.prereleases
            resolved = request.with_stacks(
                requirements=replace(wanted, policy=replace(policy, prereleases=early)),
                granularity=Granularity.PATCH if pins else Granularity.MINOR,
            )
            try:
                selection = select(index, resolved, target, progress, lockfile=lockfile)
            except ResolutionError as error:
                problems.append(error)
                continue
            own = selection.baseline
            for place, each in enumerate(selection.candidates()):
                if place == (2 if pins else _MOST_TRIED) or len(found) > CANDIDATES:
                    break
                key = side(each.lock, each.settings)
                if own is not None and (why := _refused(allowed, own, each.lock)):
                    barred[key] = each, why
                else:
                    found.setdefault(key, each)
        for each, why in barred.values():
            label = _label(1, each.lock, _by_themselves(tuple(each.lock.versions)))
            progress.note(f"{label} is not measured, as it may not be recommended: {why}")
        if len(found) < 2:
            why = next((why for _, why in barred.values()), "")
            raise problems[0] if problems and not why else _nothing_else(self.request, why)
        every = list(found.values())
        named = [e.selection.varied for e in every if e.selection]
        names = tuple(dict.fromkeys(name for each in named for name in each))
        varied = _by_themselves(names)
        if len({tuple(e.lock.versions.get(n) for n in varied) for e in every}) < len(every):
            varied = names
        return GivenStacks(
            members=tuple(
                replace(each, label=_label(place, each.lock, varied))
                for place, each in enumerate(every)
            ),
            varied=varied,
        )

    def _allowed(self, index: PackageIndex, lockfile: LockFile, facts: BaseFacts) -> Allowed:
        """Return what says whether a stack may be recommended once it is measured."""
        security = Security(
            options=self.request.vulnerabilities,
            environ=self.environ,
            index=index,
            lockfile=lockfile,
            names=frozenset(str(canonicalize_name(each.name)) for each in lockfile.packages),
            allow_vulnerable=self.request.options.allow_vulnerable,
        )
        return Allowed(
            lockfile=lockfile,
            facts=facts,
            policy=self.request.options.policy,
            admits=lambda _, changes, __: security.refusal(changes),  # the rest was resolved
        )

    def calls(self, selected: SelectedStacks) -> Calls:
        """Return what is measured: what is known already, and enough families."""
        return self._calls(
            replace(selected.request, measurement=read_measurement(self.request.indicators)),
            selected.packages,
        )

    def _packages(self, request: CampaignRequest) -> frozenset[str]:
        assert request.stacks.lock is not None  # noqa: S101 # it is what is advised on
        lockfile = read_lock_file(request.stacks.lock, partial=True)
        open_names = (parse_requirement(line).name for _, line in lockfile.unpinned)
        names = (*(each.name for each in lockfile.packages), *open_names)
        return frozenset(str(canonicalize_name(each)) for each in names)

    def _calls(self, request: CampaignRequest, packages: frozenset[str]) -> Calls:
        varied = tuple(name for name in VARIED if name in packages and name != "numpy")
        if request.measurement.indicators:
            return indicator_calls(request, varied, packages)
        known = _runnable(self.step.known)
        names = [each.indicator.name for each in known]
        component = next(
            (each for each in ("tensorflow", "torch") if _has(each, packages)), "numpy"
        )
        for name in DEFAULTS[component]:
            if len(families_of(names)) < FEWEST_FAMILIES and family_of(name) not in families_of(
                names
            ):
                names.append(name)
        calls, control = indicator_calls(request.with_indicators(*names), varied, packages)
        own = {each.indicator.name: each for each in known}
        return tuple(_like(each, own.get(each.indicator.name)) for each in calls), control


def _has(component: str, packages: frozenset[str]) -> bool:
    """Return whether a framework is among packages; what is built on it (add-ons) is not."""
    return not FRAMEWORKS[component].isdisjoint(packages)


def _runnable(known: Sequence[IndicatorCall]) -> list[IndicatorCall]:
    """Return the indicators of the evidence that are the same ones still."""
    shipped = {each.name: each for each in known_indicators()}
    found: dict[str, IndicatorCall] = {}
    for each in known:
        own = shipped.get(each.indicator.name)
        if own is not None and bind(own, dict(each.arguments)).id == each.id:
            found.setdefault(own.name, bind(own, dict(each.arguments)))
    return list(found.values())


def _like(call: IndicatorCall, known: IndicatorCall | None) -> IndicatorCall:
    """Return a call with the arguments that the evidence has, on as many threads as here."""
    if known is None:
        return call
    threads = dict(call.arguments).get("threads")
    same = dict(known.arguments).get("threads") == threads
    return known if same else call


def _question(request: CampaignRequest, backend: Backend) -> dict[str, object]:
    """Return what a campaign is about, apart from its stacks."""
    base = backend.base
    return _without_pair(json.loads(request.identity(base.kind.value, base.facts, where="")))


def _without_pair(request: Mapping[str, object]) -> dict[str, object]:
    return {k: v for k, v in request.items() if k not in (PAIR_KEY, KNOWLEDGE_BASE_KEY)}


def _as_they_are(locks: Sequence[Lock]) -> GivenStacks:
    """Return stacks whose packages are all given."""
    files = [{(each.name, each.sha256) for each in lock.artifacts} for lock in locks]
    shared = set.intersection(*files)
    differing = sorted({name for each in files for name, _ in each - shared})
    varied = _by_themselves(differing)
    return GivenStacks(
        members=tuple(
            Candidate(
                lock=lock,
                label=_label(place, lock, varied),
                completion="lock",
                settings=(),
                choice=None,
            )
            for place, lock in enumerate(locks)
        ),
        varied=varied,
    )


def _by_themselves(names: Collection[str]) -> tuple[str, ...]:
    """Return those of some packages that vary by themselves, or a few where none does."""
    return tuple(name for name in VARIED if name in names) or tuple(names)[:3]


def _label(place: int, lock: Lock, varied: Sequence[str]) -> str:
    """Return what a stack is called by the versions of what varies; the user's lock is first."""
    text = ", ".join(f"{n} {lock.versions[n]}" for n in varied if n in lock.versions)
    return f"your lock: {text}" if place == 0 else text or f"stack {place}"


def _refused(allowed: Allowed, own: Lock, other: Lock) -> str:
    """Return why a stack may not be recommended beside the lock; "" where it may."""
    changes = differences(own.versions, other.versions)
    compiled = {each.name for each in other.artifacts if not is_pure(each)} | {*VARIED}
    refusal = allowed.refusal(changes, other.versions, compiled) if changes else None
    return refusal.why.removeprefix(f"{listed_changes(changes)}: ") if refusal is not None else ""


def _nothing_else(request: AdviseRequest, why: str = "") -> UsageError:
    fix = "allow more: --allow-major, --allow-downgrade, or --only NAME"
    if request.options.allow_downgrade and not request.vulnerabilities.requested:
        fix = "older releases have to be checked for vulnerabilities: --osv DIR or --audit pypi"
    return UsageError(
        f"there is nothing to measure beside {request.path}",
        why=why or "the rest of it, or your options, admit no other versions of what varies",
        fix=fix,
    )
