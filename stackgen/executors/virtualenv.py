"""Run inspections in virtualenvs, one process at a time, as confined as the host allows."""

import functools
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime, timezone
from pathlib import Path
from typing import IO

from stackgen import resources
from stackgen.errors import StorageError
from stackgen.executors import ExecutorUnavailableError
from stackgen.executors.process import (
    indicator_command,
    inspection,
    interpret,
    log_tail,
    process_environment,
)
from stackgen.values import Inspection, InspectionPlan, Limits, Machine, Outcome

_READ_BYTES = 1 << 20  # of each stream, from its end
_MOST_WRITTEN_BYTES = 1 << 30  # into any one file: a process that floods its log fills no disk
_NAMESPACES = (
    ("unshare", "--user", "--map-current-user", "--net", "--"),
    ("unshare", "--user", "--map-root-user", "--net", "--"),  # util-linux before 2.38
    ("unshare", "--net", "--"),  # root where user namespaces are switched off
)


@functools.cache
def network_isolation() -> tuple[str, ...]:
    """Return the command prefix that takes the network away here, () where nothing does."""
    for prefix in _NAMESPACES:
        with suppress(OSError, subprocess.TimeoutExpired):
            tried = subprocess.run([*prefix, "true"], capture_output=True, timeout=10, check=False)
            if tried.returncode == 0:
                return prefix
    return ()


def _utc_now() -> datetime:
    return datetime.now(timezone.utc)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Ended:
    """How a process ended, as far as it can be seen from outside."""

    exit_code: int
    timed_out: bool
    oom: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class VirtualenvExecutor:
    """Runs each plan as a process of its virtualenv's interpreter.

    machine: where it runs.
    scratch: a folder for the working directories, each removed after its inspection.
    isolation: the command prefix that takes the network away; () where the host has none.
    now, monotonic: the clocks.
    """

    machine: Machine
    scratch: Path
    isolation: tuple[str, ...] = field(default_factory=network_isolation)
    now: Callable[[], datetime] = _utc_now
    monotonic: Callable[[], float] = time.monotonic

    def inspect(self, plans: Iterable[InspectionPlan]) -> Iterator[Inspection]:
        """Yield one inspection per plan, in order.

        Raises:
            ExecutorUnavailableError: this system has no processes as we need them.
            StorageError: the scratch folder cannot be written.
        """
        if os.name != "posix":
            raise ExecutorUnavailableError(
                "virtualenvs cannot be measured on this system",
                why=f"{sys.platform} has no process groups and resource limits",
                fix="measure on Linux or macOS; resolving and advising work here",
            )
        for plan in plans:
            yield self._inspect(plan)

    def _inspect(self, plan: InspectionPlan) -> Inspection:
        started_at, start = self.now().isoformat(timespec="milliseconds"), self.monotonic()
        if not Path(plan.environment.python).exists():
            return inspection(
                plan,
                self.machine.id,
                outcome=Outcome.ENGINE_LOST,
                started_at=started_at,
                duration_s=0.0,
                log=log_tail(f"the interpreter {plan.environment.python} is gone"),
            )
        with self._folder() as folder:
            out, err = folder / "stdout", folder / "stderr"
            work = folder / "work"
            work.mkdir()
            with out.open("wb") as stdout, err.open("wb") as stderr:
                ended = self._run(plan, work, stdout, stderr)
            return interpret(
                plan,
                self.machine.id,
                exit_code=ended.exit_code,
                timed_out=ended.timed_out,
                oom=ended.oom,
                stdout=_end_of(out),
                stderr=_end_of(err),
                started_at=started_at,
                duration_s=self.monotonic() - start,
                unenforced=self._unenforced(plan.limits),
            )

    @contextmanager
    def _folder(self) -> Iterator[Path]:
        try:
            self.scratch.mkdir(parents=True, exist_ok=True)
            folder = tempfile.TemporaryDirectory(dir=self.scratch, ignore_cleanup_errors=True)
        except OSError as error:
            raise StorageError(
                f"cannot write below {self.scratch}",
                why=str(error),
                fix="free some space, or set STACKGEN_CACHE to a folder that can be written",
            ) from error
        with folder as name:
            yield Path(name)

    def _run(
        self, plan: InspectionPlan, work: Path, stdout: IO[bytes], stderr: IO[bytes]
    ) -> _Ended:
        pis, script = resources.folder("pis"), plan.call.indicator.path
        harness = "" if Path(script).is_relative_to(pis) else str(pis)
        environment = process_environment(plan, harness_folder=harness, home=str(work))
        command = indicator_command(plan, python=plan.environment.python, script_path=script)
        killed_before = _oom_kills()
        with _affinity(plan.limits.cpus):
            process = subprocess.Popen(
                [*self.isolation, *command],
                cwd=work,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=stdout,
                stderr=stderr,
                start_new_session=True,
            )
        _limit(process.pid, plan.limits)
        timed_out = _wait(process, plan.limits.timeout_s)
        oom = process.returncode == -signal.SIGKILL and _oom_kills() > killed_before
        return _Ended(exit_code=process.returncode, timed_out=timed_out, oom=oom and not timed_out)

    def _unenforced(self, limits: Limits) -> tuple[str, ...]:
        missing = []
        if not self.isolation:
            missing.append("network isolation")
        if limits.cpus and not hasattr(os, "sched_setaffinity"):
            missing.append("cpu affinity")
        if limits.memory_bytes is not None and not sys.platform.startswith("linux"):
            missing.append("memory limit")
        return tuple(missing)


def _wait(process: "subprocess.Popen[bytes]", timeout_s: float) -> bool:
    """Wait for a process, end whatever is left of its group, and say whether time ran out."""
    timed_out = False
    try:
        process.wait(timeout_s)
    except subprocess.TimeoutExpired:
        timed_out = True
    finally:  # also when we are interrupted: nothing of it may go on and disturb the next one
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    return timed_out


@contextmanager
def _affinity(cpus: tuple[int, ...]) -> Iterator[None]:
    """Let a process that is started meanwhile run on these CPUs only.

    A new process inherits the CPUs of the thread that starts it: so they are set before the
    first instruction runs, which no command prefix and no call afterwards can promise.
    """
    if not cpus or not hasattr(os, "sched_setaffinity"):
        yield
        return
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cpus)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def _limit(pid: int, limits: Limits) -> None:
    """Set what a process may take; it has hardly begun, so nothing is missed."""
    if not sys.platform.startswith("linux"):
        return
    import resource

    with suppress(ProcessLookupError):
        resource.prlimit(pid, resource.RLIMIT_CORE, (0, 0))
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (_MOST_WRITTEN_BYTES, _MOST_WRITTEN_BYTES))
        if limits.memory_bytes is not None:
            # DATA, not AS: frameworks reserve address space that they never touch.
            memory = (limits.memory_bytes, limits.memory_bytes)
            resource.prlimit(pid, resource.RLIMIT_DATA, memory)


def _oom_kills() -> int:
    """Return how many processes the kernel has killed for memory since it started."""
    with suppress(OSError):
        for line in Path("/proc/vmstat").read_text(encoding="ascii").splitlines():
            if line.startswith("oom_kill "):
                return int(line.split()[1])
    return 0


def _end_of(path: Path) -> str:
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - _READ_BYTES))
        return file.read().decode("utf-8", "replace")
