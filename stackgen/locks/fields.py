"""Typed access to what JSON and TOML hold, and the pieces that all lock formats share."""

import sys
from collections.abc import Iterable, Mapping

from packaging.markers import InvalidMarker, Marker
from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

from stackgen.values import LockedPackage

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

Table = Mapping[str, object]


class MalformedError(ValueError):
    """A lock file that is not what its format says; becomes a UsageError that names the file."""


def parse_toml(text: str) -> Table:
    """Parse TOML.

    Raises:
        MalformedError: it is not TOML.
    """
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise MalformedError(f"it is not TOML: {error}") from error


def table(value: object, where: str) -> Table:
    """Return the value as a table; an absent one is empty."""
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise MalformedError(f"{where} is not a table")
    return value


def tables(value: object, where: str) -> tuple[Table, ...]:
    """Return the value as a list of tables; an absent one is empty."""
    return tuple(table(item, where) for item in _items(value, where))


def texts(value: object, where: str) -> tuple[str, ...]:
    """Return the value as a list of strings; an absent one is empty."""
    return tuple(text(item, where) for item in _items(value, where))


def text(value: object, where: str) -> str:
    """Return the value as a string; an absent one is "".

    Raises:
        MalformedError: it is something else.
    """
    if value is None:
        return ""
    if not isinstance(value, str):
        raise MalformedError(f"{where} is not a string")
    return value


def package(
    *,
    name: str,
    version: str,
    hashes: Iterable[str] = (),
    marker: str = "",
    extras: Iterable[str] = (),
    direct: bool = False,
    group: str = "default",
) -> LockedPackage:
    """Return a locked package with names and versions in their normal form.

    Hashes come as ``sha256:...``; those of other algorithms are left out.

    Raises:
        MalformedError: the version or the marker is none.
    """
    found = {h.removeprefix("sha256:") for h in hashes if h.startswith("sha256:")}
    return LockedPackage(
        name=canonicalize_name(name),
        version=_version(name, version),
        hashes=tuple(sorted(found)),
        marker=checked_marker(name, marker),
        extras=tuple(sorted(extras)),
        direct=direct,
        group=group,
    )


def checked_marker(name: str, marker: str) -> str:
    """Return the marker as it came.

    Raises:
        MalformedError: it is not a PEP 508 marker.
    """
    try:
        if marker:
            Marker(marker)
    except InvalidMarker as error:
        raise MalformedError(f"the marker of {name} is not valid: {marker}") from error
    return marker


def requirement(name: str, *, specifier: str = "", extras: Iterable[str] = ()) -> str:
    """Return a PEP 508 line.

    Raises:
        MalformedError: the pieces make none.
    """
    wanted = ",".join(sorted(extras))
    line = f"{name}[{wanted}]{specifier}" if wanted else f"{name}{specifier}"
    return checked_requirement(line)


def checked_requirement(line: str) -> str:
    """Return the line in its normal spelling.

    Raises:
        MalformedError: it is not a PEP 508 requirement.
    """
    try:
        return str(Requirement(line))
    except InvalidRequirement as error:
        raise MalformedError(f"{line!r} is not a requirement") from error


def with_marker(line: str, marker: str) -> str:
    """Return the line with a marker behind it, if there is one."""
    return checked_requirement(f"{line} ; {marker}" if marker else line)


def names_of(lines: Iterable[str]) -> frozenset[str]:
    """Return the normalised names that PEP 508 lines ask for."""
    return frozenset(canonicalize_name(Requirement(line).name) for line in lines)


def _items(value: object, where: str) -> list[object]:
    if value is None:
        return []
    if not isinstance(value, list):
        raise MalformedError(f"{where} is not a list")
    return value


def _version(name: str, version: str) -> str:
    try:
        return str(Version(version))
    except InvalidVersion as error:
        raise MalformedError(f"{name} has no valid version: {version!r}") from error
