"""A search space: every valid stack of some requirements on a target, counted and chosen from."""

import random
from collections.abc import Collection, Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from stackgen.model.packages import Lock
from stackgen.resolve.closure import Universe
from stackgen.resolve.compilation import compile_universe, is_role
from stackgen.resolve.dependencies import base_name, bits
from stackgen.resolve.diagram import DEAD, Diagram, Node, restricted, scope_of, undisturbed
from stackgen.resolve.walks import (
    ABSENT,
    Assignment,
    StackOrder,
    Tree,
    Trees,
    newest,
    sliced,
    versions_used,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Slice:
    """One choice of the varied packages.

    versions: of the varied packages that this choice contains, in the order they were named.
    absent: the varied packages that this choice does without.
    varied: all of them, in the order they were named.
    completions: how many stacks hold exactly these versions.
    newest: the one of them that takes the newest version at each decision; see
        `Space.complete`.
    """

    versions: tuple[tuple[str, str], ...]
    completions: int
    absent: tuple[str, ...] = ()
    varied: tuple[str, ...] = field(default=(), compare=False, repr=False)
    newest: Tree | None = field(default=None, compare=False, repr=False)


class Space:
    """Every valid stack. Stacks are never listed in memory: all walks go over the diagram.

    A stack is a `Lock`, or, where millions of them pass by, an assignment of bits (`walks`).
    """

    def __init__(self, universe: Universe, *, diagram: Diagram | None = None) -> None:
        """Compile a closure; a diagram that is given is taken as compiled from it."""
        self.universe = universe
        self._diagram = diagram or compile_universe(universe)

    @property
    def count(self) -> int:
        """Return the number of stacks; a lower bound where the space is not exact."""
        return self._diagram.root.count

    @property
    def exact(self) -> bool:
        """Return whether every valid stack is part of the space."""
        return not self.version_limit

    @property
    def version_limit(self) -> int:
        """Return how many of the newest versions of each package a cut space holds, 0 for all."""
        return self._diagram.version_limit

    @property
    def packages(self) -> tuple[str, ...]:
        """Return the packages of the closure, extras left out, in the order of decision."""
        names = self._diagram.packages
        return tuple(name for name in names if "[" not in name and not is_role(name))

    @property
    def nodes(self) -> int:
        """Return the size of the compiled diagram."""
        return self._diagram.nodes

    def within(
        self, allowed: Mapping[str, Container[str]], *, present: Collection[str] = ()
    ) -> "Space":
        """Return the part of the space with only some versions.

        allowed: by package, the only versions that may be taken.
        present: packages that a stack must contain, required or not.
        """
        if not allowed and not present:
            return self
        wanted = sum(1 << self._ranks[name] for name in present if name in self._ranks)
        with undisturbed(len(self._diagram.packages)):
            root = restricted(self._diagram.root, self._masks(allowed), wanted)
        if any(name not in self._ranks for name in present):
            root = DEAD
        return Space(self.universe, diagram=replace(self._diagram, root=root))

    def newest(
        self,
        allowed: Mapping[str, Container[str]] | None = None,
        *,
        preferred: Mapping[str, str] | None = None,
    ) -> Lock | None:
        """Return the stack that takes the newest version at each decision, or None.

        Packages are decided dependents first (see ``packages``); this is the completion "newest".

        allowed: as of ``within``.
        preferred: by package, the version to take before the newest one where it is open.
        """
        if allowed:
            return self.within(allowed).newest(preferred=preferred)
        wanted = self._masks({name: (v,) for name, v in (preferred or {}).items()})
        found = newest(self._diagram.root, len(self._diagram.packages), wanted)
        return None if found is None else self.lock(found)

    def complete(
        self,
        choice: Slice,
        allowed: Mapping[str, Container[str]] | None = None,
        *,
        preferred: Mapping[str, str] | None = None,
    ) -> Lock | None:
        """Return the newest completion of a choice of the varied packages, or None.

        choice: as ``slices`` returns it; without ``allowed`` there always is a completion.
        allowed: by package, the only versions that other packages may take.
        preferred: as of ``newest``.
        """
        if choice.newest is not None and not allowed and not preferred:
            return self.lock(self._trees.assignment(choice.newest))
        return self.of(choice).newest(allowed, preferred=preferred)

    def of(self, choice: Slice) -> "Space":
        """Return the part of the space that holds exactly this choice."""
        absent: dict[str, Container[str]] = dict.fromkeys(choice.absent, ())
        chosen = {name: (version,) for name, version in choice.versions}
        return self.within({**absent, **chosen}, present=tuple(chosen))

    def slices(self, varied: Sequence[str]) -> tuple[Slice, ...]:
        """Return every feasible choice of the varied packages, in one pass over the diagram.

        Order: by the newest version of the first package, then of the second, and so on.
        """
        names = [name for name in varied if name in self._ranks]
        ranks = [self._ranks[name] for name in names]
        with undisturbed(len(self._diagram.packages)):
            rows = sliced(self._diagram.root, ranks)
        labels = [[each.label for each in self.universe.releases[name]] for name in names]
        return tuple(
            Slice(
                versions=tuple(
                    (name, of[bit])
                    for name, of, bit in zip(names, labels, bits, strict=True)
                    if bit != ABSENT
                ),
                absent=tuple(name for name, bit in zip(names, bits, strict=True) if bit == ABSENT),
                completions=count,
                varied=tuple(names),
                newest=best,
            )
            for bits, count, best in rows
        )

    def sample(self, seed: int, n: int) -> Iterator[Lock]:
        """Yield n stacks drawn uniformly, with repetition, from the whole space."""
        return map(self.lock, self.draw(random.Random(seed), n))  # noqa: S311

    def draw(self, generator: random.Random, n: int) -> Iterator[Assignment]:
        """Yield n assignments drawn uniformly, with repetition, from the whole space."""
        for _ in range(n if self.count else 0):
            yield self._order.unrank(generator.randrange(self.count))

    def unrank(self, index: int) -> Lock:
        """Return the stack of that number in the order of ``stacks``, 0 <= index < count."""
        if not 0 <= index < self.count:
            raise IndexError(index)
        return self.lock(self._order.unrank(index))

    def stacks(self) -> Iterator[Lock]:
        """Yield every stack, newest first in the order of decision."""
        return map(self.lock, self.assignments())

    def assignments(self) -> Iterator[Assignment]:
        """Yield every stack in the same order, many times faster."""
        return iter(self._order)

    def lock(self, assignment: Assignment) -> Lock:
        """Return the stack that an assignment stands for."""
        chosen = {
            base_name(name): self.universe.releases[name][bit].artifact
            for name, bit in zip(self._diagram.packages, assignment, strict=True)
            if bit != ABSENT and not is_role(name)
        }
        return Lock(artifacts=tuple(chosen[name] for name in sorted(chosen)))

    def versions(self, package: str) -> tuple[str, ...]:
        """Return the versions of a package that are part of any stack, newest first."""
        mask = self._used.get(self._ranks.get(package, ABSENT), 0)
        releases = self.universe.releases.get(package, ())
        return tuple(releases[bit].label for bit in bits(mask))

    @cached_property
    def _ranks(self) -> Mapping[str, int]:
        names = enumerate(self._diagram.packages)
        return {name: rank for rank, name in names if not is_role(name)}

    @cached_property
    def _used(self) -> Mapping[int, int]:
        scopes: dict[Node, int] = {}
        with undisturbed(len(self._diagram.packages)):
            scope_of(self._diagram.root, scopes)
        return versions_used(scopes, range(len(self._diagram.packages)))

    @cached_property
    def _order(self) -> StackOrder:
        return StackOrder(self._diagram.root, len(self._diagram.packages))

    @cached_property
    def _trees(self) -> Trees:
        return Trees(len(self._diagram.packages))

    def _masks(self, allowed: Mapping[str, Container[str]]) -> Mapping[int, int]:
        return {
            self._ranks[name]: sum(
                1 << bit
                for bit, release in enumerate(self.universe.releases[name])
                if release.label in versions
            )
            for name, versions in allowed.items()
            if name in self._ranks
        }
