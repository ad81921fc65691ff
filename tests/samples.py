"""Values that tests of the measuring core are made of."""

from collections.abc import Sequence

from stackgen.measure import Design
from stackgen.model.identity import CampaignId, MachineId
from stackgen.model.inspections import (
    Indicator,
    IndicatorCall,
    Inspection,
    Limits,
    Observation,
    Outcome,
    Role,
)
from stackgen.model.packages import Lock
from stackgen.model.stacks import Base, BaseFacts, Environment, EnvironmentKind, Stack
from tests.spaces import TARGET, artifact

FACTS = BaseFacts(
    python="CPython 3.11.2", python_build="gcc", libc="glibc 2.36", distribution="debian 12"
)
BASE = Base(
    name="here",
    kind=EnvironmentKind.VIRTUALENV,
    reference="python",
    python="python",
    facts=FACTS,
    target=TARGET,
)
CAMPAIGN = CampaignId("campaign")
MACHINE = MachineId("machine")


def environment(version: str) -> Environment:
    lock = Lock(artifacts=(artifact("numpy", version),))
    stack = Stack(lock=lock, facts=FACTS)
    return Environment(
        stack=stack, kind=EnvironmentKind.VIRTUALENV, location=version, python="python"
    )


def call(name: str = "numpy/matmul", *, one_shot: bool = False) -> IndicatorCall:
    component = name.split("/", maxsplit=1)[0]
    indicator = Indicator(
        name=name, component=component, summary="", sha256="0", path=name, one_shot=one_shot
    )
    return IndicatorCall(indicator=indicator)


def design(
    baseline: Environment,
    *candidates: Environment,
    calls: Sequence[IndicatorCall] = (call(),),
    campaign: CampaignId = CAMPAIGN,
    seed: int = 0,
    loops: int = 1,
) -> Design:
    """Return what blocks hold; the control is the usual one."""
    control = call("python/pure")
    return Design(
        campaign_id=campaign,
        seed=seed,
        baseline=baseline,
        candidates=candidates,
        calls=tuple(calls),
        control=control,
        loops={each.id: loops for each in (*calls, control)},
        limits=Limits(threads=1),
    )


def inspection(
    where: Environment,
    what: IndicatorCall,
    block: int,
    seconds: float | None,
    *,
    role: Role = Role.CANDIDATE,
    position: int = 0,
    outcome: Outcome = Outcome.OK,
) -> Inspection:
    return Inspection(
        stack_id=where.stack.id,
        machine_id=MACHINE,
        indicator_id=what.id,
        campaign_id=CAMPAIGN,
        block=block,
        position=position,
        role=role,
        outcome=outcome,
        started_at="2026-01-01T00:00:00+00:00",
        duration_s=1.0,
        observation=None if seconds is None else Observation(values_s=(seconds,), loops=1),
    )
