"""Open a knowledge base, migrate it, and explain errors of SQLite.

Durability: the file is in WAL mode with ``synchronous=NORMAL``. A commit writes its pages to the
operating system, which keeps them when the process dies, so kill -9 loses nothing that was
committed. Only a crash of the machine itself may take back the last commits, and even that leaves
the file sound; waiting for the disk at each inspection would disturb the measurement of the next.
"""

import os
import shlex
import sqlite3
import sys
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import datetime, timezone
from functools import lru_cache
from pathlib import Path

from stackgen import __version__
from stackgen.errors import DatabaseError, StackgenError, StorageError
from stackgen.knowledge import migrations, rows
from stackgen.knowledge.packing import digest
from stackgen.model.identity import ID_SCHEME

# "stkg" in ASCII: distinguishes a knowledge base from another program's SQLite file.
_APPLICATION_ID = 0x73746B67
_LOCK_TIMEOUT_S = 15.0
_MAX_VALUE_BYTES = 1 << 26  # of one value in a file that may come from anywhere
_IDENTITY_SINCE = 2  # version of the file


def connect(path: Path) -> sqlite3.Connection:
    """Return a connection to the knowledge base, created or migrated as needed.

    Raises:
        DatabaseError: damaged, locked, not writable, not ours, or of a newer version.
        StorageError: its folder cannot be made, or the disk is full.
    """
    _make_folder(path.parent)
    with explained(path):
        connection = sqlite3.connect(path, timeout=_LOCK_TIMEOUT_S, isolation_level=None)
        rows.read_by_name(connection)
        try:
            _prepare(connection, path)
        except BaseException:
            connection.close()
            raise
    return connection


def connect_read_only(path: Path) -> sqlite3.Connection:
    """Return a connection to an existing knowledge base that never writes to it or its folder.

    A file of an older version is migrated in memory. A file that no process has open is read as
    immutable, since SQLite would otherwise need to create files beside one in WAL mode.

    Raises:
        DatabaseError: missing, damaged, locked, not ours, or of a newer version; or its last rows
            are in a ``-wal`` file that cannot be read in place.
    """
    if not path.is_file():
        raise DatabaseError(
            f"there is no knowledge base {path}",
            why="the file does not exist",
            fix="check the path; stackgen kb stats --kb FILE shows the content of a file",
        )
    in_use = any(path.with_name(path.name + end).exists() for end in ("-wal", "-shm", "-journal"))
    uri = f"{path.absolute().as_uri()}?mode=ro" + ("" if in_use else "&immutable=1")
    with explained(path):
        connection = sqlite3.connect(uri, uri=True, timeout=_LOCK_TIMEOUT_S, isolation_level=None)
        rows.read_by_name(connection)
        try:
            _distrust(connection)
            _open_existing(connection, path)
            if _pragma(connection, "user_version") < len(migrations.MIGRATIONS):
                connection = _migrated_copy(connection)
            _refuse_other_ids(connection, path)
            connection.execute("PRAGMA query_only = ON")
        except BaseException:
            connection.close()
            raise
    return connection


def is_writable(path: Path) -> bool:
    """Return whether a file and its folder can be written, as WAL mode needs."""
    effective = os.access in os.supports_effective_ids
    return all(os.access(each, os.W_OK, effective_ids=effective) for each in (path, path.parent))


def _distrust(connection: sqlite3.Connection) -> None:
    """Restrict what a file from elsewhere can cause, before anything of it is read."""
    connection.execute("PRAGMA trusted_schema = OFF")
    connection.execute("PRAGMA cell_size_check = ON")
    connection.execute("PRAGMA mmap_size = 0")
    if sys.version_info >= (3, 11):
        connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _MAX_VALUE_BYTES)


def _open_existing(connection: sqlite3.Connection, path: Path) -> None:
    """Read the header and check whose file it is.

    Raises:
        DatabaseError: it is not ours, or its ``-wal`` or ``-journal`` file cannot be read in place.
    """
    try:
        _refuse_other_files(connection, path, empty_is_ours=False)
    except sqlite3.OperationalError as error:
        if "unable to open" not in str(error) and "readonly" not in str(error):
            raise
        raise DatabaseError(
            f"cannot read the knowledge base {path} in place",
            why="its last rows are in a -wal or -journal file beside it, which takes a writable "
            f"folder ({error})",
            fix="copy it together with the files beside it to a writable folder, and give the "
            "copy with --kb",
        ) from error


def _migrated_copy(connection: sqlite3.Connection) -> sqlite3.Connection:
    version = _pragma(connection, "user_version")
    refuse_other_schema(connection, additions=True)
    copy = sqlite3.connect(":memory:", isolation_level=None)
    rows.read_by_name(copy)
    _distrust(copy)
    connection.backup(copy)
    connection.close()
    _migrate(copy)
    if version < _IDENTITY_SINCE:
        # Drawn for the copy alone: the file has none yet. What it holds takes its place.
        first = "SELECT coalesce(min(hex(id)), '') AS id FROM inspection_rows"
        stable = digest(copy.execute(first).fetchone()["id"]).hex()
        copy.execute("UPDATE origins SET id = ?", (stable,))
        copy.execute("UPDATE identity SET id = ?", (stable,))
    return copy


def refuse_other_schema(connection: sqlite3.Connection, *, additions: bool) -> None:
    """Refuse a file whose tables are not those that stackgen makes for its version.

    Only then is it plain rows that a query returns: a view, a virtual table or a generated column
    in the place of a table would run what its author wrote. With ``additions``, tables, views,
    indexes and triggers of other names are refused as well.

    Raises:
        sqlite3.DatabaseError: with what differs, for ``explained``.
    """
    expected = _made_by(migrations.MIGRATIONS[: _pragma(connection, "user_version")]).schema
    found = _schema(connection)
    for name, made in expected.items():
        if name not in found:
            raise sqlite3.DatabaseError(f"it has no {made[0]} {name!r}")
        if found[name] != made:
            raise sqlite3.DatabaseError(f"its {found[name][0]} {name!r} was changed")
    others = [name for name in found if name not in expected]
    if others and additions:
        kind = found[others[0]][0]
        raise sqlite3.DatabaseError(f"it has a {kind} {others[0]!r}, which stackgen never makes")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Made:
    """What migrations make of an empty file.

    schema: as ``_schema`` returns it.
    statements: SQL that makes it in one step.
    rows: (table, cells) of what it then holds.
    """

    schema: Mapping[str, tuple[str, str, str]]
    statements: tuple[str, ...]
    rows: tuple[tuple[str, tuple[object, ...]], ...]


@lru_cache(maxsize=8)
def _made_by(steps: Sequence[migrations.Migration]) -> _Made:
    """Run migrations in memory, once in a process: they take ten times as long as their result."""
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as model:
        for _, migration in steps:
            migration(model)
        created = model.execute("SELECT sql FROM sqlite_master WHERE sql IS NOT NULL").fetchall()
        tables = model.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
        return _Made(
            schema=_schema(model),
            statements=tuple(sql for (sql,) in created),
            rows=tuple(
                (table, row)
                for (table,) in tables
                for row in model.execute(f"SELECT * FROM {table}")  # noqa: S608 # a name of ours
            ),
        )


def _schema(connection: sqlite3.Connection) -> dict[str, tuple[str, str, str]]:
    """Return type, table and SQL (without comments and blanks) of all that was created by name."""
    found = connection.execute(
        "SELECT name, type, tbl_name, sql FROM sqlite_master "
        "WHERE sql IS NOT NULL AND name NOT LIKE 'sqlite!_stat_' ESCAPE '!'"
    )
    return {name: (kind, table, _normal_sql(sql)) for name, kind, table, sql in found}


def _normal_sql(sql: str) -> str:
    return "".join("".join(line.partition("--")[0].split()) for line in sql.splitlines())


def _prepare(connection: sqlite3.Connection, path: Path) -> None:
    # Before anything of another program's file is touched.
    _refuse_other_files(connection, path, empty_is_ours=True)
    connection.execute("PRAGMA foreign_keys = ON")
    _write_ahead(connection)
    connection.execute("PRAGMA synchronous = NORMAL")
    connection.execute("PRAGMA cache_size = -131072")  # KiB: the index of a million ids
    if not _pragma(connection, "user_version"):
        _create(connection)
    if _pragma(connection, "user_version") < len(migrations.MIGRATIONS):
        _migrate(connection)
    _refuse_other_ids(connection, path)


def _refuse_other_ids(connection: sqlite3.Connection, path: Path) -> None:
    """Refuse a file of our version whose ids were computed in another way."""
    found = [row["version"] for row in connection.execute("SELECT version FROM id_scheme")]
    if found != [ID_SCHEME]:
        raise DatabaseError(
            f"the ids of {path} are of another scheme",
            why=f"they are of scheme {', '.join(map(rows.shown, found)) or 'none'}, and this "
            f"stackgen {__version__} computes ids of scheme {ID_SCHEME}",
            fix="use the stackgen that wrote it, or give another file with --kb",
        )


def _write_ahead(connection: sqlite3.Connection) -> None:
    """Turn WAL on; SQLite does not wait by itself where several processes do so at once."""
    end = time.monotonic() + _LOCK_TIMEOUT_S
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
        except sqlite3.OperationalError as error:
            if "locked" not in str(error) or time.monotonic() > end:
                raise
            time.sleep(0.01)
        else:
            return


def _create(connection: sqlite3.Connection) -> None:
    """Make of an empty file what all migrations would, with an identity of its own."""
    made = _made_by(migrations.MIGRATIONS)
    with transaction(connection):
        if _pragma(connection, "user_version"):  # another process was faster
            return
        for statement in made.statements:
            connection.execute(statement)
        for table, row in made.rows:
            cells = ", ".join("?" * len(row))
            connection.execute(f"INSERT INTO {table} VALUES ({cells})", row)  # noqa: S608
        connection.execute("UPDATE identity SET id = ?", (uuid.uuid4().hex,))
        for version in range(1, len(migrations.MIGRATIONS) + 1):
            _note(connection, version)


def _migrate(connection: sqlite3.Connection) -> None:
    """Run what is missing, each migration in a transaction of its own."""
    for version, (_, migration) in enumerate(migrations.MIGRATIONS, start=1):
        with transaction(connection):
            # Read again inside: another process may have been faster.
            if _pragma(connection, "user_version") >= version:
                continue
            migration(connection)
            _note(connection, version)


def _note(connection: sqlite3.Connection, version: int) -> None:
    """Write into the file that a migration was done."""
    name, _ = migrations.MIGRATIONS[version - 1]
    now = datetime.now(timezone.utc).isoformat(timespec="seconds")
    connection.execute(
        "INSERT INTO migrations VALUES (?, ?, ?, ?)", (version, name, __version__, now)
    )
    # A pragma takes no parameters; both are whole numbers of ours.
    connection.execute(f"PRAGMA user_version = {version:d}")
    connection.execute(f"PRAGMA application_id = {_APPLICATION_ID:d}")


def _refuse_other_files(connection: sqlite3.Connection, path: Path, *, empty_is_ours: bool) -> None:
    # In one transaction: between two statements, another process may begin the very same file.
    connection.execute("BEGIN")
    try:
        version = _pragma(connection, "user_version")
        ours = _pragma(connection, "application_id") == _APPLICATION_ID
        empty = not connection.execute("SELECT 1 FROM sqlite_master").fetchone()
    finally:
        connection.execute("ROLLBACK")
    if not ours:
        if empty and not version and empty_is_ours:
            return
        raise DatabaseError(
            f"{path} is not a knowledge base of stackgen",
            why="it is empty" if empty else "it is an SQLite database that another program made",
            fix="give another file with --kb",
        )
    if version > len(migrations.MIGRATIONS):
        raise DatabaseError(
            f"{path} was written by a newer stackgen",
            why=f"it has version {version}, and this stackgen {__version__} knows "
            f"up to {len(migrations.MIGRATIONS)}",
            fix="upgrade stackgen, or give another file with --kb",
        )


@contextmanager
def transaction(connection: sqlite3.Connection) -> Iterator[None]:
    """Commit all of the block's statements together, or none of them."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise
    connection.execute("COMMIT")


@contextmanager
def explained(path: Path) -> Iterator[None]:
    """Turn an error of SQLite about this file into one that says what to do."""
    try:
        yield
    except sqlite3.ProgrammingError:
        raise  # a bug of ours: its traceback is the useful part
    except sqlite3.Error as error:
        raise _explain(path, error) from error


_CAUSES = (
    ("locked", "another process has locked it", "wait until that process is done, then try again"),
    (
        "readonly",
        "it cannot be written",
        "make the file and its folder writable, or give another file with --kb",
    ),
    (
        "unable to open",
        "it cannot be opened or created",
        "look at the path and its permissions, or give another file with --kb",
    ),
    (
        "constraint failed",
        "a row refers to one that was never added",
        "please report this: it is a fault of stackgen",
    ),
)


def _explain(path: Path, error: sqlite3.Error) -> StackgenError:
    reason = str(error)
    if "disk is full" in reason or "disk I/O" in reason:
        return StorageError(
            f"cannot write the knowledge base {path}",
            why=reason,
            fix="free disk space there, then run the same command again: it goes on",
        )
    if "malformed JSON" in reason:
        return unreadable(path, reason)
    if path.is_file() and not is_writable(path):
        return DatabaseError(
            f"the knowledge base {path} cannot be written, and this command adds to it",
            why=f"the file or its folder is read-only ({reason})",
            fix="give a copy in another folder with --kb; commands that only read need no copy",
        )
    for words, why, fix in _CAUSES:
        if words in reason:
            what = f"cannot use the knowledge base {path}"
            return DatabaseError(what, why=f"{why} ({reason})", fix=fix)
    return damaged(path, reason)


def damaged(path: Path, reason: str) -> DatabaseError:
    """Return the error for a file whose content is not what we wrote."""
    return DatabaseError(
        f"the knowledge base {path} is damaged",
        why=reason,
        fix="get a sound copy of it; where there is none, move it away and start a new one",
    )


def unreadable(path: Path, row: str) -> DatabaseError:
    """Return the error for a file of which single rows are not what we wrote."""
    file = shlex.quote(str(path))
    return DatabaseError(
        f"the knowledge base {path} has a row that is not valid",
        why=row,
        fix=f"list such rows: stackgen kb check --kb {file}; copy all others to a new file: "
        f"stackgen kb recover {file} NEW.db",
    )


def _make_folder(path: Path) -> None:
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StorageError(
            f"cannot make the folder {path} for the knowledge base",
            why=str(error.strerror),
            fix="give a file in a writable folder with --kb",
        ) from error


def _pragma(connection: sqlite3.Connection, name: str) -> int:
    return int(connection.execute(f"PRAGMA {name}").fetchone()[0])
