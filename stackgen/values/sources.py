"""What is needed to build a source distribution, and what became of it."""

from dataclasses import dataclass

from stackgen.values.packages import Artifact

BUILT_HERE = "built here"
"""The index of a wheel that was built from its source distribution on this machine."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildSystem:
    """What a source distribution says of how it is built (PEP 518).

    requires: PEP 508 lines.
    backend: an object reference; "" means setuptools the old way.
    backend_path: folders within the sources that the backend lies in; empty where it is installed.
    """

    requires: tuple[str, ...]
    backend: str = ""
    backend_path: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildRecord:
    """What became of building a source distribution; one of its three parts tells.

    wheel: what was made, of the index "built here".
    asks: what its backend wants besides, as PEP 508 lines, before it builds.
    failure: why there is no wheel; fix: what may help.
    """

    wheel: Artifact | None = None
    asks: tuple[str, ...] = ()
    failure: str = ""
    fix: str = ""

    def __post_init__(self) -> None:
        if (self.wheel is not None) + bool(self.asks) + bool(self.failure) != 1:
            raise ValueError("a build gives a wheel, or asks for more, or fails")
