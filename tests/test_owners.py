"""What is left behind is judged by who made it, and only where that can be told."""

import os
import subprocess
import sys

import psutil
import pytest

from stackgen.storage.owners import lives, owner

SAY = "from stackgen.owners import owner; print(owner(), flush=True); input()"


pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="as Linux tells of processes")


def test_we_live_and_so_does_another_process_until_it_ends() -> None:
    command = [sys.executable, "-c", SAY]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) as process:
        assert process.stdout is not None
        other = process.stdout.readline().strip()
        assert lives(owner())
        assert lives(other)
        process.communicate("\n")
    assert not lives(other)


def test_a_step_of_the_clock_ends_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    us, now = owner(), psutil.Process().create_time()
    monkeypatch.setattr(psutil.Process, "create_time", lambda _: now + 3600)
    assert lives(us)


def test_a_process_with_the_number_of_another_is_not_that_one() -> None:
    host, pid, began = owner().rsplit(":", 2)
    boot, _, ticks = began.rpartition("/")
    assert not lives(f"{host}:{pid}:{boot}/{int(ticks) - 1}")
    assert not lives(f"{host}:{pid}:another-boot/{ticks}")


def test_a_process_that_ended_and_was_not_waited_for_does_not_live() -> None:
    command = [sys.executable, "-c", SAY]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) as process:
        assert process.stdout is not None
        other = process.stdout.readline().strip()
        process.kill()
        process.stdout.read()
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        assert not lives(other)


def test_a_process_of_another_host_or_container_is_not_judged() -> None:
    host, _, began = owner().rsplit(":", 2)
    gone = 2**22 + 1  # beyond the largest number of a process
    assert not lives(f"{host}:{gone}:{began}")
    number, _, node = host.partition("@")
    assert lives(f"{number}0@{node}:{gone}:{began}")
    assert lives(f"{number}@{node}-2:{gone}:{began}")


def test_what_nobody_wrote_is_nobodys() -> None:
    assert not lives("")
