"""What executors know of a user's own command: how it is run, what it sees, what is kept secret."""

import os
import re
import stat
from collections.abc import Iterable, Sequence
from pathlib import Path

from stackgen.values.programs import Program

SCRATCH_BYTES = 1 << 30
"""What it may write, in memory: checkpoints are larger than what indicators leave."""

_VARIABLE = "STACKGEN_ENV_"  # as in pis/program.py
_SHORTEST_SECRET = 4  # what is shorter is a switch, and would be found in every other word
_RAISED = re.compile(r"^(?:\w+\.)*(\w*(?:Error|Exception|Interrupt|Exit))(?::|$)", re.MULTILINE)
_IMPORT_ERRORS = ("ImportError", "ModuleNotFoundError")


def program_command(
    program: Program, *, python: str, script_path: str, project: str, folder: str
) -> tuple[str, ...]:
    """Return the command that runs a program; all paths are as the process will see them."""
    given = {"figure": program.figure, "check": program.check}
    options = [f"--{name}={value}" for name, value in given.items() if value]
    options += [f"--project={project}", f"--folder={folder}", f"--better={program.better}"]
    return (python, "-s", "-B", script_path, *options, "--", *program.command)


def program_variables(program: Program, settings: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Return its variables, by names that mean something to its own process alone.

    What a stack sets wins: that is what varies.
    """
    varied = {name for name, _ in settings}
    return {_VARIABLE + name: value for name, value in program.variables if name not in varied}


def without_secrets(text: str, program: Program) -> str:
    """Return a text with each value of a variable replaced by the variable's name."""
    found = [
        (part, name)
        for name, value in program.variables
        for part in dict.fromkeys((value, *value.splitlines(), repr(value)[1:-1]))
        if len(part) >= _SHORTEST_SECRET
    ]
    for part, name in sorted(found, key=lambda pair: -len(pair[0])):
        text = text.replace(part, f"${name}")
    return text


def failed_to_import(stderr: str) -> bool:
    """Return whether the last exception that a command told of is one of importing."""
    raised = _RAISED.findall(stderr)
    return bool(raised) and raised[-1] in _IMPORT_ERRORS


def owner_of_closed(places: Sequence[Path]) -> tuple[Path, os.stat_result] | None:
    """Return the first file or folder that others than its owner cannot read.

    What root alone may read inside of these folders is passed over: nobody else will read it.
    """
    for place in places:
        for path in (place, *_inside(place)):
            found = path.lstat()
            wanted = stat.S_IROTH | (stat.S_IXOTH if stat.S_ISDIR(found.st_mode) else 0)
            open_ = stat.S_ISLNK(found.st_mode) or found.st_mode & wanted == wanted
            if not open_ and (found.st_uid or path == place):
                return path, found
    return None


def _inside(place: Path) -> Iterable[Path]:
    for folder, names, files in os.walk(place):
        yield from (Path(folder, name) for name in (*names, *files))


def guarded(program: Program | None) -> tuple[str, ...]:
    """Return the folders of the user's that a program should not be able to write to."""
    return (program.project, *program.data) if program else ()


def writable(program: Program | None, found: Iterable[str]) -> tuple[str, ...]:
    """Return what is to be said where some of these folders could be written to all the same."""
    open_ = set(found) & set(guarded(program))
    return ("read-only project and data",) if open_ else ()


def mounted(program: Program, project: str) -> tuple[tuple[str, str], ...]:
    """Return (source, target) pairs of what a container has to see of this host."""
    pairs = [(program.project, project), *((each, each) for each in program.data)]
    return tuple((str(Path(source).resolve()), target) for source, target in pairs)
