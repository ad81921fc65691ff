"""Nightly: what was released since last time, measured against the best known stack."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from typing import Any, TypeAlias

from packaging.utils import canonicalize_name

from stackgen.database import Database, open_database
from stackgen.errors import BuildError, EngineError, MeasurementError, ResolutionError
from stackgen.executors.machine import this_machine
from stackgen.index import PackageIndex, load_config
from stackgen.measure import LOOKS, rank
from stackgen.pipeline.advise import trusted_campaigns
from stackgen.pipeline.explore import explore
from stackgen.pipeline.measures import CONTROL
from stackgen.pipeline.options import ExecutorChoice, ExploreOptions, Strategy
from stackgen.pipeline.places import Places
from stackgen.pipeline.progress import Progress, Silent
from stackgen.pipeline.workshop import open_workshop
from stackgen.resolve import Granularity, Request, asked, parsed_version
from stackgen.values import (
    BaseFacts,
    ExploreReport,
    IndicatorId,
    Inspection,
    Lock,
    NightlyReport,
    Role,
    StackId,
    Verdict,
)

FINDINGS = 7
"""The exit code of a night that found something."""


def nightly(
    names: Sequence[str],
    *,
    indicators: tuple[str, ...] = (),
    executor: ExecutorChoice,
    base: str,
    budget_s: float,
    seed: int,
    places: Places,
    environ: Mapping[str, str],
    progress: Progress,
) -> NightlyReport:
    """Measure the releases that the knowledge base has not seen.

    The first night of a package only notes what there is. A release counts as seen once it was
    explored, so a night that was cut short is made up for. A difference is a finding only when a
    second, independent campaign shows it, too.
    """
    options = ExploreOptions(
        asked=Request(),
        kind="nightly",
        indicators=indicators,
        executor=executor,
        base=base,
        budget_s=budget_s,
        seed=seed,
        stacks=2,
        strategy=Strategy.NEWEST,
    )
    wanted = [str(canonicalize_name(name)) for name in names]
    new = {name: _unseen(name, places, environ) for name in wanted}
    night = _Night(options=options, places=places, environ=environ, progress=progress)
    for name, versions in new.items():
        for version in versions or ():
            if night.exit_code is None:
                night.look_at(name, version)
    return NightlyReport(
        new=tuple((name, versions) for name, versions in new.items() if versions is not None),
        explored=tuple(night.explored),
        findings=tuple(night.findings),
        cannot_run=tuple(night.cannot_run),
        noted=tuple(name for name, versions in new.items() if versions is None),
        exit_code=night.exit_code or (FINDINGS if night.findings else 0),
    )


@dataclass(slots=True, kw_only=True)
class _Night:
    """What one night has done so far.

    exit_code: set once the night must end: it was interrupted, or the engine went away.
    """

    options: ExploreOptions
    places: Places
    environ: Mapping[str, str]
    progress: Progress
    explored: list[ExploreReport] = field(default_factory=list)
    findings: list[str] = field(default_factory=list)
    cannot_run: list[str] = field(default_factory=list)
    exit_code: int | None = None

    def look_at(self, name: str, version: str) -> None:
        """Explore one release, and once more what differs; it is seen when that is done."""
        self.progress.note(f"New: {name} {version}")
        try:
            question = _question(name, version, self.options, self.places)
            first = self._explore(replace(self.options, **question))
            if first is None:
                return
            self.explored.append(first)
            found = _differences(first)
            if found:
                self.progress.note("A difference: measuring it a second time, independently.")
                again = replace(self.options, **question, seed=self.options.seed + 1)
                second = self._explore(again)
                if second is None:
                    return
                self.findings += [
                    text for key, text in found.items() if key in _differences(second)
                ]
        except EngineError:
            raise
        except (ResolutionError, BuildError, MeasurementError) as error:
            self.cannot_run.append(f"{name} {version}: {error.what}: {error.why}")
            _mark_seen(name, (version,), self.places)
            return
        if _answered(first):
            _mark_seen(name, (version,), self.places)

    def _explore(self, options: ExploreOptions) -> ExploreReport | None:
        report = explore(options, self.places, self.environ, self.progress)
        assert isinstance(report, ExploreReport)  # noqa: S101 # only a dry run gives a plan
        if report.interrupted or report.exit_code == EngineError.exit_code:
            self.exit_code = report.exit_code
            return None
        return report


def _answered(report: ExploreReport) -> bool:
    """Return whether a release was compared, or is known not to run."""
    return bool(report.failed) or any(
        each.blocks >= LOOKS[0] for row in report.ranking for each in row.effects
    )


def _question(
    name: str, version: str, options: ExploreOptions, places: Places
) -> Mapping[str, Any]:
    """Return what to explore: a release beside the best known stack, or beside its predecessor."""
    with open_workshop(options.executor, options.base, places, Silent()) as workshop:
        facts = workshop.base.facts
    best = _best_known(name, version, facts, places)
    if best is not None:
        return {"asked": asked(f"{name}=={version}"), "reference": best}
    with open_database(places.knowledge) as database:
        seen = database.seen_releases(name)
    older = [each for each in seen if parsed_version(each) < parsed_version(version)]
    if not older:
        return {"asked": asked(f"{name}=={version}")}
    previous = max(older, key=parsed_version)
    both = asked(f"{name}>={previous},<={version}")
    fixed = () if name == "numpy" else ("numpy",)
    return {"asked": both, "granularity": Granularity.PATCH, "fixed": fixed}


def _unseen(name: str, places: Places, environ: Mapping[str, str]) -> tuple[str, ...] | None:
    """Return the final releases with wheels that were never seen, oldest first.

    None on a package's first night, when everything is noted as seen.
    """
    with PackageIndex(load_config(environ=environ), places.cache) as index:
        files = index.candidates(name)
    versions = {each.version for each in files if each.is_wheel and each.yanked is None}
    final = [each for each in versions if not parsed_version(each).is_prerelease]
    with open_database(places.knowledge) as database:
        seen = database.seen_releases(name)
        if not seen:
            database.add_seen(name, final, _now())
            return None
    return tuple(sorted(set(final) - seen, key=parsed_version))


def _mark_seen(name: str, versions: Sequence[str], places: Places) -> None:
    with open_database(places.knowledge) as database:
        database.add_seen(name, versions, _now())


def _best_known(name: str, version: str, facts: BaseFacts, places: Places) -> Lock | None:
    """Return the fastest stack of a package that this machine has measured on a base, or None.

    It is the leader of the latest campaign on this machine whose controls hold; a reference stays
    the best unless another stack is shown to be faster.
    """
    with open_database(places.knowledge) as database:
        machine = this_machine().id
        calls = database.calls()
        inspections = database.inspections(machine=machine)
        trusted = trusted_campaigns(database, inspections, calls)
        asked = [each for each in database.campaigns() if each.kind != "compare"]
        for campaign in reversed(asked):
            own = [each for each in inspections if each.campaign_id == campaign.id]
            leader = _leader(database, own) if campaign.id in trusted else None
            if leader is not None:
                stack = database.stack(leader)
                if stack.facts == facts and stack.lock.versions.get(name, version) != version:
                    return stack.lock
    return None


def _leader(database: Database, inspections: Sequence[Inspection]) -> StackId | None:
    used = {each.indicator_id for each in inspections if each.block > 0}
    calls = [c for c in database.calls() if c.id in used and c.indicator.name != CONTROL]
    reference = next((e.stack_id for e in inspections if e.role is Role.REFERENCE), None)
    if reference is None or not calls:
        return None
    compared = [each for each in inspections if each.block > 0 and each.role is not Role.SEARCH]
    labels = {each.stack_id: each.stack_id for each in compared}
    for row in rank(inspections, labels=dict(labels), reference=reference, calls=calls):
        if row.is_reference or (row.best and row.is_faster):
            return row.stack_id
    return reference


_Finding: TypeAlias = tuple[StackId, IndicatorId, str]
"""A stack, the indicator that tells it apart, and how."""


def _differences(report: ExploreReport) -> dict[_Finding, str]:
    """Return what is told apart; what computes something else does so however noisy it is."""
    reference = next((row.label for row in report.ranking if row.is_reference), "")
    names = dict(report.indicators)
    otherwise: dict[_Finding, str] = {
        (row.stack_id, each.indicator_id, each.kind.value): f"{row.label} computes something else "
        f"than {reference} on {names[each.indicator_id]}: "
        f"{each.kind.value} ({each.difference:.2g} apart, {each.tolerance:.2g} is allowed)"
        for row in report.ranking
        if not row.is_reference
        for each in row.deviations
    }
    if any(control.failed for control in report.controls):
        return otherwise
    return otherwise | {
        (
            row.stack_id,
            effect.indicator_id,
            effect.verdict.value,
        ): f"{row.label} is {effect.verdict.value} than {reference} on "
        f"{names[effect.indicator_id]}: "
        f"{effect.ratio:.3f} times as fast ({effect.low:.3f} to {effect.high:.3f})"
        for row in report.ranking
        if row.counts
        for effect in row.effects
        if effect.verdict in (Verdict.FASTER, Verdict.SLOWER)
    }


def _now() -> str:
    return datetime.now(timezone.utc).isoformat(timespec="seconds")
