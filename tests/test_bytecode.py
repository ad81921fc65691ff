"""The compiler that runs in bases waits until the trees are there, and never for the dead."""

import fcntl
import subprocess
import sys
from pathlib import Path

import pytest

from stackgen.images import bytecode


def started(folder: Path, gate: Path) -> "subprocess.Popen[bytes]":
    command = [sys.executable, bytecode.__file__, str(folder), "1", str(gate)]
    return subprocess.Popen(command)


def waits(process: "subprocess.Popen[bytes]") -> bool:
    try:
        process.wait(0.3)
    except subprocess.TimeoutExpired:
        return True
    return False


@pytest.mark.parametrize(
    ("printed", "status", "compiled"),
    [(bytecode.OPEN, 0, 1), ("", bytecode.NEVER_OPENED, 0)],
    ids=["all is there", "killed or given up"],
)
def test_trees_are_compiled_once_they_are_there(
    tmp_path: Path, printed: str, status: int, compiled: int
) -> None:
    gate = tmp_path / "gate"
    with gate.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        process = started(tmp_path, gate)
        assert waits(process)
        (tmp_path / "tree").mkdir()
        (tmp_path / "tree" / "late.py").write_text("LATE = True\n")
        file.write(printed)
    assert process.wait(30) == status
    assert len(list(tmp_path.rglob("*.pyc"))) == compiled
