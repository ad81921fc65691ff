"""What can be read of a damaged file is copied to a new one, and only what is valid."""

import random
import shutil
from pathlib import Path

import pytest

from stackgen.errors import DatabaseError
from stackgen.knowledge.database import open_database
from tests.knowledge import samples
from tests.knowledge.samples import base

PAGE = 4096


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("sound") / "kb.db"
    return base(path, *(samples.inspection(number) for number in range(300)))


@pytest.mark.parametrize("seed", range(4))
def test_pages_of_noise_cost_what_they_held_and_no_more(
    tmp_path: Path, sound: Path, seed: int
) -> None:
    damaged = tmp_path / "damaged.db"
    content = bytearray(sound.read_bytes())
    draw = random.Random(seed)
    pages = range(len(content) // PAGE)
    leaves = [n for n in pages if content[n * PAGE : (n + 1) * PAGE].count(b"2024-05-01") > 4]
    for page in draw.sample(leaves, 2):
        content[page * PAGE : (page + 1) * PAGE] = draw.randbytes(PAGE)
    damaged.write_bytes(content)
    with open_database(tmp_path / "new.db") as database:
        inspections, lost = database.recover(damaged)
        assert database.check() == ()
        assert len(database.inspections()) == inspections >= 200
        assert {each.id for each in database.inspections()} <= {
            samples.inspection(number).id for number in range(300)
        }
        assert lost >= 300 - inspections
        assert database._rows("PRAGMA foreign_key_check") == []
    assert damaged.read_bytes() == content


def test_a_sound_file_is_recovered_whole(tmp_path: Path, sound: Path) -> None:
    with open_database(tmp_path / "new.db") as database, open_database(sound) as source:
        assert database.recover(sound) == (300, 0)
        assert list(database.export()) == list(source.export())


def test_what_a_killed_process_wrote_last_is_recovered(tmp_path: Path) -> None:
    (tmp_path / "live").mkdir()
    live = base(tmp_path / "live" / "kb.db", samples.inspection(1))
    with open_database(live) as writing:
        writing.add_inspection(samples.inspection(2))  # in the -wal file
        for each in live.parent.iterdir():
            shutil.copy(each, tmp_path)
    killed = tmp_path / live.name
    before = {path: path.read_bytes() for path in (killed, tmp_path / "kb.db-wal")}
    with open_database(tmp_path / "new.db") as database:
        assert database.recover(killed) == (2, 0)
    assert before == {path: path.read_bytes() for path in before}


def test_a_file_without_its_first_page_says_so(tmp_path: Path, sound: Path) -> None:
    damaged = tmp_path / "damaged.db"
    damaged.write_bytes(b"\xa5" * PAGE + sound.read_bytes()[PAGE:])
    with (
        open_database(tmp_path / "new.db") as database,
        pytest.raises(DatabaseError, match="is damaged"),
    ):
        database.recover(damaged)
