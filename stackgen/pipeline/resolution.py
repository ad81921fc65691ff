"""A request and an index in, a space out; or an explanation why it would be empty."""

import time
from collections.abc import Iterator, Sequence
from contextlib import suppress

from stackgen.errors import IndexUnavailableError, ResolutionError
from stackgen.index import PackageIndex
from stackgen.pipeline.progress import Progress, Silent
from stackgen.pipeline.reading import read_combination, read_universe
from stackgen.render.resolve import stacks_in_words
from stackgen.resolve import (
    Core,
    Relaxation,
    Request,
    Space,
    conflict,
    conflict_core,
    nothing_fits,
    relaxations,
)
from stackgen.values import Target

EXPLAINING_S = 30.0
"""After this many seconds no further way out of a conflict is tried."""

_SHOWN = 3
_EXPLAINED = 3


def resolve(
    index: PackageIndex,
    request: Request,
    target: Target,
    *,
    progress: Progress | None = None,
) -> Space:
    """Return the space of a request on a target; it holds one stack at least.

    Raises:
        ResolutionError: it would be empty; the error names a smallest conflict, and what would
            help.
        IndexUnavailableError: an index cannot be asked.
    """
    watcher = progress or Silent()
    space = _space(index, request, target, watcher)
    if space.count:
        return space
    raise nothing_fits(space.universe, request, target) or _explained(
        index, request, target, watcher
    )


def _space(index: PackageIndex, request: Request, target: Target, progress: Progress) -> Space:
    """Return the space, perhaps an empty one; if it is, with every prerelease looked at."""
    universe = read_universe(index, request, target, progress=progress)
    progress.doing("resolving: counting the stacks")
    space = Space(universe)
    if space.count or not universe.has_more:
        return space
    universe = read_universe(index, request, target, progress=progress, all_prereleases=True)
    progress.doing("resolving: counting the stacks with prereleases")
    return Space(universe)


def _explained(
    index: PackageIndex, request: Request, target: Target, progress: Progress
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


def _unexplained(request: Request) -> ResolutionError:
    return ResolutionError(
        f"no stack satisfies {' with '.join(request.texts)}",
        why="what they depend on leaves none; the cache lacks what would tell more",
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
                yield space.count, f"{each.words}: {bound}{stacks_in_words(space.count)}"
