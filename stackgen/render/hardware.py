"""A machine as it is recorded."""

import textwrap
from collections.abc import Sequence

from stackgen.values import Machine

_WIDTH = 100


def machine_text(machine: Machine) -> str:
    """Return what makes a machine's identity, and what is merely so today."""
    return "\n".join(
        [
            f"machine {machine.id}",
            "",
            "Its identity: what can change a timing. Another value makes it another machine.",
            *_rows(machine.identity),
            "",
            "Recorded besides; it may change, and the machine stays the same.",
            *_rows(machine.circumstances),
        ]
    )


def _rows(pairs: Sequence[tuple[str, str]]) -> list[str]:
    width = max((len(name) for name, _ in pairs), default=0)
    return [
        line
        for name, value in pairs
        for line in textwrap.wrap(
            value,
            width=_WIDTH,
            initial_indent=f"  {name.ljust(width)}  ",
            subsequent_indent=" " * (width + 4),
            break_long_words=False,
            break_on_hyphens=False,
        )
    ]
