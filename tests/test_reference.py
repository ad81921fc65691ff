"""The reference pages are made from the code, and say of it what is so."""

import json
import re
import sqlite3
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator

from stackgen import errors
from stackgen.cli import ENTRIES
from stackgen.cli.commands import all_options
from stackgen.knowledge.database import open_database
from stackgen.model.evidence import Difference
from stackgen.report.tables import as_json
from tests.base_reports import BASE_REPORTS
from tests.test_render import (
    ADVICE,
    CHECKS,
    GROUPS,
    NIGHTLY,
    PLAN,
    PRICED,
    SEARCHED,
    UNKNOWN,
    deviating,
)
from tests.verifications import VERIFICATIONS
from tools import reference, site

ROOT = Path(__file__).parents[1]
PRINTED = [
    ("explore", SEARCHED),
    ("explore", PLAN),
    ("explore", PRICED),
    ("compare", deviating(Difference.NUMBERS)),
    ("nightly", NIGHTLY),
    ("advise", ADVICE),
    ("advise", UNKNOWN),
    ("advise", PLAN),
    ("doctor", CHECKS),
    ("kb failures", GROUPS),
    *(("images bases", each) for each in BASE_REPORTS.values()),
    *(("verify", each) for each in VERIFICATIONS.values()),
]


@pytest.fixture(scope="module")
def pages() -> dict[str, str]:
    return reference.pages()


@pytest.mark.parametrize(("command", "report"), PRINTED)
def test_what_is_printed_as_json_fits_its_schema(command: str, report: object) -> None:
    validator = Draft202012Validator(reference.json_schema(command))
    assert not list(validator.iter_errors(json.loads(as_json(report))))


def test_a_schema_refuses_what_a_command_never_prints() -> None:
    document = json.loads(as_json(SEARCHED))
    document["run"]["seconds"] = "long"
    document["surplus"] = 1
    assert not Draft202012Validator(reference.json_schema("explore")).is_valid(document)


@pytest.mark.parametrize("command", sorted(reference.REPORTS))
def test_schemas_are_schemas(command: str) -> None:
    Draft202012Validator.check_schema(reference.json_schema(command))


def test_every_option_of_every_command_is_in_the_reference(pages: dict[str, str]) -> None:
    for command, options in all_options(ENTRIES):
        _, _, rest = pages["command-line.md"].partition(f" stackgen {command}\n")
        own = re.split(r"^##+ ", rest, maxsplit=1, flags=re.MULTILINE)[0]
        for each in options:
            assert f"--{each.key}" in own or each.key == "help", command
            assert f"| `{each.key}` |" in pages["configuration.md"] or each.key in (
                "env",
                "help",
                "watch",
            )


def test_every_exit_code_of_an_error_is_in_the_reference(pages: dict[str, str]) -> None:
    kinds = [each for each in vars(errors).values() if isinstance(each, type)]
    for code in {getattr(kind, "exit_code", 0) for kind in kinds}:
        assert f"| {code} |" in pages["exit-codes.md"]


def test_every_table_and_column_of_the_database_is_in_the_reference(
    pages: dict[str, str], tmp_path: Path
) -> None:
    open_database(tmp_path / "kb.db").close()
    connection = sqlite3.connect(tmp_path / "kb.db")
    names = [name for (name,) in connection.execute("SELECT name FROM pragma_table_list")]
    own = {name for name in names if not name.startswith("sqlite_")}
    assert {"stacks", "timings"} <= own
    for table in own:
        rest = pages["database.md"].partition(f"### {table}\n")[2].partition("\n### ")[0]
        rows = connection.execute("SELECT name FROM pragma_table_info(?)", (table,)).fetchall()
        assert rows
        assert all(f"| `{column}` |" in rest for (column,) in rows), table
    connection.close()


def test_every_variable_that_a_user_sets_is_in_the_reference(pages: dict[str, str]) -> None:
    sources = "".join(path.read_text("utf-8") for path in (ROOT / "stackgen").rglob("*.py"))
    read = set(re.findall(r"environ(?:\.get\(|\[)\"(STACKGEN_\w+)\"", sources))
    assert read
    assert all(f"| `{name}` |" in pages["configuration.md"] for name in read)


def test_every_command_that_prints_a_report_as_json_has_a_schema() -> None:
    plain = {"pis", "machine", "config", "kb export"}  # lists of values that have no type
    with_json = {
        command
        for command, options in all_options(ENTRIES)
        if any(each.key == "json" for each in options)
    }
    assert with_json - plain <= set(reference.REPORTS)
    assert all(map(reference.report_type, reference.REPORTS))


def test_writing_removes_what_is_no_longer_made(tmp_path: Path) -> None:
    (tmp_path / "old.md").write_text("old")
    reference.write(tmp_path, {"a/new.md": "new"})
    assert [path.name for path in tmp_path.rglob("*.md")] == ["new.md"]


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        ('<a href="other.html#there">fine</a> <img src="pic.svg">', ""),
        ('<a href="none.html">x</a>', "leads nowhere: none.html"),
        ('<a href="other.html#nowhere">x</a>', "leads nowhere: other.html#nowhere"),
        ('<img src="none.svg">', "leads nowhere: none.svg"),
        ('<a href="https://example.org/">a link is no asset</a>', ""),
        ('<script src="https://example.org/x.js"></script>', "comes from elsewhere"),
        ('<link rel="stylesheet" href="https://example.org/x.css">', "comes from elsewhere"),
    ],
)
def test_links_and_assets_of_a_site_are_checked(tmp_path: Path, body: str, problem: str) -> None:
    (tmp_path / "index.html").write_text(body)
    (tmp_path / "other.html").write_text('<h1 id="there">x</h1>')
    (tmp_path / "pic.svg").write_text("<svg/>")
    found = list(site.problems(tmp_path))
    assert [problem in each for each in found] == ([True] if problem else [])


QUESTIONS = {
    "How do I pin the result?": ("guides/pin.md", "--lock-out"),
    "Why is there no difference?": ("measurement.md#when-nothing-differs", "stackgen noise"),
    "How do I use my own index?": ("guides/indexes.md", "--index-url"),
    "What is recorded about my machine?": ("enforcement.md#machine", "CPU model"),
    "How much disk does it take?": ("guides/disk.md", "images prune"),
}


@pytest.mark.parametrize("question", QUESTIONS)
def test_a_frequent_question_is_answered_one_click_from_the_start(question: str) -> None:
    target, answer = QUESTIONS[question]
    start = (ROOT / "docs" / "index.md").read_text("utf-8")
    (row,) = (line for line in start.splitlines() if question in line)
    assert f"({target})" in row
    assert answer in (ROOT / "docs" / target.partition("#")[0]).read_text("utf-8")
