"""Which stacks are looked at where there are too many: stratified samples and pairwise covers."""

import random
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import combinations

from stackgen.errors import UsageError
from stackgen.resolve.space import Slice, Space
from stackgen.values import Lock

MOST_COVERED = 100_000
"""Of more choices than this no cover is searched."""

_TRIED = 64
_Row = tuple[str, ...]
_Pair = tuple[int, str, int, str]


def stratified(
    space: Space, slices: Sequence[Slice], *, seed: int, n: int, newest: bool = True
) -> Iterator[tuple[Slice, Lock]]:
    """Yield n stacks that spread over the versions of the varied packages.

    The first varied package takes each of its feasible versions equally often while it has choices
    left, the next one each that this leaves open, and so on; plain uniform sampling would hardly
    ever leave the few versions that most stacks have. No choice comes twice before each has come
    once, so a long sample holds them all.

    Args:
        space: where the choices are from.
        slices: the feasible choices of the varied packages.
        seed: equal seeds draw equal stacks.
        n: how many.
        newest: take the newest completion of each choice; otherwise a uniformly drawn one.
    """
    generator = random.Random(seed)  # noqa: S311
    rows = [_row(each) for each in slices]
    left: set[int] = set()
    for _ in range(n if slices else 0):
        left = left or set(range(len(slices)))
        place = _drawn(rows, sorted(left), generator)
        left.remove(place)
        choice = slices[place]
        if newest:
            lock = space.complete(choice)
        else:
            lock = next(space.of(choice).sample(generator.getrandbits(64), 1))
        if lock is not None:
            yield choice, lock


def _drawn(rows: Sequence[_Row], places: Sequence[int], generator: random.Random) -> int:
    """Draw the version of each package in turn from those that are open."""
    for depth in range(len(rows[0])):
        groups: dict[str, list[int]] = {}
        for place in places:
            groups.setdefault(rows[place][depth], []).append(place)
        places = groups[generator.choice(list(groups))]
    return places[0]


def pairwise_cover(slices: Sequence[Slice]) -> tuple[Slice, ...]:
    """Return few choices that hold every feasible pair of versions of two varied packages.

    Greedy, in the order given: the first pair that is missing is covered by the choice (of a few
    that hold it) with the most missing pairs.

    Raises:
        UsageError: there are too many choices.
    """
    if len(slices) > MOST_COVERED:
        raise UsageError(
            "there are too many choices to cover all pairs",
            why=f"{len(slices):,} choices are feasible, {MOST_COVERED:,} at most are covered",
            fix="vary fewer packages, or give --granularity minor",
        )
    pairs = [_pairs(_row(each)) for each in slices]
    holders: Mapping[_Pair, list[int]] = defaultdict(list)
    for place, held in enumerate(pairs):
        for pair in held:
            holders[pair].append(place)
    missing = set(holders)
    found = []
    for pair, places in holders.items():
        if pair in missing:
            best = _most(places[:: max(1, len(places) // _TRIED)], pairs, missing)
            missing -= pairs[best]
            found.append(slices[best])
    return tuple(found)


def _most(
    places: Sequence[int], pairs: Sequence[frozenset[_Pair]], missing: Collection[_Pair]
) -> int:
    return max(places, key=lambda place: len(pairs[place].intersection(missing)))


def _pairs(row: _Row) -> frozenset[_Pair]:
    """Return the pairs of versions that a choice holds; of one package alone, its version."""
    if len(row) == 1:
        return frozenset({(0, row[0], 0, row[0])})
    found = combinations(range(len(row)), 2)
    return frozenset((one, row[one], two, row[two]) for one, two in found)


def _row(choice: Slice) -> _Row:
    """Return the version of each varied package, in their order; "" where it is absent."""
    versions = dict(choice.versions)
    return tuple(versions.get(name, "") for name in choice.varied)
