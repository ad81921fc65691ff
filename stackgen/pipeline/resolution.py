"""A request and an index in, a space out; or an explanation why it would be empty."""

import time
from collections.abc import Iterator, Sequence
from contextlib import suppress

from stackgen.errors import ResolutionError
from stackgen.index import PackageIndex
from stackgen.pipeline.progress import Progress, Silent
from stackgen.pipeline.reading import read_universe
from stackgen.render.resolve import stacks_in_words
from stackgen.resolve import (
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
    universe = read_universe(index, request, target, progress=progress)
    progress.doing("resolving: counting the stacks")
    return Space(universe)


def _explained(
    index: PackageIndex, request: Request, target: Target, progress: Progress
) -> ResolutionError:
    """Explain an empty space: the conflict, and the smallest steps out of it."""
    filled = request.combinations()[0].request
    progress.doing("resolving: looking for what is in the way")
    universe = read_universe(index, filled, target, progress=progress, pruned=False)
    core = conflict_core(universe)
    what, why, fix = conflict(core, universe, filled).args
    ways = sorted(_ways_out(index, relaxations(core, filled), target, progress))
    shown = [f"{words}: {stacks_in_words(count)}" for count, words in ways[:_SHOWN]]
    return ResolutionError(what, why=why, fix="; or ".join(shown) or fix)


def _ways_out(
    index: PackageIndex, ways: Sequence[Relaxation], target: Target, progress: Progress
) -> Iterator[tuple[int, str]]:
    """Yield what would help, and to how many stacks, as far as it is found out in time."""
    end = time.monotonic() + EXPLAINING_S
    for each in ways:
        if time.monotonic() > end:
            return
        with suppress(ResolutionError):
            space = _space(index, each.request, target, progress)
            if space.count:
                yield space.count, each.words
