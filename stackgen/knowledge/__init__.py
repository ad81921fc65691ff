"""The knowledge graph: a networkx view of what was observed."""
