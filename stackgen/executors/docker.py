"""Run inspections in containers: without network, privileges or a writable root."""

import hashlib
import signal
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from pathlib import Path

import docker
from docker.types import Mount

from stackgen.executors import ExecutorUnavailableError, programs
from stackgen.executors.containers import (
    CAMPAIGN_LABEL,
    ENGINE_FAULTS,
    SCRATCH,
    CannotRun,
    Containers,
    EngineLost,
    Kept,
    Place,
    engine_words,
)
from stackgen.executors.process import (
    gpu_environment,
    indicator_command,
    inspection,
    interpret,
    process_environment,
)
from stackgen.executors.supervised import MOST_PROCESSES, Lost, Ready, Reply, Request, Unexecutable
from stackgen.resources import folder
from stackgen.values import Inspection, InspectionPlan, Limits, Machine, Outcome

_PIS = "/stackgen/pis"
_PROJECT = "/stackgen/project"
_OWN_SCRIPTS = "/stackgen/own"
_NOBODY = "65534:65534"
_TRIES = 2  # a container that was removed is made again


@dataclass(slots=True)
class DockerExecutor:
    """Runs each plan as a fresh process in a container of its stack's image.

    A few containers are kept, one for each environment, for the plans to come; one whose process
    ended in any other way than it should is thrown away. Close the executor when done
    (``contextlib.closing`` does). Containers of a process that was killed end by themselves, and
    the next one removes them.

    api: a client of the engine that holds the images.
    machine: where this runs.
    """

    api: docker.APIClient
    machine: Machine
    _containers: Containers = field(init=False)
    _users: dict[tuple[Path, ...], tuple[str, str]] = field(default_factory=dict)
    _tidied: bool = False

    def __post_init__(self) -> None:
        self._containers = Containers(self.api)

    def close(self) -> None:
        """Remove the containers that are kept; the next inspection would make others."""
        self._containers.close()

    def inspect(self, plans: Iterable[InspectionPlan]) -> Iterator[Inspection]:
        """Yield one inspection per plan; an engine that went away is an outcome, too.

        Raises:
            ExecutorUnavailableError: the indicators cannot be read by any unprivileged user, or
                the engine cannot pass on the GPUs that a plan asks for.
        """
        if not self._tidied:
            self._containers.remove_leftovers()
            self._tidied = True
        for plan in plans:
            yield self._inspect(plan)

    def _inspect(self, plan: InspectionPlan) -> Inspection:
        """Run a plan, once more at once where its container was lost; the caller waits."""
        reason = ""
        for _ in range(_TRIES):
            started_at = datetime.now(timezone.utc).isoformat(timespec="milliseconds")
            start = time.monotonic()
            try:
                return self._attempt(plan, started_at, start)
            except EngineLost as error:
                reason = str(error)
        reason = f"the container engine was lost: {reason}"
        return self._not_run(plan, Outcome.ENGINE_LOST, reason, started_at, start)

    def _attempt(self, plan: InspectionPlan, started_at: str, start: float) -> Inspection:
        try:
            self._containers.abilities()  # finds out whether the engine answers
            script, mounts = self._mounted(plan)
            user, reason = self._user(plan)
            place = _place(plan, user)
            kept = self._containers.take(place, script, mounts, campaign=plan.campaign_id)
            ended = self._ask(plan, place, kept, script)
        except CannotRun as error:
            return self._not_run(plan, Outcome.BUILD_FAILED, str(error), started_at, start)
        except ENGINE_FAULTS as error:
            raise EngineLost(engine_words(error)) from error
        return interpret(
            plan,
            self.machine.id,
            exit_code=ended.exit_code,
            timed_out=ended.timed_out,
            oom=ended.oom,
            at_limit=ended.at_limit,
            stdout=ended.stdout,
            stderr=ended.stderr,
            started_at=started_at,
            duration_s=time.monotonic() - start,
            unenforced=(
                *_unenforced(plan.limits, kept.supervised.ready, ended),
                *((reason,) if reason else ()),
            ),
        )

    def _ask(self, plan: InspectionPlan, place: Place, kept: Kept, script: str) -> Reply:
        fine = False
        try:
            ended = kept.supervised.ask(_request(plan, script, kept.supervised.ready))
            fine = ended.clean and ended.exit_code == 0
            if ended.exit_code == -signal.SIGKILL and not (ended.oom or ended.timed_out):
                oom = self._containers.ran_out_of_memory(kept)
                ended = replace(ended, oom=oom, at_limit=oom)
        except Unexecutable as error:
            raise CannotRun(str(error)) from error
        except Lost as error:
            if not self._containers.ran_out_of_memory(kept):
                raise EngineLost(str(error)) from error
            ended = _KILLED_WITH_ITS_SUPERVISOR
        finally:  # also when we are interrupted: nothing of it may disturb the next one
            if not fine:
                self._containers.drop(place)
        return ended

    def _user(self, plan: InspectionPlan) -> tuple[str, str]:
        """Return who runs a plan, as ``_user`` does; a large project is looked at once."""
        files = (folder("pis") / "harness.py", Path(plan.call.indicator.path))
        places = (*files, *map(Path, programs.guarded(plan.call.program)))
        if places not in self._users:
            self._users[places] = _user(places)
        return self._users[places]

    def _mounted(self, plan: InspectionPlan) -> tuple[str, tuple[Mount, ...]]:
        """Return the script's path in a container, and what every container needs mounted."""
        pis = folder("pis").resolve()
        indicator = plan.call.indicator
        script = Path(indicator.path).resolve()
        mounts = (Mount(_PIS, str(pis), type="bind", read_only=True),)
        if script.is_relative_to(pis):
            return f"{_PIS}/{script.relative_to(pis).as_posix()}", mounts
        version = hashlib.sha256(f"{script} {indicator.sha256}".encode()).hexdigest()[:12]
        inside = f"{_OWN_SCRIPTS}/{version}/{script.name}"
        mount = Mount(inside, str(script), type="bind", read_only=True)
        self._containers.scripts.setdefault(inside, mount)
        return inside, mounts

    def _not_run(
        self, plan: InspectionPlan, outcome: Outcome, log: str, started_at: str, start: float
    ) -> Inspection:
        """Return that no process ever ran."""
        return inspection(
            plan,
            self.machine.id,
            outcome=outcome,
            started_at=started_at,
            duration_s=time.monotonic() - start,
            log=log,
        )


_KILLED_WITH_ITS_SUPERVISOR = Reply(
    exit_code=-signal.SIGKILL,
    timed_out=False,
    oom=True,
    at_limit=True,
    clean=False,
    writable=(),
    stdout="",
    stderr="",
)


def _request(plan: InspectionPlan, script: str, ready: Ready) -> Request:
    python = plan.environment.python
    path = f"{Path(python).parent}:/usr/local/bin:/usr/bin:/bin"
    environment = process_environment(plan, harness_folder=_PIS, path=path, home=SCRATCH)
    # What a container was given is numbered anew in there, and all of it is to be used.
    seen = gpu_environment("all" if plan.limits.gpus else "")
    memory = {}
    if plan.limits.memory_bytes is not None and not _memory_is_limited(plan.limits, ready):
        memory = {"DATA": plan.limits.memory_bytes}
    return Request(
        command=indicator_command(
            plan, python=python, script_path=script, folder=SCRATCH, project=_PROJECT
        ),
        environment={**seen, **environment},
        folder=SCRATCH,
        timeout_s=plan.limits.timeout_s,
        cpus=plan.limits.cpus,  # an engine without rights over CPUs does not say so
        limits={"CORE": 0, **memory},
        guarded=("/",),
    )


def _place(plan: InspectionPlan, user: str) -> Place:
    place = Place(
        image=plan.environment.location,
        python=plan.environment.python,
        user=user,
        limits=replace(plan.limits, threads=1, timeout_s=1.0),
    )
    program = plan.call.program
    if program is None:
        return place
    return replace(
        place,
        folders=programs.mounted(program, _PROJECT),
        network=program.network,
        scratch_bytes=programs.SCRATCH_BYTES,
    )


def _user(places: Sequence[Path]) -> tuple[str, str]:
    """Return who runs the indicator, and what that leaves open.

    Raises:
        ExecutorUnavailableError: only root may read the indicator, or a folder that it sees.
    """
    closed = programs.owner_of_closed(places)
    if closed is None:
        return _NOBODY, ""
    path, owner = closed
    if owner.st_uid == 0:
        raise ExecutorUnavailableError(
            f"a container cannot read {path}",
            why="only root may read it, and indicators do not run as root",
            fix=f"chmod -R a+rX {path}",
        )
    return (
        f"{owner.st_uid}:{owner.st_gid}",
        "unprivileged user (only their owner may read the indicators, or the project)",
    )


def _unenforced(limits: Limits, ready: Ready, ended: Reply) -> tuple[str, ...]:
    """Return what does not hold in a container, whatever its engine says that it can do."""
    processes = ready.process_limit is not None and ready.process_limit <= MOST_PROCESSES
    wanted = (
        ("memory limit (of all its processes together)", not _memory_is_limited(limits, ready)),
        ("process limit", not processes),
        ("read-only stack", bool(ended.writable)),
    )
    return tuple(name for name, missing in wanted if missing)


def _memory_is_limited(limits: Limits, ready: Ready) -> bool:
    """Return whether the container holds its processes to a plan's memory, together."""
    if limits.memory_bytes is None:
        return True
    return ready.memory_limit is not None and ready.memory_limit <= limits.memory_bytes


__all__ = ["CAMPAIGN_LABEL", "DockerExecutor"]
