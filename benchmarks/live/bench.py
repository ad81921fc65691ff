"""What benchmarks share that measure real stacks: environments of given versions, and blocks."""

import math
import os
import random
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from stackgen.campaign.backend import Backend, open_backend
from stackgen.campaign.host import Host
from stackgen.campaign.indicators import limits, load_indicators
from stackgen.index import PackageIndex, load_config
from stackgen.index.closure import resolve
from stackgen.indicators.declaration import bind, find
from stackgen.measure import effect
from stackgen.model.choices import ExecutorChoice
from stackgen.model.evidence import Effect
from stackgen.model.identity import CampaignId, IndicatorId, StackId
from stackgen.model.inspections import (
    IndicatorCall,
    Inspection,
    InspectionPlan,
    Limits,
    Observation,
)
from stackgen.model.progress import NullProgress
from stackgen.model.stacks import Environment, Stack
from stackgen.resolve.requirements import parse_requirements
from stackgen.storage.paths import Paths, find_paths, shipped_folder
from stackgen.storage.wheels import WheelStore

CAMPAIGN = CampaignId("benchmark")  # of no knowledge base
INSIDE = Path(__file__).parent.parent / "inside"


@dataclass(frozen=True, slots=True, kw_only=True)
class Arm:
    """One of those that a block compares.

    loops: operations per sample; None leaves them to be found.
    """

    name: str
    environment: Environment
    call: IndicatorCall
    limits: Limits
    samples: int = 30
    loops: int | None = None

    def plan(self, block: int = 0, position: int = 0) -> InspectionPlan:
        """Return the process that measures it."""
        return InspectionPlan(
            environment=self.environment,
            call=self.call,
            campaign_id=CAMPAIGN,
            limits=replace(self.limits, timeout_s=self.call.indicator.timeout_s),
            block=block,
            position=position,
            samples=self.samples,
            loops=self.loops,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Bench:
    """Where stacks are built and run."""

    backend: Backend
    index: PackageIndex
    paths: Paths

    def environment(self, *requirements: str) -> Environment:
        """Return the newest stack of some requirements, built now or before."""
        target = self.backend.base.target
        lock = resolve(
            self.index, parse_requirements(*requirements), target, progress=NullProgress()
        ).newest()
        if lock is None:
            raise SystemExit(f"no stack holds {', '.join(requirements)}")
        wheels = WheelStore(self.paths.cache).fetch(lock.artifacts, downloader=self.index)
        with Host(cache=self.paths.cache).building(NullProgress()):
            stack = Stack(lock=lock, facts=self.backend.base.facts)
            return self.backend.build(stack, wheels, frozenset({"numpy"}))

    def inspect(self, plan: InspectionPlan) -> Inspection:
        """Run one process; no other stackgen measures or builds meanwhile."""
        return self.together([plan])[0]

    def together(self, plans: Sequence[InspectionPlan]) -> list[Inspection]:
        """Run processes one after another, with nobody else's between them."""
        with Host(cache=self.paths.cache).measuring(NullProgress()):
            return list(self.backend.executor.inspect(plans))

    def calibrated(self, arm: Arm) -> Arm:
        """Return an arm with as many operations per sample as one trial finds."""
        return replace(arm, loops=seen(self.inspect(arm.plan())).loops)

    def block(self, arms: Sequence[Arm], number: int, seed: int) -> dict[str, Observation]:
        """Return what a block measured, by arm, which come in random order."""
        dice = random.Random(f"{seed}/{number}")
        order = dice.sample(arms, len(arms))
        plans = [arm.plan(number, position) for position, arm in enumerate(order)]
        results = zip(order, self.together(plans), strict=True)
        return {arm.name: seen(inspection) for arm, inspection in results}


@contextmanager
def opened(base: str, choice: ExecutorChoice = ExecutorChoice.VIRTUALENV) -> Iterator[Bench]:
    """Open a bench on a base, with the user's cache and package index."""
    paths = find_paths(os.environ)
    with (
        open_backend(choice, base, paths, NullProgress()) as backend,
        PackageIndex(load_config(environ=os.environ), paths.cache) as index,
    ):
        yield Bench(backend=backend, index=index, paths=paths)


def call_of(
    indicator: str, parameters: Mapping[str, object], *, threads: int | None = None
) -> IndicatorCall:
    """Return a call of one of our indicators, or of a file in ``inside``."""
    own = INSIDE / f"{indicator}.py"
    known = load_indicators(shipped_folder("pis"), [own] if own.exists() else [])
    given = {name: str(value) for name, value in parameters.items()}
    return bind(find(known, indicator), {"threads": str(threads or limits(0).threads)} | given)


def seen(inspection: Inspection) -> Observation:
    """Return what was measured; anything else ends the benchmark with the process's own words."""
    if inspection.observation is None:
        raise SystemExit(f"{inspection.outcome.value}: {inspection.log[-2000:]}")
    return inspection.observation


def ratio(a: str, b: str, contrasts: Sequence[float]) -> Effect:
    """Return how much faster A is than B, by log(time of B / time of A) of each block."""
    return effect(
        a=StackId(a), b=StackId(b), indicator_id=IndicatorId("benchmark"), contrasts=contrasts
    )


def reported(found: Effect) -> str:
    """Return a ratio with its interval in words."""
    if math.isinf(found.high):
        return f"{found.ratio:.3f}  (no interval from {found.blocks} blocks)"
    verdict = found.verdict.value
    return f"{found.ratio:.3f}  ({found.low:.3f} to {found.high:.3f})  {verdict}"
