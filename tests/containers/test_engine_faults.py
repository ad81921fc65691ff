"""Campaigns whose engine goes away, or that are killed while it works for them, all for real.

The engine is one of our own, in a folder of its own: it may be stopped without harm to others.
"""

import os
import shutil
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from stackgen.errors import BuildError, EngineError
from stackgen.images.bases import BaseBuilder
from stackgen.images.engine import Engine, connect
from stackgen.model.inspections import Outcome
from tests.dying_parts import (
    assert_clean,
    assert_nothing_twice,
    downloads,
    recorded,
    serve,
    versions,
    watch,
)
from tests.laboratory import INDICATOR, WORK, Laboratory
from tests.store_parts import until
from tests.tiny_index import TinyIndex, serving

pytestmark = pytest.mark.docker

BASE = "bookworm-py311"


class OwnEngine:
    """An engine that can be stopped and started again, with what it holds."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.socket = folder / "engine.sock"
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def host(self) -> str:
        return f"unix://{self.socket}"

    def client(self) -> Engine:
        with pytest.MonkeyPatch.context() as patched:
            patched.setenv("DOCKER_HOST", self.host)
            return connect()

    def start(self) -> None:
        arguments = {
            "--data-root": "data",
            "--exec-root": "exec",
            "--pidfile": "pid",
        }
        command = [
            "dockerd",
            *(part for name, at in arguments.items() for part in (name, str(self._folder / at))),
            *("-H", self.host, "--bridge=none", "--iptables=false", "--shutdown-timeout", "1"),
        ]
        with (self._folder / "log").open("ab") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log)
        until(self._answers, timeout_s=60)

    def _answers(self) -> bool:
        assert self._process is not None
        if self._process.poll() is not None:
            raise EngineError("it ended", why=self._output(), fix="")
        try:
            self.client().close()
        except EngineError:
            return False
        return True

    def _output(self) -> str:
        return (self._folder / "log").read_text(errors="replace").strip()[-300:]

    def stop(self) -> None:
        if self._process is not None:
            self._process.terminate()
            self._process.wait(60)
            self._process = None


@pytest.fixture(scope="module")
def own_engine(tmp_path_factory: pytest.TempPathFactory, cache: Path) -> Iterator[OwnEngine]:
    """Return an engine that holds a base; the cache saves making it."""
    if os.geteuid() != 0 or shutil.which("dockerd") is None:
        pytest.skip("no engine of our own can be started here (that needs root and dockerd)")
    engine = OwnEngine(tmp_path_factory.mktemp("engine"))
    try:
        engine.start()
        client = engine.client()
        try:
            BaseBuilder(client, cache).make(BASE, lambda _: None)
        finally:
            client.close()
    except BuildError as error:
        engine.stop()
        pytest.skip(f"no engine of our own, or no base in it: {error.what}: {error.why}")
    yield engine
    engine.stop()


@pytest.fixture
def index() -> Iterator[TinyIndex]:
    with serving() as found:
        yield found


class Containers(Laboratory):
    """Explores in containers of an engine that is reached by a socket."""

    @property
    def environ(self) -> dict[str, str]:
        return {**super().environ, "DOCKER_HOST": f"unix://{self.root / 'engine.sock'}"}

    def explore_command(self, *arguments: str) -> list[str]:
        own = ("--executor", "docker", "--base", BASE, "--pi", str(self.root / "work.py"))
        return self.command("explore", *arguments, *own)


@pytest.fixture
def laboratory(index: TinyIndex, own_engine: OwnEngine, cache: Path, tmp_path: Path) -> Containers:
    """2.0 is the baseline, 1.0 does twice its work."""
    (tmp_path / "work.py").write_text(INDICATOR)
    for version, size in (("2.0", 10_000), ("1.0", 20_000)):
        serve(index, tmp_path / "wheels", version, WORK.format(size=size))
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache" / "bases").symlink_to(cache)
    (tmp_path / "engine.sock").symlink_to(own_engine.socket)
    return Containers(root=tmp_path, index=index.simple)


class Proxy:
    """Stands before an engine, counts the images that are sent, and holds one of them back.

    stall: the number of the image that never gets there, from 1; 0 for none.
    """

    def __init__(self, path: Path, engine: Path, *, stall: int = 0) -> None:
        self.loads = 0
        self.stalled = threading.Event()
        self._engine, self._stall, self._path = engine, stall, path
        self._open: list[socket.socket] = []
        self._listen()

    def _listen(self) -> None:
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(self._path))
        self._listener.listen(16)
        threading.Thread(target=self._serve, args=(self._listener,), daemon=True).start()

    def close(self) -> None:
        with suppress(OSError):  # wakes up what accepts
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def refuse(self, seconds: float) -> None:
        """Cut all connections, and refuse further ones for some time."""
        self.close()
        for each in self._open:
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
        time.sleep(seconds)
        self._path.unlink()
        self._listen()

    def _serve(self, listener: socket.socket) -> None:
        with suppress(OSError):
            while True:
                client, _ = listener.accept()
                self._open.append(client)
                threading.Thread(target=self._pass_on, args=(client,), daemon=True).start()

    def _pass_on(self, client: socket.socket) -> None:
        with client, socket.socket(socket.AF_UNIX) as server:
            server.connect(str(self._engine))
            back = threading.Thread(target=self._pump, args=(server, client))
            back.start()
            self._pump(client, server)
            back.join()

    def _pump(self, source: socket.socket, target: socket.socket) -> None:
        with suppress(OSError):
            while chunk := source.recv(1 << 16):
                if b"/images/load" in chunk:
                    self.loads += 1
                    if self.loads == self._stall:
                        target.sendall(chunk[: len(chunk) // 2])
                        self.stalled.set()
                        while source.recv(1 << 16):
                            pass  # until the sender is dead
                        break
                target.sendall(chunk)
        for end in (source, target):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)


@contextmanager
def proxy(laboratory: Laboratory, engine: OwnEngine, *, stall: int = 0) -> Iterator[Proxy]:
    path = laboratory.root / "engine.sock"
    path.unlink()
    found = Proxy(path, engine.socket, stall=stall)
    try:
        yield found
    finally:
        found.close()
        path.unlink()
        path.symlink_to(engine.socket)


def layers(laboratory: Laboratory) -> dict[str, int]:
    """Return when each layer of the store was made."""
    found = (laboratory.root / "cache").glob("layers/??/*.tar")
    return {path.name: path.stat().st_ino for path in found}


@pytest.mark.slow
def test_a_kill_while_an_image_is_loaded_loses_nothing_and_does_nothing_twice(
    index: TinyIndex, laboratory: Containers, own_engine: OwnEngine
) -> None:
    arguments = ("speedy", "--stacks", "2", "--budget", "30s")
    with (
        proxy(laboratory, own_engine, stall=2) as killed,
        laboratory.exploring(*arguments) as running,
    ):
        until(lambda: killed.stalled.is_set() or running.poll() is not None, timeout_s=120)
        assert running.poll() is None, running.communicate()[1]
        running.kill()
        running.communicate()
    before, made = recorded(laboratory), layers(laboratory)
    assert [versions(laboratory)[each.stack_id] for each in before] == ["2.0"]
    assert_clean(laboratory)
    with proxy(laboratory, own_engine) as again:
        done = laboratory.explore(*arguments)
    assert done.returncode in (0, 3, 6), done.stderr
    assert again.loads == 1
    after = recorded(laboratory)
    assert {each.id for each in before} < {each.id for each in after}
    assert_nothing_twice(after)
    assert made.items() <= layers(laboratory).items()
    assert set(downloads(index).values()) == {1}
    assert_clean(laboratory)


def test_an_engine_that_refuses_for_ten_seconds_is_waited_for(
    laboratory: Containers, own_engine: OwnEngine
) -> None:
    arguments = ("speedy", "--stacks", "2", "--budget", "60s")
    with (
        proxy(laboratory, own_engine) as refusing,
        laboratory.exploring(*arguments) as running,
    ):
        watch(laboratory, running, lambda seen: any(each.block >= 2 for each in seen))
        refusing.refuse(10)
        out, err = running.communicate(timeout=300)
    assert running.returncode in (0, 3, 6), err
    assert "the container engine went away" in err
    assert "trying again in" in err
    seen = recorded(laboratory)
    lost = max(each.block for each in seen if each.outcome is Outcome.ENGINE_LOST)
    assert any(each.block > lost and each.outcome is Outcome.OK for each in seen)
    assert "speedy 1.0" in out


@pytest.mark.slow
def test_an_engine_that_is_started_again_is_waited_for(
    laboratory: Containers, own_engine: OwnEngine
) -> None:
    with laboratory.exploring("speedy", "--stacks", "2", "--budget", "10m") as running:
        watch(laboratory, running, lambda seen: any(each.block >= 2 for each in seen))
        own_engine.stop()
        time.sleep(8)
        own_engine.start()
        _, err = running.communicate(timeout=300)
    assert running.returncode in (0, 3, 6), err
    assert "the container engine went away" in err
    assert "trying again in" in err
    seen = recorded(laboratory)
    lost = max(each.block for each in seen if each.outcome is Outcome.ENGINE_LOST)
    assert any(each.block > lost and each.outcome is Outcome.OK for each in seen)
    assert {each.outcome for each in seen} == {Outcome.OK, Outcome.ENGINE_LOST}
    assert_nothing_twice(seen)


@pytest.mark.slow
def test_an_engine_that_stays_away_ends_it_with_5_and_the_next_run_goes_on(
    index: TinyIndex, laboratory: Containers, own_engine: OwnEngine
) -> None:
    arguments = ("speedy", "--stacks", "2", "--budget", "60s")
    try:
        with laboratory.exploring(*arguments) as running:
            watch(laboratory, running, lambda seen: any(each.block >= 2 for each in seen))
            own_engine.stop()
            out, err = running.communicate(timeout=400)  # others may measure meanwhile
    finally:
        own_engine.start()
    assert running.returncode == 5, err
    assert "the container engine went away" in err
    assert "start it and run the same command again" in err
    assert "speedy 2.0" in out  # what was measured is shown
    before = {each.id for each in recorded(laboratory)}
    done = laboratory.explore(*arguments)
    assert done.returncode in (0, 3, 6), done.stderr
    after = recorded(laboratory)
    assert before < {each.id for each in after}
    assert_nothing_twice(after)
    assert set(downloads(index).values()) == {1}
    assert_clean(laboratory)


@pytest.mark.slow
def test_a_kill_while_measuring_leaves_no_container_behind(
    laboratory: Containers, own_engine: OwnEngine
) -> None:
    arguments = ("speedy", "--stacks", "2", "--budget")
    with laboratory.exploring(*arguments, "60s") as running:
        watch(laboratory, running, lambda seen: any(each.block >= 1 for each in seen))
        running.send_signal(signal.SIGKILL)
        running.communicate()
    before = {each.id for each in recorded(laboratory)}
    done = laboratory.explore(*arguments, "20s")
    assert done.returncode in (0, 3, 6), done.stderr
    after = recorded(laboratory)
    assert before < {each.id for each in after}
    assert_nothing_twice(after)
    client = own_engine.client()
    try:
        assert client.api.containers(all=True) == []
    finally:
        client.close()
