"""The knowledge base in SQLite: the record of everything observed."""
