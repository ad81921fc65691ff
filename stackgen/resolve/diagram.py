"""The search space as a counted decision diagram over bit masks of versions.

Packages are decided dependents first. What is left to decide then depends only on the masks of the
versions still allowed, so equal states share one node, and parts of a state that cannot influence
each other are multiplied. Counts are exact.

`compile_diagram` builds it, `restricted` takes a part of it, and `newest_stack` finds one stack of
spaces whose diagram would be too wide.
"""

import gc
import itertools
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from stackgen.errors import ResolutionError
from stackgen.resolve.dependencies import newest_bit
from stackgen.resolve.masks import Masks

State = tuple[tuple[int, int], ...]
"""Pairs of (package, mask of its versions still allowed), sorted: all that the past means for the
future, so equal states have equal futures. A package is its rank; ``~rank`` where it is decided
already, with the class of its version (`Masks.classes`); that is kept only while a package of its
own cycle can still exclude it."""

STATE_LIMIT = 200_000
"""`newest_stack` searches no more states than this: a minute, and half a gigabyte."""

Decisions = tuple[tuple[int, int], ...]
"""Pairs of (package, bit of its version), in the order of decision."""


class Steps:
    """The transitions between states; compilation and search both follow them."""

    def __init__(self, masks: Masks) -> None:
        self._groups = masks.groups
        self._reach = masks.reach
        self._cyclic = masks.cyclic
        self._classes = masks.classes
        self._start = masks.roots
        self._fallbacks = masks.fallbacks or (0,) * len(masks.packages)

    def start(self) -> tuple[State, ...] | None:
        """Return the independent parts of the first state; None where a root has no version."""
        if any(not mask for _, mask in self._start):
            return None
        return self.parts(self._start)

    def parts(self, state: State) -> tuple[State, ...]:
        """Return the parts of a state that cannot influence each other, in decision order.

        None of them is empty; there are none at all where everything is decided.
        """
        live = 0
        for rank, _ in state:
            if rank >= 0:
                live |= self._reach[rank]
        rest = [
            (self._reach[item[0]] if item[0] >= 0 else 1 << ~item[0], item)
            for item in state
            if item[0] >= 0 or live >> ~item[0] & 1
        ]
        found = []
        while rest:
            part, rest = _connected(rest)
            if part[-1][0] >= 0:
                found.append(part)
        return tuple(found)

    def next_package(self, state: State) -> int:
        """Return the package that is decided next: the first undecided one."""
        return next(rank for rank, _ in state if rank >= 0)

    def rounds(self, state: State) -> Iterator[tuple[tuple[int, State], ...]]:
        """Yield the steps that decide the next package of a state.

        First those with other versions than fallbacks. Only where none of them leads to a stack
        is the next round, that of the fallbacks, to be drawn.

        Yields:
            (mask of versions, state after taking any of these), by the newest of these versions.
        """
        rank = self.next_package(state)
        rest = dict(state)
        allowed = rest.pop(rank)
        late = allowed & self._fallbacks[rank]
        yield self._follow(rank, rest, allowed & ~late)
        if late:
            yield self._follow(rank, rest, late)

    def _follow(
        self, rank: int, rest: dict[int, int], allowed: int
    ) -> tuple[tuple[int, State], ...]:
        found: dict[State, int] = defaultdict(int)
        circular = self._cyclic >> rank & 1
        for needs, group in self._groups[rank]:
            if not (versions := group & allowed):
                continue
            following = dict(rest)
            for needed, mask in needs:
                if needed == rank:
                    versions &= mask
                    left = versions
                elif ~needed in rest:
                    left = rest[~needed] & mask
                else:
                    left = following[needed] = following.get(needed, -1) & mask
                if not left:
                    break
            else:
                if not circular:
                    found[tuple(sorted(following.items()))] |= versions
                    continue
                for each in self._classes[rank]:
                    if alike := versions & each:
                        following[~rank] = each
                        found[tuple(sorted(following.items()))] |= alike
        return tuple(
            (versions, after)
            for after, versions in sorted(found.items(), key=lambda pair: pair[1] & -pair[1])
        )


def _connected(
    items: list[tuple[int, tuple[int, int]]],
) -> tuple[State, list[tuple[int, tuple[int, int]]]]:
    """Return what hangs together with the first item, however indirectly, and the others.

    items: each with the mask of packages that it can touch.
    """
    (touched, first), *rest = items
    found = [first]
    while rest:
        separate = []
        for each in rest:
            if each[0] & touched:
                touched |= each[0]
                found.append(each[1])
            else:
                separate.append(each)
        if len(separate) == len(rest):
            break
        rest = separate
    return tuple(sorted(found)), rest


@contextmanager
def undisturbed(packages: int) -> Iterator[None]:
    """Let a walk go as deep as there are packages, and keep the garbage collector out of it.

    Diagrams hold no reference cycles, and the collector takes four fifths of the time when it
    looks for some among millions of new tuples.
    """
    depth, collecting = sys.getrecursionlimit(), gc.isenabled()
    sys.setrecursionlimit(max(depth, 6 * packages + 1000))
    gc.disable()
    try:
        yield
    finally:
        sys.setrecursionlimit(depth)
        if collecting:
            gc.enable()


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
    version_limit: 0 where it holds all of the space; otherwise so many of the newest versions of
        each package, and further ones as far as each version of what the user requires needs them.
    """

    packages: tuple[str, ...]
    root: Node
    nodes: int
    version_limit: int = 0


def compile_diagram(masks: Masks, *, limit: int) -> Diagram:
    """Compile masks into their decision diagram.

    Raises:
        TooWideError: it would have more than `limit` nodes.
    """
    builder = _DiagramBuilder(masks, limit)
    with undisturbed(len(masks.packages)):
        root = builder.root()
    return Diagram(packages=masks.packages, root=root, nodes=builder.nodes)


class _DiagramBuilder:
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


def newest_stack(masks: Masks) -> Decisions | None:
    """Return the stack that takes the newest version at each decision, or None where none is.

    Exact: what is given up was shown to lead nowhere. States that lead nowhere are remembered.

    Raises:
        ResolutionError: that would take more than STATE_LIMIT states.
    """
    search = _DiagramSearch(masks)
    with undisturbed(len(masks.packages)):
        return search.run()


@dataclass(frozen=True, slots=True)
class _Found:
    """A partial stack, as a tree that shares what other partial stacks have in common."""

    package: int
    version: int
    rest: tuple["_Found", ...]


class _DiagramSearch:
    def __init__(self, masks: Masks) -> None:
        self._steps = Steps(masks)
        self._known: dict[State, _Found | None] = {}

    def run(self) -> Decisions | None:
        start = self._steps.start()
        found = None if start is None else self._all(start)
        return None if found is None else _flat(found)

    def _all(self, parts: tuple[State, ...]) -> tuple[_Found, ...] | None:
        found = []
        for part in parts:
            one = self._one(part)
            if one is None:
                return None
            found.append(one)
        return tuple(found)

    def _one(self, state: State) -> _Found | None:
        if state in self._known:
            return self._known[state]
        if len(self._known) >= STATE_LIMIT:
            raise _too_hard()
        found = None
        for versions, following in itertools.chain.from_iterable(self._steps.rounds(state)):
            rest = self._all(self._steps.parts(following))
            if rest is not None:
                newest = newest_bit(versions)
                found = _Found(self._steps.next_package(state), newest, rest)
                break
        self._known[state] = found
        return found


def _flat(found: tuple[_Found, ...]) -> Decisions:
    pairs, todo = [], list(found)
    while todo:
        each = todo.pop()
        pairs.append((each.package, each.version))
        todo += each.rest
    return tuple(sorted(pairs))


def _too_hard() -> ResolutionError:
    return ResolutionError(
        "whether any stack exists could not be decided",
        why=f"more than {STATE_LIMIT:,} partial stacks contradict each other",
        fix="narrow it: pin a package that many others depend on, or leave out an extra",
    )
