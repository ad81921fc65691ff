"""No wheel, however it was made, writes outside of its stack, and each refusal names it."""

import os
import stat
import struct
import tarfile
import tempfile
import zipfile
import zlib
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stackgen.errors import BuildError
from stackgen.images.unpack import LayerTar, unpack, unpack_sources
from stackgen.model.packages import Artifact
from stackgen.storage.wheels import check_wheel
from tests.containers.wheels import artifact_of
from tests.containers.wheels import make_wheel as stored_wheel
from tests.tiny_index import make_wheel

NAME = "demo-1.0-py3-none-any.whl"
PREFIX = "/opt/stack"
SITE = f"{PREFIX}/lib/python3.11/site-packages"
ABOUT = {"demo-1.0.dist-info/WHEEL": b"Wheel-Version: 1.0\nRoot-Is-Purelib: true\n"}


def written(folder: Path, members: Mapping[str, bytes]) -> tuple[Artifact, Path]:
    path = folder / NAME
    path.write_bytes(make_wheel("demo", members={**members, **ABOUT}))
    return artifact_of(path), path


def laid_out(pair: tuple[Artifact, Path], root: Path) -> None:
    """Make a layer, and extract it as an engine would; sources lie where the layer has them."""
    root.mkdir()
    tar = root.with_suffix(".tar")
    with tar.open("wb") as file:
        layer = LayerTar(file)
        unpack(*pair, layer, prefix=PREFIX, site=SITE)
        layer.finish(tar)
    with tarfile.open(tar) as archive:
        archive.extractall(root, filter="fully_trusted")  # noqa: S202 # as an engine does
    sources = root.with_suffix(".sources")
    sources.mkdir()
    unpack_sources(*pair, sources, prefix=PREFIX, site=SITE)
    for source in (path for path in sources.rglob("*") if path.is_file()):
        assert (root / source.relative_to(sources)).read_bytes() == source.read_bytes()


@pytest.mark.parametrize(
    ("member", "why"),
    [
        ("../evil.py", "outside the prefix"),
        ("demo/../../evil.py", "outside the prefix"),
        ("demo-1.0.data/scripts/../../../evil", "outside the prefix"),
        ("/etc/evil", "outside the prefix"),
        ("C:/evil.py", "outside the prefix"),
        ("C:evil.py", "outside the prefix"),
        ("demo\\evil.py", "outside the prefix"),
        ("demo/./evil.py", "no plain path"),
        ("demo//evil.py", "no plain path"),
        ("demo-1.0.data/data//etc/evil", "no plain path"),
        ("demo\nevil.py", "no plain path"),
        ("demo-1.0.data/scripts/python", "replace the interpreter"),
        ("demo-1.0.data/scripts/python3.11", "replace the interpreter"),
        ("demo-1.0.data/data/bin/Python3", "replace the interpreter"),
        ("demo-1.0.data/data/pyvenv.cfg", "replace the interpreter"),
        ("demo-1.0.data", "no part of an environment"),
        ("demo-1.0.data/scripts", "no part of an environment"),
        ("demo-1.0.data/elsewhere/x", "no part of an environment"),
        ("other-1.0.dist-info/METADATA", "speaks for 2 packages"),
    ],
)
def test_a_name_that_means_harm_is_refused(tmp_path: Path, member: str, why: str) -> None:
    _, path = written(tmp_path, {member: b"evil"})
    with pytest.raises(BuildError, match=why) as refusal:
        check_wheel(path)
    assert NAME in refusal.value.what


@pytest.mark.parametrize("kind", [stat.S_IFLNK, stat.S_IFBLK, stat.S_IFCHR, stat.S_IFIFO])
def test_links_and_devices_are_refused_before_anything_is_unpacked(
    tmp_path: Path, kind: int
) -> None:
    _, path = written(tmp_path, {})
    entry = zipfile.ZipInfo("demo/link")
    entry.external_attr = (kind | 0o777) << 16
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr(entry, "/etc/passwd")
    with pytest.raises(BuildError, match="'demo/link' is a link or a device"):
        check_wheel(path)


def test_a_file_that_record_does_not_list_is_refused(tmp_path: Path) -> None:
    _, path = written(tmp_path, {})
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("smuggled.py", "x = 1\n")
    with pytest.raises(BuildError, match=r"states no digest of smuggled\.py"):
        check_wheel(path)


@pytest.mark.parametrize("method", [zipfile.ZIP_LZMA, zipfile.ZIP_BZIP2])
def test_what_is_packed_as_no_wheel_is_is_refused_unread(tmp_path: Path, method: int) -> None:
    path = tmp_path / NAME
    with zipfile.ZipFile(path, "w", method) as archive:
        archive.writestr("demo.py", "x = 1\n")
    with pytest.raises(BuildError, match=r"'demo\.py' is packed in an unusual way"):
        check_wheel(path)


def test_a_signature_need_not_be_listed(tmp_path: Path) -> None:
    _, path = written(tmp_path, {})
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("demo-1.0.dist-info/RECORD.jws", "{}")
    check_wheel(path)


@pytest.mark.parametrize(
    ("declared", "why"),
    [
        (10, r"not a readable zip file|big differs from what its RECORD"),
        (99_999, r"'demo/big' unpacks to more than the 99999 bytes that it declares"),
        (2_000_000_000, r"would unpack to 2,000\.0 MB; a wheel of this size may"),
    ],
)
def test_a_member_of_another_size_than_it_declares_is_refused(
    tmp_path: Path, declared: int, why: str
) -> None:
    _, sound = written(tmp_path, {"demo/big": bytes(100_000)})
    path = tmp_path / "packed" / NAME
    path.parent.mkdir()
    with zipfile.ZipFile(sound) as old, zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as new:
        for name in old.namelist():
            new.writestr(name, old.read(name))
    content, true_size = path.read_bytes(), (100_000).to_bytes(4, "little")
    assert content.count(true_size) == 2  # before the member, and in the list at the end
    path.write_bytes(content.replace(true_size, declared.to_bytes(4, "little")))
    with pytest.raises(BuildError, match=why):
        check_wheel(path)


@pytest.mark.parametrize("member", ["demo/big", "demo-1.0.dist-info/RECORD.jws"])
def test_a_member_whose_headers_hide_most_of_it_is_refused(tmp_path: Path, member: str) -> None:
    """Size, checksum and RECORD agree on its first bytes, which is all that zipfile reads."""
    hidden, shown = bytes(1 << 20), bytes(77)
    _, path = written(tmp_path, {member: shown})
    with zipfile.ZipFile(path) as old:
        contents = {name: old.read(name) for name in old.namelist()}
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as new:
        for name, content in contents.items():
            new.writestr(name, hidden if name == member else content)
        true = new.getinfo(member)
    sizes = (true.CRC, true.compress_size, true.file_size)
    lie = struct.pack("<III", zlib.crc32(shown), true.compress_size, len(shown))
    raw = path.read_bytes()
    assert raw.count(struct.pack("<III", *sizes)) == 2
    path.write_bytes(raw.replace(struct.pack("<III", *sizes), lie))
    with zipfile.ZipFile(path) as wheel:
        assert wheel.read(member) == shown
    with pytest.raises(BuildError, match=f"Bad CRC-32 for file '{member}'"):
        check_wheel(path)


@pytest.mark.parametrize(
    ("packed_mb", "unpacked_mb", "fits"),
    [(3, 3_000, False), (0.3, 300, False), (1, 99, True), (0.3, 200, True), (900, 4_200, True)],
)
def test_what_a_wheel_may_unpack_to_is_bounded_by_its_size(
    tmp_path: Path, packed_mb: float, unpacked_mb: float, fits: bool
) -> None:
    """PyTorch with CUDA unpacks to 5 times its size, TensorFlow to 3; deflate reaches 1,000."""
    _, path = written(tmp_path, {"demo/big": bytes(77)})
    raw = path.read_bytes()
    declared = struct.pack("<I", 77), struct.pack("<I", round(unpacked_mb * 1e6))
    path.write_bytes(raw.replace(*declared))
    padded = path.stat().st_size
    with path.open("r+b") as file:  # holes before the archive, which zipfile passes over
        file.truncate(0)
        file.seek(max(0, round(packed_mb * 1e6) - padded))
        file.write(raw.replace(*declared))
    with pytest.raises(BuildError) as refusal:
        check_wheel(path)
    assert ("would unpack to" in refusal.value.why) is not fits


def test_two_files_for_one_place_are_refused_unless_they_are_equal(tmp_path: Path) -> None:
    same = {"m.py": b"1", "demo-1.0.data/purelib/m.py": b"1"}
    laid_out(written(tmp_path, same), tmp_path / "same")
    other = {"m.py": b"1", "demo-1.0.data/purelib/m.py": b"2"}
    with pytest.raises(BuildError, match=r"m\.py would be written twice"):
        laid_out(written(tmp_path, other), tmp_path / "other")


def test_names_that_differ_in_case_or_accents_alone_are_files_of_their_own(tmp_path: Path) -> None:
    """As on the disks where stacks run."""
    names = ["a/X.py", "a/x.py", "a/\u00e9.py", "a/e\u0301.py"]
    laid_out(written(tmp_path, {name: name.encode() for name in names}), tmp_path / "root")
    for name in names:
        assert (tmp_path / f"root{SITE}/{name}").read_bytes() == name.encode()


@pytest.mark.parametrize("member", ["demo-1.0.data", "demo-1.0.data/data"])
def test_a_file_in_place_of_a_data_folder_ends_nothing_but_itself(
    tmp_path: Path, member: str
) -> None:
    with pytest.raises(BuildError, match="no part of an environment"):
        laid_out(written(tmp_path, {member: b""}), tmp_path / "root")


def test_a_pth_file_is_installed_like_any_other(tmp_path: Path) -> None:
    laid_out(written(tmp_path, {"demo.pth": b"import sys\n"}), tmp_path / "root")
    assert (tmp_path / f"root{SITE}/demo.pth").exists()


def test_a_name_longer_than_disks_take_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(BuildError, match="was refused"):
        laid_out(written(tmp_path, {"a" * 300: b""}), tmp_path / "root")


parts = st.sampled_from(
    [
        *("..", ".", "", "/", "\\", "C:", "a", "A", "é", "x.py", ".wh.a", "demo-1.0.data"),
        *("scripts", "data", "headers", "purelib", "bin", "python", "pyvenv.cfg"),
        "demo-1.0.dist-info",
    ]
)
names = st.lists(parts, min_size=1, max_size=6).map("/".join)
kinds = st.sampled_from([0, stat.S_IFREG, stat.S_IFDIR, stat.S_IFLNK, stat.S_IFCHR])


@given(
    st.lists(
        st.tuples(names, kinds, st.integers(0, 0o7777)), max_size=4, unique_by=lambda each: each[0]
    )
)
def test_whatever_members_are_called_nothing_appears_elsewhere(
    members: list[tuple[str, int, int]],
) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        raw = {}
        for member, kind, mode in members:
            entry = zipfile.ZipInfo(member)
            entry.external_attr = (kind | mode) << 16
            raw[entry] = "#!python\n"
        pair = stored_wheel(folder, "demo", raw=raw)
        with suppress(BuildError):
            laid_out(pair, folder / "root")
        ours = {NAME, "root", "root.tar", "root.sources"}
        assert {path.name for path in folder.iterdir()} <= ours
        for place in (folder / "root").rglob("*"):
            assert place.is_relative_to(folder / "root" / "opt") or place.name == "opt"
            assert place.is_dir() or place.is_file()
            assert not place.is_symlink()
            assert place.lstat().st_mode & (stat.S_ISUID | stat.S_ISGID) == 0
        own = [path.name for path in (folder / "root" / "opt" / "stack").glob("*")]
        assert "pyvenv.cfg" not in own
        assert not os.path.lexists(folder / "root" / "opt" / "stack" / "bin" / "python")


SOUND = make_wheel("demo", members={"demo/big.bin": bytes(range(256)) * 8, **ABOUT})


@given(st.lists(st.tuples(st.integers(0, len(SOUND) - 1), st.integers(0, 255)), max_size=4))
def test_a_wheel_with_changed_bytes_is_refused_or_says_the_same(
    changes: list[tuple[int, int]],
) -> None:
    content = bytearray(SOUND)
    for at, value in changes:
        content[at] = value
    with tempfile.TemporaryDirectory() as name:
        path = Path(name) / NAME
        path.write_bytes(content)
        with suppress(BuildError):
            check_wheel(path)
            laid_out((artifact_of(path), path), Path(name) / "root")
            module, big = (Path(name, f"root{SITE}", each) for each in ("demo.py", "demo/big.bin"))
            assert (module.read_bytes(), len(big.read_bytes())) == (b"x = 1\n", 2048)
