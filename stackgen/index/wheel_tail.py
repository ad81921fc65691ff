"""METADATA found through both ends of a wheel's directory, which may be megabytes long.

A zip file ends with its directory. Wheel builders write ``.dist-info`` last, tools that repair
wheels put it first: what stands between need not be fetched.
"""

import re
import struct
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass

_ENTRY = re.compile(rb"PK\x01\x02(.{42})[^/\x00]{1,200}\.dist-info/METADATA", re.DOTALL)
_FIELDS = struct.Struct("<6H3I5H2I")
_ENTRY_SIZE = 46
_LENGTHS = struct.Struct("<28x3H")  # Of the name and of two fields behind it, in an entry.
_LOCAL = struct.Struct("<26x2H")
_START = struct.Struct("<16xI")  # Of the directory, in the record that ends a zip file.
_END = b"PK\x05\x06"
_ENDS = (_END, b"PK\x06\x06")
_LARGEST = 1 << 24
_HEAD = 1 << 14
_LOCAL_EXTRA = 512  # More than a local header has beyond its name.
_STORED, _DEFLATED = 0, 8

Read = Callable[[int, int], bytes]
"""Returns the wheel's bytes from a first position up to and without a second, or to its end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """Where METADATA lies in a wheel; `start` and `end` bound all that is needed of it."""

    start: int
    end: int
    packed: int
    unpacked: int
    crc: int
    method: int


def read_through(tail: bytes, read: Read) -> tuple[bytes, int] | None:
    """Return METADATA and its place in the wheel; None where the whole directory is needed.

    tail: the last bytes of the wheel.
    """
    member = _in_tail(tail) or _in_head(tail, read)
    content = None if member is None else _unpack(member, read(member.start, member.end))
    return None if member is None or content is None else (content, member.start)


def _in_tail(tail: bytes) -> Member | None:
    for match in _ENTRY.finditer(tail):
        *_, last = _entries(tail, match.start())
        if tail[last : last + len(_END)] in _ENDS:
            return _member(match)
    return None


def _in_head(tail: bytes, read: Read) -> Member | None:
    end = tail.rfind(_END)
    if end < 0 or end + _START.size > len(tail):
        return None
    start: int = _START.unpack_from(tail, end)[0]
    head = read(start, start + _HEAD)
    found = (_ENTRY.match(head, place) for place in _entries(head, 0))
    return next((_member(match) for match in found if match), None)


def _entries(directory: bytes, place: int) -> Iterator[int]:
    """Yield where each entry of a directory begins, from one of them on, and where they end."""
    yield place
    while directory.startswith(b"PK\x01\x02", place) and place + _ENTRY_SIZE <= len(directory):
        place += _ENTRY_SIZE + sum(_LENGTHS.unpack_from(directory, place))
        yield place


def _member(entry: re.Match[bytes]) -> Member | None:
    fields = _FIELDS.unpack(entry[1])
    method, crc, packed, unpacked, name, start = (fields[k] for k in (3, 6, 7, 8, 9, 15))
    if name != len(entry[0]) - _ENTRY_SIZE or method not in (_STORED, _DEFLATED):
        return None
    if max(packed, unpacked) > _LARGEST:
        return None  # An entry whose true sizes stand elsewhere (zip64) looks larger than that.
    end = start + _LOCAL.size + name + _LOCAL_EXTRA + packed
    return Member(start=start, end=end, packed=packed, unpacked=unpacked, crc=crc, method=method)


def _unpack(member: Member, stored: bytes) -> bytes | None:
    """Return the content of a member; None where these are not its bytes."""
    if not stored.startswith(b"PK\x03\x04") or len(stored) < _LOCAL.size:
        return None
    begin = _LOCAL.size + sum(_LOCAL.unpack_from(stored))
    content = stored[begin : begin + member.packed]
    if member.method == _DEFLATED:
        try:
            content = zlib.decompressobj(-zlib.MAX_WBITS).decompress(content, member.unpacked)
        except zlib.error:
            return None
    whole = len(content) == member.unpacked and zlib.crc32(content) == member.crc
    return content if whole else None
