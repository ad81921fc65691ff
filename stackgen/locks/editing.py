"""Change a lock file of another tool by as few bytes as its format allows.

Text in, text out. What is not touched stays byte for byte: comments, order, line ends. Each result
is read again, and refused where it does not say exactly what was wanted, so that a file that is
laid out in an unknown way is never damaged.
"""

import difflib
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from packaging.requirements import Requirement
from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.utils import canonicalize_name

from stackgen.errors import UsageError
from stackgen.locks import edit_toml
from stackgen.locks.edit_pins import edit_pipfile, edit_requirements
from stackgen.locks.fields import MalformedError
from stackgen.locks.reading import admits_python, read_lock
from stackgen.model.packages import LockChange, LockedPackage, LockFile

_Edit = Callable[[str, Sequence[LockChange]], str]

_EDITS: Mapping[str, _Edit] = {
    "requirements": edit_requirements,
    "pipfile": edit_pipfile,
    "pylock": edit_toml.edit_pylock,
    "poetry": edit_toml.edit_poetry,
    "uv": edit_toml.edit_uv,
    "pdm": edit_toml.edit_pdm,
}

TOOL_COMMANDS: Mapping[str, tuple[str, ...]] = {
    "conda-lock": ("conda-lock", "lock", "--lockfile", "{path}", "--update", "{names}"),
    "pixi": ("pixi", "add", "--pypi", "{pins}"),
    "environment": ("uv", "pip", "install", "--python", "{path}", "{pins}"),
}
"""What changes a lock that is not written here: ``{names}`` and ``{pins}`` are one each a word.

conda-lock takes the versions of its source file, which has to pin them before.
"""


def tool_command(format_: str, path: str, changes: Iterable[LockChange]) -> tuple[str, ...]:
    """Return the command by which the own tool of a lock takes other versions."""
    kept = [each for each in changes if each.version]
    words = {
        "{path}": [path],
        "{names}": [each.name for each in kept],
        "{pins}": [f"{each.name}=={each.version}" for each in kept],
    }
    return tuple(word for part in TOOL_COMMANDS[format_] for word in words.get(part, [part]))


def writes(format_: str) -> bool:
    """Return whether locks of a format are changed here, and not by their own tool."""
    return format_ in _EDITS


def write_lock(text: str, lockfile: LockFile, changes: Sequence[LockChange]) -> str:
    """Return the text of a lock file with some packages changed, added or taken out.

    text: what the file holds, with its own line ends; lockfile: the same, read.

    Raises:
        UsageError: the format is written by its own tool alone, or this file cannot be changed
            safely; the file stays as it is.
    """
    edit = _EDITS.get(lockfile.format)
    if edit is None:
        raise _unwritable(lockfile, f"{lockfile.format} files are written by their own tool alone")
    _refuse_forks(lockfile, changes)
    _refuse_fewer_pythons(lockfile, changes)
    newline = "\r\n" if "\r\n" in text else "\n"
    if newline == "\r\n" and "\n" in text.replace("\r\n", ""):
        raise _unwritable(lockfile, "its lines end in two different ways")
    try:
        written = edit(text.replace("\r\n", "\n"), changes)
        problem = _problem(written, lockfile, changes)
    except MalformedError as error:
        raise _unwritable(lockfile, str(error)) from error
    if problem:
        raise _unwritable(lockfile, problem)
    return written.replace("\n", newline)


_LONG = 5_000
_FOR_EVERY_PYTHON = ("uv", "poetry", "pdm")
"""Formats whose tools take a release only where it is for every Python of the lock."""
_PYTHONS = tuple(f"3.{minor}" for minor in range(6, 20))
_LAST_PATCH = 29


def diff(old: str, new: str, path: str) -> str:
    """Return what changed, as a unified diff; "" where nothing did."""
    before, after = (each.replace("\r\n", "\n").split("\n") for each in (old, new))
    # Its shortcut for popular lines would show lines as changed that are the same.
    matcher = difflib.SequenceMatcher(None, before, after, autojunk=len(before) > _LONG)
    lines = [f"--- a/{path.lstrip('/')}", f"+++ b/{path.lstrip('/')}"]
    for group in matcher.get_grouped_opcodes(3):
        a, b = (group[0][1], group[-1][2]), (group[0][3], group[-1][4])
        lines.append(f"@@ -{a[0] + 1},{a[1] - a[0]} +{b[0] + 1},{b[1] - b[0]} @@")
        for tag, i1, i2, j1, j2 in group:
            if tag == "equal":
                lines += [f" {each}" for each in before[i1:i2]]
            else:
                lines += [f"-{each}" for each in before[i1:i2]]
                lines += [f"+{each}" for each in after[j1:j2]]
    return "\n".join(lines) + "\n" if len(lines) > 2 else ""


def write_constraints(
    changes: Iterable[LockChange], *, evidence: Mapping[str, Sequence[str]], head: Sequence[str]
) -> str:
    """Return a file of constraints, useful without stackgen.

    changes: each becomes a line; those taken out are named in a comment.
    evidence: what is known about a package, in lines of comment before it.
    head: lines of comment at the beginning.
    """
    lines = [f"# {each}".rstrip() for each in head]
    for change in sorted(changes, key=lambda each: each.name):
        lines += [f"# {each}" for each in evidence.get(change.name, ())]
        pin = f"{change.name}=={change.version}"
        lines.append(pin if change.version else f"# {change.name} is not needed any more")
    return "\n".join(" ".join(line.split()) for line in lines) + "\n"


def _refuse_forks(lockfile: LockFile, changes: Sequence[LockChange]) -> None:
    names = {each.name for each in changes}
    versions: dict[str, set[str]] = {}
    for each in lockfile.packages:
        versions.setdefault(each.name, set()).add(each.version)
    for name in sorted(names):
        if len(found := sorted(versions.get(name, ()))) > 1:
            raise _unwritable(
                lockfile, f"it holds {name} {' and '.join(found)} for different environments"
            )


def _refuse_fewer_pythons(lockfile: LockFile, changes: Sequence[LockChange]) -> None:
    """Refuse releases that some Python of the lock is too old for: its tool would not take them."""
    if lockfile.format not in _FOR_EVERY_PYTHON or not lockfile.requires_python:
        return
    markers = {each.name: each.marker for each in lockfile.packages}
    for change in changes:
        if not change.version or "python" in markers.get(change.name, ""):
            continue
        oldest = next((p for p in _PYTHONS if admits_python(lockfile, p)), "")
        taken = [p for p in _PYTHONS if _admits(change.requires_python, p)]
        if oldest and taken and _PYTHONS.index(oldest) < _PYTHONS.index(taken[0]):
            raise _unwritable(
                lockfile,
                f"it is for Python {lockfile.requires_python}, and {change.name} {change.version} "
                f"requires {change.requires_python}",
            )


def _admits(requires_python: str, python: str) -> bool:
    try:
        return SpecifierSet(requires_python).contains(f"{python}.{_LAST_PATCH}")
    except InvalidSpecifier:
        return True


def _problem(written: str, lockfile: LockFile, changes: Sequence[LockChange]) -> str:
    """Return in what the written text differs from what was wanted; "" where it does not."""
    found = read_lock(written, path=lockfile.path, partial=True)
    wanted = {each.name: each for each in changes}
    before = _others(lockfile.packages, wanted)
    if _others(found.packages, wanted) != before:
        return "packages that do not change would change"
    now = {each.name: each for each in found.packages if each.name in wanted}
    for name, change in wanted.items():
        entry = now.get(name)
        if (entry.version if entry else "") != change.version:
            return f"{name} would not be {change.version or 'taken out'}"
        known = {each.sha256 for each in change.artifacts if each.sha256}
        if entry and not set(entry.hashes) <= known:
            return f"{name} would have hashes of another release"
    return ""


def _others(
    packages: Iterable[LockedPackage], changed: Collection[str]
) -> set[tuple[str, str, tuple[str, ...]]]:
    """Return what must stay; markers and groups may follow from what changes."""
    return {(p.name, p.version, p.hashes) for p in packages if p.name not in changed}


def _unwritable(lockfile: LockFile, why: str) -> UsageError:
    return UsageError(
        f"{lockfile.path} is not changed",
        why=why,
        fix="write the constraints, and let the file's own tool apply them: --constraints FILE",
    )


def required_names(lines: Iterable[str]) -> frozenset[str]:
    """Return the names that PEP 508 lines require without an extra."""
    found = (Requirement(line) for line in lines)
    return frozenset(
        str(canonicalize_name(each.name))
        for each in found
        if not re.search(r"\bextra\b", str(each.marker or ""))
    )
