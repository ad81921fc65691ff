"""Take turns with every other stackgen on this host: one measures, or several build.

A build beside a measurement makes its times scatter several times as much (docs/adr/0010).
"""

import errno
import os
import stat
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from stackgen.errors import StorageError
from stackgen.pipeline.progress import Progress

if sys.platform != "win32":  # nothing is measured there
    import fcntl

_EVERYBODYS = (Path("/run/lock"), Path("/tmp"))  # noqa: S108 # nothing is written there
_TRIES, _PAUSE_S = 50, 0.02


def everybodys_folder(candidates: tuple[Path, ...] = _EVERYBODYS) -> Path | None:
    """Return the first folder in which every user of this host can make files, and keep them.

    ``TMPDIR`` is not asked: all users must find the same one. Sticky means that nobody can remove
    or replace what another user made.
    """
    for folder in candidates:
        try:
            status = folder.lstat()
        except OSError:
            continue
        shared = stat.S_ISVTX | stat.S_IWOTH
        if stat.S_ISDIR(status.st_mode) and status.st_mode & shared == shared:
            return folder
    return None


@dataclass(slots=True, kw_only=True)
class Host:
    """The turns of one process.

    cache: two containers of one host may share it, and no other folder.
    everybody: a folder that all users of this host share; None where there is none.
    waited_s: how long this process has waited for others.
    """

    cache: Path
    everybody: Path | None = field(default_factory=everybodys_folder)
    clock: Callable[[], float] = time.monotonic
    waited_s: float = 0.0
    _taken: bool = False
    _told: bool = False

    @contextmanager
    def measuring(self, progress: Progress) -> Iterator[None]:
        """Keep every other stackgen on this host from measuring and from building.

        Raises:
            StorageError: the cache cannot be written.
        """
        told = "waiting: another stackgen measures or builds on this machine"
        with self._turn(fcntl.LOCK_EX, told, progress):
            yield

    @contextmanager
    def building(self, progress: Progress) -> Iterator[None]:
        """Keep every other stackgen on this host from measuring; others may build, too.

        Raises:
            StorageError: the cache cannot be written.
        """
        told = "waiting: another stackgen measures on this machine"
        with self._turn(fcntl.LOCK_SH, told, progress):
            yield

    @contextmanager
    def _turn(self, kind: int, told: str, progress: Progress) -> Iterator[None]:
        if self._taken:  # it would wait for itself, for ever
            raise RuntimeError("this process builds or measures already")
        start = self.clock()
        with ExitStack() as held:
            # In this order in every process: so nobody waits for somebody who waits for them.
            if self.everybody is not None:
                self._take_everybodys(self.everybody, kind, told, progress, held)
            try:
                _take(self.cache / "measuring", _own, kind, told, progress, held)
            except OSError as error:
                raise StorageError(
                    f"cannot write in {self.cache}",
                    why=error.strerror or str(error),
                    fix="make the folder writable, or name another one in STACKGEN_CACHE",
                ) from error
            self._taken = True
            held.callback(self._end)
            self.waited_s += self.clock() - start
            yield

    def _take_everybodys(
        self, folder: Path, kind: int, told: str, progress: Progress, held: ExitStack
    ) -> None:
        try:
            _take(folder / "stackgen-measuring", _everybodys, kind, told, progress, held)
        except OSError as error:
            if not self._told:
                self._told = True
                progress.note(
                    "Other users of this machine are not waited for: "
                    f"{folder / 'stackgen-measuring'}: {error.strerror or error}."
                )

    def _end(self) -> None:
        self._taken = False


def _take(
    path: Path,
    opened: Callable[[Path], int],
    kind: int,
    told: str,
    progress: Progress,
    held: ExitStack,
) -> None:
    """Lock a file through a turnstile, which keeps those who come later from overtaking.

    Without it, builds that overlap would keep a measurement waiting for ever, and one campaign
    would take the lock again after each block before anybody else wakes up.
    """
    with ExitStack() as turnstile:
        _lock(path.with_name(f"{path.name}.turn"), opened, fcntl.LOCK_EX, told, progress, turnstile)
        _lock(path.with_name(f"{path.name}.lock"), opened, kind, told, progress, held)


def _lock(
    path: Path,
    opened: Callable[[Path], int],
    kind: int,
    told: str,
    progress: Progress,
    held: ExitStack,
) -> None:
    while True:
        handle = opened(path)
        try:
            try:
                fcntl.flock(handle, kind | fcntl.LOCK_NB)
            except BlockingIOError:
                progress.doing(told)
                fcntl.flock(handle, kind)
            if _is_at(handle, path):
                held.callback(os.close, handle)
                return
        except BaseException:
            os.close(handle)
            raise
        os.close(handle)  # somebody tidied the folder: what we locked is no longer what others see


def _is_at(handle: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(handle), path.lstat())
    except FileNotFoundError:
        return False


def _own(path: Path) -> int:
    return os.open(path, os.O_RDWR | os.O_CREAT, 0o666)


def _everybodys(path: Path) -> int:
    """Open a file that any user may have made, without being led elsewhere.

    Reading is enough to lock, so nobody has to be able to write it. It is made without following
    links, and opened without O_CREAT, which the kernel refuses for others' files in such folders.

    Raises:
        OSError: it is no plain file, or cannot be read.
    """
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK
    for _ in range(_TRIES):
        try:
            handle = os.open(path, flags)
        except FileNotFoundError:
            _make(path)
            continue
        except PermissionError:  # its maker is about to open it for all
            time.sleep(_PAUSE_S)
            continue
        if stat.S_ISREG(os.fstat(handle).st_mode):
            return handle
        os.close(handle)
        raise OSError(errno.EEXIST, "it is no plain file")
    raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))


def _make(path: Path) -> None:
    try:
        handle = os.open(path, os.O_RDONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o444)
    except FileExistsError:
        return
    try:
        os.fchmod(handle, 0o444)  # whatever the umask says
    finally:
        os.close(handle)
