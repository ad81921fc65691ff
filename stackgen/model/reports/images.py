"""Reports on bases, images and the store of wheels and layers."""

from dataclasses import dataclass
from enum import Enum


@dataclass(frozen=True, slots=True, kw_only=True)
class BaseState:
    """A base that can be named with --base.

    state: ``ready``, ``can be made``, or why not.
    """

    name: str
    summary: str
    state: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageState:
    """The image of a stack that the engine holds.

    packages: ``name==version`` of each.
    size: bytes of all its layers, shared ones included.
    used_at: ISO 8601, when it was last built or reused; "" where the engine does not say.
    base: name of what it was made on; "" where its labels do not say.
    own_bytes: of the layers above the base that no other stack has; None where it is not known.
    """

    image_id: str
    packages: str
    size: int
    used_at: str
    stack_id: str = ""
    tags: tuple[str, ...] = ()
    base: str = ""
    own_bytes: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ImagesReport:
    """The bases, and the images of stacks, the latest used first.

    no_engine: why the images are not known; "" where an engine answered.
    """

    bases: tuple[BaseState, ...]
    images: tuple[ImageState, ...]
    no_engine: str = ""


class ItemKind(Enum):
    """What lies in a store."""

    WHEEL = "wheel"
    LAYER = "layer"
    UNFINISHED = "unfinished download"
    VIRTUALENV = "virtualenv"
    UNPACKED = "unpacked wheel"
    BYTECODE = "compiled wheel"
    IMAGE = "image"


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

    in_use: what would have been removed if no process used it.
    remaining_bytes: what the store holds now (in a dry run: would hold).
    """

    dropped: tuple[StoreItem, ...]
    in_use: tuple[StoreItem, ...]
    remaining_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Pruned:
    """What ``stackgen images prune`` removed, or would remove.

    store: None where the store was not to be touched.
    images, images_in_use: of the engine; the latter are in use or have a name of the user's own.
    no_engine: why the images in the engine were not looked at; "" where they were, or need not be.
    """

    store: StorePruned | None
    images: tuple[ImageState, ...]
    images_in_use: tuple[ImageState, ...]
    dry_run: bool
    no_engine: str = ""


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
    """Result of reading every byte of a store.

    wheels, layers, virtualenvs: how many are whole.
    size: bytes of wheels and layers.
    unfinished: downloads that were cut off and go on where they stopped.
    """

    wheels: int
    layers: int
    size: int
    unfinished: tuple[StoreItem, ...]
    faults: tuple[StoreFault, ...]
    virtualenvs: int = 0

    @property
    def exit_code(self) -> int:
        """Return 9 where damage was found that is still there; what is left over does no harm."""
        damaged = (x for x in self.faults if x.kind is FaultKind.DAMAGED and not x.removed)
        return 9 if any(damaged) else 0


@dataclass(frozen=True, slots=True, kw_only=True)
class LockedWheel:
    """A wheel of a stack, as the labels of its image name it."""

    name: str
    version: str
    filename: str
    sha256: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageLayer:
    """A layer of a stack's image.

    chain_id: the engine's name for it and all that lies below.
    size: bytes; None where the engine does not distinguish layers.
    wheels: file names of what is installed in it.
    of_base: whether it belongs to the base, or to whatever lies below the stack.
    others: how many other images of stacks hold it.
    """

    diff_id: str
    chain_id: str
    size: int | None
    wheels: tuple[str, ...]
    of_base: bool
    others: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageDetails:
    """Everything that is known of a stack's image.

    labels: sorted (name, value) pairs.
    lock: what is installed.
    layers: bottom first.
    """

    image: ImageState
    labels: tuple[tuple[str, str], ...]
    lock: tuple[LockedWheel, ...]
    layers: tuple[ImageLayer, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageBuilt:
    """What ``stackgen images build`` did.

    tag: the requested name; "" where none was.
    layers_new: how many the engine did not have; none where it had the image.
    new_bytes: of these, as the engine counts them; None where it does not distinguish them.
    seconds: from the lock to the image.
    """

    image: ImageState
    tag: str
    packages: int
    existed: bool
    layers_shared: int
    layers_new: int
    new_bytes: int | None
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Exported:
    """A folder that was written.

    image_id: of the image in it; "" where the folder holds only how to make one.
    packages: how many are installed; 0 where it is not known.
    size: bytes of all files.
    """

    folder: str
    image_id: str
    packages: int
    size: int
