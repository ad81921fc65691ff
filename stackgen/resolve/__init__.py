"""The exact space of stacks that requirements allow on a target."""

from stackgen.resolve.candidates import Policy
from stackgen.resolve.choose import newest_first
from stackgen.resolve.closure import Closure, Need, Universe
from stackgen.resolve.dependencies import base_name, parse_requirement, parsed_version
from stackgen.resolve.explain import conflict, minimal_conflict, nothing_fits
from stackgen.resolve.space import Slice, Space
from stackgen.resolve.working import newest_working

__all__ = [
    "Closure",
    "Need",
    "Policy",
    "Slice",
    "Space",
    "Universe",
    "base_name",
    "conflict",
    "minimal_conflict",
    "newest_first",
    "newest_working",
    "nothing_fits",
    "parse_requirement",
    "parsed_version",
]
