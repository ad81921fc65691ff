"""Check every row of a knowledge base, own or foreign, as a new one would be checked."""

import re
import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from packaging.version import Version

from stackgen.errors import MeasurementError
from stackgen.knowledge import rows
from stackgen.knowledge.rows import Cell, Row
from stackgen.knowledge.writing import KINDS, MEMBERS
from stackgen.model.inspections import Inspection, LoadedDistribution
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

_STORED: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "lock_artifacts": ("lock_pins", ("lock_key", "artifact_key")),
    "load_set_members": ("load_set_rows", ("load_set_key", "position")),
    "inspections": ("inspection_rows", ("key",)),
}
"""Where rows are stored under another name than they are read, and by what they are found."""

_ID_LENGTH = 64
_Cells = rows.Cells
_ID = re.compile(r"[0-9a-f]{64}")
# What shows whether a block was disturbed is a measured number, threads and GPU masks included.
_MEASURED_NAME = re.compile(
    r"[a-z_]{1,40}|env [A-Z]{1,30}_(NUM_|MAXIMUM_)?THREADS|gpu [a-z_.]{1,40} (before|after)"
)
_NUMBER = r"(0x[0-9a-fA-F]{1,16}|[0-9.]+(e[+-]?[0-9]{1,3})?)"
_NUMBERS = re.compile(rf"{_NUMBER}( +{_NUMBER})*")
_LONGEST_NUMBERS = 400
_PINNED = """
SELECT pins.lock_key, pins.artifact_key, a.name, a.version, a.sha256 FROM lock_pins AS pins
LEFT JOIN artifacts AS a ON a.key = pins.artifact_key WHERE pins.lock_key = ? ORDER BY a.name
"""
_LOADED = """
SELECT m.load_set_key, m.position, d.name, d.version, m.compiled FROM load_set_rows AS m
LEFT JOIN distributions AS d ON d.key = m.distribution_key
WHERE m.load_set_key = ? ORDER BY m.position
"""
_ORIGINS = """
, (SELECT group_concat(origin_key) FROM row_origin_keys WHERE kind = {kind} AND row_key = {key})
AS origin_keys
"""
_CONTESTED = """
SELECT i.key FROM inspection_rows AS i JOIN (
    SELECT campaign_key, block, stack_key, indicator_key FROM inspection_rows WHERE block > 0
    GROUP BY campaign_key, block, stack_key, indicator_key, role = 'twin' HAVING count(*) > 1
) USING (campaign_key, block, stack_key, indicator_key)
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class ValidRow:
    """A row as this stackgen writes it: decoded, validated, encoded again.

    members: what a lock pins, or of what a load set is made.
    origins: keys of its origins in the file that it was read from.
    """

    table: str
    row: Row
    members: tuple[Row, ...] = ()
    origins: tuple[int, ...] = ()

    @property
    def key(self) -> tuple[Cell, ...]:
        """Return the values of the table's key."""
        return tuple(self.row[column] for column in KEYS[self.table])


@dataclass(frozen=True, slots=True, kw_only=True)
class InvalidRow:
    """A row that is not valid, and why.

    key: as it is stored, which may be anything.
    place: what finds it in its table.
    """

    table: str
    key: tuple[object, ...]
    reason: str
    place: tuple[int, ...] = ()

    def __str__(self) -> str:
        shown = " ".join(map(_shown, self.key))
        return f"{self.table} {shown}: {self.reason}"


def _refuse_unordered(artifact: Artifact) -> None:
    """Refuse what cannot be compared with other versions: reports put them in order.

    Raises:
        ValueError: its version is none of PEP 440.
    """
    try:
        Version(artifact.version)
    except ValueError as error:  # also a number of too many digits
        raise ValueError(f"version: {rows.shown(artifact.version)} is none of PEP 440") from error


def _shown(value: object) -> str:
    plain = isinstance(value, str) and value.isascii() and value.isprintable()
    return str(value) if plain and len(str(value)) <= _ID_LENGTH else rows.shown(value)


@dataclass(slots=True)
class Checker:
    """Checks rows one by one, each after those that it refers to, and spells them anew.

    ids: of the rows that were read, valid or not, by table.
    """

    ids: dict[str, set[object]] = field(default_factory=dict)
    _artifacts: dict[tuple[object, ...], Artifact] = field(default_factory=dict)
    _locks: dict[str, Lock] = field(default_factory=dict)
    _load_sets: dict[str, tuple[LoadedDistribution, ...]] = field(default_factory=dict)
    _checks: Mapping[str, Callable[[_Cells], Row | None]] = field(init=False)

    def __post_init__(self) -> None:
        self._checks = {
            "artifacts": self._artifact,
            "stacks": self._stack,
            "machines": self._machine,
            "indicators": self._indicator,
            "campaigns": self._campaign,
            "inspections": self._inspection,
        }

    def check(
        self,
        table: str,
        row: _Cells,
        members: Sequence[_Cells] = (),
        origins: tuple[int, ...] = (),
    ) -> ValidRow | None:
        """Check a row with the columns that are stored; None where one that it refers to is wrong.

        Raises:
            ValueError, MeasurementError: it is not valid.
        """
        if table in MEMBERS:
            checked = self._lock(row, members) if table == "locks" else self._load_set(row, members)
            own = {"id": str(row["id"])}
            return ValidRow(table=table, row=own, members=tuple(checked), origins=origins)
        spelled = self._checks[table](row)
        return None if spelled is None else ValidRow(table=table, row=spelled, origins=origins)

    def _artifact(self, row: _Cells) -> Row:
        artifact = rows.artifact_of(row)
        _refuse_unordered(artifact)
        self._artifacts[artifact.name, artifact.version, artifact.sha256] = artifact
        return rows.artifact_row(artifact)

    def _lock(self, row: _Cells, members: Sequence[_Cells]) -> Iterator[Row]:
        columns = ("name", "version", "sha256")
        if any(each["name"] is None for each in members):
            raise ValueError("it pins an artifact that is not there")
        pins = [{column: rows.text(each, column) for column in columns} for each in members]
        missing = [pin for pin in pins if tuple(pin.values()) not in self._artifacts]
        if missing:
            raise ValueError(f"it pins an artifact that is not there: {rows.shown(missing[0])}")
        lock = Lock(artifacts=tuple(self._artifacts[tuple(pin.values())] for pin in pins))
        _refuse_other_id(rows.cell(row, "id"), lock.id)
        self._locks[lock.id] = lock
        return ({"lock_id": lock.id, **pin} for pin in pins)

    def _stack(self, row: _Cells) -> Row | None:
        self._refer(row, "lock_id", "locks")
        lock = self._locks.get(rows.text(row, "lock_id"))
        if lock is None:
            return None
        stack = Stack(lock=lock, facts=rows.facts_of(row), settings=rows.pairs(row, "settings"))
        _refuse_other_id(rows.cell(row, "id"), stack.id)
        return rows.stack_row(stack)

    def _machine(self, row: _Cells) -> Row:
        machine = rows.machine_of(row)
        _refuse_other_id(rows.cell(row, "id"), machine.id)
        return rows.machine_row(machine)

    def _indicator(self, row: _Cells) -> Row:
        call = rows.call_of(row)
        _refuse_other_id(rows.cell(row, "id"), call.id)
        return rows.call_row(call)

    def _campaign(self, row: _Cells) -> Row:
        self._refer(row, "machine_id", "machines")
        campaign = rows.campaign_of(row)
        _refuse_other_id(rows.cell(row, "id"), campaign.id)
        return rows.campaign_row(campaign, rows.time(row, "started_at"))

    def _load_set(self, row: _Cells, members: Sequence[_Cells]) -> Iterator[Row]:
        loaded = tuple(map(rows.loaded_of, members))
        _refuse_other_id(rows.cell(row, "id"), rows.load_set_id(loaded))
        if [each["position"] for each in members] != list(range(len(members))):
            raise ValueError("position: its members are not numbered from 0")
        self._load_sets[str(row["id"])] = loaded
        return iter(rows.load_set_rows(loaded))

    def _inspection(self, row: _Cells) -> Row | None:
        for table, column in rows.REFERENCES.items():
            if column != "load_set_id" or rows.cell(row, column) is not None:
                self._refer(row, column, table)
        loaded: tuple[LoadedDistribution, ...] | None = ()
        if row["load_set_id"] is not None:
            loaded = self._load_sets.get(str(row["load_set_id"]))
        if loaded is None:
            return None
        rows.time(row, "started_at")
        return self._spelled(rows.inspection_of(row, loaded), rows.cell(row, "id"))

    def decoded(self, line: rows.InspectionLine) -> Row | None:
        """Check an inspection of which the types were checked as it was decoded.

        Returns:
            None where anything about it is not as expected: ``check`` says what.
        """
        loaded: tuple[LoadedDistribution, ...] | None = ()
        if line.load_set_id is not None:
            loaded = self._load_sets.get(line.load_set_id)
        referred = ((table, getattr(line, column)) for table, column in rows.REFERENCES.items())
        if loaded is None or any(
            each is not None and each not in self.ids.get(table, ()) for table, each in referred
        ):
            return None
        inspection = rows.inspection_of_line(line, loaded)
        return None if inspection is None else self._spelled(inspection, line.id)

    def _spelled(self, inspection: Inspection, stated: object) -> Row:
        _refuse_unredacted(inspection)
        computed = inspection.id
        _refuse_other_id(stated, computed)
        return rows.inspection_row(inspection, computed)

    def _refer(self, row: _Cells, column: str, table: str) -> None:
        if rows.cell(row, column) not in self.ids.get(table, ()):
            raise ValueError(f"{column}: there is no such row in {table}")


@dataclass(slots=True)
class RowReader:
    """Reads all rows of a knowledge base whose schema was checked, one table after the other.

    Ids are computed again from what they identify. A row that refers to an invalid one is not
    checked: removing the invalid one leaves it with a dangling reference.

    connection: to the knowledge base.
    by_id: in the order of ids, which is the same in every file with these rows; else in the order
        in which rows were added: of two that exclude each other, the first counts.
    """

    connection: sqlite3.Connection
    by_id: bool = False
    _checker: Checker = field(default_factory=Checker)
    _places: set[tuple[object, ...]] = field(default_factory=set)
    _contested: frozenset[int] = frozenset()

    def read(self) -> Iterator[ValidRow | InvalidRow]:
        """Yield every row, checked, in the order of ``KEYS``, each with its members."""
        for table in KINDS:
            if table == "inspections":
                self._contested = frozenset(row[0] for row in self.connection.execute(_CONTESTED))
            yield from self._each(table)
            if table in MEMBERS:
                yield from self._lost_members(table)

    def _each(self, table: str) -> Iterator[ValidRow | InvalidRow]:
        known = self._checker.ids.setdefault(table, set())
        members: list[sqlite3.Row] = []
        for row in self.connection.execute(_selected(table, by_id=self.by_id)):
            if table != "inspections":
                known.add(row[KEYS[table][0]])
            if table in MEMBERS:
                select = _PINNED if table == "locks" else _LOADED
                members = self.connection.execute(select, (row["key"],)).fetchall()
            try:
                checked = self._checker.check(table, row, members, _origins(row))
                if checked is not None and row["key"] in self._contested:
                    self._refuse_taken_place(checked.row)
            except (ValueError, MeasurementError) as error:
                key = tuple(row[column] for column in KEYS[table])
                yield InvalidRow(table=table, key=key, reason=reason(error), place=(row["key"],))
            else:
                if checked is not None:
                    yield checked

    def _lost_members(self, table: str) -> Iterator[InvalidRow]:
        """Yield the members of rows that are not there."""
        members = "lock_artifacts" if table == "locks" else "load_set_members"
        stored, (owner, place_in) = _STORED[members]
        lost = (
            f"SELECT {owner}, {place_in} FROM {stored} "  # noqa: S608 the names are ours
            f"WHERE {owner} NOT IN (SELECT key FROM {table})"
        )
        for row in self.connection.execute(lost):
            why = f"{KEYS[members][0]}: there is no such row in {table}"
            yield InvalidRow(table=members, key=tuple(row), reason=why, place=tuple(row))

    def _refuse_taken_place(self, inspection: Row) -> None:
        place = place_of(inspection)
        if place is not None and place in self._places:
            raise ValueError("another row has the same campaign, block, stack and indicator")
        self._places.add(place or ())


def place_of(inspection: Row) -> tuple[Cell, ...] | None:
    """Return what no two inspections share; None outside of blocks.

    A block runs each indicator once on each stack, and on the baseline a second time as its twin.
    """
    if not inspection["block"]:
        return None
    columns = ("campaign_id", "block", "stack_id", "indicator_id")
    return (*(inspection[column] for column in columns), inspection["role"] == "twin")


def _selected(table: str, *, by_id: bool) -> str:
    """Return the query for all rows of a table, by id or in the order in which they were added."""
    kind = KINDS[table]
    if table == "inspections":
        columns, _, tables = rows.INSPECTIONS.partition("FROM inspection_rows")
        origins = _ORIGINS.format(kind=kind, key="i.key")
        order = "i.id" if by_id else "i.key"
        return f"{columns}{origins}FROM inspection_rows{tables}ORDER BY {order}"
    origins = _ORIGINS.format(kind=kind, key=f"{table}.key")
    return f"SELECT {table}.*{origins}FROM {table} ORDER BY key"


def _origins(row: sqlite3.Row) -> tuple[int, ...]:
    return tuple(map(int, str(row["origin_keys"] or "").split(",") if row["origin_keys"] else ()))


def remove(connection: sqlite3.Connection, invalid: InvalidRow) -> None:
    """Remove a row, and its members where it has any."""
    stored, columns = _STORED.get(invalid.table, (invalid.table, ("key",)))
    where = " AND ".join(f"{column} = ?" for column in columns)
    connection.execute(f"DELETE FROM {stored} WHERE {where}", invalid.place)  # noqa: S608
    if invalid.table in MEMBERS:
        members, owner = MEMBERS[invalid.table]
        connection.execute(f"DELETE FROM {members} WHERE {owner} = ?", invalid.place)  # noqa: S608
    if invalid.table in KINDS:
        connection.execute(
            "DELETE FROM row_origin_keys WHERE kind = ? AND row_key = ?",
            (KINDS[invalid.table], *invalid.place),
        )


def reason(error: Exception) -> str:
    """Return in words why a row is not valid."""
    return f"{error.what}: {error.why}" if isinstance(error, MeasurementError) else str(error)


def _refuse_unredacted(inspection: Inspection) -> None:
    """Refuse what says that its private parts were left out, and has some."""
    seen = inspection.observation
    around = seen.circumstances if inspection.stated_id and seen is not None else ()
    if inspection.stated_id and (inspection.log or inspection.unenforced):
        raise ValueError("redacted: log and limits are expected to be left out")
    if any(not is_public_circumstance(*pair) for pair in around):
        raise ValueError("redacted: of circumstances, only measured numbers are expected")


def is_public_circumstance(name: str, value: str) -> bool:
    """Return whether a circumstance is nothing but measured numbers."""
    fits = _MEASURED_NAME.fullmatch(name) and _NUMBERS.fullmatch(value)
    return bool(fits) and len(value) <= _LONGEST_NUMBERS


def _refuse_other_id(stated: object, computed: str) -> None:
    if not _ID.fullmatch(computed):  # stated, since it could not be computed
        raise ValueError(f"its id is not one: {rows.shown(computed)}")
    if stated != computed:
        raise ValueError(f"its id is not that of its content, which is {computed}")
