"""Make a virtualenv of a stack, from wheels that are at hand.

uv makes the virtualenv and fills it: it serves every Python from 3.6 on, where virtualenv's own
seeding stops at 3.9, and files are linked from its cache rather than copied.
"""

import errno
import os
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from stackgen.builders import compiled
from stackgen.errors import BuildError, StackgenError, StorageError
from stackgen.values import Artifact, Base, Environment, Kind, Stack

_MARKER = ".complete"
_FULL = ("No space left on device", "Disk quota exceeded")
_OUTPUT_TAIL = 800


@dataclass(frozen=True, slots=True, kw_only=True)
class VirtualenvBuilder:
    """Makes virtualenvs below a folder of ours and keeps them.

    root: where virtualenvs, uv's cache of unpacked wheels, and links to wheels are kept.
    """

    root: Path

    def build(self, stack: Stack, base: Base, wheels: Mapping[str, Path]) -> Environment:
        """Return a virtualenv that holds exactly a stack's packages; one that exists is reused.

        Args:
            stack: what to install; settings do not matter here, they are set when it runs.
            base: the interpreter to build on.
            wheels: where each artifact of the lock lies, by its sha256.

        Raises:
            BuildError: uv refused; the end of what it said is the reason.
            StorageError: the disk is full, or the folder cannot be written.
        """
        # Stacks that differ in settings alone share one virtualenv.
        folder = self.root / "environments" / replace(stack, settings=()).id
        python = folder / "bin" / "python"
        with _storage_errors(folder), _locked(folder):
            if not ((folder / _MARKER).exists() and python.exists()):
                self._build(folder, stack, base, wheels)
        return Environment(
            stack=stack, kind=Kind.VIRTUALENV, location=str(folder), python=str(python)
        )

    def _build(self, folder: Path, stack: Stack, base: Base, wheels: Mapping[str, Path]) -> None:
        """Build in place (scripts name their interpreter's path) and set the marker at the end."""
        files = [self._named(artifact, wheels) for artifact in stack.lock.artifacts]
        if folder.exists():
            shutil.rmtree(folder)  # what an interrupted build left
        self._uv("venv", "--python", base.python, str(folder))
        if files:
            self._install(folder, stack, base, files)
        marker = folder / f"{_MARKER}.part"
        marker.write_text(stack.lock.id, encoding="utf-8")
        marker.replace(folder / _MARKER)

    def _install(self, folder: Path, stack: Stack, base: Base, files: Sequence[Path]) -> None:
        """Install and byte-compile: what is compiled at first use would be timed as an import."""
        self._uv(
            *("pip", "install", "--python", str(folder / "bin" / "python")),
            *("--no-index", "--no-deps", "--link-mode", self._link_mode()),
            *map(str, files),
        )
        store = compiled.BytecodeStore(folder=self.root / "bytecode")
        for site in folder.glob("lib/*/site-packages"):
            store.install(site, stack.lock.artifacts, base)

    def _named(self, artifact: Artifact, wheels: Mapping[str, Path]) -> Path:
        """Return a path that ends in the wheel's own name, from which uv reads what it is."""
        path = wheels.get(artifact.sha256)
        if path is None or not path.exists():
            raise BuildError(
                f"the wheel {artifact.filename} is not at hand",
                why="every artifact of a lock is downloaded before its stack is built",
                fix="run the command again: what is missing is downloaded then",
            )
        if path.name == artifact.filename:
            return path
        # Always the same place: uv knows a wheel that it has unpacked by its path.
        link = self.root / "wheels" / artifact.sha256 / artifact.filename
        link.parent.mkdir(parents=True, exist_ok=True)
        if not link.exists():
            link.unlink(missing_ok=True)
            link.symlink_to(path.resolve())
        return link

    def _link_mode(self) -> str:
        """Return how uv fills virtualenvs: both sides lie below the root, where links can fail."""
        probe, link = self.root / ".link-from", self.root / f".link-to-{os.getpid()}"
        probe.touch()
        try:
            os.link(probe, link)
        except OSError:
            return "copy"
        link.unlink()
        return "hardlink"

    def _uv(self, *arguments: str) -> None:
        import uv

        options = ("--offline", "--no-config", "--no-progress", "--color", "never")
        done = subprocess.run(
            [uv.find_uv_bin(), *arguments, *options],
            env=self._environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            check=False,
        )
        if done.returncode:
            raise _refusal(arguments, done.stdout)

    def _environment(self) -> dict[str, str]:
        """Return what uv needs and nothing of the user's: no index, no credentials, no options."""
        kept = {key: os.environ[key] for key in ("PATH", "HOME", "TMPDIR") if key in os.environ}
        return {
            **kept,
            "LC_ALL": "C.UTF-8",
            "UV_CACHE_DIR": str(self.root / "uv"),
            "UV_PYTHON_DOWNLOADS": "never",
            "UV_NO_PROJECT": "1",
        }


def _refusal(arguments: Sequence[str], output: str) -> StackgenError:
    """Turn what uv said into the error that a caller can decide by."""
    tail = output.strip()[-_OUTPUT_TAIL:]
    if any(words in output for words in _FULL):
        return StorageError(
            "the disk is full", why=tail, fix="free some space, or set STACKGEN_CACHE elsewhere"
        )
    return BuildError(
        f"uv {arguments[0]} failed",
        why=tail or "it said nothing",
        fix="read the reason; stackgen doctor checks the interpreter and the cache",
    )


@contextmanager
def _storage_errors(folder: Path) -> Iterator[None]:
    """Explain a disk that is full or cannot be written."""
    try:
        yield
    except OSError as error:
        full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        raise StorageError(
            "the disk is full" if full else f"cannot write below {folder.parent}",
            why=str(error),
            fix="free some space, or set STACKGEN_CACHE to a folder that can be written",
        ) from error


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Let one process at a time build a folder; the lock goes with the process that holds it."""
    import fcntl  # POSIX only, as virtualenvs are measured only there

    folder.parent.mkdir(parents=True, exist_ok=True)
    with folder.with_name(f"{folder.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
