"""The knowledge graph: a networkx view of what was observed."""

from stackgen.knowledge.failures import (
    Apart,
    FailureGroup,
    Trait,
    blames_damaged_cache,
    explain_failures,
    explain_results,
    signature,
)
from stackgen.knowledge.graph import build_graph

__all__ = [
    "Apart",
    "FailureGroup",
    "Trait",
    "blames_damaged_cache",
    "build_graph",
    "explain_failures",
    "explain_results",
    "signature",
]
