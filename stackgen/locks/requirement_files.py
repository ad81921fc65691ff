"""Detection of the format of a file of requirements; locks and other files are refused."""

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import PurePath

from stackgen.errors import UsageError
from stackgen.locks import pipfile, pyproject, requirements
from stackgen.locks.direct import is_url
from stackgen.locks.fields import MalformedError
from stackgen.locks.reading import beginning, filename, other_format
from stackgen.locks.requirements import FileContext, chosen
from stackgen.model.packages import RequirementsFile

ACCEPTED = "a requirements file, a pyproject.toml or a Pipfile"

_LOCK_NAMES = re.compile(r".*\.lock|pylock(\.[^.]+)?\.toml|conda-lock\.ya?ml|package-lock\.json")
_LOCK_CONTENT = re.compile(r"\A\{|^\[\[packages?\]\]|^lock-version\s*=", re.MULTILINE)
_PYPROJECT_CONTENT = re.compile(
    r"^\[(project|build-system|dependency-groups|tool)[.\]]", re.MULTILINE
)
_PIPFILE_CONTENT = re.compile(r"^\[(packages|dev-packages)\]|^\[\[source\]\]", re.MULTILINE)
_SETUP_CONTENT = re.compile(r"^install_requires\s*=|^\[(options|metadata)\]", re.MULTILINE)


def read_requirements_file(
    text: str,
    *,
    path: str,
    extras: Sequence[str] = (),
    groups: Sequence[str] = (),
    read: Callable[[str], str],
    environ: Mapping[str, str],
    folder: str = "",
) -> RequirementsFile:
    """Read what a requirements file, a pyproject.toml or a Pipfile requires.

    The name decides the format, else the content.

    Args:
        text: what the file holds.
        path: as the user gave it; what the file includes is relative to it.
        extras: of a pyproject.toml, to be added.
        groups: dependency groups of a pyproject.toml, or categories of a Pipfile (``dev``), to be
            added.
        read: returns the text of another file by its path or URL; for nested requirements files.
            It may raise OSError.
        environ: for ``${NAME}`` in requirements files and Pipfiles.
        folder: the working folder, absolute: wheels named by relative paths are looked for there
            (those of a TOML file beside it). Where it is not given, ``path`` stands for it if that
            is absolute.

    Raises:
        UsageError: broken, of another tool, or a lock; or it has no such extra or group. The error
            names the file, and the line where there is one.
    """
    context = FileContext(read=read, environ=environ, folder=_working_folder(path, folder))
    try:
        kind = _format(text, path)
        if kind == "pyproject":
            beside = _beside(path, folder)
            return pyproject.read_file(text, path=path, folder=beside, extras=extras, groups=groups)
        chosen("extra", extras, known=(), path=path)
        if kind == "pipfile":
            beside = _beside(path, folder)
            return pipfile.read_file(text, path=path, folder=beside, groups=groups, environ=environ)
        chosen("group", groups, known=(), path=path)
        return requirements.read_file(text, path=path, context=context)
    except MalformedError as error:
        raise _unreadable(path, str(error)) from error


def constraints_in(
    text: str,
    *,
    path: str,
    read: Callable[[str], str],
    environ: Mapping[str, str],
    folder: str = "",
) -> tuple[str, ...]:
    """Return the PEP 508 lines of a constraints file; arguments as of `read_requirements_file`.

    Raises:
        UsageError: it is none, or it requires packages by ``-r``.
    """
    context = FileContext(read=read, environ=environ, folder=_working_folder(path, folder))
    try:
        beginning(text)
        found = requirements.read_file(text, path=path, context=context, limits=True)
    except MalformedError as error:
        raise _unreadable(path, str(error)) from error
    if found.requirements:
        raise _unreadable(path, f"as a file of constraints it requires {found.requirements[0]!r}")
    return found.constraints


def _unreadable(path: str, why: str) -> UsageError:
    return UsageError(
        f"cannot read {path}", why=why, fix=f"correct it, or give {ACCEPTED}; see: stackgen --help"
    )


def _working_folder(path: str, folder: str) -> str:
    beside = str(PurePath(path).parent)
    return folder or (beside if PurePath(path).is_absolute() else "")


def _beside(path: str, folder: str) -> str:
    """Return the folder that a file lies in; "" where that would be relative."""
    found = PurePath(folder, path).parent
    return str(found) if found.is_absolute() and not is_url(path) else ""


def _format(text: str, path: str) -> str:
    """Return ``requirements``, ``pyproject`` or ``pipfile``.

    Raises:
        MalformedError: it is nothing that a person wrote for any tool.
        UsageError: it is of a tool that we do not read requirements of.
    """
    name = filename(path)
    if name == "pyproject.toml":
        return "pyproject"  # also an empty one is a pyproject.toml
    start = beginning(text)
    if _LOCK_NAMES.fullmatch(name) or (name != "Pipfile" and _LOCK_CONTENT.search(start)):
        raise _a_lock(path)
    if name == "Pipfile":
        return "pipfile"
    if name in ("setup.py", "setup.cfg") or (
        name.endswith(".cfg") and _SETUP_CONTENT.search(start)
    ):
        raise _to_be_built(path)
    if other := other_format(name, start):
        raise _of_another_tool(path, other)
    if _PYPROJECT_CONTENT.search(start):
        return "pyproject"
    if _PIPFILE_CONTENT.search(start):
        return "pipfile"
    if name.endswith(".toml"):
        raise MalformedError("it is TOML, and neither a pyproject.toml nor a Pipfile")
    return "requirements"


def _a_lock(path: str) -> UsageError:
    return UsageError(
        f"{path} is a lock: it holds what was chosen, not what is required",
        why=f"requirements are read from {ACCEPTED}",
        fix=f"run: stackgen verify {path}; or explore around it with --from {path}",
    )


def _to_be_built(path: str) -> UsageError:
    return UsageError(
        f"{path} is not read",
        why="only a build shows the requirements of a setup.py or setup.cfg",
        fix=f"run: uv pip compile {path} -o requirements.txt; then give that file",
    )


def _of_another_tool(path: str, other: str) -> UsageError:
    if "conda" in other:
        return UsageError(
            f"{path} seems to be {other}, which is not read",
            why="conda's packages are not those of a Python package index",
            fix="run inside that environment: pip list --format=freeze > requirements.txt; "
            "then give that file",
        )
    return UsageError(
        f"{path} seems to be {other}, which is not read",
        why=f"requirements are read from {ACCEPTED}",
        fix=f"give {ACCEPTED}; see: stackgen --help",
    )
