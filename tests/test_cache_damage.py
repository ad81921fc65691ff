"""A cache that was damaged is repaired where it is used, and no package is blamed for it."""

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from stackgen.errors import DamagedLayersError, StorageError
from stackgen.images.layer_store import LayerStore
from stackgen.index.cache import IndexCache
from stackgen.knowledge.database import open_database
from stackgen.model.inspections import Outcome
from stackgen.model.packages import Artifact
from stackgen.storage.wheels import WheelStore
from tests.containers.wheels import make_wheel
from tests.dying_parts import recorded, serve
from tests.in_process import run_command
from tests.laboratory import INDICATOR, WORK, Laboratory
from tests.local_index import Published, publish
from tests.store_parts import NoDownloader, Stores, local_wheel
from tests.tiny_index import TinyIndex, serving

Damage = Callable[[Path], None]


def flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 3] ^= 1
    path.write_bytes(content)


def truncate(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


def empty(path: Path) -> None:
    os.truncate(path, 0)


def replace_by_another(path: Path) -> None:
    """Put another, sound wheel there, of the same size and with the times of the old one."""
    (folder := path.with_name("other")).mkdir()
    size = path.stat().st_size
    _, other = make_wheel(folder, "other", {"other/x.txt": "x"})
    with other.open("r+b") as file:
        content = file.read()
        file.seek(0)
        file.write(bytes(max(0, size - len(content))) + content[-size:])
    shutil.copystat(path, other)
    other.replace(path)
    folder.rmdir()


def delete(path: Path) -> None:
    path.unlink()


DAMAGES = [flip, truncate, empty, replace_by_another, delete]


@pytest.fixture
def index() -> Iterator[TinyIndex]:
    with serving() as found:
        yield found


def in_the_store(stores: Stores, artifact: Artifact) -> Path:
    (found,) = stores.root.rglob(f"wheels/*/*/{artifact.filename}")
    return found


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("same_process", [True, False])
def test_a_damaged_wheel_is_fetched_again_and_a_note_says_so(
    stores: Stores, tmp_path: Path, damage: Damage, same_process: bool
) -> None:
    wheel = local_wheel(tmp_path / "w", "one")
    notes: list[str] = []
    store = WheelStore(stores.root, notify=notes.append)
    path = store.fetch([wheel], downloader=NoDownloader())[wheel.sha256]
    sound = path.read_bytes()
    damage(path)
    store = store if same_process else WheelStore(stores.root, notify=notes.append)
    assert store.fetch([wheel], downloader=NoDownloader())[wheel.sha256].read_bytes() == sound
    assert [wheel.filename in note for note in notes] == ([] if damage is delete else [True])


def test_a_disk_that_rots_without_a_trace_is_found_out_by_comparing_all_bytes(
    stores: Stores, tmp_path: Path
) -> None:
    wheel = local_wheel(tmp_path / "w", "one")
    store = stores.wheels
    path = store.fetch([wheel], downloader=NoDownloader())[wheel.sha256]
    assert not store.any_damaged([wheel])
    flip(path)
    assert not WheelStore(stores.root).is_whole(wheel)
    (lock,) = stores.root.rglob("*.lock")
    status = path.stat()
    times = f"{status.st_size} {status.st_mtime_ns} {status.st_ctime_ns} {status.st_ino}"
    lock.write_text(times)  # as if nobody had written to it
    store = stores.wheels
    assert store.is_whole(wheel)
    assert store.any_damaged([wheel])
    sound = store.fetch([wheel], downloader=NoDownloader())[wheel.sha256]
    assert not stores.wheels.any_damaged([wheel])
    assert sound == path


@pytest.mark.parametrize("damage", [flip, truncate, empty, replace_by_another])
def test_where_nothing_can_be_fetched_the_file_and_what_to_do_are_named(
    stores: Stores, tmp_path: Path, damage: Damage
) -> None:
    wheel = local_wheel(tmp_path / "w", "one")
    path = stores.wheels.fetch([wheel], downloader=NoDownloader())[wheel.sha256]
    sound = path.read_bytes()
    (tmp_path / "w" / wheel.filename).unlink()
    damage(path)
    with pytest.raises(StorageError) as refusal:
        stores.wheels.fetch([wheel], downloader=NoDownloader())
    assert str(path) in refusal.value.what
    assert "put a sound copy there" in refusal.value.fix
    path.write_bytes(sound)
    assert stores.wheels.fetch([wheel], downloader=NoDownloader())[wheel.sha256] == path


@pytest.mark.parametrize("damage", [flip, truncate, empty, delete])
def test_damaged_layers_are_found_removed_and_made_anew_the_same(
    stores: Stores, tmp_path: Path, damage: Damage
) -> None:
    wheels = [local_wheel(tmp_path / "w", name) for name in ("one", "two")]
    before = stores.build(*wheels)
    notes: list[str] = []
    store = LayerStore(stores.root / "layers", notify=notes.append)
    store.refuse_damaged(before)
    damage(before[0].path)
    with pytest.raises(DamagedLayersError):
        store.refuse_damaged(before)
    assert len(notes) == 1
    assert before[1].path.exists()
    assert stores.build(*wheels) == before


def test_a_damaged_layer_is_not_copied_into_a_merged_one(stores: Stores, tmp_path: Path) -> None:
    wheels = [local_wheel(tmp_path / "w", name) for name in ("one", "two")]
    parts = stores.build(*wheels)
    flip(parts[0].path)
    with pytest.raises(DamagedLayersError):
        stores.layers.merged(parts)
    assert stores.layers.merged(stores.build(*wheels)).path.exists()


@pytest.fixture
def laboratory(index: TinyIndex, tmp_path: Path) -> Laboratory:
    (tmp_path / "work.py").write_text(INDICATOR)
    for version, size in (("2.0", 20_000), ("1.0", 10_000)):
        serve(index, tmp_path / "wheels", version, WORK.format(size=size))
    return Laboratory(root=tmp_path, index=index.simple)


EXPLORE = ("speedy", "--stacks", "2", "--budget", "8s")


def wheel_of(laboratory: Laboratory, version: str) -> Path:
    (found,) = laboratory.root.glob(f"cache/wheels/*/*/speedy-{version}-*.whl")
    return found


def forget_virtualenvs(laboratory: Laboratory) -> None:
    shutil.rmtree(laboratory.root / "cache" / "virtualenvs")


@pytest.mark.journey
def test_an_exploration_with_a_damaged_cache_repairs_it_and_fails_no_stack(
    laboratory: Laboratory,
) -> None:
    laboratory.explore(*EXPLORE)
    forget_virtualenvs(laboratory)
    flip(wheel_of(laboratory, "1.0"))
    truncate(wheel_of(laboratory, "2.0"))
    done = laboratory.explore(*EXPLORE, "--seed", "1")
    assert done.returncode in (0, 3), done.stderr
    assert done.stderr.count("cache was damaged") == 2
    assert {each.outcome for each in recorded(laboratory)} == {Outcome.OK}


@pytest.mark.journey
def test_offline_a_damaged_wheel_ends_an_exploration_and_is_no_outcome(
    laboratory: Laboratory, index: TinyIndex
) -> None:
    laboratory.explore(*EXPLORE)
    forget_virtualenvs(laboratory)
    for version in ("1.0", "2.0"):
        flip(wheel_of(laboratory, version))
    index.files.clear()
    done = laboratory.explore(*EXPLORE, "--offline", "--seed", "1")
    assert done.returncode == StorageError.exit_code, done.stdout + done.stderr
    assert str(wheel_of(laboratory, "2.0")) in done.stderr.replace("\n", "")
    assert {each.outcome for each in recorded(laboratory)} == {Outcome.OK}
    with open_database(laboratory.kb) as database:
        assert {each.outcome for each in database.inspections()} == {Outcome.OK}


def test_an_index_cache_on_a_full_disk_says_so(small_disk: Path, tmp_path: Path) -> None:
    index = publish(tmp_path / "index", {"speedy": {"1.0": Published()}})
    laboratory = Laboratory(root=tmp_path, index=index)
    with suppress(OSError), (small_disk / "ballast").open("wb", buffering=0) as ballast:
        while ballast.write(bytes(4096)):
            pass
    environ = {**laboratory.environ, "STACKGEN_CACHE": str(small_disk)}
    done = run_command("resolve", "speedy", "--count", folder=tmp_path, environ=environ)
    assert (done.returncode, "fix: free disk space" in done.stderr) == (9, True)


def test_an_index_cache_that_cannot_grow_says_so_once(tmp_path: Path) -> None:
    cache = IndexCache(tmp_path / "index.db")
    pages = cache._connection.execute("PRAGMA page_count").fetchone()[0]
    cache._connection.execute(f"PRAGMA max_page_count = {pages}")
    for number in range(3):
        cache.keep_silent({f"key{number}": "x" * 100_000})
    cache.close()
    (note,) = cache.notes
    assert "disk is full" in note
