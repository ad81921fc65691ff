"""Byte-compile wheels with the interpreter of the base that they are laid out for."""

import contextlib
import fcntl
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TypedDict

from docker.types import Mount

from stackgen.builders import bytecode
from stackgen.builders.engine import Engine, Ran
from stackgen.errors import BuildError
from stackgen.measure.retry_policy import ending
from stackgen.values import Base

_STAGING = "/staging"
_GATE = "gate"


class _How(TypedDict):
    command: list[str]
    mounts: list[Mount]
    user: str
    environment: dict[str, str]


@dataclass(frozen=True, slots=True)
class BaseCompiler:
    """Byte-compiles with the base's own interpreter, in a container of the base."""

    engine: Engine

    @contextlib.contextmanager
    def compiling(self, base: Base, staging: Path) -> Iterator[Callable[[], None]]:
        """Start the interpreter while the trees are still laid out; yield what compiles them.

        Starting takes as long as laying out a large wheel. A lock on a file tells the interpreter
        when all is there, or that we were killed.
        """
        gate = staging / _GATE
        with gate.open("w", encoding="ascii") as file:
            gate.chmod(0o644)
            fcntl.flock(file, fcntl.LOCK_EX)
            with self.engine.running(base.reference, **self._how(base, staging)) as ended:

                def compile_all() -> None:
                    file.write(bytecode.OPEN)
                    file.flush()
                    fcntl.flock(file, fcntl.LOCK_UN)
                    ran = ended()
                    if ran.exit_code == bytecode.NEVER_OPENED:  # no locks on this kind of mount
                        ran = self.engine.run(base.reference, **self._how(base, staging))
                    _require_success(ran, base)

                yield compile_all

    def _how(self, base: Base, staging: Path) -> _How:
        text = Path(bytecode.__file__).read_text(encoding="utf-8")
        jobs = str(max(1, self.engine.facts.cpus))
        arguments = [_STAGING, jobs, f"{_STAGING}/{_GATE}"]
        # No -I: it would drop the hash seed, and before Python 3.11 sets are written in its order.
        # A rootless engine maps its root to us; elsewhere the files must stay ours.
        user = "0:0" if self.engine.facts.rootless else f"{os.getuid()}:{os.getgid()}"
        return _How(
            command=[base.python, "-s", "-S", "-W", "ignore", "-c", text, *arguments],
            mounts=[Mount(_STAGING, str(staging.resolve()), type="bind")],
            user=user,
            environment={"PYTHONHASHSEED": "0"},
        )


def _require_success(ran: Ran, base: Base) -> None:
    if ran.exit_code:
        raise BuildError(
            f"the packages could not be byte-compiled on {base.name}",
            why="\n".join([*ran.stderr.strip().splitlines()[-1:], ending(ran.exit_code)]),
            fix="run: stackgen doctor",
        )
