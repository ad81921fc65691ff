"""Resolve: requirements in, the space and some of its stacks out; nothing is installed."""

import shlex
import sys
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from pathlib import Path

from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name
from packaging.version import Version

from stackgen.campaign.options import (
    IndexOptions,
    RequirementOptions,
    SourceOptions,
    VariationOptions,
)
from stackgen.campaign.targets import find_target
from stackgen.campaign.user_input import (
    UserInput,
    beside_compared,
    index_config,
    open_index,
    read_user_input,
)
from stackgen.commands.options import ListingOptions, StatedTargetOptions
from stackgen.errors import ResolutionError, UsageError
from stackgen.index import PackageIndex, closure
from stackgen.model.choices import Completion, Listing
from stackgen.model.packages import Exclusion, Lock, Target
from stackgen.model.progress import Progress
from stackgen.model.reports.resolution import (
    Explained,
    ListedStack,
    Membership,
    PackageVersions,
    Resolution,
)
from stackgen.resolve.candidates import EARLY
from stackgen.resolve.choose import contemporary, newest_first, pairwise_cover, stratified
from stackgen.resolve.dependencies import base_name, parse_requirement, parsed_version
from stackgen.resolve.requirements import Requirements
from stackgen.resolve.space import Slice, Space
from stackgen.storage.paths import Paths

# Questions about a space: what became of some versions, and is a lock among its stacks

_SHOWN, _LISTED = 3, 3
MOST_STACKS_OF_A_COVER = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Inquiry:
    """A request on a target, and where the answers come from."""

    index: PackageIndex
    request: Requirements
    target: Target
    progress: Progress

    def space(self, request: Requirements | None = None) -> Space:
        """Return the space of the request, or of another one."""
        requirements = request or self.request
        return closure.resolve(self.index, requirements, self.target, progress=self.progress)

    def report(self, space: Space) -> Resolution:
        """Return what is reported of every space.

        Raises:
            UsageError: nothing is required.
        """
        if not space.packages:
            raise UsageError(
                "nothing is required",
                why="the markers of all requirements exclude this Python and platform, or no line "
                "names a package",
                fix="check the files, or name another target with --python and --platform",
            )
        return Resolution(
            requirements=self.request.texts,
            target=self.target,
            count=space.count,
            exact=space.exact,
            version_limit=space.version_limit,
            notes=tuple(_unreadable_notes(space)),
        )


def explained(work: Inquiry, query: str) -> Resolution:
    """Report which versions of a package are in stacks, or how many stacks a requirement leaves."""
    requirement = parse_requirement(query)
    name = canonicalize_name(requirement.name)
    space = work.space()
    if requirement.specifier:
        return _admitted(work, space, requirement, query)
    known = [release.label for release in space.universe.releases.get(name, ())]
    used = space.versions(name)
    if not known and name not in space.universe.excluded:
        raise ResolutionError(
            f"{name} is part of no stack",
            why="no requirement leads to it, however indirectly",
            fix=f"require it, too: stackgen resolve {shlex.join((*work.request.texts, name))}",
        )
    others = tuple(each for each in known if each not in used)
    early: tuple[str, ...] = ()
    if space.universe.prefers_final:
        versions = {each: parsed_version(each.partition("@")[0]) for each in others}
        early = tuple(each for each in others if versions[each].is_prerelease)
        others = tuple(each for each in others if each not in early)
    found = Explained(
        query=query,
        count=space.within({}, present=(name,)).count,
        versions=used,
        left_out=(
            *space.universe.excluded.get(name, ()),
            *(Exclusion(name=name, version=each, reason=EARLY) for each in early),
        ),
        in_none=others if space.exact else (),
        not_counted=() if space.exact else others,
        exact=space.exact,
    )
    return replace(work.report(space), explained=found)


def _admitted(work: Inquiry, space: Space, requirement: Requirement, query: str) -> Resolution:
    name = canonicalize_name(requirement.name)
    wanted = requirement.specifier
    admitted = [v for v in space.versions(name) if wanted.contains(v.partition("@")[0], True)]
    plain = admitted and not requirement.extras
    part = space.within({name: admitted}, present=(name,)) if plain else None
    if part is None or not part.count:  # an empty space explains what is in the way
        request = replace(work.request, requirements=(*work.request.requirements, requirement))
        part = work.space(request)
        admitted = list(part.versions(name))
        query = f"{query}, required as well"
    found = Explained(query=query, count=part.count, versions=tuple(admitted), exact=part.exact)
    newest = part.newest()
    notes = yanked_notes([newest] if newest else [])
    report = work.report(space)
    return replace(report, explained=found, notes=(*report.notes, *notes))


def membership(work: Inquiry, path: Path) -> Resolution:
    """Report whether a lock holds one of the stacks: those that its versions leave."""
    from stackgen.campaign.candidates import read_lock_file  # slow to load, and rarely needed
    from stackgen.locks.reading import in_target

    locked = {each.name: each.version for each in in_target(read_lock_file(path), work.target)}
    pinned = replace(work.request, locked=tuple(sorted(locked.items())))
    try:
        space = work.space(pinned)
    except ResolutionError as error:
        what, why, fix = error.args
        found = Membership(path=str(path), inside=False, forbidden=f"{what}: {why}", fix=fix)
        return _no_space(work, found)
    stack = space.within(dict.fromkeys(set(space.packages) - locked.keys(), ())).newest()
    if stack is not None and (early := _needless_prereleases(work, stack)):
        found = Membership(
            path=str(path),
            inside=False,
            forbidden=f"{' and '.join(early)}: a final release will do in place of a prerelease",
            fix="admit prereleases with --prerelease allow",
        )
        return _no_space(work, found)
    lacking = _lacking(space, work.request, locked) if stack is None else ()
    needed = stack.versions if stack is not None else {}
    found = Membership(
        path=str(path),
        inside=stack is not None,
        missing=lacking,
        superfluous=tuple(sorted(locked.keys() - needed)) if stack is not None else (),
    )
    return replace(work.report(space), membership=found)


def _needless_prereleases(work: Inquiry, stack: Lock) -> tuple[str, ...]:
    """Return the prereleases of a stack where the whole space holds it with final releases only.

    The space that a lock's versions leave has no others, so that there a prerelease is necessary.
    """
    early = {n: v for n, v in stack.versions.items() if Version(v.partition("@")[0]).is_prerelease}
    if not early or not work.request.policy.prereleases.prefers_final:
        return ()
    space = work.space()
    inside = space.within({name: (version,) for name, version in stack.versions.items()})
    if inside.count or not space.exact:
        return ()
    return tuple(f"{name} {version}" for name, version in early.items())


def _lacking(space: Space, request: Requirements, locked: Container[str]) -> tuple[str, ...]:
    """Return what the stack needs that a lock comes closest to; of a role, what the lock has."""
    barred: dict[str, tuple[str, ...]] = {}
    for role in request.alternatives:
        names = [str(canonicalize_name(each.name)) for each in role]
        if any(name in locked for name in names):
            barred |= {name: () for name in names if name not in locked}
    stack = space.newest(barred) or space.newest()
    return tuple(sorted(name for name in stack.versions if name not in locked)) if stack else ()


def _no_space(work: Inquiry, found: Membership) -> Resolution:
    return Resolution(
        requirements=work.request.texts,
        target=work.target,
        count=0,
        exact=True,
        version_limit=0,
        membership=found,
    )


def _unreadable_notes(space: Space) -> Iterator[str]:
    """Yield how many releases were left out because their metadata is not readable."""
    found = [
        f"{each.name} {each.version}: {each.reason}"
        for excluded in space.universe.excluded.values()
        for each in excluded
        if each.reason.startswith(("malformed metadata", "unreadable metadata"))
    ]
    if found:
        releases = "release was" if len(found) == 1 else "releases were"
        more = f"; and {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
        yield f"{len(found):,} {releases} left out: {'; '.join(found[:_SHOWN])}{more}"


def yanked_notes(locks: Sequence[Lock]) -> Iterator[str]:
    """Yield what was yanked of some stacks: the user pinned it."""
    yanked = (each for lock in locks for each in lock.artifacts if each.yanked is not None)
    yield from dict.fromkeys(
        f"{each.name} {each.version} was yanked: {each.yanked or 'no reason given'}"
        for each in yanked
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ResolveRequest:
    """What to resolve, for what, and which of the stacks to list.

    variation: packages that vary; none means those that are required, and NumPy.
    as_file: the one stack becomes a lock file, so no part of it may be left out.
    """

    requirements: RequirementOptions
    sources: SourceOptions = SourceOptions()
    variation: VariationOptions = VariationOptions(completion=Completion.NEWEST)
    index: IndexOptions = IndexOptions()
    target: StatedTargetOptions = StatedTargetOptions()
    listing: ListingOptions = ListingOptions()
    as_file: bool = False

    @property
    def n(self) -> int:
        """Return how many stacks are listed; 0 lists none and leaves versions out as well."""
        listing = self.listing
        if listing.count:
            return 0
        default = 1 if listing.one or self.as_file else _LISTED
        if listing.cover:
            default = MOST_STACKS_OF_A_COVER
        return min(listing.sample or listing.number or default, sys.maxsize)


def resolve(
    request: ResolveRequest, paths: Paths, environ: Mapping[str, str], progress: Progress
) -> Resolution:
    """Resolve, and report what was requested of the space.

    Raises:
        ResolutionError: no stack satisfies the requirements.
        UsageError: a file or an option cannot be understood.
        IndexUnavailableError: an index cannot be read.
    """
    target = find_target(
        base=request.target.base,
        python=request.target.python,
        platform=request.target.platform,
        paths=paths,
        progress=progress,
    )
    given = read_user_input(request.requirements, request.sources, request.index, environ)
    _refuse_incomplete(given, request)
    _refuse_python(given.requires_python, target)
    config = index_config(given.index, environ)
    requirements = beside_compared(given.requirements, config)
    with open_index(config, requirements.policy, target, paths, progress) as index:
        work = Inquiry(index=index, request=requirements, target=target, progress=progress)
        listing = request.listing
        if listing.contains is not None:
            found = membership(work, listing.contains)
        else:
            found = explained(work, listing.explain) if listing.explain else _listed(work, request)
        left_out = (f"left out: {each}" for each in given.left_out)
        return replace(found, notes=(*left_out, *found.notes, *_index_notes(index, found)))


def _listed(work: Inquiry, request: ResolveRequest) -> Resolution:
    space = work.space()
    report = work.report(space)
    if not request.n:
        return report
    varied = _varied(space, work.request, request.variation.vary)
    slices = space.slices(varied)
    choices = newest_first(slices, granularity=request.variation.granularity)
    rows = list(islice(_rows(space, varied, choices, request), request.n))
    if not rows:
        raise _nothing_contemporary()
    return replace(
        report,
        packages=tuple(_packages(space, work.request)),
        varied=varied,
        choices=len(choices),
        patches=len(slices),
        listed=request.listing.kind.value,
        stacks=tuple(rows),
        notes=(*report.notes, *yanked_notes([row.lock for row in rows])),
    )


def _packages(space: Space, request: Requirements) -> Iterator[PackageVersions]:
    """Yield the versions of each package; of those that are required, also what is left out."""
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
    space: Space, varied: Sequence[str], choices: Sequence[Slice], request: ResolveRequest
) -> Iterator[ListedStack]:
    """Yield stacks in the way that the request names."""
    listing, n = request.listing, request.n
    found: Iterator[tuple[Slice | None, Lock | None]]
    if listing.kind is Listing.STACKS:
        found = ((None, lock) for lock in space.stacks())
    elif listing.kind is Listing.UNIFORM:
        found = ((None, lock) for lock in space.sample(listing.seed, n))
    elif listing.kind is Listing.STRATIFIED:
        newest = not listing.sample_rest
        found = iter(stratified(space, choices, seed=listing.seed, n=n, newest=newest))
    else:
        chosen = pairwise_cover(choices) if listing.kind is Listing.COVER else choices
        old = request.variation.completion is Completion.CONTEMPORARY
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


def _varied(space: Space, request: Requirements, named: Sequence[str]) -> tuple[str, ...]:
    """Return what varies: what --vary names, else what is required, and NumPy where it is part.

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
    if names and (skipped := sum(index.skipped.get(name, 0) for name in names)):
        yield f"{skipped:,} files with names or versions that no standard allows were passed over"


def _refuse_incomplete(given: UserInput, request: ResolveRequest) -> None:
    """Refuse to write a lock that lacks what the user requires, and where that is everything."""
    requirements = given.requirements
    if given.left_out and not (requirements.requirements or requirements.alternatives):
        raise UsageError(
            "nothing is required of an index",
            why="; ".join(given.left_out),
            fix="require something that an index has as well",
        )
    if given.left_out and request.as_file:
        raise UsageError(
            "the lock would be incomplete",
            why=f"no index has this: {'; '.join(given.left_out)}",
            fix="take these lines out of the file, and install what they name by itself",
        )


def _refuse_python(requires: str, target: Target) -> None:
    if requires and not SpecifierSet(requires).contains(target.python, prereleases=True):
        raise ResolutionError(
            f"the project requires Python {requires}",
            why=f"this resolves for Python {target.python}",
            fix="name a Python that it admits, as in: --python 3.12",
        )


def _nothing_contemporary() -> ResolutionError:
    return ResolutionError(
        "no stack is made of contemporaries",
        why="the index states no upload times, or the versions of that time do not fit together",
        fix="take the newest ones: --completion newest",
    )
