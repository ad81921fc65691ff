"""Who made something that others may find after its maker was killed."""

import contextlib
import os
import platform
from pathlib import Path

import psutil

_PROC = Path("/proc")
_STATE, _START_TICKS = 0, 19  # fields of /proc/PID/stat after the name (proc_pid_stat(5): 3 and 22)


def owner() -> str:
    """Return who we are: host, process, and when the process began."""
    pid = os.getpid()
    return f"{host()}:{pid}:{_began(pid)}"


def lives(owner: str) -> bool:
    """Return whether the process that an owner's name stands for may still be at work."""
    try:
        its_host, pid, began = owner.rsplit(":", 2)
        if its_host != host():
            return True  # on another machine: not ours to judge
        return _began(int(pid)) == began
    except psutil.AccessDenied:
        return psutil.pid_exists(int(pid))  # another user's may be hidden, but not that it is there
    except (psutil.NoSuchProcess, ValueError):
        return False


def host() -> str:
    """Return what tells hosts apart, and containers that bear the name of their host."""
    with contextlib.suppress(OSError):
        return f"{(_PROC / 'self/ns/pid').stat().st_ino}@{platform.node()}"
    return platform.node()


def _began(pid: int) -> str:
    """Return when a process began, the same whatever is done to the clock meanwhile.

    Linux counts ticks since it was started; as a time of day, that moves with the clock.

    Raises:
        psutil.NoSuchProcess: it has ended.
        psutil.AccessDenied: it may be there, but is hidden from us.
    """
    try:
        boot = (_PROC / "sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return str(int(psutil.Process(pid).create_time()))  # elsewhere it is noted down for good
    try:
        text = (_PROC / str(pid) / "stat").read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        if psutil.pid_exists(pid):
            raise psutil.AccessDenied(pid) from error
        raise psutil.NoSuchProcess(pid) from error
    fields = text.rpartition(")")[2].split()
    if fields[_STATE] in "ZX":  # it has ended, and its parent has not looked yet
        raise psutil.NoSuchProcess(pid)
    return f"{boot}/{fields[_START_TICKS]}"
