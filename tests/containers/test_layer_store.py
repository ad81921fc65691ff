"""A layer is the same bytes everywhere, holds what the wheel promised, and nothing else."""

import errno
import io
import marshal
import os
import stat
import subprocess
import sys
import tarfile
import zipfile
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from stackgen.errors import BuildError, DamagedLayersError, StorageError
from stackgen.images import bytecode
from stackgen.images.layer_store import LayerStore
from stackgen.images.layers import Layer
from stackgen.model.packages import Artifact
from stackgen.model.stacks import Base
from tests.containers.wheels import a_base, make_wheel
from tests.store_parts import NoCompiler

SITE = f"opt/stack/lib/python3.{sys.version_info.minor}/site-packages"
HOUSEKEEPING = {"in-work", "in-use"}
BASE = a_base(version=".".join(str(part) for part in sys.version_info[:3]))


@dataclass
class HereCompiler(NoCompiler):
    """Byte-compiles with the interpreter of the tests, and counts."""

    runs: list[Path] = field(default_factory=list)

    def compile(self, base: Base, staging: Path) -> None:  # noqa: ARG002 # of this very Python
        self.runs.append(staging)
        text = Path(bytecode.__file__).read_text()
        command = [sys.executable, "-s", "-S", "-W", "ignore", "-c", text, str(staging), "2"]
        subprocess.run(command, check=True, env={"PYTHONHASHSEED": "0"})


def layer_of(store: LayerStore, pair: tuple[Artifact, Path]) -> Layer:
    return store.layers(BASE, [pair], HereCompiler())[pair[0].sha256]


def members(layer: Layer) -> dict[str, tarfile.TarInfo]:
    with tarfile.open(layer.path) as archive:
        return {entry.name: entry for entry in archive}


def content(layer: Layer, name: str) -> bytes:
    with tarfile.open(layer.path) as archive:
        file = archive.extractfile(name)
        assert file is not None
        return file.read()


@pytest.fixture
def store(tmp_path: Path) -> LayerStore:
    return LayerStore(tmp_path / "store")


SOURCES = {
    "many.py": "NAMES = {'x', 'y', 'z'}\ndef f(a, b=('numpy', 1.5)):\n    return a in NAMES, b\n",
    "tool.data": "plain",
    "deep/er/mod.py": "import many\n",
    "pkg-1.0.dist-info/entry_points.txt": "[console_scripts]\npkg = many:f\n",
    "pkg-1.0.data/scripts/old": "#!python\nprint(1)\n",
}


OTHER = {"many.py": "SHARED = ('numpy', 'x', 'y', 'f')\n"}


def test_a_layer_does_not_depend_on_the_wheels_that_are_compiled_with_it(
    tmp_path: Path, store: LayerStore
) -> None:
    pair, other = make_wheel(tmp_path, "pkg", SOURCES), make_wheel(tmp_path, "aaa", OTHER)
    alone = layer_of(store, pair)
    together = LayerStore(tmp_path / "2").layers(BASE, [other, pair], HereCompiler())
    assert together[pair[0].sha256].diff_id == alone.diff_id


def test_a_layer_has_no_owner_no_time_and_no_path_of_the_host(
    tmp_path: Path, store: LayerStore
) -> None:
    layer = layer_of(store, make_wheel(tmp_path, "pkg", SOURCES))
    found = members(layer).values()
    assert {(entry.uid, entry.gid, entry.uname) for entry in found} == {(0, 0, "")}
    assert len({entry.mtime for entry in found}) == 1
    assert {entry.mode for entry in found} <= {0o755, 0o644}
    assert str(tmp_path).encode() not in layer.path.read_bytes()


def test_scripts_run_the_interpreter_of_the_stack(tmp_path: Path, store: LayerStore) -> None:
    layer = layer_of(store, make_wheel(tmp_path, "pkg", SOURCES))
    for script in ("opt/stack/bin/pkg", "opt/stack/bin/old"):
        assert content(layer, script).startswith(b"#!/opt/stack/bin/python\n")
        assert members(layer)[script].mode & stat.S_IXUSR


def test_a_script_that_an_entry_point_makes_anew_is_left_out(
    tmp_path: Path, store: LayerStore
) -> None:
    old = {"pkg-1.0.data/scripts/pkg": "#!python\nimport pkg_resources\n"}
    layer = layer_of(store, make_wheel(tmp_path, "pkg", {**SOURCES, **old}))
    assert b"from many import f" in content(layer, "opt/stack/bin/pkg")
    record = content(layer, f"{SITE}/pkg-1.0.dist-info/RECORD").decode()
    assert record.count("bin/pkg,") == 1


def test_headers_lie_where_virtualenvs_have_them_however_the_wheel_spells_its_name(
    tmp_path: Path, store: LayerStore
) -> None:
    layer = layer_of(
        store, make_wheel(tmp_path, "Odd_Pkg", {"Odd_Pkg-1.0.data/headers/odd.h": "x"})
    )
    python = Path(SITE).parent.name
    assert f"opt/stack/include/site/{python}/odd-pkg/odd.h" in members(layer)


def test_bytecode_is_not_checked_against_times_and_names_the_final_path(
    tmp_path: Path, store: LayerStore
) -> None:
    layer = layer_of(store, make_wheel(tmp_path, "pkg", SOURCES))
    tag = sys.implementation.cache_tag
    compiled = content(layer, f"{SITE}/deep/er/__pycache__/mod.{tag}.pyc")
    assert compiled[4:8] == bytes([1, 0, 0, 0])
    assert marshal.loads(compiled[16:]).co_filename == f"/{SITE}/deep/er/mod.py"  # noqa: S302


def test_a_source_for_another_python_is_kept_without_bytecode(
    tmp_path: Path, store: LayerStore
) -> None:
    layer = layer_of(store, make_wheel(tmp_path, "pkg", {"old.py": "print 'two'\n", "z.py": "1\n"}))
    names = members(layer).keys()
    assert f"{SITE}/old.py" in names
    assert not any("__pycache__/old." in name for name in names)
    assert any("__pycache__/z." in name for name in names)


def test_record_lists_what_the_wheel_brought(tmp_path: Path, store: LayerStore) -> None:
    layer = layer_of(store, make_wheel(tmp_path, "pkg", SOURCES))
    record = content(layer, f"{SITE}/pkg-1.0.dist-info/RECORD").decode()
    listed = {line.split(",")[0] for line in record.splitlines()}
    assert {"many.py", "deep/er/mod.py", "../../../bin/pkg", "../../../bin/old"} <= listed


def special(name: str, kind: int) -> zipfile.ZipInfo:
    entry = zipfile.ZipInfo(name)
    entry.external_attr = (kind | 0o644) << 16
    return entry


@pytest.mark.parametrize(
    "name",
    ["../evil.py", "/etc/evil", "a/../../evil", "a\\..\\evil", ".wh.many.py", "a/.wh..wh..opq"],
)
def test_a_member_that_reaches_out_of_its_layer_is_refused_by_name(
    tmp_path: Path, store: LayerStore, name: str
) -> None:
    pair = make_wheel(tmp_path, "pkg", raw={special(name, stat.S_IFREG): "x"})
    with pytest.raises(BuildError, match=r"pkg-1\.0-py3-none-any\.whl") as refusal:
        layer_of(store, pair)
    assert repr(name) in refusal.value.why


@pytest.mark.parametrize("kind", [stat.S_IFLNK, stat.S_IFCHR, stat.S_IFIFO])
def test_links_and_devices_are_refused(tmp_path: Path, store: LayerStore, kind: int) -> None:
    pair = make_wheel(tmp_path, "pkg", raw={special("link", kind): "/etc/passwd"})
    with pytest.raises(BuildError, match="link or a device"):
        layer_of(store, pair)


@pytest.mark.parametrize(
    "files",
    [
        {"pkg-1.0.data/data/pyvenv.cfg": "home = /tmp\n"},
        {"pkg-1.0.data/scripts/python": "#!/bin/sh\n"},
        {"pkg-1.0.dist-info/entry_points.txt": "[console_scripts]\n../../../x = a:b\n"},
        {"pkg-1.0.dist-info/entry_points.txt": "[console_scripts]\npython3 = a:b\n"},
    ],
)
def test_a_wheel_cannot_replace_the_stacks_own_files_or_write_beside_it(
    tmp_path: Path, store: LayerStore, files: dict[str, str]
) -> None:
    with pytest.raises(BuildError, match="refused"):
        layer_of(store, make_wheel(tmp_path, "pkg", files))


def test_a_file_that_contradicts_record_is_refused_by_name(
    tmp_path: Path, store: LayerStore
) -> None:
    with pytest.raises(BuildError, match=r"pkg\.py does not match its digest"):
        layer_of(store, make_wheel(tmp_path, "pkg", lie="pkg.py"))


def test_a_truncated_wheel_is_refused_and_leaves_nothing(tmp_path: Path, store: LayerStore) -> None:
    artifact, path = make_wheel(tmp_path, "pkg", SOURCES)
    path.write_bytes(path.read_bytes()[:-40])
    with pytest.raises(BuildError, match=r"pkg-1\.0"):
        layer_of(store, (artifact, path))
    assert not [found for found in store.root.rglob("*") if found.name not in HOUSEKEEPING]


def test_a_stored_layer_is_not_made_again_and_a_damaged_one_is(
    tmp_path: Path, store: LayerStore
) -> None:
    pair, compiler = make_wheel(tmp_path, "pkg"), HereCompiler()
    first = store.layers(BASE, [pair], compiler)[pair[0].sha256]
    store.layers(BASE, [pair], compiler)
    assert len(compiler.runs) == 1
    os.truncate(first.path, 100)
    again = store.layers(BASE, [pair], compiler)[pair[0].sha256]
    assert len(compiler.runs) == 2
    assert (again.path.stat().st_size, again.diff_id) == (first.size, first.diff_id)


def test_the_tar_of_a_large_layer_goes_once_an_engine_has_it_and_is_made_again_the_same(
    tmp_path: Path,
) -> None:
    store, compiler = LayerStore(tmp_path / "store", large_bytes=1 << 20), HereCompiler()
    large = make_wheel(tmp_path, "large", {"big.txt": "x" * (1 << 20), "mod.py": "X = 1\n"})
    pairs = [large, make_wheel(tmp_path, "small")]
    before = store.layers(BASE, pairs, compiler)
    first, second = (before[artifact.sha256] for artifact, _ in pairs)
    content = first.path.read_bytes()
    other_process = LayerStore(store.root, large_bytes=1 << 20)
    other_process.touch(BASE, [large[0]])
    store.release(before.values())
    assert first.path.exists(), "another process may be about to send it"
    del other_process
    store.release(before.values())
    assert (first.path.exists(), second.path.exists()) == (False, True)
    assert store.missing(BASE, [artifact for artifact, _ in pairs]) == ()
    assert store.leftovers() == ()
    assert store.layers(BASE, pairs, compiler) == before
    assert len(compiler.runs) == 1, "its description is enough, unless it has to be sent again"
    assert store.layers(BASE, pairs, compiler, whole=True) == before
    assert first.path.read_bytes() == content


def test_a_layer_that_is_made_again_and_differs_takes_the_place_of_the_old_one(
    tmp_path: Path,
) -> None:
    store, pair = LayerStore(tmp_path / "store", large_bytes=0), make_wheel(tmp_path, "pkg")
    before = store.layers(BASE, [pair], NoCompiler())
    store.release(before.values())
    with pytest.raises(DamagedLayersError, match="is not what it was"):
        store.layers(BASE, [pair], HereCompiler(), whole=True)
    now = store.layers(BASE, [pair], HereCompiler(), whole=True)
    assert now != before


def test_tests_of_packages_get_no_bytecode(tmp_path: Path, store: LayerStore) -> None:
    names = ["a/tests/test_x.py", "a/tests/deep/test_y.py", "a/tests/tools.py", "a/test_z.py"]
    layer = layer_of(store, make_wheel(tmp_path, "pkg", dict.fromkeys(names, "X = 1\n")))
    found = {Path(name).name.partition(".")[0] for name in members(layer) if name.endswith(".pyc")}
    assert found == {"pkg", "tools", "test_z"}
    assert f"{SITE}/a/tests/test_x.py" in members(layer)


def test_what_a_killed_process_left_is_swept(tmp_path: Path, store: LayerStore) -> None:
    left = store.root / "tmp-killed" / "tree"
    left.mkdir(parents=True)
    layer_of(store, make_wheel(tmp_path, "pkg"))
    assert not left.parent.exists()


def test_a_merged_layer_holds_the_members_of_its_parts(tmp_path: Path, store: LayerStore) -> None:
    parts = [layer_of(store, make_wheel(tmp_path, name)) for name in ("one", "two")]
    merged = store.merged(parts)
    assert members(merged).keys() == members(parts[0]).keys() | members(parts[1]).keys()
    with tarfile.open(merged.path) as archive:
        names = archive.getnames()
    assert sorted(names) == sorted(set(names))  # an engine refuses a name that comes twice
    assert content(merged, f"{SITE}/two.py") == content(parts[1], f"{SITE}/two.py")
    assert store.merged(parts) == merged


def test_the_skeleton_is_a_virtualenv_of_the_bases_interpreter(store: LayerStore) -> None:
    layer = store.skeleton(a_base(python="/usr/local/bin/python3.9", version="3.9.2"))
    found = members(layer)
    assert found["opt/stack/bin/python"].linkname == "/usr/local/bin/python3.9"
    assert found["opt/stack/lib/python3.9/site-packages"].isdir()
    assert b"home = /usr/local/bin\n" in content(layer, "opt/stack/pyvenv.cfg")


def test_a_disk_without_space_is_refused_before_anything_is_unpacked(
    tmp_path: Path, small_disk: Path
) -> None:
    pair = make_wheel(tmp_path, "pkg", {"big.txt": "x" * 2_000_000})
    with pytest.raises(StorageError, match="MiB are needed"):
        layer_of(LayerStore(small_disk), pair)


def test_a_disk_that_fills_up_leaves_the_store_whole(small_disk: Path) -> None:
    store = LayerStore(small_disk)
    with pytest.raises(StorageError, match=os.strerror(errno.ENOSPC)):
        store.add_base_layer("sha256:1", io.BytesIO(bytes(2_000_000)))
    assert store.base_layer("sha256:1") is None
    assert {path.name for path in store.root.rglob("*") if path.is_file()} <= HOUSEKEEPING


def test_bytecode_that_a_wheel_brings_along_is_made_anew(tmp_path: Path, store: LayerStore) -> None:
    tag = sys.implementation.cache_tag
    files = {f"__pycache__/pkg.{tag}.pyc": "not what the interpreter makes"}
    layer = layer_of(store, make_wheel(tmp_path, "pkg", files))
    compiled = content(layer, f"{SITE}/__pycache__/pkg.{tag}.pyc")
    assert compiled[4:8] == bytes([1, 0, 0, 0])
