"""``state.db``: what changes, beside a knowledge base of facts."""

import sqlite3
from contextlib import closing, suppress
from pathlib import Path

import pytest

from stackgen.errors import StorageError
from stackgen.storage.state import StateDatabase

FIRST, SECOND = "2024-06-16T00:00:00+00:00", "2024-08-18T00:00:00+00:00"


def test_releases_are_decided_once_for_each_watch_of_each_knowledge_base(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    with StateDatabase(path) as state:
        state.add_decided_releases("a", [("numpy", "1.26.4", FIRST), ("numpy", "2.0.0", FIRST)])
    with StateDatabase(path) as state, StateDatabase(path) as another:
        another.add_decided_releases("a", [("numpy", "2.0.0", SECOND), ("scipy", "1.0", SECOND)])
        assert state.decided_releases("a", "numpy") == {"1.26.4", "2.0.0"}
        assert state.decided_releases("a", "scipy") == {"1.0"}
        assert state.decided_releases("b", "numpy") == frozenset()
    with closing(sqlite3.connect(path)) as raw:
        found = raw.execute("SELECT decided_at FROM decided_releases WHERE version = '2.0.0'")
        assert found.fetchall() == [(FIRST,)]


def test_a_full_disk_is_no_fault_of_the_file(small_disk: Path) -> None:
    with StateDatabase(small_disk / "state.db") as state:
        (small_disk / "ballast").write_bytes(b"")
        with suppress(OSError), (small_disk / "ballast").open("wb", buffering=0) as ballast:
            while ballast.write(bytes(4096)):
                pass
        with pytest.raises(StorageError, match="free disk space"):
            state.put_watch("a", "w", "x" * 100_000)


@pytest.mark.parametrize(
    ("statements", "what"),
    [
        ("PRAGMA application_id = 1937009523; PRAGMA user_version = 99", "a newer stackgen"),
        ("CREATE TABLE bookmarks (url)", "not the state of stackgen"),
    ],
)
def test_a_file_that_is_not_ours_is_refused_and_left_alone(
    tmp_path: Path, statements: str, what: str
) -> None:
    path = tmp_path / "state.db"
    with closing(sqlite3.connect(path)) as raw:
        raw.executescript(statements)
    before = path.read_bytes()
    with pytest.raises(StorageError, match=what):
        StateDatabase(path)
    assert path.read_bytes() == before


def test_a_damaged_file_says_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "state.db").write_text("a letter, " * 200)
    with pytest.raises(StorageError, match="cannot use the state") as caught:
        StateDatabase(tmp_path / "state.db")
    assert "move the file away" in caught.value.fix
    with StateDatabase(tmp_path / "state.db", reading=True) as state:
        with pytest.raises(StorageError, match="cannot use the state"):
            state.findings("a knowledge base")
        with pytest.raises(StorageError, match="cannot use the state"):
            _ = state.installation


def test_opening_what_is_current_writes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    StateDatabase(path).__exit__(None, None, None)
    before = path.stat().st_mtime_ns
    with sqlite3.connect(path) as other:
        other.execute("BEGIN IMMEDIATE")  # a writer would wait for it
        with StateDatabase(path) as state:
            assert state.trusted_origins() == frozenset()
        other.execute("ROLLBACK")
    assert path.stat().st_mtime_ns == before
