"""Open a knowledge base, bring it to our version, and say in our words what SQLite refuses.

Durability: the file is in WAL mode with ``synchronous=NORMAL``. A commit hands its pages to the
operating system, which keeps them when our process dies, so kill -9 loses nothing that was
committed. Only a crash of the machine itself may take back the last commits, and even that leaves
the file sound; waiting for the disk at each inspection would disturb the measurement of the next.
"""

import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime, timezone
from pathlib import Path

from stackgen import __version__
from stackgen.errors import DatabaseError, StackgenError, StorageError
from stackgen.resources import folder

# "stkg" in ASCII: tells a knowledge base from another program's SQLite file.
_APPLICATION_ID = 0x73746B67
_LOCK_TIMEOUT_S = 15.0


def _initial(connection: sqlite3.Connection) -> None:
    """Create every table of the first version."""
    for statement in _statements((folder("kb") / "schema.sql").read_text("utf-8")):
        connection.execute(statement)


# In order; the number of the last one is the version of the file. Never edit one that shipped.
MIGRATIONS: tuple[tuple[str, Callable[[sqlite3.Connection], None]], ...] = (("initial", _initial),)


def connect(path: Path) -> sqlite3.Connection:
    """Return a connection to the knowledge base, created or migrated as needed.

    Raises:
        DatabaseError: damaged, locked, not writable, not ours, or of a newer version.
        StorageError: its folder cannot be made, or the disk is full.
    """
    _make_folder(path.parent)
    with explained(path):
        connection = sqlite3.connect(path, timeout=_LOCK_TIMEOUT_S, isolation_level=None)
        try:
            _prepare(connection, path)
        except BaseException:
            connection.close()
            raise
    return connection


def _prepare(connection: sqlite3.Connection, path: Path) -> None:
    _refuse_foreign(connection, path)  # before anything of another program's file is touched
    connection.execute("PRAGMA foreign_keys = ON")
    _write_ahead(connection)
    connection.execute("PRAGMA synchronous = NORMAL")
    if _pragma(connection, "user_version") < len(MIGRATIONS):
        _migrate(connection)


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


def _migrate(connection: sqlite3.Connection) -> None:
    """Run what is missing, each migration in a transaction of its own."""
    for version, (name, migration) in enumerate(MIGRATIONS, start=1):
        with transaction(connection):
            # Asked again inside: another process may have been faster.
            if _pragma(connection, "user_version") >= version:
                continue
            migration(connection)
            now = datetime.now(timezone.utc).isoformat(timespec="seconds")
            connection.execute(
                "INSERT INTO migrations VALUES (?, ?, ?, ?)", (version, name, __version__, now)
            )
            # A pragma takes no parameters; both are whole numbers of ours.
            connection.execute(f"PRAGMA user_version = {version:d}")
            connection.execute(f"PRAGMA application_id = {_APPLICATION_ID:d}")


def _refuse_foreign(connection: sqlite3.Connection, path: Path) -> None:
    # In one transaction: between two questions, another process may begin the very same file.
    connection.execute("BEGIN")
    try:
        version = _pragma(connection, "user_version")
        ours = _pragma(connection, "application_id") == _APPLICATION_ID
        empty = not connection.execute("SELECT 1 FROM sqlite_master").fetchone()
    finally:
        connection.execute("ROLLBACK")
    if not ours:
        if empty and not version:
            return
        raise DatabaseError(
            f"{path} is not a knowledge base of stackgen",
            why="it is an SQLite database that another program made",
            fix="give another file with --kb",
        )
    if version > len(MIGRATIONS):
        raise DatabaseError(
            f"{path} was written by a newer stackgen",
            why=f"it has version {version}, and this stackgen {__version__} knows "
            f"up to {len(MIGRATIONS)}",
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
    """Turn what SQLite says about this file into an error that tells what to do."""
    try:
        yield
    except sqlite3.ProgrammingError:
        raise  # a bug of ours: its traceback is the useful part
    except sqlite3.Error as error:
        raise _explain(path, error) from error


_CAUSES = (
    ("locked", "another process holds it", "wait until that process is done, then try again"),
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
    said = str(error)
    if "disk is full" in said or "disk I/O" in said:
        return StorageError(
            f"cannot write the knowledge base {path}",
            why=said,
            fix="make room on that disk, then run the same command again: it goes on",
        )
    for words, why, fix in _CAUSES:
        if words in said:
            what = f"cannot use the knowledge base {path}"
            return DatabaseError(what, why=f"{why} ({said})", fix=fix)
    return damaged(path, said)


def damaged(path: Path, said: str) -> DatabaseError:
    """Return the error for a file whose content is not what we wrote."""
    return DatabaseError(
        f"the knowledge base {path} is damaged",
        why=said,
        fix="put a copy in its place, or move it away and start a new one",
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


def _statements(script: str) -> Iterator[str]:
    """Split a script at its statements' ends (``executescript`` would commit half-way)."""
    statement = ""
    for line in script.splitlines(keepends=True):
        statement += line
        if sqlite3.complete_statement(statement):
            yield statement
            statement = ""
