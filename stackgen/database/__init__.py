"""The knowledge base in SQLite: the record of everything observed."""

from stackgen.database.queries import NamedQuery, QueryResult, named_queries
from stackgen.database.store import Database, KnowledgeStats, open_database

__all__ = [
    "Database",
    "KnowledgeStats",
    "NamedQuery",
    "QueryResult",
    "named_queries",
    "open_database",
]
