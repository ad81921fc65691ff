"""Which stack runs my script fastest? End to end, on real virtualenvs and an index in a folder."""

import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from tests.laboratory import WORK, Laboratory
from tests.local_index import Published, publish

pytestmark = pytest.mark.journey

SCRIPT = """
import os, speedy, tidy
speedy.work()
print("of", os.environ["OWNER"], "score:", speedy.SCORE)
open("result.txt", "w").write("score %s\\n" % speedy.SCORE)
"""
COMMAND = ("--pi-command", "python train.py --epochs 1", "--project", "project")
OPTIONS = ("--executor", "virtualenv", "--stacks", "2", "--budget", "5s", "--json")


@pytest.fixture
def laboratory(tmp_path: Path) -> Laboratory:
    slow, quick = (WORK.format(size=size) for size in (400_000, 4_000))
    index = publish(
        tmp_path,
        {
            "speedy": {
                "1.0": Published(source=f"{slow}SCORE = 2.5\n"),
                "2.0": Published(source=f"{quick}SCORE = 2.5\n"),
            },
            "tidy": {"1.0": Published(), "2.0": Published()},
        },
    )
    project = tmp_path / "project"
    project.mkdir()
    (project / "train.py").write_text(SCRIPT)
    (project / "requirements.txt").write_text("tidy<2\nspeedy==1.0\n")
    return Laboratory(root=tmp_path, index=index)


def test_a_script_is_measured_in_the_stacks_of_its_project(laboratory: Laboratory) -> None:
    secret = ("--env", "OWNER=sesame-street")
    requested = (
        "explore",
        "speedy",
        "--from",
        "project/requirements.txt",
        *COMMAND,
        *secret,
        *OPTIONS,
    )
    first = laboratory.run(*requested)
    assert first.returncode in (0, 3, 6), first.stderr
    report = json.loads(first.stdout)
    assert report["plan"]["varied"] == ["speedy"]
    assert [each["label"] for each in report["stacks"]] == ["speedy 2.0", "speedy 1.0"]
    for stack in report["stacks"]:
        versions = {each["name"]: each["version"] for each in stack["lock"]["artifacts"]}
        assert versions["tidy"] == "1.0"
    indicator, _ = report["indicators"]
    program, label = indicator["indicator_id"], indicator["label"]
    assert label.startswith("python train.py --epochs 1")
    memory = [each for each in report["memory"] if each["indicator_id"] == program]
    assert len(memory) == 2
    assert all(each["peak_bytes"] > 1 << 20 for each in memory)
    assert not any(each["deviations"] for each in report["ranking"])

    again = json.loads(laboratory.run(*requested, "--check", "result.txt").stdout)
    checked = again["indicators"][0]["indicator_id"]
    assert checked != program  # what is compared has changed
    with closing(sqlite3.connect(laboratory.kb)) as database:
        stored = "\n".join(database.iterdump())
    assert '"python train.py --epochs 1"' in stored
    assert "sesame" not in stored + first.stdout + first.stderr


def test_what_goes_wrong_is_reported_in_the_words_of_the_command(laboratory: Laboratory) -> None:
    requested = ("explore", "speedy", "--from", "project/requirements.txt", *COMMAND, *OPTIONS)
    broken = laboratory.run(*requested)
    assert broken.returncode == 6
    assert "KeyError: 'OWNER'" in broken.stderr
    assert "run it by hand in" in broken.stderr
    missing = laboratory.run(*requested, "--pi-command", "python tran.py")
    assert missing.returncode == 2
    assert "there is no tran.py" in missing.stderr


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--figure", "(x)"), "--figure belongs to a command"),
        (("--network",), "--network belongs to a command"),
        (("--pi-command", ""), "there is no command to measure"),
        (("--pi-command", "true", "--better", "higher"), "there is no figure"),
        (("--pi-command", "true", "--time-limit", "soon"), "time limit"),
    ],
)
def test_options_of_a_command_belong_to_one(
    laboratory: Laboratory, options: tuple[str, ...], words: str
) -> None:
    refused = laboratory.run("explore", "speedy", *options)
    assert refused.returncode == 2
    assert words in refused.stderr


def test_a_project_without_a_framework_or_a_name_has_nothing_to_vary(
    laboratory: Laboratory,
) -> None:
    requested = ("explore", "--from", "project/requirements.txt", *COMMAND, *OPTIONS)
    refused = laboratory.run(*requested, "--env", "OWNER=me")
    assert refused.returncode == 2
    assert "name a package that may vary" in refused.stderr
