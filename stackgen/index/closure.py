"""A request and an index in, a space out; or an explanation why it would be empty."""

import sys
import time
import zlib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Executor, Future, ThreadPoolExecutor, wait
from contextlib import suppress
from dataclasses import replace
from functools import cache
from hashlib import sha256
from itertools import islice
from pathlib import Path
from typing import TypeVar

import msgspec
from packaging.requirements import Requirement
from packaging.specifiers import Specifier
from packaging.utils import canonicalize_name

import packaging
from stackgen.errors import IndexUnavailableError, ResolutionError
from stackgen.index import PackageIndex, artifact_key
from stackgen.index.metadata import UNREADABLE
from stackgen.model.files import Files
from stackgen.model.packages import Artifact, Target
from stackgen.model.progress import NullProgress, Progress
from stackgen.resolve.closure import Closure, Need, Universe
from stackgen.resolve.compilation import merge_closures
from stackgen.resolve.explain import (
    Core,
    Relaxation,
    conflict,
    conflict_core,
    format_stack_count,
    nothing_fits,
    relaxations,
)
from stackgen.resolve.requirements import Combination, Requirements
from stackgen.resolve.space import Space

# Bring a closure what it needs: the core says what is missing, the index brings it

_PART, _PARTS_AT_ONCE = 64, 2
_T = TypeVar("_T")
_Handover = Callable[[Closure], None]


def read_universe(
    index: PackageIndex,
    request: Requirements,
    target: Target,
    *,
    progress: Progress,
    all_prereleases: bool = False,
) -> Universe:
    """Bring everything that the closure of a request needs.

    Args:
        index: what there is.
        request: what stacks must satisfy.
        target: where they are installed.
        progress: called with the state of the work.
        all_prereleases: look also at those that no requirement needs.

    Raises:
        ResolutionError: the user requires a package that no index has.
        IndexUnavailableError: an index cannot be read.
    """
    key = universe_key(request, target, all_prereleases=all_prereleases)
    if known := load_universe(index, key):
        return known
    combinations = request.combinations()
    parts = [
        _closure(index, each, target, progress=progress, all_prereleases=all_prereleases)
        for each in combinations
    ]
    try:
        universes = [each.universe() for each in parts]
    except ResolutionError as error:  # a folder of find-links that is missing may be the cause
        why = "; ".join((error.why, *index.notes))
        raise ResolutionError(error.what, why=why, fix=error.fix) from error
    found = merge_closures(request, list(zip(combinations, universes, strict=True)))
    store_universe(index, key, found, {name for each in parts for name in each.names})
    return found


def read_combination(
    index: PackageIndex,
    how: Combination,
    target: Target,
    *,
    progress: Progress,
    pruned: bool = True,
) -> Universe:
    """Bring everything that the closure of a request needs, its roles filled in one way.

    pruned: leave out what can be part of no stack; an explanation needs that, too.
    """
    return _closure(index, how, target, progress=progress, pruned=pruned).universe()


def _closure(
    index: PackageIndex,
    how: Combination,
    target: Target,
    *,
    progress: Progress,
    pruned: bool = True,
    all_prereleases: bool = False,
) -> Closure:
    wanted, direct = _located(index, how.request)
    closure = Closure(
        wanted, target, barred=how.barred, pruned=pruned, all_prereleases=all_prereleases
    )
    _complete(index, closure, direct, progress)
    return closure


def _located(
    index: PackageIndex, request: Requirements
) -> tuple[Requirements, Mapping[str, Artifact]]:
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
    silent = f"{UNREADABLE}: it has none"
    defects = {
        each: index.defects.get(key, silent) for each, key in keys.items() if key not in read
    }
    return lambda closure: closure.give_metadata(found, defects)


EXPLAINING_S = 30.0
"""After this many seconds no further way out of a conflict is tried."""

_SHOWN = 3
_EXPLAINED = 3


def resolve(
    index: PackageIndex,
    request: Requirements,
    target: Target,
    *,
    progress: Progress | None = None,
) -> Space:
    """Return the space of a request on a target; it holds one stack at least.

    Raises:
        ResolutionError: it would be empty; the error names a smallest conflict, and what would
            help.
        IndexUnavailableError: an index cannot be read.
    """
    watcher = progress or NullProgress()
    try:
        space = _space(index, request, target, watcher)
    except ResolutionError:  # no index had a package when its page was cached
        if not _appeared(index, request):
            raise
        space = _space(index, request, target, watcher)
    if not space.count and _appeared(index, request):
        space = _space(index, request, target, watcher)
    if space.count:
        return space
    raise nothing_fits(space.universe, request, target) or _explained(
        index, request, target, watcher
    )


def _space(index: PackageIndex, request: Requirements, target: Target, progress: Progress) -> Space:
    """Return the space, perhaps an empty one; if it is, with every prerelease looked at."""
    universe = read_universe(index, request, target, progress=progress)
    progress.doing("resolving: counting the stacks")
    space = Space(universe)
    if space.count or not universe.has_more:
        return space
    universe = read_universe(index, request, target, progress=progress, all_prereleases=True)
    progress.doing("resolving: counting the stacks with prereleases")
    return Space(universe)


def _appeared(index: PackageIndex, request: Requirements) -> bool:
    """Return whether the index has an exact version by now that cached pages lack.

    Cached pages count for minutes, and a release may be younger. Only such pages are requested.
    """
    unlisted = _unlisted(_exact(request), index.candidates_many)
    return bool(unlisted) and _unlisted(unlisted, index.renew) != unlisted


def _exact(request: Requirements) -> list[tuple[str, Specifier]]:
    """Return the packages of which a request admits one exact version, and which one."""
    roles = (each for role in request.alternatives for each in role)
    every = (*request.requirements, *roles, *request.constraints, *request.overrides)
    found = [(canonicalize_name(x.name), one) for x in every if not x.url for one in x.specifier]
    locked = [(canonicalize_name(x), Specifier(f"=={version}")) for x, version in request.locked]
    return [
        (name, one)
        for name, one in (*found, *locked)
        if one.operator == "===" or (one.operator == "==" and not one.version.endswith("*"))
    ]


def _unlisted(
    exact: Collection[tuple[str, Specifier]],
    read: Callable[[Collection[str]], Mapping[str, Files | None]],
) -> list[tuple[str, Specifier]]:
    """Return the exact versions of packages that pages do not list."""
    pages = read({name for name, _ in exact})
    listed = {name: files.coded("version").values if files else () for name, files in pages.items()}
    return [
        (name, one)
        for name, one in exact
        if not any(one.contains(version, prereleases=True) for version in listed[name])
    ]


def _explained(
    index: PackageIndex, request: Requirements, target: Target, progress: Progress
) -> ResolutionError:
    """Explain an empty space: the conflict, and the smallest steps out of it."""
    progress.doing("resolving: looking for what is in the way")
    parts: list[tuple[Core, ResolutionError]] = []
    for each in request.combinations()[:_EXPLAINED]:
        try:
            universe = read_combination(index, each, target, progress=progress, pruned=False)
        except IndexUnavailableError:
            return _unexplained(request)
        core = conflict_core(universe)
        parts.append((core, conflict(core, universe, each.request)))
    what, why, fix = _joined([error for _, error in parts])
    relaxed = {r.words: r for core, _ in parts for r in relaxations(core, request)}
    ways = sorted(_ways_out(index, tuple(relaxed.values()), target, progress))
    return ResolutionError(what, why=why, fix="; or ".join(w for _, w in ways[:_SHOWN]) or fix)


def _joined(errors: Sequence[ResolutionError]) -> tuple[str, str, str]:
    """Join the explanations of all ways to fill the roles."""
    what, why, fix = errors[0].args
    for each in errors[1:]:
        what += f"; and {each.args[0]}"
        why += f";\n       {each.args[1]}"
    return what, why, fix


def _unexplained(request: Requirements) -> ResolutionError:
    return ResolutionError(
        f"no stack satisfies {' with '.join(request.texts)}",
        why="what they depend on leaves none; the cache lacks what would show more",
        fix="run the same command once without --offline",
    )


def _ways_out(
    index: PackageIndex, ways: Sequence[Relaxation], target: Target, progress: Progress
) -> Iterator[tuple[int, str]]:
    """Yield what would help, and to how many stacks, as far as it is found out in time."""
    end = time.monotonic() + EXPLAINING_S
    for each in ways:
        if time.monotonic() > end:
            return
        with suppress(ResolutionError, IndexUnavailableError):
            space = _space(index, each.request, target, progress)
            if space.count:
                bound = "" if space.exact else "at least "
                yield space.count, f"{each.words}: {bound}{format_stack_count(space.count)}"


# Universes that were worked out before, for the same request on the same pages.
#
# Requests come again: ``resolve`` before ``explore``, a night after a night. The digests of the
# pages are then read from the cache, to know that they are the same, but no version and no
# requirement is parsed again. An entry counts only where all that it follows from is the same: the
# code, the request, the target and, by digest, each page that was needed, none of them older than
# an index takes from its cache.

_LEVEL = 1  # Deflate: the fastest takes most of it.


def universe_key(request: Requirements, target: Target, *, all_prereleases: bool) -> str:
    """Return what identifies a question to an index; "" where its answer is not cached.

    A file at an address, and what is built from a source distribution, is on no page.
    """
    roles = (each for role in request.alternatives for each in role)
    every = (*request.requirements, *request.overrides, *roles)
    if request.policy.allow_build or any(each.url for each in every):
        return ""
    content = [request, target, all_prereleases, _code()]
    return sha256(msgspec.json.encode(content, enc_hook=str, order="deterministic")).hexdigest()


def load_universe(index: PackageIndex, key: str) -> Universe | None:
    """Return the universe of a question where the index still offers what it was made of."""
    content = index.recall(key) if key else None
    try:
        return None if content is None else decode(content)
    except (zlib.error, msgspec.DecodeError):
        return None  # it is worked out, and stored again


def store_universe(index: PackageIndex, key: str, universe: Universe, names: Iterable[str]) -> None:
    """Store a universe with the packages whose pages it was made of.

    Not one with files that could not be read: next time they may be. And none with half a
    character of UTF-16, which a page in JSON may hold and UTF-8 does not.
    """
    left_out = (each for of in universe.excluded.values() for each in of)
    if key and not any(each.reason.startswith(UNREADABLE) for each in left_out):
        with suppress(UnicodeEncodeError):
            index.remember(key, names, encode(universe))


@cache
def _code() -> list[object]:
    """Return what identifies the code that works universes out."""
    own = Path(__file__).parent
    folders = (own.with_name("resolve"), own)
    files = sorted(file for folder in folders for file in folder.glob("*.py"))
    states = [(str(file), file.stat()) for file in files]
    code = [[name, state.st_size, state.st_mtime_ns] for name, state in states]
    return [sys.version, packaging.__version__, code]


def encode(universe: Universe) -> bytes:
    """Return a universe in the form in which it is cached."""
    return zlib.compress(msgspec.msgpack.encode(universe), _LEVEL)


def decode(content: bytes) -> Universe:
    """Return what was encoded.

    Raises:
        msgspec.DecodeError, zlib.error: it is not what `encode` wrote.
    """
    return msgspec.msgpack.decode(zlib.decompress(content), type=Universe)
