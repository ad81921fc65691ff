"""Maintenance of the caches: comparison of all contents with their digests, and eviction."""

import os
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Protocol

from stackgen.images.layer_store import LayerStore, recorded
from stackgen.images.virtualenvs import MARKER, VirtualenvStore
from stackgen.model.reports.images import (
    FaultKind,
    ItemKind,
    StoreCheck,
    StoreFault,
    StoreItem,
    StorePruned,
)
from stackgen.storage.files import file_sha256, stream_sha256
from stackgen.storage.wheels import WheelStore, read_record

_READERS = min(4, os.cpu_count() or 1)


def check(wheels: WheelStore, layers: LayerStore, *, repair: bool = False) -> StoreCheck:
    """Compare wheels and layers with their digests, and find what killed processes left.

    Other processes may use the stores meanwhile; files that they write or remove are skipped.

    Args:
        wheels: the store of wheels.
        layers: the store of layers.
        repair: remove leftovers, and damaged items without a lease. Unfinished downloads stay, and
            are resumed by the next run.

    Raises:
        StorageError: something shall be removed, and the store cannot be written.
        OSError: something cannot be read.
    """
    items = [*wheels.items(), *layers.items()]
    with ThreadPoolExecutor(_READERS) as pool:
        found = tuple(zip(items, pool.map(_examined, items), strict=True))
    faults = [
        *_confirmed(wheels, layers, found, repair=repair),
        *_left_over((*wheels.leftovers(remove=repair), *layers.leftovers(remove=repair)), repair),
    ]
    whole = [item for item, fault in found if fault is None]
    return StoreCheck(
        wheels=sum(item.kind is ItemKind.WHEEL for item in whole),
        layers=sum(item.kind is ItemKind.LAYER for item in whole),
        size=sum(item.size for item in whole if item.kind is not ItemKind.UNFINISHED),
        unfinished=tuple(item for item in items if item.kind is ItemKind.UNFINISHED),
        faults=tuple(sorted(faults, key=lambda fault: fault.path)),
    )


def _confirmed(
    wheels: WheelStore,
    layers: LayerStore,
    found: Iterable[tuple[StoreItem, StoreFault | None]],
    *,
    repair: bool,
) -> Iterator[StoreFault]:
    """Yield confirmed faults, and whether the item was removed."""
    for item, fault in found:
        if fault is not None:
            store = layers if item.kind is ItemKind.LAYER else wheels
            free = store.drop(item, dry_run=not repair)
            # Another process is writing or removing a layer with a lease and no description.
            if free or fault.kind is FaultKind.DAMAGED:
                yield replace(fault, removed=free and repair)


def _examined(item: StoreItem) -> StoreFault | None:
    path = Path(item.path)
    try:
        if item.kind is ItemKind.WHEEL:
            return _compared(item, path.parent.name)
        if item.kind is ItemKind.LAYER:
            return _layer_fault(item, path)
    except FileNotFoundError:
        return None  # Pruned meanwhile.
    return None


def _layer_fault(item: StoreItem, path: Path) -> StoreFault | None:
    if not path.with_suffix(".json").exists():
        why = "a process was killed before it noted the digest"
        return _fault(item, FaultKind.LEFT_OVER, why)
    layer = recorded(path)
    if layer is None:
        return _fault(item, FaultKind.DAMAGED, f"it has {item.size} bytes, and its card differs")
    return _compared(item, layer.diff_id.removeprefix("sha256:"))


def _compared(item: StoreItem, sha256: str) -> StoreFault | None:
    found = file_sha256(Path(item.path))
    if found == sha256:
        return None
    why = f"SHA-256 {found} ({item.size} bytes) instead of {sha256}"
    return _fault(item, FaultKind.DAMAGED, why)


def _fault(item: StoreItem, kind: FaultKind, why: str) -> StoreFault:
    return StoreFault(kind=kind, name=item.name, path=item.path, why=why)


def _left_over(paths: Iterable[Path], removed: bool) -> Iterator[StoreFault]:
    why = "a process was killed while it wrote this"
    for path in paths:
        kind = FaultKind.LEFT_OVER
        yield StoreFault(kind=kind, name=path.name, path=str(path), why=why, removed=removed)


# Virtualenvs


def check_virtualenvs(
    store: VirtualenvStore, *, repair: bool = False
) -> tuple[int, tuple[StoreFault, ...]]:
    """Compare virtualenvs with their RECORDs; return the number of sound ones, and the faults.

    Each file is read once, even if many virtualenvs link it. Bytecode has no digest, and is not
    checked.

    Args:
        store: of the virtualenvs.
        repair: remove leftovers, and damaged items without a lease.

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
    left = _left_over(store.leftovers(remove=repair), repair)
    return whole, (*confirmed, *left)


def _repaired(store: VirtualenvStore, fault: StoreFault) -> StoreFault:
    path = Path(fault.path)
    kind = ItemKind.UNPACKED if path in store.unpacked() else ItemKind.VIRTUALENV
    return replace(fault, removed=store.remove(kind, path))


def _fault_of(kind: ItemKind, folder: Path, digests: "_Digests") -> StoreFault | None:
    """Return what is wrong with a folder of installed packages."""
    name = folder.name[:12]
    if kind is ItemKind.VIRTUALENV and not (folder / "bin" / "python").exists():
        why = "its interpreter is gone"
        return StoreFault(kind=FaultKind.LEFT_OVER, name=name, path=str(folder), why=why)
    recorded = _recorded(folder)
    with ThreadPoolExecutor(_READERS) as pool:
        found = pool.map(digests.of, recorded)
        wrong = [
            path
            for (path, stated), digest in zip(recorded.items(), found, strict=True)
            if digest not in stated
        ]
    if not wrong or not folder.exists():  # another process evicts, too
        return None
    first = os.path.relpath(min(wrong), folder)
    more = f" and {len(wrong) - 1} more" if len(wrong) > 1 else ""
    why = f"{first}{more}: not what the package's RECORD says"
    return StoreFault(kind=FaultKind.DAMAGED, name=name, path=str(folder), why=why)


def _recorded(folder: Path) -> Mapping[Path, set[str]]:
    """Return the digests in RECORDs by file; packages that share a file may state different ones.

    Bytecode does not count: installers may leave it out.
    """
    found: dict[Path, set[str]] = defaultdict(set)
    for record in _records(folder):
        site = record.parent.parent
        text = record.read_text(encoding="utf-8", errors="replace")
        for name, algorithm, digest in read_record(text):
            if algorithm == "sha256" and not name.endswith(".pyc"):
                found[Path(os.path.normpath(site / name))].add(digest.hex())
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


# Eviction


class Store(Protocol):
    """A store whose items can be removed."""

    def items(self) -> Iterable[StoreItem]:
        """Yield all items, in no order."""

    def drop(self, item: StoreItem, *, dry_run: bool = False) -> bool:
        """Remove an item without a lease; return whether it is (or would be) removed.

        Raises:
            StorageError: the store cannot be written.
        """


def prune(stores: Sequence[Store], *, keep_bytes: int, dry_run: bool = False) -> StorePruned:
    """Evict the least recently used items until at most ``keep_bytes`` are left.

    Items with a lease of another process stay, even if more than ``keep_bytes`` are left then.

    Raises:
        StorageError: a store cannot be written.
    """
    entries = [(item, store) for store in stores for item in store.items()]
    left = sum(item.size for item, _ in entries)
    dropped: list[StoreItem] = []
    in_use: list[StoreItem] = []
    for item, store in sorted(entries, key=lambda pair: (pair[0].used_at, pair[0].path)):
        if left <= keep_bytes:
            break
        if store.drop(item, dry_run=dry_run):
            dropped.append(item)
            left -= item.size
        else:
            in_use.append(item)
    return StorePruned(dropped=tuple(dropped), in_use=tuple(in_use), remaining_bytes=left)
