"""Forward migrations of a knowledge base, in order; the number of the last is the file's version.

A migration that shipped is never edited. It uses none of our values, since what it does has to stay
the same when they and their spelling change.
"""

import hashlib
import json
import sqlite3
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from stackgen.knowledge import packing
from stackgen.storage.paths import shipped_folder
from stackgen.storage.state import StateDatabase, state_path

_Content = list[object]


def _initial(connection: sqlite3.Connection) -> None:
    """Create every table of the first version."""
    _run_script(connection, "schema.sql")


def _origins(connection: sqlite3.Connection) -> None:
    """Add the identity of the file, and the origins of merged rows."""
    _run_script(connection, "origins.sql")
    connection.execute("INSERT INTO identity VALUES (1, ?)", (uuid.uuid4().hex,))


def _id_scheme(connection: sqlite3.Connection) -> None:
    """Identify indicators by their revisions, and spell roles by frozen codes (scheme 2).

    Ids of indicators and inspections are recomputed, with all that refers to them; those of locks,
    stacks, machines, campaigns and load sets do not change. A row whose old id is not that of its
    content keeps it, so that it is found to be invalid as before.
    """
    connection.execute("PRAGMA defer_foreign_keys = ON")
    _run_script(connection, "id_scheme.sql")
    connection.execute("INSERT INTO id_scheme VALUES (1, 2)")
    indicators = _migrate_indicators(connection)
    _migrate_inspections(connection, indicators)


def _migrate_indicators(connection: sqlite3.Connection) -> Mapping[object, str]:
    """Give indicators their new ids; return the new id of each old one.

    The scripts that shipped last without a revision are those that now have revision 1. Others
    (older ones, and users' own) keep the digest of their source in their identity.
    """
    first = json.loads((shipped_folder("kb") / "first_revisions.json").read_text("utf-8"))
    found = connection.execute("SELECT id, name, sha256, arguments FROM indicators").fetchall()
    new_ids: dict[object, str] = {}
    for old, name, sha256, arguments in found:
        with suppress(ValueError, TypeError, RecursionError):
            values = json.loads(arguments)
            if old != _digest("indicator", [name, sha256, values]):
                continue
            own = "" if first.get(name) == sha256 else sha256
            new = _digest("indicator", [name, 1, 1, own, values])
            connection.execute(
                "UPDATE indicators SET id = ?, own_sha256 = ? WHERE id = ?", (new, own, old)
            )
            _move_origins(connection, "indicators", old, new)
            new_ids[old] = new
    return new_ids


def _migrate_inspections(connection: sqlite3.Connection, indicators: Mapping[object, str]) -> None:
    codes = {"reference": "baseline", "challenger": "candidate"}
    loaded: dict[object, list[_Content]] = {}
    members = "SELECT * FROM load_set_members ORDER BY load_set_id, position"
    for each in connection.execute(members):
        row = [each["name"], each["version"], bool(each["compiled"])]
        loaded.setdefault(each["load_set_id"], []).append(row)
    for (rowid,) in connection.execute("SELECT rowid FROM inspections").fetchall():
        row = connection.execute("SELECT * FROM inspections WHERE rowid = ?", (rowid,)).fetchone()
        with suppress(ValueError, TypeError, RecursionError):
            content = _inspection_content(row, loaded.get(row["load_set_id"], []))
            if row["id"] != _digest("inspection", content):
                continue
            indicator = indicators.get(row["indicator_id"], row["indicator_id"])
            role = codes.get(row["role"], row["role"])
            content[2], content[6] = indicator, role
            new = _digest("inspection", content)
            connection.execute(
                "UPDATE inspections SET id = ?, indicator_id = ?, role = ? WHERE rowid = ?",
                (new, indicator, role, rowid),
            )
            _move_origins(connection, "inspections", row["id"], new)
    connection.executemany(  # of rows that are not valid
        "UPDATE inspections SET indicator_id = ? WHERE indicator_id = ?",
        ((new, old) for old, new in indicators.items()),
    )


def _inspection_content(row: sqlite3.Row, loaded: Sequence[_Content]) -> _Content:
    """Return what the id of an inspection was made of up to version 2 of the file."""
    observation: _Content | None = None
    if row["values_s"] is not None:
        observation = [
            json.loads(row["values_s"]),
            row["loops"],
            row["work"],
            bool(row["steady"]),
            None if row["checksum"] is None else json.loads(row["checksum"]),
            row["peak_memory_bytes"],
            json.loads(row["circumstances"]),
            list(loaded),
        ]
    columns = ("stack_id", "machine_id", "indicator_id", "campaign_id", "block", "position")
    return [
        *(row[column] for column in (*columns, "role", "outcome", "started_at", "duration_s")),
        observation,
        row["log"],
        json.loads(row["unenforced"]),
    ]


def _move_origins(connection: sqlite3.Connection, table: str, old: str, new: str) -> None:
    connection.execute(
        "UPDATE row_origins SET row_key = ? WHERE table_name = ? AND row_key = ?",
        (new, table, old),
    )


def _state(connection: sqlite3.Connection) -> None:
    """Move which releases ``nightly`` has decided to the state of the installation.

    Of a copy in memory they are left out: a file that is only read keeps its state.
    """
    (file,) = [row[2] for row in connection.execute("PRAGMA database_list") if row[1] == "main"]
    found = connection.execute("SELECT name, version, first_seen FROM releases_seen").fetchall()
    if file and found:
        ((knowledge_base,),) = connection.execute("SELECT id FROM identity").fetchall()
        rows = [tuple(row) for row in found]
        with StateDatabase(state_path(Path(file))) as state:
            state.add_decided_releases(knowledge_base, filter(_is_text, rows))
    connection.execute("DROP TABLE releases_seen")


def _compact(connection: sqlite3.Connection) -> None:
    """Replace ids by keys, share texts, pack samples, and give each row its origin.

    What is not valid is carried over as it is, so that it is found to be invalid as before. Rows
    that were recorded in this file have its identity as their origin.
    """
    connection.execute("PRAGMA defer_foreign_keys = ON")
    for name in ("inspection_loaded", "timings"):
        connection.execute(f"DROP VIEW {name}")
    indexes = "SELECT name FROM sqlite_master WHERE type = 'index' AND sql IS NOT NULL"
    for (name,) in connection.execute(indexes).fetchall():
        connection.execute(f"DROP INDEX {name}")
    for table in _REPLACED:
        connection.execute(f"ALTER TABLE {table} RENAME TO {table}_4")
    _run_script(connection, "compact.sql")
    functions: Mapping[str, tuple[int, Callable[..., Any]]] = {
        "packed": (1, _packed),
        "fastest": (1, _fastest),
        "shared": (1, lambda text: _split(text)[0]),
        "own": (1, lambda text: _split(text)[1]),
        "digest": (2, _text_digest),
        "idbytes": (1, lambda stored: bytes.fromhex(stored.decode("ascii"))),
        "named_key": (3, lambda *key: json.dumps(key)),
        "named": (2, lambda base, file: base or packing.digest(f"file {file}").hex()),
    }
    for function, (arguments, call) in functions.items():
        connection.create_function(function, arguments, call, deterministic=True)
    _run_script(connection, "compact_copy.sql")
    for table in _REPLACED:  # each before what it refers to
        connection.execute(f"DROP TABLE {table}_4")


_REPLACED = (
    *("row_origins", "origins", "inspections", "load_set_members", "load_sets", "campaigns"),
    *("indicators", "machines", "stacks", "lock_artifacts", "locks", "artifacts"),
)


def _packed(stored: object) -> object:
    """Return samples packed; as they are where they are not valid."""
    values = _json(stored)
    if isinstance(values, list) and values and all(type(v) in (int, float) for v in values):
        return packing.pack_samples(values)
    return stored.decode("utf-8", "replace") if isinstance(stored, bytes) else stored


def _fastest(stored: object) -> float | None:
    values = _json(stored)
    numbers = values if isinstance(values, list) else ()
    usable = [v for v in numbers if type(v) is float or (type(v) is int and abs(v) < 1 << 62)]
    return float(min(usable)) if usable and len(usable) == len(numbers) else None


def _split(stored: object) -> tuple[object, object]:
    """Return circumstances as (shared, own); (as they are, None) where they are not valid."""
    pairs = _json(stored)
    if isinstance(pairs, list) and all(
        isinstance(pair, list) and len(pair) == 2 and all(isinstance(each, str) for each in pair)
        for pair in pairs
    ):
        return packing.split_circumstances(tuple((name, value) for name, value in pairs))
    return stored.decode("utf-8", "replace") if isinstance(stored, bytes) else stored, None


def _json(stored: object) -> object:
    with suppress(ValueError, RecursionError):
        return json.loads(stored) if isinstance(stored, bytes) else None
    return None


def _text_digest(kind: str, stored: bytes | None) -> bytes | None:
    if stored is None:
        return None
    content = stored if kind == "text" else kind.encode() + b":" + stored
    return hashlib.sha256(content).digest()[:16]


def _is_text(row: Sequence[object]) -> bool:
    """Return whether all cells are valid Unicode (bytes that are not were read as surrogates)."""
    return all(isinstance(each, str) and each.isprintable() for each in row)


def _digest(kind: str, content: object) -> str:
    text = json.dumps([kind, content], sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(text.encode("ascii")).hexdigest()


def _run_script(connection: sqlite3.Connection, name: str) -> None:
    for statement in _statements((shipped_folder("kb") / name).read_text("utf-8")):
        connection.execute(statement)


def _statements(script: str) -> Iterator[str]:
    """Split a script at its statements' ends (``executescript`` would commit half-way)."""
    statement = ""
    for line in script.splitlines(keepends=True):
        statement += line
        if sqlite3.complete_statement(statement):
            yield statement
            statement = ""


Migration = tuple[str, Callable[[sqlite3.Connection], None]]
MIGRATIONS: tuple[Migration, ...] = (
    ("initial", _initial),
    ("origins", _origins),
    ("id scheme", _id_scheme),
    ("state", _state),
    ("compact", _compact),
    ("outline", lambda connection: _run_script(connection, "outline.sql")),
)
