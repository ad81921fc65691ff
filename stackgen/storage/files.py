"""Files on disk: digests, exclusive locks, atomic replacement, disk space, removal."""

import contextlib
import errno
import hashlib
import os
import secrets
import shutil
import stat
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import IO, BinaryIO
from urllib.parse import unquote, urlsplit

from stackgen.errors import StorageError

if sys.platform != "win32":
    import fcntl

CHUNK_BYTES = 1 << 20
"""How much of a file is read at once."""
DISK_FULL = frozenset({errno.ENOSPC, errno.EDQUOT})
"""Error numbers of a full disk and of an exhausted quota."""


def file_sha256(path: Path) -> str:
    """Return the SHA-256 of a file, 64 hexadecimal digits.

    Raises:
        OSError: the file cannot be read.
    """
    with path.open("rb") as file:
        return stream_sha256(file)


def stream_sha256(file: IO[bytes]) -> str:
    """Return the SHA-256 of an open file from its current position to its end."""
    digest = hashlib.sha256()
    while chunk := file.read(CHUNK_BYTES):
        digest.update(chunk)
    return digest.hexdigest()


def path_of(url: str) -> Path | None:
    """Return the path that a file: URL names; None for any other URL."""
    parts = urlsplit(url)
    if parts.scheme != "file":
        return None
    text = unquote(parts.path)
    is_drive = len(text) > 2 and text[0] == "/" and text[2] == ":"
    return Path(text[1:] if is_drive else text)


def storage_error(what: str, error: OSError, *, needed_bytes: int = 0) -> StorageError:
    """Return the error for a disk that is full or a folder that cannot be written.

    Args:
        what: the failed action, such as "cannot write the layers in FOLDER".
        error: of the system.
        needed_bytes: for the message, where the disk is full; 0 if unknown.
    """
    full = error.errno in DISK_FULL
    needed = (
        f" (about {max(1, needed_bytes >> 20)} MiB are needed)" if full and needed_bytes else ""
    )
    return StorageError(
        what,
        why=f"{error.strerror or error}{needed}",
        fix="run: stackgen images prune --keep SIZE; or set STACKGEN_CACHE to a larger disk"
        if full
        else "make the folder writable, or set STACKGEN_CACHE to another one",
    )


@contextlib.contextmanager
def exclusive(path: Path) -> Iterator[None]:
    """Hold an exclusive lock on a lock file; wait while another thread or process holds it.

    The file is created if needed and stays. The kernel releases the lock when its process ends.
    On Windows there is no lock.

    Raises:
        OSError: the file cannot be opened, or its file system has no locks.
    """
    with path.open("a") as lock:
        if sys.platform != "win32":
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@contextlib.contextmanager
def atomic_write(path: Path) -> Iterator[BinaryIO]:
    """Write a file that replaces ``path`` when the context ends, once its bytes are on the disk.

    After an exception ``path`` is as before. A new file is readable by all users; one that replaces
    another has the mode of that, from its first byte on. What is there and no file, such as
    ``/dev/stdout``, is written to and not replaced.

    Args:
        path: of the file; its folder exists.

    Raises:
        OSError: the disk is full, or cannot be written.
    """
    if path.exists() and not path.is_file():
        with path.open("wb") as file:
            yield file
        return
    mode = stat.S_IMODE(path.stat().st_mode) if path.exists() else 0o644
    temporary = path.with_name(f".stackgen-{secrets.token_hex(8)}")  # a name that is never too long
    try:
        handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(handle, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        temporary.chmod(mode)
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def atomic_write_text(path: Path, text: str) -> None:
    """Replace a file by one with this text in UTF-8, as ``atomic_write`` does."""
    with atomic_write(path) as file:
        file.write(text.encode())


def free_bytes(path: Path) -> int:
    """Return the free disk space where a path, which need not exist, lies."""
    existing = next(each for each in (path, *path.parents) if each.exists())
    return shutil.disk_usage(existing).free


def occupied_bytes(folder: Path) -> int:
    """Return the bytes on disk of all files in a folder; other processes may change it meanwhile.

    The holes of sparse files do not count.
    """
    total = 0
    for place, _, names in os.walk(folder):
        for name in names:
            with contextlib.suppress(OSError):
                total += Path(place, name).lstat().st_blocks * 512
    return total


def remove_path(path: Path) -> None:
    """Remove a file or a folder, if it exists.

    Raises:
        OSError: it cannot be removed.
    """
    with contextlib.suppress(FileNotFoundError):
        shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
