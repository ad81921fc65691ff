"""What may be wrong with the file, and what survives when a process dies."""

import os
import signal
import sqlite3
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from stackgen.errors import DatabaseError, StorageError
from stackgen.knowledge import connection, migrations
from stackgen.knowledge.database import Database, open_database
from stackgen.model.identity import StackId
from stackgen.model.inspections import Outcome
from tests.knowledge import samples
from tests.samples import environment

_WRITER = """
import sys
from pathlib import Path
from stackgen.knowledge.database import open_database
from tests.knowledge import samples

database = open_database(Path(sys.argv[1]))
samples.prepare(database)
for number in range(1, 1_000_000):
    inspection = samples.inspection(number)
    database.add_inspection(inspection)
    print(inspection.id, flush=True)
"""


def test_a_killed_writer_loses_no_inspection_that_it_had_added(tmp_path: Path) -> None:
    path = tmp_path / "kb.db"
    root = Path(__file__).parents[2]
    with subprocess.Popen(
        [sys.executable, "-c", _WRITER, str(path)], stdout=subprocess.PIPE, cwd=root, text=True
    ) as writer:
        assert writer.stdout is not None
        added = [writer.stdout.readline().strip() for _ in range(50)]
        os.kill(writer.pid, signal.SIGKILL)
        # It went on until the signal came: what it had announced by then counts as well. A line
        # that was cut off is no announcement.
        added += [line.strip() for line in writer.stdout if line.endswith("\n")]
    assert writer.returncode == -signal.SIGKILL
    assert all(len(each) == 64 for each in added)
    with open_database(path) as database:
        assert set(added) <= {i.id for i in database.inspections()}
        database.add_inspection(samples.inspection(0))  # and it goes on


_BEGINNER = """
import sys
from pathlib import Path
from stackgen.knowledge.database import open_database
from tests.knowledge import samples

with open_database(Path(sys.argv[1])) as database:
    samples.prepare(database)
    for number in range(25):
        database.add_inspection(samples.inspection(int(sys.argv[2]) + number))
"""


def test_processes_that_begin_a_knowledge_base_together_all_write_to_it(tmp_path: Path) -> None:
    path, root = tmp_path / "kb.db", Path(__file__).parents[2]
    beginners = [
        subprocess.Popen(
            [sys.executable, "-c", _BEGINNER, str(path), str(100 * number)],
            cwd=root,
            stderr=subprocess.PIPE,
            text=True,
        )
        for number in range(4)
    ]
    errors = [each.communicate()[1] for each in beginners]
    assert errors == [""] * 4
    with open_database(path) as database:
        assert len(database.inspections()) == 100


def test_a_file_that_another_process_is_just_creating_is_accepted(tmp_path: Path) -> None:
    def begin(number: int) -> None:
        open_database(tmp_path / f"{number // 4}.db").close()

    with ThreadPoolExecutor(4) as pool:
        for future in [pool.submit(begin, number) for number in range(160)]:
            future.result()


def test_stacks_are_read_whole_while_another_process_adds_some(tmp_path: Path) -> None:
    path = tmp_path / "kb.db"
    open_database(path).close()

    def add() -> None:
        with open_database(path) as writer:
            for minor in range(200):
                writer.add_stack(environment(f"1.{minor}").stack)

    with ThreadPoolExecutor(1) as pool, open_database(path, reading=True) as reader:
        adding = pool.submit(add)
        while not adding.done():
            assert all(stack.lock.artifacts for stack in reader.stacks())
        adding.result()
        assert len(reader.stacks()) == 200


def test_a_new_file_is_of_our_version_and_its_folder_is_made(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "er" / "kb.db"
    open_database(path).close()
    raw = sqlite3.connect(path)
    assert raw.execute("PRAGMA user_version").fetchone() == (len(migrations.MIGRATIONS),)
    assert raw.execute("SELECT version, name FROM migrations").fetchall() == [
        (number, name) for number, (name, _) in enumerate(migrations.MIGRATIONS, start=1)
    ]
    assert raw.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    raw.close()


def test_a_file_of_a_newer_stackgen_is_refused_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "kb.db"
    open_database(path).close()
    raw = sqlite3.connect(path)
    raw.execute("PRAGMA user_version = 99")
    raw.close()
    with pytest.raises(DatabaseError, match="written by a newer stackgen") as caught:
        open_database(path)
    assert "upgrade stackgen" in caught.value.fix
    assert caught.value.exit_code == 10


def test_another_programs_database_is_refused_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "places.db"
    raw = sqlite3.connect(path)
    raw.execute("CREATE TABLE bookmarks (url)")
    raw.close()
    before = path.read_bytes()
    with pytest.raises(DatabaseError, match="not a knowledge base"):
        open_database(path)
    assert path.read_bytes() == before


def test_a_file_that_is_no_database_is_called_damaged(tmp_path: Path) -> None:
    path = tmp_path / "kb.db"
    path.write_text("this is a letter to my mother, " * 100)
    with pytest.raises(DatabaseError, match="is damaged"):
        open_database(path)


def test_damage_in_the_middle_is_explained(tmp_path: Path) -> None:
    path = samples.base(tmp_path / "kb.db", *map(samples.inspection, range(200)))
    content = bytearray(path.read_bytes())
    content[8192:-4096] = b"\xa5" * (len(content) - 12288)
    path.write_bytes(content)
    with pytest.raises(DatabaseError, match="is damaged"), open_database(path) as database:
        database.inspections()


def test_a_row_that_makes_no_sense_is_named_with_what_copies_all_others(tmp_path: Path) -> None:
    path = samples.base(tmp_path / "kb.db", samples.inspection(1))
    with open_database(path) as database:
        database._connection.execute("UPDATE inspection_rows SET role = 'spectator'")
        with pytest.raises(DatabaseError, match="a row that is not valid") as caught:
            database.inspections()
    assert f"inspections {samples.inspection(1).id}: role: 'spectator'" in caught.value.why
    assert f"kb recover {path} NEW.db" in caught.value.fix


def test_a_file_that_another_process_holds_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "kb.db"
    open_database(path).close()
    monkeypatch.setattr(connection, "_LOCK_TIMEOUT_S", 0.05)
    holder = sqlite3.connect(path, isolation_level=None)
    holder.execute("BEGIN EXCLUSIVE")
    with (
        pytest.raises(DatabaseError, match="another process has locked it"),
        open_database(path) as database,
    ):
        samples.prepare(database)
    holder.close()


def test_two_writers_take_turns(tmp_path: Path) -> None:
    path = tmp_path / "kb.db"
    with open_database(path) as one, open_database(path) as two:
        samples.prepare(one)
        one.add_inspection(samples.inspection(1))
        two.add_inspection(samples.inspection(2))
        assert one.inspections() == two.inspections()
        assert len(one.inspections()) == 2


def test_a_file_that_cannot_be_written_says_so(database: Database) -> None:
    # What SQLite answers for a file without write permission; root may write any file.
    database._connection.execute("PRAGMA query_only = ON")
    with pytest.raises(DatabaseError, match="cannot be written"):
        database.add_stack(samples.stack(numpy="2.0.0"))


def test_a_folder_that_cannot_be_made_says_so(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StorageError, match="cannot make the folder"):
        open_database(tmp_path / "file" / "kb.db")


def test_a_path_that_is_a_folder_says_so(tmp_path: Path) -> None:
    with pytest.raises(DatabaseError, match="cannot be opened"):
        open_database(tmp_path)


def test_a_full_disk_says_so_and_keeps_what_was_there(database: Database) -> None:
    database.add_inspection(samples.inspection(1))
    pages = database._connection.execute("PRAGMA page_count").fetchone()[0]
    database._connection.execute(f"PRAGMA max_page_count = {pages}")
    long = replace(samples.inspection(2), log="x" * 1_000_000)
    with pytest.raises(StorageError, match="cannot write"):
        database.add_inspection(long)
    assert database.inspections() == (samples.inspection(1),)


def test_a_migration_that_fails_leaves_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(raw: sqlite3.Connection) -> None:
        raw.execute("CREATE TABLE half_done (x)")
        raise sqlite3.OperationalError("no such thing")

    path = tmp_path / "kb.db"
    open_database(path).close()
    with monkeypatch.context() as patch:
        patch.setattr(migrations, "MIGRATIONS", (*migrations.MIGRATIONS, ("broken", broken)))
        with pytest.raises(DatabaseError):
            open_database(path)
    with open_database(path) as database:
        tables = database._rows("SELECT name FROM sqlite_master WHERE name = 'half_done'")
        assert tables == []


def test_an_older_file_is_brought_to_our_version(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def next_one(raw: sqlite3.Connection) -> None:
        raw.execute("CREATE TABLE added_later (x)")

    path = samples.base(tmp_path / "kb.db", samples.inspection(1))
    monkeypatch.setattr(migrations, "MIGRATIONS", (*migrations.MIGRATIONS, ("next", next_one)))
    with open_database(path) as database:
        names = [row["name"] for row in database._rows("SELECT name FROM migrations")]
        assert names == [name for name, _ in migrations.MIGRATIONS]
        assert names[-1] == "next"
        assert database.inspections() == (samples.inspection(1),)


def test_an_inspection_of_a_stack_that_was_never_added_is_refused(database: Database) -> None:
    other = samples.stack(numpy="9")
    with pytest.raises(DatabaseError, match="never added"):
        database.add_inspection(samples.inspection(1, of=other))
    assert database.inspections(outcome=Outcome.OK) == ()


def test_an_unknown_stack_says_where_to_look(tmp_path: Path) -> None:
    with (
        open_database(tmp_path / "kb.db") as database,
        pytest.raises(DatabaseError, match="no stack abc"),
    ):
        database.stack(StackId("abc"))
