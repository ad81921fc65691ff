"""Under which condition a package of a dependency graph is installed."""

from collections.abc import Callable, Hashable, Iterable
from typing import TypeVar

Node = TypeVar("Node", bound=Hashable)
Edges = Callable[[Node], Iterable[tuple[Node, str]]]
# A way to a package holds where all markers on it hold; a package is installed where any way holds.
Way = frozenset[str]

_MOST_WAYS = 48


def reach(roots: Iterable[tuple[Node, str]], edges: Edges[Node]) -> dict[Node, str]:
    """Return every node that can be reached, and the marker under which it is.

    Args:
        roots: (node, marker) pairs to start from; a marker may be "".
        edges: what a node leads to, and under which marker.

    Returns:
        A marker per node; "" where it always is, which is also what is said where more ways
        lead to a node than are worth following.
    """
    ways: dict[Node, set[Way]] = {}
    waiting = [(node, _way(marker)) for node, marker in roots]
    while waiting:
        node, way = waiting.pop()
        if _adds(ways.setdefault(node, set()), way):
            waiting += [(target, way | _way(marker)) for target, marker in edges(node)]
    return {node: _marker(found) for node, found in ways.items()}


def _way(marker: str) -> Way:
    return frozenset([marker]) if marker else frozenset()


def _adds(known: set[Way], way: Way) -> bool:
    """Add a way unless one that asks for less is known; return whether it was added."""
    if any(other <= way for other in known):
        return False
    if len(known) >= _MOST_WAYS:
        way = frozenset()
    known -= {other for other in known if way <= other}
    known.add(way)
    return True


def _marker(ways: set[Way]) -> str:
    if frozenset() in ways:
        return ""
    every = sorted(" and ".join(f"({marker})" for marker in sorted(way)) for way in ways)
    return every[0] if len(every) == 1 else " or ".join(f"({way})" for way in every)
