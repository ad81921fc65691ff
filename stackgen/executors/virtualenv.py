"""Run inspections in virtualenvs, one process at a time, isolated as far as the host allows."""

import contextlib
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from stackgen.executors import ExecutorUnavailableError
from stackgen.interrupts import uninterrupted
from stackgen.model.inspections import Inspection, InspectionPlan, Limits, Outcome
from stackgen.model.stacks import Machine
from stackgen.sandbox import process
from stackgen.sandbox.namespaces import (
    ISOLATIONS,
    MOST_BYTES,
    HostSupervisor,
    most_confined,
    remove_leftovers,
    with_network,
)
from stackgen.sandbox.process import (
    Begun,
    gpu_environment,
    indicator_command,
    log_tail,
    process_environment,
)
from stackgen.sandbox.supervised import (
    MOST_PROCESSES,
    Capabilities,
    CommandNotStartedError,
    CommandReply,
    Request,
    SupervisorLostError,
)
from stackgen.storage.paths import shipped_folder

_NO_NETWORK = "network isolation"
_MOST_WRITTEN_BYTES = 1 << 30  # into any one file: a process that floods its log fills no disk


def _unchanged(_: InspectionPlan, request: Request) -> Request:
    return request


@dataclass(slots=True, kw_only=True)
class VirtualenvExecutor:
    """Runs each plan as a process of its virtualenv's interpreter.

    One supervisor runs them, in namespaces where everything but its own folder is read-only; a
    program that may use the network, or write more, gets another supervisor in its place.
    Close the executor when done (``contextlib.closing`` does): the supervisor ends then, or with
    this process.

    machine: where it runs.
    scratch: a folder for the working directories, each emptied after its inspection.
    isolations: command prefixes to confine by, the first that works is taken.
    adapt: changes a request to the supervisor (``LocalExecutor``).
    """

    machine: Machine
    scratch: Path
    isolations: tuple[tuple[str, ...], ...] = ISOLATIONS
    adapt: Callable[[InspectionPlan, Request], Request] = _unchanged
    _supervisor: HostSupervisor | None = None
    _surroundings: "_Surroundings | None" = None
    _tidied: bool = False

    def close(self) -> None:
        """End the supervisor; the next inspection would start another."""
        with uninterrupted():
            supervisor, self._supervisor = self._supervisor, None
            if supervisor is not None:
                supervisor.close()

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
                fix="measure on Linux (on Windows, WSL 2 is one); resolving and advising work here",
            )
        if not self._tidied:
            remove_leftovers(self.scratch)
            self._tidied = True
        for plan in plans:
            yield self._inspect(plan)

    def _inspect(self, plan: InspectionPlan) -> Inspection:
        begun = Begun.now(plan, self.machine.id)
        try:
            ended, unenforced = self._run(plan)
        except (SupervisorLostError, CommandNotStartedError) as error:
            return begun.inspection(*_not_run(plan.environment.python, error))
        # The control group's limit is not the plan's.
        seen = begun.ended(replace(ended, at_limit=False), unenforced)
        if seen.outcome is Outcome.OK or Path(plan.environment.python).exists():
            return seen
        # Its files were removed while it ran, which is no fault of the stack.
        log = log_tail(f"{seen.log}\nthe interpreter {plan.environment.python} is gone")
        return replace(seen, outcome=Outcome.ENGINE_LOST, log=log)

    def _run(self, plan: InspectionPlan) -> tuple[CommandReply, tuple[str, ...]]:
        """Run a plan in the running supervisor, or in a new one where that was lost."""
        wanted = _surroundings(plan)
        if self._surroundings != wanted:
            self.close()
        if self._supervisor is not None:
            try:
                return self._supervised(plan, self._supervisor)
            except SupervisorLostError:
                pass  # it was killed from outside, which is no fault of a stack
        return self._supervised(plan, self._start(wanted))

    def _supervised(
        self, plan: InspectionPlan, supervisor: HostSupervisor
    ) -> tuple[CommandReply, tuple[str, ...]]:
        clean = False
        try:
            ended = supervisor.run(self.adapt(plan, _request(plan, supervisor)))
            clean = ended.clean and ended.exit_code == 0
        finally:  # also when we are interrupted: nothing of it may disturb the next one
            if not clean:
                self.close()
        return ended, _unenforced(plan, supervisor, ended)

    def _start(self, wanted: "_Surroundings") -> HostSupervisor:
        isolations = with_network(self.isolations) if wanted.network else self.isolations
        self._supervisor, isolation = most_confined(
            self.scratch, isolations, most_bytes=wanted.most_bytes
        )
        self._surroundings = wanted
        if not wanted.network:
            self.isolations = (isolation,)  # what works once works again
        return self._supervisor


@dataclass(frozen=True, slots=True)
class _Surroundings:
    """Properties of a supervisor; a plan with others needs another supervisor."""

    network: bool
    most_bytes: int


def _surroundings(plan: InspectionPlan) -> _Surroundings:
    program = plan.call.program
    if program is None:
        return _Surroundings(network=False, most_bytes=MOST_BYTES)
    return _Surroundings(network=program.network, most_bytes=process.SCRATCH_BYTES)


def _not_run(python: str, error: Exception) -> tuple[Outcome, str]:
    """Return outcome and log of a plan whose command did not run."""
    if not Path(python).exists():
        return Outcome.ENGINE_LOST, f"the interpreter {python} is gone"
    outcome = (
        Outcome.BUILD_FAILED if isinstance(error, CommandNotStartedError) else Outcome.ENGINE_LOST
    )
    return outcome, str(error)


def unenforced_limits(scratch: Path) -> tuple[str, ...]:
    """Return the limits that this host does not enforce for virtualenvs, in words.

    Raises:
        StorageError: the scratch folder cannot be written.
    """
    supervisor, _ = most_confined(scratch, ISOLATIONS)
    nothing = Request(
        command=(sys.executable, "-I", "-S", "-c", ""),
        environment={},
        folder=str(supervisor.folder),
        timeout_s=60.0,
        guarded=(sys.prefix,),
    )
    with contextlib.closing(supervisor):
        return _missing(Limits(threads=1), supervisor, supervisor.run(nothing))


def _request(plan: InspectionPlan, supervisor: HostSupervisor) -> Request:
    pis, script = shipped_folder("pis"), plan.call.indicator.path
    harness = "" if Path(script).is_relative_to(pis) else str(pis)
    folder = str(supervisor.folder)
    environment = process_environment(plan, harness_folder=harness, home=folder)
    return Request(
        command=indicator_command(
            plan, python=plan.environment.python, script_path=script, folder=folder
        ),
        environment={**gpu_environment(plan.limits.gpus), **environment},
        folder=folder,
        timeout_s=plan.limits.timeout_s,
        cpus=plan.limits.cpus,
        limits=_resource_limits(plan.limits, supervisor.capabilities),
        guarded=(plan.environment.location, *process.guarded(plan.call.program)),
    )


def _resource_limits(limits: Limits, capabilities: Capabilities) -> dict[str, int]:
    found = {"CORE": 0, "FSIZE": _MOST_WRITTEN_BYTES}
    if limits.memory_bytes is not None and _limits_memory(limits):
        # DATA, not AS: frameworks reserve address space that they never touch.
        found["DATA"] = limits.memory_bytes
    if capabilities.counts_processes:
        found["NPROC"] = MOST_PROCESSES
    return found


def _unenforced(
    plan: InspectionPlan, supervisor: HostSupervisor, ended: CommandReply
) -> tuple[str, ...]:
    missing = _missing(plan.limits, supervisor, ended)
    program = plan.call.program
    if program is not None and program.network:
        missing = tuple(each for each in missing if each != _NO_NETWORK)
    return (*missing, *process.writable(program, ended.writable))


def _missing(limits: Limits, supervisor: HostSupervisor, ended: CommandReply) -> tuple[str, ...]:
    """Return the limits that do not hold on this host."""
    capabilities = supervisor.capabilities
    wanted = (
        (_NO_NETWORK, not supervisor.network_is_out_of_reach),
        ("read-only stack", bool(ended.writable)),
        ("process limit", not capabilities.counts_processes),
        ("end of all child processes", not capabilities.reaps),
        ("cpu affinity", bool(limits.cpus) and not hasattr(os, "sched_setaffinity")),
        ("memory limit", limits.memory_bytes is not None and not _limits_memory(limits)),
    )
    return tuple(name for name, missing in wanted if missing)


def _limits_memory(limits: Limits) -> bool:
    """Return whether a memory limit works on this host."""
    # Address space that GPU drivers reserve counts, though it is no memory of the machine.
    return sys.platform.startswith("linux") and not limits.gpus
