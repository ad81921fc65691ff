"""Typed access to what JSON and TOML hold, and the pieces that all lock formats share."""

import json
import re
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from typing import TypeVar
from urllib.parse import unquote, urlsplit

from packaging.markers import InvalidMarker, Marker
from packaging.requirements import InvalidRequirement, Requirement
from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

from stackgen.model import toml
from stackgen.model.packages import LockedPackage

Table = Mapping[str, object]

_LONG = 200
_DIGITS = {"sha256": 64, "sha384": 96, "sha512": 128}
_OF_VERSION = "(?:python_version|python_full_version|implementation_version)"
_SIGN = "[<>=!~]=?=?"
_VERSION_TERM = re.compile(
    rf"""{_OF_VERSION}\s*(?P<sign>{_SIGN})\s*"(?P<value>[^"]*)"|"""
    rf""""(?P<first>[^"]*)"\s*(?P<mirrored>{_SIGN})\s*{_OF_VERSION}"""
)


class MalformedError(ValueError):
    """A lock file that is not what its format says; becomes a UsageError that names the file."""


def parse_toml(text: str) -> Table:
    """Parse TOML.

    Raises:
        MalformedError: it is not TOML.
    """
    try:
        return toml.loads(text)
    except toml.TOMLDecodeError as error:
        raise MalformedError(f"it is not TOML: {error}") from error
    except RecursionError as error:
        raise MalformedError("it is TOML that is nested too deeply") from error


def parse_json(text: str) -> object:
    """Parse JSON.

    Raises:
        MalformedError: it is not JSON.
    """
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        kind = "broken JSON" if text.lstrip().startswith("{") else "not JSON"
        raise MalformedError(f"it is {kind}: {error}") from error
    except RecursionError as error:
        raise MalformedError("it is JSON that is nested too deeply") from error


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


def name_of(entry: Table) -> str:
    """Return the name of a package, as its entry spells it."""
    return text(entry.get("name"), "a package's name")


def hashes_of(files: object, name: str) -> tuple[str, ...]:
    """Return the hashes of a package's files, each of which is a table."""
    found = tables(files, f"the files of {name}")
    return tuple(text(each.get("hash"), f"a hash of {name}") for each in found)


def wheels_of(files: object, name: str) -> Iterator[str]:
    """Yield the names of the wheels among a package's files, each of which is a table.

    Locks give a file's name (Poetry, PDM), its address (uv, PDM) or its path (uv).
    """
    for each in tables(files, f"the files of {name}"):
        places = (text(each.get(key), f"a file of {name}") for key in ("file", "url", "path"))
        names = (unquote(urlsplit(place).path).rpartition("/")[2] for place in places)
        yield from (found for found in names if found.endswith(".whl"))


def package(
    *,
    name: str,
    version: str,
    hashes: Iterable[str] = (),
    wheels: Iterable[str] = (),
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
        wheels=tuple(wheels),
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
    except (InvalidMarker, RecursionError) as error:
        raise MalformedError(f"the marker of {name} is not valid: {shortened(marker)}") from error
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
    except (InvalidRequirement, RecursionError) as error:
        raise MalformedError(f"{shortened(line)!r} is not a requirement") from error


def check_versions_in(marker: Marker | None) -> None:
    """Refuse a marker that compares a version with none: pip would compare them as words.

    Raises:
        MalformedError: it does.
    """
    for found in _VERSION_TERM.finditer(str(marker or "")):
        sign, value = found["sign"] or found["mirrored"], found["value"] or found["first"]
        try:
            SpecifierSet(f"{sign}{value}")
        except InvalidSpecifier as error:
            raise MalformedError(
                f"the marker compares a version with {value!r}, which is none: "
                f"{shortened(str(marker))}"
            ) from error


def checked_hash(text: str) -> str:
    """Return a hash as pip takes it: ``sha256:`` (or 384, 512) and its hexadecimal digits.

    Raises:
        MalformedError: it is none.
    """
    algorithm, _, digest = text.partition(":")
    digits = _DIGITS.get(algorithm)
    if digits is None:
        raise MalformedError(f"the hash {shortened(text)!r} is of none of {', '.join(_DIGITS)}")
    if not re.fullmatch(rf"[0-9a-fA-F]{{{digits}}}", digest):
        raise MalformedError(
            f"the hash {shortened(text)!r} is no {algorithm}: that has {digits} hexadecimal digits"
        )
    return f"{algorithm}:{digest.lower()}"


def shortened(text: str) -> str:
    """Return a text, or the beginning of a long one."""
    return text if len(text) <= _LONG else f"{text[:_LONG]}..."


def with_marker(line: str, marker: str) -> str:
    """Return the line with a marker behind it, if there is one."""
    return checked_requirement(f"{line} ; {marker}" if marker else line)


def names_of(lines: Iterable[str]) -> frozenset[str]:
    """Return the normalised names that PEP 508 lines require."""
    return frozenset(canonicalize_name(Requirement(line).name) for line in lines)


def _items(value: object, where: str) -> list[object]:
    if value is None:
        return []
    if not isinstance(value, list):
        raise MalformedError(f"{where} is not a list")
    return value


def is_version(text: str) -> bool:
    """Return whether a text is a version (PEP 440); behind ``===`` anything may stand."""
    try:
        Version(text)
    except InvalidVersion:
        return False
    return True


def _version(name: str, version: str) -> str:
    try:
        return str(Version(version))
    except InvalidVersion as error:
        raise MalformedError(f"{name} has no valid version: {version!r}") from error


Node = TypeVar("Node", bound=Hashable)
Edges = Callable[[Node], Iterable[tuple[Node, str]]]
# A way to a package holds where all markers on it hold; a package is installed where any way holds.
Way = frozenset[str]

_MOST_WAYS = 48


def reach(roots: Iterable[tuple[Node, str]], edges: Edges[Node]) -> dict[Node, str]:
    """Return every node that can be reached, and the marker under which it is.

    A marker is "" where a node always is reached, and where more ways lead to it than are worth
    following.

    edges: what a node leads to, and under which marker.
    """
    ways: dict[Node, set[Way]] = {}
    waiting = [(node, _way(marker)) for node, marker in roots]
    while waiting:
        node, way = waiting.pop()
        if _adds(ways.setdefault(node, set()), way):
            waiting += [(target, way | _way(marker)) for target, marker in edges(node)]
    return {node: _marker(found) for node, found in ways.items()}


def _way(marker: str) -> Way:
    return frozenset([marker]) if marker else frozenset()


def _adds(known: set[Way], way: Way) -> bool:
    """Add a way unless one with fewer conditions is known; return whether it was added."""
    if any(other <= way for other in known):
        return False
    if len(known) >= _MOST_WAYS:
        way = frozenset()
    known -= {other for other in known if way <= other}
    known.add(way)
    return True


def _marker(ways: set[Way]) -> str:
    if frozenset() in ways:
        return ""
    every = sorted(" and ".join(f"({marker})" for marker in sorted(way)) for way in ways)
    return every[0] if len(every) == 1 else " or ".join(f"({way})" for way in every)
