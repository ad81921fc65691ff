"""What was released since the last night, and the pairs of stacks that separate its effect."""

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

from packaging.specifiers import SpecifierSet
from packaging.utils import parse_wheel_filename
from packaging.version import Version

from stackgen.errors import ResolutionError
from stackgen.model.packages import Artifact, Target

Pins = Mapping[str, str]
"""The version of each package of a stack."""
Resolve = Callable[[Sequence[str], Sequence[str]], Pins]
"""Returns the newest stack of requirements within constraints, or raises ResolutionError."""


class EventKind(str, Enum):
    """What happened to a package or a release."""

    RELEASED = "released"
    BACK = "offered again"
    FILES = "new files"
    YANKED = "yanked"
    UNYANKED = "no longer yanked"
    GONE = "gone"
    WAITING = "no wheel for this platform yet"
    STATUS = "project status"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleaseFiles:
    """The files of one release.

    fitting: digest of the names of those that can be installed on the base; "" where none can.
    yanked: whether all of these are yanked (PEP 592). reason: why; "" where the index has none.
    uploaded: when the first of them was, ISO 8601; "" where the index does not say.
    """

    fitting: str
    yanked: bool = False
    reason: str = ""
    uploaded: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PackagePage:
    """A package's final releases by version, and the status of its project (PEP 792)."""

    releases: Mapping[str, ReleaseFiles]
    status: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """What happened since the last night. version: "" of a whole package."""

    kind: EventKind
    package: str
    version: str = ""
    detail: str = ""

    @property
    def text(self) -> str:
        """Return it in words."""
        what = " ".join(filter(None, (self.package, self.version)))
        return f"{what}: {self.kind.value}{f' ({self.detail})' if self.detail else ''}"


def package_page(
    artifacts: Iterable[Artifact], target: Target, *, specifier: str = "", status: str = ""
) -> PackagePage:
    """Return the final releases of a package that a specifier admits, and which fit a target."""
    files: dict[str, list[Artifact]] = {}
    allowed = SpecifierSet(specifier)
    for each in artifacts:
        version = Version(each.version)
        if each.is_wheel and not version.is_prerelease and version in allowed:
            files.setdefault(each.version, []).append(each)
    tags = frozenset(target.tags)
    return PackagePage(
        releases={
            version: _release(found, tags, target.python)
            for version, found in sorted(files.items(), key=lambda each: Version(each[0]))
        },
        status=status,
    )


def _release(files: Iterable[Artifact], tags: frozenset[str], python: str) -> ReleaseFiles:
    fitting = [each for each in files if _fits(each, tags, python)]
    names = "\n".join(sorted(each.filename for each in fitting))
    reasons = [" ".join(each.yanked.split()) for each in fitting if each.yanked]
    uploads = sorted(each.uploaded for each in fitting if each.uploaded)
    return ReleaseFiles(
        fitting=hashlib.sha256(names.encode()).hexdigest()[:12] if fitting else "",
        yanked=bool(fitting) and all(each.yanked is not None for each in fitting),
        reason=reasons[0] if reasons else "",
        uploaded=uploads[0] if uploads else "",
    )


def _fits(artifact: Artifact, tags: frozenset[str], python: str) -> bool:
    try:
        _, _, _, own = parse_wheel_filename(artifact.filename)
        admitted = SpecifierSet(artifact.requires_python or "").contains(python, prereleases=True)
    except ValueError:  # of a file's name, a specifier, or a number of too many digits
        return False
    return admitted and bool({str(tag) for tag in own} & tags)


def changes(name: str, before: PackagePage, now: PackagePage | None) -> Iterator[Event]:
    """Yield what happened to a package since its page was ``before``, oldest release first."""
    if now is None:
        yield Event(kind=EventKind.GONE, package=name, detail="no index has this package")
        return
    if now.status != before.status:
        yield Event(kind=EventKind.STATUS, package=name, detail=now.status or "active")
    for version, files in now.releases.items():
        known = before.releases.get(version, ReleaseFiles(fitting=""))
        kind = None
        if files.fitting and not known.fitting:
            kind = EventKind.YANKED if files.yanked else EventKind.RELEASED
        elif files.yanked != known.yanked:
            kind = EventKind.YANKED if files.yanked else EventKind.UNYANKED
        elif files.fitting != known.fitting:
            kind = EventKind.FILES if files.fitting else EventKind.GONE
        elif version not in before.releases and not files.fitting:
            kind = EventKind.WAITING
        if kind is not None:
            why = files.reason if kind is EventKind.YANKED else ""
            yield Event(kind=kind, package=name, version=version, detail=why)
    for version, known in before.releases.items():
        if version not in now.releases and known.fitting:
            yield Event(kind=EventKind.GONE, package=name, version=version)


def without_last(page: PackagePage, count: int) -> PackagePage:
    """Return a page as it was before its last releases that fit, so that they are new."""
    usable = [v for v, files in page.releases.items() if files.fitting and not files.yanked]
    last = set(usable[-count:]) if count else set()
    kept = {version: files for version, files in page.releases.items() if version not in last}
    return PackagePage(releases=kept, status=page.status)


def predecessor(page: PackagePage, version: str, unusable: Iterable[str]) -> str:
    """Return the newest release before a version that is neither yanked nor unusable, or ""."""
    excluded = set(unusable)
    older = [
        each
        for each, files in page.releases.items()
        if files.fitting
        and not files.yanked
        and each not in excluded
        and Version(each) < Version(version)
    ]
    return max(older, key=Version, default="")


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """Two stacks: before a change and after it."""

    old: Pins
    new: Pins

    @property
    def changes(self) -> tuple[tuple[str, str | None, str | None], ...]:
        """Return the packages in which they differ, with both versions; None: absent."""
        names = sorted(self.old.keys() | self.new.keys())
        both = ((name, self.old.get(name), self.new.get(name)) for name in names)
        return tuple(each for each in both if each[1] != each[2])


def release_pair(
    resolve: Resolve,
    requirements: Sequence[str],
    reference: Pins,
    *,
    package: str,
    version: str,
    previous: str,
) -> Pair:
    """Return the stacks with a release and with its predecessor, all else equal where possible.

    All stacks satisfy the requirements; the reference is the one that the last night ended with.

    Raises:
        ResolutionError: no stack has the release, or its predecessor.
    """
    new = _nearest(resolve, [*requirements, f"{package}=={version}"], reference, package)
    wanted = [*requirements, f"{package}=={previous}"]
    try:
        old = resolve(wanted, _pins(new, package))
    except ResolutionError:  # both versions need others: these change together
        old = _nearest(resolve, wanted, reference, package)
    return Pair(old=old, new=new)


def _nearest(resolve: Resolve, requirements: Sequence[str], reference: Pins, package: str) -> Pins:
    """Return a stack of the requirements that differs from the reference in as little as possible.

    Raises:
        ResolutionError: there is none at all.
    """
    try:
        return resolve(requirements, _pins(reference, package))
    except ResolutionError:
        free = resolve(requirements, [])
    kept = [
        f"{name}=={version}"
        for name, version in reference.items()
        if name != package and free.get(name, version) == version
    ]
    found = free
    for name, version in reference.items():
        if name != package and free.get(name, version) != version:
            try:
                found = resolve(requirements, [*kept, f"{name}=={version}"])
            except ResolutionError:
                continue
            kept.append(f"{name}=={version}")
    return found


def _pins(stack: Pins, without: str) -> list[str]:
    return [f"{name}=={version}" for name, version in stack.items() if name != without]


def stack_text(pins: Pins, first: Sequence[str] = ()) -> str:
    """Return a stack as a command line names it; packages that come first give it its name."""
    order = {name: place for place, name in enumerate(first)}
    names = sorted(pins, key=lambda name: (order.get(name, len(order)), name))
    return " ".join(f"{name}=={pins[name]}" for name in names)
