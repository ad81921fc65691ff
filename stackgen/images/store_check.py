"""Look at every byte of a store: each wheel must be what its name says, each layer its card."""

import os
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Protocol

from stackgen.images.layer_store import LayerStore, recorded
from stackgen.model.reports import (
    FaultKind,
    ItemKind,
    StoreCheck,
    StoreFault,
    StoreItem,
    StorePruned,
)
from stackgen.storage.files import file_sha256
from stackgen.storage.wheels import WheelStore

_READERS = min(4, os.cpu_count() or 1)


def check(wheels: WheelStore, layers: LayerStore, *, repair: bool = False) -> StoreCheck:
    """Compare all contents with their digests, and find what killed processes left.

    Others may go on meanwhile: what they are making or removing is passed over.

    Args:
        wheels: the store of wheels.
        layers: the store of layers.
        repair: remove what is damaged, unless somebody uses it, and what was left over. Unfinished
            downloads stay: the next run goes on where they stopped.

    Raises:
        StorageError: something shall be removed, and the store cannot be written.
        OSError: something cannot be read.
    """
    items = [*wheels.items(), *layers.items()]
    with ThreadPoolExecutor(_READERS) as pool:
        found = tuple(zip(items, pool.map(_examined, items), strict=True))
    faults = [
        *_confirmed(wheels, layers, found, repair=repair),
        *_left_over((*wheels.left_over(remove=repair), *layers.left_over(remove=repair)), repair),
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
    """Yield the faults that are faults, with what became of them."""
    for item, fault in found:
        if fault is not None:
            store = layers if item.kind is ItemKind.LAYER else wheels
            free = store.drop(item, dry_run=not repair)
            # A layer without its card that somebody holds is about to get it, or to go.
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


# Make room: take the least recently used out of stores that share one budget


class Shelf(Protocol):
    """A store whose items can be taken out."""

    def items(self) -> Iterable[StoreItem]:
        """Yield everything that takes room, in no order."""

    def drop(self, item: StoreItem, *, dry_run: bool = False) -> bool:
        """Remove an item that nobody uses; return whether it is (in a dry run: would be) gone.

        Raises:
            StorageError: the store cannot be written.
        """


def prune(shelves: Sequence[Shelf], *, keep_bytes: int, dry_run: bool = False) -> StorePruned:
    """Drop the least recently used until at most ``keep_bytes`` are left.

    What other processes use stays, even where that means that more is left.

    Raises:
        StorageError: a store cannot be written; what was dropped before is gone.
    """
    held = [(item, shelf) for shelf in shelves for item in shelf.items()]
    left = sum(item.size for item, _ in held)
    dropped: list[StoreItem] = []
    in_use: list[StoreItem] = []
    for item, shelf in sorted(held, key=lambda pair: (pair[0].used_at, pair[0].path)):
        if left <= keep_bytes:
            break
        if shelf.drop(item, dry_run=dry_run):
            dropped.append(item)
            left -= item.size
        else:
            in_use.append(item)
    return StorePruned(dropped=tuple(dropped), in_use=tuple(in_use), kept_bytes=left)
