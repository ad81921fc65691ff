"""Times against releases or nights, as a plot of characters and as SVG."""

import math
from collections.abc import Sequence
from xml.sax.saxutils import escape

from stackgen.model.reports.history import HistoryPoint, HistoryReport
from stackgen.report.tables import columns, counted, duration

_WIDTH = 40
_LEFT, _TOP, _STEP, _HEIGHT, _BELOW = 80, 40, 56, 260, 110


def history_text(report: HistoryReport) -> str:
    """Return a row for each release or day with a bar of its interval."""
    lines = [
        f"{report.indicator} with {report.package}, by {report.axis.value}",
        f"{report.where}, on {'another machine: ' if report.elsewhere else ''}{report.machine}",
        "",
    ]
    low, high = _range(report.points)
    changed = {each.label for each in report.changes}
    rows = [
        (
            f"{'>' if each.label in changed else ' '} {each.label}",
            duration(each.time_s),
            _bar(each, low, high),
            _interval(each),
            f"{counted(each.blocks, 'block')}, {counted(each.campaigns, 'campaign')}",
        )
        for each in report.points
    ]
    lines += columns(rows, indent="")
    if report.changes:
        lines += ["", "Change points (secondary evidence: no block compares these times):"]
        lines += [
            f"  {each.before} to {each.label}: {each.ratio:.3f} times the time"
            for each in report.changes
        ]
    if report.left_out:
        lines += ["", f"Also measured: {'; '.join(report.left_out)}"]
    return "\n".join([*lines, "", f"From {report.knowledge_base}."])


def _interval(point: HistoryPoint) -> str:
    if point.low_s <= 0:
        return "one block: no interval"
    return f"{duration(point.low_s)} to {duration(point.high_s)}"


def _range(points: Sequence[HistoryPoint]) -> tuple[float, float]:
    """Return the log times at both ends of the plot; unknown intervals count as their middle."""
    ends = [
        math.log(value)
        for each in points
        for value in ((each.low_s, each.high_s) if each.low_s > 0 else (each.time_s,))
    ]
    low, high = min(ends), max(ends)
    return (low, high) if high - low > 1e-9 else (low - 0.01, high + 0.01)


def _bar(point: HistoryPoint, low: float, high: float) -> str:
    def place(seconds: float) -> int:
        return round((_WIDTH - 1) * (math.log(seconds) - low) / (high - low))

    cells = [" "] * _WIDTH
    if point.low_s > 0:
        for at in range(place(point.low_s), place(point.high_s) + 1):
            cells[at] = "-"
    cells[place(point.time_s)] = "o"
    return "".join(cells)


def history_svg(report: HistoryReport) -> str:
    """Return the same as a picture that needs nothing else: log times with their intervals."""
    low, high = _range(report.points)
    width = _LEFT + _STEP * len(report.points) + 40

    def y(seconds: float) -> float:
        return _TOP + _HEIGHT * (high - math.log(seconds)) / (high - low)

    title = f"{report.indicator} with {report.package}, by {report.axis.value}"
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" role="img" width="{width}" '
        f'height="{_TOP + _HEIGHT + _BELOW}" font-family="sans-serif" font-size="12">',
        f"<title>{escape(title)}</title>",
        '<rect width="100%" height="100%" fill="#fff"/>',
        f'<text x="{_LEFT}" y="20" font-size="14">{escape(title)}</text>',
    ]
    for share in (0.0, 0.25, 0.5, 0.75, 1.0):
        seconds = math.exp(low + share * (high - low))
        parts.append(
            f'<line x1="{_LEFT}" x2="{width - 20}" y1="{y(seconds):.1f}" y2="{y(seconds):.1f}" '
            f'stroke="#ddd"/><text x="{_LEFT - 8}" y="{y(seconds) + 4:.1f}" text-anchor="end">'
            f"{escape(duration(seconds))}</text>"
        )
    changed = {each.label: each.ratio for each in report.changes}
    for place, each in enumerate(report.points):
        x = _LEFT + _STEP * (place + 0.5)
        if each.label in changed:
            edge = x - _STEP / 2
            parts.append(
                f'<line x1="{edge:.1f}" x2="{edge:.1f}" y1="{_TOP}" y2="{_TOP + _HEIGHT}" '
                'stroke="#b35900" stroke-dasharray="4 3"/>'
                f'<text x="{edge + 3:.1f}" y="{_TOP + 10}" fill="#b35900">'
                f"{changed[each.label]:.2f} times</text>"
            )
        if each.low_s > 0:
            parts.append(
                f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{y(each.low_s):.1f}" '
                f'y2="{y(each.high_s):.1f}" stroke="#1f5fa8" stroke-width="2"/>'
            )
        parts.append(
            f'<circle cx="{x:.1f}" cy="{y(each.time_s):.1f}" r="4" fill="#1f5fa8"><title>'
            f"{escape(f'{each.label}: {duration(each.time_s)} ({_interval(each)})')}</title>"
            f'</circle><text transform="translate({x:.1f} {_TOP + _HEIGHT + 14}) rotate(40)">'
            f"{escape(each.label)}</text>"
        )
    return "\n".join([*parts, "</svg>\n"])
