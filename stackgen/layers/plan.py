"""The order of a stack's layers, and which wheels share one.

Two stacks share a layer in the engine only where everything below it is equal too (it is named by
its chain), so the order decides how many bytes a further stack costs.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from stackgen.errors import BuildError
from stackgen.values import Artifact, Base

# The classic engine refuses a chain of more than 125 layers: its storage driver takes 127, and
# a running container needs two of its own.
MAX_LAYERS = 125


@dataclass(frozen=True, slots=True, kw_only=True)
class Layer:
    """A layer on disk.

    diff_id: ``sha256:`` and the digest of the uncompressed tar.
    size: bytes of the tar.
    """

    path: Path
    diff_id: str
    size: int


class Compiler(Protocol):
    """Something that byte-compiles for a base."""

    def compiling(self, base: Base, staging: Path) -> AbstractContextManager[Callable[[], None]]:
        """Get ready while trees are laid out below ``staging``; yield what compiles them.

        The yielded function byte-compiles every source below ``staging``, whose folders are roots
        of file systems. A source that is no valid Python is left without bytecode: templates and
        code for other versions are common in wheels.

        Raises:
            BuildError: the base's interpreter could not be run at all.
        """


def layer_order(
    artifacts: Iterable[Artifact],
    *,
    varied: Collection[str] = frozenset(),
    popularity: Mapping[str, int] | None = None,
) -> tuple[Artifact, ...]:
    """Order a stack's wheels so that stacks share the longest and heaviest chain.

    What most stacks hold comes first, what varies comes last; among equals the large come first,
    since whatever lies above a changed layer must be stored again. Sizes count by powers of two,
    lest two releases of similar size change places.

    Args:
        artifacts: the wheels of one stack.
        varied: names of the packages that differ from stack to stack.
        popularity: how many stacks hold a wheel, by its sha256.
    """
    counts = popularity or {}

    def key(artifact: Artifact) -> tuple[bool, int, int, str]:
        magnitude = (artifact.size or 0).bit_length()
        common = -counts.get(artifact.sha256, 0)
        return artifact.name in varied, common, -magnitude, artifact.name

    return tuple(sorted(artifacts, key=key))


def layer_plan(
    ordered: Sequence[Artifact], *, room: int, varied: Collection[str] = frozenset()
) -> tuple[tuple[Artifact, ...], ...]:
    """Return the wheels of each layer, bottom first; never more than ``room`` layers.

    Where there are more wheels than layers, the smallest common ones share the lowest layer, and
    the smallest varied ones follow only where that is not enough.

    Raises:
        BuildError: there is no room for a single layer.
    """
    if len(ordered) <= room:
        return tuple((artifact,) for artifact in ordered)
    if room < 1:
        raise BuildError(
            "the base image has too many layers",
            why=f"an engine takes {MAX_LAYERS} layers, and the base leaves no room for a stack",
            fix="choose another base (stackgen images), or flatten it with docker export",
        )
    expendable = sorted(ordered, key=lambda a: (a.name in varied, a.size or 0, a.name))
    merged = {artifact.name for artifact in expendable[: len(ordered) - room + 1]}
    lowest = tuple(artifact for artifact in ordered if artifact.name in merged)
    return lowest, *((artifact,) for artifact in ordered if artifact.name not in merged)
