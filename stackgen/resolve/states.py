"""What is left to decide, and what follows from deciding it: the steps that every search takes."""

import gc
import sys
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager

from stackgen.resolve.masks import Masks

State = tuple[tuple[int, int], ...]
"""Pairs of (package, mask of its versions still allowed), sorted: all that the past means for the
future, so equal states have equal futures. A package is its rank; ``~rank`` where it is decided
already, with the class of its version (`Masks.classes`); that is kept only while a package of its
own cycle can still exclude it."""


class Steps:
    """The moves over states of one compiled closure."""

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
        apart = []
        for each in rest:
            if each[0] & touched:
                touched |= each[0]
                found.append(each[1])
            else:
                apart.append(each)
        if len(apart) == len(rest):
            break
        rest = apart
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
