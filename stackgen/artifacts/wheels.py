"""Wheels on disk, found by what they are: each is downloaded once, verified, and kept."""

import contextlib
import errno
import hashlib
import io
import os
import re
import shutil
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import IO, TYPE_CHECKING, BinaryIO, Protocol
from urllib.parse import unquote, urlsplit

from stackgen.artifacts.wheel_check import check_wheel
from stackgen.errors import BuildError, StackgenError, StorageError
from stackgen.in_use import InUse
from stackgen.values import Artifact, ItemKind, StoreItem

if TYPE_CHECKING:
    from typing_extensions import Buffer  # The checker brings it.

if sys.platform != "win32":
    import fcntl

_PARALLEL = 8  # connections: few enough for an index that many share
_CHUNK = 1 << 20
_SHA256 = re.compile(r"[0-9a-f]{64}")
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)

# Called with an artifact and how many bytes of it are here; from several threads.
Progress = Callable[[Artifact, int], None]


class Downloader(Protocol):
    """Something that gets artifacts from where they are."""

    def download(self, artifact: Artifact, into: BinaryIO, *, start: int = 0) -> None:
        """Write an artifact's bytes from `start` on; where that cannot be, all of it from 0.

        Raises:
            StackgenError: it cannot be had.
            OSError: `into` cannot be written.
        """


class HashMismatchError(BuildError):
    """What an index hands out is not what it (or a lock) said it is."""


class WheelStore:
    """Artifacts below ``root/wheels``, verified and checked when they came.

    Several processes may share a store: each artifact is downloaded by one of them, and what was
    handed out is in use, so that nobody prunes it, until this object or its process ends.

    notify: is called with a sentence about each artifact that was damaged since.
    """

    def __init__(self, root: Path, *, notify: Callable[[str], None] | None = None) -> None:
        self._wheels = root / "wheels"
        self._in_use = InUse(self._wheels)
        self._notify = notify
        self._verified: dict[str, str] = {}

    def path(self, artifact: Artifact) -> Path | None:
        """Return where the artifact lies, under its own file name; None where it is not here."""
        place = self._place(artifact)
        try:
            size = place.stat().st_size
        except OSError:
            return None
        return place if artifact.size in (None, size) else None

    def missing(self, artifacts: Iterable[Artifact]) -> tuple[Artifact, ...]:
        """Return those that are not here, each once, in the order given."""
        distinct = {artifact.sha256: artifact for artifact in artifacts}
        return tuple(x for x in distinct.values() if self.path(x) is None)

    def fetch(
        self,
        artifacts: Iterable[Artifact],
        *,
        downloader: Downloader,
        progress: Progress | None = None,
    ) -> dict[str, Path]:
        """Get what is missing, several at a time; what was cut off before goes on where it stopped.

        What is here is compared with its digest, once as long as nobody touches the file; what was
        damaged comes again.

        Returns:
            The path of each artifact by its SHA-256.

        Raises:
            HashMismatchError: an artifact is not what it should be; nothing of it stays.
            BuildError: a wheel is unsafe or contradicts its own RECORD, or has no hash.
            StorageError: no room, the folder cannot be written, or what was damaged cannot be had
                again; what is whole stays.
            StackgenError: whatever the downloader says.
        """
        wanted = {artifact.sha256: artifact for artifact in artifacts}
        for sha256 in wanted:
            self._in_use.hold(sha256)
        self._require_room(self.missing(wanted.values()))
        wanting = [each for each in wanted.values() if not self._is_as_verified(each)]
        stop = threading.Event()

        def get(artifact: Artifact) -> None:
            def tell_bytes(count: int) -> None:
                if stop.is_set():
                    raise _StoppedError
                if progress:
                    progress(artifact, count)

            self._get(artifact, downloader, tell_bytes)

        # The largest first: it takes longest, and the small ones pass beside it.
        _in_parallel(get, sorted(wanting, key=lambda artifact: -(artifact.size or 0)), stop)
        places = {sha256: self._place(artifact) for sha256, artifact in wanted.items()}
        for place in places.values():
            with contextlib.suppress(OSError):  # Not ours to write; the least used go first.
                os.utime(place.parent)  # not the file: uv unpacks anew what was touched
        return places

    def is_whole(self, artifact: Artifact) -> bool:
        """Return whether an artifact is here with the content that it should have."""
        return self._is_as_verified(artifact) or self._is_verified(artifact)

    def any_damaged(self, artifacts: Iterable[Artifact]) -> bool:
        """Return whether an artifact is damaged or gone, by its content, whenever it was verified.

        The next ``fetch`` gets it again.
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
            with contextlib.suppress(FileNotFoundError):  # Somebody prunes, too.
                for file in list(path.iterdir()) if path.is_dir() else (path,):
                    if file.suffix != ".lock":
                        yield _item(kind, file)

    def drop(self, item: StoreItem, *, dry_run: bool = False) -> bool:
        """Remove an item that nobody else uses; return whether it is (or would be) gone.

        Raises:
            StorageError: the folder cannot be written.
        """
        path = Path(item.path)
        own = path.parent if item.kind is ItemKind.WHEEL else path.with_suffix("")
        try:
            with self._in_use.claimed(own.name) as claimed:
                if claimed and not dry_run:
                    path.unlink(missing_ok=True)
                    # Whoever waits for the lock or makes the folder uses the artifact.
                    own.with_suffix(".lock").unlink(missing_ok=True)
                    with contextlib.suppress(OSError):
                        own.rmdir()
                return claimed
        except OSError as error:
            raise _unwritable(self._wheels, f"remove {item.name} from", error) from error

    def left_over(self, *, remove: bool = False) -> tuple[Path, ...]:
        """Return (and remove) what killed processes left that nobody can go on with."""
        found = []
        for folder in sorted(filter(_is_empty, self._wheels.glob("??/*"))):
            with self._in_use.claimed(folder.name) as claimed:
                if claimed and _is_empty(folder):
                    found.append(folder)
                    if remove:
                        folder.rmdir()
        return tuple(found)

    def _get(
        self, artifact: Artifact, downloader: Downloader, tell_bytes: Callable[[int], None]
    ) -> None:
        place = self._place(artifact)
        part = place.parent.with_suffix(".part")
        try:
            part.parent.mkdir(parents=True, exist_ok=True)
            with _alone(place.parent.with_suffix(".lock")):
                if self.is_whole(artifact):  # Another process may have been faster.
                    return
                damaged = place.exists()
                if damaged and self._notify:
                    self._notify(
                        f"The cache was damaged: {artifact.filename} is not what was downloaded; "
                        "it is fetched again."
                    )
                try:
                    _complete(artifact, part, downloader, tell_bytes)
                except StackgenError as error:
                    if not damaged:
                        raise
                    raise _irreplaceable(artifact, place, error) from error
                _move(part, place)
                self._remember(artifact, _look(place))
        except OSError as error:
            if error.errno in _NO_ROOM:
                needed = max(artifact.size or 0, _size(part))
                part.unlink(missing_ok=True)
                raise _no_room([artifact], needed, self._wheels, str(error)) from error
            raise _unwritable(self._wheels, f"keep {artifact.filename} in", error) from error

    def _is_as_verified(self, artifact: Artifact) -> bool:
        """Return whether nobody touched a file since its content was verified, here or before.

        The lock beside it says what the file looked like then.
        """
        place = self._place(artifact)
        if self.path(artifact) is None:
            return False
        if artifact.sha256 not in self._verified:
            with contextlib.suppress(OSError, ValueError):
                lock = place.parent.with_suffix(".lock")
                self._verified[artifact.sha256] = lock.read_text(encoding="ascii")
        return self._verified.get(artifact.sha256) == _look(place)

    def _is_verified(self, artifact: Artifact) -> bool:
        """Compare the content of a file with its digest, and remember where they agree."""
        place = self._place(artifact)
        look = _look(place)
        try:
            with place.open("rb") as file:
                whole = _sha256(file) == artifact.sha256 and _look(place) == look
        except FileNotFoundError:
            return False
        self._remember(artifact, look if whole else "")
        return whole

    def _remember(self, artifact: Artifact, look: str) -> None:
        place = self._place(artifact)
        self._verified[artifact.sha256] = look
        with contextlib.suppress(OSError):  # Not ours to write; another process verifies it anew.
            place.parent.with_suffix(".lock").write_text(look, encoding="ascii")

    def _place(self, artifact: Artifact) -> Path:
        """Return where an artifact belongs. Hash and name come from an index: trust neither."""
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

    def _require_room(self, missing: Sequence[Artifact]) -> None:
        parts = sum(_size(self._place(x).parent.with_suffix(".part")) for x in missing)
        needed = sum(artifact.size or 0 for artifact in missing) - parts
        existing = next(x for x in (self._wheels, *self._wheels.parents) if x.exists())
        free = shutil.disk_usage(existing).free
        if needed > free:
            raise _no_room(missing, needed, self._wheels, f"only {_mb(free)} are free")


def _complete(
    artifact: Artifact, part: Path, downloader: Downloader, tell_bytes: Callable[[int], None]
) -> None:
    """Make `part` the whole, verified artifact.

    A wrong hash is tried once more from nothing where an earlier, partial download or a cut that
    nobody noticed may be to blame; a wrong hash twice is the index's own.
    """
    resumed = part.exists()
    actual = _fill(artifact, part, downloader, tell_bytes)
    truncated = artifact.size is not None and part.stat().st_size < artifact.size
    if actual != artifact.sha256 and (resumed or truncated):
        part.unlink()
        actual = _fill(artifact, part, downloader, tell_bytes)
    try:
        _verify(artifact, part, actual)
    except BuildError:
        part.unlink()
        raise


def _fill(
    artifact: Artifact, part: Path, downloader: Downloader, tell_bytes: Callable[[int], None]
) -> str:
    """Get the rest of an artifact into `part`; return the SHA-256 of all of it."""
    part.touch()
    with _Counted(part, tell_bytes) as file:
        local = _local_path(artifact)
        start = file.seek(0, os.SEEK_END)
        if start and (digest := _sha256(file)) == artifact.sha256:
            return digest  # The last run was stopped between the download and its end.
        if local is None:
            downloader.download(artifact, file, start=start)
        else:
            # A copy, not a link: what its owner does to the original must not reach the store.
            file.truncate(file.seek(0))
            with local.open("rb") as source:
                shutil.copyfileobj(source, file, _CHUNK)
        return _sha256(file)


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
    """Another download failed, or the user wants to stop: this one need not go on."""


class _Counted(io.BufferedRandom):
    """A file that tells how far it was written."""

    def __init__(self, path: Path, tell_bytes: Callable[[int], None]) -> None:
        super().__init__(io.FileIO(path, "r+"))
        self._tell_bytes = tell_bytes

    def write(self, chunk: "Buffer") -> int:
        """Write the chunk, then tell."""
        written = super().write(chunk)
        self._tell_bytes(self.tell())
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


@contextlib.contextmanager
def _alone(path: Path) -> Iterator[None]:
    """Keep other threads and processes from the same artifact meanwhile."""
    with path.open("a") as lock:
        if sys.platform != "win32":
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _local_path(artifact: Artifact) -> Path | None:
    parts = urlsplit(artifact.url)
    if parts.scheme != "file":
        return None
    path = Path(unquote(parts.path))
    if not path.is_file():
        raise BuildError(
            f"{path} is not there",
            why="the wheel was moved or removed since it was listed",
            fix="put it back, or run the command again",
        )
    return path


def _sha256(file: IO[bytes]) -> str:
    digest = hashlib.sha256()
    file.seek(0)
    while chunk := file.read(_CHUNK):
        digest.update(chunk)
    return digest.hexdigest()


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


def _unwritable(folder: Path, action: str, error: OSError) -> StorageError:
    return StorageError(
        f"cannot {action} {folder}",
        why=str(error),
        fix="make the folder writable, or name another one in STACKGEN_CACHE",
    )


def _look(path: Path) -> str:
    """Return what changes whenever somebody writes to a file or replaces it; "" where none is."""
    try:
        status = path.stat()
    except OSError:
        return ""
    # The time of change cannot be set: tools that copy times along change it, too.
    return f"{status.st_size} {status.st_mtime_ns} {status.st_ctime_ns} {status.st_ino}"


def _irreplaceable(artifact: Artifact, place: Path, error: StackgenError) -> StorageError:
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


def _no_room(artifacts: Sequence[Artifact], needed: int, folder: Path, why: str) -> StorageError:
    more = " or more" if any(artifact.size is None for artifact in artifacts) else ""
    return StorageError(
        f"no room for {len(artifacts)} wheel(s) of {_mb(needed)}{more} in {folder}",
        why=why,
        fix="run: stackgen images prune --keep SIZE; or put STACKGEN_CACHE elsewhere",
    )


def _mb(size: int) -> str:
    return f"{size / 1e6:,.1f} MB"
