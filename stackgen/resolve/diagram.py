"""The space as a counted decision diagram over bit masks of versions (DESIGN: decision 1).

Packages are decided dependents first, in the order of their strongly connected components. What is
left to decide then depends only on the masks of the versions still allowed, so equal states share
one node, and parts of a state that cannot influence each other are multiplied. Counts are exact.
"""

import sys
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from heapq import heappop, heappush

from stackgen.errors import ResolutionError
from stackgen.resolve.closure import Universe
from stackgen.resolve.dependencies import Dependency, parsed_version, specifier_set

NODE_LIMIT = 300_000
"""More nodes than this are not compiled: about 1 GB of memory."""


@dataclass(frozen=True, slots=True)
class Branch:
    """Versions of one package that leave the same choices open."""

    versions: int  # a bit mask; the lowest bit is the newest version
    then: "Node"


@dataclass(frozen=True, slots=True)
class Choice:
    """One package is decided here."""

    count: int
    package: int
    branches: tuple[Branch, ...]


@dataclass(frozen=True, slots=True)
class Together:
    """Independent choices, all of them to be made; none at all is the end of a stack."""

    count: int
    parts: tuple["Node", ...]


Node = Choice | Together
END = Together(1, ())
DEAD = Together(0, ())

# What is known of a package in a state: its rank, the mask of versions still allowed, and whether
# it is decided already (kept only while a package of its own cycle can still exclude it).
Item = tuple[int, int, bool]
State = tuple[Item, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagram:
    """A compiled space.

    packages: in the order in which they are decided.
    """

    packages: tuple[str, ...]
    root: Node
    nodes: int


def compile_space(universe: Universe) -> Diagram:
    """Compile a closure into its decision diagram.

    Raises:
        ResolutionError: the diagram would be larger than NODE_LIMIT nodes.
    """
    return _Compiler(universe).compile()


class _Compiler:
    def __init__(self, universe: Universe) -> None:
        self._universe = universe
        self._masks: dict[tuple[str, str], int] = {}
        edges = {
            package: sorted({each.package for needs in per_release for each in needs})
            for package, per_release in universe.needs.items()
        }
        roots = [root.package for root in universe.roots]
        components = strong_components(edges, roots)
        self._packages = tuple(package for component in components for package in component)
        self._ranks = {package: rank for rank, package in enumerate(self._packages)}
        self._cyclic = {
            self._ranks[package] for each in components if len(each) > 1 for package in each
        }
        self._reach = self._reachable(components, edges)
        self._groups = [self._grouped(package) for package in self._packages]
        self._memo: dict[State, Node] = {}

    def compile(self) -> Diagram:
        start: dict[int, int] = {}
        for root in self._universe.roots:
            rank = self._ranks[root.package]
            start[rank] = start.get(rank, -1) & self._mask(root)
        with _deep_recursion(4 * len(self._packages) + 1000):
            state = tuple((rank, mask, False) for rank, mask in sorted(start.items()))
            root_node = self._node(state) if all(start.values()) else DEAD
        return Diagram(packages=self._packages, root=root_node, nodes=len(self._memo))

    def _mask(self, dependency: Dependency) -> int:
        key = (dependency.package, dependency.specifier)
        if key not in self._masks:
            wanted = specifier_set(dependency.specifier)
            self._masks[key] = sum(
                1 << bit
                for bit, release in enumerate(self._universe.releases.get(key[0], ()))
                if wanted.contains(parsed_version(release.version))
            )
        return self._masks[key]

    def _grouped(self, package: str) -> tuple[tuple[tuple[tuple[int, int], ...], int], ...]:
        """Return (masks of what is needed, versions that need just this), newest group first."""
        groups: dict[tuple[tuple[int, int], ...], int] = defaultdict(int)
        for bit, needs in enumerate(self._universe.needs[package]):
            masks: dict[int, int] = {}
            for each in needs:
                rank = self._ranks[each.package]
                masks[rank] = masks.get(rank, -1) & self._mask(each)
            groups[tuple(sorted(masks.items()))] |= 1 << bit
        return tuple(groups.items())

    def _reachable(
        self, components: Sequence[Sequence[str]], edges: Mapping[str, Sequence[str]]
    ) -> list[int]:
        """Return, by rank, the mask of ranks that a package can reach, itself included."""
        reach = [0] * len(self._packages)
        for component in reversed(components):
            union = sum(1 << self._ranks[package] for package in component)
            for package in component:
                for child in edges.get(package, ()):
                    union |= reach[self._ranks[child]]
            for package in component:
                reach[self._ranks[package]] = union
        return reach

    def _node(self, state: State) -> Node:
        """Return the node of a state, split into parts that cannot influence each other."""
        live = 0
        for rank, _, decided in state:
            if not decided:
                live |= self._reach[rank]
        if not live:
            return END
        count, parts = 1, []
        for part in self._independent(state, live):
            node = self._choice(part)
            count *= node.count
            if not count:
                return DEAD
            parts.append(node)
        return parts[0] if len(parts) == 1 else Together(count, tuple(parts))

    def _independent(self, state: State, live: int) -> list[State]:
        groups: list[tuple[int, list[Item]]] = []
        for item in state:
            rank, _, decided = item
            if decided and not live >> rank & 1:
                continue
            touched = 1 << rank if decided else self._reach[rank]
            items, apart = [item], []
            for other, others in groups:
                if other & touched:
                    touched |= other
                    items = others + items
                else:
                    apart.append((other, others))
            groups = [*apart, (touched, items)]
        return [
            tuple(sorted(items)) for _, items in groups if not all(decided for *_, decided in items)
        ]

    def _choice(self, state: State) -> Node:
        """Decide the first undecided package of a state; equal states share the result."""
        known = self._memo.get(state)
        if known is not None:
            return known
        if len(self._memo) >= NODE_LIMIT:
            raise _too_wide(len(self._packages))
        position = next(i for i, (_, _, decided) in enumerate(state) if not decided)
        rank, allowed, _ = state[position]
        rest = {item[0]: item for i, item in enumerate(state) if i != position}
        count, branches = 0, []
        for following, versions in self._successors(rank, allowed, rest).items():
            node = self._node(following)
            if node.count:
                count += node.count * versions.bit_count()
                branches.append(Branch(versions, node))
        branches.sort(key=lambda branch: branch.versions & -branch.versions)
        self._memo[state] = result = Choice(count, rank, tuple(branches))
        return result

    def _successors(self, rank: int, allowed: int, rest: Mapping[int, Item]) -> Mapping[State, int]:
        """Return, for each state that may follow, the versions that lead to it."""
        found: dict[State, int] = defaultdict(int)
        for needs, group in self._groups[rank]:
            versions = group & allowed
            following = dict(rest)
            for needed, mask in needs:
                if needed == rank:
                    versions &= mask
                    continue
                _, open_mask, decided = following.get(needed, (needed, -1, False))
                following[needed] = (needed, open_mask & mask, decided)
            if not versions or any(not mask for _, mask, _ in following.values()):
                continue
            for each in self._split(rank, versions):
                after = dict(following)
                if rank in self._cyclic:
                    after[rank] = (rank, each, True)
                found[tuple(sorted(after.values()))] |= each
        return found

    def _split(self, rank: int, versions: int) -> Iterator[int]:
        """Yield versions one by one within a cycle: a later choice may exclude any of them."""
        if rank not in self._cyclic:
            yield versions
            return
        while versions:
            lowest = versions & -versions
            yield lowest
            versions ^= lowest


def strong_components(
    edges: Mapping[str, Sequence[str]], roots: Sequence[str]
) -> list[tuple[str, ...]]:
    """Return what the roots reach as strongly connected components, dependents first.

    Within a component and among unrelated ones the order is that of the names, so that equal
    spaces compile equally.
    """
    reached = {package for root in roots for package in _reached(edges, root)}
    reach = {package: _reached(edges, package) for package in sorted(reached)}
    parts: dict[str, tuple[str, ...]] = {}
    for package, others in reach.items():
        together = sorted(other for other in others if package in reach[other])
        parts.setdefault(package, tuple(together))
    after = {
        part: {parts[child] for package in part for child in edges.get(package, ())} - {part}
        for part in parts.values()
    }
    open_before = Counter(child for children in after.values() for child in children)
    ready = sorted(part for part in after if not open_before[part])
    order = []
    while ready:
        order.append(heappop(ready))
        for child in after[order[-1]]:
            open_before[child] -= 1
            if not open_before[child]:
                heappush(ready, child)
    return order


def _reached(edges: Mapping[str, Sequence[str]], start: str) -> set[str]:
    """Return what a package requires, itself included, however indirectly."""
    found, todo = {start}, [start]
    while todo:
        fresh = set(edges.get(todo.pop(), ())) - found
        found |= fresh
        todo += fresh
    return found


@contextmanager
def _deep_recursion(limit: int) -> Iterator[None]:
    """Allow the compiler to go as deep as there are packages."""
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(max(before, limit))
    try:
        yield
    finally:
        sys.setrecursionlimit(before)


def _too_wide(packages: int) -> ResolutionError:
    return ResolutionError(
        "the space is too wide to be counted exactly",
        why=f"{packages} packages depend on each other in more than {NODE_LIMIT:,} ways",
        fix="pin more packages, for example with --from LOCK",
    )
