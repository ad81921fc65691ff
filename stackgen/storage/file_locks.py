"""Which entries of a store are in somebody's hands, as all processes that share it see it."""

import errno
import hashlib
import os
import struct
import sys
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

if sys.platform != "win32":
    import fcntl

# Linux's `struct flock`: type, whence, start, length, and a process id that has to be 0.
_FLOCK = struct.Struct("@hhqqi4x")


class InUse:
    """Entries that the owner of this object uses, and those that others use.

    Each entry is one byte of a file that stays empty, locked by everybody who uses it. That needs
    no room on a full disk and no cleaning: the kernel lets go when its owner ends, however it ends.
    Where the kernel cannot lock bytes for a file handle (all but Linux), using anything is using
    everything.
    """

    def __init__(self, folder: Path) -> None:
        self._path = folder / "in-use"
        self._work = folder / "in-work"
        self._opening = threading.Lock()
        self._handle: int | None = None

    def hold(self, name: str) -> None:
        """Use an entry, which need not exist, until this object ends; wait while it is claimed.

        A store that knows no locks or can only be read cannot be pruned either: nothing is held.
        """
        with suppress(OSError):
            _lock(self._opened(), name, fcntl.LOCK_SH)

    @contextmanager
    def claimed(self, name: str) -> Iterator[bool]:
        """Keep others from an entry meanwhile; yield False where one of them uses it.

        What this very object holds does not count, and is let go.

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
            # What can only be read can be held, and not claimed.
            denied = errno.EACCES
            raise PermissionError(denied, os.strerror(denied), str(self._path)) from error
        try:
            yield True
        finally:
            _lock(handle, name, fcntl.LOCK_UN)

    @contextmanager
    def working(self) -> Iterator["Work"]:
        """Yield the locks of one piece of work, which end with it.

        Raises:
            OSError: the store cannot be written.
        """
        self._work.parent.mkdir(parents=True, exist_ok=True)
        handle = os.open(self._work, os.O_RDWR | os.O_CREAT, 0o666)
        try:
            yield Work(handle=handle)
        finally:
            os.close(handle)

    def made_once(
        self,
        names: Iterable[str],
        *,
        there: Callable[[str], bool],
        make: Callable[[Sequence[str], "Work"], None],
    ) -> None:
        """Have what is missing made, each thing by one thread of one process.

        It takes what nobody else makes, and waits for others only with nothing in its hands, so
        that no two can wait for each other.

        Args:
            names: what is wanted.
            there: whether something need not be made (any more).
            make: makes several things, which nobody else makes meanwhile.

        Raises:
            OSError: the store cannot be written.
        """
        missing = [name for name in names if not there(name)]
        while missing:
            with self.working() as work:
                mine = [name for name in missing if work.take(name)]
                if not mine:
                    work.wait(missing[0])
                    mine = [missing[0], *(name for name in missing[1:] if work.take(name))]
                # Another one may have made them meanwhile.
                if left := [name for name in mine if not there(name)]:
                    make(left, work)
                missing = [name for name in missing if name not in mine]

    def _opened(self) -> int:
        with self._opening:
            if self._handle is None:
                self._path.parent.mkdir(parents=True, exist_ok=True)
                try:
                    self._handle = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o666)
                except OSError:
                    self._handle = os.open(self._path, os.O_RDONLY)  # Enough to hold.
                weakref.finalize(self, os.close, self._handle)
            return self._handle


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """What one piece of work has to itself, against all others, also of its own process.

    handle: a child that inherits it (``pass_fds``) keeps what was taken until it ends, too: one
        that outlives a killed parent goes on writing, and nobody must come between.
    """

    handle: int

    def take(self, name: str) -> bool:
        """Take something, and return whether it could be had.

        Raises:
            OSError: this file system knows no locks.
        """
        try:
            _lock(self.handle, name, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def wait(self, name: str) -> None:
        """Take something as soon as it can be had.

        Whoever waits with something in its hands that others wait for may wait for ever.
        """
        _lock(self.handle, name, fcntl.LOCK_EX)

    def share(self, name: str) -> None:
        """Use something beside others, as soon as nobody has it alone."""
        _lock(self.handle, name, fcntl.LOCK_SH)

    def give_back(self, name: str) -> None:
        """Let go of one thing; where locks are of whole files, at the end of the work."""
        if sys.platform == "linux":
            _lock(self.handle, name, fcntl.LOCK_UN)


def _lock(handle: int, name: str, operation: int) -> None:
    if sys.platform != "linux":
        fcntl.flock(handle, operation)
        return
    kinds = {fcntl.LOCK_SH: fcntl.F_RDLCK, fcntl.LOCK_UN: fcntl.F_UNLCK}
    kind = kinds.get(operation, fcntl.F_WRLCK)
    # Names share a byte once in 10^16 times; then one seems to be used that is not.
    at = int.from_bytes(hashlib.sha256(name.encode()).digest()[:7], "big")
    command = fcntl.F_OFD_SETLK if operation & fcntl.LOCK_NB else fcntl.F_OFD_SETLKW
    fcntl.fcntl(handle, command, _FLOCK.pack(kind, os.SEEK_SET, at, 1, 0))
