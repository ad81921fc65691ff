"""A supervisor on this host, in its own namespaces where the host allows them."""

import contextlib
import glob
import json
import os
import select
import shutil
import signal
import subprocess
import sys
import uuid
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from stackgen.interrupts import uninterrupted
from stackgen.sandbox.supervised import SUPERVISOR, Capabilities, Supervised, SupervisorLostError
from stackgen.storage.files import storage_error
from stackgen.storage.leases import host_identity

if sys.platform != "win32":  # nothing is measured there
    import fcntl

_CONFINE = Path(__file__).with_name("confine.py")
_PART = "+"  # between the parts of a folder's name, which may end up in lists of folders
_SHARED_MEMORY = "/dev/shm"  # noqa: S108 # of the namespaces
MOST_BYTES = 256 << 20  # of what a command may write, as in containers
_STDERR_BYTES = 4096
_END_S = 20.0

_ALONE = ("--net", "--ipc", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "--")
ISOLATIONS: tuple[tuple[str, ...], ...] = (
    ("unshare", "--user", "--map-current-user", "--keep-caps", *_ALONE),
    ("unshare", "--user", "--map-root-user", *_ALONE),  # util-linux before 2.38
    ("unshare", *_ALONE),  # root where user namespaces are switched off
    # Many containers forbid to mount /proc, which a process namespace needs.
    ("unshare", "--user", "--map-current-user", "--keep-caps", "--net", "--ipc", "--mount", "--"),
    ("unshare", "--user", "--map-current-user", "--net", "--"),
    ("unshare", "--user", "--map-root-user", "--net", "--"),
    ("unshare", "--net", "--"),
)
"""Command prefixes, the strictest first; the first one that works is used."""


@dataclass(slots=True)
class _Pipes:
    """The standard streams of a process."""

    process: "subprocess.Popen[bytes]"

    def send(self, text: bytes) -> None:
        assert self.process.stdin is not None  # noqa: S101 # for the type checker
        self.process.stdin.write(text)
        self.process.stdin.flush()

    def receive(self, timeout_s: float) -> bytes:
        assert self.process.stdout is not None  # noqa: S101 # for the type checker
        readable = select.poll()
        readable.register(self.process.stdout, select.POLLIN)
        if not readable.poll(timeout_s * 1000):
            raise TimeoutError("it did not answer in time")
        return os.read(self.process.stdout.fileno(), 1 << 16)

    def last_stderr(self) -> str:
        assert self.process.stderr is not None  # noqa: S101 # for the type checker
        if not select.select([self.process.stderr], [], [], 0)[0]:
            return ""
        text = os.read(self.process.stderr.fileno(), _STDERR_BYTES)
        return text.decode("utf-8", "replace").strip()


class HostSupervisor:
    """A supervisor on this host, which runs one inspection after another."""

    def __init__(
        self, scratch: Path, isolation: tuple[str, ...], *, most_bytes: int = MOST_BYTES
    ) -> None:
        """Start one.

        Args:
            scratch: takes the folder that commands start in; see ``folder``.
            isolation: a command prefix of ``ISOLATIONS``, or ().
            most_bytes: what commands may write into their folder, where that is in memory.

        Raises:
            SupervisorLostError: it does not start, as where the host denies these namespaces.
            StorageError: the scratch folder cannot be written.
        """
        sockets = _sockets() if "--mount" in isolation else None
        self._supervised: Supervised | None = None
        started = False
        try:
            with uninterrupted():
                self.folder, self._lock = _folder(scratch, sockets)
                self._process = self._started(isolation, most_bytes)
                started = True
            self._supervised = Supervised(_Pipes(self._process))
            self.run = self._supervised.run
        finally:
            if started and self._supervised is None:
                self.close()

    @property
    def capabilities(self) -> Capabilities:
        """Return what it found itself to be."""
        assert self._supervised is not None  # noqa: S101 # the constructor saw to it
        return self._supervised.capabilities

    @property
    def network_is_out_of_reach(self) -> bool:
        """Return whether it has a network of its own, which leads nowhere."""
        return _differs("net", self.capabilities.spaces)

    def close(self) -> None:
        """End it and whatever it started."""
        with uninterrupted():
            self._end()
            shutil.rmtree(self.folder, ignore_errors=True)
            self._lock.close()

    def _end(self) -> None:
        process = self._process
        with contextlib.suppress(OSError):  # what was not sent yet is lost
            process.stdin.close()  # type: ignore[union-attr] # it is a pipe
        try:
            process.wait(_END_S)
        except subprocess.TimeoutExpired:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        for stream in (process.stdout, process.stderr):
            stream.close()  # type: ignore[union-attr] # they are pipes

    def _started(self, isolation: tuple[str, ...], most_bytes: int) -> "subprocess.Popen[bytes]":
        python = (sys.executable, "-I", "-S")
        confined = "--mount" in isolation
        network = "own-network" if "--net" in isolation else "network-of-the-host"
        own = (str(self.folder), str(most_bytes), network)
        confine = (*python, str(_CONFINE), *own) if confined else ()
        emptied = [str(self.folder), *([_SHARED_MEMORY] if confined else [])]
        own_ipc = "--ipc" in isolation
        options = json.dumps({"emptied": emptied, "own_ipc": own_ipc, "mounted": []})
        try:
            return subprocess.Popen(
                [*isolation, *confine, *python, str(SUPERVISOR), options],
                env={"PATH": os.environ.get("PATH", os.defpath)},
                cwd="/",
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=True,  # Ctrl-C must not reach it
            )
        except OSError as error:
            shutil.rmtree(self.folder, ignore_errors=True)
            self._lock.close()
            raise SupervisorLostError(str(error)) from error


def with_network(isolations: Iterable[tuple[str, ...]]) -> tuple[tuple[str, ...], ...]:
    """Return prefixes that leave the host's network and still isolate files."""
    found = (tuple(word for word in each if word != "--net") for each in isolations)
    return tuple(dict.fromkeys(each for each in found if "--mount" in each))


def most_confined(
    scratch: Path, isolations: Iterable[tuple[str, ...]], *, most_bytes: int = MOST_BYTES
) -> tuple[HostSupervisor, tuple[str, ...]]:
    """Start a supervisor by the first of these prefixes that works here, or by none.

    Raises:
        SupervisorLostError: it does not start even without isolation.
        StorageError: the scratch folder cannot be written.
    """
    for isolation in isolations:
        try:
            return HostSupervisor(scratch, isolation, most_bytes=most_bytes), isolation
        except SupervisorLostError:
            continue
    return HostSupervisor(scratch, ()), ()


def remove_leftovers(scratch: Path) -> None:
    """Remove the folders of killed processes.

    Only those of this host: on a network file system, locks of other hosts are not visible.
    """
    with contextlib.suppress(OSError), _locked(scratch, wait=True):  # none is made meanwhile
        for folder in scratch.glob(f"{glob.escape(_prefix())}*"):
            with contextlib.suppress(OSError), _locked(folder, wait=False):
                shutil.rmtree(folder, ignore_errors=True)


def _prefix() -> str:
    return f"stackgen-{host_identity()}{_PART}"


def _folder(scratch: Path, sockets: bytes | None) -> tuple[Path, contextlib.ExitStack]:
    """Create a folder; return it and its lock, which distinguishes it from a leftover.

    The lock ends with this process. On a file system without locks, leftovers are not removed.
    """
    folder = scratch / f"{_prefix()}{uuid.uuid4().hex}"
    with contextlib.ExitStack() as locks:
        try:
            scratch.mkdir(parents=True, exist_ok=True)
            with contextlib.ExitStack() as turn:
                with contextlib.suppress(OSError):
                    turn.enter_context(_locked(scratch, wait=True))
                folder.mkdir()
                with contextlib.suppress(OSError):
                    locks.enter_context(_locked(folder, wait=True))
            if sockets is not None:
                (folder / "sockets").write_bytes(sockets)
        except OSError as error:
            raise storage_error(f"cannot write below {scratch}", error) from error
        return folder, locks.pop_all()


@contextlib.contextmanager
def _locked(folder: Path, *, wait: bool) -> Iterator[None]:
    """Lock a folder against other processes.

    Raises:
        OSError: it cannot be locked, or another process has it and is not waited for.
    """
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    finally:
        os.close(handle)


def _sockets() -> bytes:
    """Return the Unix sockets of this host, each with a zero byte after it."""
    with contextlib.suppress(OSError):
        rows = Path("/proc/net/unix").read_bytes().splitlines()[1:]
        names = {row.partition(b" /")[2] for row in rows if b" /" in row}
        return b"".join(b"/" + name + b"\0" for name in sorted(names))
    return b""


def _differs(kind: str, spaces: Mapping[str, str]) -> bool:
    """Return whether a supervisor's namespace of a kind differs from that of this process."""
    try:
        return spaces.get(kind, "") not in ("", os.readlink(f"/proc/self/ns/{kind}"))  # noqa: PTH115
    except OSError:
        return False
