"""Look at every file of the virtualenvs: each must be what the RECORD of its package says."""

import base64
import csv
import hashlib
import io
import os
from collections import defaultdict
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from stackgen.builders.virtualenv_store import MARKER, VirtualenvStore
from stackgen.values import FaultKind, ItemKind, StoreFault

_CHUNK = 1 << 20
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
                found[Path(os.path.normpath(site / name))].add(_decoded(encoded))
    return found


def _records(folder: Path) -> Iterator[Path]:
    yield from folder.glob("*.dist-info/RECORD")
    for site in {path.resolve() for path in folder.glob("lib*/*/site-packages")}:
        yield from site.glob("*.dist-info/RECORD")


def _decoded(encoded: str) -> str:
    bare = encoded.rstrip("=")
    try:
        return base64.urlsafe_b64decode(bare + "=" * (-len(bare) % 4)).hex()
    except ValueError:
        return ""


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
                    digest = hashlib.sha256()
                    while chunk := file.read(_CHUNK):
                        digest.update(chunk)
                    self.known[inode] = digest.hexdigest()
                return self.known[inode]
        except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
            return ""
