"""What an indicator declares, and what it prints; reading files and running them is elsewhere."""

from stackgen.indicators.declaration import (
    THREADS,
    bind,
    find,
    has_table,
    literal_revision,
    parse_indicator,
    parse_table,
)
from stackgen.indicators.output import Parsed, parse_output

__all__ = [
    "THREADS",
    "Parsed",
    "bind",
    "find",
    "has_table",
    "literal_revision",
    "parse_indicator",
    "parse_output",
    "parse_table",
]
