"""Write the reference pages of the documentation from the code.

``python -m tools.reference`` writes ``docs/reference``: command line, configuration, exit codes,
JSON (pages and JSON Schemas), database schema. ``make docs`` runs it before the site is built;
nothing of it is committed, so nothing of it can be out of date.
"""

import argparse
import contextlib
import functools
import importlib
import json
import operator
import re
import sqlite3
import tempfile
import types
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from pathlib import Path
from typing import Any, Union, get_args, get_origin, get_type_hints

from stackgen import errors
from stackgen.cli import ENTRIES
from stackgen.cli.commands import COMMON, Entry, all_options, build
from stackgen.cli.config import NOT_CONFIGURABLE
from stackgen.knowledge.database import open_database

ROOT = Path(__file__).parents[1]
GENERATED = "Generated from {}; every version of stackgen has its own."

# Command line


def commands(entries: Mapping[str, Entry] = ENTRIES, path: str = "") -> Iterator[tuple[str, Entry]]:
    """Yield every command and group with its full name, a group before its commands."""
    for name, entry in entries.items():
        full = f"{path} {name}".strip()
        yield full, entry
        if entry.group:
            module, _, attribute = entry.target.partition(":")
            yield from commands(getattr(importlib.import_module(module), attribute)[0], full)


def command_line() -> str:
    """Return the page of all commands with their arguments and options."""
    lines = ["# Command line", "", GENERATED.format("the commands' declarations"), ""]
    for path, entry in commands():
        lines += _command(path, entry)
    return "\n".join(lines)


def _command(path: str, entry: Entry) -> Iterator[str]:
    made = build(path, entry)
    with made.make_context(f"stackgen {path}", [], resilient_parsing=True) as context:
        usage = " ".join(made.collect_usage_pieces(context))
        sections = _sections(made, context)
    yield from (f"{'###' if ' ' in path else '##'} stackgen {path}", "")
    yield from ("```text", f"stackgen {path} {usage}", "```", "")
    yield from (_paragraphs(made.help or entry.summary), "")
    for heading, rows in sections.items():
        yield from (f"**{heading}**", "", "| option | meaning |", "|---|---|")
        # Within code, a pipe ends no cell, and a backslash would be shown.
        yield from (f"| `{flags}` | {_cell(text)} |" for flags, text in rows)
        yield ""
    if entry.examples:
        yield from ("**Examples**", "", "```text", *entry.examples, "```", "")


def _sections(made: Any, context: Any) -> dict[str, list[tuple[str, str]]]:
    """Return flags and help of all parameters under the headings of ``--help``."""
    sections: dict[str, list[tuple[str, str]]] = {"Arguments": [], COMMON: []}
    for parameter in made.get_params(context):
        record = parameter.get_help_record(context)
        if record is None or "--help" in record[0]:
            continue
        heading = getattr(parameter, "rich_help_panel", None) or COMMON
        if parameter.param_type_name == "argument":
            heading, record = "Arguments", (record[0].partition(" <")[0], record[1])
        sections.setdefault(heading, []).append(record)
    return {heading: rows for heading, rows in sections.items() if rows}


def _paragraphs(text: str) -> str:
    return _escaped("\n\n".join(" ".join(part.split()) for part in text.split("\n\n")))


def _escaped(text: str) -> str:
    return text.replace("``", "`").replace("<", "&lt;").replace("*", "\\*")


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


# Configuration

VARIABLES = {
    "STACKGEN_CACHE": "Folder of wheels, layers, virtualenvs and index pages.",
    "STACKGEN_IMAGES": "Folder with [base definitions of your own](../guides/images.md).",
    "STACKGEN_KB": "The knowledge base, where `--kb` names none.",
    "STACKGEN_SEED": "Folder of exports that `advise` loads once; empty loads none.",
}


def configuration() -> str:
    """Return the page of options by key, with their defaults and commands."""
    used: dict[str, dict[str, list[str]]] = {}
    for command, options in all_options(ENTRIES):
        for each in options:
            if each.key not in NOT_CONFIGURABLE:
                default = _default(each.default)
                used.setdefault(each.key, {}).setdefault(default, []).append(command)
    rows = [
        f"| `{key}` | {_cell(default)} | {', '.join(names)} |"
        for key, defaults in sorted(used.items())
        for default, names in defaults.items()
    ]
    variables = [f"| `{name}` | {meaning} |" for name, meaning in VARIABLES.items()]
    return "\n".join(
        [
            "# Configuration",
            "",
            "Every option can be set in `stackgen.toml`, or in `[tool.stackgen]` of a",
            "`pyproject.toml`, in the current folder or one above it. A key is an option's long",
            "name without dashes. A key at the top applies to every command that has the option;",
            "a table with a command's name applies to that command alone. Relative paths count",
            "from the folder of the file. The command line wins, then environment variables.",
            "",
            "```toml",
            'budget = "15m"',
            "",
            "[explore]",
            'pi = ["matmul", "import"]',
            "",
            "[images.prune]",
            'keep = "20GB"',
            "```",
            "",
            "`stackgen config` prints what is set, and where; `stackgen config --all` prints the",
            "defaults as well.",
            "",
            "## Options",
            "",
            "| key | default | commands |",
            "|---|---|---|",
            *rows,
            "",
            "## Environment variables",
            "",
            "| variable | meaning |",
            "|---|---|",
            *variables,
            "",
            "Package indexes, credentials, certificates and proxies are those of pip and uv:",
            "their configuration files and variables are read",
            "(see [Package indexes](../guides/indexes.md)).",
            "",
        ]
    )


def _default(value: object) -> str:
    value = getattr(value, "value", value)
    if value is None or value == "" or value == [] or value == ():
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    return ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)


# Exit codes

OTHER_CODES = {
    0: "Done.",
    3: "No answer yet: too little evidence (explore, compare, noise, advise); a new release is not"
    " decided (nightly); nothing is shown to be better than the lock (advise); no validator has a"
    " verdict (verify); vulnerabilities could not be checked as requested (provenance).",
    4: "Also: a lock does not hold (verify), or is none of the stacks (resolve --contains).",
    6: "Also: equal stacks were shown to differ (a control failed), so the ranking is unreliable.",
    7: "Findings (nightly, provenance); the update from one lock to another is slower"
    " (advise OLD NEW).",
    9: "Also: `images fsck` found damage.",
    11: "What answers was measured on other machines alone (advise).",
    129: "Ended by SIGHUP; what was measured is stored.",
    130: "Interrupted (Ctrl-C); what was measured is stored.",
    143: "Ended by SIGTERM; what was measured is stored.",
}


def exit_codes() -> str:
    """Return the page of exit codes: those of the error classes, and the others."""
    meanings: dict[int, list[str]] = {}
    for kind in _error_classes():
        summary = (kind.__doc__ or "").strip().splitlines()[0]
        meanings.setdefault(kind.exit_code, []).append(summary)
    meanings[1] = ["An error of stackgen itself, or an essential check of `doctor` failed."]
    for code, text in OTHER_CODES.items():
        meanings.setdefault(code, []).append(text)
    rows = [f"| {code} | {_cell(' '.join(texts))} |" for code, texts in sorted(meanings.items())]
    head = ["# Exit codes", "", "Every error states what happened, why, and how to fix it.", ""]
    return "\n".join([*head, "| code | meaning |", "|---|---|", *rows, ""])


def _error_classes() -> Iterator[type[errors.StackgenError]]:
    for kind in vars(errors).values():
        if isinstance(kind, type) and issubclass(kind, errors.StackgenError):
            yield kind


# JSON

REPORTS = {
    "explore": ("explore:explore",),
    "compare": ("compare:compare",),
    "bisect": ("bisect:bisect",),
    "nightly": ("nightly:nightly", "nightly:check"),
    "findings list": ("stackgen.nightly.store:NightStore.listed",),
    "findings show": ("stackgen.nightly.store:NightStore.find",),
    "findings ack": ("stackgen.nightly.store:NightStore.acknowledge",),
    "findings reopen": ("stackgen.nightly.store:NightStore.reopen",),
    "noise": ("noise:noise",),
    "advise": ("advise:advise", "advise_measure:measure"),
    "history": ("history:history",),
    "kb stats": ("kb:stats",),
    "kb failures": ("kb:failures",),
    "kb query": ("kb:query",),
    "kb show": ("kb_views:show",),
    "kb why": ("kb_views:why",),
    "kb check": ("kb:check",),
    "kb origins": ("kb_exchange:origins",),
    "pi run": ("indicators:measure_locally",),
    "resolve": ("resolve:resolve",),
    "verify": ("verify:verify",),
    "provenance": ("provenance:provenance",),
    "images": ("images:overview",),
    "images bases": ("stackgen.campaign.backend:bases",),
    "images build": ("images:build",),
    "images list": ("images:listed",),
    "images show": ("images:details",),
    "images export": ("images:export_layout", "images:export_dockerfile"),
    "images prune": ("images:prune",),
    "images fsck": ("images:check",),
    "doctor": ("doctor:doctor",),
}
"""The functions whose results ``--json`` prints, by command; below ``stackgen.commands``."""


def report_type(command: str) -> Any:
    """Return the type of a command's report."""
    found = []
    for target in REPORTS[command]:
        module, _, name = target.partition(":")
        path = module if "." in module else f"stackgen.commands.{module}"
        function = operator.attrgetter(name)(importlib.import_module(path))
        found.append(get_type_hints(function)["return"])
    return found[0] if len(set(found)) == 1 else functools.reduce(operator.or_, found)


def json_schema(command: str) -> dict[str, Any]:
    """Return the JSON Schema of what a command prints with ``--json``."""
    named: dict[str, Any] = {}
    schema = _schema(report_type(command), named)
    head = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": f"stackgen {command} --json",
    }
    return {**head, **schema, "$defs": dict(sorted(named.items()))}


def _schema(kind: Any, named: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of a type as ``stackgen.report.as_json`` writes its values."""
    kind = getattr(kind, "__supertype__", kind)
    origin, arguments = get_origin(kind), get_args(kind)
    if origin in (Union, types.UnionType):
        return {"anyOf": [_schema(each, named) for each in arguments]}
    if origin is tuple and arguments[-1:] != (...,):
        items = [_schema(each, named) for each in arguments]
        return {"type": "array", "prefixItems": items, "minItems": len(items), "items": False}
    if origin in (tuple, list, frozenset) or getattr(origin, "__name__", "") == "Sequence":
        return {"type": "array", "items": _schema(arguments[0], named)}
    if origin is not None and issubclass(origin, Mapping):
        return {"type": "object", "additionalProperties": _schema(arguments[1], named)}
    if is_dataclass(kind):
        return _object(kind, named)
    if isinstance(kind, type) and issubclass(kind, Enum):
        return {"enum": [each.value for each in kind]}
    plain = {str: "string", bool: "boolean", int: "integer", types.NoneType: "null"}
    if kind is float:  # infinite numbers become null
        return {"type": ["number", "null"]}
    return {"type": plain[kind]} if kind in plain else {}


def _object(kind: Any, named: dict[str, Any]) -> dict[str, Any]:
    name = kind.__name__
    if name not in named:
        named[name] = {}
        hints = get_type_hints(kind)
        about = documented(kind)
        properties = {
            each.name: {
                **_schema(hints[each.name], named),
                **({"description": about[each.name]} if each.name in about else {}),
            }
            for each in fields(kind)
        }
        named[name] = {
            "type": "object",
            "description": (kind.__doc__ or "").splitlines()[0],
            "properties": properties,
            "required": list(properties),
            "additionalProperties": False,
        }
    return {"$ref": f"#/$defs/{name}"}


def documented(kind: type) -> dict[str, str]:
    """Return what the docstring of a dataclass says of each field (``name, name: text``)."""
    names = {each.name for each in fields(kind)}
    text = " ".join((kind.__doc__ or "").partition("\n\n")[2].split())
    starts = [
        found
        for found in re.finditer(r"(?:^|(?<=[.;] ))(\w+(?:(?:, | and )\w+)*): ", text)
        if set(re.split(r", | and ", found[1])) <= names
    ]
    ends = [*(each.start() for each in starts[1:]), len(text)][: len(starts)]
    return {
        key: text[each.end() : end].strip().rstrip(".;") + "."
        for each, end in zip(starts, ends, strict=True)
        for key in re.split(r", | and ", each[1])
    }


def json_pages(schemas: Mapping[str, dict[str, Any]]) -> str:
    """Return the page about ``--json``: the fields of every report, and its schema."""
    lines = [
        "# JSON",
        "",
        "With `--json` a command prints its report on standard output as one JSON document;",
        "progress goes to standard error. Infinite numbers are written as `null`. Each report",
        "has a JSON Schema (draft 2020-12), made from the types in the code.",
        "",
        "| command | report | schema |",
        "|---|---|---|",
    ]
    every: dict[str, Any] = {}
    for command, schema in schemas.items():
        every |= schema["$defs"]
        kind = _type_text({k: v for k, v in schema.items() if k not in ("$defs", "$schema")})
        file = schema_file(command)
        lines.append(f"| `{command} --json` | {kind} | [{file}](schemas/{file}) |")
    lines.append("")
    for name, each in sorted(every.items()):
        lines += [f"## {name}", "", _escaped(each["description"]), ""]
        lines += ["| field | type | meaning |", "|---|---|---|"]
        for field, value in each["properties"].items():
            about = _cell(_escaped(value.get("description", "")))
            lines.append(f"| `{field}` | {_type_text(value)} | {about} |")
        lines.append("")
    return "\n".join(lines)


def schema_file(command: str) -> str:
    """Return the name of the file that holds a command's schema."""
    return f"{command.replace(' ', '-')}.json"


def _type_text(schema: Mapping[str, Any]) -> str:
    """Return a schema in words, with links to the objects of the page."""
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return f"[{name}](#{name.lower()})"
    if "anyOf" in schema:
        return " or ".join(_type_text(each) for each in schema["anyOf"])
    if "enum" in schema:
        return ", ".join(f"`{each}`" for each in schema["enum"])
    if "prefixItems" in schema:
        return f"[{', '.join(_type_text(each) for each in schema['prefixItems'])}]"
    if schema.get("type") == "array":
        return f"list of {_type_text(schema['items'])}"
    if isinstance(schema.get("additionalProperties"), dict):
        return f"object of {_type_text(schema['additionalProperties'])}"
    kind = schema.get("type", "any")
    return " or ".join(kind) if isinstance(kind, list) else str(kind)


# Database

_COMMENT = re.compile(r"^\s*(\w+)\b[^-\n]*?--\s*(.*)$", re.MULTILINE)


def database(folder: Path = ROOT / "kb") -> str:
    """Return the page of tables, views and named queries, from a new database of this version."""
    with tempfile.TemporaryDirectory() as name:
        path = Path(name) / "new.db"
        open_database(path).close()
        with contextlib.closing(sqlite3.connect(path)) as connection:
            (newest,) = connection.execute("SELECT max(version) FROM migrations").fetchone()
            tables = list(_relations(connection, "table"))
            views = list(_relations(connection, "view"))
    lines = [
        "# Database schema",
        "",
        f"The knowledge base is one SQLite file (version {newest}). Rows are only added; ids are",
        "digests of content, so a merge is a union. Effects and",
        "rankings are computed from these rows. Read through the views where there is one.",
        "",
        *("## Tables", "", *tables, "## Views", "", *views),
        *("## Named queries", "", "`stackgen kb query NAME` runs them.", ""),
        *("| query | answers |", "|---|---|"),
    ]
    for query in sorted((folder / "queries").glob("*.sql")):
        question = query.read_text("utf-8").splitlines()[0].lstrip("- ")
        lines.append(f"| `{query.stem}` | {_cell(question)} |")
    return "\n".join([*lines, ""])


def _relations(connection: sqlite3.Connection, kind: str) -> Iterator[str]:
    """Yield the lines of the tables, or of the views, with the comments of their columns."""
    found = connection.execute(
        "SELECT name, sql FROM sqlite_master WHERE type = ? AND name NOT LIKE 'sqlite_%' "
        "ORDER BY name",
        (kind,),
    )
    for name, sql in found.fetchall():
        about = dict(_COMMENT.findall(sql))
        yield from (f"### {name}", "", "| column | type | meaning |", "|---|---|---|")
        columns = connection.execute("SELECT name, type FROM pragma_table_info(?)", (name,))
        for column, declared in columns.fetchall():
            meaning = _cell(_escaped(about.get(column, "")))
            yield f"| `{column}` | {declared} | {meaning} |"
        yield ""


# All of it


def pages() -> dict[str, str]:
    """Return the content of every generated file, by its path below ``docs/reference``."""
    schemas = {command: json_schema(command) for command in REPORTS}
    made: dict[str, Callable[[], str]] = {
        "command-line.md": command_line,
        "configuration.md": configuration,
        "exit-codes.md": exit_codes,
        "database.md": database,
        "json.md": lambda: json_pages(schemas),
        "changelog.md": lambda: (ROOT / "CHANGELOG.md").read_text("utf-8"),
    }
    found = {name: make() for name, make in made.items()}
    for command, schema in schemas.items():
        text = json.dumps(schema, indent=2, ensure_ascii=False)
        found[f"schemas/{schema_file(command)}"] = f"{text}\n"
    return found


def write(folder: Path, content: Mapping[str, str]) -> Iterable[Path]:
    """Write files below a folder, and return their paths; others there are removed."""
    wanted = {folder / name: text for name, text in content.items()}
    for path in folder.rglob("*") if folder.is_dir() else ():
        if path.is_file() and path not in wanted:
            path.unlink()
    for path, text in wanted.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.is_file() or path.read_text("utf-8") != text:
            path.write_text(text, encoding="utf-8")
    return wanted


def main() -> None:
    """Write the reference."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, default=ROOT / "docs" / "reference")
    write(parser.parse_args().folder, pages())


if __name__ == "__main__":
    main()
