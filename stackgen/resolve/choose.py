"""Which stacks of a space are explored, and in which order: newest first."""

import random
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import timedelta
from functools import lru_cache
from itertools import combinations

from stackgen.errors import UsageError
from stackgen.model.choices import Granularity
from stackgen.model.packages import Lock
from stackgen.resolve.candidates import moment
from stackgen.resolve.dependencies import parsed_version
from stackgen.resolve.space import Slice, Space


def newest_first(
    slices: Sequence[Slice], *, granularity: Granularity = Granularity.MINOR
) -> tuple[Slice, ...]:
    """Order the choices of the varied packages so that any first n of them are a fair start.

    The newest choice comes first. A choice is the later, the more steps back it takes: each
    package counts its steps among the versions that the packages before it leave open, so that
    every package is varied early and not just the last one.

    slices: every feasible choice, as ``Space.slices`` returns them (newest first).
    """
    steps = dict(_steps(slices, 0, 0, granularity is Granularity.PATCH))
    place = {each: number for number, each in enumerate(slices)}
    return tuple(sorted(steps, key=lambda each: (steps[each], place[each])))


def _steps(
    slices: Sequence[Slice], depth: int, back: int, patches: bool
) -> Iterable[tuple[Slice, int]]:
    """Yield each kept slice with the number of steps that it lies behind the newest one."""
    groups: dict[str, list[Slice]] = {}
    for each in slices:
        if depth >= len(each.varied):
            yield each, back
        else:
            groups.setdefault(_label(each, depth), []).append(each)
    for step, version in enumerate(groups if patches else _newest_patches(groups)):
        yield from _steps(groups[version], depth + 1, back + step, patches)


def _label(choice: Slice, depth: int) -> str:
    """Return the version of a varied package by its place; "" where it is absent."""
    if choice.absent:
        return dict(choice.versions).get(choice.varied[depth], "")
    return choice.versions[depth][1]


def _newest_patches(labels: Iterable[str]) -> tuple[str, ...]:
    """Return the first version of each minor release of each index, in the order given."""
    kept: dict[tuple[object, ...], str] = {}
    for label in labels:
        text, _, index = label.partition("@")
        version = parsed_version(text) if text else None
        minor = (version.epoch, version.release[:2], index) if version else ()
        kept.setdefault(minor, label)
    return tuple(kept.values())


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
    for place, covered in enumerate(pairs):
        for pair in covered:
            holders[pair].append(place)
    missing = set(holders)
    found = []
    for pair, places in holders.items():
        if pair in missing:
            tried = places[:: max(1, len(places) // _TRIED)]
            best = max(tried, key=lambda place: len(pairs[place] & missing))
            missing -= pairs[best]
            found.append(slices[best])
    return tuple(found)


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


_moment = lru_cache(maxsize=65536)(moment)
CONTEMPORARY = timedelta(days=365)
"""How much later than the varied release a contemporary of it may have been uploaded."""


def newest_working(
    space: Space,
    choice: Slice,
    failing: Lock,
    works: Callable[[Lock], bool],
    *,
    preferred: Mapping[str, str] | None = None,
) -> Lock | None:
    """Return a completion that works and holds back few packages, or None.

    It costs about 2 + log2(n) trials, n being the packages whose contemporary version is older
    than the newest one: is all of it old enough; which first packages, most suspicious first, must
    be old (bisected); is the last of these enough on its own.

    failing: the newest completion of the choice, known not to work.
    works: tries a stack; the dear part. What it raises ends the search.
    preferred: versions to keep where they are open (a user's lock).
    """
    allowed = _contemporary_versions(space, failing, choice)
    old = space.complete(choice, allowed, preferred=preferred) if allowed else None
    if old is None or old.id == failing.id or not works(old):
        return None
    suspects = _suspects(
        failing.versions, old.versions, varied={name for name, _ in choice.versions}
    )

    def holding(names: Sequence[str]) -> Lock | None:
        pins = {name: allowed[name] for name in names if name in allowed}
        return space.complete(choice, pins, preferred=preferred)

    best, low, high = old, 0, len(suspects)
    while high - low > 1:
        middle = (low + high) // 2
        lock = holding(suspects[:middle])
        if lock is not None and works(lock):
            best, high = lock, middle
        else:
            low = middle
    alone = holding(suspects[high - 1 : high])
    if alone is not None and alone.id not in (best.id, failing.id) and works(alone):
        return alone
    return best


def contemporary(
    space: Space, choice: Slice, *, preferred: Mapping[str, str] | None = None
) -> Lock | None:
    """Return the newest completion of what was uploaded at most a year after the varied release.

    None where there is none, or where the index does not state upload times.
    """
    newest = space.complete(choice, preferred=preferred)
    allowed = _contemporary_versions(space, newest, choice) if newest else {}
    return space.complete(choice, allowed, preferred=preferred) if allowed else None


def _contemporary_versions(space: Space, lock: Lock, choice: Slice) -> Mapping[str, frozenset[str]]:
    """Return, by package, the versions not newer than the varied release's time plus a year.

    Empty where the index does not state upload times. Versions without an upload time are kept;
    packages of which nothing would be left keep every version.
    """
    first = choice.versions[0][0] if choice.versions else ""
    uploaded = next((_moment(a.uploaded or "") for a in lock.artifacts if a.name == first), None)
    if uploaded is None:
        return {}
    found = {}
    for name, releases in space.universe.releases.items():
        pairs = [(each.label, _moment(each.artifact.uploaded or "")) for each in releases]
        kept = frozenset(
            label for label, time in pairs if time is None or time - uploaded <= CONTEMPORARY
        )
        if kept and "[" not in name:
            found[name] = kept
    return found


def _suspects(
    new: Mapping[str, str], old: Mapping[str, str], *, varied: set[str]
) -> tuple[str, ...]:
    """Return the packages that differ, those with a new major version first: they break most."""
    differ = [name for name in new if name in old and new[name] != old[name]]

    def rank(name: str) -> tuple[bool, str]:
        return parsed_version(new[name]).major == parsed_version(old[name]).major, name

    return tuple(sorted((name for name in differ if name not in varied), key=rank))
