"""Build a virtualenv of a stack from wheels in the store.

virtualenv creates it without packages; uv installs the wheels as hard links into its cache, and
creates the virtualenvs that the installed virtualenv does not support.
"""

import contextlib
import io
import os
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from stackgen.errors import BuildError, StorageError
from stackgen.images import compiled
from stackgen.images.unpack import refuse_overwriting, unpacked_size
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
from stackgen.storage.files import DISK_FULL, free_bytes, remove_path, storage_error
from stackgen.storage.leases import Leases, Locks

_WITH_BYTECODE = 1.4  # bytes on disk per byte of unpacked wheel: seen 1.1 to 1.3
_FULL = ("No space left on device", "Disk quota exceeded")


@dataclass(frozen=True, slots=True, kw_only=True)
class VirtualenvBuilder:
    """Builds and caches virtualenvs in a folder.

    This object has leases on the virtualenvs that it returned.

    root: folder of the virtualenvs, the caches of virtualenv and uv, and links to wheels.
    """

    root: Path
    _leases: Leases = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_leases", Leases(self.root))

    def build(self, stack: Stack, base: Base, wheels: Mapping[str, Path]) -> Environment:
        """Return a virtualenv with exactly a stack's packages; an existing one is reused.

        Args:
            stack: what to install; its settings apply when it runs.
            base: the interpreter to build on.
            wheels: path of each artifact of the lock, by sha256.

        Raises:
            BuildError: virtualenv and uv failed; the end of uv's output is the reason.
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
        with contextlib.suppress(OSError):  # a read-only store
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
        """Create a virtualenv without packages and without import hooks, as in images."""
        remove_path(folder)  # what an interrupted build left
        if not _virtualenv(folder, base, self.root / "virtualenv"):
            remove_path(folder)
            self._uv("venv", "--python", base.python, str(folder), locks=locks)
        # An import hook for installations by distutils, which slows measurements; on Python 3.6 and
        # 3.7, virtualenv's does not even compile, and each start prints an error.
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
            self._uv(*install, locks=locks)  # unpacked wheels were removed from uv's cache
        locks.release(UV)
        store = compiled.BytecodeStore(folder=self.root / "bytecode", leases=self._leases)
        # Where lib64 is a folder of its own, compiled packages lie there; else it is a link.
        for site in {found.resolve() for found in folder.glob("lib*/*/site-packages")}:
            store.install(site, stack.lock.artifacts, base)

    def _require_space(self, stack: Stack, base: Base, files: Sequence[Path]) -> None:
        """Refuse to unpack more than the disk takes; wheels of other virtualenvs are linked."""
        lacking = set(VirtualenvStore(self.root).missing(base, stack.lock.artifacts))
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
        # Always the same path: uv identifies unpacked wheels by it.
        link = self.root / "wheels" / artifact.sha256 / artifact.filename
        link.parent.mkdir(parents=True, exist_ok=True)
        if not link.exists():
            link.unlink(missing_ok=True)
            link.symlink_to(path.resolve())
        return link

    def _link_mode(self) -> str:
        """Return uv's link mode; some file systems have no hard links."""
        probe, link = self.root / ".link-from", self.root / f".link-to-{os.getpid()}"
        probe.touch()
        try:
            os.link(probe, link)
        except OSError:
            return "copy"
        link.unlink()
        return "hardlink"

    def _uv(self, *arguments: str, locks: Locks) -> None:
        """Run uv, which inherits our locks until it ends."""
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
        """Return uv's environment without the user's indexes, credentials and options."""
        passed = {key: os.environ[key] for key in ("PATH", "HOME", "TMPDIR") if key in os.environ}
        return {
            **passed,
            "LC_ALL": "C.UTF-8",
            "UV_CACHE_DIR": str(self.root / UV),
            "UV_PYTHON_DOWNLOADS": "never",
            "UV_NO_PROJECT": "1",
        }


def _virtualenv(folder: Path, base: Base, app_data: Path) -> bool:
    """Create a virtualenv without packages; return False where virtualenv does not support it.

    The user's configuration is not read, and the network is not used.

    Raises:
        OSError: the folder cannot be written.
    """
    import virtualenv

    options = ["--no-seed", "--no-periodic-update", "--app-data", str(app_data)]
    nothing_of_the_users = {"PATH": os.defpath, "VIRTUALENV_CONFIG_FILE": os.devnull}
    try:
        # It may print an error; uv is used then, and its output counts.
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
    """Return the error for a failed uv."""
    message = failure_message(output, exit_code)
    if any(words in output for words in _FULL):
        return _FullDiskError(message)
    return BuildError(
        f"uv {arguments[0]} failed",
        why=message,
        fix="read the reason; stackgen doctor checks the interpreter and the cache",
    )


class _FullDiskError(Exception):
    """The disk was full while uv ran."""


@contextmanager
def _storage_errors(folder: Path, files: Sequence[Path]) -> Iterator[None]:
    """Explain errors of the disk."""
    try:
        yield
    except OSError as error:
        if error.errno in DISK_FULL:
            raise _full(str(error), files) from error
        raise storage_error(f"cannot write below {folder.parent}", error) from error
    except _FullDiskError as error:
        raise _full(str(error), files) from error


def _full(why: str, files: Sequence[Path]) -> StorageError:
    """Return the error for a full disk, with the disk space that is needed."""
    return StorageError(
        "the disk is full",
        why=f"{why} (this virtualenv needs up to {max(1, _needed(files) >> 20)} MiB)",
        fix="run: stackgen images prune --keep SIZE; or put STACKGEN_CACHE elsewhere",
    )


def _needed(files: Sequence[Path]) -> int:
    return round(sum(map(unpacked_size, files)) * _WITH_BYTECODE)
