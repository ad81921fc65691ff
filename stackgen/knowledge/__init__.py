"""The knowledge graph: a networkx view of what was observed."""

from stackgen.knowledge.failures import FailureGroup, explain_failures, signature
from stackgen.knowledge.graph import build_graph

__all__ = ["FailureGroup", "build_graph", "explain_failures", "signature"]
