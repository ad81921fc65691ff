"""Several build on one store at once: what is different side by side, what is equal once."""

import shutil
import subprocess
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest

from stackgen.images.layer_store import Staging
from stackgen.images.maintenance import check
from stackgen.model.packages import Artifact
from stackgen.model.stacks import Base
from stackgen.storage.leases import Leases
from tests.store_parts import (
    BASE,
    NoCompiler,
    NoDownloader,
    Stores,
    another_process,
    local_wheel,
    running,
    until,
)


@pytest.fixture
def wheels(tmp_path: Path) -> list[Artifact]:
    return [local_wheel(tmp_path / "w", name) for name in ("one", "two", "three")]


@dataclass
class Patient(NoCompiler):
    """Notes what it is asked to compile, by whatever process, and waits for a word."""

    folder: Path

    def compile(self, base: Base, staging: Path) -> None:  # noqa: ARG002
        with (self.folder / "notes").open("a") as file:
            file.writelines(f"{tree.name}\n" for tree in sorted(staging.iterdir()))
        while not (self.folder / "go").exists():
            time.sleep(0.005)


def building(root: Path, folder: Path, *artifacts: Artifact) -> None:
    Stores(root).build(*artifacts, compiler=Patient(folder))


def noted(folder: Path) -> list[str]:
    notes = folder / "notes"
    return notes.read_text().split() if notes.exists() else []


@contextmanager
def at_work(
    stores: Stores, folder: Path, *artifacts: Artifact
) -> "Iterator[subprocess.Popen[str]]":
    """Have another process build; it waits in the middle of it."""
    with running(partial(building, stores.root, folder, *artifacts)) as process:
        until(lambda: noted(folder))
        yield process


def test_different_wheels_are_built_at_the_same_time(
    stores: Stores, wheels: list[Artifact], tmp_path: Path
) -> None:
    one, two, three = wheels
    with at_work(stores, tmp_path, one) as other:
        stores.build(two, three)
        assert other.poll() is None
        assert check(stores.wheels, stores.layers).layers == 2
        (tmp_path / "go").touch()
        assert other.wait(60) == 0
    assert check(stores.wheels, stores.layers).layers == 3


def test_what_another_process_is_making_is_waited_for_and_made_once(
    stores: Stores, wheels: list[Artifact], tmp_path: Path
) -> None:
    one, two, three = wheels
    mine = NoCompiler()
    with at_work(stores, tmp_path, one, two) as other, ThreadPoolExecutor(1) as pool:
        both = pool.submit(stores.build, two, three, compiler=mine)
        until(lambda: mine.requested)
        assert not both.done()
        (tmp_path / "go").touch()
        assert len(both.result(60)) == 2
        assert other.wait(60) == 0
    assert mine.requested == [frozenset({three.sha256})]
    assert noted(tmp_path) == sorted([one.sha256, two.sha256])


def test_what_a_killed_process_was_making_is_made_by_who_waits_for_it(
    stores: Stores, wheels: list[Artifact], tmp_path: Path
) -> None:
    mine = NoCompiler()
    with at_work(stores, tmp_path, *wheels[:2]) as other, ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(stores.build, *wheels, compiler=mine)
        until(lambda: len(mine.requested) == 1)
        other.kill()
        assert len(waiting.result(60)) == 3
    requested = [wheels[2].sha256], [wheels[0].sha256, wheels[1].sha256]
    assert [sorted(each) for each in mine.requested] == [sorted(each) for each in requested]
    assert check(stores.wheels, stores.layers, repair=True).exit_code == 0
    assert not list(stores.root.glob("layers/tmp-*"))


@pytest.mark.parametrize("ended", [False, True], ids=["in time", "of another thread"])
def test_folders_that_are_removed_aside_are_gone_with_the_context(
    stores: Stores, wheels: list[Artifact], ended: bool
) -> None:
    layers, fetcher = stores.layers, stores.wheels
    fetched = fetcher.fetch(wheels, downloader=NoDownloader())
    pairs = [(each, fetched[each.sha256]) for each in wheels]
    with ExitStack() as context:

        class Compiler(NoCompiler):
            def compile(self, base: Base, staging: Path) -> None:
                super().compile(base, staging)
                if ended:
                    context.close()

        context.enter_context(layers.removing_aside())
        assert len(layers.layers(BASE, pairs, Compiler())) == len(wheels)
    assert not list(stores.root.glob("layers/tmp-*"))


def test_two_threads_of_one_process_build_side_by_side_and_make_nothing_twice(
    stores: Stores, wheels: list[Artifact], tmp_path: Path
) -> None:
    store, patient, mine = stores.layers, Patient(folder=tmp_path), NoCompiler()
    shelf = stores.wheels
    fetched = shelf.fetch(wheels, downloader=NoDownloader())
    pairs = [(wheel, fetched[wheel.sha256]) for wheel in wheels]
    with ThreadPoolExecutor(2) as pool:
        slow = pool.submit(store.layers, BASE, pairs[:2], patient)
        until(lambda: noted(tmp_path))
        assert len(store.layers(BASE, pairs[2:], mine)) == 1
        same = pool.submit(store.layers, BASE, pairs, mine)
        assert not slow.done()
        (tmp_path / "go").touch()
        assert len(slow.result(60)) == 2
        assert len(same.result(60)) == 3
    assert mine.requested == [frozenset({wheels[2].sha256})]


def test_the_folder_of_a_living_process_is_not_removed(
    stores: Stores, wheels: list[Artifact], tmp_path: Path
) -> None:
    with at_work(stores, tmp_path, wheels[0]) as other:
        check(stores.wheels, stores.layers, repair=True)
        stores.build(wheels[1])  # sweeps first
        assert len(list(stores.root.glob("layers/tmp-*"))) == 1
        (tmp_path / "go").touch()
        assert other.wait(60) == 0
    assert check(stores.wheels, stores.layers).faults == ()


RESERVE = """
import sys
from pathlib import Path
from stackgen.images.layer_store import Staging
from stackgen.storage.leases import Leases
root = Path(sys.argv[1])
leases = Leases(root)
with leases.locks() as locks, Staging(root=root, leases=leases).folder(locks, int(sys.argv[2])):
    print("there", flush=True)
    sys.stdin.read()
"""


def test_room_that_another_process_needs_is_not_promised_twice(tmp_path: Path) -> None:
    leases = Leases(tmp_path)
    staging = Staging(root=tmp_path, leases=leases)
    most = int(shutil.disk_usage(tmp_path).free * 0.6)
    with another_process(RESERVE, tmp_path, most) as other, leases.locks() as locks:
        assert other.stdout is not None
        assert other.stdout.readline() == "there\n"
        with pytest.raises(OSError, match="of which others need"), staging.folder(locks, most):
            pass
        with staging.folder(locks, most // 6):
            pass
        other.kill()
        other.wait()
        with staging.folder(locks, most):  # what it left does not count
            pass
    assert len(staging.sweep()) == 1


def test_a_store_that_can_only_be_read_is_said_to_be_so(tmp_path: Path) -> None:
    (tmp_path / "in-use").mkdir()  # opened for reading alone, whoever asks: also by root
    with pytest.raises(PermissionError, match="Permission denied"), Leases(tmp_path).claim("a"):
        pass
