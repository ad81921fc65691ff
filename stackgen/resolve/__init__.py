"""The exact space of stacks that requirements allow on a target."""

from stackgen.model.choices import Completion, Granularity
from stackgen.resolve.candidates import EARLY, Policy, moment
from stackgen.resolve.choose import (
    contemporary,
    newest_first,
    newest_working,
    pairwise_cover,
    stratified,
)
from stackgen.resolve.closure import Closure, Need, Universe
from stackgen.resolve.dependencies import base_name, parse_requirement, parsed_version
from stackgen.resolve.explain import (
    Core,
    Relaxation,
    conflict,
    conflict_core,
    nothing_fits,
    relaxations,
)
from stackgen.resolve.requirements import Combination, Requirements, parse_requirements
from stackgen.resolve.roles import merged
from stackgen.resolve.space import Slice, Space

__all__ = [
    "EARLY",
    "Closure",
    "Combination",
    "Completion",
    "Core",
    "Granularity",
    "Need",
    "Policy",
    "Relaxation",
    "Requirements",
    "Slice",
    "Space",
    "Universe",
    "base_name",
    "conflict",
    "conflict_core",
    "contemporary",
    "merged",
    "moment",
    "newest_first",
    "newest_working",
    "nothing_fits",
    "pairwise_cover",
    "parse_requirement",
    "parse_requirements",
    "parsed_version",
    "relaxations",
    "stratified",
]
