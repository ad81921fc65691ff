"""Content-addressed store of wheels: each one is downloaded once, verified, and cached."""

import base64
import contextlib
import copy
import csv
import errno
import hashlib
import io
import lzma
import os
import posixpath
import re
import shutil
import stat
import struct
import sys
import threading
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Protocol

from stackgen.errors import BuildError, StackgenError, StorageError
from stackgen.model.packages import Artifact
from stackgen.model.reports.images import ItemKind, StoreItem
from stackgen.storage.files import (
    CHUNK_BYTES,
    DISK_FULL,
    exclusive,
    file_sha256,
    free_bytes,
    path_of,
    storage_error,
    stream_sha256,
)
from stackgen.storage.leases import Leases

if TYPE_CHECKING:
    from typing_extensions import Buffer  # The checker brings it.


# Safety of a wheel, checked once before it is used

RECORD = re.compile(r"[^/]+\.dist-info/RECORD")
_DRIVE = re.compile(r"[A-Za-z]:")
# The skeleton of an environment: a wheel that replaced these would choose the interpreter.
_OWN = re.compile(r"pyvenv\.cfg|bin/(python|pypy)[0-9.]*", re.IGNORECASE)
_DATA = re.compile(r"^[^/]+\.data/(data|scripts)/")
_PARTS = ("purelib", "platlib", "scripts", "headers", "data")
_PLACES = {"data": "", "scripts": "bin/"}
_ALGORITHMS = ("sha256", "sha384", "sha512")
_LARGEST_RECORD = 64 << 20
_SIGNATURES = ("RECORD", "RECORD.jws", "RECORD.p7s")  # of the files listed, so not listed itself
MOST_UNPACKED, MOST_RATIO, SMALL_UNPACKED = 32 << 30, 100, 256 << 20
"""A wheel may unpack to 32 GiB, and to 100 times its size where that is more than 256 MiB.

Of a thousand wheels of an index, none unpacks to more than 18 times its size; the largest, PyTorch
with its CUDA libraries, to some gigabytes and 4 times.
"""
UNREADABLE = (
    *(zipfile.BadZipFile, zlib.error, lzma.LZMAError, EOFError, NotImplementedError),
    *(RuntimeError, ValueError, KeyError, IndexError, struct.error, OverflowError, MemoryError),
)
"""What zipfile raises over bytes that are no zip archive, a broken or an encrypted one."""


def check_wheel(path: Path, *, name: str = "") -> None:
    """Check a wheel: a valid zip, no member outside its prefix, all contents as in its RECORD.

    All members are read and hashed, which takes about a second for 100 MB.

    name: for errors, where the file has a temporary name.

    Raises:
        BuildError: the wheel is invalid; the message names file and member.
    """
    shown = name or path.name
    try:
        with zipfile.ZipFile(path) as wheel:
            _check_size(shown, path.stat().st_size, wheel.infolist())
            _check_names(shown, wheel.infolist())
            recorded = _recorded(shown, wheel)
            for member in wheel.infolist():
                algorithm, digest = recorded.get(member.filename, ("", b""))
                if _digest(shown, wheel, member, algorithm) != digest:
                    raise _refusal(shown, f"{member.filename} differs from what its RECORD says")
    except UNREADABLE as error:
        raise _refusal(shown, f"it is not a readable zip file: {error}") from error
    except OSError as error:
        if error.errno != errno.EINVAL:  # a place before the beginning of the file
            raise
        raise _refusal(shown, f"it is not a readable zip file: {error}") from error


def misplaced(name: str) -> str:
    """Return why a member cannot be unpacked because of its name; "" where it can."""
    is_rooted = name.startswith("/") or _DRIVE.match(name) is not None
    if is_rooted or "\\" in name or "\0" in name or ".." in name.split("/"):
        return "would be written outside the prefix"
    plain = name.removesuffix("/")
    if "\n" in name or posixpath.normpath(plain) != plain or plain == ".":
        return "is no plain path"
    return ""


def is_special(member: zipfile.ZipInfo) -> bool:
    """Return whether a member is anything but a file or a folder: a link, a device, a pipe."""
    return stat.S_IFMT(member.external_attr >> 16) not in (0, stat.S_IFREG, stat.S_IFDIR)


def unplaced(name: str, data_dir: str) -> bool:
    """Return whether a member below a wheel's data folder belongs to no part of an environment.

    installer 1.1 never comes back from a file that bears the name of that folder.
    """
    head, *rest = name.split("/")
    return head == data_dir and not name.endswith("/") and (len(rest) < 2 or rest[0] not in _PARTS)


def is_usual(member: zipfile.ZipInfo) -> bool:
    """Return whether a member has a usual compression; others may need gigabytes of memory."""
    encrypted = member.flag_bits & 0x1
    return member.compress_type in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED) and not encrypted


def replaces_interpreter(place: str) -> bool:
    """Return whether a path, relative to an environment, is part of the environment itself."""
    return _OWN.fullmatch(place) is not None


def _check_size(shown: str, size: int, members: list[zipfile.ZipInfo]) -> None:
    unpacked = sum(member.file_size for member in members)
    most = min(MOST_UNPACKED, max(SMALL_UNPACKED, MOST_RATIO * size))
    if unpacked > most:
        raise _refusal(
            shown,
            f"its {_mb(size)} would unpack to {_mb(unpacked)}; a wheel of this size "
            f"may unpack to {_mb(most)}",
        )


def _check_names(shown: str, members: list[zipfile.ZipInfo]) -> None:
    seen: dict[str, int] = {}
    for member in members:
        # ZipInfo cuts at a NUL and turns separators of this system into slashes.
        name = member.orig_filename
        if wrong := misplaced(name):
            raise _refusal(shown, f"its member {name!r} {wrong}")
        if not is_usual(member):
            raise _refusal(shown, f"its member {name!r} is packed in an unusual way")
        if is_special(member):
            raise _refusal(shown, f"its member {name!r} is a link or a device")
        if replaces_interpreter(_DATA.sub(lambda found: _PLACES[found[1]], name)):
            raise _refusal(shown, f"its member {name!r} would replace the interpreter")
        if seen.setdefault(name, member.CRC) != member.CRC:
            raise _refusal(shown, f"it holds {name!r} twice, with different contents")


def _recorded(shown: str, wheel: zipfile.ZipFile) -> dict[str, tuple[str, bytes]]:
    """Return algorithm and digest of each member; RECORD has to list all of them."""
    records = [x for x in wheel.infolist() if RECORD.fullmatch(x.filename)]
    if len(records) != 1 or records[0].file_size > _LARGEST_RECORD:
        raise _refusal(shown, f"it holds {len(records)} RECORD files; a wheel has one")
    infos = {head for x in wheel.namelist() if (head := x.split("/")[0]).endswith(".dist-info")}
    if len(infos) != 1:
        raise _refusal(shown, f"it speaks for {len(infos)} packages: {', '.join(sorted(infos))}")
    present = {member.filename for member in wheel.infolist() if not member.is_dir()}
    text = wheel.read(records[0]).decode("utf-8", errors="replace")
    # Lines without a file are harmless: wheels are known to list byte code that they lack.
    found = {
        name: (algorithm, digest)
        for name, algorithm, digest in read_record(text)
        if name in present and algorithm in _ALGORITHMS
    }
    (info,) = infos
    data_dir = f"{info.removesuffix('.dist-info')}.data"
    for name in sorted(present):
        if unplaced(name, data_dir):
            raise _refusal(shown, f"its member {name!r} belongs to no part of an environment")
    unlisted = present - found.keys() - {f"{info}/{name}" for name in _SIGNATURES}
    if unlisted:
        raise _refusal(shown, f"its RECORD states no digest of {min(unlisted)}")
    return found


def _rows(text: str) -> Iterator[list[str]]:
    with contextlib.suppress(csv.Error):
        yield from csv.reader(io.StringIO(text))


def read_record(text: str) -> Iterator[tuple[str, str, bytes]]:
    """Yield file, algorithm and digest of each line of a RECORD.

    The algorithm is "" where none is stated, and the digest empty where it is invalid. What follows
    a line that is no CSV (a field of more than 128 KiB) is left out: no digest of it is stated.
    """
    for row in _rows(text):
        name, stated = (*row, "", "")[:2]
        algorithm, _, encoded = stated.partition("=")
        bare = encoded.rstrip("=")  # URL-safe base64, without padding
        try:
            yield name, algorithm, base64.urlsafe_b64decode(bare + "=" * (-len(bare) % 4))
        except ValueError:
            yield name, algorithm, b""


def _digest(shown: str, wheel: zipfile.ZipFile, member: zipfile.ZipInfo, algorithm: str) -> bytes:
    """Return the digest of a member; empty where no algorithm is stated for it.

    Unpacking tools write all that a member holds, whatever size it declares: zipfile would stop
    there, so one byte more is requested.
    """
    digest = hashlib.new(algorithm or "sha256")
    longer = copy.copy(member)
    longer.file_size += 1
    size = 0
    with wheel.open(longer) as content:
        while chunk := content.read(CHUNK_BYTES):
            size += len(chunk)
            digest.update(chunk)
    if size > member.file_size:
        declared = f"the {member.file_size} bytes that it declares"
        raise _refusal(shown, f"its member {member.filename!r} unpacks to more than {declared}")
    return digest.digest() if algorithm else b""


def _refusal(shown: str, why: str) -> BuildError:
    return BuildError(
        f"the wheel {shown} is not safe to unpack",
        why=why,
        fix="exclude this release, and report it to its authors",
    )


_PARALLEL = 8  # connections: few enough for an index that many share
_SHA256 = re.compile(r"[0-9a-f]{64}")
_DISK_FULL = DISK_FULL | {errno.EFBIG}

# Called with an artifact and the number of its bytes so far; from several threads.
DownloadProgress = Callable[[Artifact, int], None]


class Downloader(Protocol):
    """Downloads artifacts."""

    def download(self, artifact: Artifact, into: BinaryIO, *, start: int = 0) -> None:
        """Write an artifact's bytes from `start` on, or all of it where that is impossible.

        Raises:
            StackgenError: the download failed.
            OSError: `into` cannot be written.
        """


_COMPILED = 2.4  # bytes for each byte of Python source


class HashMismatchError(BuildError):
    """A downloaded file does not have the digest that the index or the lock states."""


class WheelStore:
    """Artifacts below ``root/wheels``, verified after their download.

    Several processes may share a store: each artifact is downloaded by one of them. This object has
    leases on the artifacts that it returned.

    notify: is called with a sentence about each damaged artifact.
    """

    def __init__(self, root: Path, *, notify: Callable[[str], None] | None = None) -> None:
        self._wheels = root / "wheels"
        self._leases = Leases(self._wheels)
        self._notify = notify
        self._verified: dict[str, str] = {}

    def path(self, artifact: Artifact) -> Path | None:
        """Return the path of an artifact, which has its own file name; None where it is missing."""
        place = self._place(artifact)
        try:
            size = place.stat().st_size
        except OSError:
            return None
        return place if artifact.size in (None, size) else None

    def missing(self, artifacts: Iterable[Artifact]) -> tuple[Artifact, ...]:
        """Return the artifacts that are not in the store, each once, in the order given."""
        distinct = {artifact.sha256: artifact for artifact in artifacts}
        return tuple(x for x in distinct.values() if self.path(x) is None)

    def fetch(
        self,
        artifacts: Iterable[Artifact],
        *,
        downloader: Downloader,
        progress: DownloadProgress | None = None,
    ) -> dict[str, Path]:
        """Download missing artifacts, several at a time, and resume interrupted downloads.

        Artifacts in the store are compared with their digests once, and again after any change of
        the file; damaged ones are downloaded again.

        Returns:
            The path of each artifact by its SHA-256.

        Raises:
            HashMismatchError: an artifact has another digest; it is removed.
            BuildError: a wheel is unsafe or contradicts its own RECORD, or has no hash.
            StorageError: the disk is full, the folder cannot be written, or a damaged artifact
                cannot be downloaded again.
            StackgenError: the download failed.
        """
        wanted = {artifact.sha256: artifact for artifact in artifacts}
        for sha256 in wanted:
            self._leases.hold(sha256)
        self._require_disk_space(self.missing(wanted.values()))
        wanting = [each for each in wanted.values() if not self._is_as_verified(each)]
        stop = threading.Event()

        def get(artifact: Artifact) -> None:
            def report_bytes(count: int) -> None:
                if stop.is_set():
                    raise _StoppedError
                if progress:
                    progress(artifact, count)

            self._fetch_one(artifact, downloader, report_bytes)

        # The largest first: it takes longest, and the small ones pass beside it.
        _in_parallel(get, sorted(wanting, key=lambda artifact: -(artifact.size or 0)), stop)
        places = {sha256: self._place(artifact) for sha256, artifact in wanted.items()}
        for place in places.values():
            with contextlib.suppress(OSError):  # Not ours to write; the least used go first.
                os.utime(place.parent)  # not the file: uv unpacks anew what was touched
        return places

    def is_whole(self, artifact: Artifact) -> bool:
        """Return whether an artifact is in the store and undamaged."""
        return self._is_as_verified(artifact) or self._is_verified(artifact)

    def any_damaged(self, artifacts: Iterable[Artifact]) -> bool:
        """Return whether an artifact is damaged or gone; all contents are read.

        The next ``fetch`` downloads it again.
        """
        whole = []
        for artifact in artifacts:
            self._verified.pop(artifact.sha256, None)
            whole.append(self._is_verified(artifact))
        return not all(whole)

    def items(self) -> Iterator[StoreItem]:
        """Yield wheels and unfinished downloads, in no order."""
        for path in self._wheels.glob("??/*"):
            kind = ItemKind.UNFINISHED if path.suffix == ".part" else ItemKind.WHEEL
            with contextlib.suppress(FileNotFoundError):  # another process evicts, too
                for file in list(path.iterdir()) if path.is_dir() else (path,):
                    if file.suffix != ".lock":
                        yield _item(kind, file)

    def drop(self, item: StoreItem, *, dry_run: bool = False) -> bool:
        """Remove an item without a lease; return whether it is (or would be) removed.

        Raises:
            StorageError: the folder cannot be written.
        """
        path = Path(item.path)
        own = path.parent if item.kind is ItemKind.WHEEL else path.with_suffix("")
        try:
            with self._leases.claim(own.name) as claimed:
                if claimed and not dry_run:
                    path.unlink(missing_ok=True)
                    # A process that waits for the lock has a lease on the artifact.
                    own.with_suffix(".lock").unlink(missing_ok=True)
                    with contextlib.suppress(OSError):
                        own.rmdir()
                return claimed
        except OSError as error:
            raise storage_error(f"cannot remove {item.name} from {self._wheels}", error) from error

    def leftovers(self, *, remove: bool = False) -> tuple[Path, ...]:
        """Return (and remove) empty folders that killed processes left."""
        found = []
        for folder in sorted(filter(_is_empty, self._wheels.glob("??/*"))):
            with self._leases.claim(folder.name) as claimed:
                if claimed and _is_empty(folder):
                    found.append(folder)
                    if remove:
                        folder.rmdir()
        return tuple(found)

    def _fetch_one(
        self, artifact: Artifact, downloader: Downloader, report_bytes: Callable[[int], None]
    ) -> None:
        place = self._place(artifact)
        part = place.parent.with_suffix(".part")
        try:
            part.parent.mkdir(parents=True, exist_ok=True)
            with exclusive(place.parent.with_suffix(".lock")):
                if self.is_whole(artifact):  # Another process may have been faster.
                    return
                damaged = place.exists()
                if damaged and self._notify:
                    self._notify(
                        f"The cache was damaged: {artifact.filename} is not what was downloaded; "
                        "it is fetched again."
                    )
                try:
                    _complete(artifact, part, downloader, report_bytes)
                except StackgenError as error:
                    if not damaged:
                        raise
                    raise _not_replaceable(artifact, place, error) from error
                _move(part, place)
                self._remember(artifact, _signature(place))
        except OSError as error:
            if error.errno in _DISK_FULL:
                needed = max(artifact.size or 0, _size(part))
                part.unlink(missing_ok=True)
                raise _disk_full([artifact], needed, self._wheels, str(error)) from error
            raise storage_error(
                f"cannot store {artifact.filename} in {self._wheels}", error
            ) from error

    def _is_as_verified(self, artifact: Artifact) -> bool:
        """Return whether a file is unchanged since its content was verified.

        The lock file beside it holds size, times and inode at that moment.
        """
        place = self._place(artifact)
        if self.path(artifact) is None:
            return False
        if artifact.sha256 not in self._verified:
            with contextlib.suppress(OSError, ValueError):
                lock = place.parent.with_suffix(".lock")
                self._verified[artifact.sha256] = lock.read_text(encoding="ascii")
        return self._verified.get(artifact.sha256) == _signature(place)

    def _is_verified(self, artifact: Artifact) -> bool:
        """Compare the content of a file with its digest, and remember where they agree."""
        place = self._place(artifact)
        signature = _signature(place)
        try:
            whole = file_sha256(place) == artifact.sha256 and _signature(place) == signature
        except FileNotFoundError:
            return False
        self._remember(artifact, signature if whole else "")
        return whole

    def _remember(self, artifact: Artifact, signature: str) -> None:
        place = self._place(artifact)
        self._verified[artifact.sha256] = signature
        with contextlib.suppress(OSError):  # Not ours to write; another process verifies it anew.
            place.parent.with_suffix(".lock").write_text(signature, encoding="ascii")

    def _place(self, artifact: Artifact) -> Path:
        """Return the path for an artifact. Digest and name come from an index: trust neither."""
        name = artifact.filename
        if not _SHA256.fullmatch(artifact.sha256):
            raise BuildError(
                f"{name} cannot be verified",
                why=f"the index {artifact.index} states no SHA-256 for it",
                fix="take this package from an index that states hashes",
            )
        if Path(name).name != name or name in (".", "..") or "\\" in name or "\0" in name:
            raise BuildError(
                f"{name!r} is no file name",
                why="it would lead out of the store",
                fix=f"do not trust the index {artifact.index}",
            )
        return self._wheels / artifact.sha256[:2] / artifact.sha256 / name

    def _require_disk_space(self, missing: Sequence[Artifact]) -> None:
        parts = sum(_size(self._place(x).parent.with_suffix(".part")) for x in missing)
        needed = sum(artifact.size or 0 for artifact in missing) - parts
        free = free_bytes(self._wheels)
        if needed > free:
            raise _disk_full(missing, needed, self._wheels, f"only {_mb(free)} are free")


def installed_bytes(wheel: zipfile.ZipFile) -> int:
    """Return the disk space of a wheel's members once they are installed, with their bytecode.

    Bytecode takes .7 to 1.3 times its source; the rest is what small files waste.
    """
    return sum(
        round(member.file_size * (_COMPILED if member.filename.endswith(".py") else 1.0))
        for member in wheel.infolist()
    )


def _complete(
    artifact: Artifact, part: Path, downloader: Downloader, report_bytes: Callable[[int], None]
) -> None:
    """Download an artifact into `part` and verify it.

    After a resumed or truncated download, a wrong digest leads to one more download from the
    start; a second wrong digest is the fault of the index.
    """
    resumed = part.exists()
    actual = _fill(artifact, part, downloader, report_bytes)
    truncated = artifact.size is not None and part.stat().st_size < artifact.size
    if actual != artifact.sha256 and (resumed or truncated):
        part.unlink()
        actual = _fill(artifact, part, downloader, report_bytes)
    try:
        _verify(artifact, part, actual)
    except BuildError:
        part.unlink()
        raise


def _fill(
    artifact: Artifact, part: Path, downloader: Downloader, report_bytes: Callable[[int], None]
) -> str:
    """Download the rest of an artifact into `part`; return the SHA-256 of the whole file."""
    part.touch()
    with _Counted(part, report_bytes) as file:
        local = _local_path(artifact)
        start = file.seek(0, os.SEEK_END)
        if start and (digest := _digest_from_start(file)) == artifact.sha256:
            return digest  # The last run was stopped between the download and its end.
        if local is None:
            downloader.download(artifact, file, start=start)
        else:
            # A copy, not a link: what its owner does to the original must not reach the store.
            file.truncate(file.seek(0))
            with local.open("rb") as source:
                shutil.copyfileobj(source, file, CHUNK_BYTES)
        return _digest_from_start(file)


def _digest_from_start(file: BinaryIO) -> str:
    file.seek(0)
    return stream_sha256(file)


def _verify(artifact: Artifact, part: Path, actual: str) -> None:
    if actual != artifact.sha256:
        size = part.stat().st_size
        raise HashMismatchError(
            f"{artifact.filename} is not the file that {artifact.index} announced",
            why=f"SHA-256 {actual} ({size} bytes) instead of {artifact.sha256}",
            fix="try again later; if it stays so, do not trust this index",
        )
    if artifact.is_wheel:
        check_wheel(part, name=artifact.filename)


def _move(part: Path, place: Path) -> None:
    """Put a verified file where it belongs; what is there survives a power cut."""
    place.parent.mkdir(exist_ok=True)
    with part.open("r+b") as file:
        os.fsync(file.fileno())
    part.replace(place)
    for folder in (place.parent, place.parent.parent):
        _sync(folder)


def _sync(folder: Path) -> None:
    """Make a rename in this folder last through a power cut."""
    if sys.platform != "win32":  # There, a folder cannot be opened.
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


class _StoppedError(Exception):
    """Another download failed, or the user interrupts: this one stops."""


class _Counted(io.BufferedRandom):
    """A file that reports its position after each write."""

    def __init__(self, path: Path, report_bytes: Callable[[int], None]) -> None:
        super().__init__(io.FileIO(path, "r+"))
        self._report_bytes = report_bytes

    def write(self, chunk: "Buffer") -> int:
        """Write the chunk, then report."""
        written = super().write(chunk)
        self._report_bytes(self.tell())
        return written


def _in_parallel(
    get: Callable[[Artifact], None], missing: Sequence[Artifact], stop: threading.Event
) -> None:
    """Get all; a failure or Ctrl-C stops what is under way and cancels the rest."""
    with ThreadPoolExecutor(_PARALLEL, thread_name_prefix="wheels") as pool:
        waiting = [pool.submit(get, artifact) for artifact in missing]
        try:
            for future in as_completed(waiting):
                future.result()
        except BaseException:
            stop.set()
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def _local_path(artifact: Artifact) -> Path | None:
    path = path_of(artifact.url)
    if path is not None and not path.is_file():
        raise BuildError(
            f"{path} is not there",
            why="the wheel was moved or removed since it was listed",
            fix="put it back, or run the command again",
        )
    return path


def _is_empty(folder: Path) -> bool:
    try:
        return not any(folder.iterdir())
    except (FileNotFoundError, NotADirectoryError):
        return False


def _item(kind: ItemKind, path: Path) -> StoreItem:
    status = path.stat()
    unfinished = kind is ItemKind.UNFINISHED
    return StoreItem(
        kind=kind,
        name=path.name[:12] if unfinished else path.name,
        path=str(path),
        size=status.st_size,
        used_at=(status if unfinished else path.parent.stat()).st_mtime,
    )


def _signature(path: Path) -> str:
    """Return a signature that changes with each write or replacement; "" where no file is."""
    try:
        status = path.stat()
    except OSError:
        return ""
    # The time of change cannot be set: tools that copy times along change it, too.
    return f"{status.st_size} {status.st_mtime_ns} {status.st_ctime_ns} {status.st_ino}"


def _not_replaceable(artifact: Artifact, place: Path, error: StackgenError) -> StorageError:
    return StorageError(
        f"the cached file {place} is damaged",
        why=f"its SHA-256 is not {artifact.sha256}, and it cannot be fetched again: {error.what}: "
        f"{error.why}",
        fix=f"run the same command again where {artifact.index} answers, or put a sound copy there",
    )


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0


def _disk_full(artifacts: Sequence[Artifact], needed: int, folder: Path, why: str) -> StorageError:
    more = " or more" if any(artifact.size is None for artifact in artifacts) else ""
    return StorageError(
        f"no room for {len(artifacts)} wheel(s) of {_mb(needed)}{more} in {folder}",
        why=why,
        fix="run: stackgen images prune --keep SIZE; or put STACKGEN_CACHE elsewhere",
    )


def _mb(size: int) -> str:
    return f"{size / 1e6:,.1f} MB"
