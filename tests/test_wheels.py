"""The store of wheels: each downloaded once, verified, checked, and never half there."""

import errno
import threading
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

import pytest

from stackgen.errors import BuildError, IndexUnavailableError, StackgenError, StorageError
from stackgen.index import PackageIndex
from stackgen.model.packages import Artifact
from stackgen.storage.wheels import HashMismatchError, WheelStore, check_wheel
from tests.tiny_index import TinyIndex, make_wheel, opened, sha256

WHEEL = "demo-1.0-py3-none-any.whl"


@pytest.fixture
def store(tmp_path: Path) -> WheelStore:
    return WheelStore(tmp_path / "store")


@pytest.fixture
def index(server: TinyIndex, tmp_path: Path) -> Iterator[PackageIndex]:
    with opened(server, tmp_path / "cache") as each:
        yield each


def artifact(content: bytes, url: str, *, size: int | None = None, name: str = WHEEL) -> Artifact:
    return Artifact(
        name="demo",
        version="1.0",
        filename=name,
        sha256=sha256(content),
        url=url,
        index="tiny",
        size=size,
    )


def retained(tmp_path: Path) -> list[str]:
    """Return what lies in the store, but for its locks."""
    files = (x for x in (tmp_path / "store").rglob("*") if x.is_file())
    return [x.name for x in files if x.suffix != ".lock" and x.name != "in-use"]


def test_a_wheel_is_downloaded_once_and_keeps_its_name(
    server: TinyIndex, index: PackageIndex, store: WheelStore
) -> None:
    content = make_wheel("demo")
    wheel = artifact(content, server.add(WHEEL, content))
    assert store.missing([wheel, wheel]) == (wheel,)
    for _ in range(2):
        path = store.fetch([wheel], downloader=index)[wheel.sha256]
    assert (path.name, path.read_bytes(), store.path(wheel)) == (WHEEL, content, path)
    assert store.missing([wheel]) == ()
    assert len(server.requested) == 1


def test_progress_ends_at_the_size_of_the_wheel(
    server: TinyIndex, index: PackageIndex, store: WheelStore
) -> None:
    content = make_wheel("demo")
    wheel = artifact(content, server.add(WHEEL, content))
    reported: list[tuple[str, int]] = []
    store.fetch(
        [wheel], downloader=index, progress=lambda what, count: reported.append((what.name, count))
    )
    assert reported[-1] == ("demo", len(content))


def test_a_redirected_wheel_arrives(
    server: TinyIndex, index: PackageIndex, store: WheelStore
) -> None:
    content = make_wheel("demo")
    server.add(WHEEL, content)
    server.redirects["/old.whl"] = f"/files/{WHEEL}"
    wheel = artifact(content, f"{server.url}/old.whl")
    assert store.fetch([wheel], downloader=index)[wheel.sha256].name == WHEEL


def part_of(tmp_path: Path, wheel: Artifact) -> Path:
    path = tmp_path / "store/wheels" / wheel.sha256[:2] / f"{wheel.sha256}.part"
    path.parent.mkdir(parents=True)
    return path


@pytest.mark.parametrize(
    ("stored", "spans"),
    [(slice(100), ["bytes=100-"]), (slice(None), []), (b"rot", None)],
    ids=["cut off", "whole", "rotten"],
)
def test_a_partial_download_goes_on_where_it_stopped_unless_it_is_rotten(
    server: TinyIndex,
    index: PackageIndex,
    store: WheelStore,
    tmp_path: Path,
    stored: slice | bytes,
    spans: list[str] | None,
) -> None:
    content = make_wheel("demo")
    wheel = artifact(content, server.add(WHEEL, content))
    sent = content[stored] if isinstance(stored, slice) else stored
    part_of(tmp_path, wheel).write_bytes(sent)
    assert store.fetch([wheel], downloader=index)[wheel.sha256].read_bytes() == content
    assert spans is None or [span for _, _, span in server.requested] == spans


def test_a_wrong_hash_is_refused_and_nothing_stays(
    server: TinyIndex, index: PackageIndex, store: WheelStore, tmp_path: Path
) -> None:
    url = server.add(WHEEL, make_wheel("demo", requires=("evil",)))
    wheel = artifact(make_wheel("demo"), url)
    with pytest.raises(HashMismatchError, match=WHEEL):
        store.fetch([wheel], downloader=index)
    assert retained(tmp_path) == []
    assert len(server.requested) == 1


def test_a_truncated_wheel_is_tried_again_and_then_refused(
    server: TinyIndex, index: PackageIndex, store: WheelStore, tmp_path: Path
) -> None:
    content = make_wheel("demo")
    wheel = artifact(content, server.add(WHEEL, content[:-20]), size=len(content))
    with pytest.raises(HashMismatchError, match=WHEEL):
        store.fetch([wheel], downloader=index)
    assert retained(tmp_path) == []
    assert len(server.requested) == 2


def test_one_failure_leaves_the_others_whole(
    server: TinyIndex, index: PackageIndex, store: WheelStore
) -> None:
    good = make_wheel("demo")
    first = artifact(good, server.add(WHEEL, good))
    gone = artifact(b"gone", f"{server.url}/gone.whl")
    store.fetch([first], downloader=index)
    with pytest.raises(IndexUnavailableError):
        store.fetch([first, gone], downloader=index)
    assert store.path(first) is not None


def test_a_local_wheel_is_copied_so_that_its_owner_cannot_spoil_it(
    index: PackageIndex, store: WheelStore, tmp_path: Path
) -> None:
    content, original = make_wheel("demo"), tmp_path / WHEEL
    original.write_bytes(content)
    wheel = artifact(content, original.as_uri())
    part_of(tmp_path, wheel).write_bytes(b"left by a copy that was stopped")
    path = store.fetch([wheel], downloader=index)[wheel.sha256]
    original.write_bytes(b"spoilt")
    assert path.read_bytes() == content


def test_a_local_wheel_that_changed_or_went_is_refused(
    index: PackageIndex, store: WheelStore, tmp_path: Path
) -> None:
    original = tmp_path / WHEEL
    wheel = artifact(make_wheel("demo"), original.as_uri())
    with pytest.raises(BuildError, match="is not there"):
        store.fetch([wheel], downloader=index)
    original.write_bytes(b"other")
    with pytest.raises(HashMismatchError):
        store.fetch([wheel], downloader=index)


@pytest.mark.parametrize("name", ["../evil.whl", "/evil.whl", "a/b.whl", "..", "a\\b.whl"])
def test_a_file_name_cannot_lead_out_of_the_store(store: WheelStore, name: str) -> None:
    with pytest.raises(BuildError, match="no file name"):
        store.path(artifact(b"x", "https://h.test/x", name=name))


def test_what_cannot_be_verified_is_not_taken(index: PackageIndex, store: WheelStore) -> None:
    bare = Artifact(name="demo", version="1", filename=WHEEL, sha256="", url="", index="tiny")
    with pytest.raises(BuildError, match="cannot be verified"):
        store.fetch([bare], downloader=index)


def test_a_wheel_larger_than_the_disk_is_refused_before_it_is_requested(
    server: TinyIndex, index: PackageIndex, store: WheelStore
) -> None:
    huge = artifact(b"", f"{server.url}/huge.whl", size=10**18)
    with pytest.raises(StorageError, match="1,000,000,000,000"):
        store.fetch([huge], downloader=index)
    assert server.requested == []


class FullDisk:
    """Writes a little, then fails as a full disk does."""

    def download(self, artifact: Artifact, into: BinaryIO, *, start: int = 0) -> None:  # noqa: ARG002
        into.write(b"some")
        raise OSError(errno.ENOSPC, "No space left on device")


def test_a_disk_that_fills_up_is_explained_and_freed(store: WheelStore, tmp_path: Path) -> None:
    wheel = artifact(b"whole", "https://h.test/x", size=5_000_000)
    with pytest.raises(StorageError, match=r"5\.0 MB"):
        store.fetch([wheel], downloader=FullDisk())
    assert retained(tmp_path) == []


def test_a_folder_that_cannot_be_written_is_explained(index: PackageIndex, tmp_path: Path) -> None:
    (tmp_path / "store").write_text("a file, not a folder")
    with pytest.raises(StorageError, match="cannot store"):
        WheelStore(tmp_path / "store").fetch([artifact(b"x", "https://h.test/x")], downloader=index)


class Endless:
    """One download fails when the other has begun; that one goes on until it is stopped."""

    def __init__(self) -> None:
        self.begun = threading.Event()

    def download(self, artifact: Artifact, into: BinaryIO, *, start: int = 0) -> None:  # noqa: ARG002
        if artifact.filename == "fails.whl":
            self.begun.wait()
            raise StackgenError("no", why="it fails", fix="none")
        while True:
            into.seek(0)
            into.write(b"more")
            self.begun.set()


def test_a_failure_stops_downloads_that_are_under_way(store: WheelStore) -> None:
    fails = artifact(b"1", "https://h.test/1", name="fails.whl")
    with pytest.raises(StackgenError, match="it fails"):
        store.fetch([fails, artifact(b"2", "https://h.test/2")], downloader=Endless())


class Crowd:
    """Each download waits until eight are under way; notes the order and the most at once."""

    def __init__(self, contents: dict[str, bytes]) -> None:
        self.contents = contents
        self.barrier = threading.Barrier(8)
        self.begun: list[str] = []
        self.now = self.most = 0
        self.lock = threading.Lock()

    def download(self, artifact: Artifact, into: BinaryIO, *, start: int = 0) -> None:  # noqa: ARG002
        with self.lock:
            self.begun.append(artifact.filename)
            self.now += 1
            self.most = max(self.most, self.now)
        self.barrier.wait(timeout=60)
        into.write(self.contents[artifact.filename])
        with self.lock:
            self.now -= 1


def test_eight_wheels_are_downloaded_at_once_and_the_largest_among_the_first(
    store: WheelStore,
) -> None:
    sizes = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 99]
    contents = {
        f"p{n}-1.0-py3-none-any.whl": make_wheel(f"p{n}", members={"x": bytes(size)})
        for n, size in enumerate(sizes)
    }
    wheels = [
        artifact(content, f"https://h.test/{name}", size=len(content), name=name)
        for name, content in contents.items()
    ]
    crowd = Crowd(contents)
    store.fetch(wheels, downloader=crowd)
    assert crowd.most == 8
    largest = max(contents, key=lambda name: len(contents[name]))
    assert largest in crowd.begun[:8]  # of those that begin at once, any may be quicker
    assert len(store.missing(wheels)) == 0


def test_a_member_that_would_escape_the_prefix_is_named(
    server: TinyIndex, index: PackageIndex, store: WheelStore, tmp_path: Path
) -> None:
    content = make_wheel("demo", members={"../evil.py": b"evil"})
    wheel = artifact(content, server.add(WHEEL, content))
    with pytest.raises(BuildError, match="outside the prefix") as caught:
        store.fetch([wheel], downloader=index)
    assert WHEEL in caught.value.what
    assert retained(tmp_path) == []


def test_a_file_that_differs_from_record_is_named(tmp_path: Path) -> None:
    path = tmp_path / WHEEL
    path.write_bytes(make_wheel("demo", recorded={"demo.py": b"another"}))
    with pytest.raises(BuildError, match=r"demo\.py differs"):
        check_wheel(path)


def test_two_members_of_one_name_are_refused(tmp_path: Path) -> None:
    path = tmp_path / WHEEL
    path.write_bytes(make_wheel("demo"))
    with zipfile.ZipFile(path, "a") as wheel, pytest.warns(UserWarning, match="Duplicate"):
        wheel.writestr("demo.py", b"another")
    with pytest.raises(BuildError, match=r"'demo\.py' twice"):
        check_wheel(path)


def test_a_file_that_no_csv_can_list_is_refused(tmp_path: Path) -> None:
    path = tmp_path / WHEEL
    path.write_bytes(make_wheel("demo", members={"demo/a\rb": b"x"}))
    with pytest.raises(BuildError, match="RECORD states no digest of"):
        check_wheel(path)


def test_a_sound_wheel_passes(tmp_path: Path) -> None:
    path = tmp_path / WHEEL
    path.write_bytes(make_wheel("demo", members={"demo/..data": b"x", "a..b/c": b"y"}))
    check_wheel(path)


@pytest.mark.parametrize("content", [b"", b"not a zip", make_wheel("demo")[:-30]])
def test_what_is_no_zip_file_is_no_wheel(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / WHEEL
    path.write_bytes(content)
    with pytest.raises(BuildError, match="not a readable zip"):
        check_wheel(path)
