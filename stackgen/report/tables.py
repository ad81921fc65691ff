"""Plain aligned text."""

import json
import math
import textwrap
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields, is_dataclass
from enum import Enum

from stackgen.model.reports.local import Check
from stackgen.model.reports.views import View
from stackgen.model.stacks import Machine


def columns(rows: Sequence[Sequence[str]], *, indent: str = "  ") -> list[str]:
    """Return rows as lines whose columns line up."""
    if not rows:
        return []
    widths = [max(len(row[at]) for row in rows) for at in range(len(rows[0]))]
    return [
        indent
        + "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]


def view_text(view: View) -> str:
    """Return what the knowledge base says of one thing."""
    lines = [f"{view.kind} {view.id}", *columns(view.facts)]
    for table in view.tables:
        cells = [["" if cell is None else str(cell) for cell in row] for row in table.rows]
        lines += [
            "",
            f"{table.title}:",
            *(columns([table.columns, *cells]) if cells else ["  none"]),
        ]
    return "\n".join(lines)


def checks_text(checks: Sequence[Check]) -> str:
    """Return what doctor found, one line a check, with what to do below those that failed."""
    width = max(len(check.name) for check in checks)
    lines = []
    for check in checks:
        mark = "ok" if check.passed else "FAIL" if check.essential else "--"
        lines.append(f"{mark:<4}  {check.name.ljust(width)}  {check.found}")
        if not check.passed:
            lines.append(f"      {' ' * width}  fix: {check.fix}")
    return "\n".join(lines)


def counted(number: int, noun: str) -> str:
    """Return a number with its noun: ``1 block``, ``1,200 blocks``."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def section(lines: Sequence[str]) -> list[str]:
    """Return lines with a blank one behind them; nothing where there are none."""
    return [*lines, ""] if lines else []


def span(seconds: float) -> str:
    """Return a duration with its units."""
    whole = max(0, round(seconds))
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"


def percent(share: float) -> str:
    """Return a share in percent: ``2 %``."""
    return f"{100 * share:.3g} %"


def duration(seconds: float) -> str:
    """Return a time of an operation with its unit: ``43.93 us``."""
    for unit, scale in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if seconds >= scale:
            return f"{short(seconds / scale)} {unit}"
    return f"{short(seconds * 1e9)} ns"


def short(value: float) -> str:
    """Return a number with four significant digits."""
    return f"{value:,.0f}" if value >= 1000 else f"{value:.4g}"


# Intervals of ratios as bars of characters, all on one logarithmic scale

WIDTH = 20
"""Characters of a bar."""
_WIDEST = 3.0
"""An interval that reaches further than this (as a factor) is cut: others could not be read."""


@dataclass(frozen=True, slots=True)
class Scale:
    """The ratios at the two ends of all bars; 1 lies between them."""

    least: float
    most: float

    def bar(self, low: float, ratio: float, high: float) -> str:
        """Return ``--o--`` from low to high, with ``|`` at a ratio of 1 and arrows where cut."""
        if low <= 0 or not high < math.inf:
            return ""
        cells = [" "] * WIDTH
        cells[self._place(1.0)] = "|"
        first, last = self._place(low), self._place(high)
        for place in range(first, last + 1):
            cells[place] = "-" if cells[place] == " " else "+"
        if low < self.least:
            cells[0] = "<"
        if high > self.most:
            cells[-1] = ">"
        cells[self._place(ratio)] = "o"
        return "".join(cells)

    def mark(self) -> str:
        """Return the bar of the baseline: its ratio is 1."""
        return self.bar(1.0, 1.0, 1.0)

    def heading(self) -> str:
        """Return the ratios at both ends, as wide as a bar."""
        left, right = f"{self.least:.2f}", f"{self.most:.2f}"
        return left + right.rjust(WIDTH - len(left))

    def _place(self, ratio: float) -> int:
        whole = math.log(self.most / self.least)
        share = math.log(max(ratio, self.least) / self.least) / whole
        return min(WIDTH - 1, max(0, round(share * (WIDTH - 1))))


def scale(intervals: Iterable[Sequence[float]]) -> Scale | None:
    """Return a scale for intervals (low, ratio, high); None where no interval says anything.

    It holds all ratios and 1, and as much of the intervals as a factor of three allows.
    """
    known = [(low, mid, high) for low, mid, high in intervals if low > 0 and high < math.inf]
    if not known:
        return None
    middles = [mid for _, mid, _ in known]
    least = min(1.0, *middles, max(min(low for low, _, _ in known), min(middles) / _WIDEST))
    most = max(1.0, *middles, min(max(high for _, _, high in known), max(middles) * _WIDEST))
    if least == most:
        return Scale(least * 0.99, most * 1.01)
    return Scale(least, most)


# Reports for machines


def as_json(value: object) -> str:
    """Return a report as JSON with the fields of its dataclass; infinite numbers become null."""
    return json.dumps(_plain(value), indent=2, ensure_ascii=False)


def _plain(value: object) -> object:
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: _plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, tuple | list | frozenset):
        return [_plain(item) for item in value]
    return value


# A machine as it is recorded

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
