"""What artifacts require: from the cache, the index, a part of the wheel, or all of it."""

import hashlib
import io
import re
import struct
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import IO, TYPE_CHECKING, Protocol
from urllib.parse import urlsplit, urlunsplit

from packaging.utils import canonicalize_name

from stackgen.errors import IndexUnavailableError
from stackgen.index.pages import NO_METADATA, SOME_METADATA
from stackgen.index.replies import IndexAccess, Reply, ReplyTooLargeError, as_done
from stackgen.model.packages import Artifact, BuildSystem, Metadata
from stackgen.storage.files import file_sha256, path_of, stream_sha256

if TYPE_CHECKING:
    from email.message import Message


_ENTRY = re.compile(rb"PK\x01\x02(.{42})[^/\x00]{1,200}\.dist-info/METADATA", re.DOTALL)
_FIELDS = struct.Struct("<6H3I5H2I")
_ENTRY_SIZE = 46
_LENGTHS = struct.Struct("<28x3H")  # Of the name and of two fields behind it, in an entry.
_LOCAL = struct.Struct("<26x2H")
_START = struct.Struct("<16xI")  # Of the directory, in the record that ends a zip file.
_END = b"PK\x05\x06"
_ENDS = (_END, b"PK\x06\x06")
_LARGEST = 1 << 24
_HEAD = 1 << 14
_LOCAL_EXTRA = 512  # More than a local header has beyond its name.
_STORED, _DEFLATED = 0, 8
UNREADABLE = "unreadable metadata"
"""Begins the reason why a file counts as without metadata though it may have some."""

Read = Callable[[int, int], bytes]
"""Returns the wheel's bytes from a first position up to and without a second, or to its end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """Where METADATA lies in a wheel; `start` and `end` bound all that is needed of it."""

    start: int
    end: int
    packed: int
    unpacked: int
    crc: int
    method: int


def read_through(tail: bytes, read: Read) -> tuple[bytes, int] | None:
    """Return METADATA and its place in the wheel; None where the whole directory is needed.

    tail: the last bytes of the wheel.
    """
    member = _in_tail(tail) or _in_head(tail, read)
    content = None if member is None else _unpack(member, read(member.start, member.end))
    return None if member is None or content is None else (content, member.start)


def _in_tail(tail: bytes) -> Member | None:
    for match in _ENTRY.finditer(tail):
        *_, last = _entries(tail, match.start())
        if tail[last : last + len(_END)] in _ENDS:
            return _member(match)
    return None


def _in_head(tail: bytes, read: Read) -> Member | None:
    end = tail.rfind(_END)
    if end < 0 or end + _START.size > len(tail):
        return None
    start: int = _START.unpack_from(tail, end)[0]
    head = read(start, start + _HEAD)
    found = (_ENTRY.match(head, place) for place in _entries(head, 0))
    return next((_member(match) for match in found if match), None)


def _entries(directory: bytes, place: int) -> Iterator[int]:
    """Yield where each entry of a directory begins, from one of them on, and where they end."""
    yield place
    while directory.startswith(b"PK\x01\x02", place) and place + _ENTRY_SIZE <= len(directory):
        place += _ENTRY_SIZE + sum(_LENGTHS.unpack_from(directory, place))
        yield place


def _member(entry: re.Match[bytes]) -> Member | None:
    fields = _FIELDS.unpack(entry[1])
    method, crc, packed, unpacked, name, start = (fields[k] for k in (3, 6, 7, 8, 9, 15))
    if name != len(entry[0]) - _ENTRY_SIZE or method not in (_STORED, _DEFLATED):
        return None
    if max(packed, unpacked) > _LARGEST:
        return None  # An entry whose true sizes stand elsewhere (zip64) looks larger than that.
    end = start + _LOCAL.size + name + _LOCAL_EXTRA + packed
    return Member(start=start, end=end, packed=packed, unpacked=unpacked, crc=crc, method=method)


def _unpack(member: Member, stored: bytes) -> bytes | None:
    """Return the content of a member; None where these are not its bytes."""
    if not stored.startswith(b"PK\x03\x04") or len(stored) < _LOCAL.size:
        return None
    begin = _LOCAL.size + sum(_LOCAL.unpack_from(stored))
    content = stored[begin : begin + member.packed]
    if member.method == _DEFLATED:
        try:
            content = zlib.decompressobj(-zlib.MAX_WBITS).decompress(content, member.unpacked)
        except zlib.error:
            return None
    whole = len(content) == member.unpacked and zlib.crc32(content) == member.crc
    return content if whole else None


_AT_LEAST = 1 << 14


class RangeFile(io.RawIOBase):
    """A read-only, seekable view of a remote file, for zipfile.

    Args:
        size: of the whole file, bytes.
        tail: its last bytes, already fetched: a zip keeps its directory there.
        fetch: returns the bytes from a first position up to and without a second.
    """

    def __init__(self, *, size: int, tail: bytes, fetch: Callable[[int, int], bytes]) -> None:
        self.size = size
        self._fetch = fetch
        self._position = 0
        self._blocks = [(size - len(tail), tail)]

    def readable(self) -> bool:
        """Return True."""
        return True

    def seekable(self) -> bool:
        """Return True."""
        return True

    def tell(self) -> int:
        """Return the position, bytes from the start."""
        return self._position

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Move, and fetch nothing yet."""
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self.size}[whence]
        if base + offset < 0:
            raise OSError("seek before the start of a remote file")
        self._position = base + offset
        return self._position

    def readinto(self, buffer: memoryview | bytearray) -> int:  # type: ignore[override]
        """Fill the buffer, fetching what is not at hand."""
        end = min(self._position + len(buffer), self.size)
        if end <= self._position:
            return 0
        part = self._bytes(self._position, end)
        buffer[: len(part)] = part
        self._position += len(part)
        return len(part)

    def part(self, start: int, end: int) -> bytes:
        """Return the bytes from a first position up to and without a second, or to the end."""
        end = min(end, self.size)
        return self._bytes(start, end) if start < end else b""

    def _bytes(self, start: int, end: int) -> bytes:
        for first, block in self._blocks:
            if first <= start and end <= first + len(block):
                return block[start - first : end - first]
        block = self._fetch(start, min(max(end, start + _AT_LEAST), self.size))
        self._blocks.append((start, block))
        return block[: end - start]


LARGEST = 16 << 20
"""So many bytes of metadata are read, and no more: those of real projects have some kilobytes."""

_MEMBER = re.compile(r"[^/]+\.dist-info/METADATA")


class UnusableMetadataError(ValueError):
    """A file is not a wheel, or does not say what it requires; the message says which."""


def parse_metadata(content: bytes, *, name: str) -> Metadata:
    """Keep Requires-Dist and Requires-Python; every other field may be as wrong as it likes.

    Raises:
        UnusableMetadataError: this is not the metadata of that project.
    """
    return requirements(parse_headers(content, name=name))


def parse_headers(content: bytes, *, name: str) -> "Message":
    """Return the fields of METADATA or PKG-INFO, without the prose behind them.

    Raises:
        UnusableMetadataError: this is not the metadata of that project.
    """
    from email.parser import HeaderParser

    headers, _, _ = content.replace(b"\r\n", b"\n").partition(b"\n\n")
    message = HeaderParser().parsestr(headers.decode("utf-8", errors="replace"))
    stated = _line(message["Name"])
    if stated is None or canonicalize_name(stated) != name:
        raise UnusableMetadataError(f"its metadata name {stated or 'no project'}, not {name}")
    return message


def requirements(message: "Message") -> Metadata:
    """Return the fields that resolution needs."""
    lines = (_line(value) for value in message.get_all("Requires-Dist", []))
    return Metadata(
        requires_dist=tuple(line for line in lines if line),
        requires_python=_line(message["Requires-Python"]) or None,
    )


def read_wheel(file: IO[bytes], *, name: str) -> Metadata:
    """Read what a wheel requires in its METADATA.

    Raises:
        UnusableMetadataError: the wheel is no zip file, or holds no METADATA of that project.
    """
    return requirements(wheel_headers(file, name=name))


def wheel_headers(file: IO[bytes], *, name: str) -> "Message":
    """Return the fields of a wheel's METADATA.

    Raises:
        UnusableMetadataError: the wheel is no zip file, or holds no METADATA of that project.
    """
    import zipfile

    from stackgen.storage.wheels import UNREADABLE

    try:
        with zipfile.ZipFile(file) as wheel:
            members = [x for x in wheel.infolist() if _MEMBER.fullmatch(x.filename)]
            if len(members) != 1:
                raise UnusableMetadataError(f"it has {len(members)} METADATA files")
            check_size("METADATA", members[0].file_size)
            content = wheel.read(members[0])
    except UnusableMetadataError:
        raise
    except UNREADABLE as error:
        raise UnusableMetadataError(f"it is not a readable zip file: {error}") from error
    return parse_headers(content, name=name)


def check_size(what: str, size: int) -> None:
    """Refuse a file of more than `LARGEST` bytes.

    Raises:
        UnusableMetadataError: it is too large.
    """
    if size > LARGEST:
        raise UnusableMetadataError(
            f"its {what} is too large: {size / (1 << 20):.1f} MiB, "
            f"and no more than {LARGEST >> 20} MiB are read"
        )


def _line(value: object) -> str | None:
    """Return a header on one line: a long one may be folded over several."""
    return None if value is None else " ".join(str(value).split())


_FARTHEST = 1 << 30  # So much is unpacked in search of PKG-INFO, and no more.
_PKG_INFO = re.compile(r"(?:\./)?[^/]+/PKG-INFO")
_PYPROJECT = re.compile(r"(?:\./)?[^/]+/pyproject\.toml")
_STATIC = (2, 2)  # From this version of the metadata on, what is not called dynamic is final.

UNSAID = "only a source distribution fits, and its metadata need a build (--allow-build NAME)"


class SilentSdistError(UnusableMetadataError):
    """A source distribution is sound, and does not say what it requires."""


def read_sdist(file: IO[bytes], *, filename: str, name: str) -> Metadata:
    """Read the PKG-INFO of a source distribution (PEP 643).

    Raises:
        SilentSdistError: it may require anything: only a build shows it.
        UnusableMetadataError: it cannot be read, or belongs to another project.
    """
    content = _first_member(file, filename, _PKG_INFO)
    if content is None:
        raise SilentSdistError(UNSAID)
    message = parse_headers(content, name=name)
    dynamic = {str(field).strip().lower() for field in message.get_all("Dynamic", [])}
    if _version(str(message["Metadata-Version"])) < _STATIC or "requires-dist" in dynamic:
        raise SilentSdistError(UNSAID)
    return requirements(message)


def read_build_system(file: IO[bytes], *, filename: str) -> BuildSystem:
    """Read what a source distribution needs to be built (PEP 518); without a word, setuptools.

    Raises:
        UnusableMetadataError: its pyproject.toml cannot be read, or does not say it properly.
    """
    from stackgen.model import toml

    content = _first_member(file, filename, _PYPROJECT)
    try:
        document = toml.loads((content or b"").decode("utf-8"))
    except ValueError as error:
        raise UnusableMetadataError(f"its pyproject.toml cannot be read: {error}") from error
    table = document.get("build-system")
    if table is None:
        return BuildSystem(requires=("setuptools>=40.8", "wheel"))
    if not isinstance(table, dict) or "requires" not in table:
        raise UnusableMetadataError("its pyproject.toml does not say what building it requires")
    backend = table.get("build-backend", "")
    if not isinstance(backend, str):
        raise UnusableMetadataError("its pyproject.toml names no readable build backend")
    return BuildSystem(
        requires=_texts(table["requires"]),
        backend=backend,
        backend_path=_texts(table.get("backend-path", [])),
    )


def _texts(found: object) -> tuple[str, ...]:
    if isinstance(found, list) and all(isinstance(each, str) for each in found):
        return tuple(found)
    raise UnusableMetadataError("its pyproject.toml does not list texts where it should")


def _first_member(file: IO[bytes], filename: str, wanted: re.Pattern[str]) -> bytes | None:
    """Return the first member of that name, or None where there is none.

    Raises:
        UnusableMetadataError: it is no archive that can be read.
    """
    import tarfile

    from stackgen.storage.wheels import UNREADABLE

    try:
        file.seek(0)
        return _of_zip(file, wanted) if filename.endswith(".zip") else _of_tar(file, wanted)
    except UnusableMetadataError:
        raise
    except (*UNREADABLE, tarfile.TarError, OSError) as error:
        raise UnusableMetadataError(f"it is not a readable archive: {error}") from error


def _of_tar(file: IO[bytes], wanted: re.Pattern[str]) -> bytes | None:
    import tarfile

    with tarfile.open(fileobj=file, mode="r:gz") as archive:
        for member in archive:
            if member.offset > _FARTHEST:
                break
            if member.isfile() and wanted.fullmatch(member.name):
                check_size(member.name, member.size)
                content = archive.extractfile(member)
                return b"" if content is None else content.read()
    return None


def _of_zip(file: IO[bytes], wanted: re.Pattern[str]) -> bytes | None:
    import zipfile

    with zipfile.ZipFile(file) as archive:
        for member in archive.infolist():
            if wanted.fullmatch(member.filename):
                check_size(member.filename, member.file_size)
                return archive.read(member)
    return None


def _version(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d{1,9}", text)[:2])


_OK, _PARTIAL = 200, 206
_TAIL, _LONGEST_TAIL = 1 << 16, 1 << 18
_BATCH = 64
# So many wheels in a row without a metadata file beside them, and no more are requested. Where a
# project has never had one, those under way count, too. After many wheels that were
# read in part it may be worth another try: an index may have metadata files of later releases only.
_ENOUGH_OF_NEW, _ENOUGH_OF_KNOWN, _ENOUGH_OF_HOST = 2, 4, 32
_WORTH_ANOTHER = 24


def artifact_key(artifact: Artifact) -> str:
    """Return what identifies an artifact: its SHA-256, or its URL where an index states none."""
    return artifact.sha256 or artifact.url


class MetadataBuilder(Protocol):
    """Builds the metadata of source distributions that do not declare them."""

    def key(self, artifact: Artifact) -> str:
        """Return what identifies a build, such as its Python; "" where none is allowed."""

    def build(self, artifact: Artifact, file: Path) -> Metadata:
        """Return what a source distribution requires.

        Raises:
            UnusableMetadataError: it cannot be built; the message says why.
        """


class MetadataReader:
    """Reads metadata.

    announced: returns what a page states of the metadata file beside a wheel ("": nothing).
    defects: why an artifact has no usable metadata, by its key.
    """

    def __init__(
        self,
        access: IndexAccess,
        announced: Callable[[Artifact], str],
        builder: MetadataBuilder | None,
    ) -> None:
        self.defects: dict[str, str] = {}
        self._builder = builder
        self._building = Lock()
        self._access = access
        self._announced = announced
        self._known: dict[str, Metadata] = {}
        # By host and project ("" for all projects): how many metadata files in a row were missing,
        # how many are under way, how many wheels were read in part, and whether there ever
        # was a metadata file.
        self._missing: Counter[tuple[str, str]] = Counter()
        self._asking: Counter[tuple[str, str]] = Counter()
        self._parts: Counter[tuple[str, str]] = Counter()
        self._serving: set[tuple[str, str]] = set()
        # How many last bytes hold METADATA and the directory, by project, where that is many.
        self._tails: dict[str, int] = {}

    def read(self, artifacts: Iterable[Artifact]) -> dict[str, Metadata]:
        """Return the metadata of each artifact by its key; defective ones are left out.

        Raises:
            IndexUnavailableError: an index cannot be read, or it is offline and the cache lacks
                an entry.
        """
        wanted = {artifact_key(artifact): artifact for artifact in artifacts}
        unknown = [key for key in wanted if key not in self._known and key not in self.defects]
        self._known |= self._access.cache.metadata(unknown)
        missing = [wanted[key] for key in unknown if key not in self._known]
        silent = self._access.cache.silent([x.sha256 for x in missing if not x.is_wheel])
        silent = self._with_builds(missing, silent)
        self.defects |= silent
        missing = [each for each in missing if artifact_key(each) not in self._known]
        missing = [each for each in missing if artifact_key(each) not in self.defects]
        if self._access.config.offline:
            _require_local(missing)
        self._fetch(missing)
        return {key: self._known[key] for key in wanted if key in self._known}

    def _fetch(self, missing: list[Artifact]) -> None:
        batch: dict[str, Metadata] = {}
        try:
            for artifact, result in as_done(self._access.pool, self._read_or_explain, missing):
                key = artifact_key(artifact)
                if isinstance(result, str):
                    self.defects[key] = result
                else:
                    self._known[key] = result
                    # What was built is cached under its own key: it may depend on the Python.
                    built = not artifact.is_wheel and bool(self._build_key(artifact))
                    batch |= {key: result} if artifact.sha256 and not built else {}
                if len(batch) >= _BATCH:
                    self._access.cache.keep_metadata(batch)
                    batch = {}
        finally:
            self._access.cache.keep_metadata(batch)

    def _read_or_explain(self, artifact: Artifact) -> Metadata | str:
        """Return the metadata, or why there are none. Runs in a thread of the pool."""
        try:
            return self._read(artifact)
        except SilentSdistError as error:
            self._access.cache.keep_silent({artifact.sha256: str(error)} if artifact.sha256 else {})
            return self._built(artifact) if self._build_key(artifact) else str(error)
        except (UnusableMetadataError, OSError) as error:
            return f"{UNREADABLE}: {error}"

    def _build_key(self, artifact: Artifact) -> str:
        """Return what a build of metadata is cached under; "" where none is allowed."""
        found = self._builder.key(artifact) if self._builder and artifact.sha256 else ""
        return f"{artifact.sha256} {found}" if found else ""

    def _with_builds(self, missing: Iterable[Artifact], silent: dict[str, str]) -> dict[str, str]:
        """Take what was built before; return what stays without metadata, and why."""
        keys = {x.sha256: self._build_key(x) for x in missing if x.sha256 in silent}
        keys = {sha256: key for sha256, key in keys.items() if key}
        built = self._access.cache.metadata(list(keys.values()))
        failed = self._access.cache.silent(list(keys.values()))
        self._known |= {sha256: built[key] for sha256, key in keys.items() if key in built}
        reasons = {sha256: failed[key] for sha256, key in keys.items() if key in failed}
        return {sha256: why for sha256, why in silent.items() if sha256 not in keys} | reasons

    def _built(self, artifact: Artifact) -> Metadata | str:
        """Build the metadata of a source distribution, or say why that failed; once for good."""
        from tempfile import TemporaryDirectory

        assert self._builder is not None  # noqa: S101 # it gave the key
        key = self._build_key(artifact)
        with self._building, TemporaryDirectory(prefix="stackgen-") as folder:
            file = Path(folder) / artifact.filename
            with file.open("wb") as target:
                self._fetch_whole(artifact, target)
            try:
                if file_sha256(file) != artifact.sha256:
                    raise UnusableMetadataError("its content does not have the hash that is stated")
                found = self._builder.build(artifact, file)
            except UnusableMetadataError as error:
                reason = f"its metadata cannot be built: {error}"
                self._access.cache.keep_silent({key: reason})
                return reason
        self._access.cache.keep_metadata({key: found})
        return found

    def _fetch_whole(self, artifact: Artifact, target: IO[bytes]) -> None:
        path = path_of(artifact.url)
        if path is not None:
            target.write(path.read_bytes())
        else:
            self._access.transport().download(artifact.url, target)

    def _read(self, artifact: Artifact) -> Metadata:
        path = path_of(artifact.url)
        if path is not None:
            with path.open("rb") as file:
                return _content(file, artifact)
        if not artifact.is_wheel:
            return self._from_whole(artifact)
        found = self._from_file(artifact)
        return found or self._from_part(artifact) or self._from_whole(artifact)

    def _from_file(self, artifact: Artifact) -> Metadata | None:
        """Read the metadata file beside the artifact, verified where its digest is known."""
        word = self._announced(artifact)
        host = urlsplit(artifact.url).netloc
        if not host or word == NO_METADATA or not (word or self._is_worth_a_try(artifact, host)):
            return None
        project = (host, artifact.name)
        self._asking[project] += 1
        try:
            reply = self._access.transport().get(_beside(artifact.url), most_bytes=LARGEST)
        except ReplyTooLargeError as error:
            raise UnusableMetadataError(
                f"the metadata file beside it is not read: {error}"
            ) from error
        finally:
            self._asking[project] -= 1
        if reply.status != _OK:
            self._missing.update(() if word else ((host, ""), project))
            return None
        if word not in ("", SOME_METADATA) and hashlib.sha256(reply.body).hexdigest() != word:
            return None
        try:
            found = parse_metadata(reply.body, name=artifact.name)
        except UnusableMetadataError:
            return None  # A page of apologies with status 200, say: the wheel itself knows.
        self._missing[project] = 0
        self._serving |= {project, (host, "")}
        return found

    def _is_worth_a_try(self, artifact: Artifact, host: str) -> bool:
        """Return whether an index that announces nothing may yet have a metadata file."""
        project, everyone = (host, artifact.name), (host, "")
        if everyone not in self._serving and self._missing[everyone] >= _ENOUGH_OF_HOST:
            return False
        more = self._parts[project] // _WORTH_ANOTHER
        if project in self._serving:
            return self._missing[project] < _ENOUGH_OF_KNOWN + more
        return self._missing[project] + self._asking[project] < _ENOUGH_OF_NEW + more

    def _from_part(self, artifact: Artifact) -> Metadata | None:
        """Read METADATA through range requests; None where the server does not answer them well."""
        try:
            return self._from_ranges(artifact)
        except ReplyTooLargeError:
            return None

    def _from_ranges(self, artifact: Artifact) -> Metadata | None:
        self._parts[urlsplit(artifact.url).netloc, artifact.name] += 1
        found = self._remote(artifact)
        if found is None:
            return None
        remote, tail = found
        try:
            if (member := read_through(tail, remote.part)) is not None:
                self._learn(artifact.name, remote.size - member[1])
                return parse_metadata(member[0], name=artifact.name)
            return read_wheel(io.BufferedReader(remote), name=artifact.name)
        except UnusableMetadataError:
            return None  # Either the ranges were wrong or the wheel is: all of it will show that.

    def _remote(self, artifact: Artifact) -> tuple["RangeFile", bytes] | None:
        """Return a wheel at a server, with its last bytes; None where it sends no parts.

        Raises:
            UnusableMetadataError: the server does not have it.
        """
        length = self._tails.get(artifact.name, _TAIL)
        tail = self._access.transport().get_range(artifact.url, f"-{length}")
        self._access.transport().check(tail)
        if tail.status not in (_OK, _PARTIAL, 416, 501):
            raise UnusableMetadataError(f"the server said {tail.status} for it")
        size = _whole_size(tail)
        if tail.status != _PARTIAL or size is None:
            return None

        def fetch(start: int, end: int) -> bytes:
            if end - start > LARGEST:
                raise ReplyTooLargeError(LARGEST)
            return self._access.transport().get_range(artifact.url, f"{start}-{end - 1}").body

        return RangeFile(size=size, tail=tail.body, fetch=fetch), tail.body

    def installed_size(self, wheel: Artifact) -> int | None:
        """Return the bytes of a wheel once it is installed, from the directory at its end.

        None where no part of it can be read: the caller estimates.
        """
        import zipfile

        from stackgen.storage.wheels import installed_bytes

        try:
            found = self._remote(wheel)
            if found is None:
                return None
            with zipfile.ZipFile(io.BufferedReader(found[0])) as archive:
                return installed_bytes(archive)
        except (ReplyTooLargeError, zipfile.BadZipFile, NotImplementedError, ValueError, OSError):
            return None

    def _learn(self, name: str, needed: int) -> None:
        """Request as many last bytes of the project's other wheels as would have been enough."""
        if _TAIL < needed <= _LONGEST_TAIL:
            self._tails[name] = min(needed + _TAIL // 4, _LONGEST_TAIL)

    def _from_whole(self, artifact: Artifact) -> Metadata:
        from tempfile import TemporaryFile

        with TemporaryFile() as file:
            self._access.transport().download(artifact.url, file)
            file.seek(0)
            if artifact.sha256 and stream_sha256(file) != artifact.sha256:
                raise UnusableMetadataError("its content does not have the hash that is stated")
            return _content(file, artifact)


def _content(file: IO[bytes], artifact: Artifact) -> Metadata:
    if artifact.is_wheel:
        return read_wheel(file, name=artifact.name)
    return read_sdist(file, filename=artifact.filename, name=artifact.name)


def _beside(url: str) -> str:
    parts = urlsplit(url)
    return urlunsplit(parts._replace(path=f"{parts.path}.metadata"))


def _whole_size(reply: Reply) -> int | None:
    """Return the size of the file that a partial answer is part of."""
    total = reply.headers.get("Content-Range", "").rpartition("/")[2]
    return int(total) if total.isdigit() and len(reply.body) <= int(total) else None


def _require_local(missing: list[Artifact]) -> None:
    remote = sorted(x.filename for x in missing if path_of(x.url) is None)
    if remote:
        more = f" and {len(remote) - 3} more" if len(remote) > 3 else ""
        raise IndexUnavailableError(
            f"offline, and the cache lacks metadata: {', '.join(remote[:3])}{more}",
            why="these wheels were not looked at before",
            fix="run the same command once without --offline",
        )
