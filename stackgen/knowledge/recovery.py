"""Copy what can still be read of a damaged knowledge base into a new one."""

import sqlite3
from collections.abc import Iterator, Sequence
from pathlib import Path

from stackgen.errors import DatabaseError
from stackgen.knowledge import migrations, rows
from stackgen.knowledge.connection import damaged
from stackgen.knowledge.writing import KINDS, MEMBERS

# Each after what it refers to; members are found by the key of what they belong to.
_TABLES = (
    *("texts", "distributions", "origins", "artifacts", "locks", "machines", "stacks"),
    *("indicators", "campaigns", "load_sets", "inspection_rows"),
)
_KINDS = {
    "inspection_rows" if table == "inspections" else table: kind for table, kind in KINDS.items()
}


def copy_readable(source: Path, connection: sqlite3.Connection) -> int:
    """Copy every row that can be read into an empty knowledge base; return how many could not.

    Rows that refer to a lost one are copied too: the caller removes what is not valid. Of gaps in
    the keys, those of rows that were removed count as lost as well.

    Raises:
        DatabaseError: not even the schema can be read, or the file has another version.
    """
    # What a killed process wrote last is in the -wal file, which is not read of an immutable one.
    written_ahead = source.with_name(f"{source.name}-wal").exists()
    mode = "mode=ro" if written_ahead else "mode=ro&immutable=1"
    uri = f"{source.absolute().as_uri()}?{mode}"
    damage = sqlite3.connect(uri, uri=True, isolation_level=None)
    rows.read_by_name(damage)
    try:
        _refuse_other_version(damage, source)
        connection.execute("DELETE FROM identity")
        for known in _scanned(damage, "SELECT * FROM identity", ()):
            _copy(connection, "identity", known)
        lost, found = 0, {table: list[int]() for table in _TABLES}
        for table in _TABLES:
            for key, row in _by_key(damage, table):
                if row is None:
                    lost += 1
                    continue
                found[table].append(key)
                _copy(connection, table, row)
        _copy_members(damage, connection, found)
        return lost
    finally:
        damage.close()


def _refuse_other_version(damage: sqlite3.Connection, source: Path) -> None:
    try:
        version = int(damage.execute("PRAGMA user_version").fetchone()[0])
        tables = {row[0] for row in damage.execute("SELECT name FROM sqlite_master")}
    except sqlite3.DatabaseError as error:
        raise damaged(source, f"not even its list of tables can be read ({error})") from error
    if version != len(migrations.MIGRATIONS) or not tables.issuperset(_TABLES):
        raise DatabaseError(
            f"{source} cannot be recovered",
            why=f"it has version {version}, and only version {len(migrations.MIGRATIONS)} can be",
            fix="where it can be read at all, stackgen kb stats --kb FILE brings it to this "
            "version; else use the stackgen that wrote it",
        )


def _by_key(damage: sqlite3.Connection, table: str) -> Iterator[tuple[int, sqlite3.Row | None]]:
    """Yield the rows of a table by key, None for each that cannot be read."""
    select = f"SELECT * FROM {table}"  # noqa: S608 the names are ours
    last = 0
    for row in _scanned(damage, f"{select} ORDER BY key", ()):
        last = row["key"]
        yield last, row
    for key in range(last + 1, _largest(damage, table) + 1):
        found = list(_scanned(damage, f"{select} WHERE key = ?", (key,)))
        yield key, found[0] if found else None


def _largest(damage: sqlite3.Connection, table: str) -> int:
    """Return the largest key that a table may have: where its last page is lost, from origins."""
    for row in _scanned(damage, f"SELECT key FROM {table} ORDER BY key DESC LIMIT 1", ()):  # noqa: S608
        return int(row["key"])
    most = "SELECT coalesce(max(row_key), 0) AS key FROM row_origin_keys WHERE kind = ?"
    for row in _scanned(damage, most, (_KINDS.get(table, 0),)):
        return int(row["key"])
    return 0


def _scanned(damage: sqlite3.Connection, sql: str, values: Sequence[int]) -> Iterator[sqlite3.Row]:
    """Yield rows up to the first that cannot be read."""
    try:
        yield from damage.execute(sql, values)
    except sqlite3.DatabaseError:
        return


def _copy(connection: sqlite3.Connection, table: str, row: sqlite3.Row) -> None:
    columns = row.keys()
    names, marks = ", ".join(columns), ", ".join("?" for _ in columns)
    try:
        connection.execute(f"INSERT OR IGNORE INTO {table} ({names}) VALUES ({marks})", tuple(row))  # noqa: S608
    except (sqlite3.IntegrityError, UnicodeEncodeError, sqlite3.ProgrammingError):
        return  # a cell that no valid row has


def _copy_members(
    damage: sqlite3.Connection, connection: sqlite3.Connection, found: dict[str, list[int]]
) -> None:
    for owners, (members, column) in MEMBERS.items():
        for key in found[owners]:
            select = f"SELECT * FROM {members} WHERE {column} = ?"  # noqa: S608
            for row in _scanned(damage, select, (key,)):
                _copy(connection, members, row)
    (own,) = connection.execute("SELECT min(key) FROM origins").fetchone()
    for table, kind in _KINDS.items():
        for key in found[table]:
            select = "SELECT * FROM row_origin_keys WHERE kind = ? AND row_key = ?"
            known = list(_scanned(damage, select, (kind, key)))
            for row in known:
                _copy(connection, "row_origin_keys", row)
            if not known and own is not None:
                lost = "INSERT OR IGNORE INTO row_origin_keys VALUES (?, ?, ?)"
                connection.execute(lost, (kind, key, own))
