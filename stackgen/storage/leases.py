"""Leases on the entries of a store, and identities of processes: both outlive ``kill -9``.

A lease is a lock of the kernel, which ends with its process. Where no lock can be used, as for the
containers of an engine, a label names the process that created something; ``is_running`` decides
whether that process still exists.
"""

import contextlib
import errno
import hashlib
import os
import platform
import struct
import sys
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import psutil

if sys.platform != "win32":
    import fcntl

# Linux's `struct flock`: type, whence, start, length, and a process id that has to be 0.
_FLOCK = struct.Struct("@hhqqi4x")
_PROC = Path("/proc")
_STATE, _START_TICKS = 0, 19  # fields of /proc/PID/stat after the name (proc_pid_stat(5): 3 and 22)


@dataclass(frozen=True, slots=True, kw_only=True)
class Locks:
    """Exclusive and shared locks by name, against other processes and other threads.

    They are released when the context of ``Leases.locks`` ends.

    handle: of the lock file. A child process that inherits it (``pass_fds``) holds the locks until
        it ends: it may go on writing after its parent was killed.
    """

    handle: int

    def try_acquire(self, name: str) -> bool:
        """Acquire an exclusive lock; return False where another process or thread holds it.

        Raises:
            OSError: this file system has no locks.
        """
        try:
            _lock(self.handle, name, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def acquire(self, name: str) -> None:
        """Acquire an exclusive lock and wait for it.

        To avoid deadlocks, hold no lock that others wait for.
        """
        _lock(self.handle, name, fcntl.LOCK_EX)

    def acquire_shared(self, name: str) -> None:
        """Acquire a shared lock and wait while another one holds it exclusively."""
        _lock(self.handle, name, fcntl.LOCK_SH)

    def release(self, name: str) -> None:
        """Release one lock; where locks cover whole files, they last until the context ends."""
        if sys.platform == "linux":
            _lock(self.handle, name, fcntl.LOCK_UN)


class Leases:
    """Leases on the entries of a store: an entry with a lease is not evicted.

    Each entry is one byte of a file that stays empty; a lease is a shared lock on that byte. It
    needs no space on a full disk and no cleaning, as the kernel releases it when its process ends.
    Where the kernel cannot lock bytes for a file handle (all systems but Linux), a lease covers the
    whole store.
    """

    def __init__(self, folder: Path) -> None:
        self._path = folder / "in-use"
        self._lock_file = folder / "in-work"
        self._opening = threading.Lock()
        self._handle: int | None = None

    def hold(self, name: str) -> None:
        """Hold a lease on an entry, which need not exist, until this object is deleted.

        Wait while another process claims the entry. A store on a file system without locks, or one
        that can only be read, cannot be evicted from either: there, this does nothing.
        """
        with suppress(OSError):
            _lock(self._opened(), name, fcntl.LOCK_SH)

    @contextmanager
    def claim(self, name: str) -> Iterator[bool]:
        """Claim an entry exclusively; yield False where another process holds a lease on it.

        A lease of this object does not count, and is released.

        Raises:
            OSError: the store cannot be written.
        """
        handle = self._opened()
        try:
            _lock(handle, name, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
            return
        except OSError as error:
            if error.errno != errno.EBADF:
                raise
            # A file that is opened for reading can be leased, but not claimed.
            denied = errno.EACCES
            raise PermissionError(denied, os.strerror(denied), str(self._path)) from error
        try:
            yield True
        finally:
            _lock(handle, name, fcntl.LOCK_UN)

    @contextmanager
    def locks(self) -> Iterator[Locks]:
        """Yield locks for creating entries; all are released when the context ends.

        Raises:
            OSError: the store cannot be written.
        """
        self._lock_file.parent.mkdir(parents=True, exist_ok=True)
        handle = os.open(self._lock_file, os.O_RDWR | os.O_CREAT, 0o666)
        try:
            yield Locks(handle=handle)
        finally:
            os.close(handle)

    def create_missing(
        self,
        names: Iterable[str],
        *,
        exists: Callable[[str], bool],
        create: Callable[[Sequence[str], Locks], None],
    ) -> None:
        """Create missing entries, each in one thread of one process.

        Entries that no other process creates are created first; this process waits for others only
        while it holds no lock, so that there is no deadlock.

        Args:
            names: of the entries.
            exists: whether an entry exists (by now).
            create: creates several entries, which are locked meanwhile.

        Raises:
            OSError: the store cannot be written.
        """
        missing = [name for name in names if not exists(name)]
        while missing:
            with self.locks() as locks:
                locked = [name for name in missing if locks.try_acquire(name)]
                if not locked:
                    locks.acquire(missing[0])
                    others = (name for name in missing[1:] if locks.try_acquire(name))
                    locked = [missing[0], *others]
                # Another process may have created them meanwhile.
                if left := [name for name in locked if not exists(name)]:
                    create(left, locks)
                missing = [name for name in missing if name not in locked]

    def _opened(self) -> int:
        with self._opening:
            if self._handle is None:
                self._path.parent.mkdir(parents=True, exist_ok=True)
                try:
                    self._handle = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o666)
                except OSError:
                    self._handle = os.open(self._path, os.O_RDONLY)  # Enough for a lease.
                weakref.finalize(self, os.close, self._handle)
            return self._handle


def _lock(handle: int, name: str, operation: int) -> None:
    if sys.platform != "linux":
        fcntl.flock(handle, operation)
        return
    kinds = {fcntl.LOCK_SH: fcntl.F_RDLCK, fcntl.LOCK_UN: fcntl.F_UNLCK}
    kind = kinds.get(operation, fcntl.F_WRLCK)
    # Names share a byte once in 10^16 times; then an entry without a lease seems to have one.
    at = int.from_bytes(hashlib.sha256(name.encode()).digest()[:7], "big")
    command = fcntl.F_OFD_SETLK if operation & fcntl.LOCK_NB else fcntl.F_OFD_SETLKW
    fcntl.fcntl(handle, command, _FLOCK.pack(kind, os.SEEK_SET, at, 1, 0))


def process_identity() -> str:
    """Return the identity of this process: host, process id, and start time."""
    pid = os.getpid()
    return f"{host_identity()}:{pid}:{_start_time(pid)}"


def is_running(identity: str) -> bool:
    """Return whether a process may still run; True for processes of other hosts."""
    try:
        host, pid, started = identity.rsplit(":", 2)
        if host != host_identity():
            return True
        return _start_time(int(pid)) == started
    except psutil.AccessDenied:
        return psutil.pid_exists(int(pid))  # another user's process, whose start time is hidden
    except (psutil.NoSuchProcess, ValueError):
        return False


def host_identity() -> str:
    """Return an identity of this host or container; a container may have the name of its host."""
    with contextlib.suppress(OSError):
        return f"{(_PROC / 'self/ns/pid').stat().st_ino}@{platform.node()}"
    return platform.node()


def _start_time(pid: int) -> str:
    """Return when a process started, independent of changes of the system's clock.

    Linux counts ticks since boot; as a time of day, the start would move with the clock.

    Raises:
        psutil.NoSuchProcess: the process has ended.
        psutil.AccessDenied: it may exist, but is hidden from this user.
    """
    try:
        boot = (_PROC / "sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return str(int(psutil.Process(pid).create_time()))  # other systems record a time of day
    try:
        text = (_PROC / str(pid) / "stat").read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        if psutil.pid_exists(pid):
            raise psutil.AccessDenied(pid) from error
        raise psutil.NoSuchProcess(pid) from error
    fields = text.rpartition(")")[2].split()
    if fields[_STATE] in "ZX":  # it has ended, and its parent has not waited for it yet
        raise psutil.NoSuchProcess(pid)
    return f"{boot}/{fields[_START_TICKS]}"
