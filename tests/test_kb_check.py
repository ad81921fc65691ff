"""``stackgen kb check`` and ``kb merge`` as commands."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from stackgen.knowledge.database import open_database
from tests.knowledge import samples
from tests.laboratory import Laboratory


@pytest.fixture
def laboratory(tmp_path: Path) -> Laboratory:
    found = Laboratory(root=tmp_path, index=tmp_path.as_uri())
    samples.base(found.kb, samples.inspection(1), samples.inspection(2))
    return found


def spoil(path: Path) -> None:
    with closing(sqlite3.connect(path)) as raw, raw:
        raw.execute("UPDATE inspection_rows SET samples = '[NaN]' WHERE block = 1")


def test_check_of_a_sound_base_ends_with_0(laboratory: Laboratory) -> None:
    done = laboratory.run("kb", "check")
    assert (done.returncode, done.stdout, done.stderr) == (0, "every row is valid\n", "")


def test_a_row_that_is_not_valid_is_named_and_all_others_are_copied(
    laboratory: Laboratory, tmp_path: Path
) -> None:
    spoil(laboratory.kb)
    bad = samples.inspection(1).id
    failed = laboratory.run("kb", "failures")
    assert (failed.returncode, failed.stdout) == (10, "")
    assert bad in failed.stderr
    assert f"stackgen kb recover {laboratory.kb} NEW.db" in failed.stderr
    listed = laboratory.run("kb", "check")
    assert listed.returncode == 10
    assert f"inspections {bad}: values_s" in listed.stdout
    new = tmp_path / "new.db"
    recovered = laboratory.run("kb", "recover", str(laboratory.kb), str(new))
    assert recovered.stdout == f"1 inspection recovered, 1 row lost or not valid: {new}\n"
    with open_database(new) as database:
        assert database.inspections() == (samples.inspection(2),)
    assert laboratory.run("kb", "failures", "--kb", str(new)).returncode == 0


def test_what_cannot_be_recovered_leaves_no_file(laboratory: Laboratory, tmp_path: Path) -> None:
    damaged, new = tmp_path / "damaged.db", tmp_path / "new.db"
    damaged.write_bytes(b"no database" * 1000)
    assert laboratory.run("kb", "recover", str(damaged), str(new)).returncode == 10
    assert not new.exists()


def test_a_refused_merge_blames_the_other_file(laboratory: Laboratory, tmp_path: Path) -> None:
    other = tmp_path / "other.db"
    with closing(sqlite3.connect(laboratory.kb)) as raw:
        raw.execute("VACUUM INTO ?", (str(other),))
    spoil(other)
    done = laboratory.run("kb", "merge", str(other))
    assert (done.returncode, done.stdout) == (10, "")
    assert f"error: {other} was not merged, and nothing was changed" in done.stderr
    assert str(laboratory.kb) not in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("version", ["banana", "9" * 5000], ids=["word", "endless"])
def test_a_version_that_cannot_be_ordered_is_not_imported(
    laboratory: Laboratory, tmp_path: Path, version: str
) -> None:
    other = tmp_path / "other.db"
    odd = samples.stack(python="3.11", numpy=version)
    with open_database(other) as database:
        samples.prepare(database, odd)
        database.add_inspection(samples.inspection(3, of=odd))
    done = laboratory.run("kb", "merge", str(other))
    assert (done.returncode, done.stdout) == (10, "")
    assert f"version: '{version[:20]}" in done.stderr
    assert "is none of PEP 440" in done.stderr
