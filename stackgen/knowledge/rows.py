"""Values to rows and back: the one place that knows how a value is spelled in the database."""

import json
import math
import sqlite3
import sys
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TypeVar

from stackgen.model.evidence import CampaignIdentity
from stackgen.model.identity import CampaignId, IndicatorId, MachineId, StackId, content_id
from stackgen.model.inspections import (
    OUTCOME_CODES,
    ROLE_CODES,
    Indicator,
    IndicatorCall,
    Inspection,
    LoadedDistribution,
    Observation,
    Outcome,
    Parameter,
)
from stackgen.model.packages import Artifact
from stackgen.model.stacks import BaseFacts, Machine, Stack

Cell = str | int | float | None
Row = Mapping[str, Cell]
Pairs = tuple[tuple[str, str], ...]
_T = TypeVar("_T")
_MAX_TEXT = 1 << 22  # characters of one cell; the longest of ours are samples, some kilobytes
_SHOWN = 40  # characters of a cell that an error repeats


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


def read_by_name(connection: sqlite3.Connection) -> None:
    """Let a connection return cells by column, and text that is not UTF-8 as surrogates."""
    connection.row_factory = sqlite3.Row
    connection.text_factory = lambda found: found.decode("utf-8", "surrogateescape")


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
        name=text(row, "name"),
        version=text(row, "version"),
        sha256=text(row, "sha256"),
        filename=text(row, "filename"),
        url=text(row, "url"),
        index=text(row, "index_name"),
        size=None if cell(row, "size") is None else whole(row, "size"),
        requires_python=_text_or_none(row, "requires_python"),
        uploaded=_text_or_none(row, "uploaded"),
        yanked=_text_or_none(row, "yanked"),
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
        python=text(row, "python"),
        python_build=text(row, "python_build"),
        libc=text(row, "libc"),
        distribution=text(row, "distribution"),
        system_packages=pairs(row, "system_packages"),
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
        identity=pairs(row, "identity"),
        circumstances=pairs(row, "circumstances"),
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
        "revision": indicator.revision,
        "protocol": indicator.protocol,
        "own_sha256": indicator.own_sha256,
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
        name=text(row, "name"),
        component=text(row, "component"),
        summary=text(row, "summary"),
        unit=text(row, "unit"),
        sha256=text(row, "sha256"),
        path="",
        revision=whole(row, "revision"),
        protocol=whole(row, "protocol"),
        own_sha256=text(row, "own_sha256"),
        one_shot=_flag(row, "one_shot"),
        timeout_s=number(row, "timeout_s"),
        parameters=_parameters(row),
    )
    return IndicatorCall(indicator=indicator, arguments=pairs(row, "arguments"))


def _parameters(row: sqlite3.Row) -> tuple[Parameter, ...]:
    found = []
    for each in _list(row, "parameters"):
        match each:
            case [
                str(name),
                "int" | "float" | "str" as kind,
                str(default),
                list(allowed),
                str(doc),
            ]:
                found.append(
                    Parameter(
                        name=name,
                        type=kind,
                        default=default,
                        allowed=_texts(allowed, "parameters"),
                        help=doc,
                    )
                )
            case _:
                raise ValueError(f"parameters: no parameter: {shown(each)}")
    return tuple(found)


def campaign_row(campaign: CampaignIdentity, started_at: str) -> Row:
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


def campaign_of(row: sqlite3.Row) -> CampaignIdentity:
    """Read a campaign back."""
    return CampaignIdentity(
        kind=text(row, "kind"),
        request=text(row, "request"),
        seed=_seed(row),
        machine_id=MachineId(text(row, "machine_id")),
        stackgen_version=text(row, "stackgen_version"),
    )


def _seed(row: sqlite3.Row) -> int:
    try:
        return int(text(row, "seed"))
    except ValueError:
        raise ValueError(f"seed: no whole number: {shown(cell(row, 'seed'))}") from None


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
        "role": ROLE_CODES[inspection.role],
        "outcome": OUTCOME_CODES[inspection.outcome],
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
        stack_id=StackId(text(row, "stack_id")),
        machine_id=MachineId(text(row, "machine_id")),
        indicator_id=IndicatorId(text(row, "indicator_id")),
        campaign_id=CampaignId(text(row, "campaign_id")),
        block=whole(row, "block"),
        position=whole(row, "position"),
        role=_decoded(ROLE_CODES, row, "role"),
        outcome=outcome_of(row),
        started_at=text(row, "started_at"),
        duration_s=number(row, "duration_s"),
        observation=_observation_of(row, loaded) if cell(row, "values_s") is not None else None,
        log=text(row, "log"),
        unenforced=_texts(_list(row, "unenforced"), "unenforced"),
    )


def outcome_of(row: sqlite3.Row) -> Outcome:
    """Read how an inspection ended."""
    return _decoded(OUTCOME_CODES, row, "outcome")


def _observation_of(row: sqlite3.Row, loaded: Sequence[LoadedDistribution]) -> Observation:
    peak = None if cell(row, "peak_memory_bytes") is None else whole(row, "peak_memory_bytes")
    checksum = None if cell(row, "checksum") is None else _json(row, "checksum")
    return Observation(
        values_s=tuple(_finite(each, "values_s") for each in _list(row, "values_s")),
        loops=whole(row, "loops"),
        work=None if cell(row, "work") is None else number(row, "work"),
        steady=_flag(row, "steady"),
        # A checksum may be nan or infinite: it is compared, and never computed with.
        checksum=None if checksum is None else _number(checksum, "checksum"),
        peak_memory_bytes=peak,
        circumstances=pairs(row, "circumstances"),
        loaded=tuple(loaded),
    )


def load_set_id(loaded: Sequence[LoadedDistribution]) -> str:
    """Return the digest of the distributions that a process had loaded."""
    return content_id("loaded", [[d.name, d.version, int(d.compiled)] for d in loaded])


def load_set_rows(loaded: Sequence[LoadedDistribution]) -> tuple[Row, ...]:
    """Spell the members of a load set."""
    owner = load_set_id(loaded)
    return tuple(
        {
            "load_set_id": owner,
            "position": position,
            "name": member.name,
            "version": member.version,
            "compiled": int(member.compiled),
        }
        for position, member in enumerate(loaded)
    )


def loaded_of(row: sqlite3.Row) -> LoadedDistribution:
    """Read a member of a load set back."""
    return LoadedDistribution(
        name=text(row, "name"), version=text(row, "version"), compiled=_flag(row, "compiled")
    )


# Readers of cells raise ValueError and name the column.


def cell(row: sqlite3.Row, column: str) -> object:
    """Return a cell as it is stored."""
    try:
        found: object = row[column]
    except IndexError:
        raise ValueError(f"there is no column {column}") from None
    return found


def text(row: sqlite3.Row, column: str) -> str:
    """Return a cell that holds text, which is valid Unicode and of bounded length."""
    found = cell(row, column)
    if not isinstance(found, str):
        raise ValueError(f"{column}: text was expected: {shown(found)}")
    if len(found) > _MAX_TEXT:
        raise ValueError(f"{column}: {len(found):,} characters, more than {_MAX_TEXT:,}")
    try:
        found.encode("utf-8")
    except UnicodeEncodeError:
        raise ValueError(f"{column}: not UTF-8: {shown(found)}") from None
    return found


def whole(row: sqlite3.Row, column: str) -> int:
    """Return a cell that holds a whole number, not negative."""
    found = cell(row, column)
    if not isinstance(found, int) or found < 0:
        raise ValueError(f"{column}: a whole number from 0 was expected: {shown(found)}")
    return found


def number(row: sqlite3.Row, column: str) -> float:
    """Return a cell that holds a finite number, an int as an int."""
    return _finite(cell(row, column), column)


def time(row: sqlite3.Row, column: str) -> str:
    """Return a cell that holds an ISO 8601 date or time."""
    found = text(row, column)
    try:
        datetime.fromisoformat(found)
    except ValueError:
        raise ValueError(f"{column}: an ISO 8601 time was expected: {shown(found)}") from None
    return found


def pairs(row: sqlite3.Row, column: str) -> Pairs:
    """Return a cell that holds JSON pairs of texts."""
    found = []
    for each in _list(row, column):
        match each:
            case [str(name), str(value)]:
                found.append((name, value))
            case _:
                raise ValueError(f"{column}: a pair of texts was expected: {shown(each)}")
    return tuple(found)


def _text_or_none(row: sqlite3.Row, column: str) -> str | None:
    return None if cell(row, column) is None else text(row, column)


def _flag(row: sqlite3.Row, column: str) -> bool:
    found = cell(row, column)
    if found not in (0, 1):
        raise ValueError(f"{column}: 0 or 1 was expected: {shown(found)}")
    return bool(found)


def _decoded(codes: Mapping[_T, str], row: sqlite3.Row, column: str) -> _T:
    found = text(row, column)
    for member, code in codes.items():
        if code == found:
            return member
    raise ValueError(f"{column}: {shown(found)} is none of {', '.join(codes.values())}")


def _json(row: sqlite3.Row, column: str) -> object:
    found = text(row, column)
    try:
        document: object = json.loads(found)
    except RecursionError:
        raise ValueError(f"{column}: JSON that is nested too deep") from None
    except ValueError as error:
        raise ValueError(f"{column}: no valid JSON ({error}): {shown(found)}") from None
    return document


def _list(row: sqlite3.Row, column: str) -> list[object]:
    found = _json(row, column)
    if not isinstance(found, list):
        raise ValueError(f"{column}: a JSON list was expected: {shown(found)}")
    return found


def _texts(found: Sequence[object], column: str) -> tuple[str, ...]:
    texts = tuple(each for each in found if isinstance(each, str))
    if len(texts) != len(found):
        raise ValueError(f"{column}: a list of texts was expected")
    return texts


def _number(found: object, column: str) -> float:
    # A bool is an int to Python, not to us.
    if isinstance(found, bool) or not isinstance(found, int | float):
        raise ValueError(f"{column}: a number was expected: {shown(found)}")
    if isinstance(found, int) and abs(found) > sys.float_info.max:
        raise ValueError(f"{column}: a number that is larger than any float")
    return found


def _finite(found: object, column: str) -> float:
    value = _number(found, column)
    if not math.isfinite(value):
        raise ValueError(f"{column}: a finite number was expected: {value}")
    return value


def shown(found: object) -> str:
    """Return the beginning of a value, without anything that a terminal would obey."""
    try:
        shown = ascii(found)
    except (RecursionError, ValueError):  # nested too deep, or a number with too many digits
        return type(found).__name__
    return shown if len(shown) <= _SHOWN else f"{shown[:_SHOWN]}..."
