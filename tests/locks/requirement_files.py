"""Reads texts as requirements files, with other files beside them."""

from collections.abc import Callable, Mapping, Sequence

from stackgen.locks.requirement_files import read_requirements_file
from stackgen.model.packages import RequirementsFile

FOLDER = "/home/user"


def reader(files: Mapping[str, str]) -> Callable[[str], str]:
    """Return what reads these files, and no other."""

    def read(path: str) -> str:
        if path not in files:
            raise FileNotFoundError(2, "No such file or directory", path)
        return files[path]

    return read


def parsed(
    text: str,
    *,
    path: str = "requirements.txt",
    extras: Sequence[str] = (),
    groups: Sequence[str] = (),
    files: Mapping[str, str] | None = None,
    environ: Mapping[str, str] | None = None,
    folder: str = FOLDER,
) -> RequirementsFile:
    """Return the parsed file."""
    return read_requirements_file(
        text,
        path=path,
        extras=extras,
        groups=groups,
        read=reader(files or {}),
        environ=environ or {},
        folder=folder,
    )
