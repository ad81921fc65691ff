"""Make room: take the least recently used out of stores that share one budget."""

from collections.abc import Iterable, Sequence
from typing import Protocol

from stackgen.values import StoreItem, StorePruned


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
