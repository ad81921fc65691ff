"""Bring a closure what it needs: the core says what is missing, the index brings it."""

from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Executor, Future, ThreadPoolExecutor, wait
from dataclasses import replace
from itertools import islice
from typing import TypeVar

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from stackgen.index import PackageIndex, artifact_key
from stackgen.pipeline.progress import Progress
from stackgen.resolve import Closure, Combination, Need, Request, Universe, merged
from stackgen.values import Artifact, Target

_PART, _PARTS_AT_ONCE = 64, 2
_T = TypeVar("_T")
_Handover = Callable[[Closure], None]


def read_universe(
    index: PackageIndex,
    request: Request,
    target: Target,
    *,
    progress: Progress,
    pruned: bool = True,
    all_prereleases: bool = False,
) -> Universe:
    """Bring everything that the closure of a request needs.

    Args:
        index: what there is.
        request: what stacks must satisfy.
        target: where they are installed.
        progress: told how far it is.
        pruned: leave out what can be part of no stack; an explanation needs that, too.
        all_prereleases: look also at those that no requirement needs.

    Raises:
        ResolutionError: the user requires a package that no index has.
        IndexUnavailableError: an index cannot be asked.
    """
    parts = [
        (
            each,
            read_combination(
                index,
                each,
                target,
                progress=progress,
                pruned=pruned,
                all_prereleases=all_prereleases,
            ),
        )
        for each in request.combinations()
    ]
    return merged(request, parts)


def read_combination(
    index: PackageIndex,
    how: Combination,
    target: Target,
    *,
    progress: Progress,
    pruned: bool = True,
    all_prereleases: bool = False,
) -> Universe:
    """Bring everything that the closure of a request needs, its roles filled in one way."""
    wanted, direct = _located(index, how.request)
    closure = Closure(
        wanted, target, barred=how.barred, pruned=pruned, all_prereleases=all_prereleases
    )
    _complete(index, closure, direct, progress)
    return closure.universe()


def _located(index: PackageIndex, request: Request) -> tuple[Request, Mapping[str, Artifact]]:
    """Return a request whose addresses are spelled as the index does, and the files there."""
    found: dict[str, Artifact] = {}

    def located(each: Requirement) -> Requirement:
        if not each.url:
            return each
        name = canonicalize_name(each.name)
        found[name] = index.direct(each)
        spelled = Requirement(str(each))
        spelled.url = found[name].url
        return spelled

    wanted = replace(
        request,
        requirements=tuple(map(located, request.requirements)),
        overrides=tuple(map(located, request.overrides)),
    )
    return wanted, found


def _complete(
    index: PackageIndex, closure: Closure, direct: Mapping[str, Artifact], progress: Progress
) -> None:
    closure.give_pages({name: (artifact,) for name, artifact in direct.items()})
    with ThreadPoolExecutor(1 + _PARTS_AT_ONCE) as readers:
        reading = _Reading(index, readers, progress)
        try:
            while reading.begin(closure.need()):
                reading.give(closure)
        except KeyboardInterrupt:
            index.give_up()  # or the readers would go on to the end of their parts
            raise


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
            new = (each for each in need.metadata if artifact_key(each) not in self._begun)
            part = list(islice(new, _PART))
            if not part:
                break
            self._begun.update(artifact_key(each) for each in part)
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


def _read_pages(index: PackageIndex, names: Collection[str]) -> _Handover:
    pages = index.candidates_many(names)
    return lambda closure: closure.give_pages(pages)


def _read_metadata(index: PackageIndex, artifacts: Sequence[Artifact]) -> _Handover:
    read = index.metadata_many(artifacts)
    keys = {each: artifact_key(each) for each in artifacts}
    found = {each: read[key] for each, key in keys.items() if key in read}
    silent = "unreadable metadata: it has none"
    defects = {
        each: index.defects.get(key, silent) for each, key in keys.items() if key not in read
    }
    return lambda closure: closure.give_metadata(found, defects)
