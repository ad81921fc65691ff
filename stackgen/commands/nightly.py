"""Nightly: what was released since last time, measured against the best known stack."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from typing import TypeAlias

from packaging.utils import canonicalize_name

from stackgen.campaign.backend import open_backend
from stackgen.campaign.indicators import CONTROL
from stackgen.campaign.options import SearchOptions
from stackgen.campaign.request import CampaignRequest, StackRequest
from stackgen.commands.advise import trusted_campaigns
from stackgen.commands.explore import explore
from stackgen.errors import (
    BuildError,
    EngineError,
    EvidenceError,
    MeasurementError,
    ResolutionError,
    UsageError,
)
from stackgen.executors.machine import this_machine
from stackgen.index import PackageIndex, load_config
from stackgen.knowledge.database import Database, open_database
from stackgen.measure import INTERIM_ANALYSES, rank
from stackgen.model.choices import Strategy
from stackgen.model.evidence import Verdict
from stackgen.model.identity import IndicatorId, StackId
from stackgen.model.inspections import Inspection, Role
from stackgen.model.packages import Lock
from stackgen.model.progress import Progress
from stackgen.model.reports.campaigns import ExploreReport, NightlyReport
from stackgen.model.stacks import BaseFacts
from stackgen.resolve import (
    Granularity,
    parse_requirement,
    parse_requirements,
    parsed_version,
)
from stackgen.storage.paths import Paths
from stackgen.storage.state import State, state_path

FINDINGS = 7
"""The exit code of a night that found something."""

_SEEDS = 2
"""Seeds that a release takes: of its campaign, and of the one that confirms it."""


def nightly(
    names: Sequence[str],
    request: CampaignRequest,
    paths: Paths,
    environ: Mapping[str, str],
    progress: Progress,
) -> NightlyReport:
    """Measure the releases that were not measured on this base by these indicators.

    The first night of a package, base and indicators only notes what there is. A release counts
    as seen once it was decided, so a night that was cut short is made up for. A difference is a
    finding only when a second, independent campaign shows it, too. The budget is that of the
    whole night, in seconds; its releases share it.

    Raises:
        UsageError: a name is none of a package.
    """
    ends = time.monotonic() + request.budget.budget_s
    packages = tuple(dict.fromkeys(_package(name) for name in names))
    request = replace(request, search=SearchOptions(strategy=Strategy.NEWEST, stacks=2))
    target = request.target
    with open_backend(target.executor, target.base, paths, progress) as backend:
        on = backend.base
    indicators = request.measurement.indicators
    with open_database(paths.knowledge) as database:
        knowledge_base = database.base_id
    state = _State(
        paths=paths,
        knowledge_base=knowledge_base,
        base=f"{on.kind.value} {on.name}",
        indicators=indicators,
    )
    new = {name: state.unseen(name, environ) for name in packages}

    def measure(request: CampaignRequest) -> ExploreReport:
        report = explore(request, paths, environ, progress)
        assert isinstance(report, ExploreReport)  # noqa: S101 # only a dry run gives a plan
        return report

    night = Night(
        request=request,
        ends=ends,
        clock=time.monotonic,
        explore=measure,
        question=lambda name, version: _question(name, version, on.facts, state),
        decided=state.add,
        progress=progress,
    )
    night.run([(name, version) for name, found in new.items() for version in found or ()])
    return NightlyReport(
        new=tuple((name, versions) for name, versions in new.items() if versions is not None),
        explored=tuple(night.explored),
        findings=tuple(night.findings),
        cannot_run=tuple(night.cannot_run),
        noted=tuple(name for name, versions in new.items() if versions is None),
        undecided=tuple(night.undecided),
        postponed=tuple(night.postponed),
        exit_code=night.exit_code,
    )


def _package(name: str) -> str:
    """Return the normalised name of a package.

    Raises:
        UsageError: it is none, or more than a name.
    """
    requirement = parse_requirement(name)
    if str(requirement) != requirement.name:
        raise UsageError(
            f"cannot watch {name!r}",
            why="all new releases of a package are watched: a name alone is expected",
            fix=f"write it as in: stackgen nightly {requirement.name}",
        )
    return str(canonicalize_name(requirement.name))


@dataclass(slots=True, kw_only=True)
class Night:
    """What one night has done so far.

    ends: when its budget is spent, by ``clock``, in seconds.
    explore, question, decided: measure, say what to measure of a release, and record that it was.
    undecided: releases without an answer, and what is missing. postponed: those for which the
        budget was spent. Both stay new.
    stopped: exit code of what ended the night: it was interrupted, or the engine went away.
    """

    request: CampaignRequest
    ends: float
    clock: Callable[[], float]
    explore: Callable[[CampaignRequest], ExploreReport]
    question: Callable[[str, str], StackRequest]
    decided: Callable[[str, Sequence[str]], None]
    progress: Progress
    explored: list[ExploreReport] = field(default_factory=list)
    findings: list[str] = field(default_factory=list)
    cannot_run: list[str] = field(default_factory=list)
    undecided: list[str] = field(default_factory=list)
    postponed: list[str] = field(default_factory=list)
    stopped: int | None = None

    @property
    def exit_code(self) -> int:
        """Return what tells a script how the night ended."""
        if self.stopped is not None:
            return self.stopped
        if self.findings:
            return FINDINGS
        return EvidenceError.exit_code if self.undecided or self.postponed else 0

    def run(self, releases: Sequence[tuple[str, str]]) -> None:
        """Measure releases one after the other; those that are left share what is left."""
        for place, (name, version) in enumerate(releases):
            if self.stopped is not None:
                return
            if self._share(1) <= 0:
                self.postponed.append(f"{name} {version}")
            else:
                self._examine(name, version, among=len(releases) - place)

    def _examine(self, name: str, version: str, *, among: int) -> None:
        """Explore one release, and once more what differs; it is seen when that is decided."""
        self.progress.note(f"New: {name} {version}")
        try:
            missing = self._explored(self.question(name, version), among=among)
        except EngineError:
            raise
        except EvidenceError as error:
            missing = f"{error.what}: {error.why}"
        except (ResolutionError, BuildError, MeasurementError) as error:
            self.cannot_run.append(f"{name} {version}: {error.what}: {error.why}")
            missing = ""
        if self.stopped is not None:
            return
        if missing:
            self.undecided.append(f"{name} {version}: {missing}")
        else:
            self.decided(name, (version,))

    def _explored(self, stacks: StackRequest, *, among: int) -> str:
        """Return what is missing for an answer; "" where there is one."""
        request = replace(self.request, stacks=stacks)
        first = self._measured(request.with_budget(budget_s=self._share(among)))
        if self.stopped is not None:
            return ""
        self.explored.append(first)
        missing = _missing(first)
        found = _differences(first)
        if not found:
            return missing
        if self._share(among) <= 0:
            return "a difference is not confirmed yet: the budget is spent"
        self.progress.note("A difference: measuring it a second time, independently.")
        again = request.with_budget(seed=request.budget.seed + 1, budget_s=self._share(among))
        second = self._measured(again)
        if self.stopped is not None:
            return ""
        self.findings += [text for key, text in found.items() if key in _differences(second)]
        unconfirmed = _missing(second)
        return missing or (unconfirmed and f"a difference is not confirmed yet: {unconfirmed}")

    def _measured(self, request: CampaignRequest) -> ExploreReport:
        report = self.explore(request)
        if report.run.interrupted or report.run.exit_code == EngineError.exit_code:
            self.stopped = report.run.exit_code
        return report

    def _share(self, among: int) -> float:
        return (self.ends - self.clock()) / among


def _missing(report: ExploreReport) -> str:
    """Return what is missing for an answer about a release; "" where it has one, or fails."""
    effects = [each for row in report.ranking for each in row.effects]
    if report.failed and not effects:
        return ""
    if any(control.failed for control in report.health.controls):
        return (
            "the controls failed, the machine was not quiet enough; begin anew with "
            f"--seed {report.plan.seed + _SEEDS}"
        )
    if report.run.exit_code != EvidenceError.exit_code:
        return ""
    blocks = max((each.blocks for each in effects), default=0)
    counted = "1 block" if blocks == 1 else f"{blocks} blocks"
    if blocks < INTERIM_ANALYSES[0]:
        first = INTERIM_ANALYSES[0]
        return (
            f"{counted}, the first interim analysis is after {first}; stopped: {report.run.stopped}"
        )
    return f"{counted} without any spread, an answer takes more; stopped: {report.run.stopped}"


@dataclass(frozen=True, slots=True, kw_only=True)
class _State:
    """Which releases were decided, by package, base and indicators.

    knowledge_base: its identity.
    base: how stacks are made, and the name of what they are installed on.
    indicators: as the user names them; none means the default ones.
    """

    paths: Paths
    knowledge_base: str
    base: str
    indicators: tuple[str, ...]

    def decided(self, name: str) -> frozenset[str]:
        """Return the releases of a package that were decided, or were there on the first night."""
        return self._decided(self._key(name))

    def add(self, name: str, versions: Sequence[str]) -> None:
        """Record that releases were decided."""
        releases = [(self._key(name), version, _now()) for version in versions]
        with State(state_path(self.paths.knowledge)) as state:
            state.add_decided_releases(self.knowledge_base, releases)

    def _decided(self, watch: str) -> frozenset[str]:
        with State(state_path(self.paths.knowledge)) as state:
            return state.decided_releases(self.knowledge_base, watch)

    def unseen(self, name: str, environ: Mapping[str, str]) -> tuple[str, ...] | None:
        """Return the final releases with wheels that are not decided, oldest first.

        None on the first night, when everything is recorded as decided. Earlier versions of
        stackgen recorded packages alone: that is where a night begins that has no state.
        """
        with PackageIndex(load_config(environ=environ), self.paths.cache) as index:
            files = index.candidates(name)
        versions = {each.version for each in files if each.is_wheel and each.yanked is None}
        final = [each for each in versions if not parsed_version(each).is_prerelease]
        decided = self.decided(name)
        if not decided:
            decided = self._decided(name)
            self.add(name, sorted(decided) or final)
        return tuple(sorted(set(final) - decided, key=parsed_version)) if decided else None

    def _key(self, name: str) -> str:
        indicators = ", ".join(sorted(set(self.indicators))) or "default indicators"
        return f"{name} | {self.base} | {indicators}"


def _question(name: str, version: str, facts: BaseFacts, state: _State) -> StackRequest:
    """Return what to explore: a release beside the best known stack, or beside its predecessor."""
    best = _best_known(name, version, facts, state.paths)
    if best is not None:
        return StackRequest(requirements=parse_requirements(f"{name}=={version}"), baseline=best)
    older = [each for each in state.decided(name) if parsed_version(each) < parsed_version(version)]
    if not older:
        return StackRequest(requirements=parse_requirements(f"{name}=={version}"))
    previous = max(older, key=parsed_version)
    both = parse_requirements(f"{name}>={previous},<={version}")
    fixed = () if name == "numpy" else ("numpy",)
    return StackRequest(requirements=both, granularity=Granularity.PATCH, fixed=fixed)


def _best_known(name: str, version: str, facts: BaseFacts, paths: Paths) -> Lock | None:
    """Return the fastest stack of a package that this machine has measured on a base, or None.

    It is the leader of the latest campaign on this machine whose controls hold; a baseline stays
    the best unless another stack is shown to be faster.
    """
    with open_database(paths.knowledge) as database:
        machine = this_machine().id
        calls = database.calls()
        inspections = database.inspections(machine=machine)
        trusted = trusted_campaigns(database, inspections, calls)
        known = [each for each in database.campaigns() if each.kind != "compare"]
        for campaign in reversed(known):
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
    baseline = next((e.stack_id for e in inspections if e.role is Role.BASELINE), None)
    if baseline is None or not calls:
        return None
    compared = [each for each in inspections if each.block > 0 and each.role is not Role.SEARCH]
    labels = {each.stack_id: each.stack_id for each in compared}
    for row in rank(inspections, labels=dict(labels), baseline=baseline, calls=calls):
        if row.is_baseline or (row.best and row.is_faster):
            return row.stack_id
    return baseline


_Finding: TypeAlias = tuple[StackId, IndicatorId, str]
"""A stack, the indicator that tells it apart, and how."""


def _differences(report: ExploreReport) -> dict[_Finding, str]:
    """Return what is told apart; what computes something else does so however noisy it is."""
    baseline = next((row.label for row in report.ranking if row.is_baseline), "")
    names = report.labels
    otherwise: dict[_Finding, str] = {
        (row.stack_id, each.indicator_id, each.kind.value): f"{row.label} computes something else "
        f"than {baseline} on {names[each.indicator_id]}: "
        f"{each.kind.value} ({each.difference:.2g} apart, {each.tolerance:.2g} is allowed)"
        for row in report.ranking
        if not row.is_baseline
        for each in row.deviations
    }
    if any(control.failed for control in report.health.controls):
        return otherwise
    return otherwise | {
        (
            row.stack_id,
            effect.indicator_id,
            effect.verdict.value,
        ): f"{row.label} is {effect.verdict.value} than {baseline} on "
        f"{names[effect.indicator_id]}: "
        f"{effect.ratio:.3f} times as fast ({effect.low:.3f} to {effect.high:.3f})"
        for row in report.ranking
        if row.counts
        for effect in row.effects
        if effect.verdict in (Verdict.FASTER, Verdict.SLOWER)
    }


def _now() -> str:
    return datetime.now(timezone.utc).isoformat(timespec="seconds")
