"""Universes that were worked out before, for the same request on the same pages.

Requests come again: ``resolve`` before ``explore``, a night after a night. The pages are then read
from the cache, to know that they are the same, but no version and no requirement is parsed again.
An entry counts only where all that it follows from is the same: the code, the request, the target
and, by digest, each page that was needed, none of them older than an index takes from its cache.
"""

import json
import sys
import zlib
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from enum import Enum
from functools import cache
from hashlib import sha256
from itertools import islice, starmap
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement

import packaging
from stackgen import resolve
from stackgen.index.client import PackageIndex
from stackgen.index.metadata import UNREADABLE
from stackgen.model.files import COLUMNS, Coded, Files
from stackgen.model.packages import Exclusion, Release, Target
from stackgen.resolve import Requirements, Universe
from stackgen.resolve.closure import Filled
from stackgen.resolve.dependencies import Dependency

_LEVEL = 1  # Deflate: the fastest takes most of it.


def universe_key(request: Requirements, target: Target, *, all_prereleases: bool) -> str:
    """Return what identifies a question to an index; "" where its answer is not cached.

    A file at an address, and what is built from a source distribution, is on no page.
    """
    roles = (each for role in request.alternatives for each in role)
    every = (*request.requirements, *request.overrides, *roles)
    if request.policy.allow_build or any(each.url for each in every):
        return ""
    content = [_plain(request), _plain(target), all_prereleases, _code()]
    return sha256(json.dumps(content).encode()).hexdigest()


def load_universe(index: PackageIndex, key: str) -> Universe | None:
    """Return the universe of a question where the index still offers what it was made of."""
    content = index.recall(key) if key else None
    try:
        return None if content is None else decode(content)
    except (zlib.error, ValueError, LookupError, TypeError):
        return None  # it is worked out, and stored again


def store_universe(index: PackageIndex, key: str, universe: Universe, names: Iterable[str]) -> None:
    """Store a universe with the packages whose pages it was made of.

    Not one with files that could not be read: next time they may be.
    """
    left_out = (each for of in universe.excluded.values() for each in of)
    if key and not any(each.reason.startswith(UNREADABLE) for each in left_out):
        index.remember(key, names, encode(universe))


def _plain(value: Any) -> object:
    """Return a value as JSON holds it: equal ones alike, whatever the order of their sets."""
    if isinstance(value, Enum):
        return value.value
    if is_dataclass(value):
        return [_plain(getattr(value, each.name)) for each in fields(value)]
    if isinstance(value, frozenset):
        return sorted(map(str, value))
    if isinstance(value, tuple):
        return list(map(_plain, value))
    return str(value) if isinstance(value, Requirement) else value


@cache
def _code() -> list[object]:
    """Return what identifies the code that works universes out."""
    folders = (Path(resolve.__file__).parent, Path(__file__).parent)
    files = sorted(file for folder in folders for file in folder.glob("*.py"))
    states = [(str(file), file.stat()) for file in files]
    own = [[name, state.st_size, state.st_mtime_ns] for name, state in states]
    return [sys.version, packaging.__version__, own]


def encode(universe: Universe) -> bytes:
    """Return a universe in the form in which it is cached: what comes again is written once."""
    releases = [each for of in universe.releases.values() for each in of]
    artifacts, lines, needs = _Numbered(), _Numbered(), _Numbered()
    rows = [[artifacts(each.artifact), lines(each.requires_dist), each.label] for each in releases]
    document = {
        "roots": _pairs(universe.roots),
        "limits": _pairs(universe.limits),
        "releases": {name: len(of) for name, of in universe.releases.items()},
        "rows": rows,
        "needs": {
            name: [needs(_pairs(each)) for each in of] for name, of in universe.needs.items()
        },
        "excluded": {
            name: [[each.name, each.version, each.reason] for each in of]
            for name, of in universe.excluded.items()
        },
        "unknown": sorted(universe.unknown),
        "fitting": sorted(universe.fitting),
        "flags": [universe.prefers_final, universe.has_more],
        "roles": universe.roles,
        "filled": [
            [each.chosen, _pairs(each.roots), sorted(each.barred)] for each in universe.filled
        ],
        "artifacts": _columns(Files.of(artifacts.values)),
        "lines": lines.values,
        "every need": needs.values,
    }
    return zlib.compress(json.dumps(document).encode(), _LEVEL)


def decode(content: bytes) -> Universe:
    """Return what was encoded.

    Raises:
        ValueError, LookupError, TypeError, zlib.error: it is not what `encode` wrote.
    """
    found = json.loads(zlib.decompress(content))
    artifacts = tuple(Files({name: Coded(*found["artifacts"][name]) for name in COLUMNS}))
    lines = [tuple(map(sys.intern, each)) for each in found["lines"]]
    needs = [_dependencies(each) for each in found["every need"]]
    every = (
        Release(artifact=artifacts[artifact], requires_dist=lines[line], label=label)
        for artifact, line, label in found["rows"]
    )
    prefers_final, has_more = found["flags"]
    return Universe(
        roots=_dependencies(found["roots"]),
        limits=_dependencies(found["limits"]),
        releases={name: tuple(islice(every, count)) for name, count in found["releases"].items()},
        needs={name: tuple(needs[each] for each in of) for name, of in found["needs"].items()},
        excluded={
            name: tuple(Exclusion(name=x, version=version, reason=why) for x, version, why in of)
            for name, of in found["excluded"].items()
        },
        unknown=frozenset(found["unknown"]),
        fitting=frozenset(found["fitting"]),
        prefers_final=prefers_final,
        has_more=has_more,
        roles=tuple(found["roles"]),
        filled=tuple(
            Filled(chosen=tuple(chosen), roots=_dependencies(roots), barred=frozenset(barred))
            for chosen, roots, barred in found["filled"]
        ),
    )


class _Numbered:
    """Numbers values in the order in which they first appear."""

    def __init__(self) -> None:
        self._numbers: dict[Any, int] = {}

    def __call__(self, value: Hashable) -> int:
        return self._numbers.setdefault(value, len(self._numbers))

    @property
    def values(self) -> list[Any]:
        return list(self._numbers)


def _pairs(needs: Sequence[Dependency]) -> tuple[tuple[str, str], ...]:
    return tuple((each.package, each.specifier) for each in needs)


def _dependencies(pairs: Iterable[Sequence[str]]) -> tuple[Dependency, ...]:
    return tuple(starmap(_dependency, pairs))


@cache
def _dependency(package: str, specifier: str) -> Dependency:
    """Return one object for equal dependencies: most releases of a package share them."""
    return Dependency(package, specifier)


def _columns(files: Files) -> Mapping[str, list[object]]:
    coded = {name: files.coded(name) for name in COLUMNS}
    return {name: [list(each.values), list(each.codes)] for name, each in coded.items()}
