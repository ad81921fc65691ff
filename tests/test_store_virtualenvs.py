"""Virtualenvs take room like everything else: it is counted once, won back, and checked."""

import os
import random
from pathlib import Path

import pytest

from stackgen.campaign.prepare import disk_space_for, estimate
from stackgen.images.maintenance import check_virtualenvs, prune
from stackgen.images.virtualenvs import VirtualenvBuilder, VirtualenvStore
from stackgen.index import IndexConfig, PackageIndex
from stackgen.index.config import location
from stackgen.model.packages import Artifact, Lock
from stackgen.model.reports.images import FaultKind, ItemKind, StoreItem
from stackgen.model.stacks import Environment
from stackgen.storage.paths import Paths
from stackgen.storage.wheels import WheelStore
from tests.laboratory import Laboratory
from tests.store_parts import NoDownloader, another_process
from tests.test_virtualenvs import BASE, LIST, Bench, printed, wheel
from tests.tiny_index import make_wheel, serving

KINDS = (ItemKind.VIRTUALENV, ItemKind.UNPACKED, ItemKind.BYTECODE)


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def store(bench: Bench) -> VirtualenvStore:
    return VirtualenvStore(bench.root)


def built(bench: Bench, *names: str) -> Environment:
    """Build a stack; that its wheels are of some size makes sharing them count."""
    source = f"TEXT = '{'x' * 300_000}'\n"
    environment = bench.build(
        bench.stack(*(wheel(bench.wheels, name, "1.0", source) for name in names))
    )
    bench.builder = VirtualenvBuilder(root=bench.root)  # the process that built it has ended
    return environment


def aged(environment: Environment, at: float) -> None:
    """Say that a virtualenv was last used at that time."""
    os.utime(Path(environment.location, ".complete"), (at, at))


def on_disk(bench: Bench) -> int:
    """Return the bytes below all that is counted, each inode once, as `du` counts them."""
    folders = [bench.root / "environments", bench.root / "bytecode", bench.root / "uv"]
    found = {}
    for folder in folders:
        for path in folder.rglob("*"):
            if not path.is_relative_to(folder / "wheels-v8"):
                status = path.lstat()
                found[status.st_ino] = status.st_blocks * 512
    return sum(found.values())


def kinds(items: tuple[StoreItem, ...]) -> list[ItemKind]:
    return [item.kind for item in items]


def test_what_is_shared_is_counted_once(bench: Bench) -> None:
    one = built(bench, "aa", "bb")
    total = sum(item.size for item in store(bench).items())
    built(bench, "aa", "cc")
    more = sum(item.size for item in store(bench).items()) - total
    assert 600_000 < more < 1_500_000  # cc and its bytecode; aa is there
    (own,) = (i for i in store(bench).items() if i.path == one.location)
    assert own.size < 600_000
    assert {item.kind for item in store(bench).items()} == set(KINDS)


@pytest.mark.parametrize(
    "share", [0.2, *(pytest.param(s, marks=pytest.mark.thorough) for s in (0.5, 0.8))]
)
def test_what_pruning_says_it_won_is_won(bench: Bench, share: float) -> None:
    for at, names in enumerate([("aa", "bb"), ("aa", "cc"), ("dd",)]):
        aged(built(bench, *names), 1000 * (at + 1))
    before = on_disk(bench)
    total = sum(item.size for item in store(bench).items())
    reported = prune([store(bench)], keep_bytes=int(total * share), dry_run=True)
    assert on_disk(bench) == before
    found = prune([store(bench)], keep_bytes=int(total * share))
    assert (found.dropped, found.in_use) == (reported.dropped, ())
    assert found.remaining_bytes <= total * share
    assert sum(item.size for item in store(bench).items()) == found.remaining_bytes
    housekeeping = 200_000  # folders that hold nothing any more, and uv's own notes
    won = before - on_disk(bench)
    assert abs(won - sum(item.size for item in found.dropped)) < housekeeping


def test_the_least_recently_used_goes_first_and_what_it_alone_linked_with_it(bench: Bench) -> None:
    old, young = built(bench, "aa", "bb"), built(bench, "aa", "cc")
    aged(old, 1000)
    aged(young, 2000)
    items = sorted(store(bench).items(), key=lambda item: item.used_at)
    lonely = {ItemKind.UNPACKED, ItemKind.BYTECODE}
    assert items[0].path == old.location
    assert set(kinds(tuple(items[1:3]))) == lonely  # bb
    assert items[3].path == young.location
    keep = sum(item.size for item in items[3:])
    found = prune([store(bench)], keep_bytes=keep)
    assert {item.path for item in found.dropped} == {item.path for item in items[:3]}
    assert printed(young, LIST) == "[('aa', '1.0'), ('cc', '1.0')]"


def test_a_wheel_of_the_store_is_unpacked_once_however_often_it_is_used(
    bench: Bench, tmp_path: Path
) -> None:
    one, two = (wheel(bench.wheels, name, "1.0") for name in ("aa", "bb"))
    for artifacts in ([one], [one, two]):
        wheels = WheelStore(tmp_path)
        paths = wheels.fetch(artifacts, downloader=NoDownloader())
        bench.builder.build(bench.stack(*artifacts), BASE, paths)
    assert len(store(bench).unpacked()) == 2


def test_use_makes_a_virtualenv_young_again(bench: Bench) -> None:
    old, young = built(bench, "aa"), built(bench, "bb")
    aged(old, 1000)
    aged(young, 2000)
    built(bench, "aa")
    found = prune([store(bench)], keep_bytes=0, dry_run=True)
    paths = [item.path for item in found.dropped]
    assert paths.index(young.location) < paths.index(old.location)


def test_what_was_pruned_is_made_again(bench: Bench) -> None:
    built(bench, "aa", "bb")
    prune([store(bench)], keep_bytes=0)
    assert list(store(bench).items()) == []
    assert printed(built(bench, "aa", "bb"), LIST) == "[('aa', '1.0'), ('bb', '1.0')]"
    assert check_virtualenvs(store(bench)) == (1, ())


USER = """
import sys
from pathlib import Path
from tests.test_virtualenvs import Bench, artifact_at
bench = Bench(Path(sys.argv[1]))
bench.build(bench.stack(artifact_at(bench.wheels / sys.argv[2])))
print("using", flush=True)
sys.stdin.read()
"""


def test_a_virtualenv_that_another_process_uses_stays_with_all_that_it_links(
    bench: Bench, tmp_path: Path
) -> None:
    used = built(bench, "aa")
    idle = built(bench, "bb")
    with another_process(USER, tmp_path, "aa-1.0-py3-none-any.whl") as user:
        assert user.stdout is not None
        assert user.stdout.readline() == "using\n"
        found = prune([store(bench)], keep_bytes=0)
        assert sorted(kinds(found.in_use), key=KINDS.index) == list(KINDS)
        assert not Path(idle.location).exists()
        assert printed(used, LIST) == "[('aa', '1.0')]"
        Path(used.python).unlink()  # what is damaged, but used, stays, too
        assert [fault.removed for fault in check_virtualenvs(store(bench), repair=True)[1]] == [
            False
        ]
    again = prune([store(bench)], keep_bytes=0)
    assert sorted(kinds(again.dropped), key=KINDS.index) == list(KINDS)


def test_what_is_not_as_its_record_says_is_found_and_made_anew(bench: Bench) -> None:
    environment = built(bench, "aa")
    (module,) = Path(environment.location).glob("lib/*/site-packages/aa.py")
    assert check_virtualenvs(store(bench)) == (1, ())
    os.chmod(module, 0o644)  # noqa: PTH101
    with module.open("r+b") as file:  # as an indicator that writes where it should not
        file.seek(1000)
        file.write(b"y")
    whole, faults = check_virtualenvs(store(bench))
    assert whole == 0
    assert {fault.kind for fault in faults} == {FaultKind.DAMAGED}
    assert len(faults) == 2  # what uv unpacked is the same file
    assert any("aa.py" in fault.why for fault in faults)
    assert all(fault.removed for fault in check_virtualenvs(store(bench), repair=True)[1])
    built(bench, "aa")
    assert check_virtualenvs(store(bench)) == (1, ())


def test_a_file_that_went_is_missed(bench: Bench) -> None:
    environment = built(bench, "aa")
    next(Path(environment.location).glob("lib/*/site-packages/aa.py")).unlink()
    ((fault,),) = (check_virtualenvs(store(bench))[1],)
    assert (fault.kind, fault.path) == (FaultKind.DAMAGED, environment.location)


def test_two_packages_may_bring_the_same_file(bench: Bench) -> None:
    one = wheel(bench.wheels, "aa", "1.0", "x = 1\n", also={"tests/__init__.py": "a = 1\n"})
    two = wheel(bench.wheels, "bb", "1.0", "x = 1\n", also={"tests/__init__.py": "b = 2\n"})
    bench.build(bench.stack(one, two))
    assert check_virtualenvs(store(bench)) == (1, ())


def test_what_killed_builds_left_is_no_damage_and_can_be_removed(bench: Bench) -> None:
    whole, half, lost = built(bench, "aa"), built(bench, "bb"), built(bench, "cc")
    Path(half.location, ".complete").unlink()
    Path(lost.python).unlink()
    (next(bench.root.glob("bytecode/*")) / ".part-killed").mkdir()
    (bench.root / "uv" / ".tmpkilled").mkdir()
    count, faults = check_virtualenvs(store(bench))
    assert (count, len(faults)) == (1, 4)
    assert {fault.kind for fault in faults} == {FaultKind.LEFT_OVER}
    assert all(fault.removed for fault in check_virtualenvs(store(bench), repair=True)[1])
    assert check_virtualenvs(store(bench)) == (1, ())
    assert printed(whole, LIST) == "[('aa', '1.0')]"


def test_the_commands_prune_and_check_virtualenvs(tmp_path: Path) -> None:
    laboratory = Laboratory(root=tmp_path, index="")
    bench = Bench(tmp_path)
    bench.root = Path(laboratory.environ["STACKGEN_CACHE"]) / "virtualenvs"
    bench.builder = VirtualenvBuilder(root=bench.root)
    built(bench, "aa")
    assert "1 virtualenv." in laboratory.run("images", "fsck").stdout
    reported = laboratory.run("images", "prune", "--keep", "0", "--dry-run").stdout
    assert "Would remove 1 virtualenv, 1 unpacked wheel, 1 compiled wheel" in reported
    reported = laboratory.run("images", "prune", "--keep", "0").stdout
    assert "Removed 1 virtualenv, 1 unpacked wheel, 1 compiled wheel" in reported
    assert not list(bench.root.glob("environments/*"))


def test_the_estimate_of_new_bytes_knows_what_is_there(bench: Bench, tmp_path: Path) -> None:
    folders = Paths(cache=tmp_path / "cache", knowledge=tmp_path / "kb.db")
    bench.root = folders.cache / "virtualenvs"
    bench.builder = VirtualenvBuilder(root=bench.root)
    source = f"TEXT = '{'x' * 2_000_000}'\n"
    one, two = (wheel(bench.wheels, name, "1.0", source) for name in ("aa", "bb"))
    first, second = Lock(artifacts=(one,)), Lock(artifacts=(one, two))

    def needed(*locks: Lock) -> int:
        return disk_space_for(locks, BASE, paths=folders, downloads={})

    wheels = WheelStore(folders.cache)
    paths = wheels.fetch((one, two), downloader=NoDownloader())
    assert 4_000_000 < needed(first) < 6_000_000  # with bytecode, though no download is left
    assert needed(first, second) < 2 * needed(first) + 1_500_000  # what both hold counts once
    bench.builder.build(bench.stack(one), BASE, paths)
    assert needed(first) == 0
    assert 4_000_000 < needed(second) < 6_500_000
    bench.builder.build(bench.stack(one, two), BASE, paths)
    assert needed(first, second) == 0


def test_a_wheel_without_python_files_is_there_for_further_stacks(
    bench: Bench, tmp_path: Path
) -> None:
    """CUDA's libraries are such wheels: they made stacks that were there need gigabytes."""
    folders = Paths(cache=tmp_path / "cache", knowledge=tmp_path / "kb.db")
    bench.root = folders.cache / "virtualenvs"
    bench.builder = VirtualenvBuilder(root=bench.root)
    library = wheel(bench.wheels, "cuda", "1.0", None, also={"cuda/data.bin": "x" * 2_000_000})
    module = wheel(bench.wheels, "aa", "1.0")
    paths = WheelStore(folders.cache).fetch((library, module), downloader=NoDownloader())

    def needed(*artifacts: Artifact) -> int:
        lock = Lock(artifacts=artifacts)
        return disk_space_for([lock], BASE, paths=folders, downloads={})

    assert needed(library) > 2_000_000
    bench.builder.build(bench.stack(library), BASE, paths)
    assert needed(library) == 0
    assert needed(module, library) < 1_500_000


@pytest.mark.parametrize("ranges", [True, False])
def test_the_estimate_of_a_large_wheel_counts_what_is_in_it(tmp_path: Path, ranges: bool) -> None:
    folders = Paths(cache=tmp_path / "cache", knowledge=tmp_path / "kb.db")
    name = "aa-1.0-py3-none-any.whl"
    library = random.Random(1).randbytes(51 << 20)
    with serving() as server:
        server.ranges = ranges
        server.add(name, make_wheel("aa", members={"aa/cuda.so": library}))
        config = IndexConfig(indexes=(location(server.simple),))
        with PackageIndex(config, folders.cache) as index:
            (artifact,) = index.candidates("aa")
            found = estimate(
                (Lock(artifacts=(artifact,)),), BASE, first=1, index=index,
                store=WheelStore(folders.cache), paths=folders,
            )  # fmt: skip
    assert 53e6 < found.download_bytes < 55e6
    low, high = (106e6, 110e6) if ranges else (230e6, 250e6)  # download, and what is installed
    assert low < found.disk_bytes < high
