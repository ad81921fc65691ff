"""What goes wrong between us and an index, each forced on a real server."""

import multiprocessing
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from stackgen.errors import IndexUnavailableError
from stackgen.index import IndexConfig, PackageIndex
from stackgen.index.config import location
from tests.tiny_index import CUT, SLOW, TinyIndex, make_wheel, only, opened, serving, sha256

WHEEL = "demo-1.0-py3-none-any.whl"
FILE = f"/files/{WHEEL}"
PAGE = "/simple/demo/"


@pytest.fixture
def server() -> Iterator[TinyIndex]:
    with serving() as index:
        index.timeout_s = 1.0  # a busy machine needs more than the usual 0.3 s for a good answer
        index.add(WHEEL, make_wheel("demo", requires=("six",)))
        yield index


def test_a_slow_page_is_requested_again(server: TinyIndex, tmp_path: Path) -> None:
    server.faults[PAGE] = [SLOW]
    with opened(server, tmp_path, read_timeout_s=server.timeout_s) as index:
        assert only(index).version == "1.0"


def test_a_page_that_stays_slow_is_explained(server: TinyIndex, tmp_path: Path) -> None:
    server.faults[PAGE] = [SLOW] * 3
    slow = pytest.raises(IndexUnavailableError, match="no answer came in time")
    with opened(server, tmp_path, read_timeout_s=server.timeout_s) as index, slow:
        only(index)


@pytest.mark.parametrize("fault", [503, CUT, SLOW])
def test_part_of_a_wheel_is_requested_again(server: TinyIndex, tmp_path: Path, fault: int) -> None:
    server.faults[FILE] = [fault, fault]
    timeout_s = server.timeout_s if fault == SLOW else 5.0
    with opened(server, tmp_path, read_timeout_s=timeout_s) as index:
        assert index.metadata(only(index)).requires_dist == ("six",)


def test_a_part_that_never_comes_is_no_defect_of_the_wheel(
    server: TinyIndex, tmp_path: Path
) -> None:
    server.faults[FILE] = [503] * 9
    with opened(server, tmp_path) as index:
        with pytest.raises(IndexUnavailableError, match="503"):
            index.metadata(only(index))
        assert index.defects == {}
    server.faults.clear()
    with opened(server, tmp_path) as index:
        assert index.metadata(only(index)).requires_dist == ("six",)


def test_a_wheel_that_moved_is_followed(server: TinyIndex, tmp_path: Path) -> None:
    server.files["/moved.whl"] = server.files.pop(FILE)
    server.redirects[FILE] = "/moved.whl"
    with opened(server, tmp_path) as index:
        assert index.metadata(only(index)).requires_dist == ("six",)


def test_a_redirect_that_leads_nowhere_ends(server: TinyIndex, tmp_path: Path) -> None:
    server.redirects[PAGE] = PAGE
    with opened(server, tmp_path) as index, pytest.raises(IndexUnavailableError, match="redirect"):
        only(index)


def test_netrc_opens_an_index(
    server: TinyIndex, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.password = "me:s3cret"
    path = tmp_path / "netrc"
    path.write_text("machine 127.0.0.1 login me password s3cret\n")
    path.chmod(0o600)
    with opened(server, tmp_path / "1") as index, pytest.raises(IndexUnavailableError) as caught:
        only(index)
    assert "401" in caught.value.why
    monkeypatch.setenv("NETRC", str(path))
    with opened(server, tmp_path / "2") as index:
        assert index.metadata(only(index)).requires_dist == ("six",)
    assert b"s3cret" not in (tmp_path / "2/index.db").read_bytes()


def test_a_cache_that_was_damaged_while_it_was_open_is_replaced(
    server: TinyIndex, tmp_path: Path
) -> None:
    with opened(server, tmp_path) as index:
        only(index)
        path = tmp_path / "index.db"
        with sqlite3.connect(path) as database:
            database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        database.close()
        path.write_bytes(b"rubbish" * 9999)
        assert index.metadata(only(index)).requires_dist == ("six",)
    with opened(server, tmp_path) as index:
        assert index.metadata(only(index)).requires_dist == ("six",)


def _look(url: str, cache: Path, names: list[str]) -> None:
    config = IndexConfig(indexes=(location(f"{url}/simple"),), read_timeout_s=20.0)
    with PackageIndex(config, cache) as index:
        for name in names:
            index.metadata_many(index.candidates(name))
        assert index.notes == ()


def test_two_processes_fill_one_cache_from_one_index(server: TinyIndex, tmp_path: Path) -> None:
    names = [f"p{n}" for n in range(12)]
    for name in names:
        server.add(f"{name}-1.0-py3-none-any.whl", make_wheel(name, requires=(f"r-{name}",)))
    context = multiprocessing.get_context("spawn")
    orders = (names, names[::-1])
    workers = [context.Process(target=_look, args=(server.url, tmp_path, x)) for x in orders]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
        assert worker.exitcode == 0
    requested = len(server.requested)
    with opened(server, tmp_path) as index:
        for name in names:
            (wheel,) = index.candidates(name)
            assert index.metadata(wheel).requires_dist == (f"r-{name}",)
    assert len(server.requested) == requested


def test_what_the_cache_holds_is_read_without_the_libraries_that_ask(
    server: TinyIndex, tmp_path: Path
) -> None:
    with opened(server, tmp_path) as index:
        index.metadata(only(index))
    program = (
        "import sys; from pathlib import Path\n"
        "from stackgen.index import PackageIndex, load_config\n"
        "url, cache = sys.argv[1:]\n"
        "load_config(environ={'PIP_CONFIG_FILE': '/dev/null', 'UV_NO_CONFIG': '1'})\n"
        "config = load_config(environ={}, index_url=url)\n"
        "with PackageIndex(config, Path(cache)) as index:\n"
        "    (wheel,) = index.candidates('demo')\n"
        "    assert index.metadata(wheel).requires_dist == ('six',)\n"
        "print([x for x in ('requests', 'urllib3', 'pypi_simple', 'bs4') if x in sys.modules])\n"
    )
    command = [sys.executable, "-c", program, server.simple, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_a_wheel_cut_short_on_its_server_is_distinguished_from_a_cut_connection(
    server: TinyIndex, tmp_path: Path
) -> None:
    whole = server.files[FILE]
    server.files[FILE] = whole[:-30]
    with opened(server, tmp_path) as index:
        assert index.metadata_many([only(index)]) == {}
        assert "hash" in index.defects[sha256(whole)]
    server.files[FILE] = whole
    with opened(server, tmp_path) as index:
        assert index.metadata(only(index)).requires_dist == ("six",)
