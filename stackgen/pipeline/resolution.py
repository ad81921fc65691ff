"""Requirements and an index in, a space out: the core says what it needs, the index brings it."""

from collections.abc import Callable, Sequence
from contextlib import suppress

from packaging.requirements import Requirement

from stackgen.errors import ResolutionError
from stackgen.index import PackageIndex, artifact_key
from stackgen.pipeline.progress import Progress, Silent
from stackgen.resolve import (
    Closure,
    Policy,
    Space,
    Universe,
    conflict,
    minimal_conflict,
    nothing_fits,
)
from stackgen.values import Target

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
    while (need := closure.need()).pages or need.metadata:
        known = len(need.pages), len(need.metadata)
        progress.doing(f"resolving: {known[0]} packages and {known[1]} releases to read")
        if need.pages:
            closure.give_pages(index.candidates_many(need.pages, _telling(progress, "packages")))
        if need.metadata:
            read = index.metadata_many(need.metadata, _telling(progress, "releases"))
            known_of = {each: read.get(artifact_key(each)) for each in need.metadata}
            closure.give_metadata(
                {each: found for each, found in known_of.items() if found is not None},
                {
                    each: index.defects.get(artifact_key(each), "it has none")
                    for each, found in known_of.items()
                    if found is None
                },
            )
    return closure.universe()


def _telling(progress: Progress, what: str) -> Callable[[int, int], None]:
    def tell(done: int, total: int) -> None:
        progress.doing(f"resolving: reading {what}", done=done, total=total)

    return tell


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
