"""What the store of wheels and layers holds, what was taken out of it, what is wrong with it."""

from dataclasses import dataclass
from enum import Enum

from stackgen.values.reports import ImageState


class ItemKind(Enum):
    """What lies in a store."""

    WHEEL = "wheel"
    LAYER = "layer"
    UNFINISHED = "unfinished download"


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreItem:
    """One thing in a store.

    name: for people; the layer of a wheel bears the wheel's file name.
    path: of its file.
    size: bytes.
    used_at: seconds since 1970, when it was last made or used.
    """

    kind: ItemKind
    name: str
    path: str
    size: int
    used_at: float


@dataclass(frozen=True, slots=True, kw_only=True)
class StorePruned:
    """What was taken out of a store, least recently used first.

    in_use: what would have gone, had nobody been using it.
    kept_bytes: what the store holds now (in a dry run: would hold).
    """

    dropped: tuple[StoreItem, ...]
    in_use: tuple[StoreItem, ...]
    kept_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Pruned:
    """What ``stackgen images prune`` removed, or would remove.

    store: None where the store was not to be touched.
    images, images_in_use: of the engine; containers use the latter, so they stay.
    """

    store: StorePruned | None
    images: tuple[ImageState, ...]
    images_in_use: tuple[ImageState, ...]
    dry_run: bool


class FaultKind(Enum):
    """What is wrong with a file of a store."""

    DAMAGED = "damaged"
    LEFT_OVER = "left over"


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreFault:
    """A file that does not belong in a store as it is.

    name: for people, as of a ``StoreItem``.
    why: what shows it.
    removed: whether it is gone now.
    """

    kind: FaultKind
    name: str
    path: str
    why: str
    removed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreCheck:
    """What a look at every byte of a store found.

    wheels, layers: how many are whole.
    size: bytes of these.
    unfinished: downloads that were cut off and go on where they stopped.
    """

    wheels: int
    layers: int
    size: int
    unfinished: tuple[StoreItem, ...]
    faults: tuple[StoreFault, ...]

    @property
    def exit_code(self) -> int:
        """Return 9 where damage was found that is still there; what is left over harms nobody."""
        damaged = (x for x in self.faults if x.kind is FaultKind.DAMAGED and not x.removed)
        return 9 if any(damaged) else 0
