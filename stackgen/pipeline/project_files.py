"""Digests of the files that a user's command meets: those of its project, and data beside it."""

import contextlib
import hashlib
import os
from collections.abc import Collection, Iterator, Mapping
from itertools import islice
from pathlib import Path

from stackgen.errors import UsageError

# As in pis/program.py: what tools make again, and what is only linked to.
LEFT_OUT = {
    ".git", ".hg", ".svn", "__pycache__", ".tox", ".nox", ".mypy_cache", ".pytest_cache",
    ".ruff_cache", ".ipynb_checkpoints", "node_modules", ".idea", ".vscode", ".DS_Store",
}  # fmt: skip
LEFT_OUT_ENDS = (".pyc", ".swp", "~")
READ_BYTES = 1 << 20
MOST_FILES = 20_000
_DIGITS = 16


def manifest(project: Path, besides: Collection[Path] = ()) -> dict[str, str]:
    """Return what tells each file of a project from another one, by its path in there.

    Of small files that is all they hold, of large ones size and time.

    Args:
        project: its folder.
        besides: files and folders that are no part of it, wherever they lie.

    Raises:
        UsageError: there are too many of them to be copied for each run, or one cannot be read.
    """
    found: dict[str, str] = {}
    try:
        # Counted before any is read: in a home folder, reading takes long.
        paths = list(islice(_files(project, frozenset(besides)), MOST_FILES + 1))
        if len(paths) > MOST_FILES:
            raise UsageError(
                f"{project} is too large for a project",
                why=f"it has more than {MOST_FILES:,} files, and each run gets a copy",
                fix="name the folder with the code alone (--project DIR), others with --data",
            )
        for path in paths:
            with contextlib.suppress(FileNotFoundError):  # gone meanwhile
                found[str(path.relative_to(project))] = _content(path)
    except OSError as error:
        raise UsageError(
            f"cannot read the project {project}",
            why=str(error),
            fix="make its files readable, or name another folder: --project DIR",
        ) from error
    return found


def project_digest(files: Mapping[str, str]) -> str:
    """Return a digest of a project's manifest."""
    rows = (os.fsencode(f"{name}\0{content}\0") for name, content in sorted(files.items()))
    return hashlib.sha256(b"".join(rows)).hexdigest()[:_DIGITS]


def data_digest(data: Path) -> str:
    """Return a digest of names, sizes and times of the files in a folder; none of them is read."""
    digest = hashlib.sha256()
    for folder, names, files in os.walk(data):
        names.sort()
        for name in sorted(files):
            path = Path(folder, name)
            digest.update(os.fsencode(f"{path.relative_to(data)}\0{_size_and_time(path)}\0"))
    return digest.hexdigest()[:_DIGITS]


def _files(project: Path, besides: Collection[Path]) -> Iterator[Path]:
    """Yield what belongs to a project; links are not followed."""
    for folder, names, files in os.walk(project):
        paths = {name: Path(folder, name) for name in (*names, *files)}
        kept = [name for name, path in paths.items() if _belongs(path) and path not in besides]
        names[:] = [name for name in names if name in kept]
        for name in kept:
            if name in files or paths[name].is_symlink():
                yield paths[name]


def _belongs(path: Path) -> bool:
    made = path.name in LEFT_OUT or path.name.endswith(LEFT_OUT_ENDS)
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
