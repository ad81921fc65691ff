"""Copy an interpreter of this machine into the root of a base: how old Pythons get there."""

import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from stackgen.builders.interpreters import ask, find_interpreters
from stackgen.builders.targets import Probe
from stackgen.errors import BuildError

PLACE = "/opt/python"
_SYSTEM = "/usr"
# What nobody needs to run a stack, what belongs to the machine it comes from, and what needs a
# display.
_LEFT_OUT = shutil.ignore_patterns(
    *("__pycache__", "site-packages", "test", "tests", "idle_test", "idlelib", "turtledemo"),
    *("*.a", "*.exe", "_tkinter*.so"),
)
_COMPILE = ("-m", "compileall", "-q", "-f", "--invalidation-mode", "unchecked-hash")
# Each extension module of the standard library, and why it cannot be imported.
_TRY_ALL = """
import importlib, os, sys
for entry in sorted(os.listdir(sys.argv[1])):
    name, _, rest = entry.partition(".")
    if rest.endswith("so") and not name.startswith(("_test", "_ctypes_test", "xx", "_xx")):
        try:
            importlib.import_module(name)
        except ImportError as error:
            print(name, str(error).replace(chr(10), " "), sep="\\t")
"""


def find_folder(python: str) -> Path:
    """Return an interpreter of this machine that lies in a folder of its own.

    Args:
        python: its version, ``3.7`` or ``3.7.16``.

    Raises:
        BuildError: there is none.
    """
    for found in find_interpreters():
        if "python" + ".".join(python.split(".")[:2]) != Path(found).name:
            continue
        told = ask(found)
        if told.prefix != _SYSTEM and f"{told.version}.".startswith(f"{python}."):
            return Path(found)
    raise BuildError(
        f"there is no folder with Python {python} to copy",
        why="no interpreter of that version lies on PATH, in pyenv's versions or among uv's; one "
        f"in {_SYSTEM} belongs to its system",
        fix=f"pyenv install {python} (or: uv python install {python}), then the same command again",
    )


def copy_folder(interpreter: Path, root: Path) -> None:
    """Copy an interpreter with its standard library to ``/opt/python`` below a root.

    Packages that were installed into it stay behind. Its libraries are made known to the loader,
    and its standard library is byte-compiled where it lies then.

    Args:
        interpreter: what ``find_folder`` returned.
        root: of a Debian that runs on this machine; we must be root.

    Raises:
        BuildError: it cannot be copied, does not run there, or misses libraries there.
    """
    told = ask(str(interpreter))
    try:
        library = _copied(interpreter, told, root)
    except OSError as error:
        raise BuildError(
            f"{interpreter} cannot be copied into a base",
            why=error.strerror or str(error),
            fix="see that the folder is whole and the disk has room",
        ) from error
    inside = f"{PLACE}/bin/python3"
    _chroot(root, ["ldconfig"])
    _chroot(root, [inside, "-I", "-c", "pass"], what=f"Python {told.version} does not run there")
    # Templates of broken Python are part of the library: they fail here, and nobody imports them.
    _run(["chroot", str(root), inside, "-I", *_COMPILE, library])
    _refuse_missing(interpreter, told, root, library)


def _copied(interpreter: Path, told: Probe, root: Path) -> str:
    """Return where the standard library lies below the root."""
    prefix, place = Path(told.prefix), root / PLACE.lstrip("/")
    library = Path(dict(told.paths)["stdlib"]).relative_to(prefix)
    (place / "bin").mkdir(parents=True)
    shutil.copy2(interpreter, place / "bin" / interpreter.name)
    for name in ("python3", "python"):
        (place / "bin" / name).symlink_to(interpreter.name)
    shutil.copytree(prefix / library, place / library, symlinks=True, ignore=_LEFT_OUT)
    (place / library / "site-packages").mkdir()
    if (prefix / "include").is_dir():
        shutil.copytree(prefix / "include", place / "include", symlinks=True)
    for shared in sorted((prefix / "lib").glob("libpython*.so*")):
        shutil.copy2(shared, place / "lib" / shared.name, follow_symlinks=False)
    loader = root / "etc/ld.so.conf.d/stackgen-python.conf"
    loader.parent.mkdir(parents=True, exist_ok=True)
    loader.write_text(f"{PLACE}/lib\n", encoding="ascii")
    return f"{PLACE}/{library.as_posix()}"


def _refuse_missing(interpreter: Path, told: Probe, root: Path, library: str) -> None:
    """Refuse where a module fails that can be imported at home: its library is not in the base."""
    inside = [f"{PLACE}/bin/python3", "-I", "-c", _TRY_ALL, f"{library}/lib-dynload"]
    there = _failures(_chroot(root, inside))
    home = Path(dict(told.paths)["stdlib"]) / "lib-dynload"
    here = _failures(_run([str(interpreter), "-I", "-c", _TRY_ALL, str(home)]).stdout)
    missing = {name: why for name, why in there.items() if name not in here}
    if missing:
        raise BuildError(
            f"Python {told.version} lacks libraries in this base",
            why="; ".join(f"{name}: {why}" for name, why in missing.items()),
            fix="add the Debian packages that hold them to packages in the base's definition",
        )


def _failures(text: str) -> dict[str, str]:
    return dict(line.split("\t", 1) for line in text.splitlines() if "\t" in line)


def _chroot(root: Path, command: Sequence[str], *, what: str = "") -> str:
    done = _run(["chroot", str(root), *command])
    if done.returncode:
        raise BuildError(
            what or f"{command[0]} failed in a base",
            why=(done.stdout.strip().splitlines() or [f"exit code {done.returncode}"])[-1],
            fix="take a Debian suite that is as new as the system the interpreter was built on",
        )
    return done.stdout


def _run(command: Sequence[str]) -> subprocess.CompletedProcess[str]:
    environment = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C", "PYTHONHASHSEED": "0"}
    return subprocess.run(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        env=environment, text=True, errors="replace", check=False,
    )  # fmt: skip
