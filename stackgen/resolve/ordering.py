"""The order in which packages are decided: dependents before what they depend on."""

from collections import Counter
from collections.abc import Mapping, Sequence

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
