"""Requirements and an index in, a space out: the core says what it needs, the index brings it."""

from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Executor, Future, ThreadPoolExecutor, wait
from contextlib import suppress
from itertools import islice
from typing import TypeVar

from packaging.requirements import Requirement

from stackgen.errors import ResolutionError
from stackgen.index import PackageIndex, artifact_key
from stackgen.pipeline.progress import Progress, Silent
from stackgen.resolve import (
    Closure,
    Need,
    Policy,
    Space,
    Universe,
    conflict,
    minimal_conflict,
    nothing_fits,
)
from stackgen.values import Artifact, Target

_PART, _PARTS_AT_ONCE = 64, 2
_T = TypeVar("_T")
_Handover = Callable[[Closure], None]

MOST_EXPLAINED = 8
"""With more requirements than this a minimal conflict is not searched: each costs a resolution."""


def resolve(
    index: PackageIndex,
    requirements: Sequence[Requirement],
    target: Target,
    *,
    policy: Policy | None = None,
    progress: Progress | None = None,
) -> Space:
    """Return the space of some requirements on a target; it holds one stack at least.

    Raises:
        ResolutionError: it would be empty; the error names the smallest conflict.
    """
    watcher = progress or Silent()
    universe = read_universe(index, requirements, target, policy=policy, progress=watcher)
    space = Space(universe)
    if space.count:
        return space
    error = nothing_fits(universe, target)
    if error is None:
        error = _conflict(index, requirements, target, policy, watcher)
    raise error


def read_universe(
    index: PackageIndex,
    requirements: Sequence[Requirement],
    target: Target,
    *,
    policy: Policy | None,
    progress: Progress,
) -> Universe:
    """Bring everything that the closure of some requirements needs."""
    closure = Closure(requirements, target, policy)
    with ThreadPoolExecutor(1 + _PARTS_AT_ONCE) as readers:
        reading = _Reading(index, readers, progress)
        while reading.begin(closure.need()):
            reading.give(closure)
    return closure.universe()


class _Reading:
    """Reads pages and metadata at the same time, so that no connection idles.

    The index holds the connections; one thread waits here for each part of the work.
    """

    def __init__(self, index: PackageIndex, readers: Executor, progress: Progress) -> None:
        self._index = index
        self._readers = readers
        self._progress = progress
        self._under_way: dict[Future[_Handover], tuple[object, ...]] = {}
        self._begun: set[object] = set()
        self._done = 0

    def begin(self, need: Need) -> bool:
        """Begin what is needed and not begun yet; return whether anything is under way."""
        names = [name for name in need.pages if name not in self._begun]
        if names and not any(isinstance(part[0], str) for part in self._under_way.values()):
            self._begun.update(names)
            self._begin(_read_pages, names)
        while len(self._under_way) <= _PARTS_AT_ONCE:
            new = (each for each in need.metadata if (each.name, each.version) not in self._begun)
            part = list(islice(new, _PART))
            if not part:
                break
            self._begun.update((each.name, each.version) for each in part)
            self._begin(_read_metadata, part)
        total = self._done + len(need.pages) + len(need.metadata)
        self._progress.doing("resolving: reading the index", done=self._done, total=total)
        return bool(self._under_way)

    def give(self, closure: Closure) -> None:
        """Wait until a part is read, and hand it on."""
        for future in wait(self._under_way, return_when=FIRST_COMPLETED).done:
            self._done += len(self._under_way.pop(future))
            future.result()(closure)

    def _begin(
        self, read: Callable[[PackageIndex, Sequence[_T]], _Handover], part: Sequence[_T]
    ) -> None:
        self._under_way[self._readers.submit(read, self._index, part)] = tuple(part)


def _read_pages(index: PackageIndex, names: Sequence[str]) -> _Handover:
    pages = index.candidates_many(names)
    return lambda closure: closure.give_pages(pages)


def _read_metadata(index: PackageIndex, artifacts: Sequence[Artifact]) -> _Handover:
    read = index.metadata_many(artifacts)
    keys = {each: artifact_key(each) for each in artifacts}
    found = {each: read[key] for each, key in keys.items() if key in read}
    defects = {
        each: index.defects.get(key, "it has none") for each, key in keys.items() if key not in read
    }
    return lambda closure: closure.give_metadata(found, defects)


def _conflict(
    index: PackageIndex,
    requirements: Sequence[Requirement],
    target: Target,
    policy: Policy | None,
    progress: Progress,
) -> ResolutionError:
    """Explain an empty space, by a minimal conflict where that can be found in reasonable time."""

    def satisfiable(parts: Sequence[Requirement]) -> bool:
        with suppress(ResolutionError):
            universe = read_universe(index, parts, target, policy=policy, progress=progress)
            return Space(universe).count > 0
        return False

    few = len(requirements) <= MOST_EXPLAINED
    parts = minimal_conflict(requirements, satisfiable) if few else tuple(requirements)
    universe = read_universe(index, parts, target, policy=policy, progress=progress)
    return conflict(parts, universe)
