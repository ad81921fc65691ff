"""Updates of lock files since a git revision, as the pre-commit hook and the GitHub Action do."""

import os
import subprocess
from pathlib import Path

import pytest

from stackgen.campaign.indicators import known_indicators
from stackgen.cli.lock_updates import main
from stackgen.indicators.families import OTHER, family_of
from tests.test_merged_advice import measured


def git(folder: Path, *arguments: str) -> None:
    own = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull}
    name = ("-c", "user.name=t", "-c", "user.email=t@t.invalid")
    command = ["git", *name, *arguments]
    subprocess.run(command, cwd=folder, check=True, env={**os.environ, **own}, capture_output=True)


@pytest.mark.parametrize(
    ("old", "new", "said", "code"),
    [
        ("2.0.0", "1.26.4", "The update: slower", 1),
        pytest.param("1.26.4", "2.0.0", "The update: faster", 0, marks=pytest.mark.thorough),
        pytest.param("1.20.0", "2.0.0", "Unknown: ", 0, marks=pytest.mark.thorough),
        ("2.0.0", "2.0.0", "", 0),
    ],
)
def test_an_update_fails_where_it_is_slower(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    old: str,
    new: str,
    said: str,
    code: int,
) -> None:
    for name in ("STACKGEN_CACHE", "HOME"):
        monkeypatch.setenv(name, str(tmp_path / "home"))
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    lock = tmp_path / "requirements.txt"
    git(tmp_path, "init", "-q")
    lock.write_text(f"numpy=={old}\n")
    git(tmp_path, "add", "requirements.txt")
    git(tmp_path, "commit", "-qm", "lock")
    lock.write_text(f"numpy=={new}\n")
    kb = measured(tmp_path / "kb.db", 1)
    assert main([str(lock), "--kb", str(kb)]) == code
    assert said in capsys.readouterr().out


def test_every_shipped_indicator_has_a_family() -> None:
    shipped = [e.name for e in known_indicators() if e.component != "python"]
    assert len(shipped) > 80
    assert [name for name in shipped if family_of(name) == OTHER] == []
