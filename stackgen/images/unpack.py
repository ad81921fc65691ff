"""Write wheels as layers, and refuse invalid ones and those that replace files of others."""

import base64
import configparser
import contextlib
import errno
import hashlib
import io
import lzma
import os
import posixpath
import re
import stat
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import IO, TYPE_CHECKING, BinaryIO, cast

from installer import install
from installer.destinations import SchemeDictionaryDestination
from installer.exceptions import InstallerError
from installer.records import Hash, InvalidRecordEntry, RecordEntry, parse_record_file
from installer.scripts import Script
from installer.sources import WheelFile
from installer.utils import Scheme, parse_entrypoints
from packaging.utils import canonicalize_name

from stackgen.errors import BuildError
from stackgen.images.bytecode import TEST_MODULE
from stackgen.images.layers import STACK_PYTHON, Layer
from stackgen.model.packages import Artifact, Lock
from stackgen.model.reports.campaigns import UNKNOWN_SIZE, StackSize
from stackgen.storage.files import CHUNK_BYTES
from stackgen.storage.wheels import (
    RECORD,
    WheelStore,
    is_special,
    is_usual,
    misplaced,
    read_record,
    replaces_interpreter,
    unplaced,
)

if TYPE_CHECKING:
    from installer.scripts import ScriptSection

# Layers as tar files, whose bytes depend only on names and contents of their members

# 1980: zip archives, which some packages make of their own files, know nothing earlier.
_MTIME = 315532800
_END = bytes(2 * tarfile.BLOCKSIZE)
_LONGEST = 255  # bytes of a name on the disks where stacks run
_USTAR = struct.Struct("100s8s8s8s12s12s8s1s100s8s32s32s8s8s155s12x")


class LayerTar:
    """Writes a layer: members in the order of their addition, each after the folders above it.

    Names are relative to the root of the image, in normal form.
    """

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._digest = hashlib.sha256()
        self._size = 0
        self._end = _END
        self._folders: set[str] = set()
        self._files: set[str] = set()

    def add(self, name: str, content: bytes, *, executable: bool = False) -> None:
        """Add a file."""
        self._require_free(name)
        padding = bytes(-len(content) % tarfile.BLOCKSIZE)
        header = _header(name, tarfile.REGTYPE, len(content), executable=executable)
        self._write(header + content + padding)

    def copy(self, name: str, source: IO[bytes], size: int, *, executable: bool = False) -> bytes:
        """Add a file of that size; return its SHA-256.

        Raises:
            ValueError: it has another size.
        """
        digest = hashlib.sha256()
        if size <= CHUNK_BYTES:
            content = source.read(CHUNK_BYTES + 1)
            digest.update(content)
            if len(content) != size:
                raise ValueError(f"{name} does not have the {size} bytes that it declares")
            self.add(name, content, executable=executable)
            return digest.digest()
        self._require_free(name)
        self._write(_header(name, tarfile.REGTYPE, size, executable=executable))
        copied = 0
        while chunk := source.read(CHUNK_BYTES):
            digest.update(chunk)
            self._write(chunk)
            copied += len(chunk)
        if copied != size:
            raise ValueError(f"{name} does not have the {size} bytes that it declares")
        self._write(bytes(-size % tarfile.BLOCKSIZE))
        return digest.digest()

    def add_entry(self, entry: tarfile.TarInfo, source: IO[bytes] | None = None) -> None:
        """Add a folder, a link or a file as it is in another tar."""
        if entry.isdir():
            self._require_folder(entry.name)
        elif source is not None:
            executable = bool(entry.mode & stat.S_IXUSR)
            self.copy(entry.name, source, entry.size, executable=executable)
        else:
            self._require_free(entry.name)
            self._write(_plain_entry(entry).tobuf(tarfile.PAX_FORMAT, "utf-8", "surrogateescape"))

    def copy_layer(self, source: IO[bytes]) -> None:
        """Take over a complete layer, as it is."""
        while chunk := source.read(CHUNK_BYTES):
            self._write(chunk)
        self._end = b""

    def finish(self, path: Path) -> Layer:
        """Write the end; ``path`` is where the tar will be found later."""
        self._write(self._end)
        self._file.flush()
        return Layer(path=path, diff_id=f"sha256:{self._digest.hexdigest()}", size=self._size)

    def _write(self, content: bytes) -> None:
        self._digest.update(content)
        self._size += len(content)
        self._file.write(content)

    def _require_free(self, name: str) -> None:
        """Add the folders above a new member; an engine refuses a layer that names a file twice."""
        if name in self._files or name in self._folders:
            raise ValueError(f"{name} is in this layer twice")
        folder, _, last = name.rpartition("/")
        if len(os.fsencode(last)) > _LONGEST:
            raise ValueError(f"{last[:40]}... is longer than a file name may be")
        if folder:
            self._require_folder(folder)
        self._files.add(name)

    def _require_folder(self, name: str) -> None:
        if name in self._folders:
            return
        self._require_free(name)
        self._files.remove(name)
        self._folders.add(name)
        self._write(_header(name, tarfile.DIRTYPE, 0, executable=True))


def _header(name: str, kind: bytes, size: int, *, executable: bool) -> bytes:
    """Return the header of a member: plain ustar, written here for its speed, if that can hold it.

    Source: POSIX.1-1988, ustar interchange format.
    """
    place = f"{name}/" if kind == tarfile.DIRTYPE else name
    cut = place.find("/", len(place) - 101) if len(place) > 100 else -1
    prefix, name_part = (place[:cut], place[cut + 1 :]) if cut > 0 else ("", place)
    mode = 0o755 if executable else 0o644
    fits = len(prefix) <= 155 and 0 < len(name_part) <= 100 and size < 1 << 33
    if not (fits and place.isascii()):
        entry = tarfile.TarInfo(name)
        entry.type, entry.size, entry.mode = kind, size, mode
        return _plain_entry(entry).tobuf(tarfile.PAX_FORMAT, "utf-8", "surrogateescape")
    fields = [
        *(name_part.encode(), b"%07o" % mode, b"0000000", b"0000000", b"%011o" % size),
        *(b"%011o" % _MTIME, b" " * 8, kind, b"", b"ustar\x0000", b"", b"", b"", b""),
        prefix.encode(),
    ]
    fields[6] = b"%06o\0 " % sum(_USTAR.pack(*fields))
    return _USTAR.pack(*fields)


def _plain_entry(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    """Return a member without owner, time, or the permissions of a umask."""
    entry.uid = entry.gid = 0
    entry.uname = entry.gname = ""
    entry.mtime = _MTIME
    executable = entry.isdir() or entry.issym() or entry.mode & stat.S_IXUSR
    entry.mode = 0o755 if executable else 0o644
    return entry


def merge(parts: Sequence[Layer], tar: LayerTar) -> None:
    """Merge layers into one with the members of all; later layers replace members of earlier ones.

    A file in place of a folder takes away all that was in it, as it would in a layer of its own.
    """
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
            tar.add_entry(entry, archive.extractfile(entry) if entry.isreg() else None)


def _forget_below(folder: str, chosen: dict[str, tuple[tarfile.TarInfo, tarfile.TarFile]]) -> None:
    for name in [name for name in chosen if name.startswith(f"{folder}/")]:
        del chosen[name]


# Wheels into layers

# Exceptions of the libraries for a damaged wheel, or a file that is no wheel.
_DAMAGED = (
    *(zipfile.BadZipFile, zlib.error, EOFError, InstallerError, InvalidRecordEntry),
    *(ValueError, KeyError, AssertionError, NotImplementedError, configparser.Error),
    *(FileExistsError, NotADirectoryError, IsADirectoryError),
    *(lzma.LZMAError, struct.error, IndexError, RuntimeError, OverflowError),
)
_BAD_NAMES = (errno.ENAMETOOLONG, errno.EILSEQ, errno.EINVAL)


class _WithoutCopies(WheelFile):
    """A wheel without its bytecode and without scripts of its entry points: both are generated.

    suffix: of the files that count.
    """

    def __init__(self, archive: zipfile.ZipFile, suffix: str = "") -> None:
        super().__init__(archive)
        self.members = archive.namelist()
        self._archive, self._suffix = archive, suffix

    def get_contents(self) -> Iterator[tuple[tuple[str, str, str], BinaryIO, bool]]:
        """Yield all other files, in the order of the wheel.

        Old wheels have a script for each entry point, which imports packages that are not required:
        pip and uv skip it.
        """
        scripts = {f"{self.data_dir}/scripts/{name}" for name in self._entry_points()}
        for member in self._archive.infolist():
            path = member.filename
            if member.is_dir() or path in scripts or not path.endswith(self._suffix):
                continue
            if "__pycache__" in path.split("/")[:-1]:
                continue
            mode = member.external_attr >> 16
            with self._archive.open(member) as stream:
                executable = stat.S_ISREG(mode) and bool(mode & 0o111)
                yield (path, "", ""), cast("BinaryIO", stream), executable

    def _entry_points(self) -> Iterator[str]:
        if "entry_points.txt" in self.dist_info_filenames:
            text = self.read_dist_info("entry_points.txt")
            yield from (name for name, _, _, _ in parse_entrypoints(text))


class _Destination(SchemeDictionaryDestination):
    """Refuses paths outside of a stack, and files of the stack itself."""

    def place(self, scheme: Scheme, path: str) -> str:
        """Return where a file lies, relative to the stack's folder."""
        target = posixpath.normpath(posixpath.join(self.scheme_dict[scheme], path))
        place = target.removeprefix(f"{self.scheme_dict['data']}/")
        if place.startswith(("/", "..")):
            raise ValueError(f"{path} would lie outside of the stack")
        if replaces_interpreter(place):
            raise ValueError(f"{path} would replace a file of the stack itself")
        return place


class _SourceFolder(_Destination):
    """Writes Python sources below a folder, where they lie in a stack."""

    def __init__(self, scheme: dict[str, str], folder: Path) -> None:
        super().__init__(scheme, STACK_PYTHON, "posix")
        self._root = f"{folder}{self.scheme_dict['data']}"
        self._folders: set[str] = set()

    def write_to_fs(
        self, scheme: Scheme, path: str, stream: BinaryIO, is_executable: bool
    ) -> RecordEntry:
        """Write a source, if it gets bytecode; of a member that a wheel has twice, the last."""
        del is_executable
        place = self.place(scheme, path)
        if not TEST_MODULE.search(f"/{place}"):
            target = f"{self._root}/{place}"
            folder = posixpath.dirname(target)
            if folder not in self._folders:
                os.makedirs(folder, exist_ok=True)  # noqa: PTH103 # one of thousands of calls
                self._folders.add(folder)
            with open(target, "wb") as file:  # noqa: PTH123
                file.write(stream.read())
        return RecordEntry(path, None, None)

    def write_script(
        self, name: str, module: str, attr: str, section: "ScriptSection"
    ) -> RecordEntry:
        """Write nothing: the script of an entry point has no suffix, and no bytecode."""
        del module, attr, section
        return RecordEntry(name, None, None)

    def finalize_installation(
        self, scheme: Scheme, record_file_path: str, records: Iterable[tuple[Scheme, RecordEntry]]
    ) -> None:
        """Write no RECORD."""


class _LayerDestination(_Destination):
    """Writes the files of a wheel into a layer, and compares them with the wheel's RECORD.

    sizes: of the wheel's members.
    """

    def __init__(
        self,
        scheme: dict[str, str],
        tar: LayerTar,
        promised: Mapping[str, RecordEntry],
        sizes: Mapping[str, int],
    ) -> None:
        super().__init__(scheme, STACK_PYTHON, "posix")
        self.tar, self.promised, self.sizes = tar, promised, sizes
        self._written: dict[str, Hash | None] = {}
        self._scripts: dict[str, tuple[str, bytes]] = {}

    def write_to_fs(
        self, scheme: Scheme, path: str, stream: BinaryIO, is_executable: bool
    ) -> RecordEntry:
        """Write a file; a wheel may hold it twice if both are equal."""
        place = self.place(scheme, path)
        name = f"{self.scheme_dict['data']}/{place}".lstrip("/")
        size = self.sizes.get(str(getattr(stream, "name", "")))
        if scheme == "scripts":
            # They are written at the end: of duplicates, the last one counts, as elsewhere.
            content = stream.read()
            self._scripts[place] = name, content
            return RecordEntry(path, _hash(hashlib.sha256(content).digest()), len(content))
        if place in self._written:
            content = stream.read()
            entry = RecordEntry(path, _hash(hashlib.sha256(content).digest()), len(content))
            if entry.hash_ != self._written[place]:
                raise ValueError(f"{path} would be written twice, with different contents")
            return entry
        if size is None:
            stream = io.BytesIO(content := stream.read())
            size = len(content)
        digest = self.tar.copy(name, stream, size, executable=is_executable)
        self._written[place] = hashed = _hash(digest)
        return RecordEntry(path, hashed, size)

    def write_file(
        self,
        scheme: Scheme,
        path: "str | os.PathLike[str]",
        stream: BinaryIO,
        is_executable: bool,
    ) -> RecordEntry:
        """Write a file of the wheel and compare its digest."""
        entry = super().write_file(scheme, path, stream, is_executable)
        promised = self.promised.get(str(getattr(stream, "name", "")))
        if scheme == "scripts" or promised is None or promised.hash_ is None:
            return entry  # the first line of a script is replaced
        if promised.hash_.name == "sha256" and promised.hash_ != entry.hash_:
            raise ValueError(f"{path} does not match its digest in RECORD")
        return entry

    def write_script(
        self, name: str, module: str, attr: str, section: "ScriptSection"
    ) -> RecordEntry:
        """Write the script of an entry point."""
        script, content = Script(name, module, attr, section).generate(STACK_PYTHON, "posix")
        return self.write_to_fs(Scheme("scripts"), script, io.BytesIO(content), True)

    def finalize_installation(
        self, scheme: Scheme, record_file_path: str, records: Iterable[tuple[Scheme, RecordEntry]]
    ) -> None:
        """Write the scripts, and RECORD."""
        for place, (name, content) in self._scripts.items():
            if place in self._written:
                raise ValueError(f"{place} would be written twice")
            self.tar.add(name, content, executable=True)
        super().finalize_installation(scheme, record_file_path, records)


def _hash(digest: bytes) -> Hash:
    return Hash("sha256", base64.urlsafe_b64encode(digest).rstrip(b"=").decode("ascii"))


def unpack_sources(
    artifact: Artifact, wheel: Path, folder: Path, *, prefix: str, site: str
) -> None:
    """Write the Python sources of a wheel below ``folder``, as if that were the root.

    Arguments and errors: as of ``unpack``; digests are not compared.
    """
    with _refusals(artifact), _opened(artifact, wheel) as archive:
        source = _WithoutCopies(archive, suffix=".py")
        install(source, _SourceFolder(_scheme(source, prefix, site), folder), {})


def unpack(artifact: Artifact, wheel: Path, tar: LayerTar, *, prefix: str, site: str) -> None:
    """Write the files of a wheel into a layer, without bytecode.

    Args:
        artifact: with the wheel's file name.
        wheel: the file, under any name.
        tar: the layer.
        prefix: of the stack, such as ``/opt/stack``.
        site: folder of its packages, such as ``/opt/stack/lib/python3.11/site-packages``.

    Raises:
        BuildError: the wheel is damaged, contradicts its RECORD, or has paths outside of the stack.
        OSError: the disk is full or cannot be written.
    """
    with _refusals(artifact), _opened(artifact, wheel) as archive:
        source = _WithoutCopies(archive)
        record = source.read_dist_info("RECORD").splitlines()
        promised = {row[0]: RecordEntry.from_elements(*row) for row in parse_record_file(record)}
        sizes = {member.filename: member.file_size for member in archive.infolist()}
        scheme = _scheme(source, prefix, site)
        install(source, _LayerDestination(scheme, tar, promised, sizes), {})


@contextlib.contextmanager
def _opened(artifact: Artifact, wheel: Path) -> Iterator[zipfile.ZipFile]:
    with zipfile.ZipFile(wheel) as archive:
        archive.filename = artifact.filename
        _refuse_members(archive.infolist())
        yield archive


@contextlib.contextmanager
def _refusals(artifact: Artifact) -> Iterator[None]:
    """Explain what is wrong with a wheel."""
    try:
        yield
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


def stack_size(lock: Lock, store: WheelStore) -> StackSize:
    """Return the exact sizes of a stack from its wheels on disk; None where one is not there."""
    paths = [store.path(each) if each.is_wheel else None for each in lock.artifacts]
    files = [each for each in paths if each is not None]
    if len(files) < len(paths):
        return UNKNOWN_SIZE
    return StackSize(
        download_bytes=sum(each.stat().st_size for each in files),
        installed_bytes=sum(unpacked_size(each) for each in files),
    )


def _scheme(source: _WithoutCopies, prefix: str, site: str) -> dict[str, str]:
    for name in source.members:
        if unplaced(name, source.data_dir):
            raise ValueError(f"{name!r} belongs to no part of an environment")
    minor = posixpath.basename(posixpath.dirname(site))
    return {
        "purelib": site,
        "platlib": site,
        "scripts": f"{prefix}/bin",
        "headers": f"{prefix}/include/site/{minor}/{canonicalize_name(source.distribution)}",
        "data": prefix,
    }


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


def _files(wheel: Path, name: str) -> dict[str, tuple[str, bytes]]:
    """Return the digests that RECORD states for the files of a package, by their places."""
    try:
        with zipfile.ZipFile(wheel) as archive:
            record = next(each for each in archive.namelist() if RECORD.fullmatch(each))
            text = archive.read(record).decode("utf-8", errors="replace")
    except (*_UNREADABLE, StopIteration):
        return {}
    stated = {
        _PURE.sub("", file): (algorithm, digest)
        for file, algorithm, digest in read_record(text)
        if digest and not file.endswith(".pyc")
    }
    return {x: stated[x] for x in stated if re.split(r"[/.]", x, maxsplit=1)[0].lower() == name}


def _overwriting(owner: Artifact, other: Artifact, replaced: Sequence[str]) -> BuildError:
    more = f" and {len(replaced) - 1} more files" if len(replaced) > 1 else ""
    return BuildError(
        f"{other.name} {other.version} would replace files of {owner.name} {owner.version}",
        why=f"both hold {replaced[0]}{more}, with different contents: which one runs depends on "
        "the order of installation",
        fix=f"leave out one of them, such as: {other.name}!={other.version}",
    )
