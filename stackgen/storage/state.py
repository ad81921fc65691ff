"""State of an installation: what changes, and is never merged (``state.db``).

A knowledge base holds facts that never change. What stackgen did with them (which releases
``nightly`` has decided) is kept beside it, by the identity of the knowledge base, since several
may lie in one folder.
"""

import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import final

from stackgen.errors import StorageError

STATE_FILE = "state.db"
_APPLICATION_ID = 0x73746B73  # "stks" in ASCII
_LOCK_TIMEOUT_S = 15.0

# In order; the number of the last one is the version of the file. Never edit one that shipped.
_MIGRATIONS = (
    """
    CREATE TABLE decided_releases (
        knowledge_base TEXT NOT NULL,       -- its identity
        watch TEXT NOT NULL,                -- package, base and indicators
        version TEXT NOT NULL,              -- PEP 440
        decided_at TEXT NOT NULL,           -- ISO 8601, UTC
        PRIMARY KEY (knowledge_base, watch, version)
    ) WITHOUT ROWID
    """,
)


def state_path(knowledge: Path) -> Path:
    """Return where the state that belongs to a knowledge base is stored."""
    return knowledge.with_name(STATE_FILE)


@final
class State:
    """The open state of an installation; each ``add_...`` has committed when it returns.

    Raises (from every method):
        StorageError: damaged, locked, not writable, not ours, or of a newer version.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        with self._explained():
            self._connection = sqlite3.connect(path, timeout=_LOCK_TIMEOUT_S, isolation_level=None)
            try:
                self._migrate()
            except BaseException:
                self._connection.close()
                raise

    def __enter__(self) -> "State":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._connection.close()

    def decided_releases(self, knowledge_base: str, watch: str) -> frozenset[str]:
        """Return the versions that were decided for what is watched."""
        with self._explained():
            found = self._connection.execute(
                "SELECT version FROM decided_releases WHERE knowledge_base = ? AND watch = ?",
                (knowledge_base, watch),
            )
            return frozenset(version for (version,) in found)

    def add_decided_releases(
        self, knowledge_base: str, releases: Iterable[tuple[str, str, str]]
    ) -> None:
        """Record releases as (watch, version, ISO 8601 time); the first time of each is kept."""
        with self._explained(), self._transaction():
            self._connection.executemany(
                "INSERT INTO decided_releases VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING",
                ((knowledge_base, *each) for each in releases),
            )

    def _migrate(self) -> None:
        with self._transaction():
            version = self._pragma("user_version")
            ours = self._pragma("application_id") == _APPLICATION_ID
            known = self._connection.execute("SELECT 1 FROM sqlite_master").fetchone()
            if not ours and (known or version):
                raise StorageError(
                    f"{self._path} is not the state of stackgen",
                    why="it is an SQLite database of another program",
                    fix="move it away, or choose another folder with --kb",
                )
            if version > len(_MIGRATIONS):
                raise StorageError(
                    f"{self._path} was written by a newer stackgen",
                    why=f"it has version {version}; this stackgen knows up to {len(_MIGRATIONS)}",
                    fix="upgrade stackgen, or choose another folder with --kb",
                )
            for migration in _MIGRATIONS[version:]:
                self._connection.execute(migration)
            # A pragma takes no parameters; both are whole numbers of ours.
            self._connection.execute(f"PRAGMA user_version = {len(_MIGRATIONS):d}")
            self._connection.execute(f"PRAGMA application_id = {_APPLICATION_ID:d}")

    def _pragma(self, name: str) -> int:
        return int(self._connection.execute(f"PRAGMA {name}").fetchone()[0])

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        self._connection.execute("BEGIN IMMEDIATE")
        try:
            yield
        except BaseException:
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
            raise
        self._connection.execute("COMMIT")

    @contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.ProgrammingError:
            raise  # a bug of ours: its traceback is the useful part
        except sqlite3.Error as error:
            raise StorageError(
                f"cannot use the state of stackgen in {self._path}",
                why=str(error),
                fix="make the file and its folder writable; move the file away where it is "
                "damaged (then nightly begins anew)",
            ) from error
