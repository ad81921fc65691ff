"""The form in which pages are cached: columns, of which nothing is unpacked before it is needed.

What comes again and again (versions, tags, Python versions) is numbered and deflated. What deflate
can hardly shorten (hashes and addresses made of them) stands as it is, in rows of one width, so
that the few rows that a target takes are read without touching the others.
"""

import json
import sys
import zlib
from abc import abstractmethod
from array import array
from collections.abc import Iterator, Sequence
from typing import Any, overload

from stackgen.index.pages import Page
from stackgen.values.files import COLUMNS, Coded, Files

_LEVEL = 1  # Deflate: the fastest takes most of it.
_SIZE = 4
_WASTE = 4  # Rows of one width may take so many times the space of their texts.
_NARROW = 1 << 16
# Begins an address that does not end in the file's name; any other is kept without that name.
_WHOLE = "\0"
_STORED = tuple(name for name in COLUMNS if name not in ("index", "url"))


class _Column(Sequence[str]):
    """A column that unpacks a row when it is asked for."""

    __slots__ = ("_count",)

    def __init__(self, count: int) -> None:
        self._count = count

    @overload
    def __getitem__(self, row: int) -> str: ...
    @overload
    def __getitem__(self, row: slice) -> Sequence[str]: ...
    def __getitem__(self, row: int | slice) -> str | Sequence[str]:
        found = range(self._count)[row]
        return self._text(found) if isinstance(found, int) else [self._text(x) for x in found]

    def __iter__(self) -> Iterator[str]:
        return map(self._text, range(self._count))

    def __len__(self) -> int:
        return self._count

    @abstractmethod
    def _text(self, row: int) -> str:
        """Return one row."""


class _Rows(_Column):
    """A column whose rows take the same number of bytes, filled up with zeros."""

    __slots__ = ("_content", "_width")

    def __init__(self, count: int, content: memoryview, width: int) -> None:
        super().__init__(count)
        self._content = content
        self._width = width

    def _text(self, row: int) -> str:
        content = bytes(self._content[row * self._width : (row + 1) * self._width])
        return content.rstrip(b"\0").decode("utf-8", "surrogatepass")


class _Urls(_Column):
    """Addresses, most of which end in the name of the file."""

    __slots__ = ("_heads", "_stems", "_tails")

    def __init__(self, heads: Sequence[str], stems: Sequence[str], tails: Sequence[str]) -> None:
        super().__init__(len(heads))
        self._heads, self._stems, self._tails = heads, stems, tails

    def _text(self, row: int) -> str:
        head = self._heads[row]
        return head[1:] if head.startswith(_WHOLE) else head + self._stems[row] + self._tails[row]


def encode(page: Page, *, source: str = "") -> bytes:
    """Return a page in the form in which it is cached.

    source: a digest of what the page was read from.
    """
    heads = list(_heads(page.files))
    columns = [heads, page.announced, *map(page.files.column, _STORED)]
    described: list[tuple[int, Sequence[str]]] = []
    numbers, rows = bytearray(), bytearray()
    for column in columns:
        coded = Coded.of(column)
        width = _width(column, coded.values)
        described.append((width, [] if width else coded.values))
        if width:
            rows += b"".join(_bytes(text).ljust(width, b"\0") for text in column)
        else:
            numbers += _packed(coded)
    counts = (len(heads), page.listed, page.skipped)
    head = json.dumps([counts, described, source]).encode() + b"\n" + numbers
    packed = zlib.compress(head, _LEVEL)
    return len(packed).to_bytes(_SIZE, "little") + packed + rows


def decode(content: bytes, *, index: str) -> Page:
    """Return what was encoded.

    Raises:
        ValueError: it is not what `encode` wrote.
    """
    try:
        return _decode(content, index)
    except (zlib.error, LookupError, TypeError, RecursionError) as error:
        raise ValueError(f"not a page: {error}") from error


def source_of(content: bytes) -> str:
    """Return the digest that `encode` was told."""
    return str(_head(content)[0][2])


# The head is of whatever types JSON holds; what reads it sorts them.
def _head(content: bytes) -> tuple[Any, bytes, int]:
    """Return the head, the packed numbers behind it, and where the rows begin."""
    start = _SIZE + int.from_bytes(content[:_SIZE], "little")
    text, _, numbers = zlib.decompress(content[_SIZE:start]).partition(b"\n")
    counts, described, *source = json.loads(text)
    return (counts, described, source[0] if source else ""), numbers, start


def _decode(content: bytes, index: str) -> Page:
    ((count, listed, skipped), described, _), numbers, start = _head(content)
    columns = list(_columns(described, count, numbers, memoryview(content)[start:]))
    heads, announced, *stored = columns
    found: dict[str, Sequence[str]] = dict(zip(_STORED, stored, strict=True))
    found["index"] = Coded((index,), [0] * count)
    found["url"] = _Urls(heads, found["stem"], found["tail"])
    return Page(files=Files(found), announced=announced, listed=listed, skipped=skipped)


def _columns(
    described: list[Any], count: int, numbers: bytes, rows: memoryview
) -> Iterator[Sequence[str]]:
    number = row = 0
    for width, values in described:
        if width:
            yield _Rows(count, rows[row : row + width * count], width)
            row += width * count
        else:
            codes = array(_type(len(values)))
            size = codes.itemsize * count
            codes.frombytes(numbers[number : number + size])
            if sys.byteorder == "big":
                codes.byteswap()
            yield Coded(values, codes)
            number += size


def _packed(column: Coded) -> bytes:
    codes = array(_type(len(column.values)), column.codes)
    if sys.byteorder == "big":
        codes.byteswap()
    return codes.tobytes()


def _type(values: int) -> str:
    return "H" if values < _NARROW else "I"


def _width(column: Sequence[str], values: Sequence[str]) -> int:
    """Return how wide rows must be, bytes; 0 where the column is better numbered."""
    if 2 * len(values) <= len(column):
        return 0
    sizes = [len(_bytes(text)) for text in column]
    width = max(sizes, default=0)
    return width if width * len(sizes) <= _WASTE * sum(sizes) else 0


def _heads(files: Files) -> Iterator[str]:
    """Yield each address without the file's name at its end."""
    names = map(str.__add__, files.column("stem"), files.column("tail"))
    for url, name in zip(files.column("url"), names, strict=True):
        yield url[: -len(name)] if name and url.endswith(name) else f"{_WHOLE}{url}"


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")
