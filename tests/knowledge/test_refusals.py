"""Files that a merge refuses, and what a knowledge base that already has such rows can still do."""

import json
import os
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

from stackgen.errors import DatabaseError
from stackgen.knowledge.database import open_database
from stackgen.model.inspections import Inspection, Outcome
from stackgen.model.stacks import Machine, Stack
from stackgen.storage.state import StateDatabase, state_path
from tests.knowledge import samples
from tests.knowledge.samples import base

FIRST = samples.inspection(1)


@cache
def made(*blocks: int) -> bytes:
    """Return a knowledge base, without the installation that it belongs to."""
    with tempfile.TemporaryDirectory() as folder:
        return base(Path(folder) / "kb.db", *map(samples.inspection, blocks)).read_bytes()


def damage(path: Path, *statements: str) -> Path:
    with closing(sqlite3.connect(path, isolation_level=None)) as raw:
        raw.execute("PRAGMA writable_schema = ON")
        for each in statements:
            raw.executescript(each)
    return path


def content(path: Path) -> list[str]:
    with closing(sqlite3.connect(path)) as raw:
        return list(raw.iterdump())


def refusal(tmp_path: Path, *statements: str) -> DatabaseError:
    """Return the error of merging a damaged base, after a look that nothing was changed."""
    theirs, mine = tmp_path / "theirs.db", tmp_path / "mine.db"
    theirs.write_bytes(made(1, 2))
    mine.write_bytes(made(7))
    damage(theirs, *statements)
    before, sent = content(mine), theirs.read_bytes()
    with open_database(mine) as database, pytest.raises(DatabaseError) as caught:
        database.merge(theirs)
    assert content(mine) == before
    assert theirs.read_bytes() == sent
    assert str(theirs) in caught.value.what
    assert str(mine) not in str(caught.value)
    return caught.value


_SHARED = {"log": "log_key", "unenforced": "unenforced_key", "circumstances": "environment_key"}
_STORED = {"values_s": "samples", "stack_id": "stack_key", "load_set_id": "load_set_key"}


def of_inspection(column: str, value: str, of: str = FIRST.id) -> str:
    """Return what gives an inspection a value in a column of the view ``inspections``."""
    where = f"WHERE id = x'{of}'"
    if column in _SHARED and value != "NULL":
        return (
            f"INSERT INTO texts (digest, text) VALUES (randomblob(16), {value}); "  # noqa: S608
            f"UPDATE inspection_rows SET {_SHARED[column]} = last_insert_rowid() {where}"
        )
    stored = _STORED.get(column) or _SHARED.get(column, column)
    set_to = value.replace("values_s", "samples")
    return f"UPDATE inspection_rows SET {stored} = {set_to} {where}"  # noqa: S608


DEEP = "'" + "[" * 20_000 + "]" * 20_000 + "'"


@pytest.mark.parametrize(
    ("statement", "why"),
    [
        (of_inspection("values_s", "'[NaN]'"), "values_s: Expected `float` >="),
        (of_inspection("values_s", "'[Infinity]'"), "values_s: Expected `float` <="),
        (of_inspection("values_s", "'[1e999]'"), "values_s: Expected `float` <="),
        (of_inspection("values_s", "'[-0.5]'"), "positive, finite"),
        (of_inspection("values_s", "'[0]'"), "positive, finite"),
        (of_inspection("values_s", "'[]'"), "positive, finite"),
        (of_inspection("values_s", "''"), "values_s: no valid JSON"),
        (of_inspection("values_s", "'a while'"), "values_s: no valid JSON"),
        (of_inspection("values_s", "'{}'"), "values_s: Expected `array`, got `object`"),
        (of_inspection("values_s", "'[\"0.5\"]'"), "values_s: Expected `int | float`, got `str`"),
        (of_inspection("values_s", "'[true]'"), "values_s: Expected `int | float`, got `bool`"),
        (of_inspection("values_s", "'[null]'"), "values_s: Expected `int | float`, got `null`"),
        (of_inspection("values_s", f"'[{'9' * 5_000}]'"), "values_s: "),
        (of_inspection("values_s", f"'[{'9' * 400}]'"), "positive, finite"),
        (of_inspection("values_s", DEEP), "values_s: JSON that is nested too deep"),
        (of_inspection("values_s", "x'5b315d'"), "values_s: 3 bytes are no samples"),
        (of_inspection("values_s", "zeroblob(16)"), "positive, finite"),
        (of_inspection("values_s", "x'7ff8000000000000'"), "positive, finite"),
        (of_inspection("values_s", "x'7ff0000000000000'"), "positive, finite"),
        (of_inspection("measured", "'[\"1\"]'"), "do not belong together"),
        (of_inspection("measured", "'[1]'"), "measured: Expected `str`, got `int`"),
        (of_inspection("circumstances", "'[[\"a\", 0]]'"), "do not belong together"),
        (of_inspection("redacted", "2"), "redacted: 0 or 1"),
        (of_inspection("redacted", "1"), "redacted: log and limits"),
        (of_inspection("values_s", "NULL, outcome = 'crashed', loops = 5"), "its id is not that"),
        (of_inspection("loops", "0"), "loops"),
        (of_inspection("loops", "'many'"), "loops: a whole number"),
        (of_inspection("work", "9e999"), "work: Expected `float` <="),
        (of_inspection("work", "-1.0"), "work"),
        (of_inspection("work", "'much'"), "work: Expected `int | float`, got `str`"),
        (of_inspection("steady", "2"), "steady: 0 or 1"),
        (of_inspection("checksum", "'sum'"), "checksum: no valid JSON"),
        (of_inspection("checksum", f"'{'9' * 400}'"), "checksum: a number that is larger"),
        (of_inspection("peak_memory_bytes", "-1"), "peak_memory_bytes"),
        (of_inspection("circumstances", "'[[1, 2]]'"), "circumstances: Expected `str`, got `int`"),
        (of_inspection("circumstances", "NULL"), "environment: text was expected"),
        (of_inspection("circumstances", DEEP), "circumstances: JSON that is nested too deep"),
        (of_inspection("role", "'spectator'"), "role: 'spectator' is none of baseline, twin"),
        (of_inspection("role", "'baseline'"), "its id is not that of its content"),
        (of_inspection("outcome", "'fine', values_s = NULL"), "outcome: 'fine' is none of ok"),
        (of_inspection("block", "-1"), "block: a whole number from 0"),
        (of_inspection("block", "'first'"), "block: a whole number from 0"),
        (of_inspection("block", "1.5"), "block: a whole number from 0"),
        (of_inspection("position", "-1"), "position: a whole number from 0"),
        (of_inspection("duration_s", "9e999"), "duration_s: Expected `float` <="),
        (of_inspection("duration_s", "-1.0"), "duration_s"),
        (of_inspection("started_at", "'yesterday'"), "started_at: an ISO 8601 time"),
        (of_inspection("log", "CAST(x'ff' AS TEXT)"), "log: not UTF-8"),
        (of_inspection("log", "hex(zeroblob(3000000))"), "log: 6,000,000 characters"),
        (of_inspection("log", "'another'"), "its id is not that of its content"),
        (of_inspection("unenforced", "'[1]'"), "unenforced: Expected `str`, got `int`"),
        (of_inspection("id", "'made-up'"), "its id is not that of its content"),
        (of_inspection("id", "NULL"), "its id is not that of its content"),
        (of_inspection("values_s", "'[0.001,0.0005]'"), "its id is not that of its content"),
        (of_inspection("stack_id", "999"), "stack_id: there is no such row in stacks"),
        (of_inspection("load_set_id", "999"), "its id is not that of its content"),
        ('UPDATE stacks SET settings = \'[["b", "1"], ["a", "1"]]\'', "settings"),
        ("UPDATE stacks SET settings = '{'", "settings: no valid JSON"),
        ("UPDATE stacks SET python = 'CPython 3.12.1'", "its id is not that of its content"),
        ("UPDATE lock_pins SET artifact_key = artifact_key + 9", "pins an artifact that is not"),
        ("DELETE FROM lock_pins WHERE artifact_key = 1", "its id is not that of its content"),
        ("DELETE FROM locks", "lock_id: there is no such row in locks"),
        ("UPDATE artifacts SET size = -5", "size: a whole number"),
        ("UPDATE artifacts SET filename = x'00'", "filename: text was expected"),
        ("UPDATE distributions SET version = '2'", "its id is not that of its content"),
        ("UPDATE load_set_rows SET position = 3", "numbered from 0"),
        ("UPDATE load_set_rows SET compiled = 7", "compiled: 0 or 1"),
        ('UPDATE machines SET identity = \'[["cpu", "faster"]]\'', "its id is not that"),
        ("UPDATE machines SET identity = " + DEEP, "identity: JSON that is nested"),  # noqa: S608
        ("UPDATE indicators SET name = 'numpy/sort'", "its id is not that of its content"),
        ("UPDATE indicators SET revision = 2", "its id is not that of its content"),
        ("UPDATE indicators SET revision = 0", "revision: whole numbers from 1"),
        ("UPDATE indicators SET own_sha256 = 'f'", "its id is not that of its content"),
        (
            """UPDATE indicators SET parameters = '[["size", "bool", "1", [], ""]]'""",
            "parameters: Invalid enum value 'bool'",
        ),
        (
            "UPDATE indicators SET timeout_s = 'long'",
            "timeout_s: Expected `int | float`",
        ),
        (
            "UPDATE indicators SET parameters = '[[\"size\"]]'",
            "parameters: Expected `array`",
        ),
        ("UPDATE campaigns SET request = '{\"a\": 1}'", "its id is not that of its content"),
        ("UPDATE campaigns SET seed = 'lucky'", "seed: no whole number"),
        ("UPDATE campaigns SET started_at = ''", "started_at: an ISO 8601 time"),
        (
            "UPDATE artifacts SET requires_python = CAST(x'fe' AS TEXT)",
            "requires_python: not UTF-8",
        ),
    ],
)
def test_a_row_that_is_not_valid_refuses_the_whole_file_and_is_named(
    tmp_path: Path, statement: str, why: str
) -> None:
    error = refusal(tmp_path, statement)
    assert why in error.why
    assert error.what.endswith("was not merged, and nothing was changed") or "damaged" in error.what
    assert len(error.why) < 2000
    assert error.why.isprintable() or "\n" in error.why


@pytest.mark.parametrize(
    ("statement", "why"),
    [
        ("ALTER TABLE campaigns RENAME COLUMN kind TO sort", "'campaigns' was changed"),
        ("ALTER TABLE machines ADD COLUMN note", "'machines' was changed"),
        (
            "ALTER TABLE stacks ADD COLUMN twice TEXT AS (python || python)",
            "'stacks' was changed",
        ),
        ("DROP TABLE origins", "no table 'origins'"),
        (
            "ALTER TABLE machines RENAME TO hidden; CREATE VIEW machines AS SELECT * FROM hidden",
            "machines' was changed",
        ),
        (
            "DROP TABLE origins; CREATE VIRTUAL TABLE origins USING fts5(id, label)",
            "table 'origins' was changed",
        ),
        (
            "CREATE TRIGGER each AFTER INSERT ON stacks BEGIN DELETE FROM stacks; END",
            "trigger 'each', which stackgen never makes",
        ),
        ("CREATE INDEX odd ON stacks (upper(python))", "index 'odd', which stackgen never makes"),
        ("CREATE TABLE extra (x)", "table 'extra', which stackgen never makes"),
        ("UPDATE origins SET id = 'me' WHERE key = 1", "an origin is not one"),
    ],
)
def test_a_file_whose_tables_are_not_ours_is_refused(
    tmp_path: Path, statement: str, why: str
) -> None:
    error = refusal(tmp_path, statement)
    assert "theirs.db is damaged" in error.what
    assert why in error.why


def test_pages_that_are_damaged_are_found_before_anything_is_added(tmp_path: Path) -> None:
    many = [samples.inspection(number) for number in range(300)]
    theirs = base(tmp_path / "theirs.db", *many)
    stored = bytearray(theirs.read_bytes())
    stored[-8192:-4096] = b"\xa5" * 4096
    theirs.write_bytes(stored)
    mine = base(tmp_path / "mine.db")
    with (
        open_database(mine) as database,
        pytest.raises(DatabaseError, match=r"theirs\.db is damaged"),
    ):
        database.merge(theirs)
    with open_database(mine) as database:
        assert database.inspections() == ()


@pytest.mark.parametrize(
    ("statement", "why"),
    [
        ("UPDATE indicators SET unit = 'FLOP'", "unit is 'FLOP', and '' in this knowledge base"),
        ("UPDATE artifacts SET filename = 'numpy.tar.gz'", "filename is 'numpy.tar.gz', and"),
    ],
)
def test_equal_ids_with_other_content_are_a_conflict(
    tmp_path: Path, statement: str, why: str
) -> None:
    assert why in refusal(tmp_path, statement).why


def faster(inspection: Inspection) -> Inspection:
    """Return an inspection of the same place in its block with half the times, and its own id."""
    seen = inspection.observation
    assert seen is not None
    halved = replace(seen, values_s=tuple(each / 2 for each in seen.values_s))
    return replace(inspection, observation=halved)


def test_another_row_for_a_place_in_a_block_is_a_conflict(tmp_path: Path) -> None:
    mine, theirs = base(tmp_path / "mine.db", FIRST), base(tmp_path / "theirs.db", faster(FIRST))
    with open_database(mine) as database:
        with pytest.raises(DatabaseError, match="not merged") as caught:
            database.merge(theirs)
        assert database.inspections() == (FIRST,)
    assert FIRST.id in caught.value.why
    assert faster(FIRST).id in caught.value.why


def test_two_rows_for_a_place_in_a_block_of_one_file_are_refused(tmp_path: Path) -> None:
    theirs = base(tmp_path / "theirs.db", FIRST, faster(FIRST))
    with (
        open_database(base(tmp_path / "mine.db")) as database,
        pytest.raises(DatabaseError, match="same campaign, block, stack and indicator"),
    ):
        database.merge(theirs)


def test_outside_of_blocks_a_place_may_be_taken_twice(tmp_path: Path) -> None:
    tried = samples.inspection(0, outcome=Outcome.TIMEOUT)
    again = replace(tried, duration_s=9.0)
    theirs = base(tmp_path / "theirs.db", tried, again)
    with open_database(base(tmp_path / "mine.db")) as database:
        assert database.merge(theirs) == 2


def test_of_addresses_and_drivers_that_differ_one_is_chosen_in_any_order(tmp_path: Path) -> None:
    one, two = (base(tmp_path / name / "kb.db", FIRST) for name in ("one", "two"))
    damage(
        two,
        "UPDATE artifacts SET url = 'https://mirror.invalid/x', yanked = 'broken', size = 7",
        'UPDATE machines SET circumstances = \'[["kernel", "6.1"]]\'',
    )
    seen: list[tuple[tuple[Machine, ...], tuple[Stack, ...]]] = []
    for order in ((one, two), (two, one)):
        with open_database(tmp_path / f"{len(seen)}.db") as database:
            assert [database.merge(path) for path in order] == [1, 0]
            assert database.check() == ()
            seen.append((database.machines(), database.stacks()))
    assert seen[0] == seen[1]
    assert dict(seen[0][0][0].circumstances) == {"kernel": "6.1"}  # something rather than nothing
    assert {each.size for each in seen[0][1][0].lock.artifacts} == {7}


# -- origins --------------------------------------------------------------------------------------


def test_merged_rows_know_where_they_came_from_and_own_ones_have_no_origin(tmp_path: Path) -> None:
    first = base(tmp_path / "one" / "first.db", FIRST, samples.inspection(2))
    second = base(tmp_path / "two" / "second.db", samples.inspection(2), samples.inspection(3))
    own = samples.inspection(3)
    with open_database(base(tmp_path / "mine.db", own)) as database:
        for each in (first, second, first):
            database.merge(each)
        files = {key: [origin.label for origin in of] for key, of in database.origins().items()}
        (count,) = database._rows("SELECT count(*) AS n FROM origins WHERE label <> ''")
    assert files == {
        FIRST.id: ["first.db"],
        samples.inspection(2).id: ["first.db", "second.db"],
    }
    assert count["n"] == 2


def test_the_origin_is_the_installation_that_measured(tmp_path: Path) -> None:
    theirs = base(tmp_path / "theirs" / "kb.db", FIRST)
    copied = tmp_path / "copied" / "kb.db"
    copied.parent.mkdir()
    copied.write_bytes(theirs.read_bytes())
    with open_database(copied) as database:  # at another installation, which measures as well
        database.add_inspection(samples.inspection(2))
    with StateDatabase(state_path(theirs)) as state, StateDatabase(state_path(copied)) as other:
        measured, continued = state.installation, other.installation
    with open_database(base(tmp_path / "mine.db")) as database:
        database.merge(copied)
        origins = {key: {each.id for each in of} for key, of in database.origins().items()}
    assert origins == {FIRST.id: {measured}, samples.inspection(2).id: {continued}}


def test_what_a_live_process_has_just_added_is_merged(tmp_path: Path) -> None:
    theirs = base(tmp_path / "theirs.db")
    with open_database(theirs) as live, open_database(base(tmp_path / "mine.db")) as database:
        live.add_inspection(FIRST)  # in the -wal file
        assert database.merge(theirs) == 1


# -- knowledge bases that have such rows already --------------------------------------------------


def test_check_names_every_row_and_a_copy_lacks_them_and_what_refers_to_them(
    tmp_path: Path,
) -> None:
    other = samples.stack(numpy="2.0.0")
    path = tmp_path / "kb.db"
    with open_database(path) as database:
        samples.prepare(database, samples.STACK, other)
        for each in (FIRST, samples.inspection(2), samples.inspection(3, of=other)):
            database.add_inspection(each)
    forged = faster(samples.inspection(2))
    damage(
        path,
        of_inspection("values_s", "'[NaN]'"),
        f"UPDATE stacks SET python = 'CPython 4' WHERE id = '{other.id}'",  # noqa: S608
    )
    with open_database(path) as database:
        database.add_inspection(forged)
        found = {(each.table, each.key) for each in database.check()}
        assert found == {
            ("inspections", (FIRST.id,)),
            ("inspections", (forged.id,)),
            ("stacks", (other.id,)),
        }
    with open_database(tmp_path / "new.db") as copy:
        assert copy.recover(path) == (1, 4)  # and the inspection of the stack
        assert copy.check() == ()
        assert copy.inspections() == (samples.inspection(2),)
        assert copy._rows("PRAGMA foreign_key_check") == []
    with open_database(path) as database:
        assert len(database.check()) == 3


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE machines SET id = CAST(x'fe' AS TEXT)",
        "UPDATE inspection_rows SET id = NULL",
        "UPDATE inspection_rows SET id = x'00ff'",
        "UPDATE load_set_rows SET compiled = 7",
        "DELETE FROM locks",
        "DELETE FROM machines",
    ],
)
def test_a_base_with_any_odd_key_can_be_copied(tmp_path: Path, statement: str) -> None:
    path = damage(base(tmp_path / "kb.db", FIRST), statement)
    with open_database(path) as database:
        assert database.check()
    with open_database(tmp_path / "new.db") as database:
        database.recover(path)
        assert database.check() == ()
        assert database.inspections() in ((), (FIRST,))


def test_a_sound_base_has_nothing_to_repair(tmp_path: Path) -> None:
    failed = samples.inspection(0, outcome=Outcome.CRASHED)
    with open_database(base(tmp_path / "kb.db", FIRST, failed)) as database:
        assert database.check() == ()


# -- what cannot be written -----------------------------------------------------------------------


@contextmanager
def sealed(folder: Path) -> Iterator[None]:
    """Take away the right to write, from root as well (who has it whatever the mode says)."""
    user = os.geteuid()
    modes = {each: each.stat().st_mode for each in (folder, *folder.iterdir())}
    for each in modes:
        each.chmod(0o555 if each.is_dir() else 0o444)
    os.seteuid(user or 65534)
    try:
        yield
    finally:
        os.seteuid(user)
        for each, mode in modes.items():
            each.chmod(mode)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    shared = Path(tempfile.gettempdir())
    for each in (tmp_path, *tmp_path.parents):  # another user has to get as far as this folder
        if shared in each.parents:
            each.chmod(0o755)
    (tmp_path / "shared").mkdir()
    return tmp_path / "shared"


@pytest.mark.parametrize("old", [False, True])
def test_a_base_in_a_read_only_folder_can_be_read(folder: Path, old: bool) -> None:
    path = samples.recorded(folder / "kb.db", version=1) if old else base(folder / "kb.db", FIRST)
    with sealed(folder):
        with open_database(path, reading=True) as database:
            assert FIRST.stack_id in {each.stack_id for each in database.inspections()}
            assert samples.STACK in database.stacks()
            assert database.run_named("stacks").rows
            assert database.origins() == {}
            assert database.check() == ()
            with pytest.raises(DatabaseError, match="cannot be written"):
                database.add_inspection(samples.inspection(2))
        assert {each.name for each in folder.iterdir()} <= {"kb.db", "state.db"}


def test_what_must_write_says_that_the_folder_cannot_be_written(folder: Path) -> None:
    path = base(folder / "kb.db", FIRST)
    with (
        sealed(folder),
        pytest.raises(DatabaseError, match="cannot be written") as caught,
    ):
        open_database(path)
    assert "copy" in caught.value.fix


def test_a_base_that_its_owner_writes_to_can_be_read_by_others(folder: Path) -> None:
    path = base(folder / "kb.db", FIRST)
    with open_database(path) as live:
        live.add_inspection(samples.inspection(2))
        with sealed(folder), open_database(path, reading=True) as database:
            assert len(database.inspections()) == 2


def test_rows_that_only_a_wal_file_has_are_never_left_out_silently(folder: Path) -> None:
    path = base(folder / "kb.db", FIRST)
    with open_database(path) as live:
        live.add_inspection(samples.inspection(2))
        retained = {end: path.with_name(f"kb.db{end}").read_bytes() for end in ("", "-wal")}
    for end, stored in retained.items():
        path.with_name(f"kb.db{end}").write_bytes(stored)
    path.with_name("kb.db-shm").unlink(missing_ok=True)
    with (
        sealed(folder),
        pytest.raises(DatabaseError, match="in place") as caught,
    ):
        open_database(path, reading=True)
    assert "files beside it" in caught.value.fix


def test_numbers_are_stored_as_json_that_reads_back_exactly(tmp_path: Path) -> None:
    path = base(tmp_path / "kb.db", FIRST)
    with closing(sqlite3.connect(path)) as raw:
        ((stored,),) = raw.execute("SELECT values_s FROM inspections").fetchall()
    assert FIRST.observation is not None
    assert tuple(json.loads(stored)) == FIRST.observation.values_s
