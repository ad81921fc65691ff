"""Versions as the bits of an integer: the lowest bit is the newest version."""

from collections.abc import Iterator


def bits(mask: int) -> Iterator[int]:
    """Yield the numbers of the bits that are set, lowest first."""
    while mask:
        lowest = mask & -mask
        yield lowest.bit_length() - 1
        mask ^= lowest


def newest_bit(mask: int) -> int:
    """Return the number of the lowest bit that is set; a mask of 0 has none, and gives -1."""
    return (mask & -mask).bit_length() - 1
