"""One small, known set of values, for tests whose claim is not about the values."""

import sqlite3
from contextlib import closing
from pathlib import Path

from stackgen.knowledge.database import Database, open_database
from stackgen.model.evidence import CampaignIdentity
from stackgen.model.inspections import (
    Indicator,
    IndicatorCall,
    Inspection,
    LoadedDistribution,
    Observation,
    Outcome,
    Role,
)
from stackgen.model.packages import Artifact, Lock
from stackgen.model.stacks import BaseFacts, Machine, Stack

STARTED = "2024-05-01T10:00:00+00:00"
MACHINE = Machine(identity=(("cpu", "example"),))
CALL = IndicatorCall(
    indicator=Indicator(
        name="numpy/matmul", component="numpy", summary="a product", sha256="1f", path=""
    ),
    arguments=(("size", "256"),),
)
CAMPAIGN = CampaignIdentity(
    kind="explore", request="{}", seed=7, machine_id=MACHINE.id, stackgen_version="0.1"
)


def artifact(name: str, version: str) -> Artifact:
    """Return the wheel of a pure package."""
    return Artifact(
        name=name,
        version=version,
        filename=f"{name}-{version}-py3-none-any.whl",
        sha256=f"{name}{version}",
        url=f"https://index.invalid/{name}-{version}-py3-none-any.whl",
        index="default",
    )


def stack(**versions: str) -> Stack:
    """Return a stack of these packages."""
    found = tuple(artifact(name, versions[name]) for name in sorted(versions))
    base = BaseFacts(
        python="CPython 3.11.2", python_build="gcc", libc="glibc 2.36", distribution="debian 12"
    )
    return Stack(lock=Lock(artifacts=found), facts=base)


STACK = stack(numpy="1.26.4", tensorflow="2.12.1")


def inspection(number: int, *, of: Stack = STACK, outcome: Outcome = Outcome.OK) -> Inspection:
    """Return the inspection of block ``number``."""
    observation = Observation(
        values_s=(0.002, 0.001 * (1 + number)),
        loops=4,
        loaded=(LoadedDistribution(name="numpy", version="1.26.4", compiled=True),),
    )
    return Inspection(
        stack_id=of.id,
        machine_id=MACHINE.id,
        indicator_id=CALL.id,
        campaign_id=CAMPAIGN.id,
        block=number,
        position=0,
        role=Role.CANDIDATE,
        outcome=outcome,
        started_at=STARTED,
        duration_s=1.5,
        observation=observation if outcome is Outcome.OK else None,
        log="the end",
    )


def prepare(database: Database, *stacks: Stack) -> None:
    """Add everything that the inspections of this module refer to."""
    database.add_machine(MACHINE)
    database.add_indicator(CALL)
    database.add_campaign(CAMPAIGN, STARTED)
    for each in stacks or (STACK,):
        database.add_stack(each)


def base(path: Path, *inspections: Inspection) -> Path:
    """Write a knowledge base of an installation of its own: state.db lies beside it."""
    with open_database(path) as database:
        prepare(database)
        for each in inspections:
            database.add_inspection(each)
    return path


def recorded(path: Path, *, version: int) -> Path:
    """Write a knowledge base as an earlier version of stackgen left it.

    They hold the same, recorded before indicators had revisions: the script that shipped, an older
    state of it, a user's own script and a program; from version 2 on, two inspections were merged
    from another file.
    """
    script = Path(__file__).parents[1] / "golden" / "knowledge" / f"version_{version}.sql"
    with closing(sqlite3.connect(path)) as raw:
        raw.executescript(script.read_text("utf-8"))
    return path
