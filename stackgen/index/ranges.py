"""A file that lives on a server, of which only the parts that are read are fetched."""

import io
from collections.abc import Callable

_AT_LEAST = 1 << 14


class RangeFile(io.RawIOBase):
    """A read-only, seekable view of a remote file, for zipfile.

    Args:
        size: of the whole file, bytes.
        tail: its last bytes, already fetched: a zip keeps its directory there.
        fetch: returns the bytes from a first position up to and without a second.
    """

    def __init__(self, *, size: int, tail: bytes, fetch: Callable[[int, int], bytes]) -> None:
        self._size = size
        self._fetch = fetch
        self._position = 0
        self._blocks = [(size - len(tail), tail)]

    def readable(self) -> bool:
        """Return True."""
        return True

    def seekable(self) -> bool:
        """Return True."""
        return True

    def tell(self) -> int:
        """Return the position, bytes from the start."""
        return self._position

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Move, and fetch nothing yet."""
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._size}[whence]
        if base + offset < 0:
            raise OSError("seek before the start of a remote file")
        self._position = base + offset
        return self._position

    def readinto(self, buffer: memoryview | bytearray) -> int:  # type: ignore[override]
        """Fill the buffer, fetching what is not at hand."""
        end = min(self._position + len(buffer), self._size)
        if end <= self._position:
            return 0
        part = self._bytes(self._position, end)
        buffer[: len(part)] = part
        self._position += len(part)
        return len(part)

    def part(self, start: int, end: int) -> bytes:
        """Return the bytes from a first position up to and without a second, or to the end."""
        end = min(end, self._size)
        return self._bytes(start, end) if start < end else b""

    def _bytes(self, start: int, end: int) -> bytes:
        for first, block in self._blocks:
            if first <= start and end <= first + len(block):
                return block[start - first : end - first]
        block = self._fetch(start, min(max(end, start + _AT_LEAST), self._size))
        self._blocks.append((start, block))
        return block[: end - start]
