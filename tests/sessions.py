"""Runs of a campaign whose processes are answered for by a test; all else is real."""

import random
from collections.abc import Callable
from pathlib import Path

from stackgen.campaign.host import Host
from stackgen.campaign.runner import Budget, Clock, LocalBlockRunner, Record
from stackgen.campaign.session import ENGINE_S, BuildStack, RetryPolicy, Session
from stackgen.knowledge.database import Database
from stackgen.model.evidence import CampaignIdentity
from stackgen.model.inspections import Inspection, InspectionPlan, Limits, Observation, Outcome
from stackgen.model.progress import NullProgress
from stackgen.model.stacks import Machine
from tests.fake_executor import FakeExecutor

MACHINE = Machine(identity=(("cpu", "x"),), circumstances=())
STARTED = "2026-01-01T00:00:00+00:00"


def campaign(database: Database, *, kind: str = "explore", seed: int = 1) -> CampaignIdentity:
    """Return a campaign that the database holds."""
    found = CampaignIdentity(
        kind=kind, request="{}", seed=seed, machine_id=MACHINE.id, stackgen_version="0"
    )
    database.add_campaign(found, STARTED)
    return found


def session(
    database: Database,
    cache: Path,
    of: CampaignIdentity,
    answer: Callable[[InspectionPlan], Inspection],
    *,
    build: BuildStack,
    deadline: float,
    clock: Clock,
    waits_s: float = 0.0,
    sleep: Callable[[float], None] = lambda _: None,
) -> Session:
    """Return a new run of a campaign; where it waits for nothing, it waits for no engine either."""
    record = Record(database=database, campaign=of)
    budget = Budget(deadline=deadline, host=Host(cache=cache, shared=None), clock=clock)
    retry_policy = RetryPolicy(
        left_s=waits_s,
        engine_s=ENGINE_S if waits_s else 0.0,
        dice=random.Random(1),
        progress=NullProgress(),
        sleep=sleep,
    )
    executor = FakeExecutor(answer=answer)
    return Session(
        record=record,
        block_runner=LocalBlockRunner(
            record=record, executor=executor, budget=budget, progress=NullProgress()
        ),
        build=build,
        retry_policy=retry_policy,
        budget=budget,
        progress=NullProgress(),
        limits=Limits(threads=1),
    )


def ended(
    plan: InspectionPlan,
    ending: Outcome | float,
    *,
    started_at: str,
    log: str,
) -> Inspection:
    """Return how a process of a plan ended: with a time, or badly with a log."""
    seconds = None if isinstance(ending, Outcome) else ending
    return Inspection(
        stack_id=plan.environment.stack.id,
        machine_id=MACHINE.id,
        indicator_id=plan.call.id,
        campaign_id=plan.campaign_id,
        block=plan.block,
        position=plan.position,
        role=plan.role,
        outcome=ending if isinstance(ending, Outcome) else Outcome.OK,
        started_at=started_at,
        duration_s=1.0,
        observation=Observation(values_s=(seconds,), loops=1) if seconds is not None else None,
        log=log if seconds is None else "",
    )
