"""What a user is told whose program runs in no stack."""

from pathlib import Path

import pytest

from stackgen.campaign.comparison import nothing_runs
from stackgen.campaign.runner import last_line
from stackgen.model.inspections import Outcome
from stackgen.model.reports.campaigns import FailedStack
from stackgen.model.stacks import Program
from stackgen.storage.paths import Paths

PLACES = Paths(cache=Path("/c"), knowledge=Path("/k"), kb_option=" --kb /k")
PROGRAM = Program(command=("python", "my train.py"), project="/p")


@pytest.mark.parametrize(
    ("outcome", "reason", "hint"),
    [
        (Outcome.IMPORT_FAILED, "ModuleNotFoundError: No module named 'x'", "--from requirements"),
        (Outcome.CRASHED, "FileNotFoundError: [Errno 2] ...: '/data/x'", "--data DIR"),
        (Outcome.CRASHED, "OSError: [Errno 101] Network is unreachable", "--network"),
        (Outcome.CRASHED, "socket.gaierror: Temporary failure in name resolution", "--network"),
        (Outcome.CRASHED, "OSError: [Errno 28] No space left on device", "write 1 GiB"),
        (Outcome.CRASHED, "can't open file '/p/train.py'", "from the project's folder on"),
        (Outcome.CRASHED, "ValueError: x", "run it by hand in /p: python 'my train.py'"),
    ],
)
def test_what_it_may_lack_is_proposed(outcome: Outcome, reason: str, hint: str) -> None:
    failure = FailedStack(label="numpy 1.0", outcome=outcome, reason=reason)
    reported = str(nothing_runs([failure], PLACES, PROGRAM))
    assert hint in reported
    assert "stackgen kb failures --kb /k" in reported
    assert ("--network" in reported) == (hint == "--network")


@pytest.mark.parametrize(
    ("log", "line"),
    [
        ("epoch 1\nno config\nexit code 1", "exit code 1: no config"),
        ("exit code 1", "exit code 1"),
        ("KeyError: 'a'\nbye\nexit code 1", "KeyError: 'a'"),
        ("epoch 1\nkilled by SIGABRT", "killed by SIGABRT"),
        ("\n", "it printed nothing"),
    ],
)
def test_an_exit_code_is_reported_with_the_end_of_the_log(log: str, line: str) -> None:
    assert last_line(log) == line


def test_a_module_of_the_project_is_found_in_its_folder(tmp_path: Path) -> None:
    (tmp_path / "src" / "mine").mkdir(parents=True)
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "helper.py").touch()
    program = Program(command=("python", "train.py"), project=str(tmp_path))
    for name, folder in (("mine", "src"), ("helper", "lib"), ("pandas", "")):
        reason = f"ModuleNotFoundError: No module named '{name}'"
        failure = FailedStack(label="numpy 1.0", outcome=Outcome.IMPORT_FAILED, reason=reason)
        reported = str(nothing_runs([failure], PLACES, program))
        assert (f"--env PYTHONPATH={folder};" in reported) == bool(folder)
        assert ("--from requirements.txt" in reported) == (not folder)
