"""State of an installation: what changes, and is never merged (``state.db``).

A knowledge base holds facts that never change. What stackgen did with them (which releases
``nightly`` has decided) is kept beside it, by the identity of the knowledge base, since several
may lie in one folder.
"""

import sqlite3
import uuid
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import final

from stackgen.errors import StorageError

STATE_FILE = "state.db"
_APPLICATION_ID = 0x73746B73  # "stks" in ASCII
_LOCK_TIMEOUT_S = 15.0
_INSTALLATION_SINCE, _TRUST_SINCE, _FINDINGS_SINCE = 2, 3, 7  # versions of the file

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
    """
    CREATE TABLE installation (
        only_row INTEGER PRIMARY KEY CHECK (only_row = 1),
        id TEXT NOT NULL                    -- random and public: the origin of what it records
    )
    """,
    """
    CREATE TABLE trusted_origins (
        id TEXT PRIMARY KEY,                -- of another installation
        trusted_at TEXT NOT NULL            -- ISO 8601, UTC
    ) WITHOUT ROWID
    """,
    """
    CREATE TABLE loaded_seeds (
        knowledge_base TEXT NOT NULL,       -- its identity
        sha256 TEXT NOT NULL,               -- of the file
        PRIMARY KEY (knowledge_base, sha256)
    ) WITHOUT ROWID
    """,
    """
    CREATE TABLE removed_origins (          -- no seed brings them back
        knowledge_base TEXT NOT NULL,       -- its identity
        id TEXT NOT NULL,
        PRIMARY KEY (knowledge_base, id)
    ) WITHOUT ROWID
    """,
    """
    CREATE TABLE watches (
        knowledge_base TEXT NOT NULL,       -- its identity
        watch TEXT NOT NULL,                -- name, requirements, base and indicators
        state TEXT NOT NULL,                -- JSON: pages, stacks, releases that are not done
        PRIMARY KEY (knowledge_base, watch)
    ) WITHOUT ROWID
    """,
    """
    CREATE TABLE findings (
        id TEXT PRIMARY KEY,                -- of the finding
        knowledge_base TEXT NOT NULL,       -- whose inspections show it
        state TEXT NOT NULL,                -- JSON: the finding, and what became of it
        changed_at TEXT NOT NULL            -- ISO 8601, UTC
    ) WITHOUT ROWID
    """,
    """
    CREATE TABLE notifications (
        finding TEXT NOT NULL,              -- its id
        target TEXT NOT NULL,               -- as the configuration names it
        sent_at TEXT NOT NULL,              -- ISO 8601, UTC
        PRIMARY KEY (finding, target)
    ) WITHOUT ROWID
    """,
)


def state_path(knowledge: Path) -> Path:
    """Return where the state that belongs to a knowledge base is stored."""
    return knowledge.with_name(STATE_FILE)


@final
class StateDatabase:
    """The open state of an installation; each ``add_...`` has committed when it returns.

    Raises (from every method):
        StorageError: damaged, locked, not writable, not ours, or of a newer version.
    """

    def __init__(self, path: Path, *, reading: bool = False) -> None:
        """Open the state, or create it.

        Args:
            path: the file.
            reading: nothing is written, not even a migration: its folder may be read-only.
        """
        self._path, self._reading = path, reading
        uri = f"{path.absolute().as_uri()}?mode={'ro' if reading else 'rwc'}"
        with self._explained():
            self._connection = sqlite3.connect(
                uri, uri=True, timeout=_LOCK_TIMEOUT_S, isolation_level=None
            )
            try:
                if not reading:
                    self._migrate()
            except BaseException:
                self._connection.close()
                raise

    def __enter__(self) -> "StateDatabase":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._connection.close()

    @property
    def installation(self) -> str:
        """Return the public id of this installation, drawn when it is first needed.

        It is "" where it is needed for the first time and nothing may be written.
        """
        with self._explained():
            if self._reading and self._pragma("user_version") < _INSTALLATION_SINCE:
                return ""
            found = self._connection.execute("SELECT id FROM installation").fetchone()
            if found is None and self._reading:
                return ""
            if found is None:
                with self._transaction():
                    self._connection.execute(
                        "INSERT INTO installation VALUES (1, ?) ON CONFLICT DO NOTHING",
                        (uuid.uuid4().hex,),
                    )
                found = self._connection.execute("SELECT id FROM installation").fetchone()
            return str(found[0])

    def trusted_origins(self) -> frozenset[str]:
        """Return the ids of the other installations that the user trusts."""
        with self._explained():
            if self._reading and self._pragma("user_version") < _TRUST_SINCE:
                return frozenset()
        return self._ids("SELECT id FROM trusted_origins")

    def trust_origin(self, origin: str, moment: str) -> None:
        """Trust another installation from now on; ``moment`` is ISO 8601 in UTC."""
        self._write(
            "INSERT INTO trusted_origins VALUES (?, ?) ON CONFLICT DO NOTHING", origin, moment
        )

    def distrust_origin(self, origin: str) -> None:
        """Trust another installation no longer."""
        self._write("DELETE FROM trusted_origins WHERE id = ?", origin)

    def decided_releases(self, knowledge_base: str, watch: str) -> frozenset[str]:
        """Return the versions that were decided for what is watched."""
        query = "SELECT version FROM decided_releases WHERE knowledge_base = ? AND watch = ?"
        return self._ids(query, knowledge_base, watch)

    def add_decided_releases(
        self, knowledge_base: str, releases: Iterable[tuple[str, str, str]]
    ) -> None:
        """Record releases as (watch, version, ISO 8601 time); the first time of each is kept."""
        with self._explained(), self._transaction():
            self._connection.executemany(
                "INSERT INTO decided_releases VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING",
                ((knowledge_base, *each) for each in releases),
            )

    def loaded_seeds(self, knowledge_base: str) -> frozenset[str]:
        """Return the digests of the seeds that a knowledge base has, or once had."""
        return self._ids("SELECT sha256 FROM loaded_seeds WHERE knowledge_base = ?", knowledge_base)

    def add_loaded_seed(self, knowledge_base: str, sha256: str) -> None:
        """Record that a seed was loaded into a knowledge base."""
        self._write(
            "INSERT INTO loaded_seeds VALUES (?, ?) ON CONFLICT DO NOTHING", knowledge_base, sha256
        )

    def removed_origins(self, knowledge_base: str) -> frozenset[str]:
        """Return the origins that the user removed from a knowledge base."""
        return self._ids("SELECT id FROM removed_origins WHERE knowledge_base = ?", knowledge_base)

    def add_removed_origin(self, knowledge_base: str, origin: str) -> None:
        """Record that the user removed an origin from a knowledge base."""
        self._write(
            "INSERT INTO removed_origins VALUES (?, ?) ON CONFLICT DO NOTHING",
            knowledge_base,
            origin,
        )

    def _ids(self, query: str, *values: str) -> frozenset[str]:
        with self._explained():
            return frozenset(each for (each,) in self._connection.execute(query, values))

    def _write(self, sql: str, *values: str) -> None:
        with self._explained(), self._transaction():
            self._connection.execute(sql, values)

    def watch(self, knowledge_base: str, watch: str) -> str:
        """Return the state of what is watched, as JSON; "" before its first night."""
        query = "SELECT state FROM watches WHERE knowledge_base = ? AND watch = ?"
        return self._text(query, knowledge_base, watch)

    def watches(self, knowledge_base: str) -> frozenset[str]:
        """Return what was watched for at least one night."""
        return self._ids("SELECT watch FROM watches WHERE knowledge_base = ?", knowledge_base)

    def put_watch(self, knowledge_base: str, watch: str, state: str) -> None:
        """Replace the state of what is watched."""
        self._write("INSERT OR REPLACE INTO watches VALUES (?, ?, ?)", knowledge_base, watch, state)

    def findings(self, knowledge_base: str) -> tuple[tuple[str, str], ...]:
        """Return the findings as JSON, each with when it changed, oldest first."""
        wanted = "SELECT state, changed_at FROM findings WHERE knowledge_base = ?"
        with self._explained():
            if self._reading and self._pragma("user_version") < _FINDINGS_SINCE:
                return ()
            return tuple(
                self._connection.execute(f"{wanted} ORDER BY changed_at, id", (knowledge_base,))
            )

    def put_finding(self, knowledge_base: str, finding: str, state: str, moment: str) -> None:
        """Add a finding, or replace what became of it."""
        row = (finding, knowledge_base, state, moment)
        self._write("INSERT OR REPLACE INTO findings VALUES (?, ?, ?, ?)", *row)

    def notified(self, finding: str, target: str) -> bool:
        """Return whether a target knows of a finding."""
        query = "SELECT sent_at FROM notifications WHERE finding = ? AND target = ?"
        return bool(self._text(query, finding, target))

    def add_notification(self, finding: str, target: str, moment: str) -> None:
        """Record that a target was notified of a finding."""
        self._write("INSERT OR IGNORE INTO notifications VALUES (?, ?, ?)", finding, target, moment)

    def _text(self, query: str, *values: str) -> str:
        with self._explained():
            found = self._connection.execute(query, values).fetchone()
            return "" if found is None else str(found[0])

    def _migrate(self) -> None:
        if self._version() == (_APPLICATION_ID, len(_MIGRATIONS)):
            return  # nothing is written, and no other process is waited for
        with self._transaction():
            application, version = self._version()
            ours = application == _APPLICATION_ID
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

    def _version(self) -> tuple[int, int]:
        return self._pragma("application_id"), self._pragma("user_version")

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
                fix="free disk space, then run the same command again"
                if "is full" in str(error)
                else "make the file and its folder writable; move the file away where it is "
                "damaged (then nightly begins anew)",
            ) from error
