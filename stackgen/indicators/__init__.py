"""What an indicator declares, and what it prints; reading files and running them is elsewhere."""

from stackgen.indicators.declaration import (
    THREADS,
    bind,
    find,
    literal_revision,
    parse_indicator,
)
from stackgen.indicators.output import Parsed, parse_output

__all__ = [
    "THREADS",
    "Parsed",
    "bind",
    "find",
    "literal_revision",
    "parse_indicator",
    "parse_output",
]
