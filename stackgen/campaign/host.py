"""Take turns with every other stackgen on this host: one measures, or several build.

A build beside a measurement makes its times scatter several times as much (docs/adr/0010).
"""

import errno
import os
import stat
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from stackgen.errors import StorageError, UsageError
from stackgen.model.options import parse_cpu_list
from stackgen.model.progress import Progress

if TYPE_CHECKING:
    from stackgen.campaign.request import CampaignRequest

if sys.platform != "win32":  # nothing is measured there
    import fcntl

_SHARED_FOLDERS = (Path("/run/lock"), Path("/tmp"))  # noqa: S108 # nothing is written there
_TEST_FOLDER = "STACKGEN_TEST_LOCKS"
_TRIES, _PAUSE_S = 50, 0.02


def shared_folder(
    candidates: tuple[Path, ...] = _SHARED_FOLDERS, environ: Mapping[str, str] = os.environ
) -> Path | None:
    """Return the first folder in which every user of this host can make files, and keep them.

    ``TMPDIR`` does not count: all users must find the same one. Sticky means that no user can
    remove or replace what another user made. ``STACKGEN_TEST_LOCKS`` names another such folder, for
    tests that run beside each other; a note reports it.
    """
    own = environ.get(_TEST_FOLDER)
    for folder in (Path(own), *candidates) if own else candidates:
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
    shared: a folder that all users of this host share; None where there is none.
    waited_s: how long this process has waited for others.
    """

    cache: Path
    shared: Path | None = field(default_factory=shared_folder)
    clock: Callable[[], float] = time.monotonic
    waited_s: float = 0.0
    _taken: bool = False
    _reported: bool = False

    @contextmanager
    def measuring(self, progress: Progress) -> Iterator[None]:
        """Keep every other stackgen on this host from measuring and from building.

        Raises:
            StorageError: the cache cannot be written.
        """
        waiting = "waiting: another stackgen measures or builds on this machine"
        with self._turn(fcntl.LOCK_EX, partial(progress.doing, waiting), progress):
            yield

    @contextmanager
    def building(self, progress: Progress) -> Iterator[None]:
        """Keep every other stackgen on this host from measuring; others may build, too.

        Raises:
            StorageError: the cache cannot be written.
        """
        waiting = "waiting: another stackgen measures on this machine"
        with self._turn(fcntl.LOCK_SH, partial(progress.doing, waiting), progress):
            yield

    @contextmanager
    def _turn(self, kind: int, waiting: Callable[[], None], progress: Progress) -> Iterator[None]:
        if self._taken:  # it would wait for itself, for ever
            raise RuntimeError("this process builds or measures already")
        start = self.clock()
        with ExitStack() as locks:
            # In this order in every process: a deadlock is impossible.
            if self.shared is not None:
                path = self.shared / "stackgen-measuring"
                try:
                    _take(path, _shared_file, kind, waiting, locks)
                except OSError as error:
                    self._report_unshared(path, error.strerror or str(error), progress)
                if self.shared not in _SHARED_FOLDERS:
                    reason = f"{_TEST_FOLDER} names another folder"
                    self._report_unshared(path, reason, progress)
            try:
                _take(self.cache / "measuring", _own, kind, waiting, locks)
            except OSError as error:
                raise StorageError(
                    f"cannot write in {self.cache}",
                    why=error.strerror or str(error),
                    fix="make the folder writable, or name another one in STACKGEN_CACHE",
                ) from error
            self._taken = True
            locks.callback(self._end)
            self.waited_s += self.clock() - start
            yield

    def _report_unshared(self, path: Path, reason: str, progress: Progress) -> None:
        if not self._reported:
            self._reported = True
            progress.note(f"Other users of this machine are not waited for: {path}: {reason}.")

    def _end(self) -> None:
        self._taken = False


def _take(
    path: Path,
    opened: Callable[[Path], int],
    kind: int,
    waiting: Callable[[], None],
    locks: ExitStack,
) -> None:
    """Lock a file through a turnstile, which keeps those who come later from overtaking.

    Without it, builds that overlap would keep a measurement waiting for ever, and one campaign
    would take the lock again after each block before any other process wakes up.
    """
    with _locked(path.with_name(f"{path.name}.turn"), opened, fcntl.LOCK_EX, waiting):
        lock = path.with_name(f"{path.name}.lock")
        locks.enter_context(_locked(lock, opened, kind, waiting))


@contextmanager
def _locked(
    path: Path, opened: Callable[[Path], int], kind: int, waiting: Callable[[], None]
) -> Iterator[None]:
    """Lock the file that is at a path now: it may be removed while another process has it."""
    while True:
        handle = opened(path)
        try:
            try:
                fcntl.flock(handle, kind | fcntl.LOCK_NB)
            except BlockingIOError:
                waiting()
                fcntl.flock(handle, kind)
            if _is_at(handle, path):
                yield
                return
        finally:
            os.close(handle)


def _is_at(handle: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(handle), path.lstat())
    except FileNotFoundError:
        return False


def _own(path: Path) -> int:
    return os.open(path, os.O_RDWR | os.O_CREAT, 0o666)


def _shared_file(path: Path) -> int:
    """Open a file that any user may have made, without being led elsewhere.

    Reading is enough to lock, so no user has to be able to write it. It is made without following
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


# CPUs that are set aside: some to measure on, others for whatever stackgen does besides

_TOPOLOGY = Path("/sys/devices/system/cpu")


def refuse_cpus(request: "CampaignRequest", usable: Sequence[int]) -> None:
    """Refuse CPUs that cannot be set aside as they were given.

    Args:
        usable: numbers of the CPUs that this machine has for us.

    Raises:
        UsageError: a CPU is not there or not for us, has two purposes, or there are too few.
    """
    measure, build = request.processors.measure_cpus, request.processors.build_cpus
    if not measure and not build:
        _refuse_threads(request, usable, given="")
        return
    if not hasattr(os, "sched_setaffinity"):
        raise UsageError(
            "CPUs cannot be set aside here",
            why="this system lets no program choose its CPUs",
            fix="leave out --measure-cpus and --build-cpus",
        )
    if not measure:
        raise UsageError(
            "--build-cpus alone keeps nothing apart",
            why="it is not said where is measured, and that could be on the same CPUs",
            fix=f"give both, as in: {_example(usable)}",
        )
    for option, cpus in (("--measure-cpus", measure), ("--build-cpus", build)):
        _refuse_missing(option, cpus, usable)
    if both := sorted({*measure} & {*build}):
        raise UsageError(
            f"{_named(both)} cannot be for measuring and for building",
            why="what is built would disturb what is measured",
            fix=f"give each CPU to one of them, as in: {_example(usable)}",
        )
    _refuse_threads(request, measure, given="--measure-cpus")


def _refuse_missing(option: str, cpus: Sequence[int], usable: Sequence[int]) -> None:
    missing = [cpu for cpu in cpus if cpu not in usable]
    if missing:
        raise UsageError(
            f"{option}: {_named(missing)} cannot be used",
            why=f"this process may run on {cpu_list(usable)} (the machine has no others, or "
            "taskset, a container or the system keeps them)",
            fix=f"give some of these: {option} {cpu_list(usable)}",
        )


def _cpus(cpus: Sequence[int]) -> str:
    return f"CPU{'s' if len(cpus) > 1 else ''} {cpu_list(cpus)}"


def _refuse_threads(request: "CampaignRequest", cpus: Sequence[int], *, given: str) -> None:
    """Refuse more threads than CPUs: they would take turns on them, which is another question.

    Args:
        given: the option that names them, or "" where they are all that this machine has for us.
    """
    most = len(cpus)
    requested = [
        int(v) for name, v in request.measurement.parameters if name == "threads" and v.isdigit()
    ]
    if (threads := max([request.processors.threads, *requested])) <= most:
        return
    who = f"{given} names {most}" if given else f"this process may use {most}"
    fix = f"give --threads {most} or fewer"
    raise UsageError(
        f"{threads} threads cannot be measured on {_cpus(cpus)}",
        why=f"{who}, and threads that wait for each other's CPU show nothing about versions",
        fix=f"{fix}, or more {given}" if given else fix,
    )


@contextmanager
def limited_to(cpus: Sequence[int]) -> Iterator[None]:
    """Keep this thread, and what it starts meanwhile, to these CPUs; to no others if empty.

    What is measured is bound to CPUs of its own, and may leave these.
    """
    if not cpus:
        yield
        return
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cpus)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def shared_cores(
    measure: Iterable[int], build: Iterable[int], topology: Path = _TOPOLOGY
) -> tuple[int, ...]:
    """Return the CPUs for building that are the other half of a core that is measured on.

    Source: Linux, Documentation/admin-guide/cputopology.rst.
    """
    siblings: set[int] = set()
    for cpu in measure:
        try:
            text = (topology / f"cpu{cpu}/topology/thread_siblings_list").read_text("ascii")
        except OSError:
            continue
        siblings.update(parse_cpu_list(text, "thread_siblings_list"))
    return tuple(sorted(siblings & set(build)))


def cpu_list(cpus: Iterable[int]) -> str:
    """Return CPUs as they are given, such as ``0,2-5``."""
    runs: list[list[int]] = []
    for cpu in sorted(set(cpus)):
        if runs and runs[-1][1] == cpu - 1:
            runs[-1][1] = cpu
        else:
            runs.append([cpu, cpu])
    return ",".join(str(a) if a == b else f"{a}-{b}" for a, b in runs)


def _named(cpus: Sequence[int]) -> str:
    return f"CPU {cpus[0]}" if len(cpus) == 1 else f"the CPUs {cpu_list(cpus)}"


def _example(usable: Sequence[int]) -> str:
    if len(usable) < 2:
        return "--measure-cpus 1 --build-cpus 0"
    half = len(usable) // 2
    return f"--measure-cpus {cpu_list(usable[half:])} --build-cpus {cpu_list(usable[:half])}"
