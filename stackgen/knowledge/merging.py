"""Merge two knowledge bases: since ids are digests of content, that is a union of valid rows.

The result does not depend on the order of merges: where rows with equal ids differ in what their id
does not determine (an address, a driver's version), one value is chosen by its content alone.
"""

import re
import shlex
import sqlite3
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timezone
from pathlib import Path

from stackgen.errors import DatabaseError
from stackgen.knowledge import rows
from stackgen.knowledge.checking import InvalidRow, RowReader, ValidRow, place_of
from stackgen.knowledge.connection import (
    connect_read_only,
    damaged,
    explained,
    refuse_other_schema,
    transaction,
)
from stackgen.knowledge.rows import Cell, Row
from stackgen.knowledge.writing import Writer

_NAMED = 5  # rows that an error names before it counts the rest
# Columns that rows with equal keys agree in, unless one is NULL.
_DETERMINED = {
    "artifacts": ("filename", "size"),
    "indicators": ("component", "unit", "one_shot"),
    "campaigns": ("kind", "seed", "machine_id"),
    "inspections": (
        *("stack_id", "machine_id", "indicator_id", "campaign_id", "block", "position", "role"),
        *("outcome", "started_at", "duration_s", "values_s", "loops", "work", "steady"),
        *("checksum", "peak_memory_bytes", "load_set_id"),
    ),
}
# Columns that record circumstances; of two rows, one value is chosen.
_DESCRIPTIVE = {
    "artifacts": ("url", "index_name", "size", "requires_python", "uploaded", "yanked"),
    "machines": ("circumstances",),
    "indicators": ("summary", "sha256", "timeout_s", "parameters"),
    "campaigns": ("request", "stackgen_version", "started_at"),
}
ORIGIN_ID = re.compile(r"[0-9a-f]{32}")
"""The id of an installation."""


def merge(connection: sqlite3.Connection, *, ours: Path, theirs: Path) -> int:
    """Add all rows of another file in one transaction; return how many inspections were new.

    The other file is only read, and trusted in nothing: its schema has to be ours, SQLite has to
    find it sound, and every row is checked as a new one. One that is not valid, or contradicts
    a row that is there, refuses the whole file.

    Raises:
        DatabaseError: the other file is missing, damaged, changed meanwhile, or of a newer version;
            or rows of it are refused. Nothing was changed then.
    """
    if theirs.exists() and theirs.samefile(ours):
        return 0
    before = _state(theirs)
    source = connect_read_only(theirs)
    try:
        with explained(theirs):
            _refuse_unsound(source, theirs)
            origins = _origins_of(source, theirs)
        with transaction(connection):
            union = Union(connection, label=theirs.name)
            for each in _read(source, theirs):
                ids = [origins[key] for key in each.origins] if isinstance(each, ValidRow) else []
                union.add(each, ids)
            union.finish(
                theirs,
                "get a sound copy, or copy the other rows: "
                f"stackgen kb recover {shlex.quote(str(theirs))} NEW.db",
            )
            if _state(theirs) != before:
                raise DatabaseError(
                    f"{theirs} was changed while it was read",
                    why="another process writes to it",
                    fix="merge it again when that process is done; nothing was changed",
                )
            return union.inspections
    finally:
        source.close()


@dataclass(slots=True)
class Union:
    """Adds checked rows of one source to a knowledge base, within one transaction.

    label: name of the source, for origins that are new.
    inspections: how many were new.
    """

    connection: sqlite3.Connection
    label: str
    inspections: int = 0
    _writer: Writer = field(init=False)
    _invalid: list[str] = field(default_factory=list)
    _conflicts: list[str] = field(default_factory=list)
    _origins: dict[str, int] = field(default_factory=dict)
    _new_campaigns: set[Cell] = field(default_factory=set)
    _places: set[int] = field(default_factory=set)  # in new campaigns, as hashes

    def __post_init__(self) -> None:
        self._writer = Writer(self.connection)

    def add(self, each: ValidRow | InvalidRow, origins: list[str]) -> None:
        """Add a row with the ids of the installations that recorded it.

        Rows come in the order of ``KEYS``. One that is not valid, or contradicts a known one, is
        only noted.
        """
        if isinstance(each, InvalidRow):
            self._invalid.append(str(each))
        elif each.table == "inspections" and not origins:
            # It would count as recorded here.
            lost = InvalidRow(table=each.table, key=each.key, reason="it has no origin")
            self._invalid.append(str(lost))
        elif not self._invalid:
            try:
                self._add(each, [self._origin(one) for one in origins])
            except ValueError as error:
                shown = InvalidRow(table=each.table, key=each.key, reason=str(error))
                self._conflicts.append(str(shown))

    def finish(self, path: Path, fix: str) -> None:
        """Write what is left, or refuse a source with invalid or contradictory rows.

        Raises:
            DatabaseError: with the first of them. The transaction has to be taken back.
        """
        if not self._invalid and not self._conflicts:
            try:
                self._writer.flush()
            except ValueError as error:
                self._conflicts.append(str(error))
        if self._invalid:
            what = f"rows that are not valid: {len(self._invalid):,}"
            raise _refused(path, what, self._invalid, fix)
        if self._conflicts:
            raise _refused(
                path,
                f"rows that contradict rows of this knowledge base: {len(self._conflicts):,}",
                self._conflicts,
                "find out which of the two is right, and remove the other one; machines of one "
                "kind that run the same command for one knowledge base each take a --seed of "
                "their own",
            )

    def _origin(self, origin: str) -> int:
        if origin not in self._origins:
            now = datetime.now(timezone.utc).isoformat(timespec="seconds")
            self._origins[origin] = self._writer.origin(origin, self.label, now)
        return self._origins[origin]

    def _add(self, new: ValidRow, origins: list[int]) -> None:
        """Add a row and its origins.

        Raises:
            ValueError: a row that is there contradicts it.
        """
        table, row = new.table, new.row
        key = self._find(table, row)
        if key is not None:
            self._compare(table, key, row)
        elif table == "inspections":
            self.inspections += 1
        key_if_new = self._writer.add_found(table, row, origins, key)
        if table == "inspections" and row["redacted"]:
            self._writer.flush()  # its id is stated, and may be that of one to come
        if table == "campaigns" and key_if_new is not None:
            self._new_campaigns.add(row["id"])
        for member in new.members if key is None else ():
            if table == "locks":
                self._writer.pin(str(row["id"]), member)
            else:
                self._writer.load(member)

    def _find(self, table: str, row: Row) -> int | None:
        """Return the key of the row with the id of this one, or None.

        Raises:
            ValueError: an inspection of another id is in its place.
        """
        if table == "inspections" and not self._may_be_known(row):
            return None
        self._writer.flush()
        key = self._writer.find(table, row)
        if key is None and table == "inspections":
            self._refuse_taken_place(row)
        return key

    def _may_be_known(self, row: Row) -> bool:
        """Return whether an inspection or its place may be there: a new campaign has none.

        Of an id that is computed the campaign is a part; one that is stated may be any.
        """
        if row["redacted"] or row["campaign_id"] not in self._new_campaigns:
            return True
        place = hash(place_of(row) or row["id"])  # of a million places, eight bytes each
        if place in self._places:
            return True
        self._places.add(place)
        return False

    def _refuse_taken_place(self, row: Row) -> None:
        if place_of(row) is None:
            return
        key = self._writer.key
        where = (
            key("campaigns", row["campaign_id"]),
            row["block"],
            key("stacks", row["stack_id"]),
            key("indicators", row["indicator_id"]),
            row["role"] == "twin",
        )
        taken = self.connection.execute(
            "SELECT lower(hex(id)) FROM inspection_rows WHERE campaign_key = ? AND block = ? "
            "AND stack_key = ? AND indicator_key = ? AND (role = 'twin') = ?",
            where,
        ).fetchone()
        if taken is not None:
            raise ValueError(
                f"block {row['block']!r} of its campaign has another run of its indicator on its "
                f"stack: {taken[0]}"
            )

    def _compare(self, table: str, key: int, row: Row) -> None:
        """Refuse what contradicts a known row; choose between circumstances that differ."""
        if table == "inspections":
            redacted = "SELECT redacted FROM inspection_rows WHERE key = ?"
            ((known_redacted,),) = self.connection.execute(redacted, (key,)).fetchall()
            if not known_redacted and not row["redacted"]:
                return  # the id covers all of it
            select = f"{rows.INSPECTIONS} WHERE i.key = ?"
        elif table in _DESCRIPTIVE:
            select = f"SELECT * FROM {table} WHERE key = ?"  # noqa: S608
        else:
            return
        known = self.connection.execute(select, (key,)).fetchone()
        for column in _DETERMINED.get(table, ()):
            mine, theirs = known[column], row[column]
            if None not in (mine, theirs) and mine != theirs:
                raise ValueError(
                    f"{column} is {rows.shown(theirs)}, and {rows.shown(mine)} in this "
                    "knowledge base"
                )
        if table == "inspections":
            if not row["redacted"]:
                self._writer.restore(key, row)
            return
        chosen = {name: _chosen(name, known[name], row[name]) for name in _DESCRIPTIVE[table]}
        if any(chosen[name] != known[name] for name in chosen):
            changed = ", ".join(f"{name} = :{name}" for name in chosen)
            update = f"UPDATE {table} SET {changed} WHERE key = :key"  # noqa: S608
            self.connection.execute(update, {**chosen, "key": key})


def _chosen(column: str, one: Cell, two: Cell) -> Cell:
    """Return one of two values, whatever their order: something rather than nothing."""
    if column == "started_at":
        return min(one, two, key=repr)
    return min(one, two, key=lambda each: (each in (None, "", "[]"), repr(each)))


def _refuse_unsound(source: sqlite3.Connection, path: Path) -> None:
    refuse_other_schema(source, additions=True)
    found = [str(row[0]) for row in source.execute("PRAGMA integrity_check(3)")]
    if found != ["ok"]:
        raise damaged(path, "; ".join(found))


def _origins_of(source: sqlite3.Connection, path: Path) -> Mapping[int, str]:
    """Return the id of each origin by its key in that file."""
    found = {row["key"]: row["id"] for row in source.execute("SELECT key, id FROM origins")}
    for each in found.values():
        if not isinstance(each, str) or not ORIGIN_ID.fullmatch(each):
            raise damaged(path, f"an origin is not one: {rows.shown(each)}")
    used = {row[0] for row in source.execute("SELECT DISTINCT origin_key FROM row_origin_keys")}
    if used - found.keys():
        raise damaged(path, "rows have an origin that is not there")
    return found


def _state(path: Path) -> tuple[int, int]:
    """Return what changes with a file, and (0, 0) where there is none."""
    if not path.exists():
        return 0, 0
    status = path.stat()
    return status.st_mtime_ns, status.st_size


def _read(source: sqlite3.Connection, path: Path) -> Iterator[ValidRow | InvalidRow]:
    with explained(path):
        yield from RowReader(source).read()


def _refused(theirs: Path, what: str, refused: list[str], fix: str) -> DatabaseError:
    more = [f"and {len(refused) - _NAMED:,} more"] if len(refused) > _NAMED else []
    return DatabaseError(
        f"{theirs} was not merged, and nothing was changed",
        why="\n       ".join([what, *refused[:_NAMED], *more]),
        fix=fix,
    )
