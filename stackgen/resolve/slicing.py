"""Slices: every feasible choice of some packages, each with its newest completion, in one pass."""

from collections.abc import Iterable, Mapping, Sequence

from stackgen.resolve.bits import bits, newest_bit
from stackgen.resolve.diagram import Choice, Node, Together, scope_of
from stackgen.resolve.walks import ABSENT, Assignment, newest

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
        widths = _widths(self._scopes, varied)
        self._fields: dict[int, int] = {}
        self._slots: list[tuple[int, int]] = []
        offset = 0
        for package in varied:
            self._fields[package] = offset
            self._slots.append((offset, (1 << widths[package]) - 1))
            offset += widths[package]
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


def _widths(nodes: Iterable[Node], varied: Sequence[int]) -> Mapping[int, int]:
    """Return how many bits a field for 1 + the highest bit of each package's versions needs."""
    used = dict.fromkeys(varied, 0)
    for node in nodes:
        if isinstance(node, Choice) and node.package in used:
            for branch in node.branches:
                used[node.package] |= branch.versions
    return {package: mask.bit_length().bit_length() for package, mask in used.items()}


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
