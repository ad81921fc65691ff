"""The knowledge graph: a networkx view of what was observed."""

from stackgen.knowledge.failures import (
    Apart,
    FailureGroup,
    Trait,
    blames_damaged_cache,
    explain_failures,
    signature,
)
from stackgen.knowledge.graph import build_graph
from stackgen.knowledge.results import explain_results

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
