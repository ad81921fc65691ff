"""Edits of TOML that keep every other byte: blocks of an array of tables, and keys in them.

Only what lock tools write is understood: headers at the beginning of a line, one key a line. An
edit is checked by its caller, who parses the result.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass

_HEADER = re.compile(r"^\[\[?\s*([\w.\"'-]+)\s*\]\]?[ \t]*(?:#.*)?$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Block:
    """An entry of an array of tables, with its own tables, up to the next header of another."""

    start: int
    end: int
    text: str


def blocks(text: str, array: str) -> tuple[Block, ...]:
    """Return the entries of an array of tables, such as ``package``, in their order."""
    starts: list[int] = []
    ends: list[int] = []
    for found in _HEADER.finditer(text):
        name = found[1]
        if name.startswith(f"{array}."):
            continue
        if len(ends) < len(starts):
            ends.append(found.start())
        if name == array and found[0].startswith("[["):
            starts.append(found.start())
    ends += [len(text)] * (len(starts) - len(ends))
    return tuple(Block(a, b, text[a:b]) for a, b in zip(starts, ends, strict=True))


def key_span(block: str, key: str) -> tuple[int, int] | None:
    """Return where ``key = value`` stands among the keys of a block itself, without line end."""
    own = _own_end(block)
    found = re.compile(rf"^{re.escape(key)}[ \t]*=[ \t]*", re.MULTILINE).search(block, 0, own)
    return (found.start(), _value_end(block, found.end())) if found else None


def with_key(block: str, key: str, value: str | None, *, after: tuple[str, ...]) -> str:
    """Return a block with a key set to a value in TOML; None takes the key away.

    after: the keys, the last ones first, behind one of which a new key belongs.
    """
    span = key_span(block, key)
    if span is not None:
        start, end = span
        if value is None:
            return block[:start] + block[end:].removeprefix("\n")
        return f"{block[:start]}{key} = {value}{block[end:]}"
    if value is None:
        return block
    spans = (key_span(block, each) for each in after)
    place = next(each for each in spans if each)[1]
    return f"{block[:place]}\n{key} = {value}{block[place:]}"


def table_span(block: str, name: str) -> tuple[int, int] | None:
    """Return where a table of a block stands: from its header to the next one, or its end."""
    headers = list(_HEADER.finditer(block))
    for n, found in enumerate(headers):
        if found[1] == name:
            end = headers[n + 1].start() if n + 1 < len(headers) else len(block)
            return found.start(), end
    return None


def _own_end(block: str) -> int:
    headers = list(_HEADER.finditer(block))
    return headers[1].start() if len(headers) > 1 else len(block)


_STRINGS = ('"""', "'''", '"', "'")


def _value_end(text: str, start: int) -> int:
    """Return where a value ends: at the end of the line that closes its brackets."""
    depth = 0
    for place, sign in _tokens(text, start):
        depth += (sign in "[{") - (sign in "]}")
        if sign == "\n" and depth <= 0:
            return place
    return len(text)


def _tokens(text: str, place: int) -> Iterator[tuple[int, str]]:
    """Yield brackets and line ends outside of strings and comments."""
    while place < len(text):
        mark = next((each for each in _STRINGS if text.startswith(each, place)), "")
        if mark:
            place = _string_end(text, place, mark)
        elif text[place] == "#":
            place = text.find("\n", place) if "\n" in text[place:] else len(text)
        else:
            if text[place] in "[]{}\n":
                yield place, text[place]
            place += 1


def _string_end(text: str, place: int, mark: str) -> int:
    place += len(mark)
    while place < len(text) and not text.startswith(mark, place):
        place += 2 if text[place] == "\\" and mark[0] == '"' else 1
    return place + len(mark)


def quoted(text: str) -> str:
    """Return a text as a basic string of TOML."""
    # JSON's escapes are TOML's, but for the delete character, which only TOML wants escaped.
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007F")
