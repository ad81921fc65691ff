"""A process has an identity that outlives it; whether it runs is known for this host only."""

import os
import subprocess
import sys

import psutil
import pytest

from stackgen.storage.leases import is_running, process_identity

SAY = """
from stackgen.storage.leases import process_identity
print(process_identity(), flush=True)
input()
"""


pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="as Linux tells of processes")


def test_we_live_and_so_does_another_process_until_it_ends() -> None:
    command = [sys.executable, "-c", SAY]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) as process:
        assert process.stdout is not None
        other = process.stdout.readline().strip()
        assert is_running(process_identity())
        assert is_running(other)
        process.communicate("\n")
    assert not is_running(other)


def test_a_step_of_the_clock_ends_no_process(monkeypatch: pytest.MonkeyPatch) -> None:
    us, now = process_identity(), psutil.Process().create_time()
    monkeypatch.setattr(psutil.Process, "create_time", lambda _: now + 3600)
    assert is_running(us)


def test_a_process_with_the_number_of_another_is_not_that_one() -> None:
    host, pid, began = process_identity().rsplit(":", 2)
    boot, _, ticks = began.rpartition("/")
    assert not is_running(f"{host}:{pid}:{boot}/{int(ticks) - 1}")
    assert not is_running(f"{host}:{pid}:another-boot/{ticks}")


def test_a_process_that_ended_and_was_not_waited_for_does_not_live() -> None:
    command = [sys.executable, "-c", SAY]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) as process:
        assert process.stdout is not None
        other = process.stdout.readline().strip()
        process.kill()
        process.stdout.read()
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        assert not is_running(other)


def test_a_process_of_another_host_or_container_is_not_judged() -> None:
    host, _, began = process_identity().rsplit(":", 2)
    gone = 2**22 + 1  # beyond the largest number of a process
    assert not is_running(f"{host}:{gone}:{began}")
    number, _, node = host.partition("@")
    assert is_running(f"{number}0@{node}:{gone}:{began}")
    assert is_running(f"{number}@{node}-2:{gone}:{began}")


def test_no_identity_is_no_running_process() -> None:
    assert not is_running("")
