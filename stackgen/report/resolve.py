"""What a resolution found, in plain English."""

from collections import Counter
from collections.abc import Iterator, Sequence

from stackgen.model.packages import Lock
from stackgen.model.reports.resolution import Explained, Membership, PackageVersions, Resolution
from stackgen.report.tables import columns, counted
from stackgen.resolve.explain import format_stack_count

_MOST_VERSIONS = 6
_SOURCE = "source distribution"
DEFAULT = "newest of each choice"
"""How stacks are listed by default: then all packages are shown."""


def resolution_text(found: Resolution) -> str:
    """Return the count, the versions of each package, and stacks; or the answer to a query."""
    if found.membership is not None:
        return "\n".join(_membership(found, found.membership))
    lines = [_head(found)]
    if found.version_limit:
        lines.append(_bound(found))
    if found.explained is not None:
        return "\n".join([*lines, "", *_explained(found.explained)])
    return "\n".join([*lines, *_varied(found), *_stacks(found), *_further(found)])


def count_text(found: Resolution) -> str:
    """Return the number of stacks, in digits; with ``>=`` before it where it is a lower bound."""
    return f"{'' if found.exact else '>='}{found.count}"


def stack_text(lock: Lock) -> str:
    """Return the packages of a stack, a line each."""
    rows = [(a.name, a.version, "" if a.is_wheel else _SOURCE) for a in lock.artifacts]
    return "\n".join(columns(rows, indent=""))


def _head(found: Resolution) -> str:
    requested = ", ".join(found.requirements)
    bound = "" if found.exact else "at least "
    return f"{requested}: {bound}{format_stack_count(found.count)} on {_target(found)}"


def _target(found: Resolution) -> str:
    platform = next((t for t in found.target.tags if "-linux_" not in t), "-any").rpartition("-")[2]
    return f"Python {found.target.python} ({platform})"


def _bound(found: Resolution) -> str:
    return (
        "A lower bound: the space is too wide to be counted in full. Of each package the newest "
        f"{found.version_limit} versions were counted, and older ones where your requirements "
        "need them."
    )


def _varied(found: Resolution) -> Iterator[str]:
    yield ""
    rows = [_row(each) for name in found.varied for each in found.packages if each.name == name]
    yield from columns(rows)
    for each in found.packages:
        yield from _left_out(each)


def _left_out(package: PackageVersions) -> Iterator[str]:
    """Yield why final versions that the user admits are no candidates."""
    by_reason: dict[str, list[str]] = {}
    for each in package.left_out:
        if not each.reason.startswith("a prerelease"):
            by_reason.setdefault(each.reason, []).append(each.version)
    for reason, versions in by_reason.items():
        yield f"  {package.name} {_versions(versions)} left out ({len(versions)}): {reason}"


def _further(found: Resolution) -> Iterator[str]:
    further = sorted(each.name for each in found.packages if each.name not in found.varied)
    if further and found.listed == DEFAULT:
        yield ""
        yield f"Versions of the {len(further)} further packages in these stacks:"
        by_name = {each.name: each for each in found.packages}
        yield from columns([_row(by_name[name]) for name in further])


def _row(each: PackageVersions) -> tuple[str, str, str]:
    return each.name, f"{len(each.versions):,}", _versions(each.versions)


def _versions(versions: Sequence[str]) -> str:
    if len(versions) <= 2:
        return ", ".join(versions)
    return f"{versions[-1]} to {versions[0]}"


def _stacks(found: Resolution) -> Iterator[str]:
    varied = _and(found.varied) or "your requirements"
    yield ""
    patches = f" ({found.patches:,} with all patches)" if found.patches > found.choices else ""
    yield f"{counted(found.choices, 'choice')} of {varied}{patches}; {found.listed}:"
    rows = [
        (
            ", ".join(_version(each.lock, *pair) for pair in each.varied) or "the only one",
            counted(len(each.lock.artifacts), "package"),
            format_stack_count(each.completions) if each.completions else "",
        )
        for each in found.stacks
    ]
    yield from columns(rows)


def _version(lock: Lock, name: str, version: str) -> str:
    """Return a package with its version, and whether it would have to be built."""
    sources = {each.name for each in lock.artifacts if not each.is_wheel}
    return f"{name} {version} ({_SOURCE})" if name in sources else f"{name} {version}"


def _and(names: Sequence[str]) -> str:
    *first, last = names or ("",)
    return f"{', '.join(first)} and {last}" if first else last


def _explained(found: Explained) -> Iterator[str]:
    yield f"{found.query}: in {'' if found.exact else 'at least '}{format_stack_count(found.count)}"
    if found.versions:
        yield f"  versions in stacks ({len(found.versions)}): {_listed(found.versions)}"
    if found.in_none:
        yield f"  in no stack, by what is required of it or by it: {_listed(found.in_none)}"
    if found.not_counted:
        yield f"  not counted, as the space was cut: {_listed(found.not_counted)}"
    reasons = Counter(each.reason for each in found.left_out)
    for reason, count in reasons.most_common():
        names = [each.version for each in found.left_out if each.reason == reason]
        yield f"  left out ({count}), {reason}: {_listed(names)}"


def _listed(versions: Sequence[str]) -> str:
    if len(versions) <= _MOST_VERSIONS:
        return ", ".join(versions)
    first = ", ".join(versions[: _MOST_VERSIONS - 1])
    return f"{first}, ... {versions[-1]}"


def _membership(found: Resolution, lock: Membership) -> Iterator[str]:
    requested = ", ".join(found.requirements)
    if lock.forbidden:
        yield f"{lock.path} holds none of the stacks of {requested}."
        yield f"  why: {lock.forbidden}"
        yield f"  fix: {lock.fix}"
    elif lock.missing:
        yield f"{lock.path} holds none of the stacks of {requested}: it lacks packages."
        yield f"  why: its versions need {', '.join(lock.missing)} as well"
        yield "  fix: lock it anew with the tool that wrote it"
    else:
        yield f"{lock.path} holds one of the stacks of {requested} on {_target(found)}."
    if lock.superfluous:
        yield f"  it holds besides, required by nothing here: {', '.join(lock.superfluous)}"
