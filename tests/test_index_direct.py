"""Files that a requirement names by their address."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from stackgen.errors import IndexUnavailableError, UsageError
from stackgen.index import IndexConfig, PackageIndex
from tests.tiny_index import TinyIndex, make_wheel, serving, sha256

WHEEL = "demo-1.0-py3-none-any.whl"
CONTENT = make_wheel("demo", requires=("six",))
Opener = Callable[..., PackageIndex]


class Clock:
    now = 1e9

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def server() -> Iterator[TinyIndex]:
    with serving() as index:
        index.files[f"/w/{WHEEL}"] = CONTENT
        yield index


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def opened(tmp_path: Path, clock: Clock) -> Opener:
    def opener(*, offline: bool = False) -> PackageIndex:
        config = IndexConfig(indexes=(), offline=offline, read_timeout_s=5.0)
        return PackageIndex(config, tmp_path / "cache", clock=clock, sleep=lambda _: None)

    return opener


def test_a_wheel_on_this_machine_is_taken_with_its_hash(opened: Opener, tmp_path: Path) -> None:
    (tmp_path / WHEEL).write_bytes(CONTENT)
    with opened() as index:
        found = index.direct(Requirement(f"Demo @ {(tmp_path / WHEEL).as_uri()}"))
        assert (found.name, found.version, found.index) == ("demo", "1.0", "direct")
        assert (found.sha256, found.size) == (sha256(CONTENT), len(CONTENT))
        assert index.metadata(found).requires_dist == ("six",)


def test_a_stated_hash_of_a_local_wheel_is_verified_at_once(opened: Opener, tmp_path: Path) -> None:
    (tmp_path / WHEEL).write_bytes(CONTENT)
    url = (tmp_path / WHEEL).as_uri()
    with opened() as index:
        assert index.direct(Requirement(f"demo @ {url}#sha256={sha256(CONTENT)}")).sha256
        with pytest.raises(UsageError, match="not the file"):
            index.direct(Requirement(f"demo @ {url}#sha256={'0' * 64}"))


def test_a_wheel_whose_hash_is_stated_is_not_read_for_it(server: TinyIndex, opened: Opener) -> None:
    digest = sha256(CONTENT)
    with opened() as index:
        found = index.direct(Requirement(f"demo @ {server.url}/w/{WHEEL}#egg=x&sha256={digest}"))
        assert (found.sha256, found.url) == (digest, f"{server.url}/w/{WHEEL}")
        assert server.requested == []
        assert index.metadata(found).requires_dist == ("six",)


def test_a_remote_wheel_of_another_hash_than_stated_is_a_defect(
    server: TinyIndex, opened: Opener
) -> None:
    server.ranges = False
    with opened() as index:
        found = index.direct(Requirement(f"demo @ {server.url}/w/{WHEEL}#sha256={'0' * 64}"))
        assert index.metadata_many([found]) == {}
        assert "hash" in index.defects["0" * 64]


def test_an_unstated_hash_is_computed_once_while_the_file_stays_the_same(
    server: TinyIndex, opened: Opener, clock: Clock
) -> None:
    server.headers[f"/w/{WHEEL}"] = {"ETag": '"1"'}
    wanted = Requirement(f"demo @ {server.url}/w/{WHEEL}")
    for _ in range(3):
        with opened() as index:
            assert index.direct(wanted).sha256 == sha256(CONTENT)
        clock.now += 400
    with opened(offline=True) as index:
        assert index.direct(wanted).size == len(CONTENT)
    assert [x[0] for x in server.requested] == ["HEAD", "GET", "HEAD"]
    server.files[f"/w/{WHEEL}"] = other = make_wheel("demo", requires=("more",))
    server.headers[f"/w/{WHEEL}"] = {"ETag": '"2"'}
    clock.now += 601
    with opened() as index:
        assert index.direct(wanted).sha256 == sha256(other)


def test_offline_a_file_that_was_never_read_has_no_hash(server: TinyIndex, opened: Opener) -> None:
    with opened(offline=True) as index, pytest.raises(IndexUnavailableError, match="offline"):
        index.direct(Requirement(f"demo @ {server.url}/w/{WHEEL}"))


def test_credentials_in_an_address_open_it_and_show_nowhere(
    server: TinyIndex, opened: Opener, tmp_path: Path
) -> None:
    server.password = "me:s3cret"
    address = server.url.replace("http://", "http://me:s3cret@")
    with opened() as index:
        found = index.direct(Requirement(f"demo @ {address}/w/{WHEEL}"))
        assert index.metadata(found).requires_dist == ("six",)
    assert "s3cret" not in repr(found)
    for path in (tmp_path / "cache").iterdir():
        assert b"s3cret" not in path.read_bytes()


def test_a_file_that_is_not_there_is_explained(
    server: TinyIndex, opened: Opener, tmp_path: Path
) -> None:
    with opened() as index:
        with pytest.raises(UsageError, match="there is no file"):
            index.direct(Requirement(f"demo @ {(tmp_path / WHEEL).as_uri()}"))
        with pytest.raises(IndexUnavailableError, match="404"):
            index.direct(Requirement(f"demo @ {server.url}/gone/{WHEEL}"))


@pytest.mark.parametrize(
    ("text", "printed"),
    [
        ("demo @ git+https://h.test/demo.git", "repository"),
        ("demo @ ssh://h.test/demo.git", "repository"),
        ("other @ https://h.test/demo-1.0-py3-none-any.whl", "one of demo"),
        ("demo @ https://h.test/demo.html", "no wheel"),
        ("demo @ https://h.test/", "no wheel"),
        ("demo @ https://h.test/demo-1.0-py3-none-any.whl#sha256=12", "hash"),
        ("demo @ ftp://h.test/demo-1.0-py3-none-any.whl", "ftp"),
    ],
)
def test_what_is_no_file_of_that_project_is_refused(
    opened: Opener, text: str, printed: str
) -> None:
    with opened() as index, pytest.raises(UsageError, match=printed):
        index.direct(Requirement(text))


def test_an_sdist_may_be_named_too(server: TinyIndex, opened: Opener) -> None:
    server.files["/w/demo-1.0.tar.gz"] = b"sdist"
    with opened() as index:
        found = index.direct(Requirement(f"demo @ {server.url}/w/demo-1.0.tar.gz"))
    assert (found.version, found.is_wheel) == ("1.0", False)
