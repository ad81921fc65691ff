"""What is installed in an environment, read as a lock: its distributions, by their metadata."""

import json
from collections.abc import Iterable, Iterator
from importlib.metadata import Distribution, distributions
from pathlib import Path

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from stackgen.errors import UsageError
from stackgen.locks.direct import FILE, REPOSITORY
from stackgen.model.packages import LockedPackage, LockFile

_SEEDS = frozenset({"pip", "setuptools", "wheel"})
"""What is put into an environment to install with, unless something in it requires it."""


def read_environment(path: Path) -> LockFile:
    """Read what a virtualenv, or the interpreter of one, has installed.

    Raises:
        UsageError: no packages are found there.
    """
    prefix = path.parent.parent if path.is_file() else path
    folders = sorted(
        each for each in prefix.glob("lib/python3*/*-packages") if each.name in _FOLDERS
    )
    found: dict[str, Distribution] = {}
    for each in distributions(path=[str(folder) for folder in folders]):
        found.setdefault(canonicalize_name(str(each.metadata["Name"] or "")), each)
    found.pop("", None)
    required = _required(found.values())
    own = {name: each for name, each in found.items() if name not in _SEEDS - required}
    if not own:
        raise UsageError(
            f"{path} has no packages installed",
            why="no lib/python3.*/site-packages in it holds the metadata of a distribution",
            fix="give the folder of a virtualenv, or its interpreter: --environment .venv",
        )
    requested = {n for n, each in own.items() if each.read_text("REQUESTED") is not None}
    packages = [_package(name, own[name], direct=name in requested) for name in sorted(own)]
    locked = tuple(each for each in packages if each)
    return LockFile(
        path=str(path),
        format="environment",
        packages=locked,
        requirements=tuple(each.name for each in locked if each.direct),
        requires_python=_python(folders),
        skipped=tuple(_skipped(own)),
    )


_FOLDERS = ("site-packages", "dist-packages")


def _required(found: Iterable[Distribution]) -> frozenset[str]:
    """Return the names that distributions require by default, whatever their markers say."""
    names = set()
    for each in found:
        for line in each.requires or ():
            try:
                wanted = Requirement(line)
            except InvalidRequirement:
                continue  # says nothing about a seed
            if "extra" not in str(wanted.marker or ""):
                names.add(str(canonicalize_name(wanted.name)))
    return frozenset(names)


def _package(name: str, found: Distribution, *, direct: bool) -> LockedPackage | None:
    """Return a distribution of an index; None where it is of another place, or has no version."""
    try:
        version = str(Version(found.version))
    except (ValueError, TypeError):
        return None
    if _origin(found):
        return None
    return LockedPackage(name=name, version=version, direct=direct)


def _skipped(found: dict[str, Distribution]) -> Iterator[str]:
    for name, each in sorted(found.items()):
        if origin := _origin(each):
            yield f"{name}: {origin}"
        elif _package(name, each, direct=False) is None:
            yield f"{name}: its metadata state no valid version"


def _origin(found: Distribution) -> str:
    """Return where a distribution came from if that is no index (PEP 610); "" where it is one."""
    text = found.read_text("direct_url.json")
    if text is None:
        return ""
    try:
        content = json.loads(text)
    except json.JSONDecodeError:
        return "comes from a place that its metadata do not state"
    if isinstance(content, dict) and "vcs_info" in content:
        return REPOSITORY
    return FILE


def _python(folders: Iterable[Path]) -> str:
    minors = {each.parent.name.removeprefix("python") for each in folders}
    minors = {each for each in minors if "." in each}
    return f"=={minors.pop()}.*" if len(minors) == 1 else ""
