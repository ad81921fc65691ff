"""The container engine: whether one answers, what it can do, and one-off runs in it."""

import contextlib
import socket
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import docker
from docker import errors as docker_errors
from docker.types import Mount
from docker.utils import kwargs_from_env

from stackgen.errors import EngineError
from stackgen.images.layers import Aside, EngineImage, at_once
from stackgen.model.stacks import Base
from stackgen.sandbox.containers import ENGINE_FAULTS, UNPRIVILEGED, engine_message
from stackgen.storage.files import free_bytes
from stackgen.storage.leases import is_running, process_identity

_UNIX = "unix://"
_LOCAL = "unix:///var/run/docker.sock"
_PING_TIMEOUT_S = 5
_INFO_TIMEOUT_S = 60  # one that answered is there, however busy its machine is
_NEVER = "0001-"  # the zero of the engine's clock, for what it did not note
_HELPER = "stackgen.helper"
_TIMEOUT_S = 900  # loading gigabytes may be silent for minutes


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineFacts:
    """Properties of an engine, as it reports them.

    host: name of its machine.
    free_bytes: of the disk with its images; None where that is not on this machine.
    cpuset, memory_limit, pids_limit: whether it can enforce each of them.
    """

    host: str
    version: str
    storage_driver: str
    cpus: int
    memory_bytes: int
    root_dir: str
    free_bytes: int | None
    rootless: bool
    cpuset: bool
    memory_limit: bool
    pids_limit: bool

    @property
    def identity(self) -> str:
        """Return an identity of this engine in this version.

        The id in its report does not serve: Podman's socket changes it with each answer.
        """
        return " ".join((self.host, self.root_dir, self.storage_driver, self.version))


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessResult:
    """Exit code and output of a container's process."""

    exit_code: int
    stdout: str
    stderr: str


class Engine:
    """A container engine that answered. Close it (``contextlib.closing`` does) when done."""

    def __init__(self, api: docker.APIClient) -> None:
        self.api = api
        self._swept = False
        with explained("the container engine does not report its properties"):
            self.facts = _facts(api)

    def close(self) -> None:
        """Close the connections."""
        self.api.close()

    @contextlib.contextmanager
    def hurried(self, timeout_s: int) -> Iterator[None]:
        """Within this context the engine must answer within ``timeout_s``."""
        usual, self.api.timeout = self.api.timeout, timeout_s
        try:
            yield
        finally:
            self.api.timeout = usual

    def image(self, reference: str) -> EngineImage | None:
        """Return an image by its id or tag, or None where the engine lacks it."""
        with explained(f"the engine does not find {reference}"):
            try:
                return _image(self.api.inspect_image(reference))  # type: ignore[no-untyped-call]
            except docker_errors.ImageNotFound:
                return None

    def base_image(self, base: Base) -> EngineImage:
        """Return the image of a base.

        Raises:
            EngineError: the engine lacks it.
        """
        if found := self.image(base.reference):
            return found
        raise EngineError(
            f"the base {base.name} is gone from the engine",
            why=f"it holds no image {base.reference[:19]}",
            fix="run the same command again: the base is made anew",
        )

    def images(self, label: str) -> tuple[str, ...]:
        """Return the ids of the images that carry a label (``name`` or ``name=value``)."""
        with explained("the engine does not list its images"):
            return tuple(str(found["Id"]) for found in self.api.images(filters={"label": label}))

    def layer_sizes(self, image_id: str) -> tuple[int, ...]:
        """Return the bytes of each layer, bottom first, with the empty ones of the history."""
        with explained(f"the engine does not list the layers of {image_id[:19]}"):
            history = self.api.history(image_id)  # type: ignore[no-untyped-call]
        return tuple(int(each.get("Size", 0)) for each in reversed(history))

    def run(
        self,
        image: str,
        command: Sequence[str],
        *,
        mounts: Sequence[Mount] = (),
        user: str = UNPRIVILEGED,
        environment: Mapping[str, str] | None = None,
    ) -> ProcessResult:
        """Run a command in a container without network, and remove the container.

        Raises:
            EngineError: the engine could not run it; that the command fails is no error here.
        """
        with self.running(
            image, command, mounts=mounts, user=user, environment=environment
        ) as ended:
            return ended()

    @contextlib.contextmanager
    def running(
        self,
        image: str,
        command: Sequence[str],
        *,
        mounts: Sequence[Mount] = (),
        user: str = UNPRIVILEGED,
        environment: Mapping[str, str] | None = None,
        aside: Aside = at_once,
    ) -> Iterator[Callable[[], ProcessResult]]:
        """Start a command in a container without network; yield a function that waits for its end.

        The container is removed when the context ends, whether the command has ended or not.
        ``aside`` may have another thread do that.

        Raises:
            EngineError: the engine could not run it; that the command fails is no error here.
        """
        what = f"the engine cannot run {command[0]} in {image[:19]}"
        with explained(what):
            host = self.api.create_host_config(
                network_mode="none",
                cap_drop=["ALL"],
                security_opt=["no-new-privileges"],
                mounts=list(mounts),
            )
            container = self.api.create_container(
                image,
                entrypoint=list(command[:1]),
                command=list(command[1:]),
                user=user,
                environment=dict(environment or {}),
                host_config=host,
                labels={_HELPER: process_identity()},
            )["Id"]
        try:
            with explained(what):
                self.api.start(container)
            yield lambda: self._ended(container, what)
        finally:
            aside(lambda: self._remove(container, what))

    def _remove(self, container: str, what: str) -> None:
        with explained(what):
            self.api.remove_container(container, force=True, v=True)
            self._sweep()

    def _ended(self, container: str, what: str) -> ProcessResult:
        with explained(what):
            status = self.api.wait(container)["StatusCode"]
            out = self.api.logs(container, stdout=True, stderr=False)
            err = self.api.logs(container, stdout=False, stderr=True)
        return ProcessResult(
            exit_code=int(status),
            stdout=out.decode("utf-8", "replace"),
            stderr=err.decode("utf-8", "replace"),
        )

    def _sweep(self) -> None:
        """Remove, once per engine object, the containers of killed processes."""
        if self._swept:
            return
        self._swept = True
        for found in self.api.containers(all=True, filters={"label": _HELPER}):
            if not is_running(str(found["Labels"].get(_HELPER, ""))):
                with contextlib.suppress(docker_errors.APIError):  # another process was faster
                    self.api.remove_container(found["Id"], force=True, v=True)


def connect() -> Engine:
    """Return the engine that the environment names (``DOCKER_HOST``), or the local one.

    Raises:
        EngineError: none answers within seconds.
    """
    api: docker.APIClient | None = None
    try:
        settings = kwargs_from_env()
        _knock(str(settings.get("base_url", _LOCAL)))
        # The version is a placeholder: this first request is outside of all API versions.
        api = docker.APIClient(version="1.40", timeout=_PING_TIMEOUT_S, **settings)
        version = str(api.version(api_version=False)["ApiVersion"])
        api.close()
        api = docker.APIClient(version=version, timeout=_INFO_TIMEOUT_S, **settings)
        engine = Engine(api)
    except (*ENGINE_FAULTS, OSError, ValueError) as error:
        _close(api)
        raise EngineError(
            "no container engine answers",
            why=engine_message(error),
            fix="start Docker, set DOCKER_HOST, or use: --executor virtualenv",
        ) from error
    except EngineError:
        _close(api)
        raise
    engine.api.timeout = _TIMEOUT_S
    return engine


@contextlib.contextmanager
def explained(what: str) -> Iterator[None]:
    """Turn exceptions of an engine's client into an EngineError with the engine's own message."""
    try:
        yield
    except ENGINE_FAULTS as error:
        raise EngineError(what, why=engine_message(error), fix="run: stackgen doctor") from error


def _knock(url: str) -> None:
    """Fail where no engine listens: the client would leave its socket open then."""
    if url.startswith(_UNIX):
        with socket.socket(socket.AF_UNIX) as knock:
            knock.settimeout(_PING_TIMEOUT_S)
            knock.connect("/" + url.removeprefix(_UNIX).lstrip("/"))


def _close(api: docker.APIClient | None) -> None:
    if api is not None:
        api.close()


def _facts(api: docker.APIClient) -> EngineFacts:
    document = api.info()
    root = str(document.get("DockerRootDir", ""))
    return EngineFacts(
        host=str(document.get("Name", "")),
        version=str(document.get("ServerVersion", "")),
        storage_driver=str(document.get("Driver", "")),
        cpus=int(document.get("NCPU", 0)),
        memory_bytes=int(document.get("MemTotal", 0)),
        root_dir=root,
        free_bytes=_free_bytes(root),
        rootless=any("rootless" in str(x) for x in document.get("SecurityOptions") or ()),
        cpuset=bool(document.get("CPUSet", False)),
        memory_limit=bool(document.get("MemoryLimit", False)),
        pids_limit=bool(document.get("PidsLimit", False)),
    )


def _image(document: Mapping[str, Any]) -> EngineImage:
    config = document.get("Config") or {}
    env = (variable.partition("=") for variable in config.get("Env") or ())
    tagged = str((document.get("Metadata") or {}).get("LastTagTime", ""))
    return EngineImage(
        id=str(document["Id"]),
        tags=tuple(document.get("RepoTags") or ()),
        digests=tuple(document.get("RepoDigests") or ()),
        diff_ids=tuple(document["RootFS"].get("Layers") or ()),
        labels=dict(config.get("Labels") or {}),
        env=tuple(sorted((name, value) for name, _, value in env)),
        user=str(config.get("User") or ""),
        architecture=str(document["Architecture"]),
        os=str(document["Os"]),
        variant=str(document.get("Variant", "")),
        size=int(document.get("Size", 0)),
        tagged_at="" if tagged.startswith(_NEVER) else tagged,
    )


def _free_bytes(folder: str) -> int | None:
    """Return the free space of a folder of the engine; None where this host has no such folder."""
    path = Path(folder)
    return free_bytes(path) if path.exists() else None
