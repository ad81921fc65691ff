"""Let the stacks of a selection compete: have them built, measure them, and report."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from stackgen import interrupts
from stackgen.campaign.comparison import (
    ALL_FAILED,
    Stopped,
    failed_in_blocks,
    measure,
    nothing_runs,
    stopped,
    stopped_by,
    too_short,
)
from stackgen.campaign.plan import Work, open_session
from stackgen.campaign.prepare import Preparer, Ready
from stackgen.campaign.search import Field, Search
from stackgen.campaign.session import Session
from stackgen.errors import (
    EngineError,
    EvidenceError,
    MeasurementError,
    StackgenError,
    StorageError,
)
from stackgen.knowledge.database import Database
from stackgen.measure import Design, candidates_of, controls, exclude_disturbed, rank
from stackgen.measure.cost import baseline_times, costs, gives_figure, scaled
from stackgen.measure.ranking import conclusion
from stackgen.measure.results import peak_memory
from stackgen.model.evidence import Control, Ranked
from stackgen.model.identity import StackId
from stackgen.model.reports import ChosenStack, ExploreReport, FailedStack, SearchReport
from stackgen.model.stacks import Stack

# From everything that a campaign recorded to its report


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How the stacks of a campaign fared.

    stacks: those that run, the baseline first.
    compared: labels of the stacks whose effects are reported.
    labels: of all stacks that took part.
    failures: what does not run.
    untried: choices that nothing was measured of.
    """

    stacks: tuple[ChosenStack, ...]
    compared: Mapping[StackId, str]
    labels: Mapping[StackId, str]
    failures: tuple[FailedStack, ...]
    untried: int
    stopped: Stopped
    search: SearchReport | None = None


def report(work: Work, session: Session, found: Outcome) -> ExploreReport:
    """Return what an exploration found."""
    seen, calls = session.inspections, work.calls
    disturbed = exclude_disturbed(seen)
    ranking: tuple[Ranked, ...] = ()
    checked: tuple[Control, ...] = ()
    if found.stacks:
        baseline = found.stacks[0].stack_id
        ranking = rank(
            seen,
            labels=found.compared,
            baseline=baseline,
            calls=calls,
            margin=work.request.measurement.margin,
            weights=work.weights,
        )
        checked = controls(seen, baseline=baseline, calls=calls, pure=work.control)
    for call in calls:
        if call.id in work.metered.per_hour and gives_figure(seen, call.id):
            work.progress.note(f"{call.label} has no cost: it gives a figure in place of a time.")
    told = ExploreReport(
        plan=work.plan,
        memory=peak_memory(seen, (call.id for call in calls)),
        figures=tuple(call.id for call in calls if gives_figure(seen, call.id)),
        baseline_s=baseline_times(seen, calls),
        checks=tuple(
            (call.id, call.program.check) for call in calls if call.program and call.program.check
        ),
        stacks=found.stacks,
        failed=(*found.failures, *failed_in_blocks(session, found.labels, calls)),
        ranking=ranking,
        controls=checked,
        indicators=tuple((call.id, call.label) for call in (*calls, work.control)),
        blocks=found.stopped.blocks,
        new_inspections=session.record.added,
        seconds=time.monotonic() - work.start,
        untried=found.untried,
        stopped=found.stopped.why,
        interrupted=found.stopped.interrupted,
        exit_code=_exit_code(found.stopped, ranking, checked),
        knowledge_base=str(work.paths.knowledge),
        margin=work.request.measurement.margin,
        costs=costs(seen, ranking=ranking, calls=calls, per_hour=work.metered.per_hour),
        currency=work.metered.currency,
        scaled=scaled(seen, ranking=ranking, counts=work.metered.counts),
        search=found.search,
        weights=tuple(work.weights.items()),
        excluded=tuple(disturbed.excluded.values()),
        tolerated=tuple(disturbed.tolerated.values()),
    )
    answer = conclusion(told)
    winner = "" if answer.winner is None else answer.winner.stack_id
    return replace(told, answer=answer.answer.value, winner=winner)


def _exit_code(stopped: Stopped, ranking: Sequence[Ranked], checked: Sequence[Control]) -> int:
    """Return the exit code that tells a script how far to trust the report."""
    if stopped.interrupted:
        return interrupts.exit_code()
    if stopped.error is not None:
        return stopped.error.exit_code
    if any(control.failed for control in checked):
        return MeasurementError.exit_code
    answered = any(effect.low > 0 for row in ranking if row.counts for effect in row.effects)
    return 0 if answered else EvidenceError.exit_code


# Stacks that earlier runs of a campaign have compared: what they showed stands, whoever leads now

EARLIER = "earlier"
"""The completion of a stack that was made ready in another run."""


def compared_before(
    session: Session,
    baseline: StackId,
    *,
    now: Mapping[StackId, str],
    labels: Mapping[StackId, str],
    varied: tuple[str, ...],
) -> tuple[ChosenStack, ...]:
    """Return the stacks that were compared with this baseline, without those of this run.

    Args:
        session: knows the campaign.
        baseline: what all others are compared with.
        now: labels of the stacks that this run compares.
        labels: of others that are known by a name.
        varied: names of the packages that vary; by them others are called.
    """
    before = candidates_of(session.inspections, baseline) - now.keys() - {baseline}
    stacks = {each: session.record.database.stack(each) for each in sorted(before)}
    return tuple(
        ChosenStack(
            stack_id=each,
            label=labels.get(each) or _label(stack, varied),
            completion=EARLIER,
            lock=stack.lock,
            settings=stack.settings,
        )
        for each, stack in stacks.items()
    )


def _label(stack: Stack, varied: tuple[str, ...]) -> str:
    versions = stack.lock.versions
    parts = [f"{name} {versions[name]}" for name in varied if name in versions]
    return ", ".join([*parts, *(f"{name}={value}" for name, value in stack.settings)])


BUILD_SHARE = 0.6
"""Once two stacks work, no further one is built when this share of the budget is spent."""


def compete(work: Work, database: Database) -> ExploreReport:
    """Measure the stacks of a selection against each other within the budget.

    Raises:
        StackgenError: none of them runs, or nothing can be measured at all.
    """
    session = open_session(work, database)
    for call in (*work.calls, work.control):
        database.add_indicator(call)
    _tell_estimate(work)
    preparer = Preparer(
        facts=work.backend.base.facts,
        selection=work.selection,
        session=session,
        call=work.calls[0],
        progress=work.progress,
    )
    if work.plan.searched:
        found = _search_first(work, session, preparer)
    else:
        found = _all_at_once(work, session, preparer)
    if found.stopped.error is not None:
        work.progress.note(f"error: {found.stopped.error}")
    return report(work, session, found)


def _search_first(work: Work, session: Session, preparer: Preparer) -> Outcome:
    """Search for the best stacks; then compare the best two with the baseline."""
    field = Field(
        preparer=preparer,
        store=work.store,
        index=work.index,
        progress=work.progress,
        varied=work.selection.varied,
        wanted=work.request.search.wanted,
        budget_s=work.request.budget.budget_s,
    )
    ended = Stopped(blocks=0, why="you interrupted it", interrupted=True)
    search: Search | None = None
    compared: dict[StackId, str] = {}
    try:
        field.fill(work.selection.candidates())
        place = field.first_ready(_failed(work, session))
        ready = field.have_ready(place) if place is not None else None
        if place is None or ready is None:
            raise nothing_runs(preparer.failures, work.paths, work.calls[0].program)
        compared = _labels([ready])
        _tell_of_other_baseline(work, ready)
        design = calibrated(work, session, [ready])
        search = Search(
            work=work, session=session, competitors=field, design=design, baseline=place
        )
        preparer.reserve_s = search.reserve_s
        ended = _searched_and_compared(work, session, search, compared)
    except KeyboardInterrupt:
        work.progress.note("Interrupted; everything measured so far is kept.")
        ended = stopped(session, ended.why, interrupted=True)
    return _outcome(work, session, field, search, compared, ended)


def _searched_and_compared(
    work: Work, session: Session, search: Search, compared: dict[StackId, str]
) -> Stopped:
    """Search, and compare what was found in fresh blocks; fill ``compared`` with their labels.

    Where both that were found fail meanwhile, the next ones take their place.
    """
    while True:
        ended = _once(work, session, search, compared)
        left = set(search.best(2)) if ended.why == ALL_FAILED else set()
        if not left or ended.error or session.left_s <= 0:
            return ended
        for stack in compared.keys() - {search.design.baseline.stack.id}:
            del compared[stack]


def _once(work: Work, session: Session, search: Search, compared: dict[StackId, str]) -> Stopped:
    try:
        search.run()
        best = [search.competitors.have_ready(place) for place in search.best(2)]
        chosen = [each for each in best if each is not None]
        if not chosen and (other := search.another()):
            chosen = [other]
    except StackgenError as error:
        return stopped_by(session, error)
    if not chosen and search.failed:
        return stopped(session, ALL_FAILED)
    ready = search.competitors.entrants[search.baseline].ready
    if not chosen and ready is not None:
        why = _too_late(work, session, search.competitors.preparer, ready)
        if why:
            return stopped(session, why)
    compared |= _labels(chosen)
    candidates = tuple(each.environment for each in chosen)
    design = replace(search.design, candidates=candidates)
    return measure(session, design, compared, work.judging)


def _outcome(
    work: Work,
    session: Session,
    field: Field,
    search: Search | None,
    compared: dict[StackId, str],
    ended: Stopped,
) -> Outcome:
    """Return how it went; the baseline comes first."""
    failures = tuple(field.preparer.failures)
    ready = [each.ready for each in field.entrants if each.ready is not None]
    if search is not None:
        baseline = search.design.baseline.stack.id
        ready.sort(key=lambda each: each.chosen.stack_id != baseline)
    searched = search.labels() if search else {}
    before = _before(work, session, ready, now=compared, labels={**searched, **_labels(ready)})
    compared = {each.stack_id: each.label for each in before} | compared
    in_blocks = {**searched, **compared}
    return Outcome(
        stacks=_each_once(ready, before),
        compared={**(search.otherwise() if search else {}), **compared},
        labels={**in_blocks, **_labels(ready)},
        failures=failures,
        untried=max(0, work.plan.choices - len(in_blocks) - len(failures)),
        stopped=ended,
        search=search.report() if search else None,
    )


def _all_at_once(work: Work, session: Session, preparer: Preparer) -> Outcome:
    """Build stacks first, then measure all of them in each block."""
    ready: list[Ready] = []
    ended = Stopped(blocks=0, why="you interrupted it", interrupted=True)
    try:
        _prepare(work, preparer, session, ready)
        if not ready:
            raise nothing_runs(preparer.failures, work.paths, work.calls[0].program)
        failed = _failed(work, session)
        ready.sort(key=lambda each: each.chosen.stack_id in failed)  # the first is the baseline
        _tell_of_other_baseline(work, ready[0])
        design = calibrated(work, session, ready)
        if work.calls[0].program and (
            note := too_short(design, session.inspections, session.left_s)
        ):
            work.progress.note(note)
        if len(ready) < 2 and (why := _too_late(work, session, preparer, ready[0])):
            ended = stopped(session, why)
        else:
            ended = measure(session, design, _labels(ready), work.judging)
    except KeyboardInterrupt:
        work.progress.note("Interrupted; everything measured so far is kept.")
    labels = _labels(ready)
    before = _before(work, session, ready, now=labels, labels={})
    labels |= {each.stack_id: each.label for each in before}
    return Outcome(
        stacks=_each_once(ready, before),
        compared=labels,
        labels=labels,
        failures=tuple(preparer.failures),
        untried=max(0, work.plan.choices - len(labels) - len(preparer.failures)),
        stopped=ended,
    )


def _before(
    work: Work,
    session: Session,
    ready: Sequence[Ready],
    *,
    now: Mapping[StackId, str],
    labels: Mapping[StackId, str],
) -> tuple[ChosenStack, ...]:
    """Return the stacks that earlier runs compared with the baseline, the first that is ready."""
    if not ready:
        return ()
    baseline, varied = ready[0].chosen.stack_id, work.selection.varied
    return compared_before(session, baseline, now=now, labels=labels, varied=varied)


def _each_once(ready: Sequence[Ready], before: Sequence[ChosenStack]) -> tuple[ChosenStack, ...]:
    own = {each.chosen.stack_id for each in ready}
    further = (each for each in before if each.stack_id not in own)
    return (*(each.chosen for each in ready), *further)


def _prepare(work: Work, preparer: Preparer, session: Session, ready: list[Ready]) -> None:
    """Fill ``ready``; a full disk or a lost engine ends it, and those that are ready go on."""
    try:
        for each in preparer.prepare(work.request.search.wanted, until=_enough(work, session)):
            ready.append(each)  # noqa: PERF402 # Ctrl-C must not lose those that are ready
    except (StorageError, EngineError) as error:
        if len(ready) < 2:
            raise
        work.progress.note(f"No further stacks: {error.what} ({error.why})")


def _enough(work: Work, session: Session) -> Callable[[int], bool]:
    """Return what ends building early: measuring needs its share of the budget.

    One stack alone answers nothing, so the second may take as long again as the whole budget.
    """
    share = (1 - BUILD_SHARE) * work.request.budget.budget_s
    return lambda working: (
        session.left_s < (share if working >= 2 else -work.request.budget.budget_s)
    )


def _failed(work: Work, session: Session) -> frozenset[StackId]:
    """Return the stacks that failed in blocks, none of which others are compared with.

    The two sides of a comparison stay what they are.
    """
    if work.request.stacks.pair:
        return frozenset()
    return frozenset(each.stack_id for each in session.record.failed_in_blocks(work.calls))


def _too_late(work: Work, session: Session, preparer: Preparer, ready: Ready) -> str:
    """Return why there is only one stack where the budget is to blame for it, "" otherwise."""
    if session.left_s > 0 or len(preparer.failures) + 1 >= work.plan.choices:
        return ""
    return f"the budget ran out when only {ready.chosen.label} was built"


def _tell_estimate(work: Work) -> None:
    found = work.plan.estimate
    if found.wheels:
        work.progress.note(
            f"To come{', if all stacks are built' if work.plan.searched else ''}: "
            f"{found.wheels} wheels, {found.download_bytes / 1e9:.2f} GB to download, "
            f"about {found.disk_bytes / 1e9:.1f} GB on disk ({found.free_bytes / 1e9:.0f} GB "
            f"free). About {max(1, round(found.seconds / 60))} min until measuring begins."
        )


def calibrated(work: Work, session: Session, ready: Sequence[Ready]) -> Design:
    """Return what the blocks hold, once the baseline (the first) told the numbers of loops."""
    baseline, *candidates = (each.environment for each in ready)
    return Design(
        campaign_id=session.record.campaign.id,
        seed=work.request.budget.seed,
        baseline=baseline,
        candidates=tuple(candidates),
        calls=work.calls,
        control=work.control,
        loops=session.calibrate(baseline, (*work.calls, work.control)),
        limits=session.limits,
        own_limits=session.own_limits,
    )


def _tell_of_other_baseline(work: Work, baseline: Ready) -> None:
    """Say so where the lock to compare with does not run, and another stack stands in for it."""
    given = work.request.stacks.baseline_file or work.request.stacks.lock
    if given is not None and baseline.chosen.completion != "lock":
        work.progress.note(
            f"{given} does not run here: stacks are compared with {baseline.chosen.label} instead."
        )


def _labels(ready: Sequence[Ready]) -> dict[StackId, str]:
    return {each.chosen.stack_id: each.chosen.label for each in ready}
