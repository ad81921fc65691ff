"""Make a virtualenv of a stack, from wheels that are at hand.

virtualenv makes it, without any package; uv fills it, linking files from its cache rather than
copying them, and makes those that the installed virtualenv declines.
"""

import contextlib
import io
import os
import shutil
import subprocess
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from stackgen.errors import BuildError, StorageError
from stackgen.images import compiled
from stackgen.images.overlaps import refuse_overwriting
from stackgen.images.virtualenv_store import (
    MARKER,
    UV,
    VirtualenvStore,
    forget_lost_wheels,
    lease_name,
    virtualenv_folder,
)
from stackgen.model.packages import Artifact
from stackgen.model.stacks import Base, Environment, Kind, Stack
from stackgen.sandbox.process import failure_message
from stackgen.storage.files import DISK_FULL, free_bytes, remove_path
from stackgen.storage.leases import Leases, Locks

_WITH_BYTECODE = 1.4  # bytes on disk per byte of unpacked wheel: seen 1.1 to 1.3
_FULL = ("No space left on device", "Disk quota exceeded")


@dataclass(frozen=True, slots=True, kw_only=True)
class VirtualenvBuilder:
    """Makes virtualenvs below a folder of ours and keeps them.

    What was handed out is in use, so that nobody prunes it, until this object or its process ends.

    root: where virtualenvs, what virtualenv and uv remember, and links to wheels are kept.
    """

    root: Path
    _leases: Leases = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_leases", Leases(self.root))

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
        folder = virtualenv_folder(self.root, stack)
        python = folder / "bin" / "python"
        files = [path for a in stack.lock.artifacts if (path := wheels.get(a.sha256))]

        def make(_: Sequence[str], locks: Locks) -> None:
            try:
                self._build(folder, stack, base, wheels, locks)
            except BaseException:
                shutil.rmtree(folder, ignore_errors=True)  # it may be what fills the disk
                raise

        with _storage_errors(folder, files):
            self._leases.hold(lease_name(folder))
            there = partial(_is_whole, folder)
            self._leases.create_missing([lease_name(folder)], exists=there, create=make)
        with contextlib.suppress(OSError):  # not ours to write; the least recently used go first
            os.utime(folder / MARKER)
        return Environment(
            stack=stack, kind=Kind.VIRTUALENV, location=str(folder), python=str(python)
        )

    def _build(
        self, folder: Path, stack: Stack, base: Base, wheels: Mapping[str, Path], locks: Locks
    ) -> None:
        """Build in place (scripts name their interpreter's path) and set the marker at the end."""
        files = [self._named(artifact, wheels) for artifact in stack.lock.artifacts]
        refuse_overwriting(stack.lock.artifacts, wheels)
        self._make_empty(folder, base, locks)
        if files:
            self._install(folder, stack, base, files, locks)
        marker = folder / f"{MARKER}.part"
        marker.write_text(stack.lock.id, encoding="utf-8")
        marker.replace(folder / MARKER)

    def _make_empty(self, folder: Path, base: Base, locks: Locks) -> None:
        """Make a virtualenv without any package, and without what stands in none of our images."""
        remove_path(folder)  # what an interrupted build left
        if not _virtualenv(folder, base, self.root / "virtualenv"):
            remove_path(folder)
            self._uv("venv", "--python", base.python, str(folder), locks=locks)
        # A hook into imports, for installations by distutils alone, that only slows measuring; on
        # Python 3.6 and 3.7, virtualenv's does not even compile, and each start complains.
        for hook in folder.glob("lib*/*/site-packages/_virtualenv.*"):
            hook.unlink()

    def _install(
        self, folder: Path, stack: Stack, base: Base, files: Sequence[Path], locks: Locks
    ) -> None:
        """Install and byte-compile: what is compiled at first use would be timed as an import."""
        install = (
            *("pip", "install", "--python", str(folder / "bin" / "python")),
            *("--no-index", "--no-deps", "--link-mode", self._link_mode()),
            *map(str, files),
        )
        self._require_space(stack, base, files)
        locks.acquire_shared(UV)
        try:
            self._uv(*install, locks=locks)
        except BuildError:
            if not forget_lost_wheels(self.root / UV):
                raise
            self._uv(*install, locks=locks)  # somebody had removed what uv remembered
        locks.release(UV)
        store = compiled.BytecodeStore(folder=self.root / "bytecode", leases=self._leases)
        # Where lib64 is a folder of its own, compiled packages lie there; else it is a link.
        for site in {found.resolve() for found in folder.glob("lib*/*/site-packages")}:
            store.install(site, stack.lock.artifacts, base)

    def _require_space(self, stack: Stack, base: Base, files: Sequence[Path]) -> None:
        """Refuse to unpack what does not fit; what another virtualenv has is linked."""
        lacking = set(VirtualenvStore(self.root).lacking(base, stack.lock.artifacts))
        pairs = zip(stack.lock.artifacts, files, strict=True)
        new = [file for artifact, file in pairs if artifact in lacking]
        free = free_bytes(self.root)
        if _needed(new) > free:
            raise _full(f"{free >> 20} MiB are free", new)

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

    def _uv(self, *arguments: str, locks: Locks) -> None:
        """Run uv, which keeps our locks for as long as it lives."""
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
            pass_fds=(locks.handle,),
        )
        if done.returncode:
            raise _refusal(arguments, done.stdout, done.returncode)

    def _environment(self) -> dict[str, str]:
        """Return what uv needs and nothing of the user's: no index, no credentials, no options."""
        kept = {key: os.environ[key] for key in ("PATH", "HOME", "TMPDIR") if key in os.environ}
        return {
            **kept,
            "LC_ALL": "C.UTF-8",
            "UV_CACHE_DIR": str(self.root / UV),
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


def _is_whole(folder: Path, _: str) -> bool:
    return (folder / MARKER).exists() and (folder / "bin" / "python").exists()


def _refusal(arguments: Sequence[str], output: str, exit_code: int) -> Exception:
    """Turn what uv said, and how it ended, into the error that a caller can decide by."""
    message = failure_message(output, exit_code)
    if any(words in output for words in _FULL):
        return _FullDiskError(message)
    return BuildError(
        f"uv {arguments[0]} failed",
        why=message,
        fix="read the reason; stackgen doctor checks the interpreter and the cache",
    )


class _FullDiskError(Exception):
    """uv met a full disk."""


@contextmanager
def _storage_errors(folder: Path, files: Sequence[Path]) -> Iterator[None]:
    """Explain a disk that is full or cannot be written."""
    try:
        yield
    except OSError as error:
        if error.errno in DISK_FULL:
            raise _full(str(error), files) from error
        raise StorageError(
            f"cannot write below {folder.parent}",
            why=str(error),
            fix="set STACKGEN_CACHE to a folder that can be written",
        ) from error
    except _FullDiskError as error:
        raise _full(str(error), files) from error


def _full(why: str, files: Sequence[Path]) -> StorageError:
    """Return the error that says how much is needed."""
    return StorageError(
        "the disk is full",
        why=f"{why} (this virtualenv needs up to {max(1, _needed(files) >> 20)} MiB)",
        fix="run: stackgen images prune --keep SIZE; or put STACKGEN_CACHE elsewhere",
    )


def _needed(files: Sequence[Path]) -> int:
    return round(sum(map(_unpacked_size, files)) * _WITH_BYTECODE)


def _unpacked_size(wheel: Path) -> int:
    try:
        with zipfile.ZipFile(wheel) as archive:
            return sum(member.file_size for member in archive.infolist())
    except (OSError, zipfile.BadZipFile):
        return 0
