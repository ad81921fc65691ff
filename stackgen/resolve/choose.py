"""Which stacks of a space are explored, and in which order: newest first."""

from collections.abc import Iterable, Mapping, Sequence
from enum import Enum

from stackgen.resolve.dependencies import parsed_version
from stackgen.resolve.space import Slice


class Granularity(str, Enum):
    """Which versions are told apart: of each minor release the newest patch alone, or every one."""

    MINOR = "minor"
    PATCH = "patch"


class Completion(str, Enum):
    """How packages that are not varied are chosen.

    NEWEST: the newest version at each decision, dependents first.
    CONTEMPORARY: the same, of what was uploaded at most a year after the varied release.
    NEWEST_WORKING: as NEWEST; where that does not run, with as little held back as it takes.
    """

    NEWEST = "newest"
    CONTEMPORARY = "contemporary"
    NEWEST_WORKING = "newest-working"


def newest_first(
    slices: Sequence[Slice], *, granularity: Granularity = Granularity.MINOR
) -> tuple[Slice, ...]:
    """Order the choices of the varied packages so that any first n of them are a fair start.

    The newest choice comes first. A choice is the later, the more steps back it takes: each
    package counts its steps among the versions that the packages before it leave open, so that
    every package is varied early and not just the last one.

    Args:
        slices: every feasible choice, as ``Space.slices`` returns them (newest first).
        granularity: which versions are told apart.
    """
    steps = dict(_steps(slices, 0, 0, granularity is Granularity.PATCH))
    place = {each: number for number, each in enumerate(slices)}
    return tuple(sorted(steps, key=lambda each: (steps[each], place[each])))


def _steps(
    slices: Sequence[Slice], depth: int, back: int, patches: bool
) -> Iterable[tuple[Slice, int]]:
    """Yield each kept slice with the number of steps that it lies behind the newest one."""
    groups: dict[str, list[Slice]] = {}
    for each in slices:
        if depth >= len(each.varied):
            yield each, back
        else:
            groups.setdefault(_label(each, depth), []).append(each)
    for step, version in enumerate(groups if patches else _newest_patches(groups)):
        yield from _steps(groups[version], depth + 1, back + step, patches)


def _label(choice: Slice, depth: int) -> str:
    """Return the version of a varied package by its place; "" where it is absent."""
    if choice.absent:
        return dict(choice.versions).get(choice.varied[depth], "")
    return choice.versions[depth][1]


def _newest_patches(labels: Iterable[str]) -> tuple[str, ...]:
    """Return the first version of each minor release of each index, in the order given."""
    kept: dict[tuple[object, ...], str] = {}
    for label in labels:
        text, _, index = label.partition("@")
        version = parsed_version(text) if text else None
        minor = (version.epoch, version.release[:2], index) if version else ()
        kept.setdefault(minor, label)
    return tuple(kept.values())


def contemporaries(
    releases: Mapping[str, Sequence[tuple[str, str | None]]], *, newest_upload: str
) -> Mapping[str, frozenset[str]]:
    """Return, by package, the versions uploaded no later than a moment.

    Args:
        releases: by package, (version, upload time as ISO 8601 or None) pairs.
        newest_upload: ISO 8601; versions without an upload time are kept.

    Packages of which nothing would be left keep every version.
    """
    found = {}
    for name, pairs in releases.items():
        kept = frozenset(
            version for version, time in pairs if time is None or time <= newest_upload
        )
        if kept:
            found[name] = kept
    return found
