"""What of a knowledge base may be published: measurements, not who measured what, and where.

Left out: commands and requests, logs, paths, index addresses, host names, versions of kernels and
drivers, summaries of scripts, and all circumstances but measured numbers. A row that an id ties to
such a value (a stack with settings other than numbers and flags, an indicator of a user's own) is
left out as a whole, with all that refers to it. What remains of an inspection keeps its id as it is
stated, since it can no longer be computed.
"""

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from stackgen.knowledge import packing
from stackgen.knowledge.checking import ValidRow, is_public_circumstance
from stackgen.knowledge.rows import REFERENCES, Cell, Row
from stackgen.model.stacks import PROGRAM

_PATTERNS: Mapping[str, re.Pattern[str]] = {
    "name": re.compile(r"[a-z0-9]([a-z0-9_-]*[a-z0-9])?"),
    "version": re.compile(r"[0-9A-Za-z.!+_-]{0,64}"),
    "sha256": re.compile(r"[0-9A-Za-z.]{0,64}"),
    "filename": re.compile(r"[0-9A-Za-z._+!-]{1,300}\.(whl|tar\.gz|zip|tar\.bz2)"),
    "fact": re.compile(r"[^/\\@=]{0,1000}"),  # no path, address or assignment
    "indicator": re.compile(r"[a-z0-9_]+(/[a-z0-9_]+)*"),
    "time": re.compile(r"[0-9TZ:+. -]{0,40}"),
    "specifier": re.compile(r"[<>=!~0-9.,* a-z]{0,100}"),
    "word": re.compile(r"[0-9A-Za-z._+-]{0,60}"),
    "variable": re.compile(
        r"(OMP|KMP|MKL|OPENBLAS|BLIS|NUMEXPR|TF|XLA|ONEDNN|DNNL|CUDA)_[A-Z0-9_]+"
    ),
    "setting": re.compile(r"[0-9]+([.,:][0-9]+)*|true|false|on|off|auto", re.IGNORECASE),
}


_Members = tuple[Row, ...]


def _fits(pattern: str, *cells: Cell) -> bool:
    return all(isinstance(c, str) and _PATTERNS[pattern].fullmatch(c) for c in cells)


@dataclass(slots=True)
class Redaction:
    """Leaves private parts out of rows, which come after those that they refer to.

    left_out: how many rows of each table were left out as a whole.
    """

    left_out: dict[str, int] = field(default_factory=dict)
    _private: set[tuple[str, Cell]] = field(default_factory=set)
    _redactions: Mapping[str, Callable[[Row, _Members], Row | None]] = field(init=False)

    def __post_init__(self) -> None:
        self._redactions = {
            "artifacts": self._artifact,
            "locks": self._lock,
            "stacks": self._stack,
            "machines": self._machine,
            "indicators": self._indicator,
            "campaigns": self._campaign,
            "load_sets": self._load_set,
            "inspections": self._inspection,
        }

    def redacted(self, valid: ValidRow) -> ValidRow | None:
        """Return what may be published of a row; None where nothing may."""
        row = self._redactions[valid.table](valid.row, valid.members)
        if row is None:
            self.left_out[valid.table] = self.left_out.get(valid.table, 0) + 1
            self._private.add((valid.table, _key(valid.row)))
            return None
        return replace(valid, row=row)

    def _artifact(self, row: Row, _: _Members) -> Row | None:
        if not _fits("name", row["name"]) or not _fits("version", row["version"]):
            return None
        if not _fits("filename", row["filename"]) or not _fits("sha256", row["sha256"]):
            return None
        fitting = {
            name: row[name] if _fits(pattern, row[name]) else None
            for name, pattern in (("requires_python", "specifier"), ("uploaded", "time"))
        }
        return {**row, "url": "", "index_name": "", "yanked": None, **fitting}

    def _lock(self, row: Row, members: _Members) -> Row | None:
        private = any(("artifacts", _key(each)) in self._private for each in members)
        return None if private else row

    def _stack(self, row: Row, _: _Members) -> Row | None:
        settings = json.loads(str(row["settings"]))
        facts = [row[name] for name in ("python", "python_build", "libc", "distribution")]
        packages = json.loads(str(row["system_packages"]))
        known = ("locks", row["lock_id"]) not in self._private
        public = all(
            _fits("variable", name) and _fits("setting", value) for name, value in settings
        )
        plain = all(_fits("fact", *pair) for pair in packages)
        return row if known and public and plain and _fits("fact", *facts) else None

    def _machine(self, row: Row, _: _Members) -> Row | None:
        identity = json.loads(str(row["identity"]))
        plain = all(_fits("fact", *pair) for pair in identity)
        return {**row, "circumstances": "[]"} if plain else None

    def _indicator(self, row: Row, _: _Members) -> Row | None:
        shipped = row["component"] != PROGRAM and not row["own_sha256"]
        named = _fits("indicator", row["name"]) and _fits("word", row["component"])
        arguments = json.loads(str(row["arguments"]))
        plain = all(_fits("word", *pair) for pair in arguments)
        if not (shipped and named and plain and _fits("fact", row["unit"])):
            return None
        sha256 = row["sha256"] if _fits("sha256", row["sha256"]) else ""
        return {**row, "summary": "", "parameters": "[]", "sha256": sha256}

    def _campaign(self, row: Row, _: _Members) -> Row | None:
        if ("machines", row["machine_id"]) in self._private or not _fits("word", row["kind"]):
            return None
        version = row["stackgen_version"] if _fits("word", row["stackgen_version"]) else ""
        return {**row, "request": "", "stackgen_version": version}

    def _load_set(self, row: Row, members: _Members) -> Row | None:
        plain = all(_fits("word", each["name"], each["version"]) for each in members)
        return row if plain else None

    def _inspection(self, row: Row, _: _Members) -> Row | None:
        if any((table, row[column]) in self._private for table, column in REFERENCES.items()):
            return None
        public: dict[str, Cell] = {**row, "log": "", "unenforced": "[]", "redacted": 1}
        if row["environment"] is not None:
            own = json.loads(str(row["measured"])) if row["measured"] else ()
            pairs = packing.join_circumstances(json.loads(str(row["environment"])), own)
            kept = tuple(pair for pair in pairs if is_public_circumstance(*pair))
            public["environment"], public["measured"] = packing.split_circumstances(kept)
        return public


def _key(row: Row) -> Cell:
    """Return the id of a row; of an artifact or a pin, what identifies it, as JSON."""
    return row["id"] if "id" in row else json.dumps([row[name] for name in _RELEASE])


_RELEASE = ("name", "version", "sha256")
