"""The lines of a requirements file, joined and stripped of comments as pip does it."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

_COMMENT = re.compile(r"(^|\s+)#.*$")


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """A logical line.

    number: of its first physical line, from 1.
    text: without comment and surrounding spaces; may be "".
    comment: with its number sign, or "".
    """

    number: int
    text: str
    comment: str


def logical_lines(text: str) -> Iterator[Line]:
    """Yield every logical line; a backslash joins, and a line of comment ends what was joined."""
    pending: list[str] = []
    first = 0
    for number, raw in enumerate(text.removeprefix("\ufeff").splitlines(), start=1):
        first = first or number
        is_comment = bool(_COMMENT.match(raw))
        # The space keeps a comment one, whatever it is joined to.
        pending.append(f" {raw}" if is_comment else raw.rstrip("\\"))
        if is_comment or not raw.endswith("\\"):
            yield _line(first, "".join(pending))
            pending, first = [], 0
    if pending:
        yield _line(first, "".join(pending))


def _line(number: int, joined: str) -> Line:
    comment = _COMMENT.search(joined)
    return Line(
        number=number,
        text=_COMMENT.sub("", joined).strip(),
        comment=comment.group().strip() if comment else "",
    )
