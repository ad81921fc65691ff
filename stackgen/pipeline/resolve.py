"""Resolve: what is asked for in, the space and some of its stacks out; nothing is installed."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from functools import partial
from itertools import islice
from pathlib import Path

from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

from stackgen.errors import ResolutionError, UsageError
from stackgen.index import PackageIndex
from stackgen.pipeline.places import Places
from stackgen.pipeline.progress import Progress
from stackgen.pipeline.questions import Inquiry, explained, membership, yanked_notes
from stackgen.pipeline.targets import find_target
from stackgen.pipeline.wishes import Understood, Wishes, beside_compared, index_config, understood
from stackgen.resolve import (
    Completion,
    Granularity,
    Request,
    Slice,
    Space,
    base_name,
    contemporary,
    newest_first,
    pairwise_cover,
    stratified,
)
from stackgen.values import (
    ListedStack,
    Lock,
    PackageVersions,
    Resolution,
    Target,
)


class Listing(str, Enum):
    """Which stacks are listed.

    CHOICES: of each choice of the varied packages the newest completion, newest choices first.
    STACKS: every stack, newest first, in the order of decision.
    STRATIFIED: a sample spread over the versions of the varied packages.
    UNIFORM: a sample of all stacks.
    COVER: so few choices that every feasible pair of varied versions is among them.
    """

    CHOICES = "newest of each choice"
    STACKS = "newest first"
    STRATIFIED = "sampled, spread over the varied versions"
    UNIFORM = "sampled uniformly"
    COVER = "covering all pairs of varied versions"


@dataclass(frozen=True, slots=True, kw_only=True)
class ResolveOptions:
    """What to resolve, for what, and which of the stacks to list.

    base: a base's name, an image, or an interpreter; "" means our own interpreter.
    python, platform: a target that is stated instead; either may be "".
    vary: packages to be varied; none means those that were asked for, and NumPy.
    n: how many stacks are listed; 0 lists none and leaves versions out as well.
    explain: a package, or a requirement, of which everything is told.
    contains: a lock file of which is told whether it is one of the stacks.
    complete: refuse where a part of what is asked for must be left out.
    """

    wishes: Wishes
    base: str = ""
    python: str = ""
    platform: str = ""
    vary: tuple[str, ...] = ()
    listing: Listing = Listing.CHOICES
    n: int = 3
    seed: int = 0
    sampled_rest: bool = False
    granularity: Granularity = Granularity.MINOR
    completion: Completion = Completion.NEWEST
    explain: str = ""
    contains: Path | None = None
    complete: bool = False


def resolve(
    options: ResolveOptions, places: Places, environ: Mapping[str, str], progress: Progress
) -> Resolution:
    """Resolve, and answer what was asked of the space.

    Raises:
        ResolutionError: no stack satisfies what is asked for.
        UsageError: a file or an option cannot be understood.
        IndexUnavailableError: an index cannot be asked.
    """
    target = find_target(
        base=options.base,
        python=options.python,
        platform=options.platform,
        places=places,
        progress=progress,
    )
    wanted = understood(options.wishes, environ)
    _refuse_incomplete(wanted, options)
    _refuse_python(wanted.requires_python, target)
    config = index_config(wanted.index, environ)
    request = beside_compared(wanted.request, config)
    with PackageIndex(config, places.cache) as index:
        work = Inquiry(index=index, request=request, target=target, progress=progress)
        if options.contains is not None:
            return membership(work, options.contains)
        found = explained(work, options.explain) if options.explain else _listed(work, options)
        left_out = (f"left out: {each}" for each in wanted.left_out)
        return replace(found, notes=(*left_out, *found.notes, *_index_notes(index, found)))


def _listed(work: Inquiry, options: ResolveOptions) -> Resolution:
    space = work.space()
    report = work.report(space)
    if not options.n:
        return report
    varied = _varied(space, work.request, options.vary)
    slices = space.slices(varied)
    choices = newest_first(slices, granularity=options.granularity)
    rows = list(islice(_rows(space, varied, choices, options), options.n))
    if not rows:
        raise _nothing_contemporary()
    return replace(
        report,
        packages=tuple(_packages(space, work.request)),
        varied=varied,
        choices=len(choices),
        patches=len(slices),
        listed=options.listing.value,
        stacks=tuple(rows),
        notes=(*report.notes, *yanked_notes([row.lock for row in rows])),
    )


def _packages(space: Space, request: Request) -> Iterator[PackageVersions]:
    """Yield the versions of each package; of those that were asked for, also what is left out."""
    given = [*request.requirements, *(each for role in request.alternatives for each in role)]
    for name in space.packages:
        limits = [each.specifier for each in given if canonicalize_name(each.name) == name]
        left_out = (
            each
            for each in space.universe.excluded.get(name, ())
            if any(map(str, limits))
            and all(wanted.contains(each.version, prereleases=True) for wanted in limits)
        )
        if versions := space.versions(name):
            yield PackageVersions(name=name, versions=versions, left_out=tuple(left_out))


def _rows(
    space: Space, varied: Sequence[str], choices: Sequence[Slice], options: ResolveOptions
) -> Iterator[ListedStack]:
    """Yield stacks in the way that was asked for."""
    found: Iterator[tuple[Slice | None, Lock | None]]
    if options.listing is Listing.STACKS:
        found = ((None, lock) for lock in space.stacks())
    elif options.listing is Listing.UNIFORM:
        found = ((None, lock) for lock in space.sample(options.seed, options.n))
    elif options.listing is Listing.STRATIFIED:
        newest = not options.sampled_rest
        found = iter(stratified(space, choices, seed=options.seed, n=options.n, newest=newest))
    else:
        chosen = pairwise_cover(choices) if options.listing is Listing.COVER else choices
        old = options.completion is Completion.CONTEMPORARY
        complete = partial(contemporary, space) if old else space.complete
        found = ((choice, complete(choice)) for choice in chosen)
    for choice, lock in found:
        if lock is not None:
            versions = lock.versions
            yield ListedStack(
                lock=lock,
                varied=choice.versions
                if choice
                else tuple((name, versions[name]) for name in varied if name in versions),
                completions=choice.completions if choice else 0,
            )


def _varied(space: Space, request: Request, named: Sequence[str]) -> tuple[str, ...]:
    """Return what varies: what --vary names, else what was asked for, and NumPy where it is part.

    Raises:
        UsageError: a package to be varied is part of no stack.
    """
    wanted = [str(canonicalize_name(name)) for name in named]
    for name in wanted:
        if not space.versions(name):
            raise UsageError(
                f"{name} cannot be varied",
                why="it is part of no stack",
                fix="check its spelling, or name it as a requirement, too",
            )
    if not wanted:
        wanted = [*request.names, "numpy"]
    return tuple(dict.fromkeys(name for name in wanted if space.versions(name)))


def _index_notes(index: PackageIndex, found: Resolution) -> Iterator[str]:
    yield from index.notes
    names = {base_name(each.name) for each in found.packages}
    skipped = sum(count for name, count in index.skipped.items() if name in names)
    if skipped:
        yield f"{skipped:,} files with names or versions that no standard allows were passed over"


def _refuse_incomplete(wanted: Understood, options: ResolveOptions) -> None:
    """Refuse to write a lock that lacks what the user asked for."""
    if wanted.left_out and options.complete:
        raise UsageError(
            "the lock would be incomplete",
            why=f"no index can be asked for this: {'; '.join(wanted.left_out)}",
            fix="take these lines out of the file, and install what they name by itself",
        )


def _refuse_python(requires: str, target: Target) -> None:
    if requires and not SpecifierSet(requires).contains(target.python, prereleases=True):
        raise ResolutionError(
            f"the project asks for Python {requires}",
            why=f"this resolves for Python {target.python}",
            fix="name a Python that it admits, as in: --python 3.12",
        )


def _nothing_contemporary() -> ResolutionError:
    return ResolutionError(
        "no stack is made of contemporaries",
        why="the index tells no upload times, or the versions of that time do not fit together",
        fix="take the newest ones: --completion newest",
    )
