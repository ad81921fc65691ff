"""A place to run the command for real: an index in a folder, a cache and a knowledge base."""

import os
import shlex
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.in_process import run_command

WORK = "def work():\n    return sum(i * i for i in range({size}))\n"
INDICATOR = """
import harness

INDICATOR = {
    "summary": "work", "component": "speedy", "unit": "", "one_shot": False, "timeout_s": 60,
    "parameters": {},
}

def setup(parameters):
    speedy = harness.load("speedy")
    return harness.Operation(speedy.work, checksum=lambda: 1.0)

if __name__ == "__main__":
    harness.main(INDICATOR, setup)
"""


@dataclass(frozen=True)
class Laboratory:
    """A folder with an index, an indicator, a cache and a knowledge base of its own.

    engine: address of the container engine; "" is the machine's own.
    """

    root: Path
    index: str
    engine: str = ""

    @property
    def kb(self) -> Path:
        return self.root / "kb.db"

    @property
    def environ(self) -> dict[str, str]:
        return {
            "PATH": os.environ["PATH"],
            "HOME": str(self.root),
            "PIP_CONFIG_FILE": os.devnull,
            "PIP_INDEX_URL": self.index,
            "STACKGEN_TEST_LOCKS": os.environ["STACKGEN_TEST_LOCKS"],
            "STACKGEN_CACHE": str(self.root / "cache"),
            "STACKGEN_KB": str(self.kb),
            "STACKGEN_SEED": "",
            **({"DOCKER_HOST": self.engine} if self.engine else {}),
            # Of a worktree that is not the installed one, the commands have to be its own as well.
            **{key: os.environ[key] for key in ("PYTHONPATH",) if key in os.environ},
        }

    def command(self, *arguments: str) -> list[str]:
        return [sys.executable, "-m", "stackgen", *arguments]

    def explore_command(self, *arguments: str) -> list[str]:
        own = ("--executor", "virtualenv", "--pi", str(self.root / "work.py"))
        return self.command("explore", *arguments, *own)

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run a command within this process."""
        return run_command(*arguments, folder=self.root, environ=self.environ)

    def shell(self, line: str) -> subprocess.CompletedProcess[str]:
        """Run a command line in which ``stackgen`` is the one that is tested."""
        called = f'stackgen() {{ {shlex.quote(sys.executable)} -m stackgen "$@"; }}\n'
        return self._completed(["bash", "-c", called + line])

    def explore(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run ``explore`` in a process of its own: it sets what a process has only once."""
        return self._completed(self.explore_command(*arguments))

    @contextmanager
    def exploring(self, *arguments: str) -> Iterator[subprocess.Popen[str]]:
        pipe = subprocess.PIPE
        process = subprocess.Popen(
            self.explore_command(*arguments), env=self.environ, stdout=pipe, stderr=pipe, text=True
        )
        try:
            yield process
        finally:
            process.kill()
            process.communicate()

    def _completed(self, command: list[str]) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            command, env=self.environ, capture_output=True, text=True, check=False, cwd=self.root
        )
