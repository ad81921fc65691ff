"""Candidates of packages, from real servers and folders that behave well and badly."""

import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest

from stackgen.errors import IndexUnavailableError, ResolutionError, StorageError
from stackgen.index import IndexConfig, PackageIndex
from stackgen.index.config import location
from tests.tiny_index import CUT, TinyIndex, make_wheel, serving, sha256

WHEEL = "demo-1.0-py3-none-any.whl"
Opener = Callable[..., AbstractContextManager[PackageIndex]]


class Clock:
    now = 1e9

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def pauses() -> list[float]:
    return []


@pytest.fixture
def opened(tmp_path: Path, clock: Clock, pauses: list[float]) -> Opener:
    """Open an index of these addresses, on a cache that the test keeps."""

    @contextmanager
    def opener(
        *addresses: str, links: tuple[str, ...] = (), offline: bool = False
    ) -> Iterator[PackageIndex]:
        config = IndexConfig(
            indexes=tuple(location(each) for each in addresses),
            find_links=tuple(location(each) for each in links),
            offline=offline,
            read_timeout_s=5.0,
        )
        with PackageIndex(config, tmp_path / "cache", clock=clock, sleep=pauses.append) as index:
            yield index

    return opener


def test_an_html_page_gives_wheels_and_sdists_with_all_it_says(
    server: TinyIndex, opened: Opener
) -> None:
    content = make_wheel("demo")
    attributes = 'data-requires-python="&gt;=3.8" data-yanked="bad" data-upload-time="2023-01-02Z"'
    url = server.add(WHEEL, content, attributes=attributes)
    server.add("demo-0.9.tar.gz", b"sdist")
    server.add("demo-0.8-py2.7.egg", b"egg")
    with opened(server.simple) as index:
        wheel, sdist = index.candidates("Demo")
    assert (wheel.name, wheel.version, wheel.filename) == ("demo", "1.0", WHEEL)
    assert (wheel.url, wheel.sha256, wheel.index) == (url, sha256(content), server.simple)
    assert (wheel.requires_python, wheel.yanked, wheel.uploaded) == (">=3.8", "bad", "2023-01-02Z")
    assert (sdist.filename, sdist.is_wheel) == ("demo-0.9.tar.gz", False)


def test_a_json_page_gives_sizes_and_upload_times_too(server: TinyIndex, opened: Opener) -> None:
    file = {
        "filename": WHEEL,
        "url": f"../../files/{WHEEL}",
        "hashes": {"sha256": "ab" * 32},
        "size": 123,
        "upload-time": "2023-01-02T03:04:05.678Z",
        "yanked": True,
    }
    server.add_json("demo", [file])
    with opened(server.simple) as index:
        (wheel,) = index.candidates("demo")
    assert (wheel.size, wheel.uploaded, wheel.yanked) == (123, "2023-01-02T03:04:05.678000Z", "")
    assert wheel.url == f"{server.url}/files/{WHEEL}"


def test_files_with_undecodable_names_are_counted(server: TinyIndex, opened: Opener) -> None:
    for filename in (WHEEL, "demo-not_a_version-py3-none-any.whl", "demo-1.0.whl"):
        server.add(filename, b"x")
    with opened(server.simple) as index:
        assert [x.filename for x in index.candidates("demo")] == [WHEEL]
        assert index.skipped == {"demo": 2}


def test_an_unknown_package_is_named_with_what_to_do(server: TinyIndex, opened: Opener) -> None:
    with opened(server.simple) as index:
        with pytest.raises(ResolutionError, match="there is no package nonesuch") as caught:
            index.candidates("nonesuch")
        assert "spelling" in caught.value.fix
        assert index.candidates_many(["nonesuch"]) == {"nonesuch": None}


def test_the_first_index_that_has_a_package_wins(server: TinyIndex, opened: Opener) -> None:
    server.add(WHEEL, make_wheel("demo"))
    with serving() as other:
        other.add("demo-2.0-py3-none-any.whl", make_wheel("demo", "2.0"))
        other.add("more-1.0-py3-none-any.whl", make_wheel("more"))
        with opened(server.simple, other.simple) as index:
            found = index.candidates_many(["demo", "more"])
    assert [x.version for x in found["demo"] or ()] == ["1.0"]
    assert [x.index for x in found["more"] or ()] == [other.simple]


def test_files_of_find_links_join_those_of_the_index(
    server: TinyIndex, opened: Opener, tmp_path: Path
) -> None:
    content = make_wheel("demo", "1.0+cpu")
    (tmp_path / "links").mkdir()
    (tmp_path / "links/demo-1.0+cpu-py3-none-any.whl").write_bytes(content)
    (tmp_path / "links" / WHEEL).write_bytes(make_wheel("demo"))
    server.add(WHEEL, make_wheel("demo"))
    with opened(server.simple, links=(str(tmp_path / "links"),)) as index:
        ours, local = index.candidates("demo")
    assert ours.url.startswith(server.url)
    assert (local.version, local.sha256, local.size) == ("1.0+cpu", sha256(content), len(content))


def test_a_changed_local_wheel_gets_a_new_hash(opened: Opener, tmp_path: Path) -> None:
    wheel = tmp_path / WHEEL
    hashes = []
    for content in (make_wheel("demo"), make_wheel("demo", requires=("six",))):
        wheel.write_bytes(content)
        with opened(links=(str(tmp_path),)) as index:
            hashes.append(index.candidates("demo")[0].sha256 == sha256(content))
    assert hashes == [True, True]


def test_a_page_of_links_over_http_serves_several_packages(
    server: TinyIndex, opened: Opener
) -> None:
    page = b'<a href="demo-1.0%2Bcu1-py3-none-any.whl">demo</a><a href="more-2.0.tar.gz">m</a>'
    server.files["/links.html"], server.types["/links.html"] = page, "text/html; charset=utf-8"
    with opened(links=(f"{server.url}/links.html",)) as index:
        found = index.candidates_many(["demo", "more"])
    assert [(x.version, x.sha256) for x in found["demo"] or ()] == [("1.0+cu1", "")]
    assert [x.version for x in found["more"] or ()] == ["2.0"]


def test_a_missing_find_links_folder_is_noted_and_stops_nothing(
    server: TinyIndex, opened: Opener, tmp_path: Path
) -> None:
    server.add(WHEEL, make_wheel("demo"))
    with opened(server.simple, links=(str(tmp_path / "gone"),)) as index:
        assert index.candidates("demo")
        assert "gone" in index.notes[0]


def test_an_index_in_a_folder_works(opened: Opener, tmp_path: Path) -> None:
    (tmp_path / "simple/demo").mkdir(parents=True)
    (tmp_path / "files").mkdir()
    (tmp_path / "files" / WHEEL).write_bytes(make_wheel("demo", requires=("six",)))
    page = f'<a href="../../files/{WHEEL}">{WHEEL}</a>'
    (tmp_path / "simple/demo/index.html").write_text(page)
    with opened((tmp_path / "simple").as_uri()) as index:
        (wheel,) = index.candidates("demo")
        assert index.metadata(wheel).requires_dist == ("six",)
        assert index.candidates_many(["nil"]) == {"nil": None}
        (size,) = index.sizes([wheel]).values()
        assert size == (tmp_path / "files" / WHEEL).stat().st_size


def test_a_folder_index_that_is_gone_is_no_index_without_packages(
    opened: Opener, tmp_path: Path
) -> None:
    with opened((tmp_path / "gone").as_uri()) as index, pytest.raises(IndexUnavailableError):
        index.candidates("demo")


def test_a_page_from_the_network_never_points_at_local_files(
    server: TinyIndex, opened: Opener
) -> None:
    server.files["/simple/demo/"] = f'<a href="file:///tmp/{WHEEL}">{WHEEL}</a>'.encode()
    server.types["/simple/demo/"] = "text/html"
    with opened(server.simple) as index:
        assert index.candidates("demo") == ()
        assert index.skipped["demo"] == 1


@pytest.mark.parametrize("fault", [503, 429, 502, 504, CUT])
def test_what_can_pass_is_tried_again(
    server: TinyIndex, opened: Opener, pauses: list[float], fault: int
) -> None:
    server.add(WHEEL, make_wheel("demo"))
    server.faults["/simple/demo/"] = [fault, fault]
    with opened(server.simple) as index:
        assert len(index.candidates("demo")) == 1
    assert pauses == [0.5, 1.0]


def test_what_does_not_pass_ends_after_three_tries(server: TinyIndex, opened: Opener) -> None:
    server.faults["/simple/demo/"] = [503] * 9
    with opened(server.simple) as index, pytest.raises(IndexUnavailableError, match="503"):
        index.candidates("demo")
    assert len(server.requested) == 3


def test_a_closed_port_is_explained_by_the_index_name(opened: Opener) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    address = f"http://127.0.0.1:{port}/simple"
    with opened(address) as index, pytest.raises(IndexUnavailableError, match="cannot be") as e:
        index.candidates("demo")
    assert address in e.value.what
    assert e.value.exit_code == 8


def test_an_unknown_host_is_not_tried_again(opened: Opener, pauses: list[float]) -> None:
    unknown = pytest.raises(IndexUnavailableError, match=r"no-such-host\.invalid")
    with opened("http://no-such-host.invalid/simple") as index, unknown:
        index.candidates("demo")
    assert pauses == []


@pytest.mark.parametrize("status", [401, 403])
def test_a_refusal_says_where_credentials_go(
    server: TinyIndex, opened: Opener, status: int
) -> None:
    server.faults["/simple/demo/"] = [status]
    with opened(server.simple) as index, pytest.raises(IndexUnavailableError) as caught:
        index.candidates("demo")
    assert "netrc" in caught.value.fix
    assert len(server.requested) == 1


def test_credentials_open_an_index_and_show_nowhere(
    server: TinyIndex, opened: Opener, tmp_path: Path
) -> None:
    server.password = "me:s3cret"
    server.add(WHEEL, make_wheel("demo"))
    address = server.simple.replace("http://", "http://me:s3cret@")
    with opened(address) as index:
        (wheel,) = index.candidates("demo")
        index.metadata(wheel)
        assert "s3cret" not in repr(location(address)) + repr(wheel)
    assert b"s3cret" not in (tmp_path / "cache/index.db").read_bytes()
    server.password = "me:other"
    with opened(address) as index, pytest.raises(IndexUnavailableError) as caught:
        index.candidates("more")
    assert "s3cret" not in str(caught.value)


def test_a_redirected_page_counts_from_where_it_landed(server: TinyIndex, opened: Opener) -> None:
    server.files["/elsewhere/deep/demo/"] = f'<a href="{WHEEL}">x</a>'.encode()
    server.types["/elsewhere/deep/demo/"] = "text/html"
    server.redirects["/simple/demo/"] = "/elsewhere/deep/demo/"
    with opened(server.simple) as index:
        assert index.candidates("demo")[0].url == f"{server.url}/elsewhere/deep/demo/{WHEEL}"


@pytest.mark.parametrize(
    ("kind", "body"),
    [("image/png", b"x"), ("application/vnd.pypi.simple.v1+json", b"{}"), ("text/x", b"<a>")],
)
def test_nonsense_is_no_answer(server: TinyIndex, opened: Opener, kind: str, body: bytes) -> None:
    server.files["/simple/demo/"], server.types["/simple/demo/"] = body, kind
    with opened(server.simple) as index, pytest.raises(IndexUnavailableError, match="as a package"):
        index.candidates("demo")


def test_a_young_page_is_not_requested_again(
    server: TinyIndex, opened: Opener, clock: Clock
) -> None:
    server.add(WHEEL, make_wheel("demo"))
    answers = []
    for wait in (0, 599, 2):
        clock.now += wait
        with opened(server.simple) as index:
            answers.append(index.candidates_many(["demo", "none"]))
    assert answers[0] == answers[1] == answers[2]
    assert len(server.paths("/demo/")) == len(server.paths("/none/")) == 2


def test_an_unchanged_page_is_confirmed_without_its_body(
    server: TinyIndex, opened: Opener, clock: Clock
) -> None:
    server.add(WHEEL, make_wheel("demo"))
    server.headers["/simple/demo/"] = {"ETag": '"1"'}
    with opened(server.simple) as index:
        first = index.candidates("demo")
    server.files["/simple/demo/"] = b""  # The tag is the same, so this body is never sent.
    for _ in range(2):
        clock.now += 601
        with opened(server.simple) as index:
            assert index.candidates("demo") == first
    assert len(server.requested) == 3


def test_a_page_of_the_same_content_is_not_read_anew(
    server: TinyIndex, opened: Opener, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.add(WHEEL, make_wheel("demo"))
    with opened(server.simple) as index:
        first = index.candidates("demo")
    clock.now += 601
    with monkeypatch.context() as patch, opened(server.simple) as index:
        patch.delattr("stackgen.index.client.parse_html")
        assert index.candidates("demo") == first
    clock.now += 601
    server.add("demo-2.0-py3-none-any.whl", make_wheel("demo", "2.0"))
    with opened(server.simple) as index:
        assert len(index.candidates("demo")) == 2


def test_offline_answers_come_from_the_cache_whatever_its_age(
    server: TinyIndex, opened: Opener, clock: Clock
) -> None:
    server.add(WHEEL, make_wheel("demo", requires=("six",)))
    with opened(server.simple) as index:
        (wheel,) = index.candidates("demo")
        index.metadata(wheel)
    clock.now += 1e6
    requested = len(server.requested)
    with opened(server.simple, offline=True) as index:
        assert index.metadata(index.candidates("demo")[0]).requires_dist == ("six",)
        with pytest.raises(IndexUnavailableError, match=r"cache lacks .* more"):
            index.candidates("more")
    assert len(server.requested) == requested


def test_offline_metadata_that_were_never_read_are_named(server: TinyIndex, opened: Opener) -> None:
    server.add(WHEEL, make_wheel("demo"))
    with opened(server.simple) as index:
        index.candidates("demo")
    named = pytest.raises(IndexUnavailableError, match=WHEEL)
    with opened(server.simple, offline=True) as index, named:
        index.metadata(index.candidates("demo")[0])


def test_a_cache_folder_that_cannot_be_made_is_explained(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StorageError, match="cannot be used"):
        PackageIndex(IndexConfig(indexes=()), tmp_path / "file" / "cache")


def test_an_index_loads_no_http_library_before_it_is_needed() -> None:
    code = "import stackgen.index.client, stackgen.index.closure, sys; print(*sys.modules)"
    run = [sys.executable, "-c", code]
    loaded = subprocess.run(run, capture_output=True, text=True, check=True).stdout.split()
    assert {"httpx", "httpx2", "requests"}.isdisjoint(loaded)
