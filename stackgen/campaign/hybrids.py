"""Stacks between a good and a bad one: which are valid is what the search space says."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from stackgen.errors import ResolutionError
from stackgen.index import PackageIndex
from stackgen.index.closure import resolve
from stackgen.measure.attribution import Hybrid
from stackgen.model.choices import Prereleases
from stackgen.model.packages import Lock, Target
from stackgen.model.progress import Progress
from stackgen.resolve.candidates import Policy
from stackgen.resolve.dependencies import parse_requirement, parsed_version
from stackgen.resolve.requirements import Requirements
from stackgen.resolve.space import Space


@dataclass(slots=True, kw_only=True)
class Hybrids:
    """The valid stacks that take some of the packages that changed at their new version.

    good, bad: as they stand; they are the hybrids of no package and of all of them.
    packages: those of which both have a release, and those that only one of them has and nothing
        requires; whatever else differs follows from them.
    space: of the releases of both.
    unusable: hybrids that proved to be of no use, so that others take their place.
    """

    good: Lock
    bad: Lock
    packages: tuple[str, ...]
    space: Space | None
    unusable: set[Hybrid] = field(default_factory=set)
    _locks: dict[Hybrid, Lock] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._locks |= {frozenset(): self.good, frozenset(self.packages): self.bad}

    def find(self, include: Hybrid, exclude: Hybrid) -> Hybrid | None:
        """Return a valid hybrid with all of ``include`` and none of ``exclude``, or None.

        It takes as few new releases as it can; or as many, where that proved to be of no use.
        """
        if not include:
            return frozenset()
        for preferred in (self.good, self.bad):
            found = self._found(include, exclude, preferred)
            if found is not None and found not in self.unusable:
                return found
        everything = frozenset(self.packages)
        return None if exclude or everything in self.unusable else everything

    def lock(self, hybrid: Hybrid) -> Lock:
        """Return the stack of a hybrid that was found."""
        return self._locks[hybrid]

    def hybrid(self, lock: Lock) -> Hybrid | None:
        """Return which packages of a lock are as in the bad stack; None where one is of neither."""
        good, bad, own = _files(self.good), _files(self.bad), _files(lock)
        if any(own.get(name) not in (good.get(name), bad.get(name)) for name in self.packages):
            return None
        found = frozenset(name for name in self.packages if own.get(name) == bad.get(name))
        self._locks.setdefault(found, lock)
        return found

    def changes(self) -> tuple[tuple[str, str, str], ...]:
        """Return each package that differs with its two versions, "" where it is absent."""
        good, bad = self.good.versions, self.bad.versions
        first = {name: place for place, name in enumerate(self.packages)}
        files = _files(self.good), _files(self.bad)
        different = {name for name, _ in files[0].items() ^ files[1].items()}
        names = sorted(different, key=lambda each: (first.get(each, len(first)), each))
        return tuple((name, good.get(name, ""), bad.get(name, "")) for name in names)

    def _found(self, include: Hybrid, exclude: Hybrid, preferred: Lock) -> Hybrid | None:
        if self.space is None:
            return None
        space = self.space
        optional = [name for name in self.packages if name not in space.universe.releases]
        allowed = _labels(space, self.bad, include) | _labels(space, self.good, exclude)
        found = space.newest(allowed, preferred=_labels_of(space, preferred))
        if found is None:
            return None
        takes_new = [n in include or (preferred is self.bad and n not in exclude) for n in optional]
        lock = _with_optional(found, [self.bad if each else self.good for each in takes_new],
                              optional)  # fmt: skip
        return self.hybrid(lock)


def _with_optional(lock: Lock, sources: Sequence[Lock], names: Sequence[str]) -> Lock:
    found = {each.name: each for each in lock.artifacts}
    for source, name in zip(sources, names, strict=True):
        found |= {each.name: each for each in source.artifacts if each.name == name}
    return Lock(artifacts=tuple(found[name] for name in sorted(found)))


def _files(lock: Lock) -> dict[str, str]:
    return {each.name: each.sha256 for each in lock.artifacts}


def _labels(space: Space, lock: Lock, names: Hybrid) -> dict[str, tuple[str, ...]]:
    """Return the only release that each of these packages may take."""
    labels = _labels_of(space, lock)
    known = (name for name in names if name in space.universe.releases)
    return {name: (labels[name],) if name in labels else () for name in known}


def _labels_of(space: Space, lock: Lock) -> dict[str, str]:
    files = _files(lock)
    return {
        name: each.label
        for name, releases in space.universe.releases.items()
        for each in releases
        if files.get(name) == each.artifact.sha256
    }


def hybrids(
    index: PackageIndex, good: Lock, bad: Lock, target: Target, policy: Policy, progress: Progress
) -> Hybrids:
    """Return the valid stacks between two.

    A pair that is the same version in two files, and a package that only one of the stacks has
    and others require, follow from what else changes.
    """
    files = _files(good), _files(bad)
    versions = good.versions, bad.versions
    common = sorted(files[0].keys() & files[1].keys())
    only = sorted(files[0].keys() ^ files[1].keys())
    varied = [name for name in common if versions[0][name] != versions[1][name]]
    hashes = {n: frozenset(f[n] for f in files if n in f) for n in (*common, *only)}
    requirements = Requirements(
        requirements=tuple(parse_requirement(name) for name in common),
        policy=replace(
            policy,
            prereleases=Prereleases.ALLOW,
            hashes=tuple((name, each) for name, each in hashes.items() if all(each)),
        ),
    )
    try:
        space = resolve(index, requirements, target, progress=progress)
    except ResolutionError as error:
        progress.note(f"No stack between the two can be installed: {error.why.splitlines()[0]}")
        space = None
    reached = () if space is None else space.universe.releases
    optional = [name for name in only if name not in reached]
    return Hybrids(good=good, bad=bad, packages=(*varied, *optional), space=space)


@dataclass(slots=True, kw_only=True)
class Releases:
    """Stacks that differ in the release of one package: a hybrid holds all up to one release.

    locks: of each release after that of the good stack, in order; None where it cannot be
        installed. The last one is the bad release.
    """

    name: str
    locks: Mapping[str, Lock | None]
    unusable: set[Hybrid] = field(default_factory=set)

    @property
    def packages(self) -> tuple[str, ...]:
        """Return the releases, in order."""
        return tuple(self.locks)

    def find(self, include: Hybrid, exclude: Hybrid) -> Hybrid | None:
        """Return the shortest row of releases with all of ``include`` and none of ``exclude``."""
        order = self.packages
        least = max((order.index(each) + 1 for each in include), default=0)
        most = min((order.index(each) for each in exclude), default=len(order))
        for count in range(least, most + 1):
            found = frozenset(order[:count])
            usable = count == 0 or self.locks[order[count - 1]] is not None
            if usable and found not in self.unusable:
                return found
        return None

    def lock(self, hybrid: Hybrid) -> Lock:
        """Return the stack with the last one of these releases."""
        lock = self.locks[self.packages[len(hybrid) - 1]]
        assert lock is not None  # noqa: S101 # find returns no other
        return lock

    def hybrid(self, lock: Lock) -> Hybrid | None:
        """Return the releases up to that of a lock; None where it is not one of these stacks."""
        ids = [each.id if each else None for each in self.locks.values()]
        return frozenset(self.packages[: ids.index(lock.id) + 1]) if lock.id in ids else None


def releases_between(
    index: PackageIndex, found: Hybrids, name: str, target: Target, policy: Policy,
    progress: Progress,
) -> Releases:  # fmt: skip
    """Return the stacks with each release of a package from the good one to the bad one.

    Other packages are as in the good stack, where the release admits that; else as in the bad one.
    """
    ends = found.good.versions[name], found.bad.versions[name]
    low, high = sorted(ends, key=parsed_version)
    ours = {each.name: each for each in (*found.bad.artifacts, *found.good.artifacts)}
    hashes = [
        (each, frozenset(f[each] for f in (_files(found.good), _files(found.bad)) if each in f))
        for each in ours
        if each != name
    ]
    early = any(parsed_version(each).is_prerelease for each in ends)
    common = sorted(_files(found.good).keys() & _files(found.bad).keys())
    requirements = Requirements(
        requirements=tuple(parse_requirement(each) for each in common),
        constraints=(parse_requirement(f"{name}>={_public(low)},<={_public(high)}"),),
        policy=replace(
            policy,
            prereleases=Prereleases.ALLOW,
            hashes=tuple(hashes),
        ),
    )
    space = resolve(index, requirements, target, progress=progress)
    steps = [
        each
        for each in space.universe.releases[name]
        if each.version not in ends and (early or not parsed_version(each.version).is_prerelease)
    ]
    steps.sort(key=lambda each: parsed_version(each.version), reverse=low != ends[0])
    preferred = _labels_of(space, found.good)
    locks: dict[str, Lock | None] = {
        each.version: space.newest({name: (each.label,)}, preferred=preferred) for each in steps
    }
    return Releases(name=name, locks=locks | {ends[1]: _single(found, name)})


def _single(found: Hybrids, name: str) -> Lock:
    """Return the stack with the bad release of one package and as few other changes as possible."""
    hybrid = found.find(frozenset([name]), frozenset())
    return found.bad if hybrid is None else found.lock(hybrid)


def _public(version: str) -> str:
    return version.partition("+")[0]
