"""Check every row of a knowledge base, own or foreign, as a new one would be checked."""

import json
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from stackgen.errors import MeasurementError
from stackgen.knowledge import rows
from stackgen.knowledge.rows import Cell, Row
from stackgen.model.inspections import LoadedDistribution
from stackgen.model.packages import Artifact, Lock
from stackgen.model.stacks import Stack

KEYS: Mapping[str, tuple[str, ...]] = {
    "artifacts": ("name", "version", "sha256"),
    "locks": ("id",),
    "lock_artifacts": ("lock_id", "name"),
    "stacks": ("id",),
    "machines": ("id",),
    "indicators": ("id",),
    "campaigns": ("id",),
    "load_sets": ("id",),
    "load_set_members": ("load_set_id", "position"),
    "inspections": ("id",),
}
"""The tables that are merged, and the columns of their keys; each after what it refers to."""

_ID_LENGTH = 64
_MEMBERS_OF = {"locks": "lock_artifacts", "load_sets": "load_set_members"}


@dataclass(frozen=True, slots=True, kw_only=True)
class ValidRow:
    """A row as this stackgen writes it: decoded, validated, encoded again."""

    table: str
    row: Row

    @property
    def key(self) -> tuple[Cell, ...]:
        """Return the values of the table's key."""
        return tuple(self.row[column] for column in KEYS[self.table])


@dataclass(frozen=True, slots=True, kw_only=True)
class InvalidRow:
    """A row that is not valid, and why.

    key: as it is stored, which may be anything.
    """

    table: str
    key: tuple[object, ...]
    reason: str

    def __str__(self) -> str:
        shown = " ".join(map(_shown, self.key))
        return f"{self.table} {shown}: {self.reason}"


def _shown(value: object) -> str:
    plain = isinstance(value, str) and value.isascii() and value.isprintable()
    return str(value) if plain and len(str(value)) <= _ID_LENGTH else rows.shown(value)


@dataclass(slots=True)
class Reader:
    """Reads all rows of a knowledge base whose schema was checked, one table after the other.

    Ids are computed again from what they identify. A row that refers to an invalid one is not
    checked: removing the invalid one leaves it with a dangling reference.
    """

    connection: sqlite3.Connection
    _artifacts: dict[tuple[Cell, ...], Artifact] = field(default_factory=dict)
    _locks: dict[str, Lock] = field(default_factory=dict)
    _load_sets: dict[str, tuple[LoadedDistribution, ...]] = field(default_factory=dict)
    _ids: dict[str, set[object]] = field(default_factory=dict)
    _places: set[tuple[object, ...]] = field(default_factory=set)

    def read(self) -> Iterator[ValidRow | InvalidRow]:
        """Yield every row, checked, in the order of ``KEYS``; members with what they belong to."""
        yield from self._each("artifacts", self._artifact)
        yield from self._grouped("locks", "lock_artifacts", self._lock)
        yield from self._each("stacks", self._stack)
        yield from self._each("machines", _machine)
        yield from self._each("indicators", _indicator)
        yield from self._each("campaigns", self._campaign)
        yield from self._grouped("load_sets", "load_set_members", self._load_set)
        yield from self._each("inspections", self._inspection)

    def _each(
        self, table: str, check: Callable[[sqlite3.Row], Row | None]
    ) -> Iterator[ValidRow | InvalidRow]:
        known = self._ids.setdefault(table, set())
        # The names are ours. Rows in the order in which they were added: of two, the first counts.
        for row in self.connection.execute(f"SELECT * FROM {table}"):  # noqa: S608
            key = tuple(row[column] for column in KEYS[table])
            known.add(key[0])
            try:
                checked = check(row)
            except (ValueError, MeasurementError) as error:
                yield InvalidRow(table=table, key=key, reason=reason(error))
            else:
                if checked is not None:
                    yield ValidRow(table=table, row=checked)

    def _grouped(
        self,
        table: str,
        members: str,
        check: Callable[[sqlite3.Row, list[sqlite3.Row]], Iterable[Row]],
    ) -> Iterator[ValidRow | InvalidRow]:
        """Yield rows whose id is made of their members, each before its members."""
        (owner, place) = KEYS[members]
        groups: dict[object, list[sqlite3.Row]] = {}
        ordered = f"SELECT * FROM {members} ORDER BY {owner}, {place}"  # noqa: S608
        for row in self.connection.execute(ordered):
            groups.setdefault(row[owner], []).append(row)
        known = self._ids.setdefault(table, set())
        for row in self.connection.execute(f"SELECT id FROM {table}"):  # noqa: S608
            known.add(row["id"])
            try:
                checked = list(check(row, groups.pop(row["id"], [])))
            except (ValueError, MeasurementError) as error:
                yield InvalidRow(table=table, key=(row["id"],), reason=reason(error))
            else:
                yield ValidRow(table=table, row={"id": row["id"]})
                yield from (ValidRow(table=members, row=each) for each in checked)
        for rest in groups.values():
            for row in rest:
                why = f"{owner}: there is no such row in {table}"
                yield InvalidRow(table=members, key=(row[owner], row[place]), reason=why)

    def _artifact(self, row: sqlite3.Row) -> Row:
        artifact = rows.artifact_of(row)
        self._artifacts[artifact.name, artifact.version, artifact.sha256] = artifact
        return rows.artifact_row(artifact)

    def _lock(self, row: sqlite3.Row, members: list[sqlite3.Row]) -> Iterator[Row]:
        pins = [
            {column: rows.text(each, column) for column in ("name", "version", "sha256")}
            for each in members
        ]
        missing = [pin for pin in pins if tuple(pin.values()) not in self._artifacts]
        if missing:
            raise ValueError(f"it pins an artifact that is not there: {rows.shown(missing[0])}")
        lock = Lock(artifacts=tuple(self._artifacts[tuple(pin.values())] for pin in pins))
        _refuse_other_id(row, lock.id)
        self._locks[lock.id] = lock
        return ({"lock_id": lock.id, **pin} for pin in pins)

    def _stack(self, row: sqlite3.Row) -> Row | None:
        self._refer(row, "lock_id", "locks")
        lock = self._locks.get(rows.text(row, "lock_id"))
        if lock is None:
            return None
        stack = Stack(lock=lock, facts=rows.facts_of(row), settings=rows.pairs(row, "settings"))
        _refuse_other_id(row, stack.id)
        return rows.stack_row(stack)

    def _campaign(self, row: sqlite3.Row) -> Row:
        self._refer(row, "machine_id", "machines")
        campaign = rows.campaign_of(row)
        _refuse_other_id(row, campaign.id)
        return rows.campaign_row(campaign, rows.time(row, "started_at"))

    def _load_set(self, row: sqlite3.Row, members: list[sqlite3.Row]) -> Iterator[Row]:
        loaded = tuple(map(rows.loaded_of, members))
        _refuse_other_id(row, rows.load_set_id(loaded))
        if [each["position"] for each in members] != list(range(len(members))):
            raise ValueError("position: its members are not numbered from 0")
        self._load_sets[row["id"]] = loaded
        return iter(rows.load_set_rows(loaded))

    def _inspection(self, row: sqlite3.Row) -> Row | None:
        for column, table in (
            ("stack_id", "stacks"),
            ("machine_id", "machines"),
            ("indicator_id", "indicators"),
            ("campaign_id", "campaigns"),
        ):
            self._refer(row, column, table)
        loaded: tuple[LoadedDistribution, ...] = ()
        if rows.cell(row, "load_set_id") is not None:
            self._refer(row, "load_set_id", "load_sets")
            if row["load_set_id"] not in self._load_sets:
                return None
            loaded = self._load_sets[row["load_set_id"]]
        rows.time(row, "started_at")
        inspection = rows.inspection_of(row, loaded)
        _refuse_other_id(row, inspection.id)
        checked = rows.inspection_row(inspection)
        place = place_of(checked)
        if place is not None and place in self._places:
            raise ValueError("another row has the same campaign, block, stack and indicator")
        if place is not None:
            self._places.add(place)
        return checked

    def _refer(self, row: sqlite3.Row, column: str, table: str) -> None:
        if rows.cell(row, column) not in self._ids[table]:
            raise ValueError(f"{column}: there is no such row in {table}")


def place_of(inspection: Row) -> tuple[Cell, ...] | None:
    """Return what no two inspections share; None outside of blocks.

    A block runs each indicator once on each stack, and on the baseline a second time as its twin.
    """
    if not inspection["block"]:
        return None
    columns = ("campaign_id", "block", "stack_id", "indicator_id")
    return (*(inspection[column] for column in columns), inspection["role"] == "twin")


def remove(connection: sqlite3.Connection, invalid: InvalidRow) -> None:
    """Remove a row, and its members where it has any.

    Raises:
        sqlite3.DatabaseError: it cannot be found by its key, for ``explained``.
    """
    table, keys = invalid.table, KEYS[invalid.table]
    where = " AND ".join(f"CAST({column} AS BLOB) IS CAST(? AS BLOB)" for column in keys)
    stored = [_bytes(each) if isinstance(each, str) else each for each in invalid.key]
    done = connection.execute(f"DELETE FROM {table} WHERE {where}", stored)  # noqa: S608
    if not done.rowcount:
        raise sqlite3.DatabaseError(f"a row cannot be removed: {invalid}")
    entry = (table, _bytes(_text_of(invalid.key)))
    origins = "DELETE FROM row_origins WHERE table_name = ? AND CAST(row_key AS BLOB) = ?"
    connection.execute(origins, entry)
    members = _MEMBERS_OF.get(table)
    if members is not None:
        owner = KEYS[members][0]
        where = f"CAST({owner} AS BLOB) IS CAST(? AS BLOB)"
        connection.execute(f"DELETE FROM {members} WHERE {where}", stored)  # noqa: S608


def _bytes(stored: str) -> bytes:
    """Return a text as the file has it; it may not be valid UTF-8."""
    return stored.encode("utf-8", "surrogateescape")


def row_key(table: str, row: Row) -> str:
    """Return a row's key as one text: the id, or a JSON list of several columns."""
    return _text_of([row[column] for column in KEYS[table]])


def _text_of(key: Sequence[object]) -> str:
    return str(key[0]) if len(key) == 1 else json.dumps(key, default=str)


def reason(error: Exception) -> str:
    """Return in words why a row is not valid."""
    return f"{error.what}: {error.why}" if isinstance(error, MeasurementError) else str(error)


def _machine(row: sqlite3.Row) -> Row:
    machine = rows.machine_of(row)
    _refuse_other_id(row, machine.id)
    return rows.machine_row(machine)


def _indicator(row: sqlite3.Row) -> Row:
    call = rows.call_of(row)
    _refuse_other_id(row, call.id)
    return rows.call_row(call)


def _refuse_other_id(row: sqlite3.Row, computed: str) -> None:
    if row["id"] != computed:
        raise ValueError(f"its id is not that of its content, which is {computed}")
