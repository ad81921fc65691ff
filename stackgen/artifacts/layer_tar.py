"""Write a tree of files as a layer whose bytes depend on nothing but names and contents."""

import contextlib
import hashlib
import os
import stat
import tarfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import IO, BinaryIO

from stackgen.layers import Layer

# 1980: zip archives, which some packages make of their own files, know nothing earlier.
_MTIME = 315532800
_END = bytes(2 * tarfile.BLOCKSIZE)
_CHUNK = 1 << 20


class HashingWriter:
    """A file that is only written, and knows the digest of what it was given."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._digest = hashlib.sha256()
        self.size = 0

    def write(self, content: bytes) -> int:
        """Write and count."""
        self._digest.update(content)
        self.size += len(content)
        return self._file.write(content)

    @property
    def diff_id(self) -> str:
        """Return the name of a layer with these bytes."""
        return f"sha256:{self._digest.hexdigest()}"


def write_tree(root: Path, file: BinaryIO, path: Path) -> Layer:
    """Write everything below ``root``, sorted by name.

    Args:
        root: stands for the root of the image.
        file: where the tar is written.
        path: where the tar will be found later.
    """
    out = HashingWriter(file)
    for member in _members(root):
        _write_member(root, member, out)
    return _finish(out, path)


def write_entries(
    entries: Iterable[tuple[tarfile.TarInfo, bytes]], file: BinaryIO, path: Path
) -> Layer:
    """Write members that exist in memory alone."""
    out = HashingWriter(file)
    for entry, content in entries:
        plain = plain_entry(entry)
        plain.size = len(content)
        out.write(_header(plain))
        out.write(content + bytes(-len(content) % tarfile.BLOCKSIZE))
    return _finish(out, path)


def merge(parts: Sequence[Layer], file: BinaryIO, path: Path) -> Layer:
    """Join layers into one that holds the members of all, the later above the earlier.

    An engine refuses a layer that names a file twice, so equal folders are written once. A file in
    place of a folder takes away all that was in it, as it would in a layer of its own.
    """
    out = HashingWriter(file)
    with contextlib.ExitStack() as stack:
        chosen: dict[str, tuple[tarfile.TarInfo, tarfile.TarFile]] = {}
        for part in parts:
            archive = stack.enter_context(tarfile.open(part.path))
            for entry in archive:
                below = chosen.get(entry.name)
                if below is not None and below[0].isdir() and not entry.isdir():
                    _forget_below(entry.name, chosen)
                chosen[entry.name] = entry, archive
        for _, (entry, archive) in sorted(chosen.items()):
            out.write(_header(entry))
            if source := archive.extractfile(entry) if entry.isreg() else None:
                _copy(source, out, entry.size)
    return _finish(out, path)


def _forget_below(folder: str, chosen: dict[str, tuple[tarfile.TarInfo, tarfile.TarFile]]) -> None:
    for name in [name for name in chosen if name.startswith(f"{folder}/")]:
        del chosen[name]


def copy_whole(source: IO[bytes], file: BinaryIO, path: Path) -> Layer:
    """Copy a layer that is complete."""
    out = HashingWriter(file)
    _copy(source, out)
    return Layer(path=path, diff_id=out.diff_id, size=out.size)


def plain_entry(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    """Return a member without owner, time, or the permissions of a umask."""
    entry.uid = entry.gid = 0
    entry.uname = entry.gname = ""
    entry.mtime = _MTIME
    executable = entry.isdir() or entry.issym() or entry.mode & stat.S_IXUSR
    entry.mode = 0o755 if executable else 0o644
    return entry


def _members(root: Path) -> Iterator[str]:
    for folder, folders, files in os.walk(root):
        folders.sort()
        relative = os.path.relpath(folder, root)
        if relative != ".":
            yield relative
        yield from (os.path.normpath(f"{relative}/{name}") for name in sorted(files))


def _write_member(root: Path, member: str, out: HashingWriter) -> None:
    path = root / member
    status = path.lstat()
    entry = tarfile.TarInfo(member)
    entry.mode = status.st_mode
    if stat.S_ISDIR(status.st_mode):
        entry.type = tarfile.DIRTYPE
        out.write(_header(plain_entry(entry)))
        return
    entry.size = status.st_size
    out.write(_header(plain_entry(entry)))
    with path.open("rb") as source:
        _copy(source, out, entry.size)


def _copy(source: IO[bytes], out: HashingWriter, size: int = 0) -> None:
    """Copy everything, and fill up the last block of a member of that size."""
    while chunk := source.read(_CHUNK):
        out.write(chunk)
    out.write(bytes(-size % tarfile.BLOCKSIZE))


def _header(entry: tarfile.TarInfo) -> bytes:
    return entry.tobuf(tarfile.PAX_FORMAT, "utf-8", "surrogateescape")


def _finish(out: HashingWriter, path: Path) -> Layer:
    out.write(_END)
    return Layer(path=path, diff_id=out.diff_id, size=out.size)
