"""Run inspections in containers: one each, without network, privileges or a writable root."""

import contextlib
import math
import os
import platform
import stat
import time
import uuid
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import docker
import psutil
import requests
import urllib3
from docker import errors as docker_errors
from docker.types import LogConfig, Mount

from stackgen.executors import ExecutorUnavailableError
from stackgen.executors.process import (
    indicator_command,
    inspection,
    interpret,
    process_environment,
)
from stackgen.resources import folder
from stackgen.values import Inspection, InspectionPlan, Limits, Machine, Outcome

CAMPAIGN_LABEL = "stackgen.campaign"
_OWNER_LABEL = "stackgen.owner"
_PIS = "/stackgen/pis"
_OWN_SCRIPT = "/stackgen/indicator.py"
_NOBODY = "65534:65534"
_NOT_EXECUTED = (126, 127)  # how an init ends that cannot start what it was given
_PIDS = 4096  # frameworks start several threads for each of a large machine's cores
_RETRY_PAUSES_S = (1.0, 3.0)
_GONE = (requests.RequestException, urllib3.exceptions.HTTPError, ConnectionError)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Ended:
    """How a container's process ended; ``exit_code`` is None where the engine was lost."""

    exit_code: int | None
    timed_out: bool
    oom: bool
    stdout: str
    stderr: str


@dataclass(frozen=True, slots=True, kw_only=True)
class _Abilities:
    """Which limits the engine can enforce, and whether it has an init to put first.

    The first process of a container is immune to many signals: an indicator that aborts there
    would seem to have died of something else.
    """

    cpuset: bool
    memory: bool
    pids: bool
    init: str


class _EngineLost(Exception):  # noqa: N818 # it never leaves this module
    """The engine does not answer, or no longer has what it had."""


@dataclass(slots=True)
class DockerExecutor:
    """Runs each plan in a container of its stack's image.

    api: a client of the engine that holds the images.
    machine: where this runs.
    """

    api: docker.APIClient
    machine: Machine
    _abilities: _Abilities | None = None
    _lost: bool = False
    _unremoved: list[str] = field(default_factory=list)

    def inspect(self, plans: Iterable[InspectionPlan]) -> Iterator[Inspection]:
        """Yield one inspection per plan; an engine that went away is an outcome, too.

        Raises:
            ExecutorUnavailableError: the indicators cannot be read by any unprivileged user.
        """
        with contextlib.suppress(*_GONE, docker_errors.DockerException):
            self._remove_leftovers()
        for plan in plans:
            yield self._inspect(plan)

    def _inspect(self, plan: InspectionPlan) -> Inspection:
        """Run a plan, again where the engine was lost, but not for ever."""
        reason = ""
        # Once it is lost, the plans that follow only look whether it is back.
        for pause_s in (*(() if self._lost else _RETRY_PAUSES_S), 0.0):
            started_at = datetime.now(timezone.utc).isoformat(timespec="milliseconds")
            start = time.monotonic()
            try:
                result = self._attempt(plan, started_at, start)
            except _EngineLost as error:
                reason = str(error)
                time.sleep(pause_s)
            else:
                self._lost = False
                return result
        self._lost = True
        return inspection(
            plan,
            self.machine.id,
            outcome=Outcome.ENGINE_LOST,
            started_at=started_at,
            duration_s=time.monotonic() - start,
            log=f"the container engine was lost: {reason}",
        )

    def _attempt(self, plan: InspectionPlan, started_at: str, start: float) -> Inspection:
        with _engine_loss():
            abilities = self._can()
            script, mounts = _mounts(plan)
            user, reason = _user([folder("pis") / "harness.py", Path(plan.call.indicator.path)])
            unenforced = (*_unenforced(plan.limits, abilities), *((reason,) if reason else ()))
            container = self._create(plan, script, mounts, user, abilities)
            try:
                try:
                    self.api.start(container)
                except docker_errors.APIError as error:
                    return self._unstartable(plan, error, started_at, start)
                ended = self._wait(container, plan.limits.timeout_s)
            finally:
                self._remove(container)
        if ended.exit_code in _NOT_EXECUTED and f"exec {plan.environment.python}" in ended.stderr:
            return self._build_failed(plan, ended.stderr, started_at, start)
        return interpret(
            plan,
            self.machine.id,
            exit_code=ended.exit_code,
            timed_out=ended.timed_out,
            oom=ended.oom,
            stdout=ended.stdout,
            stderr=ended.stderr,
            started_at=started_at,
            duration_s=time.monotonic() - start,
            unenforced=unenforced,
        )

    def _create(
        self,
        plan: InspectionPlan,
        script: str,
        mounts: list[Mount],
        user: str,
        abilities: _Abilities,
    ) -> str:
        python = plan.environment.python
        environment = process_environment(
            plan, harness_folder=_PIS, path=f"{Path(python).parent}:/usr/local/bin:/usr/bin:/bin"
        )
        command = indicator_command(plan, python=python, script_path=script)
        made = self.api.create_container(
            plan.environment.location,
            name=f"stackgen-{plan.campaign_id[:12]}-{uuid.uuid4().hex[:12]}",
            entrypoint=list(command[:1]),
            command=list(command[1:]),
            user=user,
            working_dir="/tmp",  # noqa: S108 # the container's own, a tmpfs
            environment={**environment, "HOME": "/tmp"},  # noqa: S108
            labels={CAMPAIGN_LABEL: plan.campaign_id, _OWNER_LABEL: _owner()},
            host_config=self._host_config(plan.limits, mounts, abilities),
        )
        return str(made["Id"])

    def _host_config(self, limits: Limits, mounts: list[Mount], abilities: _Abilities) -> Any:
        memory = limits.memory_bytes if abilities.memory else None
        cpus = ",".join(str(cpu) for cpu in limits.cpus) if abilities.cpuset else ""
        # No CPU quota: its scheduling period fakes differences between stacks (MEASUREMENT.md, 5).
        return self.api.create_host_config(
            network_mode="none",
            cap_drop=["ALL"],
            security_opt=["no-new-privileges"],
            read_only=True,
            init=bool(abilities.init),
            tmpfs={"/tmp": "rw,nosuid,nodev,size=256m,mode=1777"},  # noqa: S108
            mounts=mounts,
            cpuset_cpus=cpus or None,
            mem_limit=memory,
            memswap_limit=memory,
            pids_limit=_PIDS if abilities.pids else None,
            # What floods its log must not fill the disk; the end of it is kept.
            log_config=LogConfig(type="json-file", config={"max-size": "16m", "max-file": "2"}),
        )

    def _wait(self, container: str, timeout_s: float) -> _Ended:
        deadline = time.monotonic() + timeout_s
        timed_out = False
        try:
            self.api.wait(container, timeout=max(1, math.ceil(timeout_s)))
        except _GONE:
            if time.monotonic() < deadline:
                raise
            timed_out = True
            with contextlib.suppress(docker_errors.APIError):  # it ended by itself just now
                self.api.kill(container)
        state = self.api.inspect_container(container)["State"]
        if state["Running"] and not timed_out:
            raise _EngineLost("the engine stopped waiting before the container ended")
        return _Ended(
            exit_code=int(state["ExitCode"]),
            timed_out=timed_out,
            oom=bool(state.get("OOMKilled")),
            stdout=self.api.logs(container, stdout=True, stderr=False).decode("utf-8", "replace"),
            stderr=self.api.logs(container, stdout=False, stderr=True).decode("utf-8", "replace"),
        )

    def _remove(self, container: str) -> None:
        try:
            self.api.remove_container(container, force=True, v=True)
        except docker_errors.NotFound:
            return
        except (*_GONE, docker_errors.DockerException):
            self._unremoved.append(container)  # when the engine is back

    def _remove_leftovers(self) -> None:
        """Remove the containers of runs that were killed; those of living processes stay."""
        found = self.api.containers(all=True, filters={"label": CAMPAIGN_LABEL})
        for container in found:
            if not _lives(str(container["Labels"].get(_OWNER_LABEL, ""))):
                self._remove(str(container["Id"]))

    def _can(self) -> _Abilities:
        """Return what the engine can enforce; this also finds out whether it answers."""
        waiting, self._unremoved = self._unremoved, []
        for container in waiting:
            self._remove(container)
        if self._abilities is None:
            said = self.api.info()
            self._abilities = _Abilities(
                cpuset=bool(said.get("CPUSet")),
                memory=bool(said.get("MemoryLimit")),
                pids=bool(said.get("PidsLimit")),
                init=str(said.get("InitBinary", "")),
            )
        return self._abilities

    def _unstartable(
        self, plan: InspectionPlan, error: docker_errors.APIError, started_at: str, start: float
    ) -> Inspection:
        if self._abilities and self._abilities.init and self._abilities.init in _words(error):
            # Some packages of the engine come without the init that it claims to have.
            self._abilities = replace(self._abilities, init="")
            raise _EngineLost(_words(error))
        if error.is_server_error():
            raise _EngineLost(_words(error))
        return self._build_failed(plan, _words(error), started_at, start)

    def _build_failed(
        self, plan: InspectionPlan, log: str, started_at: str, start: float
    ) -> Inspection:
        """Return that the image itself is at fault: its interpreter cannot be started."""
        return inspection(
            plan,
            self.machine.id,
            outcome=Outcome.BUILD_FAILED,
            started_at=started_at,
            duration_s=time.monotonic() - start,
            log=log,
        )


@contextlib.contextmanager
def _engine_loss() -> Iterator[None]:
    """Turn what the client raises when nobody answers, or the image is gone, into our own word."""
    try:
        yield
    except (*_GONE, docker_errors.DockerException) as error:
        raise _EngineLost(_words(error)) from error


def _words(error: BaseException) -> str:
    if isinstance(error, docker_errors.APIError) and error.explanation:
        return str(error.explanation)
    return str(error) or repr(error)


def _mounts(plan: InspectionPlan) -> tuple[str, list[Mount]]:
    """Return the script's path inside the container, and what must be mounted for it."""
    pis = folder("pis").resolve()
    script = Path(plan.call.indicator.path).resolve()
    mounts = [Mount(_PIS, str(pis), type="bind", read_only=True)]
    if script.is_relative_to(pis):
        return f"{_PIS}/{script.relative_to(pis).as_posix()}", mounts
    return _OWN_SCRIPT, [*mounts, Mount(_OWN_SCRIPT, str(script), type="bind", read_only=True)]


def _user(mounted: Iterable[Path]) -> tuple[str, str]:
    """Return who runs the indicator, and what that leaves open.

    Raises:
        ExecutorUnavailableError: only root may read the indicator.
    """
    closed = [path for path in mounted if not path.stat().st_mode & stat.S_IROTH]
    if not closed:
        return _NOBODY, ""
    owner = closed[0].stat()
    if owner.st_uid == 0:
        raise ExecutorUnavailableError(
            f"a container cannot read {closed[0]}",
            why="only root may read it, and indicators do not run as root",
            fix=f"chmod -R a+rX {closed[0]}",
        )
    return (
        f"{owner.st_uid}:{owner.st_gid}",
        "unprivileged user (only their owner may read the indicators)",
    )


def _unenforced(limits: Limits, abilities: _Abilities) -> tuple[str, ...]:
    wanted = (
        ("CPU set", bool(limits.cpus) and not abilities.cpuset),
        ("memory limit", limits.memory_bytes is not None and not abilities.memory),
        ("process limit", not abilities.pids),
    )
    return tuple(name for name, missing in wanted if missing)


def _owner() -> str:
    """Return who started a container: host, process, and when the process began."""
    return f"{platform.node()}:{os.getpid()}:{int(psutil.Process().create_time())}"


def _lives(owner: str) -> bool:
    """Return whether the process that started a container may still be at work."""
    try:
        node, pid, began = owner.rsplit(":", 2)
        if node != platform.node():
            return True  # on another machine: not ours to judge
        return abs(psutil.Process(int(pid)).create_time() - int(began)) <= 1
    except (ValueError, psutil.Error):
        return False
