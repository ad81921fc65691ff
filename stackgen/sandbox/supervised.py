"""The caller's side of ``supervisor.py``: what is asked of it, and what it answers."""

import json
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Protocol

SUPERVISOR = Path(__file__).with_name("supervisor.py")
MOST_PROCESSES = 4096  # frameworks start several threads for each of a large machine's cores
_READY_S = 60.0
_GRACE_S = 30.0  # for ending what a command left, and for the way back
_LONGEST_ANSWER = 32 << 20


class Lost(Exception):  # noqa: N818 # it never leaves the executors
    """The supervisor is gone, or does not answer; its last words say why, where it had any."""


class Unexecutable(Exception):  # noqa: N818 # it never leaves the executors
    """The command itself could not be started."""


class Stream(Protocol):
    """A way to a supervisor and back."""

    def send(self, text: bytes) -> None:
        """Send all of it.

        Raises:
            OSError: nobody listens.
        """

    def receive(self, timeout_s: float) -> bytes:
        """Return what came, at least one byte, or b"" at the end.

        Raises:
            TimeoutError: nothing came in time.
            OSError: the way back is broken.
        """

    def last_words(self) -> str:
        """Return what came on standard error."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A command to be run.

    environment: every variable of it. folder: where it starts. timeout_s: in seconds.
    cpus: numbers of the CPUs that it may run on; empty means all.
    limits: by name of a resource limit, without ``RLIMIT_``.
    guarded: folders that nobody should be able to write to.
    """

    command: tuple[str, ...]
    environment: Mapping[str, str]
    folder: str
    timeout_s: float
    cpus: tuple[int, ...] = ()
    limits: Mapping[str, int] = field(default_factory=dict)
    guarded: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """How a command ended.

    exit_code: negative for a signal.
    oom: the kernel killed it, or something that it started, for lack of memory.
    at_limit: that was because its control group reached its own limit.
    clean: nothing of it is left: no process, no file, no shared memory.
    writable: the guarded folders that could be written to all the same.
    stdout, stderr: the last mebibyte of each.
    """

    exit_code: int
    timed_out: bool
    oom: bool
    at_limit: bool
    clean: bool
    writable: tuple[str, ...]
    stdout: str
    stderr: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Ready:
    """What a supervisor found itself to be.

    first: the first process of a namespace of its own.
    reaps: it can end whatever a command leaves behind.
    spaces: its namespaces, by kind, as the system names them.
    counts_processes: a limit on processes holds there, and counts those in there alone.
    sees_gpus: there is a device of a GPU.
    memory_limit, process_limit: of its control group, in bytes and in processes, where it has one.
    """

    first: bool
    reaps: bool
    spaces: Mapping[str, str]
    counts_processes: bool
    sees_gpus: bool
    memory_limit: int | None
    process_limit: int | None


class Supervised:
    """A supervisor that answered."""

    def __init__(self, stream: Stream) -> None:
        """Wait for the first line of a supervisor.

        Raises:
            Lost: none came.
        """
        self._stream = stream
        self._unread = b""
        said = self._line(_READY_S)
        self.ready = Ready(
            first=said["first"],
            reaps=said["reaps"],
            spaces=said["spaces"],
            counts_processes=said["counts_processes"],
            sees_gpus=said["sees_gpus"],
            memory_limit=said["memory_limit"],
            process_limit=said["process_limit"],
        )

    def ask(self, request: Request) -> Reply:
        """Have a command run, and wait until it and all that it started has ended.

        Raises:
            Lost: there is no answer, nor will there be one.
            Unexecutable: the command could not be started.
        """
        try:
            self._stream.send(json.dumps(asdict(request)).encode() + b"\n")
        except OSError as error:
            raise Lost(str(error)) from error
        said = self._line(request.timeout_s + _GRACE_S)
        if "failed" in said:
            raise Unexecutable(said["failed"])
        return Reply(
            exit_code=said["exit_code"],
            timed_out=said["timed_out"],
            oom=said["oom"],
            at_limit=said["at_limit"],
            clean=said["clean"],
            writable=tuple(said["writable"]),
            stdout=said["stdout"],
            stderr=said["stderr"],
        )

    def _line(self, timeout_s: float) -> dict[str, Any]:
        deadline = time.monotonic() + timeout_s
        parts = [self._unread]
        size = len(self._unread)
        while b"\n" not in parts[-1]:
            try:
                part = self._stream.receive(max(0.001, deadline - time.monotonic()))
            except OSError as error:
                raise Lost(self._stream.last_words() or str(error)) from error
            size += len(part)
            if not part or size > _LONGEST_ANSWER:
                raise Lost(self._stream.last_words() or "it ended without an answer")
            parts.append(part)
        line, _, self._unread = b"".join(parts).partition(b"\n")
        try:
            said = json.loads(line)
        except ValueError as error:
            raise Lost(f"it answered {line[:80]!r}") from error
        return dict(said)
