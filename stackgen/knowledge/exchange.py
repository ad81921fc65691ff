"""A knowledge base as JSON lines: self-contained, in one canonical order, streamed both ways.

The first line names the format, its version and the id scheme; the last one counts the rows.
Each line between them is a row with the ids of its origins, after all that it refers to, by id.
Two knowledge bases with the same rows give the same bytes. Keys, labels and times of merges are
local to a file and left out.
"""

import json
import sqlite3
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

import msgspec

from stackgen.errors import DatabaseError, MeasurementError
from stackgen.knowledge import packing, rows
from stackgen.knowledge.checking import KEYS, Checker, InvalidRow, RowReader, ValidRow, reason
from stackgen.knowledge.connection import damaged, transaction, unreadable
from stackgen.knowledge.merging import ORIGIN_ID, Union
from stackgen.knowledge.public import Redaction
from stackgen.knowledge.writing import KINDS
from stackgen.model.identity import ID_SCHEME, canonical_json

FORMAT, FORMAT_VERSION = "stackgen knowledge base", 1
_MAX_LINE = 1 << 23  # bytes; the longest of ours have some kilobytes, and a log
_MAX_ORIGINS = 1000  # of one row
_IS_INSPECTION = b'"table":"inspections"'
_INSPECTION = msgspec.json.Decoder(rows.InspectionLine)
_MEMBERS = {
    "locks": ("artifacts", ("name", "version", "sha256")),
    "load_sets": ("members", ("name", "version", "compiled")),
}
"""Where the line of a row has its members, and which of their columns."""
_LISTS = ("system_packages", "settings", "identity", "circumstances", "parameters", "arguments")
_JSON = (*_LISTS, "unenforced")
_NESTED = (*_JSON, "values_s", "artifacts", "members")
_CONTAINERS = (list, dict)
_INTERNAL = ("environment", "measured", "best_s", "values_s")


def export_lines(
    connection: sqlite3.Connection, path: Path, redaction: Redaction | None = None
) -> Iterator[str]:
    """Yield the lines of an export, each with its line feed; the schema was checked before.

    Raises:
        DatabaseError: a row is not valid.
    """
    origins = {row["key"]: row["id"] for row in connection.execute("SELECT key, id FROM origins")}
    public = redaction is not None
    header = {"format": FORMAT, "format_version": FORMAT_VERSION, "id_scheme": ID_SCHEME}
    yield _line({**header, "public": public})
    count = 0
    for each in RowReader(connection, by_id=True).read():
        if isinstance(each, InvalidRow):
            raise unreadable(path, str(each))
        kept = redaction.redacted(each) if redaction is not None else each
        if kept is None:
            continue
        count += 1
        yield _line(
            {
                "table": kept.table,
                "origins": sorted(str(origins[key]) for key in kept.origins),
                **_document(kept),
            }
        )
    yield _line({"table": "end", "rows": count})


def _line(document: Mapping[str, object]) -> str:
    return f"{canonical_json(document)}\n"


def _document(valid: ValidRow) -> dict[str, object]:
    """Return a row as JSON values in the place of JSON texts."""
    document: dict[str, object] = {
        name: json.loads(str(cell)) if name in _JSON else cell
        for name, cell in valid.row.items()
        if name not in _INTERNAL and cell is not None
    }
    if valid.table in _MEMBERS:
        name, columns = _MEMBERS[valid.table]
        document[name] = [[row[column] for column in columns] for row in valid.members]
    elif valid.row.get("values_s") is not None:
        samples = valid.row["values_s"]
        document["values_s"] = (
            packing.unpack_samples(samples)
            if isinstance(samples, bytes)
            else json.loads(str(samples))
        )
        shared, own = json.loads(str(valid.row["environment"])), valid.row["measured"]
        pairs = packing.join_circumstances(shared, json.loads(str(own)) if own else ())
        document["circumstances"] = pairs
    return document


def import_lines(connection: sqlite3.Connection, source: BinaryIO, name: Path) -> int:
    """Add the rows of an export in one transaction; return how many inspections are new.

    Every line is checked as a new row: its types, sizes and references, and its id is computed
    again. Nothing of it becomes a path or SQL.

    Raises:
        DatabaseError: a line is not valid, contradicts a known row, or the file is cut off.
            Nothing was changed then.
    """
    reading = _Import(name)
    with transaction(connection):
        union = Union(connection, label=name.name)
        for number, line in enumerate(_lines(source, name), start=1):
            if reading.ended:
                raise damaged(name, f"line {number}: it follows the last line")
            found = reading.inspection(line)
            if found is None:
                document = _document_of(line, number, name)
                if number == 1:
                    _refuse_header(document, name)
                    continue
                found = reading.row(document, number)
            if found is not None:
                union.add(*found)
        if not reading.ended:
            raise damaged(name, "its last line is missing: it was cut off")
        union.finish(name, "request a new export")
    return union.inspections


def _lines(source: BinaryIO, name: Path) -> Iterator[bytes]:
    number = 0
    while line := source.readline(_MAX_LINE + 1):
        number += 1
        if len(line) > _MAX_LINE:
            raise damaged(name, f"line {number} is longer than {_MAX_LINE:,} bytes")
        yield line
    if not number:
        raise damaged(name, "it is empty")


def _document_of(line: bytes, number: int, name: Path) -> dict[str, object]:
    try:
        document = msgspec.json.decode(line)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise damaged(name, f"line {number} is no valid JSON: {error}") from None
    if not isinstance(document, dict):
        raise damaged(name, f"line {number} is no JSON object")
    return document


def _refuse_header(header: Mapping[str, object], name: Path) -> None:
    found = header.get("format_version"), header.get("id_scheme")
    if header.get("format") != FORMAT:
        raise damaged(name, "its first line is not that of an export of a knowledge base")
    if found != (FORMAT_VERSION, ID_SCHEME):
        raise DatabaseError(
            f"{name} cannot be imported",
            why=f"its format and id scheme are {rows.shown(found)}, and this stackgen reads "
            f"{(FORMAT_VERSION, ID_SCHEME)}",
            fix="export it again with this version of stackgen, or import it with that one",
        )


@dataclass(slots=True)
class _Import:
    """Turns lines into checked rows; each follows those that it refers to."""

    name: Path
    ended: bool = False
    _rows: int = 0
    _table: int = 0  # place in _TABLES of the last line's table
    _checker: Checker = field(default_factory=Checker)

    def inspection(self, line: bytes) -> "_Found | None":
        """Check a line that is an inspection as exports have them; None for any other line.

        Nearly all lines are such. What it refuses, ``row`` judges anew and explains.
        """
        if _IS_INSPECTION not in line:
            return None
        try:
            found = _INSPECTION.decode(line)
            origins = _origins(found.origins)
            row = self._checker.decoded(found)
        except (msgspec.DecodeError, ValueError, OverflowError, MeasurementError):
            return None
        if row is None:
            return None
        self._table = _TABLES.index("inspections")
        self._rows += 1
        return ValidRow(table="inspections", row=row), origins

    def row(self, document: dict[str, object], number: int) -> "_Found | None":
        """Return the row of a line with its origins; None of the last line."""
        table = document.pop("table", None)
        if table == "end":
            self.ended = True
            if document != {"rows": self._rows}:
                raise damaged(self.name, f"it has {self._rows:,} rows, and counts another number")
            return None
        if table not in _TABLES:
            raise damaged(self.name, f"line {number}: no table {rows.shown(table)}")
        if _TABLES.index(str(table)) < self._table:
            raise damaged(self.name, f"line {number}: its table comes before that of other lines")
        self._table = _TABLES.index(str(table))
        self._rows += 1
        try:
            origins = _origins(document.pop("origins", None))
            return self._checked(str(table), document), origins
        except (ValueError, OverflowError, MeasurementError) as error:
            key = tuple(document.get(column) for column in KEYS[str(table)])
            why = f"line {number}: {reason(error)}"
            return InvalidRow(table=str(table), key=key, reason=why), []

    def _checked(self, table: str, document: dict[str, object]) -> ValidRow:
        cells = _cells(table, document)
        members = _member_cells(table, document) if table in _MEMBERS else ()
        found = self._checker.check(table, cells, members)
        if found is None:
            raise ValueError("what it refers to is not valid")
        if "id" in found.row and table != "inspections":
            self._checker.ids.setdefault(table, set()).add(found.row["id"])
        return found


_Found = tuple[ValidRow | InvalidRow, list[str]]
_TABLES = tuple(KINDS)


def _origins(found: object) -> list[str]:
    if not isinstance(found, list) or not 0 < len(found) <= _MAX_ORIGINS:
        raise ValueError("origins: a list of ids was expected")
    if any(not isinstance(each, str) or not ORIGIN_ID.fullmatch(each) for each in found):
        raise ValueError("origins: an id has 32 hexadecimal digits")
    return found


_OBSERVED = ("values_s", "work", "steady", "checksum", "peak_memory_bytes", "loops", "load_set_id")
_OPTIONAL = {
    "artifacts": ("size", "requires_python", "uploaded", "yanked"),
    "inspections": _OBSERVED,
}


def _cells(table: str, document: Mapping[str, object]) -> dict[str, object]:
    """Return a line as cells: what is a JSON text in the file of a knowledge base becomes one."""
    cells: dict[str, object] = dict.fromkeys(_OPTIONAL.get(table, ()))
    for name, value in document.items():
        kind = type(value)
        if kind is bool or (kind in _CONTAINERS and name not in _NESTED):
            raise ValueError(f"{name}: text or a number was expected: {rows.shown(value)}")
        if kind is int and not -(1 << 63) <= value < 1 << 63:  # type: ignore[operator]
            raise ValueError(f"{name}: a number of more than 64 bits")
        # Lists stay as they are, so that nothing is encoded only to be decoded again.
        cells[name] = json.dumps(value) if name in _JSON and kind is not list else value
    if table == "inspections":
        if not isinstance(document.get("values_s"), list | None):
            raise ValueError("values_s: a list was expected")
        cells["environment"] = cells.pop("circumstances", None)
    return cells


def _member_cells(table: str, document: Mapping[str, object]) -> list[dict[str, object]]:
    name, columns = _MEMBERS[table]
    found = document.get(name)
    if not isinstance(found, list) or any(
        not isinstance(each, list) or len(each) != len(columns) for each in found
    ):
        raise ValueError(f"{name}: a list of {', '.join(columns)} was expected")
    return [
        {**dict(zip(columns, each, strict=True)), "position": place}
        for place, each in enumerate(found)
    ]
