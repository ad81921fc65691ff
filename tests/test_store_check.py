"""`images fsck`: damage is found, named and removed; what is sound or in use stays."""

import json
import os
import shutil
from pathlib import Path

import pytest

from stackgen.images.maintenance import check
from stackgen.model.packages import Artifact
from stackgen.model.reports.images import FaultKind, StoreCheck
from tests.laboratory import Laboratory
from tests.store_parts import NoDownloader, Stores, local_wheel


@pytest.fixture
def wheels(tmp_path: Path) -> list[Artifact]:
    return [local_wheel(tmp_path / "w", name) for name in ("one", "two")]


def checked(stores: Stores, *, repair: bool = False) -> StoreCheck:
    return check(stores.wheels, stores.layers, repair=repair)


def flip(path: Path) -> None:
    """Change a byte and nothing else, as a bad disk does."""
    with path.open("r+b") as file:
        file.seek(100)
        byte = file.read(1)
        file.seek(100)
        file.write(bytes([byte[0] ^ 1]))


def test_a_store_that_is_whole_is_clean(stores: Stores, wheels: list[Artifact]) -> None:
    stores.build(*wheels)
    found = checked(stores)
    assert (found.wheels, found.layers, found.faults, found.exit_code) == (2, 2, (), 0)
    on_disk = [item.size for store in (stores.wheels, stores.layers) for item in store.items()]
    assert found.size == sum(on_disk)


def test_no_store_is_clean(stores: Stores) -> None:
    assert checked(stores).exit_code == 0
    assert checked(stores, repair=True).faults == ()


@pytest.mark.parametrize("what", ["wheel", "layer"])
def test_one_wrong_byte_is_found_and_what_it_is_in_is_made_anew(
    stores: Stores, wheels: list[Artifact], what: str
) -> None:
    before = stores.build(*wheels)
    (damaged,) = stores.root.rglob("one-*.whl") if what == "wheel" else [before[0].path]
    flip(damaged)
    found = checked(stores)
    assert [(f.kind, f.path, f.removed) for f in found.faults] == [
        (FaultKind.DAMAGED, str(damaged), False)
    ]
    assert found.faults[0].name == "one-1.0-py3-none-any.whl"
    assert found.exit_code == 9
    assert checked(stores, repair=True).exit_code == 0
    assert stores.build(*wheels) == before
    assert checked(stores).faults == ()


def test_a_layer_that_was_cut_is_damaged(stores: Stores, wheels: list[Artifact]) -> None:
    layer = stores.build(*wheels)[0]
    os.truncate(layer.path, 512)
    assert [fault.kind for fault in checked(stores).faults] == [FaultKind.DAMAGED]


def test_what_killed_processes_left_is_no_damage_and_can_be_removed(
    stores: Stores, wheels: list[Artifact]
) -> None:
    first, second = stores.build(*wheels)
    first.path.with_suffix(".json").unlink()
    second.path.unlink()
    (stores.root / "layers" / "tmp-tree").mkdir()
    (first.path.parent / "tmp-tar").touch()
    shutil.rmtree(next(stores.root.rglob("two-*.whl")).parent)
    next(stores.root.rglob("one-*.whl")).parent.with_name("f" * 64).mkdir()
    found = checked(stores)
    assert {fault.kind for fault in found.faults} == {FaultKind.LEFT_OVER}
    assert {Path(fault.path).name[:4] for fault in found.faults} >= {"tmp-", "ffff"}
    # A layer whose tar is gone, as of those that an engine has, is made from its wheel again.
    assert (len(found.faults), found.exit_code) == (4, 0)
    assert all(fault.removed for fault in checked(stores, repair=True).faults)
    assert checked(stores).faults == ()


def test_a_damaged_wheel_in_use_is_reported_and_stays(
    stores: Stores, wheels: list[Artifact]
) -> None:
    user = stores.wheels
    path = user.fetch(wheels[:1], downloader=NoDownloader())[wheels[0].sha256]
    flip(path)
    found = checked(stores, repair=True)
    assert [(fault.path, fault.removed) for fault in found.faults] == [(str(path), False)]
    assert (path.exists(), found.exit_code) == (True, 9)


def test_the_command_says_what_is_damaged_and_repairs_it(
    tmp_path: Path, wheels: list[Artifact]
) -> None:
    laboratory = Laboratory(root=tmp_path, index="")
    stores = Stores(Path(laboratory.environ["STACKGEN_CACHE"]))
    stores.build(*wheels)
    assert "Whole: 2 wheels and 2 layers" in laboratory.run("images", "fsck").stdout
    flip(next(stores.root.rglob("one-*.whl")))
    done = laboratory.run("images", "fsck")
    assert done.returncode == 9
    assert "damaged: one-1.0-py3-none-any.whl: SHA-256" in done.stdout
    assert "stackgen images fsck --repair" in done.stdout
    done = laboratory.run("images", "fsck", "--repair", "--json")
    assert (done.returncode, json.loads(done.stdout)["faults"][0]["removed"]) == (0, True)
    assert laboratory.run("images", "fsck").returncode == 0
