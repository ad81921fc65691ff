"""Byte-compile each wheel once per interpreter, and link the bytecode into virtualenvs.

To compile TensorFlow and its dependencies takes longer than to install them, and stacks share most
wheels. The bytecode is the same as in images (``bytecode.py``: not checked against its source, with
paths relative to the packages), so that imports take the same time in both.
"""

import errno
import hashlib
import os
import secrets
import shutil
import subprocess
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from packaging.utils import canonicalize_name
from packaging.version import Version

from stackgen.errors import BuildError
from stackgen.images.bytecode import __file__ as _compiler
from stackgen.model.identity import content_id
from stackgen.model.packages import Artifact
from stackgen.model.stacks import Base
from stackgen.sandbox.process import failure_message
from stackgen.storage.leases import Leases, Locks
from stackgen.storage.wheels import read_record

_PART = ".part-"
_OLDEST = Version("3.7")  # before it, bytecode is always checked against its source's time


@dataclass(frozen=True, slots=True, kw_only=True)
class BytecodeStore:
    """Cache of bytecode by interpreter and wheel.

    folder: of the cache; hard links need the file system of the virtualenvs.
    leases: of the store of virtualenvs.
    """

    folder: Path
    leases: Leases

    def install(self, site: Path, artifacts: tuple[Artifact, ...], base: Base) -> None:
        """Link the bytecode of all installed wheels into ``site``.

        Raises:
            BuildError: the interpreter could not run the compiler.
            OSError: the disk is full, or cannot be written.
        """
        if Version(base.target.python) < _OLDEST:
            _run(base.python, "-m", "compileall", "-q", str(site))
            return
        home = bytecode_home(self.folder, base)
        found = {home / name: files for name, files in _by_name(site, artifacts).items()}
        # A wheel without Python files has an empty folder: that one tells that it is here.
        installed = {lease_name(place): place for place in found}
        for name in installed:
            self.leases.hold(name)

        def make(names: Sequence[str], locks: Locks) -> None:
            home.mkdir(parents=True, exist_ok=True)
            sweep(self.folder, locks)
            missing = {installed[name]: found[installed[name]] for name in names}
            _compile(home, site, missing, base, locks)

        self.leases.create_missing(
            installed, exists=lambda name: installed[name].exists(), create=make
        )
        for place in installed.values():
            for pyc in sorted(place.rglob("*.pyc")):
                _link(pyc, site / pyc.relative_to(place))


def bytecode_home(folder: Path, base: Base) -> Path:
    """Return the folder for a base's interpreter, with one folder per wheel."""
    return folder / content_id("bytecode", base.facts.content)


def lease_name(place: Path) -> str:
    """Return the lease's name for a wheel's bytecode, or for a temporary folder."""
    return f"bytecode/{place.parent.name}/{place.name}"


def sweep(folder: Path, locks: Locks, *, remove: bool = True) -> tuple[Path, ...]:
    """Return (and remove) what killed processes left."""
    left = tuple(path for path in folder.glob(f"*/{_PART}*") if locks.try_acquire(lease_name(path)))
    for path in left if remove else ():
        shutil.rmtree(path, ignore_errors=True)
    return left


def _compile(
    home: Path, site: Path, missing: Mapping[Path, tuple[str, ...]], base: Base, locks: Locks
) -> None:
    """Compile in a temporary folder, and rename the folder of each wheel."""
    part = home / f"{_PART}{secrets.token_hex(8)}"
    locks.try_acquire(lease_name(part))
    part.mkdir()
    try:
        for place, files in missing.items():
            (part / place.name).mkdir()
            for file in files:
                _link(site / file, part / place.name / file)
        _run_compiler(base.python, part, locks)
        for place, files in missing.items():
            for file in files:
                (part / place.name / file).unlink()
            (part / place.name).rename(place)
    finally:
        shutil.rmtree(part, ignore_errors=True)


def _by_name(site: Path, artifacts: Sequence[Artifact]) -> dict[str, tuple[str, ...]]:
    """Return the Python files of each wheel, relative to ``site``, by the name of its bytecode.

    Of a file that several wheels contain, only one version is installed. It belongs to the wheels
    with that version; the bytecode of the others lacks it and has another name, because it is not
    compared with its source in other virtualenvs.
    """
    listed = {each.sha256: _listed(site, each) for each in artifacts}
    holders = Counter(file for files in listed.values() for file in files)
    found = {}
    for sha256, files in listed.items():
        shared = (file for file in files if holders[file] > 1)
        altered = {file for file in shared if not _is_as_stated(site / file, *files[file])}
        name = content_id("without", [sha256, sorted(altered)]) if altered else sha256
        found[name] = tuple(sorted(files.keys() - altered))
    return found


def _listed(site: Path, artifact: Artifact) -> Mapping[str, tuple[str, bytes]]:
    """Return the Python files of an installed wheel, with algorithm and digest from its RECORD.

    The files are relative to ``site``.
    """
    for info in site.glob("*.dist-info"):
        name, _, version = info.name.removesuffix(".dist-info").partition("-")
        if canonicalize_name(name) == artifact.name and _same(version, artifact.version):
            rows = read_record((info / "RECORD").read_text(encoding="utf-8"))
            return {
                file: (algorithm, digest)
                for file, algorithm, digest in rows
                if file.endswith(".py") and not file.startswith(("..", "/"))
            }
    return {}


def _same(one: str, other: str) -> bool:
    return Version(one) == Version(other)


def _is_as_stated(file: Path, algorithm: str, digest: bytes) -> bool:
    """Return whether a file has the digest that a RECORD states."""
    try:
        return hashlib.new(algorithm, file.read_bytes()).digest() == digest
    except (OSError, ValueError):
        return False


def _run_compiler(python: str, folder: Path, locks: Locks) -> None:
    source = Path(_compiler).read_text(encoding="utf-8")
    arguments = (str(folder), str(os.cpu_count() or 1), "", "0")  # no gate; its standard input
    done = _run(python, "-c", source, *arguments, lock_handle=locks.handle)
    if os.strerror(errno.ENOSPC) in done.stderr:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    if done.returncode:
        raise BuildError(
            f"{python} could not byte-compile the packages",
            why=failure_message(done.stderr, done.returncode),
            fix="run: stackgen doctor",
        )


def _run(
    python: str, *arguments: str, lock_handle: int | None = None
) -> "subprocess.CompletedProcess[str]":
    """Run an interpreter, which keeps the locks of the descriptor ``lock_handle`` while it lives.

    Its standard input is a pipe that ends with us (``bytecode.end_with_parent``).
    """
    ours, writing = os.pipe()
    try:
        return subprocess.run(
            [python, "-I", *arguments],
            stdin=ours,
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
            pass_fds=() if lock_handle is None else (lock_handle,),
        )
    finally:
        os.close(writing)
        os.close(ours)


def _link(source: Path, place: Path) -> None:
    place.parent.mkdir(parents=True, exist_ok=True)
    try:
        os.link(source, place)
    except FileExistsError:
        return
    except OSError:
        shutil.copy2(source, place)
