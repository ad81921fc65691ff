"""Make a virtualenv of a stack, from wheels that are at hand.

virtualenv makes it, without any package; uv fills it, linking files from its cache rather than
copying them, and makes those that the installed virtualenv declines.
"""

import contextlib
import errno
import io
import os
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from stackgen.builders import compiled
from stackgen.builders.exclusive import exclusively
from stackgen.errors import BuildError, StackgenError, StorageError
from stackgen.values import Artifact, Base, Environment, Kind, Stack

_MARKER = ".complete"
_FULL = ("No space left on device", "Disk quota exceeded")
_OUTPUT_TAIL = 800


@dataclass(frozen=True, slots=True, kw_only=True)
class VirtualenvBuilder:
    """Makes virtualenvs below a folder of ours and keeps them.

    root: where virtualenvs, what virtualenv and uv remember, and links to wheels are kept.
    """

    root: Path

    def build(self, stack: Stack, base: Base, wheels: Mapping[str, Path]) -> Environment:
        """Return a virtualenv that holds exactly a stack's packages; one that exists is reused.

        Args:
            stack: what to install; settings do not matter here, they are set when it runs.
            base: the interpreter to build on.
            wheels: where each artifact of the lock lies, by its sha256.

        Raises:
            BuildError: virtualenv and uv refused; the end of what uv said is the reason.
            StorageError: the disk is full, or the folder cannot be written.
        """
        # Stacks that differ in settings alone share one virtualenv.
        folder = self.root / "environments" / replace(stack, settings=()).id
        python = folder / "bin" / "python"
        lock = folder.with_name(f"{folder.name}.lock")
        with _storage_errors(folder), exclusively(lock) as held:
            if not ((folder / _MARKER).exists() and python.exists()):
                self._build(folder, stack, base, wheels, held)
        return Environment(
            stack=stack, kind=Kind.VIRTUALENV, location=str(folder), python=str(python)
        )

    def _build(
        self, folder: Path, stack: Stack, base: Base, wheels: Mapping[str, Path], held: int
    ) -> None:
        """Build in place (scripts name their interpreter's path) and set the marker at the end."""
        files = [self._named(artifact, wheels) for artifact in stack.lock.artifacts]
        self._make_empty(folder, base, held)
        if files:
            self._install(folder, stack, base, files, held)
        marker = folder / f"{_MARKER}.part"
        marker.write_text(stack.lock.id, encoding="utf-8")
        marker.replace(folder / _MARKER)

    def _make_empty(self, folder: Path, base: Base, held: int) -> None:
        """Make a virtualenv without any package, and without what stands in none of our images."""
        _remove(folder)  # what an interrupted build left
        if not _virtualenv(folder, base, self.root / "virtualenv"):
            _remove(folder)
            self._uv("venv", "--python", base.python, str(folder), held=held)
        # A hook into imports, for installations by distutils alone, that only slows measuring; on
        # Python 3.6 and 3.7, virtualenv's does not even compile, and each start complains.
        for hook in folder.glob("lib*/*/site-packages/_virtualenv.*"):
            hook.unlink()

    def _install(
        self, folder: Path, stack: Stack, base: Base, files: Sequence[Path], held: int
    ) -> None:
        """Install and byte-compile: what is compiled at first use would be timed as an import."""
        self._uv(
            *("pip", "install", "--python", str(folder / "bin" / "python")),
            *("--no-index", "--no-deps", "--link-mode", self._link_mode()),
            *map(str, files),
            held=held,
        )
        store = compiled.BytecodeStore(folder=self.root / "bytecode")
        # Where lib64 is a folder of its own, compiled packages lie there; else it is a link.
        for site in {found.resolve() for found in folder.glob("lib*/*/site-packages")}:
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

    def _uv(self, *arguments: str, held: int) -> None:
        """Run uv, which keeps the lock ``held`` for as long as it lives."""
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
            pass_fds=(held,),
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


def _virtualenv(folder: Path, base: Base, app_data: Path) -> bool:
    """Make a virtualenv without any package; False where the installed virtualenv declines.

    Nothing of the user's configuration is read, and nothing asks the network.

    Raises:
        OSError: the folder cannot be written.
    """
    import virtualenv

    options = ["--no-seed", "--no-periodic-update", "--app-data", str(app_data)]
    nothing_of_the_users = {"PATH": os.defpath, "VIRTUALENV_CONFIG_FILE": os.devnull}
    try:
        # It may decline in print: uv is asked then, and its words count.
        with contextlib.redirect_stderr(io.StringIO()):
            virtualenv.cli_run(
                ["--python", base.python, *options, str(folder)],
                setup_logging=False,
                env=nothing_of_the_users,
            )
    except (RuntimeError, SystemExit):
        return False
    return True


def _remove(folder: Path) -> None:
    if folder.exists():
        shutil.rmtree(folder)


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
