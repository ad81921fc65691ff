"""Values to rows and back: the one place that knows how a value is spelled in the database."""

import json
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from stackgen.values import (
    Artifact,
    BaseFacts,
    Campaign,
    CampaignId,
    Indicator,
    IndicatorCall,
    IndicatorId,
    Inspection,
    LoadedDistribution,
    Machine,
    MachineId,
    Observation,
    Outcome,
    Parameter,
    Role,
    Stack,
    StackId,
    content_id,
)

Cell = str | int | float | None
Row = Mapping[str, Cell]
Pairs = tuple[tuple[str, str], ...]
_T = TypeVar("_T")


def insert(connection: sqlite3.Connection, table: str, row: Row) -> None:
    """Add a row; where its key is known already, leave what is there.

    Not ``INSERT OR IGNORE``, which would also swallow a row that breaks another rule.
    """
    columns = ", ".join(row)
    marks = ", ".join(f":{column}" for column in row)
    connection.execute(
        f"INSERT INTO {table} ({columns}) VALUES ({marks}) "  # noqa: S608 names are ours
        "ON CONFLICT DO NOTHING",
        row,
    )


def artifact_row(artifact: Artifact) -> Row:
    """Spell an artifact."""
    return {
        "name": artifact.name,
        "version": artifact.version,
        "sha256": artifact.sha256,
        "filename": artifact.filename,
        "url": artifact.url,
        "index_name": artifact.index,
        "size": artifact.size,
        "requires_python": artifact.requires_python,
        "uploaded": artifact.uploaded,
        "yanked": artifact.yanked,
    }


def artifact_of(row: sqlite3.Row) -> Artifact:
    """Read an artifact back."""
    return Artifact(
        name=row["name"],
        version=row["version"],
        sha256=row["sha256"],
        filename=row["filename"],
        url=row["url"],
        index=row["index_name"],
        size=row["size"],
        requires_python=row["requires_python"],
        uploaded=row["uploaded"],
        yanked=row["yanked"],
    )


def stack_row(stack: Stack) -> Row:
    """Spell a stack, without its lock."""
    return {
        "id": stack.id,
        "lock_id": stack.lock.id,
        "python": stack.facts.python,
        "python_build": stack.facts.python_build,
        "libc": stack.facts.libc,
        "distribution": stack.facts.distribution,
        "system_packages": json.dumps(stack.facts.system_packages),
        "settings": json.dumps(stack.settings),
    }


def facts_of(row: sqlite3.Row) -> BaseFacts:
    """Read a stack's base facts back."""
    return BaseFacts(
        python=row["python"],
        python_build=row["python_build"],
        libc=row["libc"],
        distribution=row["distribution"],
        system_packages=pairs(row["system_packages"]),
    )


def machine_row(machine: Machine) -> Row:
    """Spell a machine."""
    return {
        "id": machine.id,
        "identity": json.dumps(machine.identity),
        "circumstances": json.dumps(machine.circumstances),
    }


def machine_of(row: sqlite3.Row) -> Machine:
    """Read a machine back."""
    return Machine(
        identity=pairs(row["identity"]),
        circumstances=pairs(row["circumstances"]),
    )


def call_row(call: IndicatorCall) -> Row:
    """Spell an indicator with its arguments; where the script lies on this machine is left out."""
    indicator = call.indicator
    return {
        "id": call.id,
        "name": indicator.name,
        "component": indicator.component,
        "summary": indicator.summary,
        "unit": indicator.unit,
        "sha256": indicator.sha256,
        "one_shot": int(indicator.one_shot),
        "timeout_s": indicator.timeout_s,
        "parameters": json.dumps(
            [[p.name, p.type, p.default, p.allowed, p.help] for p in indicator.parameters]
        ),
        "arguments": json.dumps(call.arguments),
    }


def call_of(row: sqlite3.Row) -> IndicatorCall:
    """Read an indicator's call back; its path is ""."""
    indicator = Indicator(
        name=row["name"],
        component=row["component"],
        summary=row["summary"],
        unit=row["unit"],
        sha256=row["sha256"],
        path="",
        one_shot=bool(row["one_shot"]),
        timeout_s=row["timeout_s"],
        parameters=tuple(
            Parameter(name=name, type=kind, default=default, allowed=tuple(allowed), help=text)
            for name, kind, default, allowed, text in json.loads(row["parameters"])
        ),
    )
    return IndicatorCall(indicator=indicator, arguments=pairs(row["arguments"]))


def campaign_row(campaign: Campaign, started_at: str) -> Row:
    """Spell a campaign."""
    return {
        "id": campaign.id,
        "kind": campaign.kind,
        "request": campaign.request,
        "seed": str(campaign.seed),
        "machine_id": campaign.machine_id,
        "stackgen_version": campaign.stackgen_version,
        "started_at": started_at,
    }


def campaign_of(row: sqlite3.Row) -> Campaign:
    """Read a campaign back."""
    return Campaign(
        kind=row["kind"],
        request=row["request"],
        seed=int(row["seed"]),
        machine_id=MachineId(row["machine_id"]),
        stackgen_version=row["stackgen_version"],
    )


def inspection_row(inspection: Inspection) -> Row:
    """Spell an inspection; the members of its load set are rows of their own."""
    row: dict[str, Cell] = {
        "id": inspection.id,
        "stack_id": inspection.stack_id,
        "machine_id": inspection.machine_id,
        "indicator_id": inspection.indicator_id,
        "campaign_id": inspection.campaign_id,
        "block": inspection.block,
        "position": inspection.position,
        "role": inspection.role.value,
        "outcome": inspection.outcome.value,
        "started_at": inspection.started_at,
        "duration_s": inspection.duration_s,
        "log": inspection.log,
        "unenforced": json.dumps(inspection.unenforced),
    }
    if inspection.observation is not None:
        row |= _observation_row(inspection.observation)
    return row


def _observation_row(observation: Observation) -> dict[str, Cell]:
    return {
        "values_s": json.dumps(observation.values_s),
        "loops": observation.loops,
        "work": observation.work,
        "steady": int(observation.steady),
        "checksum": None if observation.checksum is None else json.dumps(observation.checksum),
        "peak_memory_bytes": observation.peak_memory_bytes,
        "circumstances": json.dumps(observation.circumstances),
        "load_set_id": load_set_id(observation.loaded),
    }


def inspection_of(row: sqlite3.Row, loaded: Sequence[LoadedDistribution]) -> Inspection:
    """Read an inspection back.

    Args:
        row: of ``inspections``.
        loaded: the members of its load set, in order.
    """
    return Inspection(
        stack_id=StackId(row["stack_id"]),
        machine_id=MachineId(row["machine_id"]),
        indicator_id=IndicatorId(row["indicator_id"]),
        campaign_id=CampaignId(row["campaign_id"]),
        block=row["block"],
        position=row["position"],
        role=Role(row["role"]),
        outcome=Outcome(row["outcome"]),
        started_at=row["started_at"],
        duration_s=row["duration_s"],
        observation=_observation_of(row, loaded) if row["values_s"] is not None else None,
        log=row["log"],
        unenforced=tuple(json.loads(row["unenforced"])),
    )


def _observation_of(row: sqlite3.Row, loaded: Sequence[LoadedDistribution]) -> Observation:
    return Observation(
        values_s=tuple(json.loads(row["values_s"])),
        loops=row["loops"],
        work=row["work"],
        steady=bool(row["steady"]),
        checksum=None if row["checksum"] is None else json.loads(row["checksum"]),
        peak_memory_bytes=row["peak_memory_bytes"],
        circumstances=pairs(row["circumstances"]),
        loaded=tuple(loaded),
    )


def load_set_id(loaded: Sequence[LoadedDistribution]) -> str:
    """Return the digest of the distributions that a process had loaded."""
    return content_id("loaded", [[d.name, d.version, int(d.compiled)] for d in loaded])


def loaded_of(row: sqlite3.Row) -> LoadedDistribution:
    """Read a member of a load set back."""
    return LoadedDistribution(
        name=row["name"], version=row["version"], compiled=bool(row["compiled"])
    )


def pairs(text: str) -> Pairs:
    """Read JSON pairs."""
    return tuple((name, value) for name, value in json.loads(text))


def each(read: Callable[[sqlite3.Row], _T], rows: Sequence[sqlite3.Row]) -> tuple[_T, ...]:
    """Read every row."""
    return tuple(read(row) for row in rows)
