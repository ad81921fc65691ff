"""Walks over a diagram: the newest stack, all stacks in order, the n-th stack, versions in use.

A stack is an assignment here: one number per package of the diagram, the bit of the version that
it takes, or ABSENT. Stacks are ordered by the newest version first; what is decided last varies
fastest. All walks agree on this order.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import product
from operator import itemgetter
from typing import cast

from stackgen.resolve.bits import bits, newest_bit
from stackgen.resolve.diagram import END, Choice, Node, Together

ABSENT = -1

Assignment = tuple[int, ...]
"""The bit of each package's version, in the order of the diagram's packages; or ABSENT."""


def newest(root: Node, size: int, preferred: Mapping[int, int]) -> Assignment | None:
    """Return the assignment that takes the newest version at each decision, or None.

    Args:
        root: what to walk.
        size: how many packages the diagram has.
        preferred: by package, the mask of a version that is taken before the newest one.
    """
    if not root.count:
        return None
    found = [ABSENT] * size
    todo = [root]
    while todo:
        node = todo.pop()
        if not isinstance(node, Choice):
            todo += node.parts
            continue
        wanted = preferred.get(node.package, 0)
        branch = next((b for b in node.branches if b.versions & wanted), node.branches[0])
        mask = branch.versions & wanted or branch.versions
        found[node.package] = newest_bit(mask)
        todo.append(branch.then)
    return tuple(found)


@dataclass(frozen=True, slots=True)
class _Options:
    """The versions of a choice, newest first.

    bits, thens: each version, and what it leaves to decide.
    ends: how many stacks there are up to and with each version.
    final: whether nothing is left to decide after any of them.
    """

    bits: tuple[int, ...]
    thens: tuple[Node, ...]
    ends: tuple[int, ...]
    final: bool


class Order:
    """The order of the stacks below a node: from a number to a stack, and from first to last."""

    def __init__(self, root: Node, size: int) -> None:
        self._root = root
        self._size = size
        self._options: dict[Node, _Options] = {}

    def unrank(self, index: int) -> Assignment:
        """Return the stack of that number, 0 <= index < count."""
        found = [ABSENT] * self._size
        todo: list[tuple[Node, int]] = [(self._root, index)]
        while todo:
            node, rest = todo.pop()
            if not isinstance(node, Choice):
                for part in reversed(node.parts):
                    rest, own = divmod(rest, part.count)
                    todo.append((part, own))
                continue
            options = self.options(node)
            place = bisect_right(options.ends, rest)
            found[node.package] = options.bits[place]
            then = options.thens[place]
            if then is not END:
                todo.append((then, rest - options.ends[place - 1] if place else rest))
        return tuple(found)

    def __iter__(self) -> Iterator[Assignment]:
        """Yield every stack, in order."""
        if self._root.count:
            for chunk in self._chunks((self._root, None), [ABSENT] * self._size):
                yield from chunk

    def _chunks(
        self, pending: "_Pending | None", head: list[int]
    ) -> Iterator[Iterable[Assignment]]:
        """Yield stacks in bundles that differ in their last decisions alone.

        pending: what is still to be decided.
        head: what was decided so far; it is changed in place and restored.
        """
        while pending is not None and isinstance(pending[0], Together):
            parts, pending = pending[0].parts, pending[1]
            for part in reversed(parts):
                pending = (part, pending)
        tail = self._final(pending)
        if tail is not None:
            yield _combined(head, tail)
            return
        node, rest = cast("tuple[Choice, _Pending | None]", pending)
        options = self.options(node)
        for bit, then in zip(options.bits, options.thens, strict=True):
            head[node.package] = bit
            yield from self._chunks((then, rest) if then is not END else rest, head)
        head[node.package] = ABSENT

    def _final(self, pending: "_Pending | None") -> list[tuple[int, tuple[int, ...]]] | None:
        """Return what is pending as lists of free choices; None where there is more to it."""
        found = []
        while pending is not None:
            node, pending = pending
            options = self.options(node) if isinstance(node, Choice) else None
            if options is None or not options.final:
                return None
            found.append((cast("Choice", node).package, options.bits))
        return found

    def options(self, node: Choice) -> _Options:
        """Return the versions of a choice, newest first."""
        known = self._options.get(node)
        if known is None:
            self._options[node] = known = _options(node)
        return known


_Pending = tuple[Node, "_Pending | None"]
"""A linked list of nodes still to be decided; tails are shared between alternatives."""


def _options(node: Choice) -> _Options:
    pairs = sorted(
        ((bit, branch.then) for branch in node.branches for bit in bits(branch.versions)),
        key=itemgetter(0),
    )
    ends, end = [], 0
    for _, then in pairs:
        end += then.count
        ends.append(end)
    return _Options(
        bits=tuple(bit for bit, _ in pairs),
        thens=tuple(then for _, then in pairs),
        ends=tuple(ends),
        final=all(then is END for _, then in pairs),
    )


def _combined(
    head: Sequence[int], tail: Sequence[tuple[int, tuple[int, ...]]]
) -> Iterable[Assignment]:
    """Return one assignment per combination of free choices, made without a loop of ours."""
    start = tuple(head)
    if not tail:
        return (start,)
    place = _placing(len(start), tuple(package for package, _ in tail))
    return map(place, map(start.__add__, product(*(bits for _, bits in tail))))


@lru_cache(maxsize=4096)
def _placing(size: int, packages: tuple[int, ...]) -> Callable[[Assignment], Assignment]:
    """Return what moves numbers appended to an assignment to the places of their packages."""
    places = list(range(size))
    for offset, package in enumerate(packages):
        places[package] = size + offset
    if size == 1:
        return itemgetter(slice(places[0], places[0] + 1))
    return cast("Callable[[Assignment], Assignment]", itemgetter(*places))


def versions_used(root: Node) -> dict[int, int]:
    """Return, by package, the mask of versions that occur in any stack."""
    used: dict[int, int] = {}
    seen, todo = {root}, [root]
    while todo:
        node = todo.pop()
        below: Iterable[Node] = ()
        if isinstance(node, Choice):
            below = [branch.then for branch in node.branches]
            for branch in node.branches:
                used[node.package] = used.get(node.package, 0) | branch.versions
        elif node.count:
            below = node.parts
        fresh = [each for each in below if each not in seen]
        seen.update(fresh)
        todo += fresh
    return used
