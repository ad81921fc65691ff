"""What is known of the bases that can be named."""

from dataclasses import dataclass
from enum import Enum


class Readiness(Enum):
    """How near a base is."""

    READY = "ready"
    POSSIBLE = "can be made"
    IMPOSSIBLE = "cannot be made here"
    UNKNOWN = "unknown"
    WRONG = "wrong"


@dataclass(frozen=True, slots=True, kw_only=True)
class BaseContent:
    """What a base that the engine holds turned out to be.

    tags: how many kinds of wheels fit.
    first_tag: of the wheels that it likes best.
    blas: (name, version) of the system packages of BLAS and LAPACK, sorted.
    size: bytes of its image.
    origin: the way that led to it, in words.
    """

    image_id: str
    python: str
    libc: str
    machine: str
    distribution: str
    tags: int
    first_tag: str
    blas: tuple[tuple[str, str], ...]
    size: int
    origin: str


@dataclass(frozen=True, slots=True, kw_only=True)
class BaseEntry:
    """A base that can be named with --base.

    why, fix: what is in the way and what helps, or "".
    ways: in the order in which they are tried, in words.
    packages: Debian packages that it adds, whatever the way.
    """

    name: str
    summary: str
    state: Readiness
    why: str
    fix: str
    ways: tuple[str, ...]
    packages: tuple[str, ...]
    content: BaseContent | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BasesReport:
    """What ``stackgen images bases`` found, and what it made."""

    bases: tuple[BaseEntry, ...]
    made: tuple[str, ...] = ()
    failed: tuple[str, ...] = ()

    @property
    def exit_code(self) -> int:
        """Return 5 where a base that was asked for could not be made."""
        return 5 if self.failed else 0
