"""Edits of locks that hold pins and hashes alone: requirements.txt and Pipfile.lock."""

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

from stackgen.locks.fields import MalformedError
from stackgen.locks.requirements import without_options
from stackgen.model.packages import LockChange

_HASH = re.compile(r"--hash[= ]\s*\S+")
_PINNED = re.compile(r"(===?\s*)([^\s;,\\#]+)")
_HASHES = re.compile(r"--hash[= ]\s*\S+(?:(?:\s|\\\n)+--hash[= ]\s*\S+)*")


@dataclass(frozen=True, slots=True)
class _Pin:
    """A requirement with the physical lines that it takes, and its comments behind it.

    start, end: characters; the comments are inside, the line end of the last line, too.
    """

    name: str
    start: int
    end: int
    text: str


def edit_requirements(text: str, changes: Sequence[LockChange]) -> str:
    """Return a requirements.txt with other pins; hashes where the file has hashes.

    Raises:
        MalformedError: a package that changes is not pinned in it.
    """
    pins = {each.name: each for each in _pins(text)}
    hashed = any(_HASH.search(each.text) for each in pins.values())
    edits = []
    for change in changes:
        pin = pins.get(change.name)
        if pin is None and change.version:
            place, before = _place(text, list(pins.values()), change.name)
            edits.append((place, place, before + _new_pin(change, hashed=hashed)))
        elif pin is not None:
            edits.append((pin.start, pin.end, _changed(pin, change) if change.version else ""))
    return _applied(text, edits)


def _pins(text: str) -> Iterator[_Pin]:
    """Yield the pins with their lines; options and other lines are between them."""
    lines = text.splitlines(keepends=True)
    starts = [0]
    for line in lines:
        starts.append(starts[-1] + len(line))
    number = 0
    while number < len(lines):
        first = number
        while number < len(lines) - 1 and lines[number].rstrip("\n").endswith("\\"):
            number += 1
        number += 1
        name = _name("".join(lines[first:number]))
        if not name:
            continue
        while number < len(lines) and re.match(r"[ \t]+#", lines[number]):
            number += 1
        start, end = starts[first], starts[number]
        yield _Pin(name, start, end, text[start:end])


def _name(logical: str) -> str:
    bare = without_options(re.sub(r"(^|\s)#.*", "", logical.replace("\\\n", " ")).strip())
    if not bare or bare.startswith("-"):
        return ""
    try:
        return str(canonicalize_name(Requirement(bare.lstrip("\ufeff")).name))
    except InvalidRequirement:
        return ""


def _changed(pin: _Pin, change: LockChange) -> str:
    text, count = _PINNED.subn(rf"\g<1>{change.version}", pin.text, count=1)
    if not count:
        raise MalformedError(f"{change.name} is not pinned in it")
    if change.widened:
        text = re.sub(r"[ \t]*;[^\\\n#]*?(?=[ \t]*(\\?\n|#|\Z|[ \t]--hash))", "", text, count=1)
    found = _HASHES.search(text)
    if found is None:
        return text
    old = _HASH.findall(found[0])
    gap = found[0][len(old[0]) :].partition("--hash")[0] if len(old) > 1 else _gap(text, found)
    new = [f"--hash=sha256:{each}" for each in _digests(change)]
    return text[: found.start()] + gap.join(new) + text[found.end() :]


def _gap(text: str, found: re.Match[str]) -> str:
    before = re.search(r"(?:\s|\\\n)+\Z", text[: found.start()])
    return before[0] if before else " "


def _new_pin(change: LockChange, *, hashed: bool) -> str:
    lines = [f"{change.name}=={change.version}"]
    if hashed:
        lines += [f"    --hash=sha256:{each}" for each in _digests(change)]
    return " \\\n".join(lines) + "\n"


def _place(text: str, pins: Sequence[_Pin], name: str) -> tuple[int, str]:
    """Return where a new pin belongs, and what must stand before it."""
    later = next((each for each in pins if each.name > name), None)
    if later is not None:
        return later.start, ""
    end = pins[-1].end if pins else len(text)
    return end, "" if text[:end].endswith("\n") else "\n"


def _digests(change: LockChange) -> list[str]:
    found = sorted({each.sha256 for each in change.artifacts if each.sha256})
    if not found:
        raise MalformedError(f"no index states a hash of {change.name} {change.version}")
    return found


def _applied(text: str, edits: Sequence[tuple[int, int, str]]) -> str:
    for start, end, new in sorted(edits, reverse=True):
        text = text[:start] + new + text[end:]
    return text


_PYTHON_MARKER = re.compile(r"python_version >= '[\d.]+'")


def edit_pipfile(text: str, changes: Sequence[LockChange]) -> str:
    """Return a Pipfile.lock with other entries; ``_meta`` stays, for the Pipfile does.

    Raises:
        MalformedError: it is not laid out as pipenv does, or a package has no hash.
    """
    content = json.loads(text)
    sections = [each for each in content if each != "_meta"]
    for change in changes:
        holding = [
            each
            for each in sections
            if isinstance(content[each], dict)
            and change.name in [str(canonicalize_name(name)) for name in content[each]]
        ]
        for section in holding or (["default"] if change.version else []):
            found = _spans(text, section)
            if change.name in found and change.widened:
                text = _without_marker(text, found[change.name])
                found = _spans(text, section)
            if change.name in found:
                text = _with_entry(text, found, change)
            else:
                text = _with_new_entry(text, section, found, change)
    return text


@dataclass(frozen=True, slots=True)
class _Member:
    """A member of a JSON object: where its key begins, its value begins, and its value ends."""

    key: str
    start: int
    value: int
    end: int


def _members(text: str, start: int) -> list[_Member]:
    """Return the members of the object that begins at a place."""
    decoder = json.JSONDecoder()
    found = []
    place = _skip(text, start + 1)
    while text[place] == '"':
        key, after = decoder.raw_decode(text, place)
        value = _skip(text, _skip(text, after) + 1)
        _, end = decoder.raw_decode(text, value)
        found.append(_Member(str(key), place, value, end))
        place = _skip(text, end)
        if text[place] == ",":
            place = _skip(text, place + 1)
    return found


def _skip(text: str, place: int) -> int:
    while text[place].isspace():
        place += 1
    return place


def _spans(text: str, section: str) -> dict[str, _Member]:
    top = {each.key: each for each in _members(text, _skip(text, 0))}
    if section not in top:
        raise MalformedError(f"it has no section {section}")
    return {canonicalize_name(each.key): each for each in _members(text, top[section].value)}


def _with_entry(text: str, found: dict[str, _Member], change: LockChange) -> str:
    """Change an entry, or take it out."""
    member = found[change.name]
    if not change.version:
        return _without(text, list(found.values()), member)
    entry = json.loads(text[member.value : member.end])
    keys = {each.key: each for each in _members(text, member.value)}
    if "version" not in keys:
        raise MalformedError(f"{change.name} is not pinned in it")
    edits = [(keys["version"].value, keys["version"].end, json.dumps(f"=={change.version}"))]
    if "hashes" in keys:
        edits.append((keys["hashes"].value, keys["hashes"].end, _hash_list(text, keys, change)))
    marker = _python_marker(change)
    if marker and _PYTHON_MARKER.fullmatch(str(entry.get("markers", ""))):
        edits.append((keys["markers"].value, keys["markers"].end, json.dumps(marker)))
    return _applied(text, edits)


def _without_marker(text: str, member: _Member) -> str:
    keys = _members(text, member.value)
    marker = next((each for each in keys if each.key == "markers"), None)
    return _without(text, keys, marker) if marker else text


def _hash_list(text: str, keys: dict[str, _Member], change: LockChange) -> str:
    line = text.rfind("\n", 0, keys["hashes"].start) + 1
    indent = text[line : keys["hashes"].start]
    step = "    "
    lines = [f"{indent}{step}{json.dumps(f'sha256:{each}')}" for each in _digests(change)]
    return "[\n" + ",\n".join(lines) + f"\n{indent}]"


def _python_marker(change: LockChange) -> str:
    found = re.fullmatch(r">=\s*(\d+(?:\.\d+)*)", change.requires_python.strip())
    return f"python_version >= '{found[1]}'" if found else ""


def _without(text: str, members: Sequence[_Member], member: _Member) -> str:
    place = members.index(member)
    if place + 1 < len(members):
        return text[: member.start] + text[members[place + 1].start :]
    if place:
        return text[: members[place - 1].end] + text[member.end :]
    raise MalformedError(f"{member.key} is the only package of its section")


def _with_new_entry(text: str, section: str, found: dict[str, _Member], change: LockChange) -> str:
    members = list(found.values())
    if not members:
        raise MalformedError(f"its section {section} holds nothing beside which to write")
    line = text.rfind("\n", 0, members[0].start) + 1
    indent = text[line : members[0].start]
    entry: dict[str, object] = {"hashes": [f"sha256:{each}" for each in _digests(change)]}
    if marker := _python_marker(change):
        entry["markers"] = marker
    entry["version"] = f"=={change.version}"
    body = json.dumps(entry, indent=4).replace("\n", f"\n{indent}")
    new = f"{json.dumps(change.name)}: {body}"
    later = next((each for each in members if canonicalize_name(each.key) > change.name), None)
    if later is not None:
        return f"{text[: later.start]}{new},\n{indent}{text[later.start :]}"
    return f"{text[: members[-1].end]},\n{indent}{new}{text[members[-1].end :]}"
