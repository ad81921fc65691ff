"""Run one command after another, each as a fresh process, and leave nothing of it behind.

The text of this file runs inside a container (``python -c TEXT OPTIONS``) or inside namespaces of
the host: standard library alone, Python 3.6 and newer, and no import of ours. It is started once
and reused: a process in it starts in a millisecond, a container in a quarter of a second.

It speaks JSON, one object a line: first what it found itself to be, then a reply to each request.
It ends, with everything that it started, as soon as its standard input ends: a caller that was
killed leaves nothing running. While a command runs and says nothing, this process sleeps.
"""

# Paths are strings here: pathlib alone would take longer to import than all the rest.
# ruff: noqa: PTH101, PTH106, PTH108, PTH112, PTH114, PTH115, PTH118, PTH123, PTH208

import contextlib
import json
import os
import re
import resource
import select
import signal
import subprocess
import sys
import time
from typing import Any

TAIL_BYTES = 1 << 20  # of each stream, from its end
ENDING_S = 10.0  # how long what was killed may take to go
SLEEP_S = 0.001
STEP_S, LATE_S = 10.0, 1.0  # a wait takes no longer unless this process is stopped
# From <linux/prctl.h>
PR_SET_PDEATHSIG, PR_SET_DUMPABLE, PR_SET_CHILD_SUBREAPER, PR_SET_NO_NEW_PRIVS = 1, 4, 36, 38
GPU_DEVICES = r"nvidia(\d+|ctl)$|kfd$|dri$|dxg$"
# What control groups say, by file of version 2 and of version 1 (with the controller).
OOM_FILES = ("memory.events", "memory", "memory.oom_control")
HIT_FILES = ("memory.events", "memory", "memory.failcnt")
MEMORY_FILES = ("memory.max", "memory", "memory.limit_in_bytes")
PROCESS_FILES = ("pids.max", "pids", "pids.max")
GROUPS = "/sys/fs/cgroup"
MACHINE = "/proc/vmstat"  # of the whole machine, where only a killed process counts


def prctl(option: int, value: int) -> bool:
    """Set something of this process; False where this system or this Python cannot."""
    with contextlib.suppress(ImportError, OSError, AttributeError):
        import ctypes

        return bool(ctypes.CDLL(None).prctl(option, value, 0, 0, 0) == 0)
    return False


class Tail:
    """The end of a stream."""

    def __init__(self) -> None:
        self.recent = bytearray()

    def add(self, chunk: bytes) -> None:
        """Take more, and forget what is too long ago."""
        self.recent += chunk
        if len(self.recent) > 2 * TAIL_BYTES:
            del self.recent[:-TAIL_BYTES]

    def text(self) -> str:
        """Return the end as text."""
        return bytes(self.recent[-TAIL_BYTES:]).decode("utf-8", "replace")


class Requests:
    """The requests of the caller: lines on a file descriptor."""

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor
        self.unread = b""

    def more(self) -> bool:
        """Read what there is; False at the end of it."""
        chunk = os.read(self.descriptor, 1 << 16)
        self.unread += chunk
        return bool(chunk)

    def next(self) -> "bytes | None":
        """Return the next line, or None at the end."""
        while b"\n" not in self.unread:
            if not self.more():
                return None
        line, _, self.unread = self.unread.partition(b"\n")
        return line


class Supervisor:
    """Runs commands, one at a time.

    emptied: folders that are emptied after each command.
    own_ipc: whether shared memory and queues of System V are this supervisor's alone.
    mounted: what in these folders is no command's to write, and stays.
    """

    def __init__(self, emptied: "list[str]", own_ipc: bool, mounted: "list[str]") -> None:
        self.emptied = [os.path.realpath(folder) for folder in emptied]
        self.own_ipc, self.mounted = own_ipc, set(mounted)
        self.requests = Requests(0)
        self.woken, wake = os.pipe()
        for end in (self.woken, wake):
            os.set_blocking(end, False)
        signal.set_wakeup_fd(wake)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        # What our caller ignores or blocks (nohup, a shell's background job) is no business of the
        # commands. As the first process of its namespace this one is immune to them all the same.
        for each in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
            signal.signal(each, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        self.linux = sys.platform.startswith("linux")
        if self.linux:
            # A process that runs in here cannot read this one's memory, nor answer in its place.
            prctl(PR_SET_DUMPABLE, 0)
            prctl(PR_SET_NO_NEW_PRIVS, 1)
        self.reaps = os.getpid() == 1 or (self.linux and prctl(PR_SET_CHILD_SUBREAPER, 1))

    def serve(self) -> None:
        """Answer requests until their pipe is closed."""
        send({"ready": 1, "first": os.getpid() == 1, "reaps": self.reaps, "spaces": spaces(),
             "counts_processes": self.linux and counts_processes(),
             "sees_gpus": sees_gpus(), "memory_limit": group_limit(MEMORY_FILES),
             "process_limit": group_limit(PROCESS_FILES)})  # fmt: skip
        while True:
            line = self.requests.next()
            if line is None:
                return
            send(self.answer(json.loads(line.decode("utf-8"))))

    def answer(self, request: "dict[str, Any]") -> "dict[str, Any]":
        """Run the command of a request and report how it ended."""
        writable = [path for path in request["guarded"] if not read_only(path)]
        kills, hits = oom_kills(), limit_hits()
        try:
            process = subprocess.Popen(
                request["command"], env=request["environment"], cwd=request["folder"],
                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                start_new_session=True,
                preexec_fn=lambda: limit(request, self.linux),  # noqa: PLW1509 # one thread
            )  # fmt: skip
        except (OSError, subprocess.SubprocessError) as error:
            return {"failed": str(error)}
        assert process.stdout and process.stderr  # noqa: S101, PT018 # for the type checker
        tails = {process.stdout.fileno(): Tail(), process.stderr.fileno(): Tail()}
        out, err = tails.values()
        try:
            status = self.watch(process.pid, tails, request["timeout_s"])
            timed_out = status is None
            gone = self.end_everything(process.pid)
            self.drain(tails)
        finally:
            process.returncode = 0  # it was reaped here, not by its object
            process.stdout.close()
            process.stderr.close()
        code = exit_code(status) if status is not None else -signal.SIGKILL
        oom = not timed_out and code != 0 and killed_for_memory(kills, oom_kills(), code)
        return {
            "exit_code": code,
            "timed_out": timed_out,
            "oom": oom,
            "at_limit": oom and kills[0] != MACHINE and limit_hits() > hits,
            "clean": self.empty() and gone and os.path.isdir(request["folder"]),
            "writable": writable,
            "stdout": out.text(),
            "stderr": err.text(),
        }

    def watch(self, pid: int, tails: "dict[int, Tail]", timeout_s: float) -> "int | None":
        """Return the status that a process ended with, or None when its time ran out."""
        left_s, seen_s = timeout_s, time.monotonic()
        poll = select.poll()
        for descriptor in (self.requests.descriptor, self.woken, *tails):
            poll.register(descriptor, select.POLLIN)
        while left_s > 0:
            wait_s = min(left_s, STEP_S)
            ready = poll.poll(int(wait_s * 1000) + 1)
            took_s, seen_s = time.monotonic() - seen_s, time.monotonic()
            # Longer: this process was stopped itself, and what it watches as well (SIGSTOP, pause).
            left_s -= took_s if took_s < wait_s + LATE_S else wait_s / 2
            for descriptor, _ in ready:
                if descriptor == self.woken:
                    os.read(self.woken, 1 << 16)
                    status = reaped(pid)
                    if status is not None:
                        return status
                elif descriptor == self.requests.descriptor:
                    if not self.requests.more():  # the caller has closed its end
                        self.end_everything(pid)
                        self.empty()
                        os._exit(0)
                elif not read_into(tails[descriptor], descriptor):
                    poll.unregister(descriptor)
        return None

    def end_everything(self, pid: int) -> bool:
        """Kill whatever a command left; return whether nothing of it is there any more.

        Who has lost its parent becomes our child, so no child means no descendant, either.
        """
        deadline = time.monotonic() + ENDING_S
        while time.monotonic() < deadline:
            self.kill(pid)
            try:
                while os.waitpid(-1, os.WNOHANG)[0]:
                    pass
            except ChildProcessError:
                return True
            time.sleep(SLEEP_S)
        return False

    def kill(self, pid: int) -> None:
        """Kill all that a command may have started."""
        targets = [-pid]
        if os.getpid() == 1:
            targets = [-1]  # every process but this one
        elif self.reaps:
            targets += children()
        for target in targets:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(target, signal.SIGKILL)

    def drain(self, tails: "dict[int, Tail]") -> None:
        """Read what is left in the pipes; processes that could still write are dead or stay."""
        for descriptor, tail in tails.items():
            os.set_blocking(descriptor, False)
            with contextlib.suppress(BlockingIOError):
                while read_into(tail, descriptor):
                    pass

    def empty(self) -> bool:
        """Empty what a command could write to; return whether nothing of it is left."""
        try:
            links = [each for each in self.emptied if os.path.islink(each)]  # made meanwhile
            for folder in filter(os.path.isdir, () if links else self.emptied):
                found = {os.path.join(folder, name) for name in os.listdir(folder)}
                for path in found - self.mounted:
                    remove(path)
            return not (links or (self.own_ipc and ipc_left()))
        except (OSError, RecursionError):
            return False


def send(document: "dict[str, Any]") -> None:
    """Write one line for the caller; without one there is nothing left to do."""
    try:
        sys.stdout.write(json.dumps(document) + "\n")
        sys.stdout.flush()
    except OSError:
        os._exit(1)


def limit(request: "dict[str, Any]", linux: bool) -> None:
    """Confine this process; runs in the new process, before the command."""
    if linux:
        prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    for name, most in request["limits"].items():
        kind = getattr(resource, "RLIMIT_" + name)
        hard = resource.getrlimit(kind)[1]
        allowed = most if hard == resource.RLIM_INFINITY else min(most, hard)
        resource.setrlimit(kind, (allowed, allowed))
    if request["cpus"] and hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, request["cpus"])


def reaped(pid: int) -> "int | None":
    """Take every child that has ended; return the status of one of them, or None."""
    status = None
    try:
        while True:
            found, ended = os.waitpid(-1, os.WNOHANG)
            if not found:
                return status
            if found == pid:
                status = ended
    except ChildProcessError:
        return status


def exit_code(status: int) -> int:
    """Return an exit code, negative for a signal."""
    return -os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)


def read_into(tail: Tail, descriptor: int) -> bool:
    """Read some; False at the end."""
    chunk = os.read(descriptor, 1 << 16)
    tail.add(chunk)
    return bool(chunk)


def remove(path: str) -> None:
    """Remove a file or a tree, also one that its owner has closed."""
    if os.path.isdir(path) and not os.path.islink(path):
        os.chmod(path, 0o700)
        for name in os.listdir(path):
            remove(os.path.join(path, name))
        os.rmdir(path)
    else:
        os.unlink(path)


def read_only(path: str) -> bool:
    """Return whether nothing can be written where a path leads; also where it leads nowhere."""
    with contextlib.suppress(OSError):
        return bool(os.statvfs(path).f_flag & os.ST_RDONLY)
    return True


def children() -> "list[int]":
    """Return the processes whose parent we are."""
    return [int(pid) for pid in text(f"/proc/self/task/{os.getpid()}/children").split()]


def ipc_left() -> bool:
    """Return whether there is any shared memory, queue or semaphore of System V."""
    return any(text("/proc/sysvipc/" + kind).count("\n") > 1 for kind in ("shm", "msg", "sem"))


def sees_gpus() -> bool:
    """Return whether there is a device of NVIDIA, AMD or Intel, or what Windows passes on."""
    return any(re.match(GPU_DEVICES, each) for each in os.listdir("/dev"))


def spaces() -> "dict[str, str]":
    """Return the namespaces that we are in, by kind."""
    found = {}
    for kind in ("mnt", "net", "pid", "ipc", "user"):
        with contextlib.suppress(OSError):
            found[kind] = os.readlink("/proc/self/ns/" + kind)
    return found


def counts_processes() -> bool:
    """Return whether a limit on processes holds here, and counts those in here alone.

    Older kernels count all of the user's, anywhere; the system's own root has no such limit.
    """
    return forks(64) and not forks(1)


def forks(most: int) -> bool:
    """Return whether a process that may have so many beside it can start another."""
    pid = os.fork()
    if pid:
        return os.WEXITSTATUS(os.waitpid(pid, 0)[1]) == 0
    code = 1
    try:
        resource.setrlimit(resource.RLIMIT_NPROC, (most, most))
        if os.fork() == 0:
            os._exit(0)
        os.wait()
        code = 0
    except (OSError, ValueError):
        pass
    finally:
        os._exit(code)


def group_files(second: str, controller: str, first: str) -> "list[str]":
    """Return where a file of our control group may be, for either version, the likeliest first."""
    found = []
    for line in text("/proc/self/cgroup").splitlines():
        number, controllers, path = line.split(":", 2)
        if number == "0":
            found += [GROUPS + path + "/" + second, GROUPS + "/" + second]
        elif controller in controllers.split(","):
            place = GROUPS + "/" + controller
            found += [place + path + "/" + first, place + "/" + first]
    return [os.path.normpath(each) for each in found]


def group_limit(names: "tuple[str, str, str]") -> "int | None":
    """Return a limit of our control group, or None where there is none to be seen."""
    for path in group_files(*names):
        content = text(path).strip()
        if content.isdigit():
            return int(content)
    return None


def oom_kills() -> "tuple[str, int]":
    """Return where the kernel counts its kills for memory, and how many there were."""
    for path in [*group_files(*OOM_FILES), MACHINE]:
        for line in text(path).splitlines():
            if line.startswith("oom_kill "):
                return path, int(line.split()[1])
    return "", 0


def limit_hits() -> int:
    """Return how often our control group had no memory left within its own limit.

    The kernel also ends processes in it when the whole machine has none left.
    """
    for path in group_files(*HIT_FILES):
        for line in text(path).splitlines():
            name, _, count = line.rpartition(" ")
            if name in ("oom", "") and count.isdigit():
                return int(count)
    return 0


def killed_for_memory(before: "tuple[str, int]", after: "tuple[str, int]", code: int) -> bool:
    """Return whether the kernel killed something for memory meanwhile, and that is why it ended."""
    ours = before[0] != MACHINE  # others' processes count there, too
    return after[1] > before[1] and (ours or code == -signal.SIGKILL)


def text(path: str) -> str:
    """Return what a file says, "" where it cannot be read."""
    with contextlib.suppress(OSError), open(path, encoding="ascii", errors="replace") as file:
        return file.read()
    return ""


if __name__ == "__main__":
    Supervisor(**json.loads(sys.argv[1])).serve()
