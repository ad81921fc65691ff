"""The queries that come with stackgen (``kb/queries``)."""

import sqlite3
from collections.abc import Mapping
from typing import NamedTuple

from stackgen.errors import UsageError
from stackgen.knowledge.rows import Cell
from stackgen.storage.paths import shipped_folder


class NamedQuery(NamedTuple):
    """A query that comes with stackgen, and its purpose."""

    name: str
    purpose: str
    sql: str


class QueryResult(NamedTuple):
    """What a query answered: column names, and rows of as many cells."""

    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]


def named_queries() -> tuple[NamedQuery, ...]:
    """Return every query that comes with stackgen, by name."""
    files = sorted((shipped_folder("kb") / "queries").glob("*.sql"))
    texts = [(file.stem, file.read_text("utf-8")) for file in files]
    return tuple(NamedQuery(name, _purpose(text), text) for name, text in texts)


def find_query(name: str) -> NamedQuery:
    """Return the query of that name.

    Raises:
        UsageError: there is none.
    """
    queries = {query.name: query for query in named_queries()}
    if name not in queries:
        raise UsageError(
            f"there is no query named {name!r}",
            why="the queries are the files of kb/queries",
            fix="take one of: " + ", ".join(queries),
        )
    return queries[name]


def run_query(
    connection: sqlite3.Connection, query: NamedQuery, parameters: Mapping[str, Cell]
) -> QueryResult:
    """Run a query that cannot write.

    Raises:
        UsageError: it needs a parameter that was not given.
    """
    writable = not connection.execute("PRAGMA query_only").fetchone()[0]
    connection.execute("PRAGMA query_only = ON")
    try:
        cursor = connection.execute(query.sql, dict(parameters))
        columns = tuple(column[0] for column in cursor.description)
        return QueryResult(columns, tuple(tuple(map(_printable, row)) for row in cursor.fetchall()))
    except sqlite3.ProgrammingError as error:
        if "binding" not in str(error):
            raise
        raise UsageError(
            f"the query {query.name!r} needs a parameter that was not given",
            why=str(error),
            fix=f"give it as NAME=VALUE; the query answers: {query.purpose}",
        ) from error
    finally:
        if writable:
            connection.execute("PRAGMA query_only = OFF")


def _printable(cell: Cell) -> Cell:
    """Return a cell whose text is valid Unicode, whatever was stored."""
    if isinstance(cell, bytes):
        return cell.hex()
    return cell.encode("utf-8", "replace").decode("utf-8") if isinstance(cell, str) else cell


def _purpose(sql: str) -> str:
    """Return the comment on top, on one line."""
    lines = []
    for line in sql.splitlines():
        if not line.startswith("--"):
            break
        lines.append(line.removeprefix("--").strip())
    return " ".join(lines)
