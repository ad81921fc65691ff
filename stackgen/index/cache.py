"""The cache of index responses: one SQLite file that several processes may use at once."""

import sqlite3
import sys
import threading
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import TypeVar

from stackgen.errors import StorageError
from stackgen.model.packages import Metadata
from stackgen.storage.files import exclusive

_SCHEMA_VERSION = 2
_BUSY_S = 30.0
_BATCH = 500
_MOST_UNIVERSES = 32
_T = TypeVar("_T")

_SCHEMA = """
CREATE TABLE pages (location TEXT, name TEXT, fetched REAL, etag TEXT, modified TEXT,
                    body BLOB, checksum INTEGER, PRIMARY KEY (location, name));
CREATE TABLE metadata (key TEXT PRIMARY KEY, body TEXT, checksum INTEGER);
CREATE TABLE silent (key TEXT PRIMARY KEY, reason TEXT);
CREATE TABLE downloads (url TEXT PRIMARY KEY, fetched REAL, mark TEXT, size INTEGER, sha256 TEXT);
CREATE TABLE sizes (key TEXT PRIMARY KEY, bytes INTEGER);
CREATE TABLE hashes (path TEXT PRIMARY KEY, size INTEGER, modified INTEGER, sha256 TEXT);
"""
# Made where they are missing: what older versions cached stays. A digest is that of the page that
# was fetched at the same time; to read it takes a fraction of what it takes to read the page.
_LATER = """
CREATE TABLE IF NOT EXISTS digests (location TEXT, name TEXT, fetched REAL, digest TEXT,
                                    PRIMARY KEY (location, name));
CREATE TABLE IF NOT EXISTS universes (key TEXT PRIMARY KEY, stored REAL, names TEXT,
                                      fingerprint TEXT, body BLOB, checksum INTEGER);
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class CachedUniverse:
    """What was worked out from pages.

    names: of the packages with these pages.
    fingerprint: a digest of the pages.
    """

    names: tuple[str, ...]
    fingerprint: str
    content: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class CachedPage:
    """A page as it was last seen.

    fetched: when, in seconds since 1970.
    etag, modified: validators for the next request; "" where the server sent none.
    content: the encoded page, or None where the index does not have that package.
    """

    fetched: float
    etag: str
    modified: str
    content: bytes | None

    @property
    def digest(self) -> str:
        """Return a digest of the content; "" where the index does not have that package."""
        return "" if self.content is None else blake2b(self.content, digest_size=16).hexdigest()


@dataclass(frozen=True, slots=True, kw_only=True)
class Download:
    """What an address held: all of it was read once, for its hash.

    fetched: when, in seconds since 1970.
    mark: what the server says of this very content (ETag or date); "" where it says nothing.
    size: bytes.
    """

    fetched: float
    mark: str
    size: int
    sha256: str


class IndexCache:
    """The cache. Losing an entry costs a request; a damaged file is replaced by a fresh one."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        self.notes: list[str] = []
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with self._exclusive():
                self._connection = self._open()
        except (OSError, sqlite3.Error) as error:
            raise StorageError(
                f"the cache {path} cannot be used",
                why=str(error),
                fix="free disk space, or name another folder in STACKGEN_CACHE"
                if "is full" in str(error)
                else "make its folder writable, or name another one in STACKGEN_CACHE",
            ) from error

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            self._connection.close()

    def pages(self, location: str, names: Sequence[str]) -> dict[str, CachedPage]:
        """Return the pages at hand, by name; a damaged one counts as not at hand."""
        found: dict[str, CachedPage] = {}
        query = (
            "SELECT name, fetched, etag, modified, body, checksum FROM pages "
            "WHERE location = ? AND name"
        )
        for name, fetched, etag, modified, body, checksum in self._among(query, names, location):
            if checksum == _checksum(location, name, body):
                found[name] = CachedPage(
                    fetched=fetched, etag=etag, modified=modified, content=body
                )
        return found

    def digests(self, location: str, names: Sequence[str]) -> dict[str, tuple[float, str]]:
        """Return when each page at hand was fetched, and its digest, by name."""
        query = (
            "SELECT name, fetched, digest FROM pages JOIN digests USING (location, name, fetched) "
            "WHERE location = ? AND name"
        )
        rows = self._among(query, names, location)
        return {name: (fetched, digest) for name, fetched, digest in rows}

    def keep_digests(self, location: str, pages: Mapping[str, CachedPage]) -> None:
        """Store the digests of pages; they count until another page takes the place of one."""
        rows = [(location, name, page.fetched, page.digest) for name, page in pages.items()]
        self._write("INSERT OR REPLACE INTO digests VALUES (?, ?, ?, ?)", rows)

    def keep_pages(self, location: str, pages: Mapping[str, CachedPage]) -> None:
        """Store pages, each in the place of its predecessor."""
        rows = []
        for name, page in pages.items():
            checksum = _checksum(location, name, page.content)
            stored = (page.fetched, page.etag, page.modified, page.content)
            rows.append((location, name, *stored, checksum))
        self._write("INSERT OR REPLACE INTO pages VALUES (?, ?, ?, ?, ?, ?, ?)", rows)

    def universe(self, key: str) -> CachedUniverse | None:
        """Return a universe at hand; a damaged one counts as not at hand."""
        query = "SELECT names, fingerprint, body, checksum FROM universes WHERE key = ?"
        for names, fingerprint, body, checksum in self._rows(query, [key]):
            if checksum == _checksum(key, names, fingerprint, body):
                return CachedUniverse(
                    names=tuple(names.split()), fingerprint=fingerprint, content=body
                )
        return None

    def keep_universe(self, key: str, found: CachedUniverse, now: float) -> None:
        """Store a universe, and remove the oldest ones (``now`` in seconds since 1970)."""
        names = " ".join(found.names)
        checksum = _checksum(key, names, found.fingerprint, found.content)
        row = (key, now, names, found.fingerprint, found.content, checksum)
        self._write("INSERT OR REPLACE INTO universes VALUES (?, ?, ?, ?, ?, ?)", [row])
        newest = "SELECT key FROM universes ORDER BY stored DESC LIMIT ?"
        self._write(f"DELETE FROM universes WHERE key NOT IN ({newest})", [(_MOST_UNIVERSES,)])  # noqa: S608

    def metadata(self, keys: Sequence[str]) -> dict[str, Metadata]:
        """Return the metadata at hand; a damaged entry counts as not at hand."""
        found: dict[str, Metadata] = {}
        query = "SELECT key, body, checksum FROM metadata WHERE key"
        for key, body, checksum in self._among(query, keys):
            if checksum == _checksum("metadata", key, body):
                # Equal lines are the same objects: most versions of a package share them.
                python, *lines = map(sys.intern, body.split("\n"))
                found[key] = Metadata(requires_dist=tuple(lines), requires_python=python or None)
        return found

    def keep_metadata(self, entries: Mapping[str, Metadata]) -> None:
        """Store metadata for good: a wheel of that hash never changes. No text has line breaks."""
        rows = []
        for key, value in entries.items():
            body = "\n".join((value.requires_python or "", *value.requires_dist))
            rows.append((key, body, _checksum("metadata", key, body)))
        self._write("INSERT OR REPLACE INTO metadata VALUES (?, ?, ?)", rows)

    def silent(self, keys: Sequence[str]) -> dict[str, str]:
        """Return which files are known to state no usable metadata, and why."""
        return dict(self._among("SELECT key, reason FROM silent WHERE key", keys))

    def keep_silent(self, reasons: Mapping[str, str]) -> None:
        """Store for good that files of these hashes state no usable metadata, and why."""
        self._write("INSERT OR REPLACE INTO silent VALUES (?, ?)", list(reasons.items()))

    def sizes(self, keys: Sequence[str]) -> dict[str, int]:
        """Return the sizes at hand, bytes."""
        return dict(self._among("SELECT key, bytes FROM sizes WHERE key", keys))

    def keep_sizes(self, sizes: Mapping[str, int]) -> None:
        """Store sizes, bytes."""
        self._write("INSERT OR REPLACE INTO sizes VALUES (?, ?)", list(sizes.items()))

    def file_hash(self, path: Path, *, size: int, modified: int) -> str | None:
        """Return the SHA-256 of a local file that has not changed since (`modified` in ns)."""
        query = "SELECT sha256 FROM hashes WHERE path = ? AND size = ? AND modified = ?"
        rows = self._rows(query, [str(path), size, modified])
        return rows[0][0] if rows else None

    def keep_file_hash(self, path: Path, *, size: int, modified: int, sha256: str) -> None:
        """Store the SHA-256 of a local file."""
        row = (str(path), size, modified, sha256)
        self._write("INSERT OR REPLACE INTO hashes VALUES (?, ?, ?, ?)", [row])

    def download(self, url: str) -> Download | None:
        """Return what an address of no index held when it was last read."""
        query = "SELECT fetched, mark, size, sha256 FROM downloads WHERE url = ?"
        for fetched, mark, size, sha256 in self._rows(query, [url]):
            return Download(fetched=fetched, mark=mark, size=size, sha256=sha256)
        return None

    def keep_download(self, url: str, found: Download) -> None:
        """Store what an address of no index holds."""
        row = (url, found.fetched, found.mark, found.size, found.sha256)
        self._write("INSERT OR REPLACE INTO downloads VALUES (?, ?, ?, ?, ?)", [row])

    def _among(self, query: str, keys: Sequence[str], *before: str) -> Iterator[tuple]:  # type: ignore[type-arg]
        """Yield the rows of a query whose last column, named at its end, is one of the keys."""
        for start in range(0, len(keys), _BATCH):
            part = keys[start : start + _BATCH]
            yield from self._rows(f"{query} IN ({', '.join('?' * len(part))})", [*before, *part])

    # SQLite holds values of any type; the callers above check them.
    def _rows(self, query: str, values: Sequence[object]) -> list[tuple]:  # type: ignore[type-arg]
        return self._guarded(lambda c: c.execute(query, tuple(values)).fetchall(), [])

    def _write(self, statement: str, rows: Sequence[tuple[object, ...]]) -> None:
        def write(connection: sqlite3.Connection) -> None:
            with connection:
                connection.executemany(statement, rows)

        if rows:
            self._guarded(write, None)

    def _guarded(self, action: Callable[[sqlite3.Connection], _T], otherwise: _T) -> _T:
        """Act, and go on without the cache where that fails."""
        with self._lock:
            try:
                return action(self._connection)
            except (sqlite3.ProgrammingError, sqlite3.IntegrityError):
                raise  # A mistake of ours, which says nothing about the file.
            except sqlite3.DatabaseError as error:
                note = f"the cache {self._path} was of no use: {error}"
                if note not in self.notes:
                    self.notes.append(note)
                if not _is_passing(error):
                    self._connection.close()
                    with self._exclusive():
                        self._connection = self._fresh()
                return otherwise

    def _open(self) -> sqlite3.Connection:
        try:
            connection = self._connect()
            version = connection.execute("PRAGMA user_version").fetchone()[0]
        except sqlite3.DatabaseError as error:
            if _is_passing(error):
                raise
            self.notes.append(f"the cache {self._path} was damaged and starts afresh: {error}")
            return self._fresh()
        if version == _SCHEMA_VERSION:
            connection.executescript(_LATER)
            return connection
        connection.close()
        return self._fresh()

    def _fresh(self) -> sqlite3.Connection:
        for suffix in ("", "-wal", "-shm"):
            Path(f"{self._path}{suffix}").unlink(missing_ok=True)
        connection = self._connect()
        connection.executescript(f"{_SCHEMA}{_LATER} PRAGMA user_version = {_SCHEMA_VERSION};")
        return connection

    def _connect(self) -> sqlite3.Connection:
        connection = sqlite3.connect(self._path, timeout=_BUSY_S, check_same_thread=False)
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA synchronous = NORMAL")
        except sqlite3.Error:
            connection.close()
            raise
        return connection

    def _exclusive(self) -> AbstractContextManager[None]:
        """Keep other processes from opening or replacing the file meanwhile."""
        return exclusive(self._path.with_name(f"{self._path.name}.lock"))


def _is_passing(error: sqlite3.DatabaseError) -> bool:
    """Return whether the file itself is sound: it was busy, or its disk is full or read-only."""
    words = ("locked", "full", "readonly", "unable to open")
    return any(word in str(error) for word in words)


def _checksum(*parts: str | bytes | None) -> int:
    total = 0
    for part in parts:
        total = zlib.crc32(part.encode() if isinstance(part, str) else part or b"\0", total)
    return total
