"""The space as a counted decision diagram over bit masks of versions (DESIGN: decision 1).

Packages are decided dependents first. What is left to decide then depends only on the masks of the
versions still allowed, so equal states share one node, and parts of a state that cannot influence
each other are multiplied. Counts are exact.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from stackgen.resolve.masks import Masks
from stackgen.resolve.states import State, Steps, undisturbed


@dataclass(frozen=True, slots=True, eq=False)
class Branch:
    """Versions of one package that leave the same choices open."""

    versions: int  # a bit mask; the lowest bit is the newest version
    then: "Node"


@dataclass(frozen=True, slots=True, eq=False)
class Choice:
    """One package is decided here; branches stand in the order of their newest versions."""

    count: int
    package: int
    branches: tuple[Branch, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Together:
    """Independent choices, all of them to be made; none at all is the end of a stack."""

    count: int
    parts: tuple["Node", ...]


Node = Choice | Together
"""Nodes are compared by identity: equal ones are shared, never made twice."""

END = Together(1, ())
DEAD = Together(0, ())


class TooWideError(Exception):
    """The diagram would have more nodes than allowed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagram:
    """A compiled space.

    packages: in the order in which they are decided.
    nodes: how many choices it has.
    """

    packages: tuple[str, ...]
    root: Node
    nodes: int


def compile_diagram(masks: Masks, *, limit: int) -> Diagram:
    """Compile masks into their decision diagram.

    Raises:
        TooWideError: it would have more than `limit` nodes.
    """
    builder = _Builder(masks, limit)
    with undisturbed(len(masks.packages)):
        root = builder.root()
    return Diagram(packages=masks.packages, root=root, nodes=builder.nodes)


class _Builder:
    def __init__(self, masks: Masks, limit: int) -> None:
        self._steps = Steps(masks)
        self._limit = limit
        self._known: dict[State, Node] = {}

    @property
    def nodes(self) -> int:
        return len(self._known)

    def root(self) -> Node:
        start = self._steps.start()
        return DEAD if start is None else self._joined(start)

    def _joined(self, parts: tuple[State, ...]) -> Node:
        nodes = []
        for part in parts:
            node = self._choice(part)
            if not node.count:
                return DEAD
            nodes.append(node)
        return together(nodes)

    def _choice(self, state: State) -> Node:
        """Decide the next package of a state; equal states share the result."""
        known = self._known.get(state)
        if known is not None:
            return known
        if len(self._known) >= self._limit:
            raise TooWideError
        branches: list[Branch] = []
        for steps in self._steps.rounds(state):
            for versions, following in steps:
                node = self._joined(self._steps.parts(following))
                if node.count:
                    branches.append(Branch(versions, node))
            if branches:
                break
        self._known[state] = found = choice(self._steps.next_package(state), branches)
        return found


def choice(package: int, branches: list[Branch]) -> Choice:
    """Return the node that decides a package, counted."""
    count = sum(each.then.count * each.versions.bit_count() for each in branches)
    return Choice(count, package, tuple(branches))


def together(nodes: list[Node]) -> Node:
    """Return the node that makes independent choices, counted."""
    if len(nodes) == 1:
        return nodes[0]
    if not nodes:
        return END
    count = 1
    for node in nodes:
        count *= node.count
    return Together(count, tuple(nodes)) if count else DEAD


def restricted(root: Node, allowed: Mapping[int, int], present: int) -> Node:
    """Return the part of a diagram in which only some versions are taken.

    Args:
        root: the whole diagram.
        allowed: by package, the mask of versions that may be taken.
        present: the mask of packages that a stack must contain.
    """
    return _Restriction(allowed).apply(root, present)


class _Restriction:
    def __init__(self, allowed: Mapping[int, int]) -> None:
        self._allowed = allowed
        self._touched = sum(1 << package for package in allowed)
        self._scopes: dict[Node, int] = {}
        self._known: dict[tuple[Node, int], Node] = {}

    def apply(self, node: Node, present: int) -> Node:
        scope = scope_of(node, self._scopes)
        if present & ~scope:
            return DEAD
        if not scope & self._touched and not present:
            return node
        key = (node, present)
        if key not in self._known:
            self._known[key] = (
                self._choice(node, present)
                if isinstance(node, Choice)
                else together(
                    [self.apply(part, present & self._scopes[part]) for part in node.parts]
                )
            )
        return self._known[key]

    def _choice(self, node: Choice, present: int) -> Node:
        allowed = self._allowed.get(node.package, -1)
        below = present & ~(1 << node.package)
        branches = []
        for each in node.branches:
            if versions := each.versions & allowed:
                then = self.apply(each.then, below)
                if then.count:
                    branches.append(Branch(versions, then))
        branches.sort(key=lambda branch: branch.versions & -branch.versions)
        return choice(node.package, branches)


def scope_of(node: Node, known: dict[Node, int]) -> int:
    """Return the mask of packages that are decided at or below a node."""
    found = known.get(node)
    if found is None:
        if isinstance(node, Choice):
            found = 1 << node.package
            for branch in node.branches:
                found |= scope_of(branch.then, known)
        else:
            found = 0
            for part in node.parts:
                found |= scope_of(part, known)
        known[node] = found
    return found
