"""What no server may do to us: take for ever, or fill the memory. Each is forced on a real one."""

import gzip
import io
import tarfile
import tracemalloc
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from stackgen.errors import IndexUnavailableError
from stackgen.index import PackageIndex
from stackgen.index.cache import CachedPage, IndexCache
from stackgen.index.config import TransferLimits
from stackgen.index.pages import parse_html
from stackgen.resolve.candidates import VersionCandidate
from stackgen.resolve.closure import Offers
from tests.tiny_index import DRIP, TinyIndex, make_wheel, only, opened, serving

WHEEL = "demo-1.0-py3-none-any.whl"
FILE = f"/files/{WHEEL}"
PAGE = "/simple/demo/"
JSON = "application/vnd.pypi.simple.v1+json"
HEAD = b"Metadata-Version: 2.2\nName: demo\nVersion: 1.0\n\n"


@pytest.fixture
def server() -> Iterator[TinyIndex]:
    with serving() as index:
        index.add(WHEEL, make_wheel("demo", requires=("six",)))
        yield index


def limited(server: TinyIndex, cache: Path, limits: TransferLimits) -> PackageIndex:
    """Open an index whose reader waits for 0.3 s at most."""
    return opened(server, cache, read_timeout_s=0.3, limits=limits)


SLOW_RATE = TransferLimits(rate_window_s=0.3)
SLOW_WHOLE = TransferLimits(rate_bytes_s=0.0, response_s=0.3)


@pytest.mark.parametrize(
    ("limits", "why"), [(SLOW_RATE, "bytes per second are the least"), (SLOW_WHOLE, "longer than")]
)
def test_a_page_that_drips_is_given_up(
    server: TinyIndex, tmp_path: Path, limits: TransferLimits, why: str
) -> None:
    server.faults[PAGE] = [DRIP] * 9
    slow = pytest.raises(IndexUnavailableError)
    with limited(server, tmp_path, limits) as index, slow as caught:
        only(index)
    assert why in caught.value.why


def test_a_page_that_dripped_once_is_requested_again(server: TinyIndex, tmp_path: Path) -> None:
    server.faults[PAGE] = [DRIP]
    with limited(server, tmp_path, SLOW_RATE) as index:
        assert only(index).version == "1.0"


def test_a_download_that_drips_is_given_up(server: TinyIndex, tmp_path: Path) -> None:
    with limited(server, tmp_path, SLOW_RATE) as index:
        wheel = only(index)
        server.faults[FILE] = [DRIP] * 9
        with pytest.raises(IndexUnavailableError, match="bytes per second"):
            index.download(wheel, io.BytesIO())


def test_a_download_may_take_longer_than_a_page_if_bytes_keep_coming(
    server: TinyIndex, tmp_path: Path
) -> None:
    server.drip_s = 0.002
    limits = TransferLimits(response_s=0.3, rate_bytes_s=1.0, rate_window_s=0.1)
    with limited(server, tmp_path, limits) as index:
        wheel = only(index)
        server.faults[FILE] = [DRIP]
        into = io.BytesIO()
        index.download(wheel, into)
    assert into.getvalue() == server.files[FILE]
    assert server.paths(WHEEL) == [FILE]


@pytest.mark.parametrize("packed", [False, True])
def test_a_page_that_is_too_large_is_not_read(
    server: TinyIndex, tmp_path: Path, packed: bool
) -> None:
    page = server.files[PAGE] + b" " * 100_000
    if packed:
        server.headers[PAGE] = {"Content-Encoding": "gzip"}
    server.files[PAGE] = gzip.compress(page) if packed else page
    large = pytest.raises(IndexUnavailableError, match="larger than")
    with limited(server, tmp_path, TransferLimits(page_bytes=1 << 14)) as index, large as caught:
        only(index)
    assert "demo" in caught.value.what


# What is collected while the stack is used up cannot be finished, which is no concern of the page.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize(
    ("kind", "content", "why"),
    [
        (JSON, b"[" * 200_000, "nested too deeply"),
        (JSON, b'{"files": ' * 200_000, "nested too deeply"),
        (JSON, b"{", "not JSON"),
        (JSON, b"[]", "PEP 691"),
        (JSON, b'{"meta": {"api-version": "2.0"}, "files": []}', "of version 2.0"),
        (
            JSON,
            b'{"meta": {"api-version": "1.0"}, "files": [{"filename": 3}]}',
            "files[0].filename has the wrong type or form",
        ),
        (
            JSON,
            b'{"meta": {"api-version": "1.0"}, "files": [{"filename": "a"}]}',
            "files[0].url is missing",
        ),
        ("text/html", b'<meta name="pypi:repository-version" content="2.0">', "of version 2.0"),
    ],
)
def test_what_is_no_page_is_explained_in_our_words(
    server: TinyIndex, tmp_path: Path, kind: str, content: bytes, why: str
) -> None:
    server.files[PAGE], server.types[PAGE] = content, kind
    with opened(server, tmp_path) as index, pytest.raises(IndexUnavailableError) as caught:
        only(index)
    assert why in caught.value.why
    assert "pydantic" not in str(caught.value)
    assert "\n" not in caught.value.why


def test_a_link_that_is_no_address_leaves_the_others(server: TinyIndex, tmp_path: Path) -> None:
    server.files[PAGE] += f'<a href="http://[x/{WHEEL}">x</a>'.encode()
    with opened(server, tmp_path) as index:
        assert only(index).version == "1.0"
        assert index.skipped == {"demo": 1}


@pytest.mark.parametrize("name", ["demo-{}-py3-none-any.whl", "demo-{}.tar.gz"])
def test_a_file_whose_version_has_no_end_leaves_the_others(
    server: TinyIndex, tmp_path: Path, name: str
) -> None:
    server.files[PAGE] += f'<a href="{name.format("9" * 5000)}">x</a>'.encode()
    with opened(server, tmp_path) as index:
        assert only(index).version == "1.0"
        assert index.skipped == {"demo": 1}


def test_a_cached_page_that_cannot_be_read_is_requested_again(
    server: TinyIndex, tmp_path: Path
) -> None:
    packed = zlib.compress(b"[" * 200_000)
    content = len(packed).to_bytes(4, "little") + packed
    entry = CachedPage(fetched=0.0, etag="x", modified="", content=content)
    cache = IndexCache(tmp_path / "index.db")
    cache.keep_pages(server.simple, {"demo": entry})
    cache.close()
    absent = pytest.raises(IndexUnavailableError, match="the cache lacks")
    with opened(server, tmp_path, offline=True) as index, absent:
        only(index)
    with opened(server, tmp_path) as index:
        assert only(index).version == "1.0"


def zipped(name: str, content: bytes) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr(name, content)
    return out.getvalue()


def tarred(name: str, content: bytes) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as file:
        member = tarfile.TarInfo(name)
        member.size = len(content)
        file.addfile(member, io.BytesIO(content))
    return out.getvalue()


BIG = HEAD + b" " * (17 << 20)


@pytest.mark.parametrize(
    ("filename", "content", "why"),
    [
        (WHEEL, zipped("demo-1.0.dist-info/METADATA", BIG), "METADATA is too large: 17.0 MiB"),
        ("demo-1.0.tar.gz", tarred("demo-1.0/PKG-INFO", BIG), "PKG-INFO is too large: 17.0 MiB"),
        ("demo-1.0.zip", zipped("demo-1.0/PKG-INFO", BIG), "PKG-INFO is too large: 17.0 MiB"),
        (WHEEL, zipped("demo/METADATA", HEAD), "it has 0 METADATA files"),
    ],
)
def test_metadata_that_are_too_large_are_called_so(
    server: TinyIndex, tmp_path: Path, filename: str, content: bytes, why: str
) -> None:
    del server.files[PAGE]
    server.add(filename, content)
    with opened(server, tmp_path) as index:
        assert index.metadata_many([only(index)]) == {}
        (defect,) = index.defects.values()
    assert why in defect


def test_a_metadata_file_that_is_too_large_is_not_read(server: TinyIndex, tmp_path: Path) -> None:
    server.files[f"{FILE}.metadata"] = BIG
    with opened(server, tmp_path) as index:
        assert index.metadata_many([only(index)]) == {}
        (defect,) = index.defects.values()
    assert "larger than 16 MiB" in defect


def test_from_a_server_that_sends_more_than_the_part_the_whole_is_requested(
    server: TinyIndex, tmp_path: Path
) -> None:
    server.surplus = b"more"
    with opened(server, tmp_path) as index:
        assert index.metadata(only(index)).requires_dist == ("six",)


def peak(count: int, text: str) -> int:
    tracemalloc.start()
    try:
        parse_html(text * count, url="https://h.test/", name="", index="i")
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    "link",
    [
        "<a href=demo-1.0.zip>text",
        pytest.param("<a href=demo-1.0.zip>text</a>", marks=pytest.mark.thorough),
    ],
)
def test_links_that_are_never_closed_take_no_more_memory_than_others(link: str) -> None:
    assert peak(4000, link) < 8 * peak(1000, link)


def test_versions_take_memory_in_proportion_to_their_number() -> None:
    def taken(count: int) -> int:
        candidates = [
            VersionCandidate(version=f"1.{n}", label=f"1.{n}", found="none", barred="")
            for n in range(count)
        ]
        Offers("warm", candidates, limits=(), pins=())
        tracemalloc.start()
        try:
            offers = Offers("demo", candidates, limits=(), pins=())
            assert offers.open == 0
            return tracemalloc.get_traced_memory()[0]
        finally:
            tracemalloc.stop()

    assert taken(16_000) < 8 * taken(4_000)
