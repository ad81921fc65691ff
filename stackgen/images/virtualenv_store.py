"""What lies below the folder of virtualenvs: how much room it takes, and how it is taken out.

Files are shared: a virtualenv links what uv unpacked and what was byte-compiled before. Such bytes
count once, for that from which they go last.
"""

import contextlib
import csv
import io
import math
import os
import shutil
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path

from stackgen.errors import StorageError
from stackgen.images import compiled
from stackgen.model.packages import Artifact
from stackgen.model.reports import FaultKind, ItemKind, StoreFault, StoreItem
from stackgen.model.stacks import Base, Stack
from stackgen.storage.files import recorded_digest, remove_path, stream_sha256
from stackgen.storage.leases import Leases

MARKER = ".complete"
UV = "uv"


def virtualenv_folder(root: Path, stack: Stack) -> Path:
    """Return where a stack's virtualenv belongs; stacks that differ in settings alone share one."""
    return root / "environments" / replace(stack, settings=()).id


def lease_name(folder: Path) -> str:
    """Return how a virtualenv is known to those who use it."""
    return f"environments/{folder.name}"


def forget_lost_wheels(uv: Path) -> bool:
    """Make uv forget what it unpacked and is gone; return whether there was any such thing.

    uv trusts its notes: one that leads nowhere makes it fail.
    """
    lost = [note for note in _notes(uv) if not note.exists()]
    for note in lost:
        shutil.rmtree(note.parent, ignore_errors=True)
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
        """Yield everything that takes room, in no order.

        What is unpacked or compiled is as young as the youngest virtualenv that links it.
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
                # The folders come youngest first; what they link goes right after them.
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
        """Remove an item that nobody uses; return whether it is (or would be) gone.

        What a virtualenv still links stays: no room would be won.

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

    def remove(self, kind: ItemKind, path: Path, *, dry_run: bool = False) -> bool:
        """Remove what nobody uses, whoever links it; return whether it is (or would be) gone.

        Raises:
            StorageError: the folder cannot be written.
        """
        try:
            return self._removed(kind, path, dry_run=dry_run)
        except OSError as error:
            raise StorageError(
                f"cannot remove {path}",
                why=str(error),
                fix="run the same command as the user whom the folder belongs to",
            ) from error

    def left_over(self, *, remove: bool = False) -> tuple[Path, ...]:
        """Return (and remove) what killed processes left; what living ones work on is theirs."""
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
        """Return whether a stack's virtualenv is there."""
        return (virtualenv_folder(self.root, stack) / MARKER).exists()

    def lacking(self, base: Base, artifacts: Iterable[Artifact]) -> tuple[Artifact, ...]:
        """Return the wheels that no virtualenv of a base had yet."""
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
        known = {note.resolve() for note in _notes(self.root / UV)}
        # Without any note, this is a uv that takes its notes elsewhere.
        return (path for path in self.unpacked() if known and path.resolve() not in known)

    def _removed(self, kind: ItemKind, path: Path, *, dry_run: bool) -> bool:
        if kind is ItemKind.UNPACKED:
            with self._leases.locks() as locks:
                free = locks.try_acquire(UV)
                if free and not dry_run:
                    for note in _notes(self.root / UV):
                        if note.resolve() == path.resolve():
                            shutil.rmtree(note.parent, ignore_errors=True)
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


def _notes(uv: Path) -> Iterator[Path]:
    """Yield the links by which uv finds what it unpacked: one in a folder for each wheel."""
    return (path for path in uv.glob("wheels-v*/*/*/*/*") if path.is_symlink())


def _folders(root: Path, pattern: str) -> Iterator[Path]:
    return (path for path in root.glob(pattern) if not path.name.startswith(".") and path.is_dir())


def _walked(folder: Path) -> dict[tuple[int, int], int]:
    """Return the bytes on disk of everything below a folder that somebody may be removing."""
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
    """Return when something was last used: a virtualenv says so itself, in seconds since 1970."""
    for path in (folder / MARKER, folder):
        with contextlib.suppress(OSError):
            return path.stat().st_mtime
    return 0.0


def _wheel_name(unpacked: Path) -> str:
    info = next(unpacked.glob("*.dist-info"), unpacked)
    return info.name.removesuffix(".dist-info")


def _item(kind: ItemKind, path: Path, name: str, size: int, used_at: float) -> StoreItem:
    return StoreItem(kind=kind, name=name, path=str(path), size=size, used_at=used_at)


# Look at every file of the virtualenvs: each must be what the RECORD of its package says

_READERS = min(4, os.cpu_count() or 1)
_DAMAGED, _LEFT_OVER = FaultKind.DAMAGED, FaultKind.LEFT_OVER


def check(store: VirtualenvStore, *, repair: bool = False) -> tuple[int, tuple[StoreFault, ...]]:
    """Return how many virtualenvs are whole, and what is wrong.

    Each file is read once, however many virtualenvs link it. Bytecode bears no digest: that it is
    there is all that is known.

    Args:
        store: where they are.
        repair: remove what is damaged, unless somebody uses it, and what was left over.

    Raises:
        StorageError: something shall be removed, and the folder cannot be written.
        OSError: something cannot be read.
    """
    faults, digests, whole = [], _Digests(), 0
    for folder in store.virtualenvs():
        if (folder / MARKER).exists():
            fault = _fault_of(ItemKind.VIRTUALENV, folder, digests)
            whole += fault is None
            faults += [fault] if fault else []
    unpacked = (_fault_of(ItemKind.UNPACKED, path, digests) for path in store.unpacked())
    faults += [fault for fault in unpacked if fault]
    confirmed = [_repaired(store, fault) if repair else fault for fault in faults]
    why = "a process was killed while it wrote this"
    left = [
        StoreFault(kind=_LEFT_OVER, name=path.name, path=str(path), why=why, removed=repair)
        for path in store.left_over(remove=repair)
    ]
    return whole, (*confirmed, *left)


def _repaired(store: VirtualenvStore, fault: StoreFault) -> StoreFault:
    path = Path(fault.path)
    kind = ItemKind.UNPACKED if path in store.unpacked() else ItemKind.VIRTUALENV
    removed = store.remove(kind, path)
    return StoreFault(
        kind=fault.kind, name=fault.name, path=fault.path, why=fault.why, removed=removed
    )


def _fault_of(kind: ItemKind, folder: Path, digests: "_Digests") -> StoreFault | None:
    """Return what is wrong with a folder of installed packages."""
    name = folder.name[:12]
    if kind is ItemKind.VIRTUALENV and not (folder / "bin" / "python").exists():
        why = "its interpreter is gone"
        return StoreFault(kind=_LEFT_OVER, name=name, path=str(folder), why=why)
    recorded = _recorded(folder)
    with ThreadPoolExecutor(_READERS) as pool:
        found = pool.map(digests.of, recorded)
        wrong = [
            path
            for (path, stated), digest in zip(recorded.items(), found, strict=True)
            if digest not in stated
        ]
    if not wrong or not folder.exists():  # somebody prunes, too
        return None
    first = os.path.relpath(min(wrong), folder)
    more = f" and {len(wrong) - 1} more" if len(wrong) > 1 else ""
    why = f"{first}{more}: not what the package's RECORD says"
    return StoreFault(kind=_DAMAGED, name=name, path=str(folder), why=why)


def _recorded(folder: Path) -> Mapping[Path, set[str]]:
    """Return the digests that RECORDs state for a file: of packages that share one, any is right.

    Bytecode that a wheel lists may have been left out.
    """
    found: dict[Path, set[str]] = defaultdict(set)
    for record in _records(folder):
        site = record.parent.parent
        for row in csv.reader(io.StringIO(record.read_text(encoding="utf-8", errors="replace"))):
            name, stated = (*row, "", "")[:2]
            algorithm, _, encoded = stated.partition("=")
            if algorithm == "sha256" and not name.endswith(".pyc"):
                found[Path(os.path.normpath(site / name))].add(recorded_digest(encoded).hex())
    return found


def _records(folder: Path) -> Iterator[Path]:
    yield from folder.glob("*.dist-info/RECORD")
    for site in {path.resolve() for path in folder.glob("lib*/*/site-packages")}:
        yield from site.glob("*.dist-info/RECORD")


@dataclass(frozen=True, slots=True)
class _Digests:
    """Digests of files, by inode."""

    known: dict[tuple[int, int], str] = field(default_factory=dict)

    def of(self, path: Path) -> str:
        """Return the SHA-256 of a file in hexadecimal, "" where it is not there."""
        try:
            with path.open("rb") as file:
                status = os.fstat(file.fileno())
                inode = status.st_dev, status.st_ino
                if inode not in self.known:
                    self.known[inode] = stream_sha256(file)
                return self.known[inode]
        except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
            return ""
