"""Merge two knowledge bases: since ids are digests of content, that is a plain union."""

import sqlite3
from pathlib import Path

from stackgen.database.connection import connect, transaction
from stackgen.errors import DatabaseError

# Each after what it refers to.
_TABLES = (
    "artifacts",
    "locks",
    "lock_artifacts",
    "stacks",
    "machines",
    "indicators",
    "campaigns",
    "load_sets",
    "load_set_members",
    "inspections",
    "releases_seen",
)
# What is no part of an identity and has an order: the earlier time wins on either side, so that
# it does not matter which of the two was merged into the other.
_EARLIEST = (
    """
    UPDATE campaigns SET started_at = coalesce(
        (SELECT min(started_at, o.started_at) FROM other.campaigns AS o WHERE o.id = campaigns.id),
        started_at)
    """,
    """
    UPDATE releases_seen SET first_seen = coalesce(
        (SELECT min(releases_seen.first_seen, o.first_seen) FROM other.releases_seen AS o
         WHERE o.name = releases_seen.name AND o.version = releases_seen.version),
        first_seen)
    """,
)


def merge(connection: sqlite3.Connection, *, ours: Path, theirs: Path) -> int:
    """Add all rows of another file in one transaction; return how many inspections were new.

    Raises:
        DatabaseError: the other file is missing, damaged, or of a newer version.
    """
    if not theirs.is_file():
        raise DatabaseError(
            f"there is no knowledge base {theirs}",
            why="the file does not exist",
            fix="look at the path; stackgen kb stats --kb FILE shows what a file holds",
        )
    if theirs.samefile(ours):
        return 0
    connect(theirs).close()  # refuses what is not ours, and brings an older file to our version
    connection.execute("ATTACH DATABASE ? AS other", (str(theirs),))
    try:
        with transaction(connection):
            return _copy(connection)
    finally:
        connection.execute("DETACH DATABASE other")


def _copy(connection: sqlite3.Connection) -> int:
    before = _inspections(connection)
    for table in _TABLES:
        connection.execute(
            f"INSERT INTO main.{table} SELECT * FROM other.{table} "  # noqa: S608 names are ours
            "WHERE true ON CONFLICT DO NOTHING"  # WHERE tells the parser that ON begins no join
        )
    for statement in _EARLIEST:
        connection.execute(statement)
    return _inspections(connection) - before


def _inspections(connection: sqlite3.Connection) -> int:
    return int(connection.execute("SELECT count(*) FROM main.inspections").fetchone()[0])
