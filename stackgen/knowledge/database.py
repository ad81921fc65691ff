"""The knowledge base: values in, values out."""

import dataclasses
import json
import sqlite3
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from datetime import datetime, timezone
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, TypeVar, final

from stackgen.errors import DatabaseError, MeasurementError
from stackgen.knowledge import checking, derived, exchange, recovery, rows
from stackgen.knowledge.connection import (
    connect,
    connect_read_only,
    explained,
    is_writable,
    refuse_other_schema,
    transaction,
    unreadable,
)
from stackgen.knowledge.merging import merge
from stackgen.knowledge.origins import OriginSummary, find_origin, origins, remove_origin
from stackgen.knowledge.public import Redaction
from stackgen.knowledge.queries import QueryResult, find_query, run_query
from stackgen.knowledge.writing import Writer
from stackgen.measure.contrasts import CampaignContrasts
from stackgen.model.evidence import CampaignIdentity, Origin
from stackgen.model.identity import CampaignId, IndicatorId, InspectionId, MachineId, StackId
from stackgen.model.inspections import (
    OUTCOME_CODES,
    IndicatorCall,
    Inspection,
    LoadedDistribution,
    Outcome,
)
from stackgen.model.packages import Artifact, Lock
from stackgen.model.stacks import Machine, Stack
from stackgen.storage.state import StateDatabase, state_path

_T = TypeVar("_T")

_FILTERS = {
    "campaign": "i.campaign_key = (SELECT key FROM campaigns WHERE id = :campaign)",
    "machine": "i.machine_key = (SELECT key FROM machines WHERE id = :machine)",
    "stack": "i.stack_key = (SELECT key FROM stacks WHERE id = :stack)",
    "indicator": "i.indicator_key = (SELECT key FROM indicators WHERE id = :indicator)",
    "outcome": "i.outcome = :outcome",
    "failing": "i.key IN (SELECT key FROM inspection_rows WHERE outcome <> 'ok' UNION ALL "
    "SELECT min(key) FROM inspection_rows WHERE outcome = 'ok' AND (indicator_key, machine_key) IN "
    "(SELECT indicator_key, machine_key FROM inspection_rows WHERE outcome <> 'ok') "
    "GROUP BY machine_key, indicator_key, stack_key)",
}
_LOADED = """
SELECT load_sets.id AS load_set_id, position, d.name, d.version, compiled FROM load_set_rows
JOIN load_sets ON load_sets.key = load_set_key JOIN distributions AS d ON d.key = distribution_key
{which} ORDER BY load_sets.id, position
"""
_USED = "WHERE load_sets.key IN (SELECT load_set_key FROM inspection_rows AS i {where})"
_ORIGINS = """
SELECT lower(hex(i.id)) AS id, origins.id AS origin, label, first_seen FROM row_origin_keys AS r
JOIN inspection_rows AS i ON i.key = r.row_key JOIN origins ON origins.key = r.origin_key
WHERE r.kind = 8 ORDER BY i.id, first_seen, label
"""
_EVIDENCE = """
FROM inspection_rows AS i WHERE i.campaign_key = (SELECT key FROM campaigns WHERE id = ?)
AND i.indicator_key = (SELECT key FROM indicators WHERE id = ?) AND i.block > 0
AND i.role <> 'search'
"""
_COUNT = f"SELECT count(*) {_EVIDENCE}"
_FOREIGN = f"""
WITH used AS (SELECT i.key {_EVIDENCE}),
own AS (SELECT row_key FROM row_origin_keys JOIN origins ON origins.key = origin_key
        WHERE kind = 8 AND row_key IN used AND origins.id IN ({{own}}))
SELECT o.id, o.label, o.first_seen, count(*) AS n FROM row_origin_keys AS r
JOIN origins AS o ON o.key = r.origin_key
WHERE r.kind = 8 AND r.row_key IN used AND r.row_key NOT IN own GROUP BY o.key
"""  # noqa: S608 the text is ours
_OF_CAMPAIGN = (
    "FROM inspection_rows WHERE campaign_key = (SELECT key FROM campaigns WHERE id = :id)"
)
_AMONG = "WHERE {} IN (SELECT value FROM json_each(:ids))"
_STACKS = "SELECT * FROM stacks {} ORDER BY id"
_LOCKS = "SELECT key, id FROM locks {}"
_PINS = "SELECT lock_key, group_concat(artifact_key) FROM lock_pins {} GROUP BY lock_key"
_PINNED = "WHERE key IN (SELECT artifact_key FROM lock_pins {})"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class KnowledgeStats:
    """Counts of what a knowledge base contains.

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
    added (see ``stackgen.knowledge.connection``). Use it as a context manager, from one thread.
    ``read_only`` says that nothing can be added, not even what is derived.

    Raises (from every method):
        DatabaseError: damaged, locked, not writable, not ours, or of a newer version.
        StorageError: the disk is full.
    """

    def __init__(self, path: Path, *, reading: bool = False) -> None:
        self.path = path
        self.read_only = reading and path.exists() and not is_writable(path)
        self._connection = connect_read_only(path) if self.read_only else connect(path)
        self._state = state_path(path)

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

    @cached_property
    def _installation(self) -> str:
        with StateDatabase(self._state) as state:
            return state.installation

    @property
    def base_id(self) -> str:
        """Return the identity of this knowledge base."""
        return "".join(row["id"] for row in self._rows("SELECT id FROM identity"))

    def add_machine(self, machine: Machine) -> None:
        """Add a machine; its circumstances stay as first seen."""
        with self._adding() as (writer, origins):
            writer.add("machines", rows.machine_row(machine), origins)

    def add_stack(self, stack: Stack) -> None:
        """Add a stack, its lock and its artifacts."""
        with self._adding() as (writer, origins):
            new = writer.add("locks", {"id": stack.lock.id}, origins)
            for artifact in stack.lock.artifacts:
                row = rows.artifact_row(artifact)
                writer.add("artifacts", row, origins)
                if new is not None:
                    writer.pin(stack.lock.id, row)
            writer.add("stacks", rows.stack_row(stack), origins)

    def add_indicator(self, call: IndicatorCall) -> None:
        """Add an indicator with its arguments."""
        with self._adding() as (writer, origins):
            writer.add("indicators", rows.call_row(call), origins)

    def add_campaign(self, campaign: CampaignIdentity, started_at: str) -> None:
        """Add a campaign, whose machine was added before; ``started_at`` is ISO 8601 in UTC."""
        with self._adding() as (writer, origins):
            writer.add("campaigns", rows.campaign_row(campaign, started_at), origins)

    def add_inspection(self, inspection: Inspection) -> None:
        """Add an inspection; its stack, machine, indicator and campaign were added before."""
        storable = _storable(inspection)
        with self._adding() as (writer, origins):
            if storable.observation is not None:
                loaded = storable.observation.loaded
                new = writer.add("load_sets", {"id": rows.load_set_id(loaded)}, origins)
                for row in rows.load_set_rows(loaded) if new is not None else ():
                    writer.load(row)
            writer.add("inspections", rows.inspection_row(storable), origins)

    def merge(self, other: Path) -> int:
        """Add all rows of another knowledge base; return how many inspections were new.

        Raises:
            DatabaseError: the other file is missing, or not a knowledge base of this version.
        """
        with self._explained():
            return merge(self._connection, ours=self.path, theirs=other)

    def export(self, redaction: Redaction | None = None) -> Generator[str, None, None]:
        """Yield the rows as JSON lines (``stackgen.knowledge.exchange``), in one state of the file.

        Raises:
            DatabaseError: a row is not valid.
        """
        with self._explained():
            refuse_other_schema(self._connection, additions=False)
            self._connection.execute("BEGIN")
            try:
                yield from exchange.export_lines(self._connection, self.path, redaction)
            finally:
                self._connection.execute("ROLLBACK")

    def import_lines(self, source: BinaryIO, name: Path) -> int:
        """Add the rows of an export; return how many inspections are new.

        Raises:
            DatabaseError: a line is not valid or contradicts a known row. Nothing was changed then.
        """
        with self._explained():
            return exchange.import_lines(self._connection, source, name)

    def origin_summaries(self) -> tuple[OriginSummary, ...]:
        """Return every origin, that with the most inspections first."""
        with self._explained():
            return origins(self._connection, own=self.own_origins, trusted=self.trusted_origins)

    @property
    def trusted_origins(self) -> frozenset[str]:
        """Return the ids of the installations that the user trusts."""
        if not self._state.exists():
            return frozenset()
        with StateDatabase(self._state, reading=True) as state:
            return frozenset(state.trusted_origins())

    def find_origin(self, begins: str) -> str:
        """Return the id of the origin that begins so.

        Raises:
            UsageError: there is none, or more than one.
        """
        with self._explained():
            return find_origin(self._connection, begins)

    def remove_origin(self, origin: str) -> int:
        """Remove an origin and what it alone recorded; return how many inspections that were.

        No seed brings it back (``stackgen.knowledge.seed``).
        """
        with StateDatabase(self._state) as state:
            state.add_removed_origin(self.base_id, origin)
        with self._explained():
            with transaction(self._connection):
                removed = remove_origin(self._connection, origin)
            self._connection.execute("VACUUM")
        return removed

    def set_trust(self, origin: str, *, trusted: bool) -> None:
        """Trust another installation, or trust it no longer."""
        with StateDatabase(self._state) as state:
            if trusted:
                now = datetime.now(timezone.utc).isoformat(timespec="seconds")
                state.trust_origin(origin, now)
            else:
                state.distrust_origin(origin)

    def check(self) -> tuple[checking.InvalidRow, ...]:
        """Return every row that a merge would refuse."""
        with self._explained():
            refuse_other_schema(self._connection, additions=False)
            reader = checking.RowReader(self._connection)
            return tuple(each for each in reader.read() if isinstance(each, checking.InvalidRow))

    def recover(self, source: Path) -> tuple[int, int]:
        """Copy what can be read of a damaged knowledge base into this one, which is empty.

        Returns how many inspections were recovered, and how many rows were lost or are not valid.

        Raises:
            DatabaseError: not even the schema can be read, or the file has another version.
        """
        with self._changing_at_will():
            lost = recovery.copy_readable(source, self._connection) + self._remove_invalid()
        return self._count("SELECT count(*) FROM inspection_rows"), lost

    @contextmanager
    def _changing_at_will(self) -> Iterator[None]:
        """Begin a transaction in which rows may refer to others that are not there."""
        with self._explained():
            self._connection.execute("PRAGMA foreign_keys = OFF")
            try:
                with transaction(self._connection):
                    yield
            finally:
                self._connection.execute("PRAGMA foreign_keys = ON")

    def _remove_invalid(self) -> int:
        """Remove rows that are not valid, then those that referred to them; return how many."""
        removed = 0
        while found := self.check():
            for each in found:
                checking.remove(self._connection, each)
            removed += len(found)
        return removed

    def stack(self, stack_id: StackId) -> Stack:
        """Return a stack.

        Raises:
            DatabaseError: the knowledge base has none of that id.
        """
        found = self._rows("SELECT * FROM stacks WHERE id = :id", {"id": stack_id})
        if not found:
            raise DatabaseError(
                f"no stack {stack_id[:12]} in {self.path}",
                why="it was measured elsewhere, or its id is misspelled",
                fix="run: stackgen kb query stacks",
            )
        locks = self._locks({found[0]["lock_id"]})
        return self._read("stacks", lambda row: _stack_of(row, locks), found)[0]

    def stacks(self, only: Collection[StackId] | None = None) -> tuple[Stack, ...]:
        """Return every stack, or those of some ids, by id."""
        which = "" if only is None else _AMONG.format("id")
        ids = {"ids": json.dumps([*(only or ())])}
        with self._one_state():
            found = self._rows(_STACKS.format(which), ids)
            locks = self._locks(None if only is None else {each["lock_id"] for each in found})
        return self._read("stacks", lambda row: _stack_of(row, locks), found)

    def machines(self) -> tuple[Machine, ...]:
        """Return every machine, by id."""
        found = self._rows("SELECT * FROM machines ORDER BY id")
        return self._read("machines", rows.machine_of, found)

    def calls(self) -> tuple[IndicatorCall, ...]:
        """Return every indicator with its arguments, by name; the paths are ""."""
        found = self._rows("SELECT * FROM indicators ORDER BY name, arguments, id")
        return self._read("indicators", rows.call_of, found)

    def campaigns(self, kind: str | None = None) -> tuple[CampaignIdentity, ...]:
        """Return every campaign, or those of a kind, oldest first."""
        wanted = "SELECT * FROM campaigns WHERE :kind IS NULL OR kind = :kind"
        found = self._rows(f"{wanted} ORDER BY started_at, id", {"kind": kind})
        return self._read("campaigns", rows.campaign_of, found)

    def inspections(
        self,
        *,
        campaign: CampaignId | None = None,
        machine: MachineId | None = None,
        stack: StackId | None = None,
        indicator: IndicatorId | None = None,
        outcome: Outcome | None = None,
        failing: bool = False,
    ) -> tuple[Inspection, ...]:
        """Return the inspections that match everything given, oldest first.

        With ``failing``, those that failed, and of what ran the same on the same machine one of
        each stack: what ``explain_failures`` needs.
        """
        wanted = {
            "campaign": campaign,
            "machine": machine,
            "stack": stack,
            "indicator": indicator,
            "outcome": OUTCOME_CODES[outcome] if outcome else None,
            "failing": failing or None,
        }
        filters = [text for name, text in _FILTERS.items() if wanted[name] is not None]
        where = f"WHERE {' AND '.join(filters)} " if filters else ""
        with self._one_state():
            loaded = self._load_sets(_USED.format(where=where) if where else "", wanted)
            found = self._rows(f"{rows.INSPECTIONS} {where}ORDER BY i.started_at, i.id", wanted)
        return self._read(
            "inspections",
            lambda row: rows.inspection_of(row, loaded.get(row["load_set_id"], [])),
            found,
        )

    def last_block(self, campaign: CampaignId) -> int:
        """Return the number of a campaign's latest block, of any process; 0 before the first."""
        return self._count(f"SELECT coalesce(max(block), 0) {_OF_CAMPAIGN}", {"id": campaign})

    def count_inspections(self, campaign: CampaignId) -> int:
        """Return how many inspections a campaign has, of any origin."""
        return self._count(f"SELECT count(*) {_OF_CAMPAIGN}", {"id": campaign})

    def contrasts(
        self, indicators: Collection[IndicatorId] | None = None
    ) -> tuple[CampaignContrasts, ...]:
        """Return what campaigns say of these indicators, or of all (``derived``)."""
        return self.derived(indicators).contrasts

    def derived(
        self,
        indicators: Collection[IndicatorId] | None = None,
        campaigns: Collection[CampaignId] | None = None,
    ) -> derived.Derived:
        """Return what is derived of campaigns on these indicators, or of all, from the cache.

        What is missing or outdated there is derived first; of a file that is only read, in memory.
        Origins are empty where this installation alone measured.
        """
        fresh: list[derived.Derived] = []
        own = self.own_origins
        with self._explained():
            outdated = derived.outdated(self._connection)
        calls = self.calls() if outdated else ()
        for row in outdated:
            (campaign,) = self._read("campaigns", rows.campaign_of, [row])
            inspections = self.inspections(campaign=campaign.id)
            with self._explained():
                found = derived.derive(
                    self._connection, row["key"], campaign, inspections, calls, own
                )
                if self.read_only:
                    fresh.append(found)
                    continue
                with transaction(self._connection):
                    derived.store(self._connection, row["key"], found)
        with self._explained():
            fresh.append(derived.load(self._connection, indicators, campaigns))
        return derived.Derived(
            contrasts=tuple(
                dataclasses.replace(each, origins=()) if own.issuperset(each.origins) else each
                for one in fresh
                for each in one.contrasts
                if indicators is None or each.indicator_id in indicators
            ),
            summaries=tuple(
                each
                for one in fresh
                for each in one.summaries
                if indicators is None or each.indicator_id in indicators
            ),
        )

    def outline(self) -> bytes | None:
        """Return what was stored as the outline of the knowledge base, unless it is outdated."""
        with self._explained():
            return derived.load_outline(self._connection)

    def store_outline(self, content: bytes) -> None:
        """Store an outline of all that is known; nothing is where nothing can be written."""
        if not self.read_only:
            with self._explained(), transaction(self._connection):
                derived.store_outline(self._connection, content)

    def count_evidence(
        self, evidence: Iterable[tuple[CampaignId, IndicatorId]]
    ) -> tuple[int, Mapping[Origin, int]]:
        """Count the inspections that comparisons rest on: all blocks but those of searches.

        Returns:
            How many there are, and how many each other installation recorded (those that this one
            recorded, too, are not counted there), first seen first.
        """
        marks = ", ".join("?" * len(own := sorted(self.own_origins)))
        count = 0
        merged: dict[Origin, int] = {}
        with self._one_state():
            for where in evidence:
                with self._explained():
                    found = self._connection.execute(_COUNT, where).fetchone()
                    foreign = self._connection.execute(_FOREIGN.format(own=marks), (*where, *own))
                    count += int(found[0])
                    for row in foreign.fetchall():
                        origin = Origin(
                            id=row["id"], label=row["label"], first_seen=row["first_seen"]
                        )
                        merged[origin] = merged.get(origin, 0) + int(row["n"])
        ordered = sorted(merged.items(), key=lambda each: (each[0].first_seen, each[0].label))
        return count, dict(ordered)

    def origins(self) -> Mapping[InspectionId, tuple[Origin, ...]]:
        """Return the origins of the inspections that other installations recorded, by id."""
        own = self.own_origins
        origins: dict[InspectionId, tuple[Origin, ...]] = {}
        for row in self._rows(_ORIGINS):
            origin = Origin(id=row["origin"], label=row["label"], first_seen=row["first_seen"])
            inspection = InspectionId(row["id"])
            origins[inspection] = (*origins.get(inspection, ()), origin)
        return {
            inspection: found
            for inspection, found in origins.items()
            if not own & {each.id for each in found}
        }

    @property
    def own_origins(self) -> frozenset[str]:
        """Return the ids under which this installation recorded rows of this knowledge base.

        Up to version 4 of the file that was the identity of the file.
        """
        installation = ""
        if self._state.exists():
            with StateDatabase(self._state, reading=True) as state:
                installation = state.installation
        return frozenset({installation, self.base_id} - {""})

    def stats(self) -> KnowledgeStats:
        """Count what the knowledge base contains."""
        counted = self._rows(
            "SELECT outcome, count(*) AS n, lower(hex(min(id))) AS id FROM inspection_rows "
            "GROUP BY outcome ORDER BY n DESC"
        )
        return KnowledgeStats(
            stacks=self._count("SELECT count(*) FROM stacks"),
            machines=self._count("SELECT count(*) FROM machines"),
            campaigns=self._count("SELECT count(*) FROM campaigns"),
            indicators=self._count("SELECT count(*) FROM indicators"),
            inspections=self._read(
                "inspections", lambda row: (rows.outcome_of(row), int(row["n"])), counted
            ),
            file_bytes=self._count(
                "SELECT page_count * page_size FROM pragma_page_count, pragma_page_size"
            ),
        )

    def run_named(
        self, name: str, parameters: Mapping[str, rows.Cell] | None = None
    ) -> QueryResult:
        """Answer a query of ``kb/queries`` as (columns, rows).

        Raises:
            UsageError: no query has that name, or a parameter of it is missing.
        """
        query = find_query(name)
        with self._explained():
            return run_query(self._connection, query, parameters or {})

    def _explained(self) -> AbstractContextManager[None]:
        return explained(self.path)

    @contextmanager
    def _adding(self) -> Iterator[tuple[Writer, tuple[int, ...]]]:
        with self._explained(), transaction(self._connection):
            writer = Writer(self._connection)
            now = datetime.now(timezone.utc).isoformat(timespec="seconds")
            yield writer, (writer.origin(self._installation, "", now),)
            writer.flush()

    def _rows(self, sql: str, parameters: rows.Row | None = None) -> list[sqlite3.Row]:
        with self._explained():
            return self._connection.execute(sql, parameters or {}).fetchall()

    def _count(self, sql: str, parameters: rows.Row | None = None) -> int:
        return int(self._rows(sql, parameters)[0][0])

    def _read(
        self, table: str, read: Callable[[sqlite3.Row], _T], found: Iterable[sqlite3.Row]
    ) -> tuple[_T, ...]:
        values = []
        for row in found:
            try:
                values.append(read(row))
            except (ValueError, MeasurementError) as error:
                key = tuple(row[column] for column in checking.KEYS[table])
                why = checking.InvalidRow(table=table, key=key, reason=checking.reason(error))
                raise unreadable(self.path, str(why)) from error
        return tuple(values)

    @contextmanager
    def _one_state(self) -> Iterator[None]:
        """Read several tables as of one moment: another process may add rows meanwhile."""
        if self._connection.in_transaction:
            yield
            return
        with self._explained():
            self._connection.execute("BEGIN")
        try:
            yield
        finally:
            self._connection.execute("ROLLBACK")

    def _locks(self, ids: Collection[str] | None) -> dict[str, list[Artifact]]:
        which = "" if ids is None else _AMONG.format("id")
        wanted = {"ids": json.dumps([*(ids or ())])}
        names = dict(map(tuple, self._rows(_LOCKS.format(which), wanted)))
        of = f"WHERE lock_key IN (SELECT key FROM locks {which})" if which else ""  # noqa: S608 ours
        used = _PINNED.format(of) if which else ""
        found = self._rows(f"SELECT * FROM artifacts {used}", wanted)  # noqa: S608 ours
        keys = [str(row["key"]) for row in found]
        artifacts = dict(zip(keys, self._read("artifacts", rows.artifact_of, found), strict=True))
        locks: dict[str, list[Artifact]] = {}
        for lock, pins in self._rows(_PINS.format(of), wanted):  # most locks have most in common
            if lock in names:
                locks[names[lock]] = [artifacts[key] for key in pins.split(",")]
        for pinned in locks.values():
            pinned.sort(key=lambda each: each.name)
        return locks

    def _load_sets(self, which: str, wanted: rows.Row) -> dict[str, list[LoadedDistribution]]:
        sets: dict[str, list[LoadedDistribution]] = {}
        found = self._rows(_LOADED.format(which=which), wanted)
        members = self._read("load_set_members", rows.loaded_of, found)
        for row, member in zip(found, members, strict=True):
            sets.setdefault(row["load_set_id"], []).append(member)
        return sets


def open_database(path: Path, *, reading: bool = False) -> Database:
    """Open a knowledge base, or create it.

    With ``reading``, nothing will be added: a file or folder that cannot be written is good enough.

    Raises:
        DatabaseError: damaged, locked, not writable, not ours, or of a newer version.
        StorageError: its folder cannot be made, or the disk is full.
    """
    return Database(path, reading=reading)


def _stack_of(row: sqlite3.Row, locks: Mapping[str, list[Artifact]]) -> Stack:
    return Stack(
        lock=Lock(artifacts=tuple(locks.get(row["lock_id"], ()))),
        facts=rows.facts_of(row),
        settings=rows.pairs(row, "settings"),
    )


def _storable(inspection: Inspection) -> Inspection:
    """Return the inspection with a log that is valid Unicode: SQLite refuses lone surrogates.

    A process may print any bytes, and losing its inspection for that is not an option.
    """
    log = inspection.log.encode("utf-8", "backslashreplace").decode("utf-8")
    return inspection if log == inspection.log else dataclasses.replace(inspection, log=log)
