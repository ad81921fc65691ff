"""A smallest conflict of an empty space.

What conflicts are facts: that the user requires a package, and that a package requires another.
A smallest set of facts that already conflicts is found by leaving facts out of the compiled masks.
"""

from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from stackgen.resolve.closure import Universe
from stackgen.resolve.dependencies import Dependency
from stackgen.resolve.masks import Masks, admitted_releases, compile_masks
from stackgen.resolve.search import newest_stack

_T = TypeVar("_T")
_Fact = tuple[int, int]
"""A package and one that it requires, as ranks; or _USER and what the user requires; or _LIMIT and
the number of a constraint."""
_USER, _LIMIT = -1, -2


@dataclass(frozen=True, slots=True)
class Core:
    """A smallest conflict: without any one of its facts there would be a stack.

    roots: packages that the user requires.
    edges: (package, package that it requires).
    limits: constraints.
    """

    roots: tuple[str, ...]
    edges: tuple[tuple[str, str], ...]
    limits: tuple[Dependency, ...] = ()


def conflict_core(universe: Universe) -> Core:
    """Return a smallest conflict of an empty space.

    Args:
        universe: the closure, not pruned: what was left out of it can be no part of the answer.

    Raises:
        ResolutionError: whether a part conflicts could not be found out.
    """
    masks = compile_masks(universe)
    names = masks.packages
    roots: list[_Fact] = [(_USER, rank) for rank, _ in masks.roots]
    limits: list[_Fact] = [(_LIMIT, place) for place in range(len(universe.limits))]
    edges = {
        (rank, needed)
        for rank, groups in enumerate(masks.groups)
        for needs, _ in groups
        for needed, _ in needs
    }
    limiting = _limiting(universe, masks)

    def conflicting(facts: Sequence[_Fact]) -> bool:
        return newest_stack(_only(masks, frozenset(facts), limiting)) is None

    kept = smallest([*roots, *sorted(edges), *limits], conflicting)
    return Core(
        roots=tuple(names[needed] for by, needed in kept if by == _USER),
        edges=tuple((names[by], names[needed]) for by, needed in kept if by >= 0),
        limits=tuple(universe.limits[place] for by, place in kept if by == _LIMIT),
    )


def _limiting(universe: Universe, masks: Masks) -> Sequence[tuple[int, int] | None]:
    """Return, by constraint, the package that it limits and the mask that it leaves."""
    return [
        (
            masks.ranks[each.package],
            admitted_releases(each.specifier, universe.releases[each.package]),
        )
        if each.package in masks.ranks
        else None
        for each in universe.limits
    ]


def _only(
    masks: Masks, facts: Container[_Fact], limiting: Sequence[tuple[int, int] | None]
) -> Masks:
    """Return the masks in which only some facts hold."""
    groups = tuple(
        tuple(
            (tuple(pair for pair in needs if (rank, pair[0]) in facts), versions)
            for needs, versions in each
        )
        for rank, each in enumerate(masks.groups)
    )
    allowed: dict[int, int] = {}
    for place, limit in enumerate(limiting):
        if limit is not None and (_LIMIT, place) in facts:
            allowed[limit[0]] = allowed.get(limit[0], -1) & limit[1]
    roots = tuple(root for root in masks.roots if (_USER, root[0]) in facts)
    return replace(masks, roots=roots, groups=groups).within(allowed)


def smallest(facts: Sequence[_T], conflicting: Callable[[Sequence[_T]], bool]) -> tuple[_T, ...]:
    """Return a smallest conflicting part of facts that conflict; early facts are kept rather.

    It takes about k log(n/k) tries for a conflict of k among n facts.
    Source: U. Junker, QuickXplain, AAAI 2004.
    """

    def explain(known: list[_T], fresh: bool, open_facts: Sequence[_T]) -> list[_T]:
        if fresh and conflicting(known):
            return []
        if len(open_facts) <= 1:
            return list(open_facts)
        middle = len(open_facts) // 2
        first, second = open_facts[:middle], open_facts[middle:]
        later = explain([*known, *first], bool(first), second)
        earlier = explain([*known, *later], bool(later), first)
        return [*earlier, *later]

    return tuple(explain([], False, facts))
