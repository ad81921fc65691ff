"""A store in a folder, wheels for it, and other processes that use it."""

import pickle
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from stackgen.images.layer_store import LayerStore
from stackgen.images.layers import Layer
from stackgen.model.packages import Artifact
from stackgen.model.stacks import Base
from stackgen.storage.wheels import WheelStore
from tests.containers.wheels import a_base, make_wheel

PROJECT = Path(__file__).parent.parent
BASE = a_base()


@dataclass(kw_only=True)
class NoCompiler:
    """Leaves sources as they are, and tells what it was asked to compile."""

    requested: list[frozenset[str]] = field(default_factory=list)

    @contextmanager
    def compiling(self, base: Base, staging: Path) -> Iterator[Callable[[], None]]:
        yield lambda: self.compile(base, staging)

    def compile(self, base: Base, staging: Path) -> None:  # noqa: ARG002
        self.requested.append(frozenset(tree.name for tree in staging.iterdir()))


@dataclass(frozen=True)
class Stores:
    """Both stores below one folder, opened anew for each use as by processes that come and go."""

    root: Path

    @property
    def wheels(self) -> WheelStore:
        return WheelStore(self.root)

    @property
    def layers(self) -> LayerStore:
        return LayerStore(self.root / "layers")

    def build(self, *artifacts: Artifact, compiler: NoCompiler | None = None) -> list[Layer]:
        wheels = self.wheels  # what it hands out is safe for as long as it is there
        fetched = wheels.fetch(artifacts, downloader=NoDownloader())
        pairs = [(artifact, fetched[artifact.sha256]) for artifact in artifacts]
        found = self.layers.layers(BASE, pairs, compiler or NoCompiler())
        return [found[artifact.sha256] for artifact in artifacts]

    def files(self) -> set[str]:
        """Return what lies here, but for locks."""
        found = (path for path in self.root.rglob("*") if path.is_file())
        return {path.name for path in found if path.name not in ("in-work", "in-use")}


class NoDownloader:
    """Downloads nothing: what these tests fetch lies on disk."""

    def download(self, artifact: Artifact, into: object, *, start: int = 0) -> None:
        raise AssertionError(f"{artifact.filename} is not a local file ({into}, {start})")


def local_wheel(folder: Path, name: str, *, kilobytes: int = 0) -> Artifact:
    """Write a wheel, of about a size where one is given, that the store copies from disk."""
    folder.mkdir(exist_ok=True)
    artifact, path = make_wheel(folder, name, {f"{name}_big.txt": "x" * (kilobytes << 10)})
    return replace(artifact, url=path.as_uri(), size=path.stat().st_size)


@contextmanager
def another_process(code: str, *arguments: object) -> Iterator["subprocess.Popen[str]"]:
    """Run Python code that prints a line once it is where the test wants it."""
    command = [sys.executable, "-c", code, *map(str, arguments)]
    pipe = subprocess.PIPE
    process = subprocess.Popen(command, stdin=pipe, stdout=pipe, cwd=PROJECT, text=True)
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def running(function: "partial[None]") -> "AbstractContextManager[subprocess.Popen[str]]":
    """Call a function in another process."""
    code = "import pickle, sys; pickle.loads(bytes.fromhex(sys.argv[1]))()"
    return another_process(code, pickle.dumps(function).hex())


def until(condition: Callable[[], object], *, timeout_s: float = 60) -> None:
    """Wait for something that another process does."""
    end = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < end, "it never happened"
        time.sleep(0.005)
