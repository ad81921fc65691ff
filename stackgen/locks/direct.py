"""Direct references (PEP 440): wheels are accepted, anything else is skipped with a reason."""

import os
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import PurePath
from urllib.parse import unquote, urlsplit

from packaging.requirements import Requirement
from packaging.utils import InvalidWheelFilename, parse_wheel_filename

from stackgen.locks import fields
from stackgen.locks.fields import MalformedError, Table

REPOSITORY = "comes from a repository, not from an index"
FILE = "comes from a file, not from an index"
_NO_WHEEL = "is a project or a source archive, and no wheel"

_REPOSITORIES = ("git", "hg", "svn", "bzr")
_PLACES = ("url", "file", "path")
_FROM_REPOSITORY = re.compile(rf"({'|'.join(_REPOSITORIES)})[+:]")
_URL = re.compile(
    r"(https?|ftp|file|ssh):|(git|hg|svn|bzr)[+:]|[a-z][a-z0-9+.-]+://", re.IGNORECASE
)
USER_INFO = re.compile(r"//[^/@\s]+@")


@dataclass(frozen=True, slots=True)
class Skipped:
    """What no index can provide, in words; its name or its place comes first."""

    words: str


def without_credentials(text: str) -> str:
    """Return a text in which no URL shows a user's name or password."""
    return USER_INFO.sub("//***@", text)


def is_url(text: str) -> bool:
    """Return whether a text begins as a URL does; ``C:`` is a drive, and ``numpy:`` a mistake."""
    return bool(_URL.match(text))


def elsewhere(entry: Table) -> str:
    """Say where the entry of a TOML or JSON table comes from; "" for those of an index."""
    if any(kind in entry for kind in _REPOSITORIES):
        return REPOSITORY
    return FILE if any(kind in entry for kind in _PLACES) else ""


def from_table(name: str, entry: Table, *, folder: str, marker: str = "") -> str | Skipped:
    """Return the line for an entry that ``elsewhere`` knows: only a wheel can have one.

    Raises:
        MalformedError: the entry is not what its format says, or its place is unclear.
    """
    place = next((fields.text(entry[k], f"the {k} of {name}") for k in _PLACES if k in entry), "")
    if elsewhere(entry) == REPOSITORY or not _is_wheel(place):
        return Skipped(f"{name}: {elsewhere(entry)}")
    extras = fields.texts(entry.get("extras"), f"the extras of {name}")
    return _line(name, place, folder=folder, extras=extras, marker=marker)


def checked(line: str, *, folder: str) -> str | Skipped:
    """Return a PEP 508 line in its normal spelling; what it finds at a URL must be a wheel.

    Raises:
        MalformedError: it is not a PEP 508 line.
    """
    wanted = Requirement(fields.checked_requirement(line))
    if wanted.url is None:
        return str(wanted)
    if reason := _no_wheel(wanted.url):
        return Skipped(f"{wanted.name}: {without_credentials(wanted.url)} {reason}")
    marker = str(wanted.marker or "")
    return _line(wanted.name, wanted.url, folder=folder, extras=wanted.extras, marker=marker)


def from_place(place: str, *, folder: str, marker: str = "") -> str | Skipped:
    """Return the line for a wheel that stands in a file by its path or URL alone.

    Extras may stand behind it in brackets.

    Raises:
        MalformedError: it is a wheel by its ending, and by its name none.
    """
    found = re.fullmatch(r"(.+?)\s*(?:\[([^\]]*)\])?", place)
    bare, extras = (found[1], found[2]) if found else (place, None)
    if reason := _no_wheel(bare):
        return Skipped(f"{without_credentials(place)} {reason}")
    wanted = [each.strip() for each in (extras or "").split(",") if each.strip()]
    return _line(_named(bare), bare, folder=folder, extras=wanted, marker=marker)


def _no_wheel(place: str) -> str:
    """Say what a place holds; "" where that is a wheel."""
    if _FROM_REPOSITORY.match(place):
        return REPOSITORY
    return "" if _is_wheel(place) else _NO_WHEEL


def _is_wheel(place: str) -> bool:
    return _filename(place).lower().endswith(".whl")


def _filename(place: str) -> str:
    path = unquote(urlsplit(place).path) if is_url(place) else place
    return re.split(r"[/\\]", path)[-1]


def _named(place: str) -> str:
    try:
        return parse_wheel_filename(_filename(place))[0]
    except InvalidWheelFilename as error:
        raise MalformedError(f"{_filename(place)} is not the name of a wheel") from error


def _line(name: str, place: str, *, folder: str, extras: Iterable[str], marker: str) -> str:
    wanted = ",".join(sorted(extras))
    url = _absolute(place, folder)
    return fields.with_marker(f"{name}[{wanted}] @ {url}" if wanted else f"{name} @ {url}", marker)


def _absolute(place: str, folder: str) -> str:
    """Return the URL of a place; ``file:x.whl`` is a path with a scheme before it."""
    if is_url(place) and not re.match(r"file:(?!/)", place, re.IGNORECASE):
        return place
    path = PurePath(folder, re.sub(r"^file:", "", place, flags=re.IGNORECASE))
    if not path.is_absolute():
        raise MalformedError(f"{place} is a relative path, and it is not known to which folder")
    return PurePath(os.path.normpath(path)).as_uri()
