"""A closure as integers: versions are bits, dependencies are masks of the versions that will do.

Everything that searches, counts or explains works on these masks alone.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from stackgen.model.packages import Release
from stackgen.resolve.closure import Universe
from stackgen.resolve.dependencies import Dependency, Versions, parsed_version, plain_url

Part = tuple[str, ...]
"""Packages that depend on each other in a circle; mostly just one package."""


def decision_order(edges: Mapping[str, Sequence[str]], roots: Sequence[str]) -> tuple[Part, ...]:
    """Return what the roots reach as strongly connected components, dependents first.

    Of the components whose dependents are all decided, the next is the one after which the fewest
    packages wait: it opens few new ones, and settles many. Ties are broken by name, so that equal
    spaces compile equally. On transformers[torch] this order needs a third of the nodes that the
    order of names does.
    """
    parts = _components(edges, roots)
    of = {package: part for part in parts for package in part}
    after = {
        part: {of[child] for package in part for child in edges.get(package, ())} - {part}
        for part in parts
    }
    undecided = Counter(child for children in after.values() for child in children)
    ready = [part for part in parts if not undecided[part]]
    open_parts = {of[root] for root in roots}

    def growth(part: Part) -> tuple[int, Part]:
        opened = len(after[part] - open_parts)
        return opened - sum(undecided[child] == 1 for child in after[part]), part

    order = []
    while ready:
        chosen = min(ready, key=growth)
        ready.remove(chosen)
        order.append(chosen)
        open_parts |= after[chosen]
        undecided.subtract(after[chosen])
        ready += [child for child in after[chosen] if not undecided[child]]
    return tuple(order)


def reached(edges: Mapping[str, Sequence[str]], starts: Sequence[str]) -> set[str]:
    """Return what some packages require, themselves included, however indirectly."""
    found, todo = set(starts), list(starts)
    while todo:
        fresh = set(edges.get(todo.pop(), ())) - found
        found |= fresh
        todo += fresh
    return found


def _components(edges: Mapping[str, Sequence[str]], roots: Sequence[str]) -> tuple[Part, ...]:
    """Return the strongly connected components, in the order of their first names.

    What the user named stands first in its component, then names decide.
    """
    reach = {package: reached(edges, [package]) for package in sorted(reached(edges, roots))}
    found: dict[str, Part] = {}
    for package, others in reach.items():
        together = [other for other in others if package in reach[other]]
        together.sort(key=lambda name: (roots.index(name) if name in roots else len(roots), name))
        found.setdefault(min(together), tuple(together))
    return tuple(found.values())


Needs = tuple[tuple[int, int], ...]
"""Pairs of (package, mask of its versions that will do), packages as ranks, sorted."""


@dataclass(frozen=True, kw_only=True)
class Masks:
    """What must hold between the versions of packages; packages are ranks in decision order.

    packages: names (extras as ``name[extra]``), in the order in which they are decided.
    roots: what is required from outside.
    groups: by package, (needs, mask of the versions that need just this); the lowest bit of a
        mask is the newest version.
    cyclic: the mask of packages that depend on themselves through others.
    fallbacks: by package, the versions that are taken only where no other completes what was
        decided before; none where it is empty.
    """

    packages: tuple[str, ...]
    roots: Needs
    groups: tuple[tuple[tuple[Needs, int], ...], ...]
    cyclic: int
    fallbacks: tuple[int, ...] = ()

    @cached_property
    def ranks(self) -> Mapping[str, int]:
        """Return the rank of each package."""
        return {package: rank for rank, package in enumerate(self.packages)}

    @cached_property
    def reach(self) -> tuple[int, ...]:
        """Return, by package, the mask of all that it can require, itself included."""
        children = [{n for needs, _ in groups for n, _ in needs} for groups in self.groups]
        found = [1 << rank for rank in range(len(self.packages))]
        changed = True
        while changed:  # mostly twice: what is required comes later, but for cycles
            changed = False
            for rank in reversed(range(len(self.packages))):
                union = found[rank]
                for child in children[rank]:
                    union |= found[child]
                changed |= union != found[rank]
                found[rank] = union
        return tuple(found)

    @cached_property
    def classes(self) -> Mapping[int, tuple[int, ...]]:
        """Return, by package of a cycle, its versions in classes, as masks.

        Versions of one class are admitted or refused together by every package of a cycle, so it
        is enough to remember the class of a version that was decided.
        """
        tested: dict[int, set[int]] = {
            rank: set() for rank in range(len(self.packages)) if self.cyclic >> rank & 1
        }
        for rank in tested:
            for needs, _ in self.groups[rank]:
                for needed, mask in needs:
                    if needed in tested:
                        tested[needed].add(mask)
        return {rank: _classes(masks) for rank, masks in tested.items()}

    def within(self, allowed: Mapping[int, int]) -> "Masks":
        """Return the same with fewer versions: by rank, the mask of those that stay."""
        return replace(
            self,
            roots=_narrowed(self.roots, allowed),
            groups=tuple(
                tuple((_narrowed(needs, allowed), versions) for needs, versions in each)
                for each in self.groups
            ),
        )


def _classes(masks: Iterable[int]) -> tuple[int, ...]:
    """Return the coarsest partition of all versions that each mask is a union of."""
    found = [-1]  # the last class holds all that no mask names
    for mask in masks:
        parts = ((each & mask, each & ~mask) for each in found)
        found = [part for pair in parts for part in pair if part]
    return tuple(found)


def compile_masks(
    universe: Universe, *, roots: Sequence[Dependency] = (), ordered_for: Sequence[Dependency] = ()
) -> Masks:
    """Compile a closure.

    roots: what to require in place of the universe's own roots.
    ordered_for: what decides the order of the packages, where that is not the roots.
    """
    own = tuple(roots or universe.roots)
    return _Compiler(universe).compile(own, tuple(ordered_for or own))


class _Compiler:
    def __init__(self, universe: Universe) -> None:
        self._universe = universe
        self._masks: dict[Dependency, int] = {}
        self._versions: dict[str, Versions] = {}

    def compile(self, roots: Sequence[Dependency], ordered_for: Sequence[Dependency]) -> Masks:
        edges = {
            package: sorted({each.package for needs in set(per_release) for each in needs})
            for package, per_release in self._universe.needs.items()
        }
        parts = decision_order(edges, [root.package for root in ordered_for])
        packages = tuple(package for part in parts for package in part)
        ranks = {package: rank for rank, package in enumerate(packages)}
        return Masks(
            packages=packages,
            roots=self._joined(roots, ranks),
            groups=tuple(self._grouped(package, ranks) for package in packages),
            cyclic=sum(1 << ranks[package] for part in parts if len(part) > 1 for package in part),
            fallbacks=tuple(map(self._fallbacks, packages)) if self._universe.prefers_final else (),
        )

    def _fallbacks(self, package: str) -> int:
        """Return the prereleases of a package that has a final release as well."""
        releases = self._universe.releases.get(package, ())
        early = [parsed_version(each.version).is_prerelease for each in releases]
        return 0 if all(early) else sum(1 << bit for bit, is_early in enumerate(early) if is_early)

    def _grouped(self, package: str, ranks: Mapping[str, int]) -> tuple[tuple[Needs, int], ...]:
        """Return (what is needed, versions that need just this), newest group first."""
        groups: dict[tuple[Dependency, ...], int] = defaultdict(int)
        for bit, needs in enumerate(self._universe.needs.get(package, ())):
            groups[needs] |= 1 << bit
        joined: dict[Needs, int] = defaultdict(int)
        for needs, versions in groups.items():
            joined[self._joined(needs, ranks)] |= versions
        return tuple(joined.items())

    def _joined(self, needs: Sequence[Dependency], ranks: Mapping[str, int]) -> Needs:
        """Return dependencies as masks, several of one package joined to one."""
        masks: dict[int, int] = {}
        for each in needs:
            rank = ranks[each.package]
            masks[rank] = masks.get(rank, -1) & self._mask(each)
        return tuple(sorted(masks.items()))

    def _mask(self, dependency: Dependency) -> int:
        if dependency not in self._masks:
            package = dependency.package
            releases = self._universe.releases.get(package, ())
            if package not in self._versions:
                self._versions[package] = Versions([release.version for release in releases])
            self._masks[dependency] = admitted_releases(
                dependency.specifier, releases, self._versions[package]
            )
        return self._masks[dependency]


def admitted_releases(
    specifier: str, releases: Sequence[Release], versions: Versions | None = None
) -> int:
    """Return which releases a dependency admits: by version, by address, or this very release.

    releases: of one package, newest first.
    versions: the same, where many specifiers are applied to them.
    """
    if specifier.startswith("@"):
        urls = [plain_url(release.artifact.url) for release in releases]
        return sum(1 << bit for bit, url in enumerate(urls) if url == specifier[2:])
    admitted = (versions or Versions([release.version for release in releases])).mask(specifier)
    if not specifier.startswith("==="):
        return admitted
    # Mostly an extra, which needs this very release: never one of the same version elsewhere.
    labels = [(release.label, release.version) for release in releases]
    named = sum(1 << bit for bit, (label, _) in enumerate(labels) if label == specifier[3:])
    return named or admitted & sum(1 << bit for bit, (la, ve) in enumerate(labels) if la == ve)


def _narrowed(needs: Needs, allowed: Mapping[int, int]) -> Needs:
    return tuple((rank, mask & allowed.get(rank, -1)) for rank, mask in needs)
