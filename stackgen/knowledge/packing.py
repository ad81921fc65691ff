"""How a knowledge base spells samples and circumstances in few bytes (version 5 of the file).

Samples are IEEE 754 binary64 numbers, 8 bytes each, most significant byte first; as JSON text where
that would not give back the very same numbers, or where plain SQL could not read them: a whole
number, one below 2**-70 or from 2**52 on. Circumstances are a shared list of [name, value] pairs in
which a number n in the place of a value stands for the n-th of the inspection's own values.
``kb/compact.sql`` has the views that read both. Never edit what shipped: files have it.
"""

import hashlib
import json
import struct
from collections.abc import Sequence
from functools import lru_cache

Pairs = tuple[tuple[str, str], ...]
_SMALLEST, _LIMIT = 2.0**-70, 2.0**52
_BYTES = 8
# They look like measurements, but are the same for all inspections of a campaign.
_SHARED = ("env ", "cpus", "cpu_count", "checksum_tolerance", "component_version", "items")


def pack_samples(values: Sequence[float]) -> bytes | str:
    """Return samples in binary, or as JSON."""
    if {*map(type, values)} == {float} and _SMALLEST <= min(values) <= max(values) < _LIMIT:
        return struct.pack(f">{len(values)}d", *values)
    return json.dumps(list(values))


def unpack_samples(packed: bytes) -> tuple[float, ...]:
    """Return samples that were packed in binary.

    Raises:
        ValueError: the length is not that of whole numbers of 8 bytes.
    """
    if len(packed) % _BYTES:
        raise ValueError(f"{len(packed)} bytes are no samples of {_BYTES} bytes each")
    return struct.unpack(f">{len(packed) // _BYTES}d", packed)


def split_circumstances(pairs: Pairs) -> tuple[str, str | None]:
    """Return circumstances as (shared pairs, own values), both JSON; None where none is own."""
    own = [each for each in pairs if _is_own(*each)]
    values = iter(range(len(own)))
    shared = tuple((name, next(values) if _is_own(name, value) else value) for name, value in pairs)
    return _dumped(shared), json.dumps([value for _, value in own]) if own else None


def _is_own(name: str, value: str) -> bool:
    return value[:1].isdigit() and not name.startswith(_SHARED)


@lru_cache(maxsize=1024)
def _dumped(shared: tuple[tuple[str, str | int], ...]) -> str:
    return json.dumps(shared)


def join_circumstances(shared: Sequence[tuple[str, str | int]], own: Sequence[str]) -> Pairs:
    """Return circumstances as they were before ``split_circumstances``.

    Raises:
        ValueError: a value is missing or left over.
    """
    places = [value for _, value in shared if isinstance(value, int)]
    if places != list(range(len(own))):
        raise ValueError("the shared pairs and the own values do not belong together")
    return tuple((name, own[v] if isinstance(v, int) else v) for name, v in shared)


def digest(text: str) -> bytes:
    """Return the key under which a text is shared."""
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).digest()[:16]
