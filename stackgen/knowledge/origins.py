"""Which installations recorded the rows of a knowledge base, and removal of what one recorded."""

import sqlite3
from collections.abc import Collection
from dataclasses import dataclass

from stackgen.errors import UsageError
from stackgen.knowledge.writing import KINDS, MEMBERS


@dataclass(frozen=True, slots=True, kw_only=True)
class OriginSummary:
    """An installation that recorded inspections.

    label: the file from which they came first; "" of those recorded here.
    inspections: how many it recorded. alone: how many of these no other one recorded as well.
    first, last: when the first and the last of them began, ISO 8601 in UTC; "" where there is none.
    own: whether it is this installation. trusted: whether it is, or the user trusts it.
    """

    id: str
    label: str
    inspections: int
    alone: int
    first: str
    last: str
    own: bool
    trusted: bool


_COLUMNS = ("id", "label", "inspections", "alone", "first", "last")
_SUMMARY = """
SELECT o.id, o.label, count(i.key) AS inspections,
       coalesce(sum(NOT EXISTS (
           SELECT 1 FROM row_origin_keys AS other
           WHERE other.kind = 8 AND other.row_key = r.row_key AND other.origin_key <> r.origin_key
       ) AND i.key IS NOT NULL), 0) AS alone,
       coalesce(min(i.started_at), '') AS first, coalesce(max(i.started_at), '') AS last
FROM origins AS o LEFT JOIN row_origin_keys AS r ON r.origin_key = o.key AND r.kind = 8
LEFT JOIN inspection_rows AS i ON i.key = r.row_key
GROUP BY o.key ORDER BY inspections DESC, o.id
"""


def origins(
    connection: sqlite3.Connection, *, own: Collection[str], trusted: Collection[str]
) -> tuple[OriginSummary, ...]:
    """Return every origin, that with the most inspections first."""
    return tuple(
        OriginSummary(
            **{name: row[name] for name in _COLUMNS},
            own=row["id"] in own,
            trusted=row["id"] in own or row["id"] in trusted,
        )
        for row in connection.execute(_SUMMARY)
    )


def find_origin(connection: sqlite3.Connection, begins: str) -> str:
    """Return the id of the origin that begins so.

    Raises:
        UsageError: there is none, or more than one.
    """
    known = [row["id"] for row in connection.execute("SELECT id FROM origins ORDER BY id")]
    found = [each for each in known if each.startswith(begins)]
    if len(found) == 1:
        return str(found[0])
    raise UsageError(
        f"{'several origins begin' if found else 'no origin begins'} with {begins!r}",
        why=f"there are {', '.join(each[:12] for each in known) or 'none'}",
        fix="give the beginning of one id; this lists them: stackgen kb origins",
    )


# What refers to the rows of a table: (referring table, its column, own column).
_REFERRING = {
    "inspections": (),
    "campaigns": (("inspection_rows", "campaign_key", "key"),),
    "stacks": (("inspection_rows", "stack_key", "key"),),
    "indicators": (("inspection_rows", "indicator_key", "key"),),
    "load_sets": (("inspection_rows", "load_set_key", "key"),),
    "machines": (
        ("inspection_rows", "machine_key", "key"),
        ("campaigns", "machine_id", "id"),
    ),
    "locks": (("stacks", "lock_id", "id"),),
    "artifacts": (("lock_pins", "artifact_key", "key"),),
}
_UNUSED = (
    """
    DELETE FROM texts WHERE key NOT IN (
        SELECT log_key FROM inspection_rows UNION SELECT unenforced_key FROM inspection_rows
        UNION SELECT environment_key FROM inspection_rows WHERE environment_key IS NOT NULL
    )
    """,
    """
    DELETE FROM distributions WHERE key NOT IN (SELECT distribution_key FROM load_set_rows)
    """,
)


def remove_origin(connection: sqlite3.Connection, origin: str) -> int:
    """Remove an origin and the rows that no other one recorded; return how many inspections.

    A row to which a row of another origin refers stays. It takes a transaction around it.
    """
    ((key,),) = connection.execute("SELECT key FROM origins WHERE id = ?", (origin,)).fetchall()
    connection.execute("CREATE TEMP TABLE doomed (kind INTEGER, row_key INTEGER)")
    connection.execute(
        "INSERT INTO doomed SELECT kind, row_key FROM row_origin_keys AS r WHERE origin_key = ?1 "
        "AND NOT EXISTS (SELECT 1 FROM row_origin_keys AS o WHERE o.kind = r.kind "
        "AND o.row_key = r.row_key AND o.origin_key <> ?1)",
        (key,),
    )
    _remove_derived(connection, key)
    removed = 0
    for table, referring in _REFERRING.items():
        kind, stored = KINDS[table], "inspection_rows" if table == "inspections" else table
        unused = " AND ".join(
            f"NOT EXISTS (SELECT 1 FROM {other} WHERE {other}.{column} = {stored}.{own})"  # noqa: S608
            for other, column, own in referring
        )
        rows = f"key IN (SELECT row_key FROM doomed WHERE kind = {kind})"  # noqa: S608
        where = f"{rows} AND {unused}" if unused else rows
        if table in MEMBERS:
            members, owner = MEMBERS[table]
            gone = f"SELECT key FROM {stored} WHERE {where}"  # noqa: S608
            connection.execute(f"DELETE FROM {members} WHERE {owner} IN ({gone})")  # noqa: S608
        done = connection.execute(f"DELETE FROM {stored} WHERE {where}")  # noqa: S608
        removed = done.rowcount if table == "inspections" else removed
        stays = f"SELECT key FROM {stored}"  # noqa: S608
        connection.execute(
            f"DELETE FROM row_origin_keys WHERE kind = {kind} AND origin_key = ? "  # noqa: S608
            f"AND (row_key NOT IN ({stays}) "
            f"OR row_key NOT IN (SELECT row_key FROM doomed WHERE kind = {kind}))",
            (key,),
        )
    for statement in _UNUSED:
        connection.execute(statement)
    connection.execute("DROP TABLE doomed")
    connection.execute(
        "DELETE FROM origins WHERE key = ?1 "
        "AND NOT EXISTS (SELECT 1 FROM row_origin_keys WHERE origin_key = ?1)",
        (key,),
    )
    return removed


def _remove_derived(connection: sqlite3.Connection, origin_key: int) -> None:
    """Remove what was derived of the campaigns whose inspections or origins change."""
    changed = (
        "SELECT i.campaign_key FROM row_origin_keys AS r JOIN inspection_rows AS i "
        "ON i.key = r.row_key WHERE r.kind = 8 AND r.origin_key = ?1 "
        "UNION SELECT row_key FROM row_origin_keys WHERE kind = 6 AND origin_key = ?1"
    )
    for table in ("derived_campaigns", "derived_contrasts"):
        delete = f"DELETE FROM {table} WHERE campaign_key IN ({changed})"  # noqa: S608
        connection.execute(delete, (origin_key,))
    connection.execute("DELETE FROM derived_outline")
