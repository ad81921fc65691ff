"""The store of virtualenvs: its items, their disk space, and their removal.

Virtualenvs share files by hard links with the wheels that uv unpacked and with the bytecode. Such
bytes count once, for the item that is evicted last.
"""

import contextlib
import math
import os
import shutil
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

from stackgen.images import compiled
from stackgen.model.packages import Artifact
from stackgen.model.reports.images import ItemKind, StoreItem
from stackgen.model.stacks import Base, Stack
from stackgen.storage.files import remove_path, storage_error
from stackgen.storage.leases import Leases

MARKER = ".complete"
UV = "uv"


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
    """Virtualenvs, wheels that uv unpacked, and bytecode, below one folder.

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
