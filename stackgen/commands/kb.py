"""Looks into the knowledge base, for ``stackgen kb``."""

import re
import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from stackgen.errors import EvidenceError, UsageError
from stackgen.executors.machine import this_machine
from stackgen.knowledge.database import Database, KnowledgeStats, open_database
from stackgen.knowledge.failures import FailureGroup, explain_failures, explain_results
from stackgen.knowledge.loading import prepare
from stackgen.knowledge.queries import QueryResult, find_query, named_queries
from stackgen.knowledge.seed import load_shipped
from stackgen.measure.figures import figures
from stackgen.model.inspections import IndicatorCall, Inspection, Role
from stackgen.model.reports.local import LocalHost, LocalReport, LocalResult
from stackgen.model.stacks import Machine, Stack
from stackgen.storage.paths import Paths


def load_seeds(paths: Paths, notify: Callable[[str], None]) -> None:
    """Load the observations that come with stackgen, unless the knowledge base has them."""
    with open_database(paths.knowledge, reading=True) as database:
        load_shipped(database, paths.seeds, notify=notify)


def stats(paths: Paths) -> KnowledgeStats:
    """Return how much the knowledge base holds."""
    with open_database(paths.knowledge, reading=True) as database:
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


def failures(paths: Paths) -> tuple[FailureGroup, ...]:
    """Return what fails, and then what computes something else, in groups that share a reason."""
    with open_database(paths.knowledge, reading=True) as database:
        stacks, failing = database.stacks(), database.inspections(failing=True)
        wrong = explain_results(stacks, database.derived().summaries, database.calls())
        return (*explain_failures(stacks, failing), *wrong)


def query_names() -> tuple[tuple[str, str], ...]:
    """Return the named queries, each with what it answers."""
    return tuple((each.name, each.purpose) for each in named_queries())


def query(paths: Paths, name: str, parameters: Mapping[str, str]) -> QueryResult:
    """Return the answer of a named query.

    Raises:
        UsageError: there is none of that name, or its parameters are others.
    """
    known = tuple(dict.fromkeys(re.findall(r":([a-z]+)\b", find_query(name).sql)))
    for other in sorted(parameters.keys() - set(known)):
        raise UsageError(
            f"the query {name!r} has no parameter {other}",
            why=f"it takes {', '.join(known) or 'none'}",
            fix="leave it out, or take another query: stackgen kb query",
        )
    with open_database(paths.knowledge, reading=True) as database:
        return database.run_named(name, parameters)


_INTERNAL = (
    *("row_origin_keys", "load_set_rows", "lock_pins", "texts", "distributions", "id_scheme"),
    *("derived_campaigns", "derived_contrasts", "identity", "migrations", "inspection_rows"),
)


def datasette_metadata(paths: Paths) -> Mapping[str, object]:
    """Return the metadata with which Datasette shows a knowledge base and its named queries."""
    queries = {  # a name of its own: a table may have that of the query
        f"query-{each.name}": {"title": each.name, "sql": each.sql, "description": each.purpose}
        for each in named_queries()
    }
    tables = {name: {"hidden": True} for name in _INTERNAL}
    own = {"queries": queries, "tables": tables}
    about = "Measured speed of stacks of packages; stacks may be compared within blocks alone."
    return {
        "title": "Knowledge base of stackgen",
        "description": about,
        "databases": {paths.knowledge.stem: own},
    }


def merge(paths: Paths, other: Path) -> int:
    """Add another knowledge base to the user's own; return how many inspections were new."""
    with open_database(paths.knowledge) as database:
        found = database.merge(other)
        prepare(database, this_machine())
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckReport:
    """The rows of a knowledge base that are not valid, in words."""

    knowledge_base: str
    invalid: tuple[str, ...]


def check(paths: Paths) -> CheckReport:
    """Check every row of the knowledge base."""
    with open_database(paths.knowledge, reading=True) as database:
        found = tuple(map(str, database.check()))
    return CheckReport(knowledge_base=str(paths.knowledge), invalid=found)


def recover(damaged: Path, output: Path) -> tuple[int, int]:
    """Copy what can be read of a damaged knowledge base; return (inspections, rows lost).

    Raises:
        UsageError: there is no such file, or the new one exists already.
    """
    if not damaged.is_file() or output.exists():
        raise UsageError(
            f"{output} exists already" if output.exists() else f"there is no file {damaged}",
            why="what can be read of a file is copied to a new one",
            fix="stackgen kb recover DAMAGED NEW",
        )
    try:
        with open_database(output) as database:
            return database.recover(damaged)
    except BaseException:  # half a copy is none, and would be in the way of the next one
        output.unlink(missing_ok=True)
        raise


# What a knowledge base holds of one stack, as a report that other tools' formats can hold

_T = TypeVar("_T", Stack, Machine)


def export(paths: Paths, stack: str, *, indicator: str, machine: str = "") -> LocalReport:
    """Return every inspection of a stack that took part in comparisons, by arguments.

    Of an indicator whose script has changed, the latest state counts.

    Args:
        stack: the beginning of a stack's id.
        indicator: its name.
        machine: the beginning of a machine's id; "" where there is but one.

    Raises:
        UsageError: what was named is not there, or there is more than one.
        EvidenceError: the indicator was not measured on that stack.
    """
    with open_database(paths.knowledge, reading=True) as database:
        chosen = one_stack(database, stack, paths)
        calls = [each for each in database.calls() if each.indicator.name == indicator]
        found = [
            each
            for call in calls
            for each in database.inspections(indicator=call.id)
            if each.stack_id == chosen.id and each.role is not Role.CALIBRATION
        ]
        ids = {each.machine_id for each in found}
        machines = [each for each in database.machines() if each.id in ids]
    if not found:
        raise EvidenceError(
            f"{indicator} was not measured on stack {chosen.id[:12]}",
            why="no comparison holds both",
            fix="see what was measured: stackgen kb query timings "
            f"{shlex.quote(f'indicator={indicator}')}{paths.kb_option}; a command of yours is "
            "called program",
        )
    listing = f"stackgen kb query machines{paths.kb_option}"
    where = _one(machines, machine, "machine", listing)
    return _report(chosen, where, calls, [each for each in found if each.machine_id == where.id])


def one_stack(database: Database, begins: str, paths: Paths) -> Stack:
    """Return the stack whose id begins so.

    Raises:
        UsageError: there is none, or more than one.
    """
    listing = f"stackgen kb query stacks{paths.kb_option}"
    return _one(database.stacks(), begins, "stack", listing)


def _one(known: Sequence[_T], begins: str, kind: str, command: str) -> _T:
    found = [each for each in known if each.id.startswith(begins)]
    if len(found) == 1:
        return found[0]
    raise UsageError(
        f"several {kind}s begin with {begins!r}" if found else f"no {kind} begins with {begins!r}",
        why=f"there are {', '.join(each.id[:12] for each in known) or 'none at all'}",
        fix=f"give the beginning of one id; this lists them: {command}",
    )


def _report(
    stack: Stack, machine: Machine, calls: Iterable[IndicatorCall], found: Sequence[Inspection]
) -> LocalReport:
    measured = {each.indicator_id for each in found}
    latest = max(found, key=lambda each: each.started_at).indicator_id
    present = [each for each in calls if each.id in measured]
    state = next(each.indicator for each in present if each.id == latest)
    same = [each for each in present if each.indicator.identity == state.identity]
    release = stack.facts.distribution.partition(" ")
    identity, around = dict(machine.identity), dict(machine.circumstances)
    platform = {
        "machine": identity.get("architecture", ""),
        "release": around.get("kernel", ""),
        "system": identity.get("system", ""),
    }
    memory = around.get("memory_bytes", "")
    return LocalReport(
        indicator=state,
        script_sha256="",
        python="",
        python_version=stack.facts.python,
        machine=machine,
        host=LocalHost(
            name="",
            os_release=(("id", release[0]), ("version_id", release[2])),
            platform=tuple(sorted(platform.items())),
            memory_total_bytes=int(memory) if memory.isdigit() else 0,
        ),
        results=tuple(
            _result(call, [each for each in found if each.indicator_id == call.id]) for call in same
        ),
        varied=_varied(same),
        began_at=min(each.started_at for each in found),
    )


def _result(call: IndicatorCall, ran: Sequence[Inspection]) -> LocalResult:
    seen = [each.observation for each in ran if each.observation is not None]
    return LocalResult(arguments=call.arguments, figures=figures(seen), inspections=tuple(ran))


def _varied(calls: Sequence[IndicatorCall]) -> tuple[str, ...]:
    values: dict[str, set[str]] = {}
    for call in calls:
        for name, value in call.arguments:
            values.setdefault(name, set()).add(value)
    return tuple(name for name, given in values.items() if len(given) > 1)
