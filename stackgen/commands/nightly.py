"""Nightly: what was released since last time, measured, confirmed and reported."""

import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace

from packaging.utils import canonicalize_name

from stackgen import interrupts
from stackgen.campaign.backend import open_backend
from stackgen.campaign.indicators import indicator_calls
from stackgen.campaign.options import (
    BudgetOptions,
    ComparisonOptions,
    IndicatorOptions,
    ProgramOptions,
    TargetOptions,
)
from stackgen.campaign.program import read_program
from stackgen.campaign.request import CampaignRequest, StackRequest
from stackgen.campaign.user_input import index_config, read_measurement
from stackgen.commands.bisect import bisect
from stackgen.commands.compare import measure_pair
from stackgen.errors import EvidenceError, ResolutionError, StackgenError, UsageError
from stackgen.index import PackageIndex
from stackgen.measure.effects import LONG_ANALYSES
from stackgen.model.findings import (
    Attribution,
    Finding,
    FindingKind,
    FindingStatus,
    NightlyPlan,
    NightlyReport,
    NightOutcome,
    NightPlan,
    NightReport,
)
from stackgen.model.options import parse_parameters
from stackgen.model.progress import Progress
from stackgen.model.reports.bisect import BisectReport
from stackgen.model.reports.campaigns import ExploreReport
from stackgen.nightly.detect import first_page, no_package
from stackgen.nightly.metrics import export_metrics
from stackgen.nightly.night import Attribute, Night
from stackgen.nightly.releases import (
    EventKind,
    PackagePage,
    Pair,
    Pins,
    changes,
    predecessor,
    release_pair,
)
from stackgen.nightly.site import LiveSite
from stackgen.nightly.store import NightStore, open_store
from stackgen.nightly.watch import Watch
from stackgen.notify import check_address, notify
from stackgen.report.bisect import bisect_text
from stackgen.resolve.dependencies import parse_requirement
from stackgen.resolve.requirements import Requirements
from stackgen.storage.paths import Paths, find_paths

_NOT_BEGUN = EvidenceError(
    "it did not begin", why="you interrupted this run before it", fix="run: stackgen nightly"
)

_MOST_IMPORTANT_FIRST = (
    *(NightOutcome.FINDINGS, NightOutcome.COULD_NOT_RUN, NightOutcome.UNDECIDED),
    *(NightOutcome.ALL_WELL, NightOutcome.NOTHING_NEW),
)


def watch_of(
    name: str, indicators: IndicatorOptions, budget: BudgetOptions, target: TargetOptions
) -> Watch:
    """Return the watch of a package that has no table in the configuration.

    Raises:
        UsageError: it is no name of a package, or more than one.
    """
    requirement = parse_requirement(name)
    if str(requirement) != requirement.name:
        raise UsageError(
            f"cannot watch {name!r}",
            why="all new releases of a package are watched: a name alone is expected",
            fix=f"write it as in: stackgen nightly {requirement.name}; a [watch.NAME] table of "
            "stackgen.toml takes requirements",
        )
    package = str(canonicalize_name(requirement.name))
    return Watch(
        name=package,
        requirements=(package,),
        bases=(target.base,),
        executor=target.executor,
        indicators=indicators.indicators,
        parameters=tuple(f"{key}={value}" for key, value in indicators.parameters),
        budget_s=budget.budget_s,
    )


def nightly(
    watches: Sequence[Watch],
    environ: Mapping[str, str],
    progress: Progress,
    kb: Paths,
    releases: int = 0,
    shared_s: float | None = None,
) -> NightlyReport:
    """Measure what was released since the last night of each watch, and notify.

    A first night notes what there is. A release counts as handled once it was decided; a night
    that was cut short is made up for by the next one, without repeating finished work. A
    difference is a finding when a second campaign in new environments shows it, too. Findings are
    reported again until `mark_reported`.

    ``kb`` has the paths of watches that name no knowledge base. A first night measures so many
    releases of each package. ``shared_s`` is the budget of all watches together in seconds; None:
    each has its own.

    Raises:
        UsageError: the first watch cannot be used; where a later one cannot, its report says so.
    """
    ends = time.monotonic() + (shared_s or 0.0)
    nights: list[NightReport] = []
    for place, watch in enumerate(watches):
        left_s = (ends - time.monotonic()) / (len(watches) - place)
        own = watch if shared_s is None else replace(watch, budget_s=max(1.0, left_s))
        paths = _paths(watch, environ, kb)
        store = open_store(paths)
        if interrupts.received():
            nights += [_not_run(own, base, store, _NOT_BEGUN) for base in own.bases]
            continue
        try:
            with store.night(watch.name):
                found = _nights(own, paths, environ, progress, releases=releases)
                _publish(own, store, found, environ, progress)
        except EvidenceError as refused:  # the other night has its findings and its metrics
            found = [_not_run(own, base, store, refused) for base in own.bases]
        except UsageError as refused:
            if not nights:  # nothing is lost by it
                raise
            found = [_not_run(own, base, store, refused) for base in own.bases]
        nights += found
    return _report(nights)


def mark_reported(
    report: NightlyReport, watches: Sequence[Watch], environ: Mapping[str, str], kb: Paths
) -> None:
    """Record that the user has the findings of a report, once it is written.

    What is killed before is reported by the next night; targets do not get it again.
    """
    for watch in watches:
        own = [night for night in report.nights if night.watch == watch.name and night.findings]
        if own:
            store = open_store(_paths(watch, environ, kb))
            store.reported(finding for night in own for finding in night.findings)


def _paths(watch: Watch, environ: Mapping[str, str], kb: Paths) -> Paths:
    return find_paths(environ, kb=watch.kb) if watch.kb else kb


def _nights(
    watch: Watch,
    paths: Paths,
    environ: Mapping[str, str],
    progress: Progress,
    *,
    releases: int,
) -> list[NightReport]:
    """Return the nights of a watch, one for each base; these share its budget."""
    ends, found = time.monotonic() + watch.budget_s, []
    store = open_store(paths)
    try:
        _refuse_unknown_packages(watch, store, paths, environ)
    except UsageError:
        raise
    except StackgenError as error:
        return [_not_run(watch, base, store, error) for base in watch.bases]
    for place, base in enumerate(watch.bases):
        began = time.monotonic()
        if interrupts.received():
            found.append(_not_run(watch, base, store, _NOT_BEGUN))
            continue
        try:
            site = _site(watch, base, paths, environ, progress)
            night = Night(
                watch=watch,
                base=site.label,
                site=site,
                store=store,
                clock=time.monotonic,
                ends=began + (ends - began) / (len(watch.bases) - place),
                progress=progress,
                releases=releases,
                attribute=_attribution(site),
            )
            found.append(night.run())
        except StackgenError as error:
            if isinstance(error, UsageError) and not found:  # nothing is lost by it
                raise
            found.append(_not_run(watch, base, store, error))
            continue
        site.remove_replicas()
    return _with_findings_of_others(found, store)


def _with_findings_of_others(nights: list[NightReport], store: NightStore) -> list[NightReport]:
    """Give the first night that could not begin the open findings of bases that had no night.

    A regression must not look mended where its base could not be used.
    """
    begun = {each.base for each in nights}
    missing = tuple(
        each
        for each in store.findings()
        if each.status is FindingStatus.OPEN
        and each.finding.watch == nights[0].watch
        and each.finding.base not in begun
    )
    for place, night in enumerate(nights):
        if night.outcome is NightOutcome.COULD_NOT_RUN and not night.open_findings:
            return [*nights[:place], replace(night, open_findings=missing), *nights[place + 1 :]]
    return nights


def _refuse_unknown_packages(
    watch: Watch, store: NightStore, paths: Paths, environ: Mapping[str, str]
) -> None:
    """Refuse what no index has before a first night makes a base, which takes minutes.

    Raises:
        IndexUnavailableError: an index cannot be reached.
        ResolutionError: there is no such package.
    """
    if store.has_begun(watch):
        return
    with PackageIndex(index_config(watch.index, environ), paths.cache) as index:
        for name, files in index.candidates_many(watch.specifiers).items():
            if files is None:
                raise no_package(name)


def _site(
    watch: Watch, base: str, paths: Paths, environ: Mapping[str, str], progress: Progress
) -> LiveSite:
    program = read_program(
        ProgramOptions(command=watch.command or None),
        budget_s=watch.budget_s,
        paths=paths,
        environ=environ,
    )
    indicators = IndicatorOptions(
        indicators=watch.indicators, parameters=parse_parameters(watch.parameters)
    )
    request = CampaignRequest(
        kind="nightly",
        stacks=StackRequest(requirements=Requirements()),
        measurement=read_measurement(indicators, ComparisonOptions(margin=watch.margin), program),
        target=TargetOptions(executor=watch.executor, base=base),
        index=watch.index,
    )
    with open_backend(watch.executor, base, paths, progress) as backend:
        where = backend.base

    def run_pair(old: str, new: str, request: CampaignRequest) -> ExploreReport:
        return measure_pair(old, new, request, paths, environ, progress)

    return LiveSite(
        watch=watch,
        request=request,
        base=base,
        where=where,
        paths=paths,
        environ=environ,
        progress=progress,
        run_pair=run_pair,
    )


def _attribution(site: LiveSite) -> Attribute:
    """Return what names the culprit among the packages of a pair: a bisection of its own."""

    def attribute(finding: Finding, pair: Pair, budget_s: float) -> Attribution | None:
        if finding.kind not in (FindingKind.SLOWER, FindingKind.BROKEN):
            return None
        request = site.request.with_budget(budget_s=budget_s)
        stacks = site.texts(pair)
        try:
            found = bisect(*stacks, request, site.paths, site.environ, site.progress)
        except StackgenError as error:
            return Attribution(culprits=(), answer=f"not decided: {error.what}: {error.why}")
        if not isinstance(found, BisectReport):
            return None
        culprits = tuple((", ".join(e.packages) or e.kind, e.posterior) for e in found.ranking)
        return Attribution(culprits=culprits, answer=bisect_text(found).splitlines()[0])

    return attribute


def _not_run(watch: Watch, base: str, store: NightStore, error: StackgenError) -> NightReport:
    return NightReport(
        watch=watch.name,
        base=base,
        outcome=NightOutcome.COULD_NOT_RUN,
        started_at=store.moment,
        error=f"{error.what}: {error.why}",
        budget_s=watch.budget_s,
        exit_code=error.exit_code,
    )


def _report(nights: Sequence[NightReport]) -> NightlyReport:
    """Return all nights with the exit code of the one that matters most."""
    ordered = sorted(nights, key=lambda each: _MOST_IMPORTANT_FIRST.index(each.outcome))
    summary = "; ".join(each.summary for each in ordered) or "nothing is watched"
    code = ordered[0].exit_code if ordered else 0
    return NightlyReport(summary=summary, nights=tuple(nights), exit_code=code)


def _publish(
    watch: Watch,
    store: NightStore,
    nights: Sequence[NightReport],
    environ: Mapping[str, str],
    progress: Progress,
) -> None:
    """Notify of open findings that a target does not know, and export metrics.

    What cannot be delivered is reported, and tried again by the next night.
    """
    for finding in (each.finding for night in nights for each in night.open_findings):
        for target in watch.notify:
            if store.notified(finding, target):
                continue
            try:
                notify(target, finding, environ)
            except StackgenError as error:
                progress.note(f"error: {error}")
            else:
                store.add_notification(finding, target)
    for target in watch.metrics:
        try:
            export_metrics(target, watch.name, nights)
        except StackgenError as error:
            progress.note(f"error: {error}")


def check(
    watches: Sequence[Watch],
    environ: Mapping[str, str],
    progress: Progress,
    kb: Paths,
    releases: int = 0,
) -> NightlyPlan:
    """Return what the next nights would do; nothing is measured, recorded or sent.

    Raises:
        StackgenError: a watch cannot be used: its index, its base, or its requirements.
    """
    plans = []
    for watch in watches:
        paths = _paths(watch, environ, kb)
        store = open_store(paths, reading=True)
        _refuse_unknown_packages(watch, store, paths, environ)
        problems = []
        for target in (*watch.notify, *watch.metrics):
            try:
                check_address(target, environ)
            except UsageError as error:
                problems.append(f"{error.what}: {error.why}")
        for base in watch.bases:
            site = _site(watch, base, paths, environ, progress)
            plans.append(_plan(watch, site, store, releases, tuple(problems)))
    code = UsageError.exit_code if any(each.problems for each in plans) else 0
    return NightlyPlan(plans=tuple(plans), exit_code=code)


def _plan(
    watch: Watch, site: LiveSite, store: NightStore, releases: int, problems: tuple[str, ...]
) -> NightPlan:
    pages = site.pages(watch.specifiers)
    state = store.load(watch.key(site.label))
    known = state.pages if state else {}
    new = [(each.package, each.version) for each in state.pending] if state else []
    for name, page in pages.items():
        if page is None:
            problems = (*problems, f"no index has {name}")
            continue
        before = known.get(name) or first_page(
            watch, site.label, store, name, page, releases=releases
        )
        for event in changes(name, before, page):
            release = name, event.version
            if event.kind in (EventKind.RELEASED, EventKind.UNYANKED):
                if not state or not state.is_restored(*release, page.releases[event.version]):
                    new.append(release)
            elif event.kind in (EventKind.YANKED, EventKind.GONE) and release in new:
                new.remove(release)  # it waited for a night, and has none any more
    new = list(dict.fromkeys(new))
    excluded = [f"{name}!={version}" for name, version in new]
    stack = state.newest if state else site.resolve(watch.requirements, excluded)
    cost = site.estimate(_stacks(watch, site, pages, stack, new))
    if cost.disk_bytes > cost.free_bytes:
        needed, free = cost.disk_bytes / 1e9, cost.free_bytes / 1e9
        problems = (*problems, f"about {needed:.0f} GB of disk are needed, and {free:.0f} are free")
    labels: list[str] = []
    for name in watch.packages:
        try:
            calls, _ = indicator_calls(site.request, (name,), frozenset(stack))
            labels += [each for call in calls if (each := call.label) not in labels]
        except UsageError as error:
            problems = (*problems, f"{error.what}: {error.why}")
    indicators = max(1, len(watch.indicators) + bool(watch.command))
    return NightPlan(
        watch=watch.name,
        base=site.label,
        packages=tuple((n, len(p.releases) if p else 0) for n, p in pages.items()),
        stack=tuple(sorted(stack.items())),
        indicators=tuple(labels),
        new=tuple(f"{name} {version}" for name, version in new),
        budget_s=watch.budget_s,
        most_inspections=3 * LONG_ANALYSES[-1] * (3 * indicators + 2),
        download_bytes=cost.download_bytes,
        disk_bytes=cost.disk_bytes,
        free_bytes=cost.free_bytes,
        problems=tuple(dict.fromkeys(problems)),
    )


def _stacks(
    watch: Watch,
    site: LiveSite,
    pages: Mapping[str, PackagePage | None],
    stack: Pins,
    new: Sequence[tuple[str, str]],
) -> list[Pins]:
    """Return the stacks with each new release and with its predecessor, as far as there are any."""
    found: list[Pins] = []
    for name, version in new:
        page = pages[name]
        previous = predecessor(page, version, ()) if page else ""
        if not previous:
            continue
        with suppress(ResolutionError):  # the night reports that
            pair = release_pair(
                site.resolve, watch.requirements, stack,
                package=name, version=version, previous=previous,
            )  # fmt: skip
            found += [each for each in (pair.old, pair.new) if each not in found]
            stack = pair.new
    return found


def selected(watches: Sequence[Watch], names: Sequence[str]) -> tuple[Watch, ...]:
    """Return the watches of these names, or all of them.

    Raises:
        UsageError: there is no such watch, or none at all.
    """
    known = {each.name: each for each in watches}
    if unknown := [name for name in names if name not in known]:
        raise UsageError(
            f"there is no watch {unknown[0]}",
            why=f"stackgen.toml has {', '.join(known) or 'none'}",
            fix="add a [watch.NAME] table, or run: stackgen init",
        )
    if not known:
        raise UsageError(
            "nothing is watched",
            why="no package was named, and stackgen.toml has no [watch.NAME] table",
            fix="run: stackgen init; or name packages as in: stackgen nightly tensorflow",
        )
    return tuple(known[name] for name in names) if names else tuple(watches)
