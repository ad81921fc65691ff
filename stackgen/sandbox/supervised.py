"""Client of ``supervisor.py``: requests and replies."""

import json
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Protocol

import msgspec

SUPERVISOR = Path(__file__).with_name("supervisor.py")
MOST_PROCESSES = 4096  # frameworks start several threads for each of a large machine's cores
_READY_S = 60.0
_GRACE_S = 30.0  # for ending what a command left, and for the way back
_MOST_REPLY_BYTES = 32 << 20


class SupervisorLostError(Exception):
    """The supervisor is gone, or does not answer; the message is the end of its stderr."""


class CommandNotStartedError(Exception):
    """The command could not be started."""


class Stream(Protocol):
    """Standard streams of a supervisor."""

    def send(self, text: bytes) -> None:
        """Send all of it.

        Raises:
            OSError: the supervisor does not read.
        """

    def receive(self, timeout_s: float) -> bytes:
        """Return output, at least one byte, or b"" at the end.

        Raises:
            TimeoutError: there is no output in time.
            OSError: the connection is lost.
        """

    def last_stderr(self) -> str:
        """Return the end of standard error."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A command to run.

    environment: every variable of it. folder: where it starts. timeout_s: in seconds.
    cpus: numbers of the CPUs that it may run on; empty means all.
    limits: by name of a resource limit, without ``RLIMIT_``.
    guarded: folders that should not be writable.
    """

    command: tuple[str, ...]
    environment: Mapping[str, str]
    folder: str
    timeout_s: float
    cpus: tuple[int, ...] = ()
    limits: Mapping[str, int] = field(default_factory=dict)
    guarded: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandReply:
    """Exit code and output of a command.

    exit_code: negative for a signal.
    oom: the kernel killed it, or one of its children, for lack of memory.
    at_limit: the reason was the limit of its control group.
    clean: it left no process, no file and no shared memory.
    writable: the guarded folders that were writable.
    stdout, stderr: the last mebibyte of each.
    """

    exit_code: int
    timed_out: bool = False
    oom: bool = False
    at_limit: bool = False
    clean: bool = True
    writable: tuple[str, ...] = ()
    stdout: str = ""
    stderr: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Capabilities:
    """Capabilities of a supervisor, as it reports them at its start.

    first: it is the first process of its own process namespace.
    reaps: it can end all processes that a command leaves behind.
    spaces: its namespaces by kind, with the system's names.
    counts_processes: a limit on processes works there, and counts only processes in there.
    sees_gpus: there is a GPU device.
    memory_limit, process_limit: of its control group, in bytes and in processes, if any.
    """

    first: bool
    reaps: bool
    spaces: Mapping[str, str]
    counts_processes: bool
    sees_gpus: bool
    memory_limit: int | None
    process_limit: int | None


class Supervised:
    """A running supervisor."""

    def __init__(self, stream: Stream) -> None:
        """Wait until a supervisor is ready.

        Raises:
            SupervisorLostError: it does not start.
        """
        self._stream = stream
        self._unread = b""
        self.capabilities = msgspec.convert(self._line(_READY_S), Capabilities)

    def run(self, request: Request) -> CommandReply:
        """Run a command, and wait until it and all its children have ended.

        Raises:
            SupervisorLostError: the supervisor is gone.
            CommandNotStartedError: the command could not be started.
        """
        try:
            self._stream.send(json.dumps(asdict(request)).encode() + b"\n")
        except OSError as error:
            raise SupervisorLostError(str(error)) from error
        reply = self._line(request.timeout_s + _GRACE_S)
        if "failed" in reply:
            raise CommandNotStartedError(reply["failed"])
        return msgspec.convert(reply, CommandReply)

    def _line(self, timeout_s: float) -> dict[str, Any]:
        deadline = time.monotonic() + timeout_s
        parts = [self._unread]
        size = len(self._unread)
        while b"\n" not in parts[-1]:
            try:
                part = self._stream.receive(max(0.001, deadline - time.monotonic()))
            except OSError as error:
                raise SupervisorLostError(self._stream.last_stderr() or str(error)) from error
            size += len(part)
            if not part or size > _MOST_REPLY_BYTES:
                raise SupervisorLostError(
                    self._stream.last_stderr() or "it ended without an answer"
                )
            parts.append(part)
        line, _, self._unread = b"".join(parts).partition(b"\n")
        try:
            return msgspec.json.decode(line, type=dict[str, Any])
        except msgspec.DecodeError as error:
            raise SupervisorLostError(f"it answered {line[:80]!r}") from error
