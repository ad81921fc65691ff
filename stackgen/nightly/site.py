"""Where a night runs: the configured indexes, and campaigns on one base of this machine."""

import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from stackgen.campaign.backend import replica_folder
from stackgen.campaign.candidates import select
from stackgen.campaign.prepare import estimate
from stackgen.campaign.request import CampaignRequest
from stackgen.campaign.user_input import index_config
from stackgen.errors import ResolutionError
from stackgen.images.virtualenvs import VirtualenvStore
from stackgen.index import PackageIndex
from stackgen.index.replies import FRESH_S
from stackgen.knowledge.database import open_database
from stackgen.measure import decided
from stackgen.measure.effects import LONG_ANALYSES
from stackgen.measure.goals import pair_contrasts
from stackgen.model.choices import ExecutorChoice
from stackgen.model.goals import Goal
from stackgen.model.inspections import Outcome
from stackgen.model.packages import Lock
from stackgen.model.progress import Progress
from stackgen.model.reports.campaigns import Estimate, ExploreReport, FailedStack
from stackgen.model.stacks import Base
from stackgen.nightly.decide import (
    TOLERANCE,
    ComparedQuantity,
    Failure,
    FailureStep,
    PairResult,
    Series,
    campaign_alpha,
    is_settled,
)
from stackgen.nightly.night import Stage
from stackgen.nightly.releases import PackagePage, Pair, Pins, package_page, stack_text
from stackgen.nightly.watch import Watch
from stackgen.resolve.dependencies import parse_requirement
from stackgen.resolve.requirements import parse_requirements
from stackgen.storage.paths import Paths
from stackgen.storage.wheels import WheelStore

RunPair = Callable[[str, str, CampaignRequest], ExploreReport]
"""Measures two stacks, named as on the command line."""

_QUANTITIES = {
    Goal.SPEED: ComparedQuantity.TIME,
    Goal.IMPORT: ComparedQuantity.IMPORT,
    Goal.MEMORY: ComparedQuantity.MEMORY,
}
_STEPS = {
    Outcome.BUILD_FAILED: FailureStep.BUILD,
    Outcome.IMPORT_FAILED: FailureStep.IMPORT,
    Outcome.CRASHED: FailureStep.CRASH,
    Outcome.TIMEOUT: FailureStep.CRASH,
    Outcome.INVALID_OUTPUT: FailureStep.CRASH,
    Outcome.UNSUPPORTED: FailureStep.CRASH,
}
"""What a failure says of a package; other outcomes are those of a machine or a network."""
REPLICAS = (1, 2, 3)


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveSite:
    """One base of this machine.

    request: of every campaign; stacks, budget and seed are those of the pair.
    base: what the user calls it; "" for the default one. where: what it is.
    """

    watch: Watch
    request: CampaignRequest
    base: str
    where: Base
    paths: Paths
    environ: Mapping[str, str]
    progress: Progress
    run_pair: RunPair

    @property
    def label(self) -> str:
        """Return what the base is called."""
        return f"{self.where.kind.value} {self.where.name}"

    def pages(self, specifiers: Mapping[str, str]) -> Mapping[str, PackagePage | None]:
        """Return the pages of packages; each is requested now, conditionally (HTTP 304)."""
        with self._index(fresh_s=0.0) as index:
            found = index.candidates_many(specifiers)
            facts = index.statuses
            return {
                name: None
                if files is None
                else package_page(
                    files,
                    self.where.target,
                    specifier=specifiers[name],
                    status=facts[name].status if name in facts else "",
                )
                for name, files in found.items()
            }

    def resolve(self, requirements: Sequence[str], constraints: Sequence[str]) -> Pins:
        """Return the newest stack of requirements."""
        with self._index() as index:
            return dict(self._lock(index, requirements, constraints).versions)

    def estimate(self, stacks: Sequence[Pins]) -> Estimate:
        """Return what building these stacks will move and take; unknown sizes count as 0."""
        with self._index() as index:
            locks = [
                self._lock(index, [f"{name}=={version}" for name, version in pins.items()], [])
                for pins in stacks
            ]
            store = WheelStore(self.paths.cache)
            first = len(locks)
            return estimate(
                locks, self.where, first=first, index=index, store=store, paths=self.paths
            )

    def _lock(
        self, index: PackageIndex, requirements: Sequence[str], constraints: Sequence[str]
    ) -> Lock:
        wanted = replace(
            parse_requirements(*requirements),
            constraints=tuple(map(parse_requirement, constraints)),
        )
        request = self.request.with_stacks(requirements=wanted)
        found = next(select(index, request, self.where.target, self.progress).candidates(), None)
        if found is None:
            raise ResolutionError(
                f"no stack has {', '.join(requirements)}",
                why="what it needs cannot be had together",
                fix=f"ask why: stackgen resolve {' '.join(map(shlex.quote, requirements))}",
            )
        return found.lock

    def measure(self, pair: Pair, stage: Stage, budget_s: float) -> PairResult:
        """Run a campaign of two stacks, or go on with it."""
        indicators = max(1, len(self.watch.indicators) + bool(self.watch.command))
        request = replace(
            self.request.with_budget(seed=stage.seed, budget_s=budget_s),
            measurement=replace(
                self.request.measurement,
                alpha=campaign_alpha(indicators, stage.alpha),
                tolerance=TOLERANCE[ComparedQuantity.TIME],
                detect=(detect := self.watch.detect if stage.is_screening else 0.0),
                analyses=LONG_ANALYSES,
            ),
            target=replace(self.request.target, rebuild=stage.replica > 0),
            replica=stage.replica,
        )
        report = self.run_pair(*self.texts(pair), request)
        return measured_of(report, self.paths, detect=detect, alpha=stage.alpha)

    def texts(self, pair: Pair) -> tuple[str, str]:
        """Return both stacks as a command line names them, watched packages first."""
        first = self.watch.packages
        return stack_text(pair.old, first), stack_text(pair.new, first)

    def command(self, pair: Pair) -> str:
        """Return the command line that measures a pair."""
        words = ["stackgen", "compare", *self.texts(pair)]
        for indicator in self.watch.indicators:
            words += ["--pi", indicator]
        if self.watch.command:
            words += ["--pi-command", self.watch.command]
        for parameter in self.watch.parameters:
            words += ["--param", parameter]
        if self.base:
            words += ["--base", self.base]
        if self.watch.executor is not ExecutorChoice.AUTO:
            words += ["--executor", self.watch.executor.value]
        return shlex.join(words)

    def remove_replicas(self) -> None:
        """Remove the virtualenvs that confirmed: the next ones are to be built anew."""
        for replica in REPLICAS:
            VirtualenvStore(replica_folder(self.paths, replica)).clear()

    def _index(self, *, fresh_s: float = FRESH_S) -> PackageIndex:
        config = index_config(self.request.index, self.environ)
        return PackageIndex(config, self.paths.cache, fresh_s=fresh_s)


def measured_of(
    report: ExploreReport, paths: Paths, *, detect: float, alpha: float | None
) -> PairResult:
    """Return what a campaign of two stacks, A and B, says of B.

    ``detect`` and ``alpha`` are those of `is_settled`.
    """
    failures = tuple(map(_failure, report.failed))
    stacks = {each.label[:1]: each.stack_id for each in report.stacks}
    health = any(each.failed for each in report.health.controls)
    nothing = PairResult(
        failures=failures,
        complete=bool(failures),
        missing=f"it was not measured; stopped: {report.run.stopped}",
        interrupted=report.run.interrupted,
        controls_failed=health,
        seconds=report.run.seconds,
        waited_s=report.run.waited_s,
    )
    if not {"A", "B"} <= stacks.keys():
        return nothing
    with open_database(paths.knowledge, reading=True) as database:
        own = next(e.id for e in database.campaigns() if e.id == report.run.campaign_id)
        inspections = database.inspections(campaign=own)
        calls = {call.id: call for call in database.calls()}
    wanted = [calls[each.indicator_id] for each in report.indicators[:-1]]
    contrasts = pair_contrasts(inspections, stack=stacks["B"], baseline=stacks["A"], calls=wanted)
    measured = replace(
        nothing,
        series=tuple(
            Series(
                quantity=_QUANTITIES[goal],
                measure=_QUANTITIES[goal].value if call is None else report.labels[call.id],
                contrasts=values,
            )
            for goal, call, values in contrasts
        ),
        different=tuple(
            (report.labels[each.indicator_id], f"{each.kind.value}, {each.difference:.2g} apart")
            for row in report.ranking
            if row.stack_id == stacks["B"]
            for each in row.deviations
        ),
        blocks=max((len(values) for goal, _, values in contrasts if goal is Goal.SPEED), default=0),
    )
    sizes = {row.stack_id: row.size.installed_bytes for row in report.goals.stacks}
    # A campaign that is decided takes no further block: it has said all that it will say.
    settled = is_settled(measured, detect=detect, alpha=alpha) or decided(report.ranking, wanted)
    return replace(
        measured,
        old_bytes=sizes.get(stacks["A"]),
        new_bytes=sizes.get(stacks["B"]),
        complete=bool(failures) or settled,
        missing="" if settled else f"{measured.blocks} blocks; stopped: {report.run.stopped}",
    )


def _failure(of: FailedStack) -> Failure:
    return Failure(is_new=of.label.startswith("B"), step=_STEPS.get(of.outcome), reason=of.reason)
