"""Questions about a space: what became of some versions, and is a lock among its stacks."""

import shlex
from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from stackgen.errors import ResolutionError, UsageError
from stackgen.index import PackageIndex
from stackgen.locks import in_target
from stackgen.pipeline import resolution
from stackgen.pipeline.progress import Progress
from stackgen.pipeline.selection import read_lock_file
from stackgen.resolve import EARLY, Request, Space, parse_requirement, parsed_version
from stackgen.values import Exclusion, Explained, Lock, Membership, Resolution, Target

_SHOWN = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Inquiry:
    """A request on a target, and where the answers come from."""

    index: PackageIndex
    request: Request
    target: Target
    progress: Progress

    def space(self, request: Request | None = None) -> Space:
        """Return the space of the request, or of another one."""
        asked = request or self.request
        return resolution.resolve(self.index, asked, self.target, progress=self.progress)

    def report(self, space: Space) -> Resolution:
        """Return what is told of every space.

        Raises:
            UsageError: nothing is asked for.
        """
        if not space.packages:
            raise UsageError(
                "nothing is asked for",
                why="the markers of all requirements exclude this Python and platform, or no line "
                "names a package",
                fix="check the files, or name another target with --python and --platform",
            )
        return Resolution(
            requirements=self.request.texts,
            target=self.target,
            count=space.count,
            exact=space.exact,
            kept=space.kept,
            notes=tuple(_unreadable_notes(space)),
        )


def explained(work: Inquiry, asked: str) -> Resolution:
    """Tell of a package which versions are part of stacks, or of a requirement how many hold it."""
    requirement = parse_requirement(asked)
    name = canonicalize_name(requirement.name)
    space = work.space()
    if requirement.specifier:
        return _held(work, space, requirement, asked)
    known = [release.label for release in space.universe.releases.get(name, ())]
    used = space.versions(name)
    if not known and name not in space.universe.excluded:
        raise ResolutionError(
            f"{name} is part of no stack",
            why="nothing that was asked for requires it, however indirectly",
            fix=f"ask for it, too: stackgen resolve {shlex.join((*work.request.texts, name))}",
        )
    others = tuple(each for each in known if each not in used)
    early: tuple[str, ...] = ()
    if space.universe.prefers_final:
        early = tuple(each for each in others if _is_prerelease(each))
        others = tuple(each for each in others if each not in early)
    found = Explained(
        asked=asked,
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


def _is_prerelease(label: str) -> bool:
    return parsed_version(label.partition("@")[0]).is_prerelease


def _held(work: Inquiry, space: Space, requirement: Requirement, asked: str) -> Resolution:
    name = canonicalize_name(requirement.name)
    wanted = requirement.specifier
    held = [v for v in space.versions(name) if wanted.contains(v.partition("@")[0], True)]
    plain = held and not requirement.extras
    part = space.within({name: held}, present=(name,)) if plain else None
    if part is None or not part.count:  # whoever asks too much is told what is in the way
        request = replace(work.request, requirements=(*work.request.requirements, requirement))
        part = work.space(request)
        held = list(part.versions(name))
        asked = f"{asked}, asked for as well"
    found = Explained(asked=asked, count=part.count, versions=tuple(held), exact=part.exact)
    newest = part.newest()
    notes = yanked_notes([newest] if newest else [])
    report = work.report(space)
    return replace(report, explained=found, notes=(*report.notes, *notes))


def membership(work: Inquiry, path: Path) -> Resolution:
    """Tell whether a lock holds one of the stacks: those that its versions leave."""
    locked = {each.name: each.version for each in in_target(read_lock_file(path), work.target)}
    held = replace(work.request, held=tuple(sorted(locked.items())))
    try:
        space = work.space(held)
    except ResolutionError as error:
        what, why, fix = error.args
        found = Membership(path=str(path), inside=False, forbidden=f"{what}: {why}", fix=fix)
        return _no_space(work, found)
    stack = space.within(dict.fromkeys(set(space.packages) - locked.keys(), ())).newest()
    lacking = _lacking(space, work.request, locked) if stack is None else ()
    needed = stack.versions if stack is not None else {}
    found = Membership(
        path=str(path),
        inside=stack is not None,
        missing=lacking,
        superfluous=tuple(sorted(locked.keys() - needed)) if stack is not None else (),
    )
    return replace(work.report(space), membership=found)


def _lacking(space: Space, request: Request, locked: Container[str]) -> tuple[str, ...]:
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
        kept=0,
        membership=found,
    )


def _unreadable_notes(space: Space) -> Iterator[str]:
    """Yield how many releases were left out because nobody knows what they require."""
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
