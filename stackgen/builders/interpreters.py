"""Find the Python interpreters of this machine, and ask each what it is."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from stackgen.builders.targets import Probe, facts_from_probe, parse_probe, target_from_probe
from stackgen.errors import BuildError
from stackgen.values import Base, Kind

PROBE_SOURCE = Path(__file__).with_name("probe.py")
_NAME = re.compile(r"python3\.(\d+)t?")
_PROBE_TIMEOUT_S = 60


def find_interpreters() -> tuple[str, ...]:
    """Return the interpreters found, newest first: ours, on PATH, of pyenv and of uv.

    Paths are resolved, so that each interpreter comes once and no virtualenv stands for its base.
    """
    found = {str(path.resolve()) for path in _candidates() if os.access(path, os.X_OK)}
    return tuple(sorted(found, key=lambda path: (-_minor(path), path)))


def ask(python: str) -> Probe:
    """Return what an interpreter says of itself.

    Raises:
        BuildError: it does not run, or does not answer as a Python 3.6 or newer.
    """
    return parse_probe(_run_probe(python), where=python)


def probe(python: str) -> Base:
    """Ask an interpreter what it is; for one of a virtualenv, the answer is the one below it.

    Raises:
        BuildError: it does not run, or does not answer as a Python 3.6 or newer.
    """
    told = ask(python)
    path = str(Path(told.base_executable).resolve())
    return Base(
        name=f"{told.implementation.lower()}-{told.version}",
        kind=Kind.VIRTUALENV,
        reference=path,
        python=path,
        facts=facts_from_probe(told),
        target=target_from_probe(told),
    )


def _candidates() -> Iterator[Path]:
    base = Path(getattr(sys, "_base_executable", sys.executable))
    yield base
    home = Path.home()
    pyenv = Path(os.environ.get("PYENV_ROOT", home / ".pyenv")) / "versions"
    uv = Path(os.environ.get("UV_PYTHON_INSTALL_DIR", home / ".local/share/uv/python"))
    folders = [Path(entry) for entry in os.environ.get("PATH", "").split(os.pathsep) if entry]
    # pyenv's shims are scripts in the place of interpreters; what they lead to is found anyway.
    folders = [folder for folder in folders if folder.name != "shims"]
    folders += [*sorted(pyenv.glob("*/bin")), *sorted(uv.glob("*/bin"))]
    for folder in folders:
        for path in folder.glob("python3.*"):
            if _NAME.fullmatch(path.name):
                yield path


def _minor(path: str) -> int:
    """Return the minor version that an interpreter's name tells, -1 where it tells none."""
    named = _NAME.fullmatch(Path(path).name)
    return int(named.group(1)) if named else -1


def _run_probe(python: str) -> str:
    command = [python, "-I", "-c", PROBE_SOURCE.read_text(encoding="utf-8")]
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_PROBE_TIMEOUT_S,
            check=False,
            stdin=subprocess.DEVNULL,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise BuildError(
            f"{python} does not run", why=str(error), fix="see what is found: stackgen doctor"
        ) from error
    return done.stdout or done.stderr
