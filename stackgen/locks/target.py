"""Which packages of a lock are installed on a target."""

from packaging.markers import Marker
from packaging.specifiers import InvalidSpecifier, SpecifierSet

from stackgen.errors import UsageError
from stackgen.locks.reading import groups_in
from stackgen.model.packages import LockedPackage, LockFile, Target


def admits_python(lockfile: LockFile, python: str) -> bool:
    """Return whether a lock admits a Python, patch levels aside; without a range, it does."""
    try:
        specifier = SpecifierSet(lockfile.requires_python)
    except InvalidSpecifier:
        return True
    minor = ".".join(python.split(".")[:2])
    return specifier.contains(python, prereleases=True) or specifier.contains(minor)


def in_target(lockfile: LockFile, target: Target) -> tuple[LockedPackage, ...]:
    """Return the packages that the lock installs there by default, sorted by name.

    Other groups than the default one (dev, extras) are left out.

    Raises:
        UsageError: two versions of one package would be installed, or none of several: the lock
            cannot say which.
    """
    found: dict[str, LockedPackage] = {}
    replaced: dict[str, LockedPackage] = {}
    for package in lockfile.packages:
        if package.group != "default" or not _holds(package.marker, target):
            continue
        if package.unless and _holds(package.unless, target):
            replaced[package.name] = package
            continue
        other = found.setdefault(package.name, package)
        if other.version != package.version:
            raise UsageError(
                f"{lockfile.path} holds {package.name} {other.version} and {package.version}",
                why=f"both would be installed on Python {target.python}",
                fix="lock again for this Python, or export a requirements.txt for it",
            )
    for name in sorted(replaced.keys() - found.keys()):
        raise UsageError(
            f"{lockfile.path} holds several versions of {name}, and none is sure to be meant",
            why=f"no one of them is admitted by all that requires {name} on Python {target.python}",
            fix="lock again with a newer Poetry (2 or later), or run: poetry export",
        )
    return tuple(found[name] for name in sorted(found))


def _holds(marker: str, target: Target) -> bool:
    if not marker:
        return True
    # Groups were decided when the file was read (LockedPackage.group): here their terms are true.
    environment: dict[str, str | frozenset[str]] = {
        **target.environment,
        "dependency_groups": groups_in(marker),
        "extras": frozenset(),
        "extra": "",
    }
    return Marker(marker).evaluate(environment, context="lock_file")
