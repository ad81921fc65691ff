"""pylock.toml (PEP 751), read through packaging's own reader."""

import re
from collections.abc import Iterator

from packaging.pylock import Package, Pylock, PylockValidationError

from stackgen.locks import fields
from stackgen.locks.fields import MalformedError
from stackgen.values import LockedPackage, LockFile

_GROUP = re.compile(r"""["']([^"']+)["']\s+in\s+dependency_groups""")


def read(text: str, *, path: str, companion: str | None) -> LockFile:  # noqa: ARG001 one signature
    """Read a pylock.toml; the format does not say what was asked for.

    Raises:
        MalformedError: it is not one.
    """
    try:
        lock = Pylock.from_dict(fields.parse_toml(text))
    except PylockValidationError as error:
        raise MalformedError(f"it breaks the format: {error}") from error
    default_groups = frozenset(lock.default_groups or ())
    return LockFile(
        path=path,
        format="pylock",
        packages=tuple(
            _package(package, default_groups)
            for package in lock.packages
            if not package.is_direct and package.version is not None
        ),
        requires_python=str(lock.requires_python or ""),
        skipped=tuple(_skipped(lock)),
    )


def _package(package: Package, default_groups: frozenset[str]) -> LockedPackage:
    files = [*(package.wheels or ()), *([package.sdist] if package.sdist else ())]
    marker = str(package.marker or "")
    return fields.package(
        name=package.name,
        version=str(package.version),
        hashes=[f"sha256:{f.hashes['sha256']}" for f in files if "sha256" in f.hashes],
        marker=marker,
        group=_group(marker, default_groups),
    )


def _group(marker: str, default_groups: frozenset[str]) -> str:
    """Return "default" where the package is in a group that is installed by default, or in none."""
    groups = groups_in(marker)
    return "default" if not groups or groups & default_groups else min(groups)


def groups_in(marker: str) -> frozenset[str]:
    """Return the dependency groups that a marker names."""
    return frozenset(_GROUP.findall(marker))


def _skipped(lock: Pylock) -> Iterator[str]:
    for package in lock.packages:
        if package.is_direct:
            kind = "a repository" if package.vcs else "a file"
            yield f"{package.name}: comes from {kind}, not from an index"
        elif package.version is None:
            yield f"{package.name}: the lock states no version"
