"""What is unpacked, read and remembered around building, without a container."""

import io
import tarfile
import zipfile
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stackgen.images.pep517 import RefusedError, unpacked
from stackgen.images.sdists import BuildOutput, BuiltWheels
from stackgen.index.metadata import UnusableMetadataError, read_build_system
from stackgen.model.packages import BUILT_HERE, Artifact, BuildRecord

KEY = "0" * 64
WHEEL = Artifact(
    name="demo",
    version="1.0",
    filename="demo-1.0-py3-none-any.whl",
    sha256="1" * 64,
    url="",
    index=BUILT_HERE,
    size=7,
)


def entry(name: str, kind: bytes = tarfile.REGTYPE, *, link: str = "") -> tarfile.TarInfo:
    member = tarfile.TarInfo(name)
    member.type, member.linkname = kind, link
    member.mode = 0o7777
    return member


def archive(path: Path, *members: tarfile.TarInfo) -> str:
    with tarfile.open(path, "w:gz") as tar:
        for member in members:
            tar.addfile(member, io.BytesIO())
    return str(path)


def test_files_folders_and_links_that_stay_inside_are_unpacked(tmp_path: Path) -> None:
    sdist = archive(
        tmp_path / "demo.tar.gz",
        entry("demo-1.0/b", tarfile.SYMTYPE, link="deep/../a"),
        entry("demo-1.0/a"),
        entry("demo-1.0/deep", tarfile.DIRTYPE),
        entry("demo-1.0/c", tarfile.LNKTYPE, link="demo-1.0/a"),
    )
    tree = Path(unpacked(sdist, str(tmp_path / "out")))
    assert sorted(path.name for path in tree.iterdir()) == ["a", "b", "c", "deep"]
    assert (tree / "a").stat().st_mode & 0o7022 == 0


@pytest.mark.parametrize(
    "member",
    [
        entry("../evil"),
        entry("/evil"),
        entry("demo-1.0/../../evil"),
        entry("demo-1.0\\..\\evil"),
        entry("demo-1.0/out", tarfile.SYMTYPE, link="/etc"),
        entry("demo-1.0/out", tarfile.SYMTYPE, link="../../etc"),
        entry("demo-1.0/out", tarfile.LNKTYPE, link="../etc/passwd"),
        entry("demo-1.0/device", tarfile.CHRTYPE),
        entry("demo-1.0/pipe", tarfile.FIFOTYPE),
    ],
    ids=lambda member: f"{member.name} {member.linkname}",
)
def test_a_member_that_leads_out_is_refused_before_anything_is_written(
    tmp_path: Path, member: tarfile.TarInfo
) -> None:
    sdist = archive(tmp_path / "demo.tar.gz", entry("demo-1.0/a"), member)
    with pytest.raises(RefusedError):
        unpacked(sdist, str(tmp_path / "out" / "here"))
    assert list((tmp_path / "out").rglob("*")) == [tmp_path / "out" / "here"]


@pytest.mark.parametrize("name", ["../evil", "/evil", "a/../../evil"])
def test_a_zip_file_that_leads_out_is_refused(tmp_path: Path, name: str) -> None:
    with zipfile.ZipFile(tmp_path / "demo.zip", "w") as made:
        made.writestr(zipfile.ZipInfo(name), "x")
    with pytest.raises(RefusedError):
        unpacked(str(tmp_path / "demo.zip"), str(tmp_path / "out"))


@pytest.mark.parametrize("members", [[], ["a", "b"], ["file"]])
def test_an_archive_holds_one_folder(tmp_path: Path, members: list[str]) -> None:
    names = [entry(name) if name == "file" else entry(f"{name}/x") for name in members]
    with pytest.raises(RefusedError, match="one"):
        unpacked(archive(tmp_path / "demo.tar.gz", *names), str(tmp_path / "out"))


def build_system(text: str | None) -> Any:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as made:
        if text is not None:
            made.writestr("demo-1.0/pyproject.toml", text)
    return read_build_system(out, filename="demo-1.0.zip")


@pytest.mark.parametrize("text", [None, "", "[tool.black]\n"])
def test_without_a_word_on_building_setuptools_builds(text: str | None) -> None:
    found = build_system(text)
    assert [line.partition(">")[0] for line in found.requires] == ["setuptools", "wheel"]
    assert found.backend == ""


def test_what_a_pyproject_says_of_building_is_read() -> None:
    table = '[build-system]\nrequires = ["a>1"]\nbuild-backend = "b:c"\nbackend-path = ["d"]\n'
    found = build_system(table)
    assert (found.requires, found.backend, found.backend_path) == (("a>1",), "b:c", ("d",))


@pytest.mark.parametrize(
    "text",
    [
        "[build-system]\n",
        "[build-system]\nrequires = 'a'\n",
        "[build-system]\nrequires = [1]\n",
        "[build-system]\nrequires = []\nbuild-backend = 1\n",
        "[build-system]\nrequires = []\nbackend-path = 'a'\n",
        "build-system = 1\n",
        "[",
    ],
)
def test_a_pyproject_that_says_it_wrongly_is_refused(text: str) -> None:
    with pytest.raises(UnusableMetadataError, match=r"pyproject\.toml"):
        build_system(text)


@pytest.mark.parametrize(
    "record",
    [
        BuildRecord(wheel=WHEEL),
        BuildRecord(requires=("a>1", "b")),
        BuildRecord(failure="it failed", fix="do not"),
    ],
)
def test_what_became_of_a_build_is_remembered(tmp_path: Path, record: BuildRecord) -> None:
    built = BuiltWheels(tmp_path)
    assert built.record(KEY) is None
    with built.lock(KEY):
        built.store(KEY, record, "output")
    assert BuiltWheels(tmp_path).record(KEY) == record
    assert built.log(KEY).read_text() == "output"


@given(text=st.text(max_size=30))
def test_a_damaged_record_is_none(tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
    built = BuiltWheels(tmp_path_factory.mktemp("built"))
    with built.lock(KEY):
        built.store(KEY, BuildRecord(failure="x"), "")
    built.log(KEY).with_suffix(".json").write_text(text, encoding="utf-8")
    assert built.record(KEY) is None


@given(
    pieces=st.lists(st.binary(min_size=1, max_size=9), max_size=9),
    wheel=st.binary(max_size=20),
)
def test_a_container_s_line_and_wheel_are_distinguished_however_they_are_cut(
    pieces: list[bytes], wheel: bytes
) -> None:
    out = b'{"kind": "wheel"}\n' + wheel
    cuts = [*range(0, len(out), 1 + len(pieces)), len(out)]
    output, file = BuildOutput(limit=100), io.BytesIO()
    for start, end in pairwise(cuts):
        output.take(1, out[start:end], file)
    for piece in pieces:
        output.take(2, piece, file)
    assert output.header == {"kind": "wheel"}
    assert (file.getvalue(), output.size, output.too_much) == (wheel, len(wheel), False)
    assert output.log == b"".join(pieces).decode("utf-8", "replace")


def test_however_much_is_printed_the_log_stays_small_with_its_end() -> None:
    output = BuildOutput(limit=10)
    for number in range(300):
        output.take(2, (b"%d " % number) * 10_000, io.BytesIO())
    assert len(output.log) < 2 << 20
    assert output.log.startswith("0 0")
    assert output.log.endswith("299 ")


def test_a_wheel_beyond_the_limit_is_too_much() -> None:
    output, file = BuildOutput(limit=10), io.BytesIO()
    output.take(1, b"{}\n" + b"x" * 11, file)
    assert output.too_much
    assert not file.getvalue()
