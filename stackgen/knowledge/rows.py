"""Values to rows and back: the one place that knows how a value is spelled in the database."""

import json
import sqlite3
import sys
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import fields
from datetime import datetime
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias, TypeVar, cast, get_type_hints

import msgspec

from stackgen.knowledge import packing
from stackgen.knowledge.packing import Pairs
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

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

Cell = str | int | float | bytes | None
Row = Mapping[str, Cell]
Cells: TypeAlias = sqlite3.Row | Mapping[str, object]  # as they are stored, not yet checked
_Number: TypeAlias = int | float  # a number stays as it came: an id is made of 5 or of 5.0
_Finite: TypeAlias = (
    int | Annotated[float, msgspec.Meta(ge=-sys.float_info.max, le=sys.float_info.max)]
)
_Samples: TypeAlias = tuple[_Finite, ...]
_Parameters: TypeAlias = tuple[
    tuple[str, Literal["int", "float", "str"], str, tuple[str, ...], str], ...
]
_T = TypeVar("_T")
_MAX_TEXT = 1 << 22  # characters of one cell; the longest of ours are samples, some kilobytes
_Text: TypeAlias = Annotated[str, msgspec.Meta(max_length=_MAX_TEXT)]
_Count: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=(1 << 63) - 1)]
_ROLES = {code: role for role, code in ROLE_CODES.items()}
_OUTCOMES = {code: outcome for outcome, code in OUTCOME_CODES.items()}
_SHOWN = 40  # characters of a cell that an error repeats

REFERENCES = {
    "stacks": "stack_id",
    "machines": "machine_id",
    "indicators": "indicator_id",
    "campaigns": "campaign_id",
    "load_sets": "load_set_id",
}
"""The tables that an inspection refers to, each with its column."""
INSPECTIONS = """
SELECT i.key, CASE typeof(i.id) WHEN 'blob' THEN lower(hex(i.id)) ELSE i.id END AS id,
       stacks.id AS stack_id, machines.id AS machine_id, indicators.id AS indicator_id,
       campaigns.id AS campaign_id, i.block, i.position, i.role, i.outcome, i.started_at,
       i.duration_s, logs.text AS log, unenforced.text AS unenforced, i.redacted,
       i.samples AS values_s, i.best_s, i.loops, i.work, i.steady, i.checksum, i.peak_memory_bytes,
       environments.text AS environment, i.measured, i.environment_key, load_sets.id AS load_set_id
FROM inspection_rows AS i
LEFT JOIN stacks ON stacks.key = i.stack_key
LEFT JOIN machines ON machines.key = i.machine_key
LEFT JOIN indicators ON indicators.key = i.indicator_key
LEFT JOIN campaigns ON campaigns.key = i.campaign_key
LEFT JOIN texts AS logs ON logs.key = i.log_key
LEFT JOIN texts AS unenforced ON unenforced.key = i.unenforced_key
LEFT JOIN texts AS environments ON environments.key = i.environment_key
LEFT JOIN load_sets ON load_sets.key = i.load_set_key
"""
"""Reads inspections with ids in the place of keys, samples as they are packed."""


def read_by_name(connection: sqlite3.Connection) -> None:
    """Let a connection return cells by column, and text that is not UTF-8 as surrogates."""
    connection.row_factory = sqlite3.Row
    connection.text_factory = lambda found: found.decode("utf-8", "surrogateescape")


def _to_row(value: "DataclassInstance", **given: Cell) -> dict[str, Cell]:
    """Spell a value: a column for each field, as JSON where it is not a single cell.

    Columns that are given are spelled in another way, or have no field.
    """
    names = [each.name for each in fields(value) if each.name not in given]
    return {name: _cell_of(getattr(value, name)) for name in names} | given


def _cell_of(value: object) -> Cell:
    if isinstance(value, bool):
        return int(value)
    return value if isinstance(value, str | int | float | bytes | None) else json.dumps(value)


def _of_row(kind: type[_T], row: Cells, **given: object) -> _T:
    """Read a dataclass back from the columns that have the names of its fields.

    Fields that are given are spelled in another way, or have no column.
    """
    found = {
        name: read(row, name)
        for name, read in _readers(cast("Hashable", kind))
        if name not in given
    }
    return kind(**found, **given)


@cache
def _readers(kind: Hashable) -> tuple[tuple[str, Callable[[Cells, str], object]], ...]:
    hints = ((name, getattr(h, "__supertype__", h)) for name, h in get_type_hints(kind).items())
    return tuple((name, _READERS[hint]) for name, hint in hints if hint in _READERS)


def artifact_row(artifact: Artifact) -> Row:
    """Spell an artifact."""
    row = _to_row(artifact, index_name=artifact.index)
    del row["index"]
    return row


def artifact_of(row: Cells) -> Artifact:
    """Read an artifact back."""
    return _of_row(Artifact, row, index=text(row, "index_name"))


def stack_row(stack: Stack) -> Row:
    """Spell a stack, without its lock."""
    settings = json.dumps(stack.settings)
    return _to_row(stack.facts, id=stack.id, lock_id=stack.lock.id, settings=settings)


def facts_of(row: Cells) -> BaseFacts:
    """Read a stack's base facts back."""
    return _of_row(BaseFacts, row)


def machine_row(machine: Machine) -> Row:
    """Spell a machine."""
    return _to_row(machine, id=machine.id)


def machine_of(row: Cells) -> Machine:
    """Read a machine back."""
    return _of_row(Machine, row)


def call_row(call: IndicatorCall) -> Row:
    """Spell an indicator with its arguments; where its code lies on this machine is left out."""
    parameters = [
        [each.name, each.type, each.default, each.allowed, each.help]
        for each in call.indicator.parameters
    ]
    row = _to_row(
        call.indicator,
        id=call.id,
        parameters=json.dumps(parameters),
        arguments=json.dumps(call.arguments),
    )
    del row["path"], row["operation"]
    return row


def call_of(row: Cells) -> IndicatorCall:
    """Read an indicator's call back; its path and its operation are ""."""
    parameters = tuple(
        Parameter(name=name, type=kind, default=default, allowed=allowed, help=doc)
        for name, kind, default, allowed, doc in _decoded(row, "parameters", _Parameters)
    )
    indicator = _of_row(Indicator, row, path="", operation="", parameters=parameters)
    return IndicatorCall(indicator=indicator, arguments=pairs(row, "arguments"))


def campaign_row(campaign: CampaignIdentity, started_at: str) -> Row:
    """Spell a campaign."""
    row = _to_row(campaign, id=campaign.id, seed=str(campaign.seed), started_at=started_at)
    del row["stated_id"]
    return row


def campaign_of(row: Cells) -> CampaignIdentity:
    """Read a campaign back."""
    try:
        seed = int(text(row, "seed"))
    except ValueError:
        raise ValueError(f"seed: no whole number: {shown(cell(row, 'seed'))}") from None
    stated = text(row, "id") if cell(row, "request") == "" else ""
    return _of_row(CampaignIdentity, row, seed=seed, stated_id=stated)


def inspection_row(inspection: Inspection, known_id: str = "") -> Row:
    """Spell an inspection with the columns of ``INSPECTIONS``; its load set has rows of its own.

    Its id takes time to compute; ``known_id`` is "" where it is not known.
    """
    row: dict[str, Cell] = {
        "id": known_id or inspection.id,
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
        "unenforced": json.dumps(inspection.unenforced) if inspection.unenforced else "[]",
        "redacted": int(bool(inspection.stated_id)),
    }
    seen = inspection.observation
    if seen is None:
        return row | dict.fromkeys(_OBSERVED)
    environment, measured = packing.split_circumstances(seen.circumstances)
    return row | {
        "values_s": packing.pack_samples(seen.values_s),
        "best_s": float(seen.best_s),
        "loops": seen.loops,
        "work": seen.work,
        "steady": int(seen.steady),
        "checksum": None if seen.checksum is None else json.dumps(seen.checksum),
        "peak_memory_bytes": seen.peak_memory_bytes,
        "environment": environment,
        "measured": measured,
        "load_set_id": load_set_id(seen.loaded),
    }


_OBSERVED = (
    *("values_s", "best_s", "loops", "work", "steady", "checksum", "peak_memory_bytes"),
    *("environment", "measured", "load_set_id"),
)


def inspection_of(row: Cells, loaded: Sequence[LoadedDistribution]) -> Inspection:
    """Read an inspection back, of a row of ``INSPECTIONS`` and its load set in order."""
    return _of_row(
        Inspection,
        row,
        role=_member(ROLE_CODES, row, "role"),
        outcome=outcome_of(row),
        stated_id=text(row, "id") if flag(row, "redacted") else "",
        observation=None if cell(row, "values_s") is None else _observation_of(row, loaded),
    )


class InspectionLine(msgspec.Struct, tag_field="table", tag="inspections", kw_only=True):
    """An inspection as a line of an export, decoded and checked for types in one step."""

    id: str
    origins: list[str]
    stack_id: str
    machine_id: str
    indicator_id: str
    campaign_id: str
    block: _Count
    position: _Count
    role: str
    outcome: str
    started_at: str
    duration_s: _Finite
    log: _Text
    unenforced: tuple[_Text, ...]
    redacted: Literal[0, 1]
    values_s: _Samples | None = None
    circumstances: Pairs | None = None
    loops: _Count | None = None
    work: _Finite | None = None
    steady: Literal[0, 1] | None = None
    checksum: str | None = None
    peak_memory_bytes: _Count | None = None
    load_set_id: str | None = None


def inspection_of_line(
    line: InspectionLine, loaded: tuple[LoadedDistribution, ...]
) -> Inspection | None:
    """Read an inspection of an export; None where it takes ``inspection_of`` to judge it."""
    seen = None
    if line.values_s is not None:
        if line.circumstances is None or line.loops is None or line.steady is None:
            return None
        checksum = None
        if line.checksum is not None:
            try:
                checksum = float(line.checksum)
            except ValueError:
                return None
            if repr(checksum) != line.checksum:  # a whole number, or spelled in another way
                return None
        seen = Observation(
            values_s=line.values_s,
            loops=line.loops,
            work=line.work,
            steady=bool(line.steady),
            checksum=checksum,
            peak_memory_bytes=line.peak_memory_bytes,
            circumstances=line.circumstances,
            loaded=loaded,
        )
    role, outcome = _ROLES.get(line.role), _OUTCOMES.get(line.outcome)
    if role is None or outcome is None or not _is_time(line.started_at):
        return None
    if isinstance(line.duration_s, int) or isinstance(line.work, int):  # of any size
        return None
    return Inspection(
        stack_id=StackId(line.stack_id),
        machine_id=MachineId(line.machine_id),
        indicator_id=IndicatorId(line.indicator_id),
        campaign_id=CampaignId(line.campaign_id),
        block=line.block,
        position=line.position,
        role=role,
        outcome=outcome,
        started_at=line.started_at,
        duration_s=line.duration_s,
        observation=seen,
        log=line.log,
        unenforced=line.unenforced,
        stated_id=line.id if line.redacted else "",
    )


def outcome_of(row: Cells) -> Outcome:
    """Read how an inspection ended."""
    return _member(OUTCOME_CODES, row, "outcome")


def _observation_of(row: Cells, loaded: Sequence[LoadedDistribution]) -> Observation:
    checksum = None
    if cell(row, "checksum") is not None:
        # It may be nan or infinite: it is compared, and never computed with.
        checksum = _decoded(row, "checksum", _Number)
        if isinstance(checksum, int) and abs(checksum) > sys.float_info.max:
            raise ValueError("checksum: a number that is larger than any float")
    return _of_row(
        Observation,
        row,
        values_s=_samples(row),
        checksum=checksum,
        circumstances=_circumstances(row),
        loaded=tuple(loaded),
    )


def _samples(row: Cells) -> tuple[float, ...]:
    packed = cell(row, "values_s")
    if not isinstance(packed, bytes):
        found: tuple[float, ...] = _decoded(row, "values_s", _Samples)
        return found
    try:
        return packing.unpack_samples(packed)
    except ValueError as error:
        raise ValueError(f"values_s: {error}") from None


def _circumstances(row: Cells) -> Pairs:
    if isinstance(cell(row, "environment"), list):
        found: Pairs = _converted(cell(row, "environment"), "circumstances", Pairs)
        return found
    shared = _shared_pairs(text(row, "environment"))
    own = () if cell(row, "measured") is None else _decoded(row, "measured", tuple[str, ...])
    try:
        return packing.join_circumstances(shared, own)
    except ValueError as error:
        raise ValueError(f"circumstances: {error}") from None


@lru_cache(maxsize=256)
def _shared_pairs(text: str) -> tuple[tuple[str, str | int], ...]:
    found: tuple[tuple[str, str | int], ...] = _converted(
        _json(text, "circumstances"), "circumstances", tuple[tuple[str, str | int], ...]
    )
    return found


def load_set_id(loaded: Sequence[LoadedDistribution]) -> str:
    """Return the digest of the distributions that a process had loaded."""
    return _load_set_id(tuple(loaded))


@lru_cache(maxsize=1024)
def _load_set_id(loaded: tuple[LoadedDistribution, ...]) -> str:
    return content_id("loaded", [[d.name, d.version, int(d.compiled)] for d in loaded])


def load_set_rows(loaded: Sequence[LoadedDistribution]) -> tuple[Row, ...]:
    """Spell the members of a load set."""
    owner = load_set_id(loaded)
    return tuple(
        _to_row(member, load_set_id=owner, position=position)
        for position, member in enumerate(loaded)
    )


def loaded_of(row: Cells) -> LoadedDistribution:
    """Read a member of a load set back."""
    return _of_row(LoadedDistribution, row)


# Readers of cells raise ValueError and name the column.


def cell(row: Cells, column: str) -> object:
    """Return a cell as it is stored."""
    try:
        found: object = row[column]
    except (IndexError, KeyError):
        raise ValueError(f"there is no column {column}") from None
    return found


def text(row: Cells, column: str) -> str:
    """Return a cell that holds text, which is valid Unicode and of bounded length."""
    found = cell(row, column)
    if not isinstance(found, str):
        raise ValueError(f"{column}: text was expected: {shown(found)}")
    if len(found) > _MAX_TEXT:
        raise ValueError(f"{column}: {len(found):,} characters, more than {_MAX_TEXT:,}")
    if not found.isascii():
        try:
            found.encode("utf-8")
        except UnicodeEncodeError:
            raise ValueError(f"{column}: not UTF-8: {shown(found)}") from None
    return found


def whole(row: Cells, column: str) -> int:
    """Return a cell that holds a whole number, not negative."""
    found = cell(row, column)
    if not isinstance(found, int) or found < 0:
        raise ValueError(f"{column}: a whole number from 0 was expected: {shown(found)}")
    return found


def number(row: Cells, column: str) -> float:
    """Return a cell that holds a finite number, an int as an int."""
    found: float = _converted(cell(row, column), column, _Finite)
    return found


def time(row: Cells, column: str) -> str:
    """Return a cell that holds an ISO 8601 date or time."""
    found = text(row, column)
    if not _is_time(found):
        raise ValueError(f"{column}: an ISO 8601 time was expected: {shown(found)}")
    return found


def _is_time(found: str) -> bool:
    try:
        datetime.fromisoformat(found)
    except ValueError:
        return False
    return True


def pairs(row: Cells, column: str) -> Pairs:
    """Return a cell that holds JSON pairs of texts."""
    found: Pairs = _decoded(row, column, Pairs)
    return found


def flag(row: Cells, column: str) -> bool:
    """Return a cell that holds 0 or 1."""
    found = cell(row, column)
    if found not in (0, 1):
        raise ValueError(f"{column}: 0 or 1 was expected: {shown(found)}")
    return bool(found)


def _member(codes: Mapping[_T, str], row: Cells, column: str) -> _T:
    found = cell(row, column)
    for member, code in codes.items():
        if code == found:
            return member
    raise ValueError(f"{column}: {shown(found)} is none of {', '.join(codes.values())}")


def _decoded(row: Cells, column: str, kind: object) -> Any:
    """Return a cell that holds JSON of that type; of JSON, Python reads nan and any text.

    A list is what was decoded before: no file of SQLite has one.
    """
    found = cell(row, column)
    return _converted(
        found if isinstance(found, list) else _json(text(row, column), column), column, kind
    )


def _json(found: str, column: str) -> object:
    try:
        document: object = json.loads(found)
    except RecursionError:
        raise ValueError(f"{column}: JSON that is nested too deep") from None
    except ValueError as error:
        raise ValueError(f"{column}: no valid JSON ({error}): {shown(found)}") from None
    return document


def _converted(found: object, column: str, kind: Any) -> Any:
    try:
        return msgspec.convert(found, kind)
    except msgspec.ValidationError as error:
        raise ValueError(f"{column}: {error}: {shown(found)}") from None


def _optional(
    read: Callable[[Cells, str], object],
) -> Callable[[Cells, str], object]:
    return lambda row, column: None if cell(row, column) is None else read(row, column)


# How a cell is read, by the type of the field.
_READERS: Mapping[object, Callable[[Cells, str], object]] = {
    str: text,
    int: whole,
    float: number,
    bool: flag,
    str | None: _optional(text),
    int | None: _optional(whole),
    float | None: _optional(number),
    Pairs: pairs,
    tuple[str, ...]: lambda row, column: _decoded(row, column, tuple[str, ...]),
}


def shown(found: object) -> str:
    """Return the beginning of a value, without anything that a terminal would obey."""
    try:
        shown = ascii(found)
    except (RecursionError, ValueError):  # nested too deep, or a number with too many digits
        return type(found).__name__
    return shown if len(shown) <= _SHOWN else f"{shown[:_SHOWN]}..."
