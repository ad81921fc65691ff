"""Virtualenvs of stacks: how they are built from wheels, and the store that they lie in.

virtualenv creates it without packages; uv installs the wheels as hard links into its cache, and
creates the virtualenvs that the installed virtualenv does not support.
"""

import contextlib
import io
import math
import os
import shutil
import subprocess
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from stackgen.errors import BuildError, StorageError
from stackgen.images import compiled
from stackgen.images.unpack import refuse_overwriting, unpacked_size
from stackgen.model.packages import Artifact
from stackgen.model.reports.images import ItemKind, StoreItem
from stackgen.model.stacks import Base, Environment, EnvironmentKind, Stack
from stackgen.sandbox.process import failure_message
from stackgen.storage.files import DISK_FULL, free_bytes, remove_path, storage_error
from stackgen.storage.leases import Leases, Locks

MARKER = ".complete"
UV = "uv"
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
            stack=stack, kind=EnvironmentKind.VIRTUALENV, location=str(folder), python=str(python)
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


# The store


def virtualenv_folder(root: Path, stack: Stack) -> Path:
    """Return the folder of a stack's virtualenv; stacks that differ only in settings share it."""
    return root / "environments" / replace(stack, settings=()).id


def lease_name(folder: Path) -> str:
    """Return the name of a virtualenv's lease."""
    return f"environments/{folder.name}"


def forget_lost_wheels(uv: Path) -> bool:
    """Remove uv's links to unpacked wheels that are gone; return whether there were any.

    uv fails on such a link.
    """
    lost = [link for link in _links(uv) if not link.exists()]
    for link in lost:
        shutil.rmtree(link.parent, ignore_errors=True)
    return bool(lost)


@dataclass(frozen=True, slots=True)
class VirtualenvStore:
    """Virtualenvs, wheels that uv unpacked, and bytecode, below one folder: their removal.

    Virtualenvs share files by hard links with the wheels that uv unpacked and with the bytecode.
    Such bytes count once, for the item that is evicted last.

    root: as of the ``VirtualenvBuilder``.
    """

    root: Path
    _leases: Leases = field(init=False, repr=False)
    _linked: dict[str, set[str]] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_leases", Leases(self.root))

    def items(self) -> Iterator[StoreItem]:
        """Yield all items, in no order.

        Unpacked wheels and bytecode are as young as the youngest virtualenv that links them.
        """
        self._linked.clear()
        parts = {path: _walked(path) for path in (*self.unpacked(), *self._compiled())}
        owners = {inode: path for path, files in parts.items() for inode in files}
        used_at: dict[Path, float] = {}
        seen = set(owners)
        for folder in sorted(self.virtualenvs(), key=_time, reverse=True):
            files = _walked(folder)
            for part in {owners[inode] for inode in files if inode in owners}:
                self._linked.setdefault(str(part), set()).add(str(folder))
                # The folders are sorted, youngest first; what they link is evicted after them.
                used_at.setdefault(part, math.nextafter(_time(folder), math.inf))
            own = sum(size for inode, size in files.items() if inode not in seen)
            seen |= files.keys()
            yield _item(ItemKind.VIRTUALENV, folder, folder.name[:12], own, _time(folder))
        for part, files in parts.items():
            is_wheel = part.parent.parent.name == UV
            kind = ItemKind.UNPACKED if is_wheel else ItemKind.BYTECODE
            name = _wheel_name(part) if is_wheel else part.name[:12]
            yield _item(kind, part, name, sum(files.values()), used_at.get(part, _time(part)))

    def drop(self, item: StoreItem, *, dry_run: bool = False) -> bool:
        """Remove an item without a lease; return whether it is (or would be) removed.

        An item that a virtualenv links stays, because its removal would free no disk space.

        Raises:
            StorageError: the folder cannot be written.
        """
        if self._linked.get(item.path):
            return False
        gone = self.remove(item.kind, Path(item.path), dry_run=dry_run)
        if gone and item.kind is ItemKind.VIRTUALENV:
            for users in self._linked.values():
                users.discard(item.path)
        return gone

    def clear(self) -> None:
        """Remove all virtualenvs, then what they were made of; what is in use stays."""
        if self.root.exists():
            for item in sorted(self.items(), key=lambda each: each.kind is not ItemKind.VIRTUALENV):
                self.drop(item)

    def remove(self, kind: ItemKind, path: Path, *, dry_run: bool = False) -> bool:
        """Remove an item without a lease, even if it is linked; return whether it is removed.

        Raises:
            StorageError: the folder cannot be written.
        """
        try:
            return self._removed(kind, path, dry_run=dry_run)
        except OSError as error:
            raise storage_error(f"cannot remove {path}", error) from error

    def leftovers(self, *, remove: bool = False) -> tuple[Path, ...]:
        """Return (and remove) what killed processes left."""
        if not self.root.exists():
            return ()
        found = [folder for folder in self.virtualenvs() if not (folder / MARKER).exists()]
        found = [
            folder
            for folder in found
            if self.remove(ItemKind.VIRTUALENV, folder, dry_run=not remove)
        ]
        with self._leases.locks() as locks:
            found += compiled.sweep(self.root / "bytecode", locks, remove=remove)
            if locks.try_acquire(UV):
                uv = self.root / UV
                left = [*uv.glob(".tmp*"), *uv.glob("*/.tmp*"), *self._unknown_to_uv()]
                for path in left if remove else ():
                    remove_path(path)
                found += left
        return tuple(sorted(found))

    def has(self, stack: Stack) -> bool:
        """Return whether a stack's virtualenv is complete."""
        return (virtualenv_folder(self.root, stack) / MARKER).exists()

    def missing(self, base: Base, artifacts: Iterable[Artifact]) -> tuple[Artifact, ...]:
        """Return the wheels that no virtualenv of a base has contained yet."""
        home = compiled.bytecode_home(self.root / "bytecode", base)
        return tuple(each for each in artifacts if not (home / each.sha256).exists())

    def virtualenvs(self) -> tuple[Path, ...]:
        """Return the folders of virtualenvs, also of unfinished ones."""
        return tuple(_folders(self.root / "environments", "*"))

    def unpacked(self) -> tuple[Path, ...]:
        """Return the folders of wheels that uv unpacked."""
        return tuple(_folders(self.root / UV, "archive-v*/*"))

    def _compiled(self) -> tuple[Path, ...]:
        return tuple(_folders(self.root / "bytecode", "*/*"))

    def _unknown_to_uv(self) -> Iterator[Path]:
        known = {link.resolve() for link in _links(self.root / UV)}
        # Without any link, this version of uv has its links elsewhere.
        return (path for path in self.unpacked() if known and path.resolve() not in known)

    def _removed(self, kind: ItemKind, path: Path, *, dry_run: bool) -> bool:
        if kind is ItemKind.UNPACKED:
            with self._leases.locks() as locks:
                free = locks.try_acquire(UV)
                if free and not dry_run:
                    for link in _links(self.root / UV):
                        if link.resolve() == path.resolve():
                            shutil.rmtree(link.parent, ignore_errors=True)
                    remove_path(path)
                return free
        is_virtualenv = kind is ItemKind.VIRTUALENV
        name = lease_name(path) if is_virtualenv else compiled.lease_name(path)
        with self._leases.claim(name) as free:
            if free and not dry_run:
                if is_virtualenv:  # from now on, what is left of it is an unfinished one
                    (path / MARKER).unlink(missing_ok=True)
                remove_path(path)
            return free


def _links(uv: Path) -> Iterator[Path]:
    """Yield uv's links to unpacked wheels, one per wheel, each in its own folder."""
    return (path for path in uv.glob("wheels-v*/*/*/*/*") if path.is_symlink())


def _folders(root: Path, pattern: str) -> Iterator[Path]:
    return (path for path in root.glob(pattern) if not path.name.startswith(".") and path.is_dir())


def _walked(folder: Path) -> dict[tuple[int, int], int]:
    """Return the bytes on disk by inode, below a folder that another process may be removing."""
    found: dict[tuple[int, int], int] = {}
    waiting = [str(folder)]
    while waiting:
        with contextlib.suppress(OSError), os.scandir(waiting.pop()) as entries:
            for entry in entries:
                with contextlib.suppress(OSError):
                    status = entry.stat(follow_symlinks=False)
                    found[status.st_dev, status.st_ino] = status.st_blocks * 512
                    if entry.is_dir(follow_symlinks=False):
                        waiting.append(entry.path)
    return found


def _time(folder: Path) -> float:
    """Return when an item was last used, in seconds since 1970."""
    for path in (folder / MARKER, folder):
        with contextlib.suppress(OSError):
            return path.stat().st_mtime
    return 0.0


def _wheel_name(unpacked: Path) -> str:
    info = next(unpacked.glob("*.dist-info"), unpacked)
    return info.name.removesuffix(".dist-info")


def _item(kind: ItemKind, path: Path, name: str, size: int, used_at: float) -> StoreItem:
    return StoreItem(kind=kind, name=name, path=str(path), size=size, used_at=used_at)
