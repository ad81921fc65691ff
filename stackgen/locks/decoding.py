"""Decoding of files that people and tools write, by the rules of pip."""

import codecs
import re

# UTF-32 first: its mark begins as that of UTF-16 does.
_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_DECLARED = re.compile(rb"[ \t\f]*#.*?coding[:=][ \t]*([-\w.]+)")  # PEP 263


def decode_text(content: bytes) -> str:
    """Return a text by its byte order mark, by a comment that names its encoding, or as UTF-8.

    Raises:
        ValueError: it is in another encoding; the message says how to convert it.
    """
    for mark, encoding in _MARKS:
        if content.startswith(mark):
            return _decoded(content[len(mark) :], encoding)
    declared = filter(None, map(_DECLARED.match, content.split(b"\n", 2)[:2]))
    return _decoded(content, next((found[1].decode("ascii") for found in declared), "utf-8"))


def _decoded(content: bytes, encoding: str) -> str:
    try:
        return content.decode(encoding)
    except (UnicodeError, LookupError) as error:
        raise ValueError(
            f"it is not in the encoding {encoding}; convert it: iconv -f ENCODING -t UTF-8 FILE"
        ) from error
