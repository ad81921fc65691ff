"""Plain aligned text."""

from collections.abc import Sequence

from stackgen.values import Check


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


def checks_text(checks: Sequence[Check]) -> str:
    """Return what doctor found, one line a check, with what to do below those that failed."""
    width = max(len(check.name) for check in checks)
    lines = []
    for check in checks:
        mark = "ok" if check.fine else "FAIL" if check.essential else "--"
        lines.append(f"{mark:<4}  {check.name.ljust(width)}  {check.found}")
        if not check.fine:
            lines.append(f"      {' ' * width}  fix: {check.fix}")
    return "\n".join(lines)


def span(seconds: float) -> str:
    """Return a duration as people say it."""
    whole = max(0, round(seconds))
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"


def big(number: int) -> str:
    """Return a count exactly while it can be read, and its magnitude beyond."""
    return f"{number:,}" if number < 10**9 else f"{number:.1e}".replace("e+", "e")


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
    """Return a number with the digits that tell something."""
    return f"{value:,.0f}" if value >= 1000 else f"{value:.4g}"
