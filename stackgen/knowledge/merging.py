"""Merge two knowledge bases: since ids are digests of content, that is a union of valid rows."""

import re
import shlex
import sqlite3
from collections.abc import Iterator
from datetime import datetime, timezone
from pathlib import Path

from stackgen.errors import DatabaseError
from stackgen.knowledge import rows
from stackgen.knowledge.checking import KEYS, InvalidRow, Reader, ValidRow, place_of, row_key
from stackgen.knowledge.connection import (
    connect_read_only,
    damaged,
    explained,
    refuse_other_schema,
    transaction,
)

_NAMED = 5  # rows that an error names before it counts the rest
_MEMBERS = ("lock_artifacts", "load_set_members")
# Columns that rows with equal keys agree in, unless one is NULL. All others record circumstances
# (a mirror's address, a driver's version) and keep their first value.
_DETERMINED = {
    "artifacts": ("filename", "size"),
    "lock_artifacts": ("version", "sha256"),
    "indicators": ("component", "unit", "one_shot"),
    "load_set_members": ("name", "version", "compiled"),
}
_IDENTITY = re.compile(r"[0-9a-f]{32}")


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
            base_id = _identity(source, theirs)
        with transaction(connection):
            added = _add_all(connection, source, theirs, base_id)
            if _state(theirs) != before:
                raise DatabaseError(
                    f"{theirs} was changed while it was read",
                    why="another process writes to it",
                    fix="merge it again when that process is done; nothing was changed",
                )
            return added
    finally:
        source.close()


def _refuse_unsound(source: sqlite3.Connection, path: Path) -> None:
    refuse_other_schema(source, additions=True)
    found = [str(row[0]) for row in source.execute("PRAGMA integrity_check(3)")]
    if found != ["ok"]:
        raise damaged(path, "; ".join(found))


def _identity(source: sqlite3.Connection, path: Path) -> str:
    found = [row["id"] for row in source.execute("SELECT id FROM identity")]
    if any(not isinstance(each, str) or not _IDENTITY.fullmatch(each) for each in found):
        raise damaged(path, f"its identity is not one: {rows.shown(found)}")
    return found[0] if found else ""


def _state(path: Path) -> tuple[int, int]:
    """Return what changes with a file, and (0, 0) where there is none."""
    if not path.exists():
        return 0, 0
    status = path.stat()
    return status.st_mtime_ns, status.st_size


def _add_all(
    connection: sqlite3.Connection, source: sqlite3.Connection, theirs: Path, base_id: str
) -> int:
    origin = _origin(connection, base_id, theirs.name)
    invalid: list[str] = []
    conflicts: list[str] = []
    inspections = 0
    for each in _read(source, theirs):
        if isinstance(each, InvalidRow):
            invalid.append(str(each))
        elif not invalid:
            try:
                new = _add(connection, each, origin)
            except ValueError as error:
                shown = InvalidRow(table=each.table, key=each.key, reason=str(error))
                conflicts.append(str(shown))
            else:
                inspections += new and each.table == "inspections"
    if invalid:
        raise _refused(
            theirs,
            f"rows that are not valid: {len(invalid):,}",
            invalid,
            "ask for a sound copy, or remove these rows: "
            f"stackgen kb check --repair --kb {shlex.quote(str(theirs))}",
        )
    if conflicts:
        raise _refused(
            theirs,
            f"rows that contradict rows of this knowledge base: {len(conflicts):,}",
            conflicts,
            "find out which of the two is right, and remove the other one; machines of one kind "
            "that run the same command for one knowledge base each take a --seed of their own",
        )
    unused = "DELETE FROM origins WHERE id NOT IN (SELECT origin_id FROM row_origins)"
    connection.execute(unused)
    return inspections


def _read(source: sqlite3.Connection, path: Path) -> Iterator[ValidRow | InvalidRow]:
    with explained(path):
        yield from Reader(source).read()


def _origin(connection: sqlite3.Connection, base_id: str, file: str) -> int:
    now = datetime.now(timezone.utc).isoformat(timespec="seconds")
    values = {"base_id": base_id, "file": file}
    rows.insert(connection, "origins", {**values, "merged_at": now})
    found = connection.execute(
        "SELECT id FROM origins WHERE base_id = :base_id AND file = :file", values
    )
    return int(found.fetchone()["id"])


def _add(connection: sqlite3.Connection, new: ValidRow, origin: int) -> bool:
    """Add a row and where it came from; return whether it was not there before.

    Raises:
        ValueError: a row that is there contradicts it.
    """
    table, row = new.table, new.row
    where = " AND ".join(f"{column} = :{column}" for column in KEYS[table])
    known = connection.execute(f"SELECT * FROM {table} WHERE {where}", row).fetchone()  # noqa: S608
    entry: rows.Row = {"table_name": table, "row_key": row_key(table, row), "origin_id": origin}
    if known is None:
        if table == "inspections":
            _refuse_taken_place(connection, row)
        rows.insert(connection, table, row)
        if table not in _MEMBERS:
            rows.insert(connection, "row_origins", entry)
        return True
    for column in _DETERMINED.get(table, ()):
        mine, theirs = known[column], row[column]
        if None not in (mine, theirs) and mine != theirs:
            raise ValueError(
                f"{column} is {rows.shown(theirs)}, and {rows.shown(mine)} in this knowledge base"
            )
    if table == "campaigns":  # so that it does not matter which was merged into the other
        earlier = "UPDATE campaigns SET started_at = min(started_at, :started_at) WHERE id = :id"
        connection.execute(earlier, row)
    # A row that was recorded in this file has no origin; one that was merged gets one more.
    connection.execute(
        "INSERT INTO row_origins SELECT :table_name, :row_key, :origin_id WHERE EXISTS (SELECT 1 "
        "FROM row_origins WHERE table_name = :table_name AND row_key = :row_key) "
        "ON CONFLICT DO NOTHING",
        entry,
    )
    return False


def _refuse_taken_place(connection: sqlite3.Connection, row: rows.Row) -> None:
    if place_of(row) is None:
        return
    taken = connection.execute(
        "SELECT id FROM inspections WHERE campaign_id = :campaign_id AND block = :block "
        "AND stack_id = :stack_id AND indicator_id = :indicator_id "
        "AND (role = 'twin') = (:role = 'twin')",
        row,
    ).fetchone()
    if taken is not None:
        raise ValueError(
            f"block {row['block']} of its campaign has another run of its indicator on its "
            f"stack: {taken['id']}"
        )


def _refused(theirs: Path, what: str, refused: list[str], fix: str) -> DatabaseError:
    more = [f"and {len(refused) - _NAMED:,} more"] if len(refused) > _NAMED else []
    return DatabaseError(
        f"{theirs} was not merged, and nothing was changed",
        why="\n       ".join([what, *refused[:_NAMED], *more]),
        fix=fix,
    )
