"""Is there any stack at all, and which is the newest? Answered without counting the space."""

from dataclasses import dataclass
from itertools import chain

from stackgen.errors import ResolutionError
from stackgen.resolve.bits import newest_bit
from stackgen.resolve.masks import Masks
from stackgen.resolve.states import State, Steps, undisturbed

STATE_LIMIT = 200_000
"""More states than this are not searched: a minute, and half a gigabyte."""

Assignment = tuple[tuple[int, int], ...]
"""Pairs of (package, bit of its version), in the order of decision."""


def newest_stack(masks: Masks) -> Assignment | None:
    """Return the stack that takes the newest version at each decision, or None where none is.

    Exact: what is given up was shown to lead nowhere. States that lead nowhere are remembered.

    Raises:
        ResolutionError: that would take more than STATE_LIMIT states.
    """
    search = _Search(masks)
    with undisturbed(len(masks.packages)):
        return search.run()


@dataclass(frozen=True, slots=True)
class _Found:
    """A partial stack, as a tree that shares what other partial stacks have in common."""

    package: int
    version: int
    rest: tuple["_Found", ...]


class _Search:
    def __init__(self, masks: Masks) -> None:
        self._steps = Steps(masks)
        self._known: dict[State, _Found | None] = {}

    def run(self) -> Assignment | None:
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
        for versions, following in chain.from_iterable(self._steps.rounds(state)):
            rest = self._all(self._steps.parts(following))
            if rest is not None:
                newest = newest_bit(versions)
                found = _Found(self._steps.next_package(state), newest, rest)
                break
        self._known[state] = found
        return found


def _flat(found: tuple[_Found, ...]) -> Assignment:
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
