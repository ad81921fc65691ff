"""Unpack wheels for layers, and refuse invalid ones and those that replace files of others."""

import configparser
import csv
import errno
import io
import lzma
import os
import posixpath
import re
import struct
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import BinaryIO

from installer import install
from installer.destinations import SchemeDictionaryDestination
from installer.exceptions import InstallerError
from installer.records import Hash, InvalidRecordEntry, RecordEntry, parse_record_file
from installer.sources import WheelFile
from installer.utils import Scheme, parse_entrypoints
from packaging.utils import canonicalize_name

from stackgen.errors import BuildError
from stackgen.images.layers import STACK_PYTHON
from stackgen.model.packages import Artifact
from stackgen.storage.wheels import is_special, is_usual, misplaced, replaces_interpreter, unplaced

# Exceptions of the libraries for a damaged wheel, or a file that is no wheel.
_DAMAGED = (
    *(zipfile.BadZipFile, zlib.error, EOFError, InstallerError, InvalidRecordEntry),
    *(ValueError, KeyError, AssertionError, NotImplementedError, configparser.Error),
    *(FileExistsError, NotADirectoryError, IsADirectoryError),
    *(lzma.LZMAError, struct.error, IndexError, RuntimeError, OverflowError),
)
_BAD_NAMES = (errno.ENAMETOOLONG, errno.EILSEQ, errno.EINVAL)


class _WithoutCopies(WheelFile):
    """A wheel without its bytecode and without scripts of its entry points: both are generated."""

    def get_contents(self) -> Iterator[tuple[tuple[str, str, str], BinaryIO, bool]]:
        """Yield all other files.

        Old wheels have a script for each entry point, which imports packages that are not required:
        pip and uv skip it.
        """
        scripts = {f"{self.data_dir}/scripts/{name}" for name in self._entry_points()}
        for each in super().get_contents():
            path = each[0][0]
            if "__pycache__" not in path.split("/")[:-1] and path not in scripts:
                yield each

    def _entry_points(self) -> Iterator[str]:
        if "entry_points.txt" in self.dist_info_filenames:
            text = self.read_dist_info("entry_points.txt")
            yield from (name for name, _, _, _ in parse_entrypoints(text))


class _CheckedDestination(SchemeDictionaryDestination):
    """Compares written files with the wheel's RECORD."""

    def __init__(self, scheme: dict[str, str], destdir: Path, promised: dict[str, RecordEntry]):
        super().__init__(scheme, STACK_PYTHON, "posix", destdir=str(destdir))
        self.overwrite_existing = True  # some wheels hold a member twice
        self.promised = promised
        self._written: dict[str, Hash | None] = {}

    def write_to_fs(
        self, scheme: Scheme, path: str, stream: BinaryIO, is_executable: bool
    ) -> RecordEntry:
        """Write a file; refuse paths outside of the stack and files of the stack itself."""
        target = posixpath.normpath(posixpath.join(self.scheme_dict[scheme], path))
        place = posixpath.relpath(target, self.scheme_dict["data"])
        if place.startswith(".."):
            raise ValueError(f"{path} would lie outside of the stack")
        if replaces_interpreter(place):
            raise ValueError(f"{path} would replace a file of the stack itself")
        if place not in self._written and Path(self.destdir or "/", target.lstrip("/")).exists():
            raise ValueError(f"{path} and another file have the same name on this disk")
        entry = super().write_to_fs(scheme, path, stream, is_executable)
        # Of duplicate scripts, the last one counts, as in other installers.
        if scheme != "scripts" and self._written.setdefault(place, entry.hash_) != entry.hash_:
            raise ValueError(f"{path} would be written twice, with different contents")
        self._written[place] = entry.hash_
        return entry

    def write_file(
        self,
        scheme: Scheme,
        path: "str | os.PathLike[str]",
        stream: BinaryIO,
        is_executable: bool,
    ) -> RecordEntry:
        """Write a file of the wheel and compare its digest."""
        if scheme == "scripts":  # the first line is replaced, so the digest may differ
            return self._write_script_file(str(path), stream)
        entry = super().write_file(scheme, path, stream, is_executable)
        promised = self.promised.get(str(getattr(stream, "name", "")))
        if promised is None or promised.hash_ is None or promised.hash_.name != "sha256":
            return entry
        if promised.hash_ != entry.hash_:
            raise ValueError(f"{path} does not match its digest in RECORD")
        return entry

    def _write_script_file(self, path: str, stream: BinaryIO) -> RecordEntry:
        # Scripts are executable, whatever mode the archive has.
        return super().write_file(Scheme("scripts"), path, io.BytesIO(stream.read()), True)


def unpack(artifact: Artifact, wheel: Path, destdir: Path, *, prefix: str, site: str) -> None:
    """Install a wheel below ``destdir`` as if that were the root of a file system.

    Args:
        artifact: with the wheel's file name.
        wheel: the file, under any name.
        destdir: an existing folder.
        prefix: of the stack, such as ``/opt/stack``.
        site: folder of its packages, such as ``/opt/stack/lib/python3.11/site-packages``.

    Raises:
        BuildError: the wheel is damaged, contradicts its RECORD, or has paths outside of the stack.
        OSError: the disk is full or cannot be written.
    """
    try:
        with zipfile.ZipFile(wheel) as archive:
            archive.filename = artifact.filename
            _refuse_members(archive.infolist())
            _install(_WithoutCopies(archive), archive.namelist(), destdir, prefix=prefix, site=site)
    except _DAMAGED as error:
        raise _refusal(artifact, error) from error
    except OSError as error:
        if error.errno not in _BAD_NAMES:
            raise
        raise _refusal(artifact, error) from error


def _refusal(artifact: Artifact, error: Exception) -> BuildError:
    return BuildError(
        f"the wheel {artifact.filename} was refused",
        why=str(error) or repr(error),
        fix=f"exclude {artifact.name} {artifact.version}, or report it to its authors",
    )


def unpacked_size(wheel: Path) -> int:
    """Return the bytes of a wheel's members, or of the file where it cannot be read."""
    try:
        with zipfile.ZipFile(wheel) as archive:
            return sum(member.file_size for member in archive.infolist())
    except _DAMAGED:
        return wheel.stat().st_size


def _install(
    source: WheelFile, names: Iterable[str], destdir: Path, *, prefix: str, site: str
) -> None:
    for name in names:
        if unplaced(name, source.data_dir):
            raise ValueError(f"{name!r} belongs to no part of an environment")
    record = source.read_dist_info("RECORD").splitlines()
    promised = {row[0]: RecordEntry.from_elements(*row) for row in parse_record_file(record)}
    minor = posixpath.basename(posixpath.dirname(site))
    scheme = {
        "purelib": site,
        "platlib": site,
        "scripts": f"{prefix}/bin",
        "headers": f"{prefix}/include/site/{minor}/{canonicalize_name(source.distribution)}",
        "data": prefix,
    }
    install(source, _CheckedDestination(scheme, destdir, promised), {})


def _refuse_members(members: Iterable[zipfile.ZipInfo]) -> None:
    for member in members:
        for wrong, reason in _FAULTS:
            if wrong(member):
                raise ValueError(f"{member.filename!r} {reason}")


def _escapes(member: zipfile.ZipInfo) -> bool:
    return bool(misplaced(member.orig_filename))


def _is_whiteout(member: zipfile.ZipInfo) -> bool:
    # In a layer such a name deletes a file of the layers below.
    return any(part.startswith(".wh.") for part in member.filename.split("/"))


_FAULTS: tuple[tuple[Callable[[zipfile.ZipInfo], bool], str], ...] = (
    (_escapes, "lies outside of the wheel, or is no plain path"),
    (lambda member: not is_usual(member), "is packed in an unusual way"),
    (is_special, "is a link or a device"),
    (_is_whiteout, "would delete a file of another layer"),
)


# Wheels that replace files of other wheels. Which file stays depends on the order of installation,
# which differs between tools. Folders that bear the name of neither wheel (``tests``, ``cv2``,
# ``google``) are commonly shared, and are accepted.

_PURE = re.compile(r"^[^/]+\.data/(?:purelib|platlib)/")
_RECORD = re.compile(r"[^/]+\.dist-info/RECORD")
_CACHED_WHEELS = 512  # wheels, a few names each
_UNREADABLE = (zipfile.BadZipFile, OSError, ValueError, KeyError)


def refuse_overwriting(artifacts: Sequence[Artifact], wheels: Mapping[str, Path]) -> None:
    """Refuse a stack where a wheel holds a file of the package that another wheel is named after.

    Files of equal contents are accepted. Wheels that cannot be read are refused by ``unpack``.

    Args:
        artifacts: of the stack.
        wheels: their paths by sha256.

    Raises:
        BuildError: one wheel replaces a file of another; the message names both and the file.
    """
    paths = {each: wheels[each.sha256] for each in artifacts if each.sha256 in wheels}
    for owner, path in paths.items():
        name = _module(owner.name)
        for other, other_path in paths.items():
            if other is owner or name not in _top_level(other_path, other.sha256):
                continue
            theirs, own = _files(other_path, name), _files(path, name)
            replaced = sorted(
                file for file in theirs.keys() & own.keys() if theirs[file] != own[file]
            )
            if replaced:
                raise _overwriting(owner, other, replaced)


def _module(name: str) -> str:
    return canonicalize_name(name).replace("-", "_")


@lru_cache(maxsize=_CACHED_WHEELS)
def _top_level(wheel: Path, _sha256: str) -> frozenset[str]:
    """Return the names of the modules and packages at the top of a wheel, in lower case."""
    try:
        with zipfile.ZipFile(wheel) as archive:
            names = (_PURE.sub("", name).split("/", 1)[0] for name in archive.namelist())
            return frozenset(name.split(".", 1)[0].lower() for name in names)
    except _UNREADABLE:
        return frozenset()


def _files(wheel: Path, name: str) -> dict[str, str]:
    """Return the digests that RECORD states for the files of a package, by their places."""
    try:
        with zipfile.ZipFile(wheel) as archive:
            record = next(each for each in archive.namelist() if _RECORD.fullmatch(each))
            text = archive.read(record).decode("utf-8", errors="replace")
    except (*_UNREADABLE, StopIteration):
        return {}
    rows = ((_PURE.sub("", row[0]), row[1]) for row in csv.reader(io.StringIO(text)) if row[1:])
    return {
        file: digest
        for file, digest in rows
        if digest
        and not file.endswith(".pyc")
        and re.split(r"[/.]", file, maxsplit=1)[0].lower() == name
    }


def _overwriting(owner: Artifact, other: Artifact, replaced: Sequence[str]) -> BuildError:
    more = f" and {len(replaced) - 1} more files" if len(replaced) > 1 else ""
    return BuildError(
        f"{other.name} {other.version} would replace files of {owner.name} {owner.version}",
        why=f"both hold {replaced[0]}{more}, with different contents: which one runs depends on "
        "the order of installation",
        fix=f"leave out one of them, such as: {other.name}!={other.version}",
    )
