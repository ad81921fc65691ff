import sqlite3
import tempfile
from contextlib import closing
from itertools import count
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from stackgen.errors import DatabaseError
from stackgen.knowledge.database import Database, open_database
from stackgen.model.inspections import Inspection
from tests.knowledge import samples, strategies

numbers = st.frozensets(st.integers(0, 12), max_size=6)
_files = count()


def holding(folder: Path, blocks: frozenset[int]) -> Path:
    path = folder / f"{next(_files)}.db"
    with open_database(path) as database:
        if blocks:
            samples.prepare(database)
        for block in blocks:
            database.add_inspection(samples.inspection(block))
    return path


def stored(database: Database) -> set[Inspection]:
    return set(database.inspections())


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(numbers, numbers)
def test_a_merge_is_a_union_in_either_direction(
    tmp_path: Path, mine: frozenset[int], yours: frozenset[int]
) -> None:
    a, b = holding(tmp_path, mine), holding(tmp_path, yours)
    with open_database(a) as database:
        assert database.merge(b) == len(yours - mine)
        assert database.merge(b) == 0
        merged = stored(database)
    with open_database(b) as database:
        database.merge(a)
        assert stored(database) == merged == {samples.inspection(n) for n in mine | yours}


@given(strategies.recorded())
def test_any_row_that_was_recorded_can_be_merged(row: strategies.Recorded) -> None:
    with (
        tempfile.TemporaryDirectory() as folder,
        open_database(Path(folder) / "theirs.db") as theirs,
        open_database(Path(folder) / "mine.db") as mine,
    ):
        row.add_to(theirs)
        assert theirs.check() == ()
        assert mine.merge(theirs.path) == 1
        assert mine.inspections() == theirs.inspections()
        assert mine.stacks() == theirs.stacks()
        assert mine.merge(theirs.path) == 0


def test_a_merge_brings_everything_that_inspections_refer_to(tmp_path: Path) -> None:
    theirs = holding(tmp_path, frozenset({1}))
    with open_database(tmp_path / "mine.db") as database:
        database.merge(theirs)
        assert database.stacks() == (samples.STACK,)
        assert database.machines() == (samples.MACHINE,)
        assert database.calls() == (samples.CALL,)
        assert database.campaigns() == (samples.CAMPAIGN,)
        assert database._rows("PRAGMA foreign_key_check") == []


def test_the_time_at_which_a_campaign_began_survives_either_way(tmp_path: Path) -> None:
    began = {"a.db": "2024-06-16", "b.db": "2024-07-01"}
    for name, when in began.items():
        with open_database(tmp_path / name) as database:
            database.add_machine(samples.MACHINE)
            database.add_campaign(samples.CAMPAIGN, when)
    for mine, theirs in (("a.db", "b.db"), ("b.db", "a.db")):
        with open_database(tmp_path / mine) as database:
            database.merge(tmp_path / theirs)
            (row,) = database._rows("SELECT started_at FROM campaigns")
            assert row["started_at"] == "2024-06-16"


def test_merging_a_file_into_itself_adds_nothing(tmp_path: Path) -> None:
    path = holding(tmp_path, frozenset({1, 2}))
    with open_database(path) as database:
        assert database.merge(path) == 0


def test_inspections_without_an_origin_are_refused(tmp_path: Path) -> None:
    """They would count as recorded by this installation."""
    other = holding(tmp_path, frozenset({1, 2}))
    with closing(sqlite3.connect(other)) as raw:
        raw.execute("DELETE FROM row_origin_keys WHERE kind = 8")
        raw.commit()
    with open_database(tmp_path / "mine.db") as database:
        with pytest.raises(DatabaseError, match="it has no origin"):
            database.merge(other)
        assert stored(database) == set()


def test_a_missing_file_is_not_created_by_a_merge(tmp_path: Path) -> None:
    with (
        open_database(tmp_path / "kb.db") as database,
        pytest.raises(DatabaseError, match="no knowledge base"),
    ):
        database.merge(tmp_path / "absent.db")
    assert not (tmp_path / "absent.db").exists()


def test_what_is_no_knowledge_base_is_not_merged(tmp_path: Path) -> None:
    other = tmp_path / "other.db"
    other.write_text("plain text, " * 200)
    path = holding(tmp_path, frozenset({1}))
    with open_database(path) as database:
        with pytest.raises(DatabaseError, match=r"other\.db is damaged"):
            database.merge(other)
        assert stored(database) == {samples.inspection(1)}
