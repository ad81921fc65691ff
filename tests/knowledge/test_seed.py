"""Observations that come with stackgen: loaded once, as origins of their own, never again."""

import gzip
import io
from pathlib import Path

import pytest

from stackgen.errors import DatabaseError
from stackgen.knowledge.database import open_database
from stackgen.knowledge.public import Redaction
from stackgen.knowledge.seed import load_seeds, load_shipped
from stackgen.storage.paths import find_paths, shipped_folder
from tests.knowledge.samples import base, inspection

LIMIT = 5_000_000


def seed_of(folder: Path, *numbers: int, name: str = "seed") -> Path:
    """Write a seed, measured by the installation of ``folder``; return the folder of seeds."""
    with open_database(base(folder / f"{name}.db", *map(inspection, numbers))) as database:
        content = "".join(database.export(Redaction())).encode()
    seeds = folder / "seeds"
    seeds.mkdir(exist_ok=True)
    (seeds / f"{name}.jsonl.gz").write_bytes(gzip.compress(content, mtime=0))
    return seeds


def test_a_seed_is_loaded_once_as_another_installation_s(tmp_path: Path) -> None:
    seeds = seed_of(tmp_path / "theirs", 1, 2)
    with open_database(base(tmp_path / "mine" / "kb.db", inspection(3))) as database:
        assert [load_seeds(database, seeds), load_seeds(database, seeds)] == [2, 0]
        own, other = sorted(database.origin_summaries(), key=lambda each: not each.own)
        assert (own.inspections, other.inspections) == (1, 2)
        assert not other.own
        assert not other.trusted
        assert other.label == "seed.jsonl.gz"


def test_a_removed_seed_comes_back_neither_by_itself_nor_with_the_next_one(tmp_path: Path) -> None:
    seeds = seed_of(tmp_path / "theirs", 1, 2)
    with open_database(base(tmp_path / "mine" / "kb.db", inspection(3))) as database:
        before = list(database.export())
        load_seeds(database, seeds)
        (origin,) = (each.id for each in database.origin_summaries() if not each.own)
        assert database.remove_origin(origin) == 2
        seed_of(tmp_path / "theirs", 1, 2, 4)
        assert load_seeds(database, seeds) == 0
        assert list(database.export()) == before
        # What the user imports is added all the same.
        export = gzip.decompress(next(seeds.iterdir()).read_bytes())
        assert database.import_lines(io.BytesIO(export), Path("seed.jsonl")) == 3


def test_a_later_seed_adds_what_is_new_to_each_knowledge_base(tmp_path: Path) -> None:
    seeds = seed_of(tmp_path / "theirs", 1)
    with (
        open_database(base(tmp_path / "one.db", inspection(3))) as one,
        open_database(base(tmp_path / "two.db", inspection(3))) as two,
    ):
        assert load_seeds(one, seeds) == 1
        seed_of(tmp_path / "theirs", 1, 2)
        assert [load_seeds(one, seeds), load_seeds(two, seeds)] == [1, 2]


def test_a_file_that_is_only_read_is_left_as_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seeds, path = seed_of(tmp_path / "theirs", 1), tmp_path / "mine.db"
    base(path, inspection(3))
    before = path.read_bytes()
    monkeypatch.setattr("stackgen.knowledge.database.is_writable", lambda _: False)
    with open_database(path, reading=True) as database:
        assert load_seeds(database, seeds) == 0
    assert path.read_bytes() == before


def test_a_damaged_seed_changes_nothing(tmp_path: Path) -> None:
    seeds = seed_of(tmp_path / "theirs", 1)
    export = gzip.decompress((seeds / "seed.jsonl.gz").read_bytes())
    (seeds / "seed.jsonl.gz").write_bytes(
        gzip.compress(export.replace(b'"loops":4', b'"loops":-4'))
    )
    with open_database(base(tmp_path / "mine.db", inspection(3))) as database:
        with pytest.raises(DatabaseError, match="loops"):
            load_seeds(database, seeds)
        assert len(database.inspections()) == 1


@pytest.mark.parametrize("name", ["missing", "file"])
def test_seeds_in_what_is_no_folder_are_reported(tmp_path: Path, name: str) -> None:
    (tmp_path / "file").write_text("")
    notes: list[str] = []
    with open_database(base(tmp_path / "mine.db", inspection(3))) as database:
        load_shipped(database, tmp_path / name, notify=notes.append)
        load_shipped(database, None, notify=notes.append)
    (note,) = notes
    assert f"{tmp_path / name} is no folder" in note


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({}, shipped_folder("kb") / "seed"),
        ({"STACKGEN_SEED": ""}, None),
        ({"STACKGEN_SEED": "ours"}, Path("ours")),
    ],
)
def test_a_variable_names_another_folder_or_none(
    tmp_path: Path, environ: dict[str, str], expected: Path | None
) -> None:
    own = {"STACKGEN_KB": str(tmp_path / "kb.db"), "STACKGEN_CACHE": str(tmp_path)}
    assert find_paths(own | environ).seeds == expected


def test_what_is_shipped_is_small_valid_and_public(tmp_path: Path) -> None:
    seeds = shipped_folder("kb") / "seed"
    files = [each for each in seeds.glob("*") if each.suffix != ".md"]
    assert sum(each.stat().st_size for each in files) <= LIMIT
    with open_database(tmp_path / "kb.db") as database:
        load_seeds(database, seeds)
        exported, whole = list(database.export(Redaction())), list(database.export())
    assert exported[1:] == whole[1:]  # after the line that says whether it is public
    for private in ("://", "/home/", f"{Path.home()}/", "/tmp/", "HOME"):
        assert private not in "".join(exported)
