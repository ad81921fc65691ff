"""What wheels require, whichever way a server lets us read it; and the cache behind it."""

import io
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stackgen.errors import IndexUnavailableError, ResolutionError
from stackgen.index import PackageIndex, artifact_key
from stackgen.index.metadata import RangeFile, UnusableMetadataError, parse_metadata
from stackgen.model.packages import Artifact, Metadata
from tests.tiny_index import CUT, TinyIndex, make_wheel, opened, sha256

WHEEL = "demo-1.0-py3-none-any.whl"
BESIDE = f"/files/{WHEEL}.metadata"
STATED = b"Metadata-Version: 2.1\nName: demo\nVersion: 1.0\nRequires-Dist: beside\n\nprose"


@pytest.fixture
def index(server: TinyIndex, tmp_path: Path) -> Iterator[PackageIndex]:
    with opened(server, tmp_path) as each:
        yield each


def of(server: TinyIndex, *, hashed: str | None = None, url: str = "") -> Artifact:
    """Return the wheel as an artifact that came from elsewhere (a lock)."""
    content = server.files[f"/files/{WHEEL}"]
    return Artifact(
        name="demo",
        version="1.0",
        filename=WHEEL,
        index="tiny",
        sha256=sha256(content) if hashed is None else hashed,
        url=url or f"{server.url}/files/{WHEEL}",
    )


def big_wheel() -> bytes:
    """Return a wheel whose directory and METADATA lie further back than the tail first read."""
    from random import Random

    noise = Random(1).randbytes
    members = {f"demo/{n:04}-{'x' * 80}.bin": noise(40) for n in range(2500)}
    return make_wheel("demo", requires=("numpy<2",), members=members)


@pytest.mark.parametrize(
    ("announced", "beside", "read"),
    [
        (STATED, STATED, "beside"),
        (b"other", STATED, "inside"),
        (None, STATED, "beside"),
        (None, b"<html>Sorry: nothing here</html>", "inside"),
    ],
    ids=["announced", "of another hash", "not announced", "a page of apologies"],
)
def test_a_metadata_file_beside_the_wheel_is_read_where_it_is_sound(
    server: TinyIndex, index: PackageIndex, announced: bytes | None, beside: bytes, read: str
) -> None:
    attributes = f'data-core-metadata="sha256={sha256(announced)}"' if announced else ""
    server.add(WHEEL, make_wheel("demo", requires=("inside",)), attributes=attributes)
    server.files[BESIDE] = beside
    assert index.metadata(index.candidates("demo")[0]).requires_dist == (read,)
    if announced == beside:
        assert server.paths("/files/") == [BESIDE]


def test_without_metadata_files_a_part_of_the_wheel_is_read(
    server: TinyIndex, index: PackageIndex
) -> None:
    content = big_wheel()
    server.add(WHEEL, content)
    assert index.metadata(of(server)) == Metadata(
        requires_dist=("numpy<2",), requires_python=">=3.8"
    )
    spans = [span for _, path, span in server.requested if path == f"/files/{WHEEL}"]
    assert spans[0] == "bytes=-65536"
    assert all(spans)


@pytest.mark.parametrize("ranges", [True, False])
def test_the_installed_size_of_a_wheel_is_read_from_its_end(
    server: TinyIndex, index: PackageIndex, ranges: bool
) -> None:
    members = {"demo.py": b"#" * 50_000, "demo/x.so": bytes(70_000), "demo/y.so": bytes(100_000)}
    server.ranges = ranges
    server.add(WHEEL, make_wheel("demo", members=members))
    wheel = of(server)
    found = index.installed_sizes([wheel]).get(artifact_key(wheel))
    if ranges:  # a source takes its bytecode, too
        assert found is not None
        assert 290_000 <= found < 291_000
    else:
        assert found is None


def test_a_project_whose_metadata_files_are_missing_is_not_requested_repeatedly(
    server: TinyIndex, index: PackageIndex
) -> None:
    for version in ("1.0", "2.0", "3.0", "4.0", "5.0"):
        server.add(f"demo-{version}-py3-none-any.whl", make_wheel("demo", version))
    for artifact in index.candidates("demo"):
        index.metadata(artifact)
    assert len(server.paths(".metadata")) == 2


def test_without_ranges_the_whole_wheel_is_read(server: TinyIndex, index: PackageIndex) -> None:
    server.ranges = False
    server.add(WHEEL, make_wheel("demo", requires=("six; extra == 'a'",)))
    assert index.metadata(of(server)).requires_dist == ("six; extra == 'a'",)


def test_a_wheel_that_is_not_what_was_announced_is_a_defect(
    server: TinyIndex, index: PackageIndex
) -> None:
    server.ranges = False
    server.add(WHEEL, make_wheel("demo"))
    wrong = of(server, hashed="0" * 64)
    assert index.metadata_many([wrong]) == {}
    assert "hash" in index.defects[artifact_key(wrong)]


def test_a_truncated_wheel_is_a_defect_and_the_others_are_read(
    server: TinyIndex, index: PackageIndex
) -> None:
    good = make_wheel("demo", "2.0")
    server.add(WHEEL, good[:-40])
    server.add("demo-2.0-py3-none-any.whl", good)
    bad, fine = index.candidates("demo")
    assert list(index.metadata_many([bad, fine])) == [fine.sha256]
    with pytest.raises(ResolutionError, match="does not say what it requires"):
        index.metadata(bad)


def test_a_wheel_without_a_hash_is_known_by_its_url(server: TinyIndex, index: PackageIndex) -> None:
    server.add(WHEEL, make_wheel("demo", requires=("six",)))
    bare = of(server, hashed="")
    assert index.metadata_many([bare])[bare.url].requires_dist == ("six",)


def test_metadata_are_read_once_and_for_all(server: TinyIndex, tmp_path: Path) -> None:
    server.add(WHEEL, make_wheel("demo", requires=("six",)))
    found = []
    for _ in range(2):
        with opened(server, tmp_path) as index:
            found.append(index.metadata_many([of(server)]))
        server.files[f"/files/{WHEEL}"] = make_wheel("demo", requires=("six",))
        requested = len(server.requested)
    assert found[0] == found[1] == {of(server).sha256: found[0][of(server).sha256]}
    assert len(server.requested) == requested


def test_what_was_read_before_a_failure_is_kept(server: TinyIndex, tmp_path: Path) -> None:
    server.add(WHEEL, make_wheel("demo"))
    dead = of(server, hashed="1" * 64, url=f"{server.url}/files/dead.whl")
    server.faults["/files/dead.whl.metadata"] = [503] * 9
    with opened(server, tmp_path) as index:
        with pytest.raises(IndexUnavailableError):
            index.metadata_many([of(server), dead])
        assert set(index.metadata_many([of(server)])) == {of(server).sha256}


def test_sizes_are_requested_once(server: TinyIndex, tmp_path: Path) -> None:
    content = make_wheel("demo")
    server.add(WHEEL, content)
    for _ in range(2):
        with opened(server, tmp_path) as index:
            found = index.sizes([of(server), of(server, hashed="2" * 64, url=f"{server.url}/no")])
            assert list(found.values()) == [len(content), None]
    assert [x[0] for x in server.requested].count("HEAD") == 3


@pytest.mark.parametrize("faults", [[CUT, CUT, CUT], [503, CUT]])
def test_a_download_goes_on_where_it_was_cut(
    server: TinyIndex, index: PackageIndex, faults: list[int]
) -> None:
    server.files[f"/files/{WHEEL}"] = bytes(range(256)) * 65536  # 16 MiB
    server.faults[f"/files/{WHEEL}"] = faults[:]
    into = io.BytesIO()
    index.download(of(server), into)
    assert into.getvalue() == server.files[f"/files/{WHEEL}"]
    spans = [span for _, _, span in server.requested]
    assert spans[0] == ""
    assert spans[-1].startswith("bytes=")


@pytest.mark.parametrize("ranges", [True, False])
@pytest.mark.parametrize("before", [b"", b"01234", b"0123456789 and too much"])
def test_a_partial_file_ends_up_whole(
    server: TinyIndex, index: PackageIndex, ranges: bool, before: bytes
) -> None:
    server.ranges = ranges
    server.files[f"/files/{WHEEL}"] = b"0123456789"
    into = io.BytesIO(before)
    index.download(of(server), into, start=len(before))
    assert into.getvalue() == b"0123456789"


def test_a_withdrawn_file_is_explained(server: TinyIndex, index: PackageIndex) -> None:
    server.add(WHEEL, b"")
    gone = of(server, url=f"{server.url}/files/gone.whl")
    with pytest.raises(IndexUnavailableError, match="404"):
        index.download(gone, io.BytesIO())


@given(
    st.binary(min_size=1, max_size=60_000),
    st.lists(st.tuples(st.integers(0, 59_999), st.integers(0, 40_000)), max_size=8),
)
def test_a_remote_file_reads_as_a_local_one(content: bytes, reads: list[tuple[int, int]]) -> None:
    remote = io.BufferedReader(
        RangeFile(size=len(content), tail=content[-100:], fetch=lambda a, b: content[a:b])
    )
    local = io.BytesIO(content)
    for start, length in reads:
        assert remote.seek(start) == local.seek(start)
        assert remote.read(length) == local.read(length)


def test_metadata_survive_everything_but_what_is_needed() -> None:
    text = (
        "Metadata-Version: 9.9\r\nName: De.Mo\r\nLicense: ???\r\nRequires-Dist: numpy\r\n"
        "  (>=1.0)\r\nRequires-Dist: caf\xe9 ; nonsense\r\n\r\nRequires-Dist: prose"
    )
    found = parse_metadata(text.encode("latin-1"), name="de-mo")
    assert found == Metadata(requires_dist=("numpy (>=1.0)", "caf\ufffd ; nonsense"))


@pytest.mark.parametrize("content", [b"", b"<html>", b"Name: other\n\n"])
def test_metadata_of_something_else_are_refused(content: bytes) -> None:
    with pytest.raises(UnusableMetadataError):
        parse_metadata(content, name="demo")


def test_a_damaged_entry_is_fetched_again(server: TinyIndex, tmp_path: Path) -> None:
    server.add(WHEEL, make_wheel("demo", requires=("six",)))
    with opened(server, tmp_path) as index:
        index.metadata(index.candidates("demo")[0])
    with sqlite3.connect(tmp_path / "index.db") as database:
        database.execute("UPDATE metadata SET body = replace(body, 'six', 'sex')")
        database.execute("UPDATE pages SET body = zeroblob(9)")
    database.close()
    with opened(server, tmp_path) as index:
        assert index.metadata(index.candidates("demo")[0]).requires_dist == ("six",)


@pytest.mark.parametrize("keep", [0, 5000])
def test_a_damaged_cache_file_is_replaced_and_noted(
    server: TinyIndex, tmp_path: Path, keep: int
) -> None:
    path = tmp_path / "index.db"
    server.add(WHEEL, make_wheel("demo", requires=("six",)))
    with opened(server, tmp_path) as index:
        index.candidates("demo")
    path.write_bytes(path.read_bytes()[:keep] + b"rubbish" * 4000)
    with opened(server, tmp_path) as index:
        assert index.metadata(index.candidates("demo")[0]).requires_dist == ("six",)
        assert str(path) in index.notes[0]
    with opened(server, tmp_path) as index:
        assert index.candidates("demo")
        assert index.notes == ()
