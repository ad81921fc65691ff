"""Pruning: the least recently used goes, whatever is in use stays."""

import os
import pickle
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stackgen.errors import UsageError
from stackgen.images.maintenance import prune
from stackgen.model.options import parse_size
from stackgen.model.packages import Artifact
from stackgen.model.reports.images import ImageState, ItemKind, Pruned, StoreItem
from stackgen.report.images import pruned_text
from tests.laboratory import Laboratory
from tests.store_parts import Stores, another_process, local_wheel

USER = """
import pickle, sys
from pathlib import Path
from tests.store_parts import Stores, NoDownloader, BASE, NoCompiler
stores, artifact = Stores(Path(sys.argv[1])), pickle.loads(bytes.fromhex(sys.argv[2]))
wheels, layers = stores.wheels, stores.layers
path = wheels.fetch([artifact], downloader=NoDownloader())[artifact.sha256]
layers.layers(BASE, [(artifact, path)], NoCompiler())
print("using", flush=True)
sys.stdin.read()
"""


def wheels_named(folder: Path, *names: str) -> list[Artifact]:
    return [local_wheel(folder, name, kilobytes=10) for name in names]


def aged(stores: Stores, *names: str) -> None:
    """Say that these were last used one after the other, long ago."""
    for store in (stores.wheels, stores.layers):
        for item in store.items():
            if item.name.split("-")[0] in names:
                at = 1000 * (1 + names.index(item.name.split("-")[0]))
                path = Path(item.path)
                os.utime(path.parent if item.kind is ItemKind.WHEEL else path, (at, at))


def names(items: tuple[StoreItem, ...]) -> list[str]:
    return [item.name.split("-")[0] for item in items]


def test_wheels_and_layers_share_one_budget(stores: Stores, tmp_path: Path) -> None:
    stores.build(*wheels_named(tmp_path / "w", "one", "two", "three"))
    aged(stores, "two", "three", "one")
    total = sum(item.size for store in (stores.wheels, stores.layers) for item in store.items())
    found = prune([stores.wheels, stores.layers], keep_bytes=total - 1)
    assert names(found.dropped) == ["two"]
    found = prune([stores.wheels, stores.layers], keep_bytes=found.remaining_bytes // 2)
    assert set(names(found.dropped)) <= {"two", "three"}
    left = [item for store in (stores.wheels, stores.layers) for item in store.items()]
    assert sum(item.size for item in left) == found.remaining_bytes
    assert {"one"} <= {item.name.split("-")[0] for item in left}


def test_use_makes_a_wheel_and_its_layer_young_again(stores: Stores, tmp_path: Path) -> None:
    one, two = wheels_named(tmp_path / "w", "one", "two")
    stores.build(one, two)
    aged(stores, "one", "two")
    stores.build(one)
    found = prune([stores.wheels, stores.layers], keep_bytes=0, dry_run=True)
    assert names(found.dropped) == ["two", "two", "one", "one"]


def test_a_dry_run_removes_nothing(stores: Stores, tmp_path: Path) -> None:
    stores.build(*wheels_named(tmp_path / "w", "one"))
    before = stores.files()
    found = prune([stores.wheels, stores.layers], keep_bytes=0, dry_run=True)
    assert (names(found.dropped), found.remaining_bytes) == (["one", "one"], 0)
    assert stores.files() == before


def test_what_another_process_uses_stays_until_that_is_killed(
    stores: Stores, tmp_path: Path
) -> None:
    used, idle = wheels_named(tmp_path / "w", "used", "idle")
    stores.build(used, idle)
    with another_process(USER, stores.root, pickle.dumps(used).hex()) as user:
        assert user.stdout is not None
        assert user.stdout.readline() == "using\n"
        for dry_run in (True, False):
            found = prune([stores.wheels, stores.layers], keep_bytes=0, dry_run=dry_run)
            assert (set(names(found.dropped)), names(found.in_use)) == ({"idle"}, ["used"] * 2)
        assert found.remaining_bytes == sum(item.size for item in found.in_use)
    again = prune([stores.wheels, stores.layers], keep_bytes=0)
    assert names(again.dropped) == ["used", "used"]
    assert stores.files() == set()


def test_what_was_pruned_comes_again_when_it_is_needed(stores: Stores, tmp_path: Path) -> None:
    (one,) = wheels_named(tmp_path / "w", "one")
    (before,) = stores.build(one)
    prune([stores.wheels, stores.layers], keep_bytes=0)
    assert stores.wheels.missing([one]) == (one,)
    assert stores.build(one) == [before]


def test_unfinished_downloads_take_room_and_go_too(stores: Stores, tmp_path: Path) -> None:
    (one,) = wheels_named(tmp_path / "w", "one")
    part = stores.root / "wheels" / one.sha256[:2] / f"{one.sha256}.part"
    part.parent.mkdir(parents=True)
    part.write_bytes(b"half")
    found = prune([stores.wheels, stores.layers], keep_bytes=3)
    assert [(item.kind, item.size) for item in found.dropped] == [(ItemKind.UNFINISHED, 4)]
    assert stores.files() == set()


def test_processes_that_prune_and_build_at_once_do_not_disturb_each_other(
    stores: Stores, tmp_path: Path
) -> None:
    wheels = wheels_named(tmp_path / "w", *(f"pkg{number}" for number in range(8)))

    def build(number: int) -> None:
        stores.build(*wheels[number:], *wheels[:number])

    def remove(_: int) -> None:
        prune([stores.wheels, stores.layers], keep_bytes=0)

    with ThreadPoolExecutor(8) as pool:
        done = [pool.submit(task, n) for n in range(8) for task in (build, remove, remove)]
        for each in done:
            each.result()
    assert len(stores.build(*wheels)) == 8


@dataclass
class Shelf:
    """Items in memory, some of them used."""

    stored: list[StoreItem]
    used: frozenset[str]
    gone: list[StoreItem] = field(default_factory=list)

    def items(self) -> list[StoreItem]:
        return self.stored

    def drop(self, item: StoreItem, *, dry_run: bool = False) -> bool:
        if item.name in self.used:
            return False
        if not dry_run:
            self.gone.append(item)
        return True


sizes_and_times = st.lists(st.tuples(st.integers(1, 100), st.integers(0, 9)), max_size=12)


@given(sizes_and_times, st.integers(0, 600), st.sets(st.integers(0, 11)))
def test_no_more_goes_than_must_and_the_oldest_go_first(
    shapes: list[tuple[int, int]], keep: int, used: set[int]
) -> None:
    items = [
        StoreItem(kind=ItemKind.WHEEL, name=str(n), path=f"{n:02}", size=size, used_at=at)
        for n, (size, at) in enumerate(shapes)
    ]
    shelf = Shelf(items, frozenset(map(str, used)))
    found = prune([shelf], keep_bytes=keep)
    assert list(found.dropped) == shelf.gone
    assert found.remaining_bytes == sum(x.size for x in items) - sum(x.size for x in found.dropped)
    free = sorted((x for x in items if x.name not in shelf.used), key=lambda x: (x.used_at, x.path))
    assert list(found.dropped) == free[: len(found.dropped)]
    if found.remaining_bytes > keep:
        assert found.dropped == tuple(free)
    if found.dropped:
        assert found.remaining_bytes + found.dropped[-1].size > keep


@pytest.mark.parametrize(
    ("text", "size"),
    [("0", 0), ("20GB", 20 * 10**9), ("1.5 TB", 1500 * 10**9), ("512MiB", 2**29), ("7k", 7000)],
)
def test_a_size_is_read_as_people_write_it(text: str, size: int) -> None:
    assert parse_size(text) == size


@pytest.mark.parametrize("text", ["", "GB", "-1GB", "20 parsecs", "20i", "1e9"])
def test_what_is_no_size_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="cannot read the size") as refused:
        parse_size(text)
    assert "--" not in refused.value.fix  # limits and budgets are sizes too, of other options


def test_the_command_prunes_and_reports(tmp_path: Path) -> None:
    laboratory = Laboratory(root=tmp_path, index="")
    stores = Stores(Path(laboratory.environ["STACKGEN_CACHE"]))
    stores.build(*wheels_named(tmp_path / "w", "one"))
    reported = laboratory.run("images", "prune", "--keep", "0", "--dry-run").stdout
    assert "Would remove 1 wheel, 1 layer" in reported
    assert "one-1.0-py3-none-any.whl" in reported
    reported = laboratory.run("images", "prune", "--keep", "1kB").stdout
    assert "Removed 1 wheel, 1 layer" in reported
    assert "; 0.0 MB stay." in reported
    assert stores.files() == set()


def test_the_command_removes_nothing_by_default(tmp_path: Path) -> None:
    done = Laboratory(root=tmp_path, index="").run("images", "prune")
    assert done.returncode == 2
    assert "--keep 20GB" in done.stderr


def test_images_that_stay_are_distinguished() -> None:
    image = ImageState(
        image_id="sha256:0123456789abcdef", packages="a==1", size=10**9, used_at="2026-01-01"
    )
    reported = pruned_text(Pruned(store=None, images=(), images_in_use=(image,), dry_run=False))
    assert reported.splitlines()[:2] == [
        "Removed 0 images.",
        "1 image stayed: in use, or with a name of your own.",
    ]
