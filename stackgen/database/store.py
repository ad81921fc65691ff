"""The knowledge base: values in, values out."""

import dataclasses
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import TypeVar, final

from stackgen.database import queries, rows
from stackgen.database.connection import connect, damaged, explained, transaction
from stackgen.database.merge import merge
from stackgen.errors import DatabaseError, MeasurementError
from stackgen.values import (
    Artifact,
    Campaign,
    CampaignId,
    IndicatorCall,
    IndicatorId,
    Inspection,
    LoadedDistribution,
    Lock,
    Machine,
    MachineId,
    Outcome,
    Stack,
    StackId,
)

_T = TypeVar("_T")

_INSPECTIONS = """
SELECT * FROM inspections
WHERE (:campaign IS NULL OR campaign_id = :campaign)
  AND (:machine IS NULL OR machine_id = :machine)
  AND (:indicator IS NULL OR indicator_id = :indicator)
  AND (:outcome IS NULL OR outcome = :outcome)
ORDER BY started_at, id
"""
_LOADED = """
SELECT load_set_id, name, version, compiled FROM load_set_members ORDER BY load_set_id, position
"""
_ARTIFACTS = """
SELECT lock_id, artifacts.* FROM lock_artifacts JOIN artifacts USING (name, version, sha256)
WHERE :lock IS NULL OR lock_id = :lock ORDER BY lock_id, name
"""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class KnowledgeStats:
    """How much a knowledge base holds.

    inspections: (outcome, count) pairs, most frequent first; outcomes never seen are absent.
    """

    stacks: int
    machines: int
    campaigns: int
    indicators: int
    inspections: tuple[tuple[Outcome, int], ...]
    file_bytes: int


@final
class Database:
    """An open knowledge base. Rows are only ever added; what is known already is left as it is.

    Every ``add_...`` has committed when it returns, so a killed process loses nothing that it had
    added (see ``stackgen.database.connection``). Use it as a context manager, from one thread.

    Raises (from every method):
        DatabaseError: damaged, locked, not writable, not ours, or of a newer version.
        StorageError: the disk is full.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._connection = connect(path)
        self._connection.row_factory = sqlite3.Row

    def __enter__(self) -> "Database":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the file; what was added stays."""
        self._connection.close()

    # -- adding ---------------------------------------------------------------------------------

    def add_machine(self, machine: Machine) -> None:
        """Add a machine; its circumstances stay as first seen."""
        with self._adding():
            rows.insert(self._connection, "machines", rows.machine_row(machine))

    def add_stack(self, stack: Stack) -> None:
        """Add a stack, its lock and its artifacts."""
        with self._adding():
            rows.insert(self._connection, "locks", {"id": stack.lock.id})
            for artifact in stack.lock.artifacts:
                self._add_artifact(stack.lock, artifact)
            rows.insert(self._connection, "stacks", rows.stack_row(stack))

    def add_indicator(self, call: IndicatorCall) -> None:
        """Add an indicator with its arguments."""
        with self._adding():
            rows.insert(self._connection, "indicators", rows.call_row(call))

    def add_campaign(self, campaign: Campaign, started_at: str) -> None:
        """Add a campaign, whose machine was added before; ``started_at`` is ISO 8601 in UTC."""
        with self._adding():
            row = rows.campaign_row(campaign, started_at)
            rows.insert(self._connection, "campaigns", row)

    def add_inspection(self, inspection: Inspection) -> None:
        """Add an inspection; its stack, machine, indicator and campaign were added before."""
        storable = _storable(inspection)
        with self._adding():
            if storable.observation is not None:
                self._add_loaded(storable.observation.loaded)
            rows.insert(self._connection, "inspections", rows.inspection_row(storable))

    def add_seen(self, name: str, versions: Iterable[str], when: str) -> None:
        """Remember that an index had these versions of a package; the first time is kept."""
        with self._adding():
            for version in versions:
                row = {"name": name, "version": version, "first_seen": when}
                rows.insert(self._connection, "releases_seen", row)

    def merge(self, other: Path) -> int:
        """Add everything that another knowledge base holds; return how many inspections were new.

        Raises:
            DatabaseError: the other file is missing, or not a knowledge base of this version.
        """
        with self._explained():
            return merge(self._connection, ours=self.path, theirs=other)

    # -- reading --------------------------------------------------------------------------------

    def stack(self, stack_id: StackId) -> Stack:
        """Return a stack.

        Raises:
            DatabaseError: the knowledge base holds none of that id.
        """
        found = self._rows("SELECT * FROM stacks WHERE id = :id", {"id": stack_id})
        if not found:
            raise DatabaseError(
                f"no stack {stack_id[:12]} in {self.path}",
                why="it was measured elsewhere, or its id is misspelled",
                fix="run: stackgen kb query stacks",
            )
        locks = self._locks(found[0]["lock_id"])
        return self._read(lambda row: _stack_of(row, locks), found)[0]

    def stacks(self) -> tuple[Stack, ...]:
        """Return every stack, by id."""
        locks = self._locks(None)
        found = self._rows("SELECT * FROM stacks ORDER BY id")
        return self._read(lambda row: _stack_of(row, locks), found)

    def machines(self) -> tuple[Machine, ...]:
        """Return every machine, by id."""
        return self._read(rows.machine_of, self._rows("SELECT * FROM machines ORDER BY id"))

    def calls(self) -> tuple[IndicatorCall, ...]:
        """Return every indicator with its arguments, by name; the paths are ""."""
        found = self._rows("SELECT * FROM indicators ORDER BY name, arguments, id")
        return self._read(rows.call_of, found)

    def campaigns(self) -> tuple[Campaign, ...]:
        """Return every campaign, oldest first."""
        found = self._rows("SELECT * FROM campaigns ORDER BY started_at, id")
        return self._read(rows.campaign_of, found)

    def inspections(
        self,
        *,
        campaign: CampaignId | None = None,
        machine: MachineId | None = None,
        indicator: IndicatorId | None = None,
        outcome: Outcome | None = None,
    ) -> tuple[Inspection, ...]:
        """Return the inspections that match everything given, oldest first."""
        wanted = {
            "campaign": campaign,
            "machine": machine,
            "indicator": indicator,
            "outcome": outcome.value if outcome else None,
        }
        loaded = self._load_sets()
        return self._read(
            lambda row: rows.inspection_of(row, loaded.get(row["load_set_id"], [])),
            self._rows(_INSPECTIONS, wanted),
        )

    def last_block(self, campaign: CampaignId) -> int:
        """Return the number of a campaign's latest block, whoever ran it; 0 before the first."""
        found = self._rows(
            "SELECT coalesce(max(block), 0) AS block FROM inspections WHERE campaign_id = :id",
            {"id": campaign},
        )
        return int(found[0]["block"])

    def count_inspections(self, campaign: CampaignId) -> int:
        """Return how many inspections a campaign has, whoever recorded them."""
        found = self._rows(
            "SELECT count(*) AS n FROM inspections WHERE campaign_id = :id", {"id": campaign}
        )
        return int(found[0]["n"])

    def failures(self) -> tuple[Inspection, ...]:
        """Return the inspections that did not end well, oldest first."""
        return tuple(i for i in self.inspections() if i.outcome is not Outcome.OK)

    def seen_releases(self, name: str) -> frozenset[str]:
        """Return the versions of a package that some index was seen to have."""
        found = self._rows("SELECT version FROM releases_seen WHERE name = :name", {"name": name})
        return frozenset(row["version"] for row in found)

    def stats(self) -> KnowledgeStats:
        """Count what the knowledge base holds."""
        counted = self._rows(
            "SELECT outcome, count(*) AS n FROM inspections GROUP BY outcome ORDER BY n DESC"
        )
        return KnowledgeStats(
            stacks=self._count("SELECT count(*) FROM stacks"),
            machines=self._count("SELECT count(*) FROM machines"),
            campaigns=self._count("SELECT count(*) FROM campaigns"),
            indicators=self._count("SELECT count(*) FROM indicators"),
            inspections=self._read(lambda row: (Outcome(row["outcome"]), int(row["n"])), counted),
            file_bytes=self._count(
                "SELECT page_count * page_size FROM pragma_page_count, pragma_page_size"
            ),
        )

    def run_named(
        self, name: str, parameters: Mapping[str, queries.Cell] | None = None
    ) -> queries.QueryResult:
        """Answer a query of ``kb/queries`` as (columns, rows).

        Raises:
            UsageError: no query has that name, or a parameter of it is missing.
        """
        query = queries.find_query(name)
        with self._explained():
            return queries.run_query(self._connection, query, parameters or {})

    # -- within ---------------------------------------------------------------------------------

    @contextmanager
    def _explained(self) -> Iterator[None]:
        with explained(self.path):
            yield

    @contextmanager
    def _adding(self) -> Iterator[None]:
        with self._explained(), transaction(self._connection):
            yield

    def _add_artifact(self, lock: Lock, artifact: Artifact) -> None:
        rows.insert(self._connection, "artifacts", rows.artifact_row(artifact))
        pin = {"name": artifact.name, "version": artifact.version, "sha256": artifact.sha256}
        rows.insert(self._connection, "lock_artifacts", {"lock_id": lock.id, **pin})

    def _add_loaded(self, loaded: tuple[LoadedDistribution, ...]) -> None:
        load_set_id = rows.load_set_id(loaded)
        rows.insert(self._connection, "load_sets", {"id": load_set_id})
        for position, member in enumerate(loaded):
            row: rows.Row = {
                "load_set_id": load_set_id,
                "position": position,
                "name": member.name,
                "version": member.version,
                "compiled": int(member.compiled),
            }
            rows.insert(self._connection, "load_set_members", row)

    def _rows(self, sql: str, parameters: rows.Row | None = None) -> list[sqlite3.Row]:
        with self._explained():
            return self._connection.execute(sql, parameters or {}).fetchall()

    def _count(self, sql: str) -> int:
        return int(self._rows(sql)[0][0])

    def _read(self, read: Callable[[sqlite3.Row], _T], found: list[sqlite3.Row]) -> tuple[_T, ...]:
        try:
            return rows.each(read, found)
        except (ValueError, KeyError, TypeError, MeasurementError) as error:
            raise damaged(self.path, f"a row cannot be read: {error!r}") from error

    def _locks(self, lock_id: str | None) -> dict[str, list[Artifact]]:
        locks: dict[str, list[Artifact]] = {}
        for row in self._rows(_ARTIFACTS, {"lock": lock_id}):
            locks.setdefault(row["lock_id"], []).append(rows.artifact_of(row))
        return locks

    def _load_sets(self) -> dict[str, list[LoadedDistribution]]:
        sets: dict[str, list[LoadedDistribution]] = {}
        for row in self._rows(_LOADED):
            sets.setdefault(row["load_set_id"], []).append(rows.loaded_of(row))
        return sets


def open_database(path: Path) -> Database:
    """Open a knowledge base, or create it.

    Raises:
        DatabaseError: damaged, locked, not writable, not ours, or of a newer version.
        StorageError: its folder cannot be made, or the disk is full.
    """
    return Database(path)


def _stack_of(row: sqlite3.Row, locks: Mapping[str, list[Artifact]]) -> Stack:
    return Stack(
        lock=Lock(artifacts=tuple(locks.get(row["lock_id"], ()))),
        facts=rows.facts_of(row),
        settings=rows.pairs(row["settings"]),
    )


def _storable(inspection: Inspection) -> Inspection:
    """Return the inspection with a log that is valid Unicode: SQLite refuses lone surrogates.

    A process may print any bytes, and losing its inspection for that is not an option.
    """
    log = inspection.log.encode("utf-8", "backslashreplace").decode("utf-8")
    return inspection if log == inspection.log else dataclasses.replace(inspection, log=log)
