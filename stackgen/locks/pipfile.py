"""Pipfile.lock (pipenv), with the Pipfile beside it for what the user asked for."""

import json
from collections.abc import Iterator

from packaging.utils import canonicalize_name

from stackgen.locks import fields
from stackgen.locks.fields import MalformedError, Table
from stackgen.values import LockedPackage, LockFile

_GROUPS = {"default": "default", "develop": "dev"}  # other sections keep their names
_REPOSITORIES = ("git", "hg", "svn", "bzr")
_FILES = ("path", "file")


def read(text: str, *, path: str, companion: str | None) -> LockFile:
    """Read a Pipfile.lock.

    Raises:
        MalformedError: it is not one.
    """
    try:
        content = fields.table(json.loads(text), "the file")
    except json.JSONDecodeError as error:
        raise MalformedError(f"it is not JSON: {error}") from error
    requirements = tuple(_asked(companion)) if companion else ()
    direct = fields.names_of(requirements)
    sections = [name for name in content if name != "_meta"]
    entries = [
        (section, name, fields.table(entry, name))
        for section in sections
        for name, entry in fields.table(content[section], section).items()
    ]
    return LockFile(
        path=path,
        format="pipfile",
        packages=tuple(
            _package(section, name, entry, direct)
            for section, name, entry in entries
            if not _elsewhere(entry)
        ),
        requirements=requirements,
        requires_python=_requires_python(fields.table(content.get("_meta"), "_meta")),
        skipped=tuple(
            f"{name}: {_elsewhere(entry)}" for _, name, entry in entries if _elsewhere(entry)
        ),
    )


def _package(section: str, name: str, entry: Table, direct: frozenset[str]) -> LockedPackage:
    version = fields.text(entry.get("version"), f"the version of {name}")
    if not version.startswith("=="):
        raise MalformedError(f"{name} is not pinned: {version!r}")
    group = _GROUPS.get(section, section)
    return fields.package(
        name=name,
        version=version.lstrip("="),
        hashes=fields.texts(entry.get("hashes"), f"the hashes of {name}"),
        marker=fields.text(entry.get("markers"), f"the markers of {name}"),
        extras=fields.texts(entry.get("extras"), f"the extras of {name}"),
        direct=group == "default" and canonicalize_name(name) in direct,
        group=group,
    )


def _elsewhere(entry: Table) -> str:
    """Say where a package comes from that no index has; "" for those of an index."""
    if any(kind in entry for kind in _REPOSITORIES):
        return "comes from a repository, not from an index"
    return "comes from a file, not from an index" if any(k in entry for k in _FILES) else ""


def _requires_python(meta: Table) -> str:
    requires = fields.table(meta.get("requires"), "requires")
    if full := fields.text(requires.get("python_full_version"), "python_full_version"):
        return f"=={full}"
    minor = fields.text(requires.get("python_version"), "python_version")
    return f"=={minor}.*" if minor else ""


def _asked(companion: str) -> Iterator[str]:
    """Yield what the Pipfile asks for as PEP 508 lines; what is in no index is left out."""
    content = fields.parse_toml(companion)
    for name, wanted in fields.table(content.get("packages"), "packages").items():
        entry = {"version": wanted} if isinstance(wanted, str) else fields.table(wanted, name)
        if _elsewhere(entry):
            continue
        line = fields.requirement(
            name,
            specifier=_specifier(fields.text(entry.get("version"), name)),
            extras=fields.texts(entry.get("extras"), name),
        )
        yield fields.with_marker(line, fields.text(entry.get("markers"), name))


def _specifier(wanted: str) -> str:
    if wanted in ("", "*"):
        return ""
    return wanted if wanted[0] in "=<>!~" else f"=={wanted}"
