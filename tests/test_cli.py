"""The command line: help, lists, and what it costs to start."""

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from stackgen.cli import ENTRIES
from stackgen.cli.commands import all_options
from stackgen.cli.images import refuse_tag
from stackgen.errors import UsageError
from stackgen.model.options import parse_gpus
from tests.laboratory import Laboratory

COMMANDS = [
    "explore",
    "resolve",
    "verify",
    "provenance",
    "advise",
    "nightly",
    "doctor",
    "init",
    "pis",
    "pi",
    "kb",
    "images",
]


NO_ENGINE = "unix:///nonexistent/engine"


@pytest.fixture
def laboratory(tmp_path: Path) -> Laboratory:
    (tmp_path / "simple" / "numpy").mkdir(parents=True)
    return Laboratory(root=tmp_path, index=(tmp_path / "simple").as_uri(), engine=NO_ENGINE)


@pytest.mark.parametrize("command", COMMANDS)
def test_each_command_explains_itself(laboratory: Laboratory, command: str) -> None:
    done = laboratory.run(command, "--help")
    assert done.returncode == 0
    usage, _, rest = done.stdout.partition("\n\n")
    assert usage.startswith("Usage:")
    assert rest.lstrip()[0].isupper()
    assert not rest.startswith(("Options:", "Arguments:"))  # what it does comes first
    assert "Raises:" not in done.stdout
    assert done.stderr == ""


HEAVY = (
    *("numpy", "scipy", "networkx", "docker", "requests", "httpx", "asyncio", "sqlite3", "rich"),
    *("msgspec", "pydantic", "packaging", "pypi_simple", "virtualenv", "importlib.metadata"),
)
"""What takes tens of milliseconds to import, and is loaded when a command needs it."""


def loaded(*commands: str) -> set[str]:
    """Return which heavy modules are loaded after commands have run in one process."""
    code = (
        "import contextlib, io, sys; from stackgen.cli import app\n"
        f"for command in {commands!r}:\n"
        "    sys.argv[1:] = command.split()\n"
        "    with contextlib.suppress(SystemExit), contextlib.redirect_stdout(io.StringIO()):\n"
        "        app()\n"
        f"print(*(each for each in {HEAVY!r} if each in sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not done.stderr
    return set(done.stdout.split())


def test_no_help_loads_what_only_running_a_command_takes() -> None:
    paths = [path for path, _ in all_options(ENTRIES)]
    assert {"explore", "images build", "kb merge"} < set(paths)
    every = (f"{path} --help" for path in (*COMMANDS, *paths))
    assert loaded("--version", "--help", *every) == set()


def test_texts_and_defaults_are_taken_without_what_converts_other_values() -> None:
    assert "pydantic" not in loaded("pis", "pis numpy/matmul --json")


@pytest.mark.usefixtures("signals_as_usual")
def test_ctrl_c_before_anything_is_loaded_is_no_traceback(tmp_path: Path) -> None:
    (tmp_path / "typer.py").write_text(
        "import os, signal, time\nos.kill(os.getpid(), signal.SIGINT)\ntime.sleep(9)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", "from stackgen.__main__ import main; main()"],
        env={"PYTHONPATH": f"{tmp_path}{os.pathsep}{Path(__file__).parents[1]}"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (130, "")


def test_the_version_is_reported(laboratory: Laboratory) -> None:
    assert laboratory.run("--version").stdout.startswith("stackgen ")


def test_indicators_are_listed(laboratory: Laboratory) -> None:
    assert "tensorflow/matmul" in laboratory.run("pis").stdout
    names = {each["name"] for each in json.loads(laboratory.run("pis", "--json").stdout)}
    assert {"numpy/matmul", "torch/import", "python/pure"} <= names


def test_the_machine_is_shown_with_what_makes_its_identity(laboratory: Laboratory) -> None:
    reported = json.loads(laboratory.run("machine", "--json").stdout)
    text = laboratory.run("machine").stdout
    assert f"machine {reported['id']}\n" in text
    names = [name for name, _ in [*reported["identity"], *reported["circumstances"]]]
    assert {"cores", "kernel", "libc"} <= set(names)
    assert all(f"  {name} " in text for name in names)


@pytest.mark.parametrize("engine", [NO_ENGINE, pytest.param("", marks=pytest.mark.docker)])
def test_bases_are_listed_with_or_without_an_engine(laboratory: Laboratory, engine: str) -> None:
    done = replace(laboratory, engine=engine).run("images", "--json")
    bases = json.loads(done.stdout)["bases"]
    assert {"bullseye-py39", "bookworm-py311", "trixie-py313"} <= {each["name"] for each in bases}


def test_an_empty_knowledge_base_is_counted(laboratory: Laboratory) -> None:
    done = laboratory.run("kb", "stats", "--json")
    assert json.loads(done.stdout)["stacks"] == 0
    assert laboratory.run("kb", "failures").stdout == "Nothing failed.\n"


def test_every_named_query_runs_on_an_empty_knowledge_base(laboratory: Laboratory) -> None:
    names = [line.split()[0] for line in laboratory.run("kb", "query").stdout.splitlines()]
    assert len(names) > 5
    for name in names:
        done = laboratory.run("kb", "query", name)
        assert done.returncode in (0, 2), done.stderr
        assert "Traceback" not in done.stderr


def test_a_parameter_that_a_query_does_not_have_is_refused(laboratory: Laboratory) -> None:
    laboratory.run("kb", "stats")
    done = laboratory.run("kb", "query", "versions", "name=numpy", "nam=scipy")
    assert (done.returncode, done.stdout) == (2, "")
    assert "the query 'versions' has no parameter nam\n  why: it takes name\n" in done.stderr


def test_doctor_says_what_to_do_about_what_fails(laboratory: Laboratory) -> None:
    (laboratory.root / "cache").mkdir()
    (laboratory.root / "cache" / "scratch").write_text("in the way of the folder")
    done = laboratory.run("doctor", "--json")
    checks = {each["name"]: each for each in json.loads(done.stdout)}
    assert done.returncode == 1
    assert {"Package index", "Cache"} <= {name for name in checks if not checks[name]["passed"]}
    assert all(each["fix"] for each in checks.values() if not each["passed"])
    assert "cannot write" in checks["Cache"]["found"]
    assert "STACKGEN_CACHE" in checks["Cache"]["fix"]


@pytest.mark.parametrize(
    "name", ["mine", "mine:1.0", "a---b__c", "my/own.one:A_b", "localhost:5000/x/y:1", "a:80"]
)
def test_a_name_that_an_engine_gives_is_taken(name: str) -> None:
    refuse_tag(name)


@pytest.mark.parametrize(
    "name",
    ["a b", "Mine", "a/b:c:d", "a-:80", "a..b", "a/", ":1", "é", "stackgen:mine", "stackgen"],
)
def test_a_name_that_no_engine_gives_or_that_is_ours_is_refused(name: str) -> None:
    with pytest.raises(UsageError, match="cannot be called"):
        refuse_tag(name)


@pytest.mark.parametrize(
    ("content", "code", "message"),
    [
        ("", 2, "empty"),
        ("{", 2, "Pipfile.lock"),
        ("name: x\ndependencies:\n  - numpy\n", 2, "Pipfile.lock"),
    ],
)
def test_what_is_no_lock_is_refused(
    laboratory: Laboratory, content: str, code: int, message: str
) -> None:
    (laboratory.root / "Pipfile.lock").write_text(content)
    done = laboratory.run("advise", "Pipfile.lock")
    assert done.returncode == code, done.stderr
    assert message in done.stderr
    assert [line.split(":")[0].strip() for line in done.stderr.splitlines()] == [
        "error",
        "why",
        "fix",
    ]


def test_a_knowledge_base_of_a_newer_version_is_left_alone(laboratory: Laboratory) -> None:
    import sqlite3

    assert laboratory.run("kb", "stats").returncode == 0
    connection = sqlite3.connect(laboratory.kb)
    connection.execute("PRAGMA user_version = 99")
    connection.close()
    done = laboratory.run("kb", "stats")
    assert done.returncode == 10
    assert "newer" in done.stderr


@pytest.mark.parametrize(
    ("text", "gpus"),
    [("", ""), ("all", "all"), (" 0, 1 ", "0,1"), ("GPU-4a/b,MIG-7", "GPU-4a/b,MIG-7")],
)
def test_gpus_are_read(text: str, gpus: str) -> None:
    assert parse_gpus(text) == gpus


@pytest.mark.parametrize("text", ["first", "0,", "all,0", "-1", "0 1"])
def test_gpus_with_invalid_names_are_refused(text: str) -> None:
    with pytest.raises(UsageError, match="cannot read the GPUs"):
        parse_gpus(text)


@pytest.mark.parametrize(
    "command",
    [["kb", "stats"], ["kb", "failures"], ["kb", "query", "pins"], ["advise", __file__]],
    ids=" ".join,
)
def test_a_knowledge_base_that_is_not_there_is_not_made_to_be_read(
    laboratory: Laboratory, tmp_path: Path, command: list[str]
) -> None:
    missing = tmp_path / "none" / "mistyped.db"
    done = laboratory.run(*command, "--kb", str(missing))
    assert done.returncode == 2
    assert f"there is no knowledge base {missing}" in done.stderr
    assert not missing.parent.exists()


@pytest.mark.parametrize(
    "command",
    [
        ["explore", ""],
        ["explore", "numpy", "--vary", ""],
        ["explore", "numpy", "--fix", " "],
        ["explore", "--from", ""],
        ["resolve", ""],
        ["resolve", "numpy", ""],
        ["resolve", "numpy", "--exclude", ""],
        ["resolve", "numpy", "--allow-build", ""],
        ["resolve", "-r", ""],
        ["advise", ""],
        ["nightly", ""],
        ["resolve", f"numpy<{'9' * 5000}"],
    ],
    ids=lambda words: " ".join(words)[:40],
)
def test_what_is_empty_or_endless_is_refused_at_once(
    laboratory: Laboratory, command: list[str]
) -> None:
    assert laboratory.run("kb", "stats").returncode == 0  # so that there is a knowledge base
    done = laboratory.run(*command)
    assert done.returncode == 2, done.stderr
    assert done.stderr.startswith("error: ")
    assert "Traceback" not in done.stderr


def test_options_of_measuring_are_refused_where_the_tables_of_nightly_have_them(
    laboratory: Laboratory,
) -> None:
    done = laboratory.run("nightly", "--budget", "5m")
    assert done.returncode == 2
    assert done.stderr.startswith("error: --budget needs the name of a package")
    assert "nothing is watched" in laboratory.run("nightly", "--check").stderr


def test_a_misspelt_command_is_named_as_it_may_have_been_meant(laboratory: Laboratory) -> None:
    for words, meant in ((["explor"], "'explore'"), (["kb", "wy"], "'why'")):
        refused = laboratory.run(*words)
        assert refused.returncode == 2
        assert f"Did you mean {meant}?" in refused.stderr


def test_a_misspelt_indicator_is_refused_before_any_index_is_read(laboratory: Laboratory) -> None:
    refused = laboratory.run("explore", "numpy", "--pi", "matml")
    assert refused.returncode == 2
    assert "numpy/matmul" in refused.stderr
    assert refused.stderr.startswith("error: no indicator is called 'matml'")


@pytest.mark.parametrize("closed", [">&-", "2>&-", "<&- >&- 2>&-"])
def test_streams_that_are_closed_discard_what_is_written(
    laboratory: Laboratory, closed: str
) -> None:
    done = laboratory.shell(f"stackgen kb stats; stackgen kb export {closed}")
    assert done.returncode == 0
    assert "Traceback" not in done.stderr


def test_a_current_folder_that_is_gone_is_refused(laboratory: Laboratory) -> None:
    done = laboratory.shell("mkdir gone; cd gone; rmdir ../gone; stackgen kb stats")
    assert done.returncode == 2
    assert done.stderr.startswith("error: the current folder cannot be used\n  why: No such file")


@pytest.mark.parametrize(
    "command",
    [
        ["explore", "numpy", "--base", "x" * 300, "--dry-run"],
        ["kb", "stats", "--kb", "x" * 300],
        ["advise", "x" * 300],
        ["advise", "--environment", "x" * 300],
    ],
    ids=lambda words: words[0],
)
def test_a_path_that_no_file_system_takes_is_refused(
    laboratory: Laboratory, command: list[str]
) -> None:
    done = laboratory.run(*command)
    assert done.returncode == 2, done.stderr
    assert done.stderr.startswith("error: cannot ")
    assert "why: File name too long" in done.stderr
