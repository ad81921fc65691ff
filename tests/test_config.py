"""Defaults of options from a configuration file, through the command line."""

import subprocess
from pathlib import Path

import pytest

from stackgen.cli.config import ConfigFile, find_config
from tests.in_process import run_command
from tests.laboratory import Laboratory
from tests.local_index import Published, publish


def run(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return run_command(*words, folder=folder)


@pytest.mark.parametrize(
    ("name", "head"), [("stackgen.toml", ""), ("pyproject.toml", "[tool.stackgen]\n")]
)
def test_a_file_above_the_folder_gives_defaults_and_its_name_is_shown(
    tmp_path: Path, name: str, head: str
) -> None:
    (tmp_path / name).write_text(f'{head}budget = "5m"\noffline = true\n')
    (tmp_path / "below").mkdir()
    done = run(tmp_path / "below", "config")
    rows = [line.split() for line in done.stdout.splitlines()]
    assert ["explore", "budget", "5m", str(tmp_path / name)] in rows
    assert ["resolve", "offline", "true", str(tmp_path / name)] in rows
    assert "[default: 5m]" in run(tmp_path / "below", "explore", "--help").stdout


def test_the_table_of_a_command_counts_for_it_alone_and_the_command_line_wins(
    tmp_path: Path,
) -> None:
    (tmp_path / "stackgen.toml").write_text('budget = "5m"\n[explore]\nbudget = "2x"\n')
    assert "cannot read the budget '2x'" in run(tmp_path, "explore", "numpy", "--dry-run").stderr
    assert "'3x'" in run(tmp_path, "explore", "numpy", "--budget", "3x").stderr
    assert "[default: 5m]" in run(tmp_path, "compare", "--help").stdout


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ('bugdet = "5m"\n', "there is no option bugdet"),
        ('[explore]\nbugdet = "5m"\n', "bugdet is no option of stackgen explore"),
        ('[exlpore]\nbudget = "5m"\n', "there is no table exlpore"),
        ('[explore]\nenv = ["TOKEN=x"]\n', "env is no option of stackgen explore"),
        ('offline = "yes"\n', "offline is true or false"),
        ("budget = [1]\n", "budget is a single value"),
        ("budget = [\n", "cannot read"),
        ("[kb.statz]\njson = true\n", "there is no table kb.statz"),
        ("[kb]\njson = true\n", "there is no option kb.json"),
        ('env = ["TOKEN=x"]\n', "there is no option env"),
        ('executor = "podman"\n', "'podman' is not one of 'auto', 'virtualenv', 'docker'."),
        ("threads = -3\n", "cannot take threads from"),
        ('budget = "2x"\n', "cannot read the budget '2x'"),
        ("allow-build = true\n", "allow-build is a list of texts"),
        ("[explore]\npi = [true]\n", "pi is a list of texts"),
        ("base = true\n", "base is a single value"),
        ("threads = true\n", "threads is a single value"),
    ],
)
def test_what_a_file_gets_wrong_is_refused_by_name(tmp_path: Path, text: str, why: str) -> None:
    (tmp_path / "stackgen.toml").write_text(text)
    done = run(tmp_path, "explore", "numpy", "--dry-run")
    assert done.returncode == 2
    assert why in done.stderr
    assert str(tmp_path / "stackgen.toml") in done.stderr


@pytest.mark.parametrize(
    ("file", "given", "begins"),
    [
        ("json = true\n", ("--format", "table"), "speedy: 1 stack"),
        ('format = "requirements"\n', ("--json",), "{"),
        ("json = true\n", (), "{"),
        ("json = true\n", ("--format", "json"), "{"),
    ],
)
def test_a_format_that_is_given_wins_over_another_one_of_the_file(
    tmp_path: Path, file: str, given: tuple[str, ...], begins: str
) -> None:
    index = publish(tmp_path / "index", {"speedy": {"1.0": Published()}})
    (tmp_path / "stackgen.toml").write_text(f"[resolve]\n{file}")
    laboratory = Laboratory(root=tmp_path, index=index)
    done = laboratory.run("resolve", "speedy", "--list", "99999999999999999999", *given)
    assert (done.stdout.startswith(begins), done.stderr) == (True, "")


@pytest.mark.parametrize("words", [("resolve",), ("explore", "--executor", "virtualenv")])
def test_a_missing_folder_of_find_links_is_named_where_a_package_is_missing(
    tmp_path: Path, words: tuple[str, ...]
) -> None:
    laboratory = Laboratory(root=tmp_path, index=publish(tmp_path / "index", {}))
    done = laboratory.run(*words, "speedy", "--no-index", "--find-links", "gone")
    assert f"find-links names {tmp_path}/gone, which does not exist" in done.stderr
    assert done.returncode == 4


def test_a_plan_of_nights_makes_no_knowledge_base(tmp_path: Path) -> None:
    packages = {"speedy": {"1.0": Published()}, "numpy": {"9": Published()}}
    index = publish(tmp_path / "index", packages)
    laboratory = Laboratory(root=tmp_path, index=index)
    done = laboratory.run("nightly", "speedy", "--check", "--executor", "virtualenv")
    assert "stack: speedy 1.0" in done.stdout
    assert not list(tmp_path.glob("*.db"))


@pytest.mark.parametrize("text", ["tool = 3\n", "[tool]\nother = 3\n"])
def test_a_project_without_a_table_of_ours_has_no_configuration(tmp_path: Path, text: str) -> None:
    (tmp_path / "pyproject.toml").write_text(text)
    assert run(tmp_path, "config").stdout == "configuration file: none\n"


def test_a_table_of_a_project_that_is_none_is_refused(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text("[tool]\nstackgen = 3\n")
    done = run(tmp_path, "config")
    assert (done.returncode, done.stdout) == (2, "")
    assert "tool.stackgen is no table" in done.stderr


def test_a_file_may_begin_with_a_byte_order_mark(tmp_path: Path) -> None:
    (tmp_path / "stackgen.toml").write_bytes(b'\xef\xbb\xbfbudget = "5m"\r\n')
    assert "[default: 5m]" in run(tmp_path, "explore", "--help").stdout


def test_relative_paths_count_from_the_folder_of_the_file(tmp_path: Path) -> None:
    below = tmp_path / "below"
    below.mkdir()
    text = """
        kb = "team.db"
        find-links = ["wheels", "https://example.org/wheels"]
        [explore]
        requirement = ["in/a.txt", "~/b.txt"]
        pi = ["matmul", "mine.py"]
    """
    (tmp_path / "stackgen.toml").write_text(text)
    shown = run(below, "config").stdout
    assert f"{tmp_path}/wheels, https://example.org/wheels" in shown
    assert f"matmul, {tmp_path}/mine.py" in shown
    assert f"{tmp_path}/in/a.txt, {Path.home()}/b.txt" in shown
    done = run(below, "kb", "check")
    assert f"there is no knowledge base {tmp_path}/team.db" in done.stderr


@pytest.mark.parametrize(
    ("command", "found"),
    [
        (("doctor",), "numpy has 1 files"),
        (("noise", "speedy==9", "--executor", "virtualenv"), "no index has a version of speedy"),
        (("nightly", "speedy", "--check", "--executor", "virtualenv"), "speedy 1.0"),
    ],
)
def test_the_index_of_the_file_is_used_by_every_command_that_reads_one(
    tmp_path: Path, command: tuple[str, ...], found: str
) -> None:
    packages = {"speedy": {"1.0": Published()}, "numpy": {"9": Published()}}
    index = publish(tmp_path / "index", packages)
    (tmp_path / "stackgen.toml").write_text(f'index-url = "{index}"\n')
    other = Laboratory(root=tmp_path, index=(tmp_path / "none").as_uri(), engine="unix:///none")
    done = run_command(*command, folder=tmp_path, environ=other.environ)
    assert found in done.stdout + done.stderr


def test_nightly_names_what_its_watches_do_not_take_from_the_file(tmp_path: Path) -> None:
    text = 'base = "3.12"\noffline = true\n[watch.team]\nrequirements = ["numpy"]\n'
    (tmp_path / "stackgen.toml").write_text(text)
    done = run(tmp_path, "nightly", "--check", "--watch", "other")
    assert "Not used: base outside of the [watch.NAME] tables.\n" in done.stderr
    assert done.returncode == 2


def test_the_variable_of_an_option_is_shown_as_its_source(tmp_path: Path) -> None:
    done = run_command("config", "doctor", folder=tmp_path, environ={"STACKGEN_KB": "/own.db"})
    rows = [line.split() for line in done.stdout.splitlines()]
    assert ["doctor", "kb", "/own.db", "STACKGEN_KB"] in rows


def test_a_variable_wins_over_the_file(tmp_path: Path) -> None:
    (tmp_path / "stackgen.toml").write_text('kb = "file.db"\n')
    environ = {"STACKGEN_KB": str(tmp_path / "own.db"), "STACKGEN_CACHE": str(tmp_path)}
    shown = run_command("config", "doctor", folder=tmp_path, environ=environ).stdout
    assert "own.db" in shown
    assert "file.db" not in shown
    stats = run_command("kb", "stats", folder=tmp_path, environ=environ).stdout
    assert str(tmp_path / "own.db") in stats


def test_every_option_of_every_command_has_a_key(tmp_path: Path) -> None:
    done = run(tmp_path, "config", "--all", "--json")
    assert done.returncode == 0
    assert '"option": "pi-command"' in done.stdout
    assert '"env"' not in done.stdout


def test_folders_above_that_cannot_be_looked_into_have_no_configuration(tmp_path: Path) -> None:
    (tmp_path / "stackgen.toml").write_text('budget = "5m"\n')
    assert find_config(tmp_path / "sub").path == tmp_path / "stackgen.toml"
    assert find_config(Path("x" * 300, "sub")) == ConfigFile()
