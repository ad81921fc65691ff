"""Digests of the files that a user's command meets: those of its project, and data beside it."""

import hashlib
import os
from collections.abc import Iterator
from pathlib import Path

from stackgen.errors import UsageError

# As in pis/program.py: what tools make again, and what is only linked to.
LEFT_OUT = {
    ".git", ".hg", ".svn", "__pycache__", ".tox", ".nox", ".mypy_cache", ".pytest_cache",
    ".ruff_cache", ".ipynb_checkpoints", "node_modules",
}  # fmt: skip
READ_BYTES = 1 << 20
MOST_FILES = 20_000
_DIGITS = 16


def project_digest(project: Path, *, besides: str = "") -> str:
    """Return a digest of a project's files: of small ones all, of large ones size and time.

    Args:
        project: its folder.
        besides: a file that is left out, as the one with the results.

    Raises:
        UsageError: there are too many of them to be copied for each run, or one cannot be read.
    """
    digest = hashlib.sha256()
    try:
        for count, name in enumerate(_files(project), start=1):
            if count > MOST_FILES:
                raise UsageError(
                    f"{project} is too large for a project",
                    why=f"it has more than {MOST_FILES:,} files, and each run gets a copy",
                    fix="name the folder with the code alone (--project DIR), others with --data",
                )
            if name != os.path.normpath(besides):
                digest.update(os.fsencode(f"{name}\0{_content(project / name)}\0"))
    except OSError as error:
        raise UsageError(
            f"cannot read the project {project}",
            why=str(error),
            fix="make its files readable, or name another folder: --project DIR",
        ) from error
    return digest.hexdigest()[:_DIGITS]


def data_digest(data: Path) -> str:
    """Return a digest of names, sizes and times of the files in a folder; none of them is read."""
    digest = hashlib.sha256()
    for folder, names, files in os.walk(data):
        names.sort()
        for name in sorted(files):
            path = Path(folder, name)
            digest.update(os.fsencode(f"{path.relative_to(data)}\0{_size_and_time(path)}\0"))
    return digest.hexdigest()[:_DIGITS]


def _files(project: Path) -> Iterator[str]:
    """Yield what belongs to a project, by the path from its folder on; links are not followed."""
    for folder, names, files in os.walk(project):
        names[:] = [name for name in sorted(names) if _belongs(Path(folder, name))]
        links = [name for name in names if Path(folder, name).is_symlink()]
        for name in sorted(links + files):
            if _belongs(Path(folder, name)):
                yield os.path.relpath(Path(folder, name), project)


def _belongs(path: Path) -> bool:
    made = path.name in LEFT_OUT or path.suffix == ".pyc"
    return not (made or (path / "pyvenv.cfg").exists())


def _content(path: Path) -> str:
    """Return what tells a file from another one, with its right to be executed."""
    if path.is_symlink():
        return f"link {os.readlink(path)}"  # noqa: PTH115
    if not path.is_file():
        return "special"
    status = path.stat()
    if status.st_size > READ_BYTES or not os.access(path, os.R_OK):
        return _size_and_time(path)
    return f"{status.st_mode & 0o111} {hashlib.sha256(path.read_bytes()).hexdigest()}"


def _size_and_time(path: Path) -> str:
    try:
        status = path.stat()
    except OSError:  # a link that leads nowhere
        return "gone"
    return f"{status.st_size} {status.st_mtime_ns}"
