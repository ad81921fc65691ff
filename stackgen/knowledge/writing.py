"""Rows into the tables of a knowledge base: ids to keys, shared texts, origins."""

import json
import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from stackgen.knowledge import packing
from stackgen.knowledge.rows import REFERENCES, Cell, Row

KINDS: Mapping[str, int] = {
    "artifacts": 1,
    "locks": 2,
    "stacks": 3,
    "machines": 4,
    "indicators": 5,
    "campaigns": 6,
    "load_sets": 7,
    "inspections": 8,
}
"""The tables whose rows have origins, with their numbers in ``row_origin_keys``."""

MEMBERS = {"locks": ("lock_pins", "lock_key"), "load_sets": ("load_set_rows", "load_set_key")}
"""Where the members of a row are stored, and in which column its key."""
_REFERENCES = tuple((f"{name[:-3]}_key", table, name) for table, name in REFERENCES.items())
_TEXTS = {"log_key": "log", "unenforced_key": "unenforced", "environment_key": "environment"}
_CACHED_KEYS = 100_000
_BATCH = 256


@dataclass(slots=True)
class Writer:
    """Adds rows within one transaction; what it has looked up is valid no longer than that.

    Inspections are written in batches: ``flush`` after the last one, and before anything reads
    them.

    connection: to a knowledge base.
    """

    connection: sqlite3.Connection
    _keys: dict[tuple[str, Cell], int] = field(default_factory=dict)
    _outdated: set[int] = field(default_factory=set)
    _next_key: int = 0
    _inspections: list[dict[str, Cell]] = field(default_factory=list)
    _origins: list[tuple[int, int, int]] = field(default_factory=list)

    def add(self, table: str, row: Row, origins: Sequence[int]) -> int | None:
        """Add a row and its origins; return its key where it was not there, else None.

        Args:
            table: one of ``KINDS``.
            row: as ``stackgen.knowledge.rows`` spells it.
            origins: keys of ``origins``.
        """
        return self.add_found(table, row, origins, self.find(table, row))

    def add_found(
        self, table: str, row: Row, origins: Sequence[int], key: int | None
    ) -> int | None:
        """Add a row of which ``find`` was called already; ``key`` is what it returned."""
        new = key is None
        if key is None and table == "inspections":
            key = self._add_inspection(row)
        elif key is None:
            key = self._insert(table, row)
            if table != "artifacts":
                self._keys[table, row["id"]] = key
        self._origins += [(KINDS[table], key, origin) for origin in origins]
        if len(self._origins) >= _BATCH:
            self.flush()
        return key if new else None

    def _add_inspection(self, row: Row) -> int:
        cells = self._inspection(row)
        if not self._next_key:
            last = self.connection.execute("SELECT coalesce(max(key), 0) FROM inspection_rows")
            self._next_key = int(last.fetchone()[0])
        self._next_key += 1
        cells["key"] = self._next_key
        self._inspections.append(cells)
        return self._next_key

    def flush(self) -> None:
        """Write the inspections that were added, and the origins of all rows.

        Raises:
            ValueError: another inspection has the id of one of them.
        """
        if self._inspections:
            ids = [cells["id"] for cells in self._inspections]
            same = f"SELECT hex(id) FROM inspection_rows WHERE id IN ({', '.join('?' * len(ids))})"  # noqa: S608
            if taken := self.connection.execute(same, ids).fetchone():
                raise ValueError(f"another inspection has the id {taken[0].lower()}")
        self.connection.executemany(_INSERT, self._inspections)
        self.connection.executemany(
            "INSERT OR IGNORE INTO row_origin_keys VALUES (?, ?, ?)", self._origins
        )
        self._inspections.clear()
        self._origins.clear()

    def find(self, table: str, row: Row) -> int | None:
        """Return the key of the row with the id of this one, or None."""
        if table == "inspections":
            values: tuple[Cell, ...] = (bytes.fromhex(str(row["id"])),)
            found = self.connection.execute("SELECT key FROM inspection_rows WHERE id = ?", values)
        elif table == "artifacts":
            values = (row["name"], row["version"], row["sha256"])
            same = "SELECT key FROM artifacts WHERE (name, version, sha256) = (?, ?, ?)"
            found = self.connection.execute(same, values)
        else:
            return self.key(table, row["id"])
        known = found.fetchone()
        return known and int(known[0])

    def pin(self, lock_id: str, artifact: Row) -> None:
        """Add an artifact, which is there, to a lock, which is there."""
        pair = self.key("locks", lock_id), self.find("artifacts", artifact)
        self.connection.execute("INSERT OR IGNORE INTO lock_pins VALUES (?, ?)", pair)

    def load(self, member: Row) -> None:
        """Add a member to a load set, which is there."""
        name, version = member["name"], member["version"]
        release = json.dumps([name, version])
        known = self._keys.get(("distributions", release))
        if known is None:
            self.connection.execute(
                "INSERT INTO distributions (name, version) VALUES (?, ?) ON CONFLICT DO NOTHING",
                (name, version),
            )
            same = "SELECT key FROM distributions WHERE (name, version) = (?, ?)"
            known = int(self.connection.execute(same, (name, version)).fetchone()[0])
            self._keys["distributions", release] = known
        owner = self.key("load_sets", member["load_set_id"])
        self.connection.execute(
            "INSERT OR IGNORE INTO load_set_rows VALUES (?, ?, ?, ?)",
            (owner, member["position"], known, member["compiled"]),
        )

    def restore(self, key: int, row: Row) -> None:
        """Replace what a public export had left out of an inspection."""
        cells = self._inspection(row)
        changed = ", ".join(f"{column} = :{column}" for column in cells)
        self.connection.execute(
            f"UPDATE inspection_rows SET {changed} WHERE key = :key",  # noqa: S608
            {**cells, "key": key},
        )

    def origin(self, origin_id: str, label: str, moment: str) -> int:
        """Return the key of an origin, which is added where it is not there."""
        self.connection.execute(
            "INSERT INTO origins (id, label, first_seen) VALUES (?, ?, ?) ON CONFLICT DO NOTHING",
            (origin_id, label, moment),
        )
        same = "SELECT key FROM origins WHERE id = ?"
        return int(self.connection.execute(same, (origin_id,)).fetchone()[0])

    def _inspection(self, row: Row) -> dict[str, Cell]:
        cells = {name: row[name] for name in _PLAIN}
        cells["id"], cells["samples"] = bytes.fromhex(str(row["id"])), row["values_s"]
        for name, table, column in _REFERENCES:
            identity = row[column]
            cells[name] = key = self._keys.get((table, identity)) or self.key(table, identity)
            if key is None and identity is not None:
                raise sqlite3.IntegrityError(f"FOREIGN KEY constraint failed: {name}")
        for name, column in _TEXTS.items():
            cells[name] = self._text(row[column])
        campaign = cells["campaign_key"]
        if isinstance(campaign, int) and campaign not in self._outdated:
            self.connection.execute(
                "DELETE FROM derived_campaigns WHERE campaign_key = ?", (campaign,)
            )
            self._outdated.add(campaign)
        return cells

    def key(self, table: str, identity: Cell) -> int | None:
        """Return the key of the row with an id, or None."""
        if identity is None:
            return None
        known = self._keys.get((table, identity))
        if known is None:
            same = f"SELECT key FROM {table} WHERE id = ?"  # noqa: S608
            found = self.connection.execute(same, (identity,)).fetchone()
            if found is None:
                return None
            known = self._keys[table, identity] = int(found[0])
        return known

    def _text(self, text: Cell) -> int | None:
        if text is None:
            return None
        known = self._keys.get(("texts", text))
        if known is None:
            values = packing.digest(str(text)), text
            self.connection.execute(
                "INSERT INTO texts (digest, text) VALUES (?, ?) ON CONFLICT DO NOTHING", values
            )
            same = "SELECT key FROM texts WHERE digest = ?"
            known = int(self.connection.execute(same, values[:1]).fetchone()[0])
            if len(self._keys) > _CACHED_KEYS:
                self._keys.clear()
            self._keys["texts", text] = known
        return known

    def _insert(self, table: str, cells: Row) -> int:
        columns, marks = ", ".join(cells), ", ".join(f":{column}" for column in cells)
        done = self.connection.execute(
            f"INSERT INTO {table} ({columns}) VALUES ({marks})",  # noqa: S608
            cells,
        )
        return int(done.lastrowid or 0)


_PLAIN = (
    *("block", "position", "role", "outcome", "started_at", "duration_s", "redacted", "best_s"),
    *("loops", "work", "steady", "checksum", "peak_memory_bytes", "measured"),
)

_STORED = ("key", "id", "samples", *_PLAIN, *(name for name, _, _ in _REFERENCES), *_TEXTS)
_INSERT = (
    f"INSERT INTO inspection_rows ({', '.join(_STORED)}) "  # noqa: S608 the names are ours
    f"VALUES ({', '.join(f':{name}' for name in _STORED)})"
)
