"""Where packages are installed, what is installed there, and the runnable result."""

from dataclasses import dataclass, field
from enum import Enum

from stackgen.model.identity import MachineId, StackId, content_id
from stackgen.model.packages import Lock, Target


class EnvironmentKind(str, Enum):
    """How an environment is made and run."""

    VIRTUALENV = "virtualenv"
    DOCKER = "docker"


@dataclass(frozen=True, slots=True, kw_only=True)
class BaseFacts:
    """What of a base can change a timing; not an image's digest, which differs from build to build.

    python: implementation and full version, such as ``CPython 3.11.2``.
    python_build: compiler and build string of the interpreter.
    libc: such as ``glibc 2.36``.
    distribution: such as ``debian 12``.
    system_packages: sorted (name, version) pairs of the system packages that matter (BLAS).
    """

    python: str
    python_build: str
    libc: str
    distribution: str
    system_packages: tuple[tuple[str, str], ...] = ()

    @property
    def content(self) -> list[object]:
        """Return what a stack's id is made of."""
        packages = [list(pair) for pair in self.system_packages]
        return [self.python, self.python_build, self.libc, self.distribution, packages]


@dataclass(frozen=True, slots=True, kw_only=True)
class Base:
    """Where a stack is installed: a container image by digest, or an interpreter.

    reference: the image's id, or the path of the interpreter.
    python: path of the interpreter inside the base.
    """

    name: str
    kind: EnvironmentKind
    reference: str
    python: str
    facts: BaseFacts
    target: Target


@dataclass(frozen=True, slots=True, kw_only=True)
class Stack:
    """A lock on a base, with the environment variables that belong to it.

    settings: sorted (variable, value) pairs that the user chose.
    """

    lock: Lock
    facts: BaseFacts
    settings: tuple[tuple[str, str], ...] = ()

    def __post_init__(self) -> None:
        if list(self.settings) != sorted(dict(self.settings).items()):
            raise ValueError("settings name each variable once, sorted")

    @property
    def id(self) -> StackId:
        """Return the digest of lock, base facts and settings, and of nothing else."""
        settings = [list(pair) for pair in self.settings]
        return StackId(content_id("stack", [self.lock.id, self.facts.content, settings]))


@dataclass(frozen=True, slots=True, kw_only=True)
class Environment:
    """A stack that can be run.

    location: the folder of a virtualenv, or the id of an image in the engine.
    python: path of the interpreter that sees the stack's packages.
    """

    stack: Stack
    kind: EnvironmentKind
    location: str
    python: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """A class of machines, identified only by what can change a timing.

    identity: sorted (name, value) pairs: CPU vendor, family, model, stepping, instruction sets,
        cores and SMT in use, cache sizes, virtualisation, GPU models.
    circumstances: sorted (name, value) pairs that are recorded but are not identity:
        kernel, microcode, governor, driver, memory, host name digest.
    """

    identity: tuple[tuple[str, str], ...]
    circumstances: tuple[tuple[str, str], ...] = ()

    @property
    def id(self) -> MachineId:
        """Return the digest of the identity."""
        return MachineId(content_id("machine", [list(pair) for pair in self.identity]))


class Readiness(Enum):
    """How near a base is."""

    READY = "ready"
    POSSIBLE = "can be made"
    IMPOSSIBLE = "cannot be made here"
    UNKNOWN = "unknown"
    WRONG = "wrong"


@dataclass(frozen=True, slots=True, kw_only=True)
class BaseContent:
    """Content of a base that the engine has.

    tags: how many kinds of wheels fit.
    first_tag: of the wheels that it likes best.
    blas: (name, version) of the system packages of BLAS and LAPACK, sorted.
    size: bytes of its image.
    origin: the way that led to it, in words.
    """

    image_id: str
    python: str
    libc: str
    machine: str
    distribution: str
    tags: int
    first_tag: str
    blas: tuple[tuple[str, str], ...]
    size: int
    origin: str


@dataclass(frozen=True, slots=True, kw_only=True)
class BaseEntry:
    """A base that can be named with --base.

    why, fix: what is in the way and what helps, or "".
    ways: in the order in which they are tried, in words.
    packages: Debian packages that it adds.
    """

    name: str
    summary: str
    state: Readiness
    why: str
    fix: str
    ways: tuple[str, ...]
    packages: tuple[str, ...]
    content: BaseContent | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BasesReport:
    """What ``stackgen images bases`` found, and what it made."""

    bases: tuple[BaseEntry, ...]
    made: tuple[str, ...] = ()
    failed: tuple[str, ...] = ()

    @property
    def exit_code(self) -> int:
        """Return 5 where a requested base could not be made."""
        return 5 if self.failed else 0


PROGRAM = "program"
"""Name and component of the indicator that runs such commands."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """What is run, and what it may see.

    command: its words, without a shell.
    project: the folder that it runs in a copy of.
    data: further folders that it may read, by their absolute paths.
    variables: (name, value) pairs for it alone. The values are private: they are
        stored nowhere, and taken out of what it prints.
    figure: a regular expression with one group for the number that it prints; "" means its time.
    better: ``lower`` or ``higher``, of the figure.
    check: the file with its result, from the project's folder on; "" where there is none.
    network: whether it may use the network.
    """

    command: tuple[str, ...]
    project: str
    data: tuple[str, ...] = ()
    variables: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    figure: str = ""
    better: str = "lower"
    check: str = ""
    network: bool = False
