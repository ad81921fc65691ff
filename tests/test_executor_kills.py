"""kill -9 in the middle of an inspection: nothing of it goes on, and the next one is not hindered.

That what was recorded before stays, and that another may measure, is told in
``test_campaign_faults.py`` and ``test_explore.py``.
"""

import sys
from contextlib import closing
from pathlib import Path

import psutil
import pytest

from stackgen.executors.virtualenv import VirtualenvExecutor
from stackgen.model.inspections import Outcome
from stackgen.model.stacks import EnvironmentKind
from stackgen.storage.leases import host_identity
from tests.killed_executor import HANGS, MACHINE, eventually, kill, plan_of, processes_with, running


@pytest.mark.parametrize("confinement", [(), ("unconfined",)], ids=["confined", "unconfined"])
def test_what_runs_ends_with_a_stackgen_that_is_killed(
    tmp_path: Path, confinement: tuple[str, ...]
) -> None:
    script, scratch = tmp_path / "hangs.py", tmp_path / "scratch"
    script.write_text(HANGS)
    with running("virtualenv", str(script), str(scratch), *confinement) as process:
        # The executor, its supervisor, the indicator and what that started.
        assert eventually(lambda: any(sleeps(each) for each in processes_with(str(script))))
        seen = [each for each in processes_with(str(script)) if each.pid != process.pid]
        kill(process)
        assert eventually(lambda: not any(goes_on(each) for each in seen))
    assert processes_with(str(script)) == []

    plan = plan_of(
        EnvironmentKind.VIRTUALENV, str(script), location=sys.prefix, python=sys.executable
    )
    with closing(VirtualenvExecutor(machine=MACHINE, scratch=scratch)) as executor:
        (after,) = executor.inspect([plan])
    assert after.outcome is Outcome.OK, after.log
    assert list(scratch.iterdir()) == []


def test_another_process_keeps_its_folder_whatever_the_clock_says(tmp_path: Path) -> None:
    script, scratch = tmp_path / "hangs.py", tmp_path / "scratch"
    script.write_text(HANGS)
    plan = plan_of(
        EnvironmentKind.VIRTUALENV, str(script), location=sys.prefix, python=sys.executable
    )
    with running("virtualenv", str(script), str(scratch)) as process:
        (folder,) = scratch.iterdir()
        # What a folder's name says of its maker was taken for a lie once the clock was set.
        as_if_older = scratch / f"stackgen-{host_identity()}+{process.pid}+1+0123"
        folder.rename(as_if_older)
        with closing(VirtualenvExecutor(machine=MACHINE, scratch=scratch)) as executor:
            assert [each.outcome for each in executor.inspect([plan])] == [Outcome.OK]
        assert list(scratch.iterdir()) == [as_if_older]
        kill(process)
        with closing(VirtualenvExecutor(machine=MACHINE, scratch=scratch)) as executor:
            assert [each.outcome for each in executor.inspect([plan])] == [Outcome.OK]
    assert list(scratch.iterdir()) == []


def sleeps(process: psutil.Process) -> bool:
    try:
        return process.cmdline() == ["sleep", "1000"]
    except psutil.Error:
        return False


def goes_on(process: psutil.Process) -> bool:
    """Return whether a process is still there; where nobody reaps it, a zombie runs no more."""
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.Error:
        return False
