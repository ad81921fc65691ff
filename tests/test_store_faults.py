"""Processes are killed, disks fill up, two want the same: the store stays whole."""

import os
import random
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from stackgen.errors import BuildError, IndexUnavailableError, StorageError
from stackgen.images import bytecode
from stackgen.images.maintenance import check
from stackgen.index import IndexConfig, PackageIndex
from stackgen.index.config import location
from stackgen.model.packages import Artifact
from stackgen.model.reports.images import FaultKind, StoreCheck
from stackgen.model.stacks import Base
from tests.store_parts import BASE, NoCompiler, Stores, local_wheel, running, until
from tests.tiny_index import make_wheel, sha256


def checked(stores: Stores) -> StoreCheck:
    return check(stores.wheels, stores.layers)


class StallingServer:
    """Hands out files; of the first answer for a stalled one, only the first half comes.

    dying: it ends with that half, instead of keeping its client waiting.
    """

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self.stalled: set[str] = set()
        self.dying = False
        self.die: Callable[[], None] = lambda: None
        self.requested: list[tuple[str, str]] = []
        self.end = threading.Event()

    def answer(self, handler: BaseHTTPRequestHandler) -> None:
        name, span = handler.path.rpartition("/")[2], handler.headers.get("Range", "")
        self.requested.append((name, span))
        start = int(span[6:-1]) if span else 0
        body = self.files[name][start:]
        handler.send_response(206 if span else 200)
        handler.send_header("Content-Length", str(len(body)))
        last = len(self.files[name]) - 1
        handler.send_header("Content-Range", f"bytes {start}-{last}/{last + 1}")
        handler.end_headers()
        if name in self.stalled:
            self.stalled.remove(name)
            handler.wfile.write(body[: len(body) // 2])
            if self.dying:
                self.die()
            else:
                self.end.wait()
        else:
            handler.wfile.write(body)


@pytest.fixture
def server() -> Iterator[tuple[StallingServer, str]]:
    with serving() as both:
        yield both


@contextmanager
def serving() -> Iterator[tuple[StallingServer, str]]:
    stalling = StallingServer()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            stalling.answer(self)

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as http:
        stalling.die = http.socket.close  # nobody can connect any more
        thread = threading.Thread(target=http.serve_forever, args=(0.01,))
        thread.start()
        yield stalling, f"http://127.0.0.1:{http.server_address[1]}"
        stalling.end.set()
        http.shutdown()
        thread.join()


def downloading(root: Path, url: str, *artifacts: Artifact) -> None:
    config = IndexConfig(indexes=(location(f"{url}/simple"),))
    with PackageIndex(config, root / "index", sleep=lambda _: None) as index:
        Stores(root).wheels.fetch(artifacts, downloader=index)


def served(stalling: StallingServer, url: str, name: str, *, kilobytes: int = 400) -> Artifact:
    """Hand out a wheel whose bytes are random, so that no compression makes it small."""
    noise = random.Random(name).randbytes(kilobytes << 10)
    about = {f"{name}-1.0.dist-info/WHEEL": b"Wheel-Version: 1.0\nRoot-Is-Purelib: true\n"}
    content = make_wheel(name, members={f"{name}/noise.bin": noise, **about})
    filename = f"{name}-1.0-py3-none-any.whl"
    stalling.files[filename] = content
    return Artifact(
        name=name,
        version="1.0",
        filename=filename,
        sha256=sha256(content),
        url=f"{url}/files/{filename}",
        index="tests",
    )


def test_a_download_that_is_killed_goes_on_where_it_stopped(
    stores: Stores, server: tuple[StallingServer, str]
) -> None:
    stalling, url = server
    whole, cut = (served(stalling, url, name, kilobytes=5000) for name in ("whole", "cut"))
    stalling.stalled = {cut.filename}
    part = stores.root / "wheels" / cut.sha256[:2] / f"{cut.sha256}.part"
    with running(partial(downloading, stores.root, url, whole, cut)) as process:
        until(lambda: part.exists() and part.stat().st_size > 2_000_000)
        until(lambda: stores.wheels.path(whole))
        process.kill()
        process.wait()
    found = checked(stores)
    assert (found.wheels, len(found.unfinished), found.faults) == (1, 1, ())
    had, stalling.requested[:] = part.stat().st_size, []
    downloading(stores.root, url, whole, cut)
    assert stalling.requested == [(cut.filename, f"bytes={had}-")]
    assert (checked(stores).wheels, checked(stores).unfinished) == (2, ())


def test_a_download_from_an_index_that_dies_goes_on_with_the_next_one(stores: Stores) -> None:
    with serving() as (dying, url):
        whole, cut = (served(dying, url, name, kilobytes=3000) for name in ("whole", "cut"))
        downloading(stores.root, url, whole)
        dying.stalled, dying.dying = {cut.filename}, True
        with pytest.raises(IndexUnavailableError):
            downloading(stores.root, url, whole, cut)
        assert [name for name, _ in dying.requested].count(whole.filename) == 1
    part = stores.root / "wheels" / cut.sha256[:2] / f"{cut.sha256}.part"
    had = part.stat().st_size
    assert 0 < had < len(dying.files[cut.filename])
    found = checked(stores)
    assert (found.wheels, len(found.unfinished), found.faults) == (1, 1, ())
    with serving() as (again, url):
        again.files = dying.files
        moved = [replace(each, url=f"{url}/files/{each.filename}") for each in (whole, cut)]
        downloading(stores.root, url, *moved)
        assert again.requested == [(cut.filename, f"bytes={had}-")]
    found = checked(stores)
    assert (found.wheels, found.unfinished, found.faults) == (2, (), ())


@dataclass
class Stuck(NoCompiler):
    """Makes the layer of one tree something that cannot be read to its end."""

    artifact: Artifact

    def compile(self, base: Base, staging: Path) -> None:  # noqa: ARG002
        os.mkfifo(staging / self.artifact.sha256 / "pipe.pyc")


@dataclass
class Silent(NoCompiler):
    """Never comes to an end."""

    def compile(self, base: Base, staging: Path) -> None:  # noqa: ARG002
        while True:
            time.sleep(1)


def building(root: Path, compiler: NoCompiler, *artifacts: Artifact) -> None:
    Stores(root).build(*artifacts, compiler=compiler)


def test_a_process_killed_while_it_unpacks_leaves_nothing_that_matters(
    stores: Stores, tmp_path: Path
) -> None:
    wheels = [local_wheel(tmp_path / "w", name) for name in ("one", "two")]
    with running(partial(building, stores.root, Silent(), *wheels)) as process:
        until(lambda: len(list(stores.root.glob("layers/tmp-*/trees/*/opt/**/*.py"))) == 2)
        assert checked(stores).faults == ()  # it is at work
        process.kill()
        process.wait()
    found = checked(stores)
    assert (found.exit_code, {fault.kind for fault in found.faults}) == (0, {FaultKind.LEFT_OVER})
    assert len(stores.build(*wheels)) == 2
    assert (checked(stores).layers, checked(stores).faults) == (2, ())


def test_layers_that_were_finished_before_the_kill_are_not_made_again(
    stores: Stores, tmp_path: Path
) -> None:
    done, stuck = (local_wheel(tmp_path / "w", name) for name in ("done", "stuck"))
    with running(partial(building, stores.root, Stuck(stuck), done, stuck)) as process:
        until(lambda: checked(stores).layers == 1)
        process.kill()
        process.wait()
    assert checked(stores).exit_code == 0
    compiler = NoCompiler()
    stores.build(done, stuck, compiler=compiler)
    assert compiler.requested == [frozenset({stuck.sha256})]
    assert (checked(stores).layers, checked(stores).faults) == (2, ())


@pytest.mark.slow
def test_no_moment_of_a_kill_does_harm(stores: Stores, tmp_path: Path) -> None:
    wheels = [local_wheel(tmp_path / "w", f"pkg{n}", kilobytes=2000) for n in range(8)]
    dice = random.Random(1)
    made = 0
    for _ in range(20):
        with running(partial(building, stores.root, NoCompiler(), *wheels)) as process:
            until(lambda: stores.files() or process.poll() is not None)
            time.sleep(dice.uniform(0, 0.5))
            process.kill()
            process.wait()
        found = checked(stores)
        assert found.exit_code == 0
        assert found.layers >= made
        made = found.layers
    # What the last kill left is removed with the next layer that is made.
    stores.build(*wheels, local_wheel(tmp_path / "w", "another"))
    assert (checked(stores).wheels, checked(stores).layers, checked(stores).faults) == (9, 9, ())


@dataclass
class Counting(NoCompiler):
    """Notes in a file what it is asked to compile, by whatever process."""

    notes: Path

    def compile(self, base: Base, staging: Path) -> None:  # noqa: ARG002
        with self.notes.open("a") as file:
            file.writelines(f"{tree.name}\n" for tree in staging.iterdir())


def fetching_and_building(root: Path, url: str, notes: Path, *artifacts: Artifact) -> None:
    stores = Stores(root)
    wheels = stores.wheels
    with PackageIndex(IndexConfig(indexes=(location(f"{url}/simple"),)), root / "index") as index:
        fetched = wheels.fetch(artifacts, downloader=index)
    pairs = [(artifact, fetched[artifact.sha256]) for artifact in artifacts]
    stores.layers.layers(BASE, pairs, Counting(notes))


def test_two_processes_on_one_store_do_the_work_once_and_both_succeed(
    stores: Stores, server: tuple[StallingServer, str], tmp_path: Path
) -> None:
    stalling, url = server
    artifacts = [served(stalling, url, name) for name in ("one", "two")]
    notes = tmp_path / "notes"
    work = partial(fetching_and_building, stores.root, url, notes, *artifacts)
    with running(work) as first, running(work) as second:
        assert [first.wait(), second.wait()] == [0, 0]
    assert sorted(name for name, _ in stalling.requested) == [each.filename for each in artifacts]
    assert sorted(notes.read_text().split()) == sorted(each.sha256 for each in artifacts)
    assert (checked(stores).layers, checked(stores).faults) == (2, ())


def enlarge(disk: Path) -> None:
    subprocess.run(["mount", "-o", "remount,size=16m", str(disk)], check=True)


@pytest.mark.parametrize("announced", [True, False])
def test_a_full_disk_says_how_much_is_needed_and_leaves_the_wheels_whole(
    small_disk: Path, server: tuple[StallingServer, str], *, announced: bool
) -> None:
    stalling, url = server
    stores = Stores(small_disk)
    first, second, third = (served(stalling, url, name) for name in ("a", "b", "c"))
    downloading(small_disk, url, first)
    size = len(stalling.files[third.filename]) if announced else None
    wanted = [replace(each, size=size) for each in (first, second, third)]
    with pytest.raises(StorageError, match=r"no room for .* of 0\.\d MB") as refusal:
        downloading(small_disk, url, *wanted)
    assert "prune" in refusal.value.fix
    assert checked(stores).exit_code == 0
    assert stores.wheels.path(first)
    assert checked(stores).faults == ()
    enlarge(small_disk)
    downloading(small_disk, url, *wanted)
    assert checked(stores).wheels == 3


@dataclass
class Filling(NoCompiler):
    """Fills the disk while the real thing compiles; then there is room again."""

    folder: Path

    def compile(self, base: Base, staging: Path) -> None:  # noqa: ARG002
        ballast = self.folder / "ballast"
        with suppress(OSError), ballast.open("wb", buffering=0) as file:
            while True:
                file.write(bytes(4096))
        command = [sys.executable, bytecode.__file__, str(staging), "2"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        ballast.unlink()
        if done.returncode:
            raise BuildError("it did not compile", why=done.stderr.strip(), fix="none")


def test_a_disk_that_fills_up_while_compiling_stores_no_layer_without_its_bytecode(
    small_disk: Path, tmp_path: Path
) -> None:
    stores, wheel = Stores(small_disk), local_wheel(tmp_path / "w", "one")
    with pytest.raises(StorageError, match="cannot be written") as refusal:
        stores.build(wheel, compiler=Filling(small_disk))
    assert "MiB are needed" in refusal.value.why
    assert (checked(stores).layers, checked(stores).faults) == (0, ())
    stores.build(wheel)
    assert (checked(stores).layers, checked(stores).faults) == (1, ())
