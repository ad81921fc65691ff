"""Results in the formats of other tools, field for field."""

from stackgen.errors import UsageError
from stackgen.values.here import HereReport


def formatted(report: HereReport, name: str) -> str:
    """Return a report as another tool would write it.

    Raises:
        UsageError: that format cannot hold it.
    """
    raise UsageError(
        f"{report.indicator.name} cannot be written as {name}",
        why="this version does not write that format",
        fix="use --json",
    )
