"""The exact space of stacks that requirements allow on a target.

`Requirements` say what a stack must satisfy. `Closure` collects all releases that could be part of
one, and says which index pages and metadata it needs for that; `Universe` is the complete result.
Its versions become bits of integers, its dependencies masks of them (`masks`), and the masks are
compiled into a counted decision diagram (`diagram`, `compilation`). `Space` counts, lists, samples
and restricts stacks by walks over the diagram (`walks`); `choose` orders them for exploration, and
`explain` says why there are none.
"""

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
from stackgen.resolve.compilation import merge_closures
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
    "merge_closures",
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
