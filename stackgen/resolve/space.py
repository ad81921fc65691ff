"""A space: every valid stack of some requirements on a target, counted, chosen from, explained."""

import random
from collections.abc import Collection, Container, Iterator, Mapping, Sequence
from dataclasses import dataclass

from stackgen.resolve.closure import Universe
from stackgen.resolve.dependencies import base_name
from stackgen.resolve.diagram import Choice, Diagram, Node, Together, compile_space
from stackgen.values import Artifact, Lock, Release

Assignment = tuple[tuple[int, int], ...]
"""Pairs of (package, bit of its version)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Slice:
    """One choice of the varied packages.

    versions: of the varied packages that this choice contains, in the order they were named.
    absent: the varied packages that this choice does without.
    completions: how many stacks hold exactly these versions.
    """

    versions: tuple[tuple[str, str], ...]
    completions: int
    absent: tuple[str, ...] = ()


class Space:
    """Every valid stack. Stacks are never listed in memory: all walks go over the diagram."""

    def __init__(self, universe: Universe) -> None:
        self.universe = universe
        self._diagram: Diagram = compile_space(universe)

    @property
    def count(self) -> int:
        """Return the exact number of stacks."""
        return self._diagram.root.count

    @property
    def packages(self) -> tuple[str, ...]:
        """Return the packages of the closure, extras left out, in the order of decision."""
        return tuple(name for name in self._diagram.packages if "[" not in name)

    @property
    def nodes(self) -> int:
        """Return the size of the compiled diagram."""
        return self._diagram.nodes

    def newest(
        self,
        allowed: Mapping[str, Container[str]] | None = None,
        *,
        present: Collection[str] = (),
        preferred: Mapping[str, str] | None = None,
    ) -> Lock | None:
        """Return the stack that takes the newest version at each decision, or None.

        Packages are decided dependents first (see ``packages``); this is the completion "newest".

        Args:
            allowed: by package, the only versions that may be taken.
            present: packages that the stack must contain, required or not.
            preferred: by package, the version to take before the newest one where it is open.
        """
        limits = _Limits(
            allowed=self._masks(allowed or {}),
            wanted=frozenset(self._diagram.packages.index(name) for name in present),
            preferred=self._masks({name: (v,) for name, v in (preferred or {}).items()}),
        )
        best = _best(self._diagram.root, limits, {})
        return self._lock(best[limits.wanted]) if limits.wanted in best else None

    def complete(
        self,
        choice: Slice,
        allowed: Mapping[str, Container[str]] | None = None,
        *,
        preferred: Mapping[str, str] | None = None,
    ) -> Lock | None:
        """Return the newest completion of a choice of the varied packages, or None.

        Args:
            choice: as ``slices`` returns it; without ``allowed`` there always is a completion.
            allowed: by package, the only versions that other packages may take.
            preferred: by package, the version to take before the newest one where it is open.
        """
        absent: dict[str, Container[str]] = dict.fromkeys(choice.absent, ())
        chosen = {name: (version,) for name, version in choice.versions}
        limits = {**(allowed or {}), **absent, **chosen}
        return self.newest(limits, present=tuple(chosen), preferred=preferred)

    def slices(self, varied: Sequence[str]) -> tuple[Slice, ...]:
        """Return every feasible choice of the varied packages, in one pass over the diagram.

        Order: by the newest version of the first package, then of the second, and so on.
        """
        ranks = {self._diagram.packages.index(name) for name in varied if name in self.packages}
        counted = _slices(self._diagram.root, frozenset(ranks), {})
        names = [name for name in varied if name in self.packages]
        ordered = sorted(counted, key=lambda each: self._order(each, names))
        return tuple(self._slice(each, names, counted[each]) for each in ordered)

    def sample(self, seed: int, n: int) -> Iterator[Lock]:
        """Yield n stacks drawn uniformly, with repetition, from the whole space."""
        generator = random.Random(seed)  # noqa: S311
        for _ in range(n if self.count else 0):
            yield self.unrank(generator.randrange(self.count))

    def unrank(self, index: int) -> Lock:
        """Return the stack of that number, 0 <= index < count."""
        if not 0 <= index < self.count:
            raise IndexError(index)
        found: dict[int, int] = {}
        todo: list[tuple[Node, int]] = [(self._diagram.root, index)]
        while todo:
            node, rest = todo.pop()
            if not isinstance(node, Choice):
                for part in node.parts:
                    rest, own = divmod(rest, part.count)
                    todo.append((part, own))
                continue
            for branch in node.branches:
                size = branch.then.count * branch.versions.bit_count()
                if rest < size:
                    break
                rest -= size
            nth, rest = divmod(rest, branch.then.count)
            found[node.package] = _nth_bit(branch.versions, nth)
            todo.append((branch.then, rest))
        return self._lock(tuple(found.items()))

    def stacks(self) -> Iterator[Lock]:
        """Yield every stack, newest first in the order of decision."""
        for found in _enumerate(_Pending(self._diagram.root, None), ()):
            yield self._lock(found)

    def versions(self, package: str) -> tuple[str, ...]:
        """Return the versions of a package that are part of any stack, newest first."""
        if package not in self._diagram.packages:
            return ()
        rank = self._diagram.packages.index(package)
        used = _used(self._diagram.root, rank, {})
        releases = self.universe.releases[package]
        return tuple(each.version for bit, each in enumerate(releases) if used >> bit & 1)

    def _masks(self, allowed: Mapping[str, Container[str]]) -> Mapping[int, int]:
        ranks = {name: rank for rank, name in enumerate(self._diagram.packages)}
        return {
            ranks[name]: sum(
                1 << bit
                for bit, release in enumerate(self.universe.releases[name])
                if release.version in versions
            )
            for name, versions in allowed.items()
            if name in ranks
        }

    def _release(self, pair: tuple[int, int]) -> Release:
        return self.universe.releases[self._diagram.packages[pair[0]]][pair[1]]

    def _lock(self, assignment: Assignment) -> Lock:
        chosen: dict[str, Artifact] = {}
        for pair in assignment:
            artifact = self._release(pair).artifact
            chosen[base_name(self._diagram.packages[pair[0]])] = artifact
        return Lock(artifacts=tuple(chosen[name] for name in sorted(chosen)))

    def _order(self, choice: Assignment, names: Sequence[str]) -> tuple[int, ...]:
        bits = {self._diagram.packages[rank]: bit for rank, bit in choice}
        return tuple(bits.get(name, 1 << 20) for name in names)

    def _slice(self, choice: Assignment, names: Sequence[str], completions: int) -> Slice:
        found = {self._diagram.packages[pair[0]]: self._release(pair).version for pair in choice}
        return Slice(
            versions=tuple((name, found[name]) for name in names if name in found),
            absent=tuple(name for name in names if name not in found),
            completions=completions,
        )


Best = Mapping[frozenset[int], Assignment]
"""The newest assignment below a node, by which of the wanted packages it contains."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Limits:
    """What a walk for the newest assignment must heed; packages are ranks, versions bit masks."""

    allowed: Mapping[int, int]
    preferred: Mapping[int, int]
    wanted: frozenset[int]


def _best(node: Node, limits: _Limits, memo: dict[int, Best]) -> Best:
    """Return the newest assignments below a node that the limits allow."""
    key = id(node)
    if key not in memo:
        memo[key] = (
            _best_choice(node, limits, memo)
            if isinstance(node, Choice)
            else _best_parts(node, limits, memo)
        )
    return memo[key]


def _best_choice(node: Choice, limits: _Limits, memo: dict[int, Best]) -> Best:
    found: dict[frozenset[int], Assignment] = {}
    own = limits.wanted & {node.package}
    allowed = limits.allowed.get(node.package, -1)
    preferred = limits.preferred.get(node.package, 0)
    options = []
    for branch in node.branches:
        if versions := branch.versions & allowed:
            first = versions & preferred or versions & -versions
            options.append((not versions & preferred, first, branch.then))
    for _, version, then in sorted(options, key=lambda option: option[:2]):
        for contained, rest in _best(then, limits, memo).items():
            head = (node.package, version.bit_length() - 1)
            found.setdefault(contained | own, (head, *rest))
    return found


def _best_parts(node: Together, limits: _Limits, memo: dict[int, Best]) -> Best:
    found: Best = {frozenset(): ()} if node.count else {}
    for part in node.parts:
        below = _best(part, limits, memo)
        found = {
            one | two: (*head, *tail) for one, head in found.items() for two, tail in below.items()
        }
    return found


def _slices(
    node: Node, varied: frozenset[int], memo: dict[int, Mapping[Assignment, int]]
) -> Mapping[Assignment, int]:
    """Return the number of completions of each choice of the varied packages below a node."""
    key = id(node)
    if key in memo:
        return memo[key]
    found = (
        _choice_slices(node, varied, memo)
        if isinstance(node, Choice)
        else _joint_slices(node, varied, memo)
    )
    memo[key] = found
    return found


def _choice_slices(
    node: Choice, varied: frozenset[int], memo: dict[int, Mapping[Assignment, int]]
) -> Mapping[Assignment, int]:
    found: dict[Assignment, int] = {}
    for branch in node.branches:
        heads: list[Assignment] = [()]
        weight = branch.versions.bit_count()
        if node.package in varied:
            heads, weight = [((node.package, bit),) for bit in _bits(branch.versions)], 1
        for rest, count in _slices(branch.then, varied, memo).items():
            for head in heads:
                choice = tuple(sorted((*head, *rest)))
                found[choice] = found.get(choice, 0) + count * weight
    return found


def _joint_slices(
    node: Together, varied: frozenset[int], memo: dict[int, Mapping[Assignment, int]]
) -> Mapping[Assignment, int]:
    found: Mapping[Assignment, int] = {(): 1} if node.count else {}
    for part in node.parts:
        below = _slices(part, varied, memo)
        found = {
            tuple(sorted((*one, *two))): a * b
            for one, a in found.items()
            for two, b in below.items()
        }
    return found


def _enumerate(pending: "_Pending | None", chosen: Assignment) -> Iterator[Assignment]:
    while pending is not None and isinstance(pending.node, Together):
        if not pending.node.count:
            return
        rest = pending.rest
        for part in reversed(pending.node.parts):
            rest = _Pending(part, rest)
        pending = rest
    if pending is None:
        yield chosen
        return
    choice = pending.node
    assert isinstance(choice, Choice)  # noqa: S101
    options = [(bit, each.then) for each in choice.branches for bit in _bits(each.versions)]
    for bit, then in sorted(options, key=lambda option: option[0]):
        yield from _enumerate(_Pending(then, pending.rest), (*chosen, (choice.package, bit)))


@dataclass(frozen=True, slots=True)
class _Pending:
    """A linked list of nodes still to be walked; tails are shared between alternatives."""

    node: Node
    rest: "_Pending | None"


def _used(node: Node, rank: int, memo: dict[int, int]) -> int:
    """Return the mask of versions of a package that occur below a node."""
    key = id(node)
    if key not in memo:
        if isinstance(node, Choice):
            own = sum(b.versions for b in node.branches) if node.package == rank else 0
            memo[key] = own
            for branch in node.branches:
                memo[key] |= _used(branch.then, rank, memo)
        else:
            memo[key] = 0
            for part in node.parts if node.count else ():
                memo[key] |= _used(part, rank, memo)
    return memo[key]


def _bits(mask: int) -> Iterator[int]:
    while mask:
        lowest = mask & -mask
        yield lowest.bit_length() - 1
        mask ^= lowest


def _nth_bit(mask: int, nth: int) -> int:
    for _ in range(nth):
        mask &= mask - 1
    return (mask & -mask).bit_length() - 1
