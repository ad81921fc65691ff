"""What a user is told whose program runs in no stack."""

from pathlib import Path

import pytest

from stackgen.pipeline.failing import nothing_runs
from stackgen.pipeline.places import Places
from stackgen.values import FailedStack, Outcome
from stackgen.values.programs import Program

PLACES = Places(cache=Path("/c"), knowledge=Path("/k"), kb_option=" --kb /k")
PROGRAM = Program(command=("python", "my train.py"), project="/p")


@pytest.mark.parametrize(
    ("outcome", "reason", "hint"),
    [
        (Outcome.IMPORT_FAILED, "ModuleNotFoundError: No module named 'x'", "--from requirements"),
        (Outcome.CRASHED, "FileNotFoundError: [Errno 2] ...: '/data/x'", "--data DIR"),
        (Outcome.CRASHED, "OSError: [Errno 101] Network is unreachable", "--network"),
        (Outcome.CRASHED, "socket.gaierror: Temporary failure in name resolution", "--network"),
        (Outcome.CRASHED, "ValueError: x", "run it by hand in /p: python 'my train.py'"),
    ],
)
def test_what_it_may_lack_is_proposed(outcome: Outcome, reason: str, hint: str) -> None:
    failure = FailedStack(label="numpy 1.0", outcome=outcome, reason=reason)
    told = str(nothing_runs([failure], PLACES, PROGRAM))
    assert hint in told
    assert "stackgen kb failures --kb /k" in told
    assert ("--network" in told) == (hint == "--network")
