"""Read the few lines of METADATA that resolution needs.

What only reading needs is imported late: most runs find everything in the cache.
"""

import re
import zlib
from typing import IO, TYPE_CHECKING

from packaging.utils import canonicalize_name

from stackgen.values import Metadata

if TYPE_CHECKING:
    from email.message import Message

LARGEST = 16 << 20
"""So many bytes of metadata are read, and no more: those of real projects have some kilobytes."""

_MEMBER = re.compile(r"[^/]+\.dist-info/METADATA")


class UnusableMetadataError(ValueError):
    """A file is not a wheel, or does not say what it requires; the message says which."""


def parse_metadata(content: bytes, *, name: str) -> Metadata:
    """Keep Requires-Dist and Requires-Python; every other field may be as wrong as it likes.

    Raises:
        UnusableMetadataError: this is not the metadata of that project.
    """
    return requirements(parse_headers(content, name=name))


def parse_headers(content: bytes, *, name: str) -> "Message":
    """Return the fields of METADATA or PKG-INFO, without the prose behind them.

    Raises:
        UnusableMetadataError: this is not the metadata of that project.
    """
    from email.parser import HeaderParser

    headers, _, _ = content.replace(b"\r\n", b"\n").partition(b"\n\n")
    message = HeaderParser().parsestr(headers.decode("utf-8", errors="replace"))
    stated = _line(message["Name"])
    if stated is None or canonicalize_name(stated) != name:
        raise UnusableMetadataError(f"its metadata name {stated or 'no project'}, not {name}")
    return message


def requirements(message: "Message") -> Metadata:
    """Return the fields that resolution needs."""
    lines = (_line(value) for value in message.get_all("Requires-Dist", []))
    return Metadata(
        requires_dist=tuple(line for line in lines if line),
        requires_python=_line(message["Requires-Python"]) or None,
    )


def read_wheel(file: IO[bytes], *, name: str) -> Metadata:
    """Read what a wheel requires in its METADATA.

    Raises:
        UnusableMetadataError: the wheel is no zip file, or holds no METADATA of that project.
    """
    return requirements(wheel_headers(file, name=name))


def wheel_headers(file: IO[bytes], *, name: str) -> "Message":
    """Return the fields of a wheel's METADATA.

    Raises:
        UnusableMetadataError: the wheel is no zip file, or holds no METADATA of that project.
    """
    import zipfile

    try:
        with zipfile.ZipFile(file) as wheel:
            members = [x for x in wheel.infolist() if _MEMBER.fullmatch(x.filename)]
            if len(members) != 1:
                raise UnusableMetadataError(f"it has {len(members)} METADATA files")
            check_size("METADATA", members[0].file_size)
            content = wheel.read(members[0])
    except (zipfile.BadZipFile, zlib.error, NotImplementedError, EOFError, RuntimeError) as error:
        raise UnusableMetadataError(f"it is not a readable zip file: {error}") from error
    return parse_headers(content, name=name)


def check_size(what: str, size: int) -> None:
    """Refuse a file of more than `LARGEST` bytes.

    Raises:
        UnusableMetadataError: it is too large.
    """
    if size > LARGEST:
        raise UnusableMetadataError(
            f"its {what} is too large: {size / (1 << 20):.1f} MiB, "
            f"and no more than {LARGEST >> 20} MiB are read"
        )


def _line(value: object) -> str | None:
    """Return a header on one line: a long one may be folded over several."""
    return None if value is None else " ".join(str(value).split())
