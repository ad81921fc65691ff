"""What a lock file must say after some of its packages change, looked up in the indexes."""

from collections.abc import Iterable, Mapping
from dataclasses import replace

from packaging.requirements import InvalidRequirement, Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name
from packaging.version import Version

from stackgen.campaign.candidates import pin
from stackgen.errors import ResolutionError, UsageError
from stackgen.index import PackageIndex, artifact_key
from stackgen.index.closure import resolve
from stackgen.locks.editing import required_names
from stackgen.locks.reading import in_target
from stackgen.model.packages import Artifact, Lock, LockChange, LockedPackage, LockFile, Target
from stackgen.model.progress import Progress
from stackgen.resolve.candidates import Policy
from stackgen.resolve.dependencies import parse_requirement
from stackgen.resolve.requirements import Requirements


def lock_changes(
    lockfile: LockFile,
    wanted: Mapping[str, str | None],
    target: Target,
    *,
    index: PackageIndex,
    progress: Progress,
) -> tuple[LockChange, ...]:
    """Return every package of a lock that changes where some get other versions.

    What the new versions require besides is added in the newest version that fits; what only the
    old versions required is taken out, where the lock says what the user requires.

    Args:
        lockfile: as it is.
        wanted: the new version of each package, by its normalised name; None takes it out.
        target: what the lock is resolved for; the files of all platforms are listed.

    Raises:
        ResolutionError: the rest of the lock does not admit it, or a version has no file.
    """
    locked = {each.name: each for each in in_target(lockfile, target)}
    changed = {n: v for n, v in wanted.items() if n not in locked or locked[n].version != v}
    kept = {name: each for name, each in locked.items() if changed.get(name, "") is not None}
    pinned = [
        replace(each, version=changed.get(name) or each.version) for name, each in kept.items()
    ]
    pinned += [
        LockedPackage(name=name, version=version)
        for name, version in changed.items()
        if version is not None and name not in locked
    ]
    elsewhere = _elsewhere(lockfile, locked, changed)
    stack = _resolved(lockfile, pinned, elsewhere, target, index, progress)
    needed = _requirements_of(index, stack)
    gone = _unneeded(lockfile, locked, changed, needed, index)
    gone |= {name for name, version in changed.items() if version is None}
    names = [name for name, version in stack.versions.items() if _differs(name, version, locked)]
    found = [
        replace(_change(each, index, needed), widened=each.name in elsewhere)
        for each in stack.artifacts
        if each.name in names
    ]
    found += [LockChange(name=each, version="") for each in gone]
    return tuple(sorted(found, key=lambda each: each.name))


def completed(
    lockfile: LockFile, target: Target, *, index: PackageIndex, progress: Progress
) -> LockFile:
    """Return a partly pinned lock with a version for each line that pins none, and a note of it.

    Raises:
        ResolutionError: no versions of them fit the pins.
    """
    if not lockfile.unpinned:
        return lockfile
    packages = in_target(lockfile, target)
    unpinned = tuple(line for _, line in lockfile.unpinned)
    wanted = replace(lockfile, requirements=(*lockfile.requirements, *unpinned))
    stack = _resolved(wanted, packages, {}, target, index, progress)
    known = {each.name for each in packages}
    added = [
        LockedPackage(name=name, version=version)
        for name, version in stack.versions.items()
        if name not in known
    ]
    listed = ", ".join(f"{each.name} {each.version}" for each in added)
    resolved = (
        f"resolved first: {listed}" if added else f"they add nothing on Python {target.python}"
    )
    lines = ", ".join(str(number) for number, _ in lockfile.unpinned)
    return replace(
        wanted,
        packages=(*lockfile.packages, *added),
        unpinned=(),
        notes=(*lockfile.notes, f"lines that pin nothing: {lines}; {resolved}"),
    )


def _differs(name: str, version: str, locked: Mapping[str, LockedPackage]) -> bool:
    return name not in locked or Version(locked[name].version) != Version(version)


def _elsewhere(
    lockfile: LockFile, locked: Mapping[str, LockedPackage], changed: Mapping[str, str | None]
) -> Mapping[str, LockedPackage]:
    """Return what a lock holds in one version, and not for this target: that version is taken."""
    versions: dict[str, list[LockedPackage]] = {}
    for each in lockfile.packages:
        if each.name not in locked and each.name not in changed:
            versions.setdefault(each.name, []).append(each)
    return {name: found[0] for name, found in versions.items() if len(found) == 1}


def _resolved(
    lockfile: LockFile,
    packages: Iterable[LockedPackage],
    elsewhere: Mapping[str, LockedPackage],
    target: Target,
    index: PackageIndex,
    progress: Progress,
) -> Lock:
    pins = [parse_requirement(pin(each)) for each in packages]
    names = frozenset(str(canonicalize_name(each.name)) for each in pins)
    request = Requirements(
        requirements=(*pins, *index_requirements(lockfile)),
        constraints=tuple(
            parse_requirement(f"{name}=={each.version}") for name, each in elsewhere.items()
        ),
        policy=Policy(allow_build=names),  # a prerelease only where it is pinned, as tools do
    )
    lock = resolve(index, request, target, progress=progress).newest()
    if lock is None:
        raise ResolutionError(
            f"{lockfile.path} does not admit these versions",
            why="no stack holds them with the rest of the lock",
            fix="lock again without the others pinned",
        )
    return lock


def _readable(lockfile: LockFile) -> tuple[Requirement, ...]:
    """Return what the user requires; what PEP 508 cannot say is left out."""
    found = []
    for line in lockfile.requirements:
        try:
            found.append(Requirement(line))
        except InvalidRequirement:
            continue
    return tuple(found)


def index_requirements(lockfile: LockFile) -> tuple[Requirement, ...]:
    """Return what the user requires of an index; what PEP 508 cannot say is left out."""
    return tuple(each for each in _readable(lockfile) if each.url is None)


_Lines = Mapping[str, tuple[tuple[str, ...], str]]


def _requirements_of(index: PackageIndex, lock: Lock) -> _Lines:
    """Return (requirements, Python) of each package of a stack, as far as they can be read."""
    read = index.metadata_many(lock.artifacts)
    found = {}
    for each in lock.artifacts:
        metadata = read.get(artifact_key(each))
        if metadata is not None:
            found[each.name] = (metadata.requires_dist, metadata.requires_python or "")
    return found


def _unneeded(
    lockfile: LockFile,
    locked: Mapping[str, LockedPackage],
    changed: Mapping[str, str | None],
    needed: _Lines,
    index: PackageIndex,
) -> frozenset[str]:
    """Return what only the old versions of changed packages required, and what only that did."""
    if not lockfile.requirements:
        return frozenset()
    old = [locked[name] for name in changed if name in locked]
    before: set[str] = set()
    for package in old:
        files = _files(index, package.name, package.version)
        read = index.metadata_many(files[:1])
        before |= {n for each in read.values() for n in required_names(each.requires_dist)}
    direct = {str(canonicalize_name(each.name)) for each in _readable(lockfile)}
    others = {each.name for each in lockfile.packages if each.group != "default"}
    stays = direct | others | changed.keys()
    gone: set[str] = set()
    while True:
        left = {name: lines for name, (lines, _) in needed.items() if name not in gone}
        now = {n for name, lines in left.items() for n in _any_names(lines) - {name}}
        more = (before & left.keys() & locked.keys()) - now - stays
        if not more:
            return frozenset(gone)
        gone |= more
        before |= {n for name in more for n in required_names(left[name])}


def _any_names(lines: Iterable[str]) -> frozenset[str]:
    """Return what lines name, extras' too: what an extra needs stays."""
    return frozenset(str(canonicalize_name(Requirement(each).name)) for each in lines)


def _change(chosen: Artifact, index: PackageIndex, needed: _Lines) -> LockChange:
    lines, python = needed.get(chosen.name, ((), ""))
    return LockChange(
        name=chosen.name,
        version=chosen.version,
        artifacts=_files(index, chosen.name, chosen.version),
        chosen=chosen,
        requires_dist=lines,
        requires_python=python or chosen.requires_python or "",
    )


def _files(index: PackageIndex, name: str, version: str) -> tuple[Artifact, ...]:
    """Return the files of a release, wheels first."""
    offered = index.candidates_many([name])[name] or ()
    wanted = Version(version)
    found = [each for each in offered if Version(each.version) == wanted]
    return tuple(sorted(found, key=lambda each: (not each.is_wheel, each.filename)))


def refuse_excluded(lockfile: LockFile, changes: Iterable[LockChange]) -> None:
    """Refuse versions that the user's own file of requirements excludes: its lock would be stale.

    Raises:
        UsageError: there is one.
    """
    limits = {
        str(canonicalize_name(each.name)): each.specifier or SpecifierSet()
        for each in _readable(lockfile)
    }
    for change in changes:
        if change.version and not limits.get(change.name, SpecifierSet()).contains(
            change.version, prereleases=True
        ):
            raise UsageError(
                f"{lockfile.path} is not changed",
                why=f"the project requires {change.name}{limits[change.name]}: {change.version} is "
                "no such version",
                fix="change what the project requires, and lock it again",
            )
