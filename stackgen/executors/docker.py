"""Run inspections in containers: without network, privileges or a writable root."""

import contextlib
import hashlib
import json
import re
import signal
import socket
import struct
import time
import uuid
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import docker
import requests
import urllib3
from docker import errors as docker_errors
from docker.types import DeviceRequest, LogConfig, Mount

from stackgen.executors import ExecutorUnavailableError
from stackgen.interrupts import uninterrupted
from stackgen.model.inspections import Inspection, InspectionPlan, Limits, Outcome
from stackgen.model.stacks import Machine
from stackgen.sandbox import process
from stackgen.sandbox.process import (
    gpu_environment,
    indicator_command,
    inspection,
    interpret,
    process_environment,
)
from stackgen.sandbox.supervised import (
    MOST_PROCESSES,
    SUPERVISOR,
    Lost,
    Ready,
    Reply,
    Request,
    Supervised,
    Unexecutable,
)
from stackgen.storage.leases import is_running, process_identity
from stackgen.storage.paths import shipped_folder

# Containers that are kept: one for each environment, with a supervisor as its first process

CAMPAIGN_LABEL = "stackgen.campaign"
_OWNER_LABEL = "stackgen.owner"
SCRATCH = "/tmp"  # noqa: S108 # the container's own, in memory
_SCRATCH_BYTES = 256 << 20
_MOST_KEPT = 32  # each takes some 20 MB of memory while it waits
_LAST_WORDS_BYTES = 4096
_START_S = 60.0
_END_S = 10.0
_GONE = (requests.RequestException, urllib3.exceptions.HTTPError, ConnectionError)
ENGINE_FAULTS = (*_GONE, docker_errors.DockerException)
"""What the client raises when nobody answers, or the engine refuses."""


class EngineLost(Exception):  # noqa: N818 # it never leaves the executors
    """The engine does not answer, or no longer has what it had."""


class CannotRun(Exception):  # noqa: N818 # it never leaves the executors
    """No container of this image can run; the image itself is at fault."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """What a kept container is made for; equal places share one.

    image: its id. python: the interpreter in it. user: ``uid:gid``.
    limits: those of the container; its time and threads are each inspection's own.
    folders: (source, target) pairs of the user's folders that are seen, and cannot be written.
    network: whether the engine's default network can be used.
    scratch_bytes: what may be written, in memory.
    """

    image: str
    python: str
    user: str
    limits: Limits
    folders: tuple[tuple[str, str], ...] = ()
    network: bool = False
    scratch_bytes: int = _SCRATCH_BYTES


@dataclass(frozen=True, slots=True, kw_only=True)
class Abilities:
    """Which limits the engine can enforce."""

    cpuset: bool
    memory: bool
    pids: bool


class _Attached:
    """The standard streams of a container's first process, as the engine passes them on."""

    def __init__(self, api: docker.APIClient, container: str) -> None:
        params = {"stdin": 1, "stdout": 1, "stderr": 1, "stream": 1, "logs": 0}
        self._opened = api.attach_socket(container, params)
        self._socket: socket.socket = getattr(self._opened, "_sock", self._opened)
        self._unread = b""
        self._stderr = b""

    def send(self, text: bytes) -> None:
        self._socket.settimeout(_START_S)
        self._socket.sendall(text)

    def receive(self, timeout_s: float) -> bytes:
        """Return what came on standard output; the engine sends both streams in frames."""
        deadline = time.monotonic() + timeout_s
        while True:
            header = self._exactly(8, deadline)
            if not header:
                return b""
            stream, size = struct.unpack(">BxxxL", header)
            text = self._exactly(size, deadline)
            if stream == 1 and text:
                return text
            self._stderr = (self._stderr + text)[-_LAST_WORDS_BYTES:]

    def last_words(self) -> str:
        return self._stderr.decode("utf-8", "replace").strip()

    def close(self) -> None:
        """Hang up: the supervisor ends then, and its container with it."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        getattr(self._opened, "_response", self._opened).close()
        self._socket.close()

    def _exactly(self, size: int, deadline: float) -> bytes:
        """Return so many bytes, or b"" where the stream ended."""
        while len(self._unread) < size:
            self._socket.settimeout(max(0.001, deadline - time.monotonic()))
            part = self._socket.recv(max(1 << 16, size - len(self._unread)))
            if not part:
                return b""
            self._unread += part
        found, self._unread = self._unread[:size], self._unread[size:]
        return found


@dataclass(frozen=True, slots=True)
class Kept:
    """A container that runs, and its supervisor."""

    id: str
    scripts: frozenset[str]
    stream: _Attached
    supervised: Supervised


@dataclass(slots=True)
class Containers:
    """Makes containers, keeps a few, and sees to it that none is left.

    scripts: indicators of the user's own that were asked for so far, by their path in a container;
        whatever is made from now on has them all.
    """

    api: docker.APIClient
    scripts: dict[str, Mount] = field(default_factory=dict)
    _kept: dict[Place, Kept] = field(default_factory=dict)
    _abilities: Abilities | None = None
    _unremoved: list[str] = field(default_factory=list)

    def abilities(self) -> Abilities:
        """Return what the engine can enforce; this also finds out whether it answers."""
        waiting, self._unremoved = self._unremoved, []
        for container in waiting:
            self._remove(container)
        if self._abilities is None:
            said = self.api.info()
            self._abilities = Abilities(
                cpuset=bool(said.get("CPUSet")),
                memory=bool(said.get("MemoryLimit")),
                pids=bool(said.get("PidsLimit")),
            )
        return self._abilities

    def take(self, place: Place, script: str, mounts: tuple[Mount, ...], campaign: str) -> Kept:
        """Return a container for a place, with a script in it: the one that is kept, or a new one.

        Raises:
            EngineLost: the engine failed.
            CannotRun: the image has no interpreter that starts.
            ExecutorUnavailableError: the engine cannot pass on the GPUs that were asked for.
        """
        kept = self._kept.pop(place, None)
        if kept is not None and script in self.scripts and script not in kept.scripts:
            self._end(kept)
            kept = None
        kept = kept or self._make(place, mounts, campaign)
        self._kept[place] = kept  # the last one used is last
        while len(self._kept) > _MOST_KEPT:
            self._end(self._kept.pop(next(iter(self._kept))))
        return kept

    def drop(self, place: Place) -> None:
        """Remove a container: what ran in it did not end as it should."""
        with uninterrupted():
            kept = self._kept.pop(place, None)
            if kept is not None:
                self._end(kept)

    def ran_out_of_memory(self, kept: Kept) -> bool:
        """Return whether the kernel ended a container for its memory."""
        with contextlib.suppress(*ENGINE_FAULTS):
            return bool(self.api.inspect_container(kept.id)["State"].get("OOMKilled"))
        return False

    def close(self) -> None:
        """Remove every container that is kept."""
        with uninterrupted():
            for kept in self._kept.values():
                kept.stream.close()  # they end by themselves meanwhile
            while self._kept:
                self._end(self._kept.popitem()[1])
            again, self._unremoved = self._unremoved, []
            for container in again:  # one that was just ending may have been refused
                self._remove(container)

    def remove_leftovers(self) -> None:
        """Remove the containers of runs that were killed; those of living processes stay."""
        with contextlib.suppress(*ENGINE_FAULTS):
            for container in self.api.containers(all=True, filters={"label": CAMPAIGN_LABEL}):
                if not is_running(str(container["Labels"].get(_OWNER_LABEL, ""))):
                    self._remove(str(container["Id"]))

    def _make(self, place: Place, mounts: tuple[Mount, ...], campaign: str) -> Kept:
        container = ""
        stream: _Attached | None = None
        supervised: Supervised | None = None
        try:
            with _refusals(place), uninterrupted():
                container = self._create(place, mounts, campaign)
            with _refusals(place):
                stream = _Attached(self.api, container)
                self.api.start(container)
            try:
                supervised = Supervised(stream)
            except Lost as error:
                raise self._unfit(container, place, str(error)) from error
            if place.limits.gpus and not supervised.ready.sees_gpus:
                supervised = None
                raise _without_gpus(place, "the engine started a container, but without any GPU")
        finally:
            if supervised is None:
                with uninterrupted():
                    if stream is not None:
                        stream.close()
                    if container:
                        self._remove(container)
        return Kept(container, frozenset(self.scripts), stream, supervised)

    def _create(self, place: Place, mounts: tuple[Mount, ...], campaign: str) -> str:
        emptied = [SCRATCH, "/dev/shm", "/dev/mqueue"]  # noqa: S108
        # What is mounted in there lies in folders that the engine made, for root alone to write.
        below = [target for _, target in place.folders if target.startswith(f"{SCRATCH}/")]
        mounted = [f"{SCRATCH}/{target.split('/')[2]}" for target in below]
        options = json.dumps({"emptied": emptied, "own_ipc": True, "mounted": mounted})
        text = SUPERVISOR.read_text(encoding="utf-8")
        made = self.api.create_container(
            place.image,
            name=f"stackgen-{campaign[:12]}-{uuid.uuid4().hex[:12]}",
            entrypoint=[place.python],
            command=["-I", "-S", "-c", text, options],
            user=place.user,
            working_dir=SCRATCH,
            stdin_open=True,
            # The first process is immune to a kind request: an engine that stops need not wait.
            stop_signal="SIGKILL",
            environment={
                "PATH": "/usr/bin:/bin",
                "HOME": SCRATCH,
                # Where GPUs are handed to every container, this one declines.
                **({} if place.limits.gpus else {"NVIDIA_VISIBLE_DEVICES": "void"}),
            },
            labels={CAMPAIGN_LABEL: campaign, _OWNER_LABEL: process_identity()},
            host_config=self._host_config(place, [*mounts, *self.scripts.values()]),
        )
        return str(made["Id"])

    def _host_config(self, place: Place, mounts: list[Mount]) -> Any:
        can, limits = self.abilities(), place.limits
        mounts += [
            Mount(target, source, type="bind", read_only=True) for source, target in place.folders
        ]
        memory = limits.memory_bytes if can.memory else None
        cpus = ",".join(str(cpu) for cpu in limits.cpus) if can.cpuset else ""
        # No CPU quota: its scheduling period fakes differences between stacks (MEASUREMENT.md, 5).
        return self.api.create_host_config(
            network_mode="default" if place.network else "none",
            ipc_mode="private",
            cap_drop=["ALL"],
            security_opt=["no-new-privileges"],
            read_only=True,
            init=False,  # the supervisor is the first process, and takes in what is orphaned
            # exec: what compiles models puts there what it loads; as in a virtualenv's scratch.
            tmpfs={SCRATCH: f"rw,exec,nosuid,nodev,size={place.scratch_bytes},mode=1777"},
            mounts=mounts,
            cpuset_cpus=cpus or None,
            mem_limit=memory,
            memswap_limit=memory,
            pids_limit=MOST_PROCESSES if can.pids else None,
            device_requests=gpu_requests(limits.gpus) or None,
            # What is said goes through the supervisor: the engine need not write it down.
            log_config=LogConfig(type="none"),
        )

    def _unfit(self, container: str, place: Place, words: str) -> Exception:
        """Return why a container ended before its supervisor could say a word."""
        try:
            deadline = time.monotonic() + _END_S
            state = self.api.inspect_container(container)["State"]
            while state["Running"] and time.monotonic() < deadline:
                time.sleep(0.05)
                state = self.api.inspect_container(container)["State"]
        except ENGINE_FAULTS as error:
            return EngineLost(engine_words(error))
        if state["Running"]:
            return EngineLost(f"{place.python} does not answer from its container: {words}")
        code = state["ExitCode"]
        return CannotRun(f"{place.python} does not start in its image (exit code {code}): {words}")

    def _end(self, kept: Kept) -> None:
        kept.stream.close()
        self._remove(kept.id)

    def _remove(self, container: str) -> None:
        try:
            self.api.remove_container(container, force=True, v=True)
        except docker_errors.NotFound:
            return
        except ENGINE_FAULTS:
            self._unremoved.append(container)  # when the engine is back


def gpu_requests(gpus: str) -> list[DeviceRequest]:
    """Return how an engine is asked for GPUs: all of them, or some by number or id."""
    if not gpus:
        return []
    which: dict[str, Any] = {"count": -1} if gpus == "all" else {"device_ids": gpus.split(",")}
    return [DeviceRequest(capabilities=[["gpu"]], **which)]


def _without_gpus(place: Place, why: str) -> ExecutorUnavailableError:
    return ExecutorUnavailableError(
        f"the container engine cannot pass on the GPUs {place.limits.gpus!r}",
        why=why,
        fix="install the NVIDIA container toolkit and restart the engine, or measure in "
        "virtualenvs: --executor virtualenv",
    )


def engine_words(error: BaseException) -> str:
    """Return what the engine itself said."""
    if isinstance(error, docker_errors.APIError) and error.explanation:
        return str(error.explanation)
    return str(error) or repr(error)


@contextlib.contextmanager
def _refusals(place: Place) -> Iterator[None]:
    """Say what an engine's refusal to make or start a container means."""
    try:
        yield
    except ENGINE_FAULTS as error:
        words = engine_words(error)
        if place.limits.gpus and any(word in words.lower() for word in ("device", "gpu", "nvidia")):
            raise _without_gpus(place, words) from error
        if place.network and re.search(r"network|endpoint", words.lower()):
            raise ExecutorUnavailableError(
                "the container engine cannot give a program its network",
                why=words,
                fix="look at: docker network inspect bridge; or measure in virtualenvs: "
                "--executor virtualenv",
            ) from error
        told = isinstance(error, docker_errors.APIError)
        if told and place.python in words:
            raise CannotRun(words) from error
        raise EngineLost(words) from error


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
        folders=process.mounted(program, _PROJECT),
        network=program.network,
        scratch_bytes=process.SCRATCH_BYTES,
    )


def _user(places: Sequence[Path]) -> tuple[str, str]:
    """Return who runs the indicator, and what that leaves open.

    Raises:
        ExecutorUnavailableError: only root may read the indicator, or a folder that it sees.
    """
    closed = process.owner_of_closed(places)
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
