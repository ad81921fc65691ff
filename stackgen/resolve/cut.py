"""Compile a space exactly, or, where that would be too wide, a stated part of it.

A part is cut out by leaving versions out, so each of its stacks is valid, its count is a lower
bound, and its newest stack is the newest of the whole space. Whether there is any stack at all is
always answered exactly.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from stackgen.resolve.bits import bits
from stackgen.resolve.diagram import DEAD, Diagram, TooWideError, compile_diagram
from stackgen.resolve.masks import Masks
from stackgen.resolve.search import Assignment, newest_stack

NODE_LIMIT = 50_000
"""More nodes than this are not compiled: some seconds and 200 MB."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Compiled:
    """A diagram, and how much of the space it holds.

    kept: 0 where it holds all; otherwise so many of the newest versions of each package, and
        further ones as far as each version of what the user asked for needs them.
    """

    diagram: Diagram
    kept: int = 0


def compile_space(masks: Masks, *, limit: int = NODE_LIMIT) -> Compiled:
    """Compile all of a space, or the largest of the parts that fit into so many nodes.

    Raises:
        ResolutionError: whether it holds any stack could not be found out.
    """
    try:
        return Compiled(diagram=compile_diagram(masks, limit=limit))
    except TooWideError:
        best = newest_stack(masks)
    if best is None:
        return Compiled(diagram=Diagram(packages=masks.packages, root=DEAD, nodes=0))
    for witnesses in (tuple(_witnesses(masks)), (best,)):
        if found := _largest(masks, best, witnesses, limit):
            return found
    only = masks.within(_allowed(masks, best, (best,), kept=0))
    return Compiled(diagram=compile_diagram(only, limit=len(masks.packages)), kept=1)


def _witnesses(masks: Masks) -> Iterator[Assignment]:
    """Yield the newest stack of each version of what is required from outside."""
    for rank, mask in masks.roots:
        for bit in bits(mask & ~masks.fallbacks[rank] or mask if masks.fallbacks else mask):
            found = newest_stack(masks.within({rank: 1 << bit}))
            if found is not None:
                yield found


def _largest(
    masks: Masks, best: Assignment, witnesses: Iterable[Assignment], limit: int
) -> Compiled | None:
    """Return the part with the most versions, doubled until it is too wide."""
    found, kept = None, 1
    most = max(mask.bit_length() for groups in masks.groups for _, mask in groups)
    # What is newer than the newest stack stays out, so this may end with a part that fits.
    while found is None or found.kept < most:
        part = masks.within(_allowed(masks, best, witnesses, kept=kept))
        try:
            found = Compiled(diagram=compile_diagram(part, limit=limit), kept=kept)
        except TooWideError:
            return found
        kept *= 2
    return found


def _allowed(
    masks: Masks, best: Assignment, witnesses: Iterable[Assignment], *, kept: int
) -> Mapping[int, int]:
    """Return the versions of each package that stay: those of witnesses, and so many newest.

    The newest are counted from the version in the newest stack: what is newer than that is often
    in no stack at all.
    """
    newest = dict(best)
    fallbacks = masks.fallbacks or (0,) * len(masks.packages)
    # A fallback may be in the way of nothing but a final release that is cut away.
    allowed = {
        rank: ((1 << kept) - 1) << newest.get(rank, 0) & ~fallbacks[rank]
        for rank in range(len(masks.packages))
    }
    for witness in witnesses:
        for rank, bit in witness:
            allowed[rank] |= 1 << bit
    return allowed
