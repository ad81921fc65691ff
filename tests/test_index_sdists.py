"""What source distributions say of their requirements without being built."""

import io
import struct
import tarfile
import zipfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stackgen.errors import ResolutionError
from stackgen.index import artifact_key
from stackgen.index.metadata import UNSAID, UnusableMetadataError, read_sdist
from tests.tiny_index import TinyIndex, only, opened

SDIST = "demo-1.0.tar.gz"
STATIC = "Metadata-Version: 2.2\nName: demo\nVersion: 1.0\nRequires-Dist: six\n"


def sdist(info: str, *, zipped: bool = False, path: str = "demo-1.0/PKG-INFO") -> bytes:
    out = io.BytesIO()
    content = info.encode()
    if zipped:
        with zipfile.ZipFile(out, "w") as archive:
            archive.writestr(path, content)
        return out.getvalue()
    with tarfile.open(fileobj=out, mode="w:gz") as tar:
        member = tarfile.TarInfo(path)
        member.size = len(content)
        tar.addfile(member, io.BytesIO(content))
    return out.getvalue()


@pytest.mark.parametrize("suffix", [".tar.gz", ".zip"])
def test_an_sdist_that_declares_its_requirements_is_believed(
    server: TinyIndex, tmp_path: Path, suffix: str
) -> None:
    server.add(f"demo-1.0{suffix}", sdist(STATIC, zipped=suffix == ".zip"))
    with opened(server, tmp_path) as index:
        assert index.metadata(only(index)).requires_dist == ("six",)


@pytest.mark.parametrize(
    "info",
    [
        STATIC.replace("2.2", "2.1"),
        STATIC + "Dynamic: License\nDynamic: requires-dist\n",
        STATIC.replace("2.2", "nonsense"),
    ],
)
def test_an_sdist_that_must_be_built_to_know_is_a_defect_that_says_so(
    server: TinyIndex, tmp_path: Path, info: str
) -> None:
    server.add(SDIST, sdist(info))
    with opened(server, tmp_path) as index:
        with pytest.raises(ResolutionError, match="does not say"):
            index.metadata(only(index))
        assert "its metadata need a build" in index.defects[artifact_key(only(index))]


def test_what_an_sdist_says_or_does_not_say_is_read_once(server: TinyIndex, tmp_path: Path) -> None:
    server.add(SDIST, sdist(STATIC))
    server.add("more-1.0.tar.gz", sdist("Metadata-Version: 1.0\nName: more\n"))
    for _ in range(2):
        with opened(server, tmp_path) as index:
            found = [x for name in ("demo", "more") for x in index.candidates(name)]
            assert list(index.metadata_many(found)) == [found[0].sha256]
            assert index.defects[found[1].sha256] == UNSAID
    assert len(server.paths("/files/")) == 2


def test_an_sdist_of_another_hash_is_a_defect_and_is_requested_again(
    server: TinyIndex, tmp_path: Path
) -> None:
    server.add(SDIST, sdist(STATIC), hashed="0" * 64)
    for _ in range(2):
        with opened(server, tmp_path) as index:
            assert index.metadata_many([only(index)]) == {}
            assert "hash" in index.defects["0" * 64]
    assert len(server.paths("/files/")) == 2


def test_an_sdist_without_a_declaration_must_be_built() -> None:
    with pytest.raises(UnusableMetadataError, match="its metadata need a build"):
        read_sdist(
            io.BytesIO(sdist(STATIC, path="demo-1.0/src/PKG-INFO")), filename=SDIST, name="demo"
        )


@given(st.binary(max_size=200), st.integers(0, 400))
def test_a_broken_sdist_is_refused(rubbish: bytes, keep: int) -> None:
    content = sdist(STATIC)[: min(keep, 100)] + rubbish
    for filename in (SDIST, "demo-1.0.zip"):
        with pytest.raises(UnusableMetadataError):
            read_sdist(io.BytesIO(content), filename=filename, name="demo")


@pytest.mark.parametrize(("flags", "method"), [(1, 0), (0, 99)], ids=["encrypted", "unknown"])
def test_a_zip_that_nothing_here_unpacks_is_refused(flags: int, method: int) -> None:
    content = bytearray(sdist(STATIC, zipped=True))
    for start in (6, content.index(b"PK\x01\x02") + 8):
        content[start : start + 4] = struct.pack("<HH", flags, method)
    with pytest.raises(UnusableMetadataError, match="not a readable archive"):
        read_sdist(io.BytesIO(content), filename="demo-1.0.zip", name="demo")


def test_a_metadata_version_without_end_is_a_late_one() -> None:
    info = STATIC.replace("2.2", "9" * 5000)
    found = read_sdist(io.BytesIO(sdist(info)), filename=SDIST, name="demo")
    assert found.requires_dist == ("six",)
