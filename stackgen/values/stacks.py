"""Where packages are installed, what is installed there, and the runnable result."""

from dataclasses import dataclass
from enum import Enum

from stackgen.values.identity import StackId, content_id
from stackgen.values.packages import Lock, Target


class Kind(str, Enum):
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
    kind: Kind
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
    kind: Kind
    location: str
    python: str
