"""What make explore says of how the command ended."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

pytestmark = pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed")


def explored(folder: Path, code: int) -> "subprocess.CompletedProcess[str]":
    """Run the target with a command that ends so, and without any set-up."""
    command = folder / "stackgen"
    command.write_text(f'#!/bin/sh\necho "ran: $*"\nexit {code}\n')
    command.chmod(0o755)
    (folder / "installed").touch()
    variables = (f"bin={folder}", f"installed={folder / 'installed'}", "BUDGET=1m")
    environ = {key: value for key, value in os.environ.items() if not key.startswith("MAKE")}
    return subprocess.run(
        ["make", *variables, "explore"],
        cwd=ROOT, env=environ, capture_output=True, text=True, check=False,
    )  # fmt: skip


@pytest.mark.parametrize(("code", "fails"), [(0, False), (3, False), (1, True), (6, True)])
def test_only_an_answer_that_is_not_there_yet_is_no_failure_of_make(
    tmp_path: Path, code: int, fails: bool
) -> None:
    done = explored(tmp_path, code)
    assert "ran: explore tensorflow-cpu --budget 1m" in done.stdout
    assert bool(done.returncode) is fails, done.stderr
    assert ("Not decided yet (exit code 3)" in done.stdout) is (code == 3)
    assert (f"Error {code}" in done.stderr) is fails
