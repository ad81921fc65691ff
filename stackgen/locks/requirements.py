"""requirements.txt with pinned versions, as pip-tools, uv and pip freeze write it."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from packaging.requirements import InvalidRequirement, Requirement
from packaging.specifiers import SpecifierSet

from stackgen.locks import fields
from stackgen.locks.fields import MalformedError, logical_lines
from stackgen.model.packages import LockedPackage, LockFile

_HASH = re.compile(r"\s--hash[= ]\s*(\S+)")
_MADE_FOR = re.compile(r"#.*(?:with Python |--python-version[= ])(\d+\.\d+)")
_ELSEWHERE = re.compile(r"-e\s|--editable|[a-z]+\+|\.{0,2}/|https?:|file:")
_INCLUDES = re.compile(r"-r|-c|--requirement|--constraint")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Line:
    """A logical line: number of its first line, text without comments, whether -r asked for it."""

    number: int
    text: str
    direct: bool = False


def read(text: str, *, path: str, companion: str | None) -> LockFile:
    """Read a requirements.txt, with the requirements.in that it was made from.

    Raises:
        MalformedError: a line is none that pip knows; it names the line.
    """
    lines = list(_lines(text))
    requirements = tuple(_requirements(companion)) if companion else ()
    direct = fields.names_of(requirements)
    wanted = [line for line in lines if not line.text.startswith("-") or _elsewhere(line)]
    for line in lines:
        if _INCLUDES.match(line.text):
            raise MalformedError(f"line {line.number} includes another file: {line.text}")
    stated = [(line, _parsed(line)) for line in wanted if not _elsewhere(line)]
    return LockFile(
        path=path,
        format="requirements",
        packages=tuple(_package(line, each, direct) for line, each in stated if _pin(each)),
        unpinned=tuple((line.number, str(each)) for line, each in stated if not _pin(each)),
        requirements=requirements,
        requires_python=_made_for(text),
        skipped=tuple(
            f"line {line.number}: {line.text.split(' --hash')[0]} is not from an index"
            for line in wanted
            if _elsewhere(line)
        ),
    )


def _pin(wanted: Requirement) -> str:
    """Return the version that a requirement pins; "" where it pins none."""
    pins = [each for each in wanted.specifier if each.operator in ("==", "===")]
    if len(pins) != 1 or len(wanted.specifier) != 1 or pins[0].version.endswith("*"):
        return ""
    return pins[0].version


def _package(line: _Line, wanted: Requirement, direct: frozenset[str]) -> LockedPackage:
    try:
        hashes = [fields.checked_hash(text) for text in _HASH.findall(line.text)]
    except MalformedError as error:
        raise MalformedError(f"line {line.number}: {error}") from error
    found = fields.package(
        name=wanted.name,
        version=_pin(wanted),
        hashes=hashes,
        marker=str(wanted.marker or ""),
        extras=wanted.extras,
    )
    return replace(found, direct=line.direct or found.name in direct)


def _parsed(line: _Line) -> Requirement:
    text = _HASH.sub("", line.text).strip()
    try:
        found = Requirement(text)
    except (InvalidRequirement, RecursionError) as error:
        raise MalformedError(f"line {line.number} is not a requirement: {text[:60]!r}") from error
    try:
        fields.check_versions_in(found.marker)
    except MalformedError as error:
        raise MalformedError(f"line {line.number}: {error}") from error
    return found


def _lines(text: str) -> Iterator[_Line]:
    """Yield the lines that hold something, each with what the comments behind it say."""
    pending: _Line | None = None
    for line in logical_lines(text):
        included = bool(re.search(r"-r\s", line.comment))
        if line.text:
            if pending:
                yield pending
            pending = _Line(number=line.number, text=line.text, direct=included)
        elif pending and included:
            pending = replace(pending, direct=True)
    if pending:
        yield pending


def _elsewhere(line: _Line) -> bool:
    return bool(_ELSEWHERE.match(line.text)) or " @ " in line.text


def _requirements(companion: str) -> Iterator[str]:
    """Yield what requirements.in asks for; options and what is in no index are left out."""
    for line in _lines(companion):
        if not line.text.startswith("-") and not _elsewhere(line):
            yield str(_parsed(line))


def _made_for(text: str) -> str:
    """Return the Python that the tool's own header names, as a specifier."""
    found = _first(_MADE_FOR.search(line) for line in text.splitlines()[:6])
    return str(SpecifierSet(f"=={found.group(1)}.*")) if found else ""


def _first(matches: Iterable[re.Match[str] | None]) -> re.Match[str] | None:
    return next((match for match in matches if match), None)
