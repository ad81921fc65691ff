"""Intervals of ratios as bars of characters, all on one logarithmic scale."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

WIDTH = 20
"""Characters of a bar."""
_WIDEST = 3.0
"""An interval that reaches further than this (as a factor) is cut: others could not be told."""


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
        """Return the bar of the reference: its ratio is 1."""
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
