"""Run inspections in containers: without network, privileges or a writable root."""

import contextlib
import hashlib
import json
import re
import signal
import time
import uuid
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import docker
from docker import errors as docker_errors
from docker.types import DeviceRequest, LogConfig, Mount

from stackgen.executors import ExecutorUnavailableError
from stackgen.interrupts import uninterrupted
from stackgen.model.inspections import IMAGE, Inspection, InspectionPlan, Limits, Outcome
from stackgen.model.stacks import Machine
from stackgen.sandbox import process
from stackgen.sandbox.containers import (
    ENGINE_FAULTS,
    UNPRIVILEGED,
    ContainerStreams,
    engine_message,
)
from stackgen.sandbox.process import Begun, gpu_environment, indicator_command, process_environment
from stackgen.sandbox.supervised import (
    MOST_PROCESSES,
    SUPERVISOR,
    Capabilities,
    CommandNotStartedError,
    CommandReply,
    Request,
    Supervised,
    SupervisorLostError,
)
from stackgen.storage.leases import is_running, process_identity
from stackgen.storage.paths import shipped_folder

# Running containers, one for each environment, with a supervisor as first process

CAMPAIGN_LABEL = "stackgen.campaign"
_OWNER_LABEL = "stackgen.owner"
SCRATCH = "/tmp"  # noqa: S108 # the container's own, in memory
_SCRATCH_BYTES = 256 << 20
_MOST_RUNNING = 32  # each takes some 20 MB of memory while it waits
_END_S = 10.0


class _EngineLostError(Exception):
    """The engine does not answer, or has lost the container or image."""


class _UnusableImageError(Exception):
    """No container of this image can run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerSpec:
    """Properties of a container; equal specifications share one.

    image: its id. python: the interpreter in it. user: ``uid:gid``.
    limits: those of the container; its time and threads are each inspection's own.
    folders: (source, target) pairs of the user's folders, mounted read-only.
    network: whether it has the engine's default network.
    scratch_bytes: size of its scratch folder, in memory.
    """

    image: str
    python: str
    user: str
    limits: Limits
    folders: tuple[tuple[str, str], ...] = ()
    network: bool = False
    scratch_bytes: int = _SCRATCH_BYTES


@dataclass(frozen=True, slots=True, kw_only=True)
class EnforcedLimits:
    """Limits that the engine can enforce."""

    cpuset: bool
    memory: bool
    pids: bool


@dataclass(frozen=True, slots=True)
class RunningContainer:
    """A container and its supervisor."""

    id: str
    scripts: frozenset[str]
    stream: ContainerStreams
    supervised: Supervised


@dataclass(slots=True)
class Containers:
    """Starts containers, keeps a few of them running, and removes all in the end.

    scripts: mounts of the user's own indicators so far, by path in a container; each container that
        is created from now on has them all.
    """

    api: docker.APIClient
    scripts: dict[str, Mount] = field(default_factory=dict)
    _running: dict[ContainerSpec, RunningContainer] = field(default_factory=dict)
    _enforced: EnforcedLimits | None = None
    _unremoved: list[str] = field(default_factory=list)

    def enforced_limits(self) -> EnforcedLimits:
        """Return the limits that the engine can enforce; this fails where no engine answers."""
        waiting, self._unremoved = self._unremoved, []
        for container in waiting:
            self._remove(container)
        if self._enforced is None:
            info = self.api.info()
            self._enforced = EnforcedLimits(
                cpuset=bool(info.get("CPUSet")),
                memory=bool(info.get("MemoryLimit")),
                pids=bool(info.get("PidsLimit")),
            )
        return self._enforced

    def take(
        self, spec: ContainerSpec, script: str, mounts: tuple[Mount, ...], campaign: str
    ) -> RunningContainer:
        """Return the running container of a specification that has a script, or start one.

        Raises:
            _EngineLostError: the engine failed.
            _UnusableImageError: the image has no interpreter that starts.
            ExecutorUnavailableError: the engine cannot pass on the GPUs that were requested.
        """
        running = self._running.pop(spec, None)
        if running is not None and script in self.scripts and script not in running.scripts:
            self._end(running)
            running = None
        running = running or self._make(spec, mounts, campaign)
        self._running[spec] = running  # the last one used is last
        while len(self._running) > _MOST_RUNNING:
            self._end(self._running.pop(next(iter(self._running))))
        return running

    def drop(self, spec: ContainerSpec) -> None:
        """Remove a container whose command did not end cleanly."""
        with uninterrupted():
            running = self._running.pop(spec, None)
            if running is not None:
                self._end(running)

    def ran_out_of_memory(self, running: RunningContainer) -> bool:
        """Return whether the kernel ended a container for its memory."""
        with contextlib.suppress(*ENGINE_FAULTS):
            return bool(self.api.inspect_container(running.id)["State"].get("OOMKilled"))
        return False

    def close(self) -> None:
        """Remove all containers."""
        with uninterrupted():
            for running in self._running.values():
                running.stream.close()  # they end by themselves
            while self._running:
                self._end(self._running.popitem()[1])
            again, self._unremoved = self._unremoved, []
            for container in again:  # one that was just ending may have been refused
                self._remove(container)

    def remove_leftovers(self) -> None:
        """Remove the containers of processes that no longer run."""
        with contextlib.suppress(*ENGINE_FAULTS):
            for container in self.api.containers(all=True, filters={"label": CAMPAIGN_LABEL}):
                if not is_running(str(container["Labels"].get(_OWNER_LABEL, ""))):
                    self._remove(str(container["Id"]))

    def _make(
        self, spec: ContainerSpec, mounts: tuple[Mount, ...], campaign: str
    ) -> RunningContainer:
        container = ""
        stream: ContainerStreams | None = None
        supervised: Supervised | None = None
        try:
            with _refusals(spec), uninterrupted():
                container = self._create(spec, mounts, campaign)
            with _refusals(spec):
                stream = ContainerStreams(self.api, container, stdin=True)
                self.api.start(container)
            try:
                supervised = Supervised(stream)
            except SupervisorLostError as error:
                raise self._unfit(container, spec, str(error)) from error
            if spec.limits.gpus and not supervised.capabilities.sees_gpus:
                supervised = None
                raise _without_gpus(spec, "the engine started a container, but without any GPU")
        finally:
            if supervised is None:
                with uninterrupted():
                    if stream is not None:
                        stream.close()
                    if container:
                        self._remove(container)
        return RunningContainer(container, frozenset(self.scripts), stream, supervised)

    def _create(self, spec: ContainerSpec, mounts: tuple[Mount, ...], campaign: str) -> str:
        emptied = [SCRATCH, "/dev/shm", "/dev/mqueue"]  # noqa: S108
        # What is mounted in there lies in folders that the engine made, for root alone to write.
        below = [target for _, target in spec.folders if target.startswith(f"{SCRATCH}/")]
        mounted = [f"{SCRATCH}/{target.split('/')[2]}" for target in below]
        options = json.dumps({"emptied": emptied, "own_ipc": True, "mounted": mounted})
        text = SUPERVISOR.read_text(encoding="utf-8")
        made = self.api.create_container(
            spec.image,
            name=f"stackgen-{campaign[:12]}-{uuid.uuid4().hex[:12]}",
            entrypoint=[spec.python],
            command=["-I", "-S", "-c", text, options],
            user=spec.user,
            working_dir=SCRATCH,
            stdin_open=True,
            # The first process is immune to a kind request: an engine that stops need not wait.
            stop_signal="SIGKILL",
            environment={
                "PATH": "/usr/bin:/bin",
                "HOME": SCRATCH,
                # Where GPUs are handed to every container, this one declines.
                **({} if spec.limits.gpus else {"NVIDIA_VISIBLE_DEVICES": "void"}),
            },
            labels={CAMPAIGN_LABEL: campaign, _OWNER_LABEL: process_identity()},
            host_config=self._host_config(spec, [*mounts, *self.scripts.values()]),
        )
        return str(made["Id"])

    def _host_config(self, spec: ContainerSpec, mounts: list[Mount]) -> Any:
        can, limits = self.enforced_limits(), spec.limits
        mounts += [
            Mount(target, source, type="bind", read_only=True) for source, target in spec.folders
        ]
        memory = limits.memory_bytes if can.memory else None
        cpus = ",".join(str(cpu) for cpu in limits.cpus) if can.cpuset else ""
        # No CPU quota: its scheduling period fakes differences between stacks (MEASUREMENT.md, 5).
        return self.api.create_host_config(
            network_mode="default" if spec.network else "none",
            ipc_mode="private",
            cap_drop=["ALL"],
            security_opt=["no-new-privileges"],
            read_only=True,
            init=False,  # the supervisor is the first process, and takes in what is orphaned
            # exec: what compiles models puts there what it loads; as in a virtualenv's scratch.
            tmpfs={SCRATCH: f"rw,exec,nosuid,nodev,size={spec.scratch_bytes},mode=1777"},
            mounts=mounts,
            cpuset_cpus=cpus or None,
            mem_limit=memory,
            memswap_limit=memory,
            pids_limit=MOST_PROCESSES if can.pids else None,
            device_requests=gpu_requests(limits.gpus) or None,
            # The supervisor passes the output on: the engine need not log it.
            log_config=LogConfig(type="none"),
        )

    def _unfit(self, container: str, spec: ContainerSpec, words: str) -> Exception:
        """Return why a container ended without output of its supervisor."""
        try:
            deadline = time.monotonic() + _END_S
            state = self.api.inspect_container(container)["State"]
            while state["Running"] and time.monotonic() < deadline:
                time.sleep(0.05)
                state = self.api.inspect_container(container)["State"]
        except ENGINE_FAULTS as error:
            return _EngineLostError(engine_message(error))
        if state["Running"]:
            return _EngineLostError(f"{spec.python} does not answer from its container: {words}")
        code = state["ExitCode"]
        return _UnusableImageError(
            f"{spec.python} does not start in its image (exit code {code}): {words}"
        )

    def _end(self, running: RunningContainer) -> None:
        running.stream.close()
        self._remove(running.id)

    def _remove(self, container: str) -> None:
        try:
            self.api.remove_container(container, force=True, v=True)
        except docker_errors.NotFound:
            return
        except ENGINE_FAULTS:
            self._unremoved.append(container)  # when the engine is back


def gpu_requests(gpus: str) -> list[DeviceRequest]:
    """Return the device requests for GPUs: all of them, or some by number or id."""
    if not gpus:
        return []
    which: dict[str, Any] = {"count": -1} if gpus == "all" else {"device_ids": gpus.split(",")}
    return [DeviceRequest(capabilities=[["gpu"]], **which)]


def _without_gpus(spec: ContainerSpec, why: str) -> ExecutorUnavailableError:
    return ExecutorUnavailableError(
        f"the container engine cannot pass on the GPUs {spec.limits.gpus!r}",
        why=why,
        fix="install the NVIDIA container toolkit and restart the engine, or measure in "
        "virtualenvs: --executor virtualenv",
    )


@contextlib.contextmanager
def _refusals(spec: ContainerSpec) -> Iterator[None]:
    """Translate an engine's refusal to create or start a container."""
    try:
        yield
    except ENGINE_FAULTS as error:
        words = engine_message(error)
        if spec.limits.gpus and any(word in words.lower() for word in ("device", "gpu", "nvidia")):
            raise _without_gpus(spec, words) from error
        if spec.network and re.search(r"network|endpoint", words.lower()):
            raise ExecutorUnavailableError(
                "the container engine cannot give a program its network",
                why=words,
                fix="look at: docker network inspect bridge; or measure in virtualenvs: "
                "--executor virtualenv",
            ) from error
        if isinstance(error, docker_errors.APIError) and spec.python in words:
            raise _UnusableImageError(words) from error
        raise _EngineLostError(words) from error


_PIS = "/stackgen/pis"
_PROJECT = "/stackgen/project"
_OWN_SCRIPTS = "/stackgen/own"
_TRIES = 2  # a container that was removed is made again


@dataclass(slots=True)
class DockerExecutor:
    """Runs each plan as a fresh process in a container of its stack's image.

    A few containers stay up, one for each environment, for later plans; one whose process did not
    end cleanly is removed. Close the executor when done
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
        """Remove the containers that are in reserve; the next inspection would make others."""
        self._containers.close()

    def inspect(self, plans: Iterable[InspectionPlan]) -> Iterator[Inspection]:
        """Yield one inspection per plan; an engine that went away is an outcome, too.

        Raises:
            ExecutorUnavailableError: the indicators cannot be read by any unprivileged user, or
                the engine cannot pass on the GPUs that a plan requests.
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
            begun = Begun.now(plan, self.machine.id)
            try:
                return self._attempt(begun)
            except _EngineLostError as error:
                reason = str(error)
        return begun.inspection(Outcome.ENGINE_LOST, f"the container engine was lost: {reason}")

    def _attempt(self, begun: Begun) -> Inspection:
        plan = begun.plan
        try:
            self._containers.enforced_limits()  # finds out whether the engine answers
            script, mounts = self._mounted(plan)
            user, reason = self._user(plan)
            spec = _container_spec(plan, user)
            running = self._containers.take(spec, script, mounts, campaign=plan.campaign_id)
            ended = self._run_script(plan, spec, running, script)
        except _UnusableImageError as error:
            return begun.inspection(Outcome.BUILD_FAILED, str(error))
        except ENGINE_FAULTS as error:
            raise _EngineLostError(engine_message(error)) from error
        missing = _unenforced(plan.limits, running.supervised.capabilities, ended)
        found = begun.ended(ended, (*missing, reason) if reason else missing)
        seen = found.observation
        if seen is None:
            return found
        known = sorted({**dict(seen.circumstances), IMAGE: spec.image}.items())
        return replace(found, observation=replace(seen, circumstances=tuple(known)))

    def _run_script(
        self, plan: InspectionPlan, spec: ContainerSpec, running: RunningContainer, script: str
    ) -> CommandReply:
        fine = False
        try:
            ended = running.supervised.run(_request(plan, script, running.supervised.capabilities))
            fine = ended.clean and ended.exit_code == 0
            if ended.exit_code == -signal.SIGKILL and not (ended.oom or ended.timed_out):
                oom = self._containers.ran_out_of_memory(running)
                ended = replace(ended, oom=oom, at_limit=oom)
        except CommandNotStartedError as error:
            raise _UnusableImageError(str(error)) from error
        except SupervisorLostError as error:
            if not self._containers.ran_out_of_memory(running):
                raise _EngineLostError(str(error)) from error
            ended = _KILLED_WITH_ITS_SUPERVISOR
        finally:  # also when we are interrupted: nothing of it may disturb the next one
            if not fine:
                self._containers.drop(spec)
        return ended

    def _user(self, plan: InspectionPlan) -> tuple[str, str]:
        """Return the user of a plan, as ``_user`` does; a large project is read once."""
        files = (shipped_folder("pis") / "harness.py", Path(plan.call.indicator.path))
        places = (*files, *map(Path, process.guarded(plan.call.program)))
        if places not in self._users:
            self._users[places] = _user(places)
        return self._users[places]

    def _mounted(self, plan: InspectionPlan) -> tuple[str, tuple[Mount, ...]]:
        """Return the script's path in a container, and what every container needs mounted."""
        pis = shipped_folder("pis").resolve()
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


_KILLED_WITH_ITS_SUPERVISOR = CommandReply(
    exit_code=-signal.SIGKILL, oom=True, at_limit=True, clean=False
)


def _request(plan: InspectionPlan, script: str, capabilities: Capabilities) -> Request:
    python = plan.environment.python
    path = f"{Path(python).parent}:/usr/local/bin:/usr/bin:/bin"
    environment = process_environment(plan, harness_folder=_PIS, path=path, home=SCRATCH)
    # What a container was given is numbered anew in there, and all of it is to be used.
    seen = gpu_environment("all" if plan.limits.gpus else "")
    memory = {}
    if plan.limits.memory_bytes is not None and not _memory_is_limited(plan.limits, capabilities):
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


def _container_spec(plan: InspectionPlan, user: str) -> ContainerSpec:
    spec = ContainerSpec(
        image=plan.environment.location,
        python=plan.environment.python,
        user=user,
        limits=replace(plan.limits, threads=1, timeout_s=1.0),
    )
    program = plan.call.program
    if program is None:
        return spec
    return replace(
        spec,
        folders=process.mounted(program, _PROJECT),
        network=program.network,
        scratch_bytes=process.SCRATCH_BYTES,
    )


def _user(places: Sequence[Path]) -> tuple[str, str]:
    """Return the user that runs an indicator, and what is not enforced because of that.

    Raises:
        ExecutorUnavailableError: only root may read the indicator, or a folder that it sees.
    """
    closed = process.owner_of_closed(places)
    if closed is None:
        return UNPRIVILEGED, ""
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


def _unenforced(limits: Limits, capabilities: Capabilities, ended: CommandReply) -> tuple[str, ...]:
    """Return the limits that do not hold in a container, whatever its engine states."""
    most = capabilities.process_limit
    memory = _memory_is_limited(limits, capabilities)
    wanted = (
        ("memory limit (of all its processes together)", not memory),
        ("process limit", most is None or most > MOST_PROCESSES),
        ("read-only stack", bool(ended.writable)),
    )
    return tuple(name for name, missing in wanted if missing)


def _memory_is_limited(limits: Limits, capabilities: Capabilities) -> bool:
    """Return whether the container holds its processes to a plan's memory, together."""
    if limits.memory_bytes is None:
        return True
    return (
        capabilities.memory_limit is not None and capabilities.memory_limit <= limits.memory_bytes
    )


__all__ = ["CAMPAIGN_LABEL", "DockerExecutor"]
