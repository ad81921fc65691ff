"""Looks into the knowledge base, for ``stackgen kb``."""

from collections.abc import Mapping
from datetime import datetime, timezone
from pathlib import Path

from stackgen.database import KnowledgeStats, QueryResult, named_queries, open_database
from stackgen.knowledge import FailureGroup, explain_failures, explain_results
from stackgen.pipeline.places import Places


def stats(places: Places) -> KnowledgeStats:
    """Return how much the knowledge base holds."""
    with open_database(places.knowledge, reading=True) as database:
        return database.stats()


def stats_rows(found: KnowledgeStats) -> tuple[tuple[str, str], ...]:
    """Return the counts as (name, value) pairs for a table."""
    counts = [
        ("stacks", found.stacks),
        ("machines", found.machines),
        ("campaigns", found.campaigns),
        ("indicators", found.indicators),
        *((f"inspections {outcome.value}", count) for outcome, count in found.inspections),
    ]
    size = ("size", f"{found.file_bytes / 1e6:.1f} MB")
    return (*((name, f"{count:,}") for name, count in counts), size)


def failures(places: Places) -> tuple[FailureGroup, ...]:
    """Return what fails, and then what computes something else, in groups that share a reason."""
    with open_database(places.knowledge, reading=True) as database:
        stacks, inspections = database.stacks(), database.inspections()
        wrong = explain_results(stacks, inspections, database.calls())
        return (*explain_failures(stacks, inspections), *wrong)


def query_names() -> tuple[tuple[str, str], ...]:
    """Return the named queries, each with what it answers."""
    return tuple((each.name, each.purpose) for each in named_queries())


def query(places: Places, name: str, parameters: Mapping[str, str]) -> QueryResult:
    """Return the answer of a named query."""
    with open_database(places.knowledge, reading=True) as database:
        return database.run_named(name, parameters)


def merge(places: Places, other: Path) -> int:
    """Add another knowledge base to the user's own; return how many inspections were new."""
    with open_database(places.knowledge) as database:
        return database.merge(other)


def check(places: Places) -> tuple[str, ...]:
    """Return the rows of the knowledge base that are not valid, in words."""
    with open_database(places.knowledge, reading=True) as database:
        return tuple(map(str, database.check()))


def repair(places: Places) -> tuple[tuple[str, ...], Path]:
    """Remove the rows that are not valid; return them in words, and the copy made before."""
    moment = datetime.now(timezone.utc).strftime("%Y%m%dT%H%M%S%fZ")
    backup = places.knowledge.with_name(f"{places.knowledge.name}.before-repair-{moment}")
    with open_database(places.knowledge) as database:
        return tuple(map(str, database.repair(backup))), backup
