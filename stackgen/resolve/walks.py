"""Walks over a decision diagram.

`newest` takes the newest version at each decision, `Order` numbers and lists all stacks, `sliced`
finds every feasible choice of some packages in one pass, and `versions_used` what occurs at all.
"""

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from operator import itemgetter
from typing import cast

from stackgen.resolve.dependencies import bits, newest_bit
from stackgen.resolve.diagram import END, Choice, Node, Together, scope_of

ABSENT = -1

Assignment = tuple[int, ...]
"""The bit of each package's version, in the order of the diagram's packages; or ABSENT."""


def newest(root: Node, size: int, preferred: Mapping[int, int]) -> Assignment | None:
    """Return the assignment that takes the newest version at each decision, or None.

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


class StackOrder:
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
    ) -> Iterator[Iterator[Assignment]]:
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


def _combined(head: list[int], tail: Sequence[tuple[int, tuple[int, ...]]]) -> Iterator[Assignment]:
    """Yield one assignment per combination of free choices, the last choice first to change.

    A copy of one list that changes in place is several times as fast as to join what stays with
    what changes: it takes one tuple for each stack, and nothing else.
    """
    if not tail:
        yield tuple(head)
        return
    for package, versions in tail:
        head[package] = versions[0]
    *outer, (last, last_versions) = [each for each in tail if len(each[1]) > 1] or tail[-1:]
    packages = [package for package, _ in outer]
    for chosen in product(*(versions for _, versions in outer)):
        for package, bit in zip(packages, chosen, strict=True):
            head[package] = bit
        for bit in last_versions:
            head[last] = bit
            yield tuple(head)
    for package, _ in tail:
        head[package] = ABSENT


def versions_used(nodes: Iterable[Node], packages: Sequence[int]) -> dict[int, int]:
    """Return, by package, the mask of its versions that occur at any of these nodes."""
    used = dict.fromkeys(packages, 0)
    for node in nodes:
        if isinstance(node, Choice) and node.package in used:
            for branch in node.branches:
                used[node.package] |= branch.versions
    return used


Tree = Node | tuple[int, int, "Tree"] | tuple["Tree", "Tree"]
"""A stack that shares its parts with others: the newest one below a node; a version of a package
and what follows; or two trees. See `Trees`."""

_Found = dict[int, tuple[int, Tree]]
"""By choice: how many completions it has, and the newest of them. A choice is one integer: each
varied package has a field of bits in it, 0 where it is absent, else 1 + the bit of its version."""

Sliced = tuple[tuple[int, ...], int, Tree]
"""Bits of the varied packages (or ABSENT), number of completions, newest completion."""


def sliced(root: Node, varied: Sequence[int]) -> list[Sliced]:
    """Return every feasible choice of some packages (as ranks), newest first in their order."""
    slicer = _Slicer(root, varied)
    found = slicer.below(root) if root.count else {}
    rows = [(slicer.bits(choice), count, tree) for choice, (count, tree) in found.items()]
    # What is absent comes last: after every version.
    rows.sort(key=lambda row: tuple(bit % (1 << 30) for bit in row[0]))
    return rows


class _Slicer:
    def __init__(self, root: Node, varied: Sequence[int]) -> None:
        self._scopes: dict[Node, int] = {}
        scope_of(root, self._scopes)
        self._mask = sum(1 << package for package in varied)
        used = versions_used(self._scopes, varied)
        self._fields: dict[int, int] = {}
        self._slots: list[tuple[int, int]] = []
        offset = 0
        for package in varied:
            # Bits for 1 + the highest bit of the package's versions.
            width = used[package].bit_length().bit_length()
            self._fields[package] = offset
            self._slots.append((offset, (1 << width) - 1))
            offset += width
        self._known: dict[Node, _Found] = {}

    def bits(self, choice: int) -> tuple[int, ...]:
        """Return the bit of each varied package, in their order, or ABSENT."""
        return tuple((choice >> offset & full) - 1 for offset, full in self._slots)

    def below(self, node: Node) -> _Found:
        """Return the choices that are open at a node."""
        if not self._scopes[node] & self._mask:
            return {0: (node.count, node)}
        known = self._known.get(node)
        if known is None:
            if isinstance(node, Together):
                known = self._joined(node.parts)
            elif node.package in self._fields:
                known = self._taken(node)
            else:
                known = self._summed(node)
            self._known[node] = known
        return known

    def _taken(self, node: Choice) -> _Found:
        """Return the choices at a node that decides a varied package: each version is one."""
        offset, package = self._fields[node.package], node.package
        found: _Found = {}
        for branch in node.branches:
            below = self.below(branch.then)
            for bit in bits(branch.versions):
                field = (bit + 1) << offset
                for choice, (count, tree) in below.items():
                    found[field | choice] = count, (package, bit, tree)
        return found

    def _summed(self, node: Choice) -> _Found:
        """Return the choices at a node that decides any other package: the newest branch counts."""
        found: _Found = {}
        for branch in node.branches:
            weight, package = branch.versions.bit_count(), node.package
            bit = newest_bit(branch.versions)
            for choice, (count, tree) in self.below(branch.then).items():
                known = found.get(choice)
                if known is None:
                    found[choice] = count * weight, (package, bit, tree)
                else:
                    found[choice] = known[0] + count * weight, known[1]
        return found

    def _joined(self, parts: Iterable[Node]) -> _Found:
        found: _Found | None = None
        for part in parts:
            below = self.below(part)
            if found is None:
                found = below
                continue
            found = {
                one | two: (one_count * two_count, (one_tree, two_tree))
                for one, (one_count, one_tree) in found.items()
                for two, (two_count, two_tree) in below.items()
            }
        return found or {}


class Trees:
    """Turns trees into assignments.

    size: how many packages the diagram has.
    """

    def __init__(self, size: int) -> None:
        self._size = size
        self._newest: dict[Node, tuple[tuple[int, int], ...]] = {}

    def assignment(self, tree: Tree) -> Assignment:
        """Return the stack that a tree stands for."""
        found = [ABSENT] * self._size
        todo: list[Tree] = [tree]
        while todo:
            each = todo.pop()
            if not isinstance(each, tuple):
                for package, bit in self._below(each):
                    found[package] = bit
            elif len(each) == 3:
                found[each[0]] = each[1]
                todo.append(each[2])
            else:
                todo += each
        return tuple(found)

    def _below(self, node: Node) -> tuple[tuple[int, int], ...]:
        known = self._newest.get(node)
        if known is None:
            best = newest(node, self._size, {}) or ()
            known = tuple((package, bit) for package, bit in enumerate(best) if bit != ABSENT)
            self._newest[node] = known
        return known
