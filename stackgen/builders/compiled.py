"""Byte-compile each wheel once per interpreter, and link the result into every virtualenv.

Compiling all of TensorFlow's closure takes longer than installing it, and stacks that differ in one
wheel share the rest. The bytecode is made as in images (``bytecode.py``: not checked against its
source, named by a path without the virtualenv's), so that imports cost the same in both.
"""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from packaging.utils import canonicalize_name
from packaging.version import Version

from stackgen.builders.bytecode import __file__ as _compiler
from stackgen.builders.exclusive import exclusively
from stackgen.errors import BuildError
from stackgen.values import Artifact, Base, content_id

_PART = ".part-"
_OLDEST = Version("3.7")  # before it, bytecode is always checked against its source's time


@dataclass(frozen=True, slots=True, kw_only=True)
class BytecodeStore:
    """Bytecode by interpreter and wheel.

    folder: where it is kept; on the file system of the virtualenvs, or it is copied.
    """

    folder: Path

    def install(self, site: Path, artifacts: tuple[Artifact, ...], base: Base) -> None:
        """Put the bytecode of the wheels that are installed in ``site`` beside their sources.

        Raises:
            BuildError: the interpreter could not run the compiler.
        """
        if Version(base.target.python) < _OLDEST:
            _run(base.python, "-m", "compileall", "-q", str(site))
            return
        home = self.folder / content_id("bytecode", base.facts.content)
        found = {artifact.sha256: _sources(site, artifact) for artifact in artifacts}
        installed = {key: files for key, files in found.items() if files}
        if _missing(home, installed):
            with exclusively(home.with_name(f"{home.name}.lock")) as held:
                _sweep(home)
                # Another process may have made them meanwhile.
                self._compile(home, site, _missing(home, installed), base, held)
        for key in installed:
            for pyc in sorted((home / key).rglob("*.pyc")):
                _link(pyc, site / pyc.relative_to(home / key))

    def _compile(
        self, home: Path, site: Path, missing: dict[str, tuple[str, ...]], base: Base, held: int
    ) -> None:
        """Compile in a folder aside; a wheel's bytecode appears at its place all at once."""
        home.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=home, prefix=_PART) as name:
            part = Path(name)
            for key, files in missing.items():
                (part / key).mkdir()
                for file in files:
                    _link(site / file, part / key / file)
            _run_compiler(base.python, part, held)
            for key, files in missing.items():
                for file in files:
                    (part / key / file).unlink()
                (part / key).rename(home / key)


def _missing(home: Path, installed: dict[str, tuple[str, ...]]) -> dict[str, tuple[str, ...]]:
    return {key: files for key, files in installed.items() if not (home / key).exists()}


def _sweep(home: Path) -> None:
    """Remove what killed builds left; whoever holds the lock knows that nobody works on it."""
    for left in home.glob(f"{_PART}*"):
        shutil.rmtree(left)


def _sources(site: Path, artifact: Artifact) -> tuple[str, ...]:
    """Return the Python files of an installed wheel, relative to ``site``, as RECORD lists them."""
    for info in site.glob("*.dist-info"):
        name, _, version = info.name.removesuffix(".dist-info").partition("-")
        if canonicalize_name(name) == artifact.name and _same(version, artifact.version):
            record = (info / "RECORD").read_text(encoding="utf-8")
            return tuple(sorted(set(_python_files(record))))
    return ()


def _same(one: str, other: str) -> bool:
    return Version(one) == Version(other)


def _python_files(record: str) -> Iterator[str]:
    import csv

    for row in csv.reader(record.splitlines()):
        if row and row[0].endswith(".py") and not row[0].startswith(("..", "/")):
            yield row[0]


def _run_compiler(python: str, folder: Path, held: int) -> None:
    source = Path(_compiler).read_text(encoding="utf-8")
    done = _run(python, "-c", source, str(folder), str(os.cpu_count() or 1), held=held)
    if done.returncode:
        raise BuildError(
            f"{python} could not byte-compile the packages",
            why=done.stderr.strip()[-800:] or f"exit code {done.returncode}",
            fix="run: stackgen doctor",
        )


def _run(
    python: str, *arguments: str, held: int | None = None
) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [python, "-I", *arguments],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
        pass_fds=() if held is None else (held,),
    )


def _link(source: Path, place: Path) -> None:
    place.parent.mkdir(parents=True, exist_ok=True)
    try:
        os.link(source, place)
    except FileExistsError:
        return
    except OSError:
        shutil.copy2(source, place)
