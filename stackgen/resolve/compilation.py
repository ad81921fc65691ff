"""From a closure to its decision diagram.

Where the diagram of the whole space would be too wide, a stated part of the space is compiled: of
each package the newest versions, and the older ones that some version of the user's own packages
needs (`compile_space`).

Each way to fill roles (``tensorflow|tensorflow-cpu``) is a closure and a diagram of its own, in
which the other packages of the role have no versions; so no stack is counted twice. The closures
are merged into one (`merge_closures`), the diagrams are joined by a first decision
(`compile_universe`).
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from stackgen.model.packages import Exclusion, Release
from stackgen.resolve.closure import Filled, Universe
from stackgen.resolve.dependencies import Dependency, bits, parsed_version
from stackgen.resolve.diagram import (
    DEAD,
    Branch,
    Decisions,
    Diagram,
    Node,
    TooWideError,
    choice,
    compile_diagram,
    newest_stack,
)
from stackgen.resolve.masks import Masks, compile_masks
from stackgen.resolve.requirements import Combination, Requirements

NODE_LIMIT = 50_000
"""More nodes than this are not compiled: some seconds and 200 MB."""


def compile_space(masks: Masks, *, limit: int = NODE_LIMIT) -> Diagram:
    """Compile all of a space, or the largest of the parts that fit into so many nodes.

    Raises:
        ResolutionError: whether it holds any stack could not be found out.
    """
    try:
        return compile_diagram(masks, limit=limit)
    except TooWideError:
        best = newest_stack(masks)
    if best is None:
        return Diagram(packages=masks.packages, root=DEAD, nodes=0)
    for witnesses in (tuple(_witnesses(masks)), (best,)):
        if found := _largest(masks, best, witnesses, limit):
            return found
    only = masks.within(_allowed(masks, best, (best,), version_limit=0))
    return replace(compile_diagram(only, limit=len(masks.packages)), version_limit=1)


def _witnesses(masks: Masks) -> Iterator[Decisions]:
    """Yield the newest stack of each version of what is required from outside."""
    for rank, mask in masks.roots:
        for bit in bits(mask & ~masks.fallbacks[rank] or mask if masks.fallbacks else mask):
            found = newest_stack(masks.within({rank: 1 << bit}))
            if found is not None:
                yield found


def _largest(
    masks: Masks, best: Decisions, witnesses: Iterable[Decisions], limit: int
) -> Diagram | None:
    """Return the part with the most versions, doubled until it is too wide."""
    found, version_limit = None, 1
    most = max(mask.bit_length() for groups in masks.groups for _, mask in groups)
    # What is newer than the newest stack stays out, so this may end with a part that fits.
    while found is None or found.version_limit < most:
        part = masks.within(_allowed(masks, best, witnesses, version_limit=version_limit))
        try:
            found = replace(compile_diagram(part, limit=limit), version_limit=version_limit)
        except TooWideError:
            return found
        version_limit *= 2
    return found


def _allowed(
    masks: Masks, best: Decisions, witnesses: Iterable[Decisions], *, version_limit: int
) -> Mapping[int, int]:
    """Return the versions of each package that stay: those of witnesses, and so many newest.

    The newest are counted from the version in the newest stack: what is newer than that is often
    in no stack at all.
    """
    newest = dict(best)
    fallbacks = masks.fallbacks or (0,) * len(masks.packages)
    # A fallback may be in the way of nothing but a final release that is cut away.
    allowed = {
        rank: ((1 << version_limit) - 1) << newest.get(rank, 0) & ~fallbacks[rank]
        for rank in range(len(masks.packages))
    }
    for witness in witnesses:
        for rank, bit in witness:
            allowed[rank] |= 1 << bit
    return allowed


_Needed = tuple[Release, tuple[Dependency, ...]]


def is_role(name: str) -> bool:
    """Return whether this names a role and no package."""
    return "|" in name


def merge_closures(
    request: Requirements, parts: Sequence[tuple[Combination, Universe]]
) -> Universe:
    """Join the closures of all ways to fill the roles of a request."""
    if not request.alternatives:
        return parts[0][1]
    universes = [universe for _, universe in parts]
    names = sorted({name for each in universes for name in each.releases})
    found = {name: _merged_releases(name, universes) for name in names}
    return Universe(
        roots=tuple(dict.fromkeys(root for each in universes for root in each.roots)),
        releases={name: tuple(release for release, _ in pairs) for name, pairs in found.items()},
        needs={name: tuple(needs for _, needs in pairs) for name, pairs in found.items()},
        excluded=_merged_exclusions(parts),
        unknown=frozenset(name for each in universes for name in each.unknown),
        fitting=frozenset(name for each in universes for name in each.fitting),
        roles=tuple("|".join(each.name for each in role) for role in request.alternatives),
        prefers_final=any(universe.prefers_final for _, universe in parts),
        has_more=any(universe.has_more for _, universe in parts),
        filled=tuple(
            Filled(chosen=how.chosen, roots=universe.roots, barred=how.barred)
            for how, universe in parts
        ),
    )


def _merged_releases(name: str, universes: Iterable[Universe]) -> Sequence[_Needed]:
    """Return the releases of a package in any closure, newest first, the official ones first."""
    found: dict[str, _Needed] = {}
    for each in universes:
        for pair in zip(each.releases.get(name, ()), each.needs.get(name, ()), strict=True):
            found.setdefault(pair[0].label, pair)
    official_last = sorted(found.values(), key=lambda pair: pair[0].label == pair[0].version)
    return sorted(official_last, key=lambda pair: parsed_version(pair[0].version))[::-1]


def _merged_exclusions(
    parts: Sequence[tuple[Combination, Universe]],
) -> Mapping[str, tuple[Exclusion, ...]]:
    """Return why versions are left out, by the closures in which their package is not barred."""
    found: dict[str, tuple[Exclusion, ...]] = {}
    for how, universe in parts:
        for name, excluded in universe.excluded.items():
            if name not in how.barred:
                found.setdefault(name, excluded)
    return found


def compile_universe(universe: Universe) -> Diagram:
    """Compile a closure, roles included.

    Raises:
        ResolutionError: whether it holds any stack could not be found out.
    """
    if not universe.roles:
        return compile_space(compile_masks(universe))
    every = tuple(dict.fromkeys(root for each in universe.filled for root in each.roots))
    parts = [(each.chosen, _compiled(universe, each, every)) for each in universe.filled]
    packages = parts[0][1].packages
    cut = [part.version_limit for _, part in parts if part.version_limit]
    return Diagram(
        packages=(*packages, *universe.roles),
        root=_joined([(chosen, part.root) for chosen, part in parts], len(packages)),
        nodes=sum(part.nodes for _, part in parts),
        version_limit=min(cut, default=0),
    )


def _compiled(universe: Universe, filled: Filled, every: Sequence[Dependency]) -> Diagram:
    masks = compile_masks(universe, roots=filled.roots, ordered_for=every)
    barred = {masks.ranks[name]: 0 for name in filled.barred if name in masks.ranks}
    return compile_space(masks.within(barred))


def _joined(parts: Sequence[tuple[tuple[int, ...], Node]], package: int) -> Node:
    """Join diagrams by decisions on the first of their roles, then on the next."""
    if not parts[0][0]:
        return parts[0][1]
    below: dict[int, list[tuple[tuple[int, ...], Node]]] = {}
    for (first, *others), node in parts:
        below.setdefault(first, []).append((tuple(others), node))
    nodes = {first: _joined(found, package + 1) for first, found in below.items()}
    branches = [Branch(1 << first, node) for first, node in sorted(nodes.items()) if node.count]
    return choice(package, branches) if branches else DEAD
