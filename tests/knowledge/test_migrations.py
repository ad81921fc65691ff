"""Knowledge bases of earlier versions are brought to ours, in place or as a copy in memory."""

import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from stackgen.errors import DatabaseError
from stackgen.knowledge.database import Database, open_database
from stackgen.model.inspections import Outcome, Role
from stackgen.storage.state import StateDatabase, state_path
from tests.knowledge import samples
from tests.knowledge.test_refusals import damage

VERSIONS = pytest.mark.parametrize("version", [1, 2, 3, 4, 5])


def names_of(database: Database) -> dict[str, str]:
    """Return the name of each indicator by id, with an ``*`` where its source identifies it."""
    calls = database.calls()
    return {c.id: c.indicator.name + "*" * bool(c.indicator.own_sha256) for c in calls}


def recorded_facts(path: Path) -> list[object]:
    """Return of a file, of any version, what inspections say besides ids."""
    columns = "stack_id, machine_id, campaign_id, block, position, outcome, started_at, values_s"
    with closing(sqlite3.connect(path)) as raw:
        found = raw.execute(f"SELECT {columns} FROM inspections ORDER BY {columns}")  # noqa: S608
        return [(*row[:-1], json.loads(row[-1] or "null")) for row in found]


@VERSIONS
def test_ids_are_those_of_the_content_and_nothing_is_lost(tmp_path: Path, version: int) -> None:
    path = samples.recorded(tmp_path / "kb.db", version=version)
    before = recorded_facts(path)
    with open_database(path) as database:
        assert database.check() == ()  # computes every id again
        assert database._rows("PRAGMA foreign_key_check") == []
        assert [row["version"] for row in database._rows("SELECT version FROM id_scheme")] == [2]
        assert names_of(database)[samples.CALL.id] == "numpy/matmul"
        assert sorted(names_of(database).values()) == [
            "numpy/matmul",
            "numpy/matmul*",
            "numpy/matmul*",
            "program",
            "smooth*",
        ]
        assert {each.role for each in database.inspections()} == set(Role)
        assert len(database.inspections(indicator=samples.CALL.id)) == 3
        assert len(database.inspections(outcome=Outcome.TIMEOUT)) == 1
        merged = [each.label for of in database.origins().values() for each in of]
        assert merged == ([] if version == 1 else ["theirs.db"])
        assert set(database.origins()) <= {each.id for each in database.inspections()}
    assert recorded_facts(path) == before


def test_ids_do_not_change_from_version_4_on(tmp_path: Path) -> None:
    path = samples.recorded(tmp_path / "kb.db", version=4)
    tables = ["artifacts", "locks", "stacks", "machines", "indicators", "campaigns", "load_sets"]
    tables.append("inspections")

    def ids() -> list[object]:
        with closing(sqlite3.connect(path)) as raw:
            columns = {"artifacts": "name || version || sha256"}
            queries = (f"SELECT {columns.get(t, 'id')} FROM {t} ORDER BY 1" for t in tables)  # noqa: S608
            return [raw.execute(query).fetchall() for query in queries]

    before = ids()
    open_database(path).close()
    assert ids() == before


@VERSIONS
def test_an_older_file_is_merged_by_a_copy_in_memory(tmp_path: Path, version: int) -> None:
    theirs = samples.recorded(tmp_path / "theirs.db", version=version)
    before = theirs.read_bytes()
    with open_database(tmp_path / "mine.db") as database:
        assert database.merge(theirs) == 6
        assert database.check() == ()
        origins = {each.id for of in database.origins().values() for each in of}
        merged = database.inspections()
    assert version == 1 or origins == {"0123456789abcdef" * 2, "fedcba9876543210" * 2}
    assert theirs.read_bytes() == before
    assert {each.name for each in tmp_path.iterdir()} <= {"mine.db", "theirs.db", "state.db"}
    with open_database(theirs) as database:
        assert database.inspections() == merged
    with open_database(tmp_path / "mine.db") as database:
        assert database.merge(theirs) == 0  # migrated in place or in memory: the same ids


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE inspections SET duration_s = 9 WHERE block = 2",
        "UPDATE inspections SET values_s = '[' WHERE block = 2",
        "UPDATE inspections SET log = x'00' WHERE block = 2",
        "UPDATE inspections SET log = CAST(x'ff' AS TEXT) WHERE block = 2",
        "UPDATE indicators SET component = 'torch', name = 'a' WHERE name = 'smooth'",
        "UPDATE indicators SET arguments = '[[[' WHERE name = 'smooth'",
    ],
)
def test_a_row_that_was_not_valid_before_is_not_made_valid(tmp_path: Path, statement: str) -> None:
    theirs = damage(samples.recorded(tmp_path / "theirs.db", version=2), statement)
    with (
        open_database(tmp_path / "mine.db") as database,
        pytest.raises(DatabaseError, match="not merged"),
    ):
        database.merge(theirs)
    with open_database(theirs) as database:
        assert len(database.check()) >= 1


@pytest.mark.parametrize(
    ("statement", "scheme"),
    [("UPDATE id_scheme SET version = 3", "scheme 3"), ("DELETE FROM id_scheme", "scheme none")],
)
def test_ids_of_another_scheme_are_refused(tmp_path: Path, statement: str, scheme: str) -> None:
    open_database(tmp_path / "theirs.db").close()
    theirs = damage(tmp_path / "theirs.db", statement)
    with open_database(tmp_path / "mine.db") as database:
        with pytest.raises(DatabaseError, match="another scheme") as caught:
            database.merge(theirs)
        assert database.inspections() == ()
    assert scheme in caught.value.why
    assert "computes ids of scheme 2" in caught.value.why
    with pytest.raises(DatabaseError, match="another scheme"):
        open_database(theirs)


WATCHED = "numpy | virtualenv system | default indicators"


def test_what_nightly_decided_moves_to_the_state_of_the_installation(tmp_path: Path) -> None:
    path = samples.recorded(tmp_path / "kb.db", version=2)
    for _ in range(2):
        with open_database(path) as database, StateDatabase(state_path(path)) as state:
            assert state.decided_releases(database.base_id, WATCHED) == {"2.0.0"}
            assert database._rows("SELECT 1 FROM sqlite_master WHERE name = 'releases_seen'") == []
            assert database.check() == ()


def test_releases_that_are_no_text_are_left_behind(tmp_path: Path) -> None:
    path = samples.recorded(tmp_path / "kb.db", version=2)
    damage(path, "INSERT INTO releases_seen VALUES (CAST(x'fe' AS TEXT), x'00', '')")
    with open_database(path) as database, StateDatabase(state_path(path)) as state:
        assert state.decided_releases(database.base_id, WATCHED) == {"2.0.0"}
