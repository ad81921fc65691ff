"""Nights whose index and campaigns are a test's; states, decisions and reports are real."""

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta, timezone
from pathlib import Path

from packaging.requirements import Requirement
from packaging.version import Version

from stackgen.errors import ResolutionError, StackgenError
from stackgen.model.findings import FindingState, NightReport
from stackgen.model.progress import NullProgress
from stackgen.nightly.decide import (
    ComparedQuantity,
    Failure,
    FailureStep,
    PairResult,
    Series,
    is_settled,
)
from stackgen.nightly.night import Attribute, Night, Stage, no_attribution
from stackgen.nightly.releases import PackagePage, Pair, Pins, ReleaseFiles
from stackgen.nightly.store import NightStore, WatchState
from stackgen.nightly.watch import Watch

MEASURE = "work"
WATCH = Watch(name="w", requirements=("a",), vary=("b",), budget_s=3600.0)


@dataclass(frozen=True, kw_only=True)
class Planted:
    """A release as it is planted.

    time: of its work, relative to the first release. needs: requirements. fits: whether it has a
    wheel for this platform. breaks: the step where it fails. wrong: whether its numbers differ.
    only_with: a package and its version without which its time is that of others.
    """

    time: float = 1.0
    needs: tuple[str, ...] = ()
    fits: bool = True
    yanked: bool = False
    breaks: FailureStep | None = None
    wrong: bool = False
    memory: float = 1.0
    megabytes: int = 10
    only_with: tuple[str, str] | None = None

    def time_in(self, stack: Pins) -> float:
        """Return the relative time that it takes beside these."""
        counts = self.only_with is None or stack.get(self.only_with[0]) == self.only_with[1]
        return self.time if counts else 1.0


@dataclass
class FakeSite:
    """An index of planted releases, and campaigns that draw what these would show.

    blocks: of a campaign. noise: standard deviation of a block's log contrast. troubles: what the
    next campaigns raise or say instead, None for nothing. during: called while a campaign runs.
    dies_at: how many campaigns there are when the night is killed. uploaded: times of releases.
    """

    releases: dict[str, dict[str, Planted]]
    noise: float = 0.01
    blocks: int = 26
    takes_s: float = 10.0
    now: float = 0.0
    troubles: list[StackgenError | PairResult | None] = field(default_factory=list)
    during: list[tuple[str, str, Planted | None]] = field(default_factory=list)
    campaigns: list[tuple[Pair, Stage]] = field(default_factory=list)
    dies_at: int | None = None
    uploaded: dict[tuple[str, str], str] = field(default_factory=dict)
    budgets: list[float] = field(default_factory=list)

    def clock(self) -> float:
        return self.now

    def pages(self, specifiers: Mapping[str, str]) -> Mapping[str, PackagePage | None]:
        return {
            name: None
            if name not in self.releases
            else PackagePage(
                releases={
                    version: ReleaseFiles(
                        fitting=version if each.fits else "",
                        yanked=each.fits and each.yanked,
                        uploaded=self.uploaded.get((name, version), ""),
                    )
                    for version, each in self.releases[name].items()
                }
            )
            for name in specifiers
        }

    def resolve(self, requirements: Sequence[str], constraints: Sequence[str]) -> Pins:
        wanted, limits = list(map(Requirement, requirements)), list(map(Requirement, constraints))
        found: dict[str, str] = {}
        while wanted:
            name = wanted[0].name
            own = [each.specifier for each in (*wanted, *limits) if each.name == name]
            fitting = [
                version
                for version, each in self.releases.get(name, {}).items()
                if each.fits
                and all(version in specifier for specifier in own)
                and (not each.yanked or any("==" in str(specifier) for specifier in own))
            ]
            if not fitting:
                raise ResolutionError(f"no {name}", why=f"{name}: {own}", fix="")
            version = max(fitting, key=Version)
            if found.get(name) != version:
                found[name] = version
                wanted += map(Requirement, self.releases[name][version].needs)
            wanted = [
                each
                for each in wanted[1:]
                if each.name != name or found[name] not in each.specifier
            ] + [each for each in wanted[1:] if each.name not in found]
        for name, version in found.items():
            for text in self.releases[name][version].needs:
                need = Requirement(text)
                if found.get(need.name, "0") not in need.specifier:
                    raise ResolutionError(f"no {name}", why=f"{name} needs {text}", fix="")
        return found

    def measure(self, pair: Pair, stage: Stage, budget_s: float) -> PairResult:
        if len(self.campaigns) == self.dies_at:
            raise KeyboardInterrupt
        self.campaigns.append((pair, stage))
        self.budgets.append(budget_s)
        self.now += min(self.takes_s, budget_s)
        for name, version, planted in self.during[:1]:
            self.releases[name].pop(version)
            if planted is not None:
                self.releases[name][version] = planted
            self.during.pop(0)
        trouble = self.troubles.pop(0) if self.troubles else None
        if isinstance(trouble, StackgenError):
            raise trouble
        return trouble or self._drawn(pair, stage)

    def command(self, pair: Pair) -> str:
        return f"stackgen compare {dict(pair.old)} {dict(pair.new)}"

    def _drawn(self, pair: Pair, stage: Stage) -> PairResult:
        old, new = (
            [self.releases[name][version] for name, version in sorted(each.items())]
            for each in (pair.old, pair.new)
        )
        for each in new:
            if each.breaks is not None:
                return PairResult(
                    failures=(Failure(is_new=True, step=each.breaks, reason="it fails"),)
                )
        dice = random.Random(f"{pair}{stage}")
        from math import log, prod

        def series(quantity: ComparedQuantity, measure: str, change: float) -> Series:
            drawn = (log(change) + dice.gauss(0, self.noise) for _ in range(self.blocks))
            return Series(quantity=quantity, measure=measure, contrasts=tuple(drawn))

        time = prod(e.time_in(pair.old) for e in old) / prod(e.time_in(pair.new) for e in new)
        memory = prod(e.memory for e in old) / prod(e.memory for e in new)
        measured = PairResult(
            series=(
                series(ComparedQuantity.TIME, MEASURE, time),
                series(ComparedQuantity.IMPORT, "import time", 1.0),
                series(ComparedQuantity.MEMORY, "import memory", memory),
            ),
            different=((MEASURE, "0.5 apart"),)
            if any(e.wrong for e in new) and not any(e.wrong for e in old)
            else (),
            old_bytes=sum(e.megabytes for e in old) * 10**6,
            new_bytes=sum(e.megabytes for e in new) * 10**6,
            blocks=self.blocks,
            seconds=self.takes_s,
        )
        settled = is_settled(measured, detect=0.05)
        missing = "" if settled else f"{self.blocks} blocks"
        return replace(measured, complete=settled, missing=missing)


class KilledError(BaseException):
    """Stands for SIGKILL: nothing may catch it."""


@dataclass(frozen=True, kw_only=True)
class MortalStore(NightStore):
    """A store whose process is killed before it writes the next time, when nothing is left.

    left: how often it may write.
    """

    left: list[None]

    def _write(self) -> None:
        if not self.left:
            raise KilledError
        self.left.pop()

    def save(self, watch: str, content: WatchState) -> None:
        self._write()
        super().save(watch, content)

    def put(self, found: FindingState) -> None:
        self._write()
        super().put(found)


@dataclass
class Nights:
    """Nights of one watch, a day after each other.

    writes: how often the store may write before the night is killed; None: as often as it likes.
    shown: reports that the user has seen.
    """

    folder: Path
    site: FakeSite
    watch: Watch = WATCH
    day: int = 0
    attribute: Attribute = no_attribution
    dies_before_report: bool = False
    writes: list[None] | None = None
    shown: list[NightReport] = field(default_factory=list)

    @property
    def store(self) -> NightStore:
        now = datetime(2026, 1, 1, 2, tzinfo=timezone.utc) + timedelta(days=self.day)
        if self.writes is not None:
            path = self.folder / "state.db"
            return MortalStore(path=path, knowledge_base="kb", now=now, left=self.writes)
        return NightStore(path=self.folder / "state.db", knowledge_base="kb", now=now)

    def run(self, *, releases: int = 0) -> NightReport:
        self.day += 1
        report = Night(
            watch=self.watch,
            base="virtualenv",
            site=self.site,
            store=self.store,
            clock=self.site.clock,
            ends=self.site.now + self.watch.budget_s,
            progress=NullProgress(),
            releases=releases,
            attribute=self.attribute,
        ).run()
        if not self.dies_before_report:
            self.shown.append(report)
            self.store.reported(report.findings)
        return report


def nights(folder: Path, **releases: dict[str, Planted]) -> Nights:
    """Return nights after a first one, of packages ``a`` and ``b`` with some releases."""
    usual = {"a": {"1.0": Planted(needs=("b",))}, "b": {"1.0": Planted()}}
    found = Nights(folder=folder, site=FakeSite(releases={**usual, **releases}))
    found.run()
    return found
