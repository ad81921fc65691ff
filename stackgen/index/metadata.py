"""What artifacts require: from the cache, the index, a part of the wheel, or all of it."""

import hashlib
import io
from collections import Counter
from collections.abc import Callable, Iterable
from typing import IO, TYPE_CHECKING
from urllib.parse import urlsplit, urlunsplit

from stackgen.errors import IndexUnavailableError
from stackgen.index import local
from stackgen.index.cache import IndexCache
from stackgen.index.pages import NO_METADATA, SOME_METADATA
from stackgen.index.parallel import Pool, Progress, as_done
from stackgen.index.ranges import RangeFile
from stackgen.index.replies import Reply, ReplyTooLargeError
from stackgen.index.sdist_metadata import SilentSdistError, read_sdist
from stackgen.index.wheel_metadata import (
    LARGEST,
    UnusableMetadataError,
    parse_metadata,
    read_wheel,
)
from stackgen.index.wheel_tail import read_through
from stackgen.values import Artifact, Metadata

if TYPE_CHECKING:
    from stackgen.index.transport import Transport

_OK, _PARTIAL = 200, 206
_TAIL, _LONGEST_TAIL = 1 << 16, 1 << 18
_BATCH = 64
# So many wheels in a row without a metadata file beside them, and no more are asked for. Where a
# project has never had one, those that are being asked for count, too. After many wheels that were
# read in part it may be worth another try: an index may have metadata files of later releases only.
_ENOUGH_OF_NEW, _ENOUGH_OF_KNOWN, _ENOUGH_OF_HOST = 2, 4, 32
_WORTH_ANOTHER = 24


def artifact_key(artifact: Artifact) -> str:
    """Return what identifies an artifact: its SHA-256, or its URL where an index states none."""
    return artifact.sha256 or artifact.url


class MetadataReader:
    """Reads metadata.

    transport: opens the connections, the first time that something must be asked.
    announced: tells what a page said of the metadata file beside a wheel ("": nothing).
    defects: why an artifact has no usable metadata, by its key.
    """

    def __init__(
        self,
        *,
        transport: Callable[[], "Transport"],
        cache: IndexCache,
        pool: Pool,
        announced: Callable[[Artifact], str],
        offline: bool,
    ) -> None:
        self.defects: dict[str, str] = {}
        self._transport = transport
        self._cache = cache
        self._pool = pool
        self._announced = announced
        self._offline = offline
        self._known: dict[str, Metadata] = {}
        # By host and project ("" for all projects): how many metadata files in a row were missing,
        # how many are being asked for, how many wheels were read in part, and whether there ever
        # was a metadata file.
        self._missing: Counter[tuple[str, str]] = Counter()
        self._asking: Counter[tuple[str, str]] = Counter()
        self._parts: Counter[tuple[str, str]] = Counter()
        self._serving: set[tuple[str, str]] = set()
        # How many last bytes hold METADATA and the directory, by project, where that is many.
        self._tails: dict[str, int] = {}

    def read(self, artifacts: Iterable[Artifact], progress: Progress | None) -> dict[str, Metadata]:
        """Return the metadata of each artifact by its key; defective ones are left out.

        Raises:
            IndexUnavailableError: an index cannot be asked, or it is offline and the cache lacks
                an entry.
        """
        wanted = {artifact_key(artifact): artifact for artifact in artifacts}
        unknown = [key for key in wanted if key not in self._known and key not in self.defects]
        self._known |= self._cache.metadata(unknown)
        missing = [wanted[key] for key in unknown if key not in self._known]
        self.defects |= self._cache.silent([x.sha256 for x in missing if not x.is_wheel])
        missing = [each for each in missing if artifact_key(each) not in self.defects]
        if self._offline:
            _require_local(missing)
        self._fetch(missing, len(wanted), progress)
        return {key: self._known[key] for key in wanted if key in self._known}

    def _fetch(self, missing: list[Artifact], total: int, progress: Progress | None) -> None:
        batch: dict[str, Metadata] = {}
        done = total - len(missing)
        try:
            for artifact, result in as_done(self._pool, self._read_or_explain, missing):
                key = artifact_key(artifact)
                done += 1
                if isinstance(result, str):
                    self.defects[key] = result
                else:
                    self._known[key] = result
                    batch |= {key: result} if artifact.sha256 else {}
                if len(batch) >= _BATCH:
                    self._cache.keep_metadata(batch)
                    batch = {}
                if progress:
                    progress(done, total)
        finally:
            self._cache.keep_metadata(batch)

    def _read_or_explain(self, artifact: Artifact) -> Metadata | str:
        """Return the metadata, or why there are none. Runs in a thread of the pool."""
        try:
            return self._read(artifact)
        except SilentSdistError as error:
            self._cache.keep_silent({artifact.sha256: str(error)} if artifact.sha256 else {})
            return str(error)
        except (UnusableMetadataError, OSError) as error:
            return f"unreadable metadata: {error}"

    def _read(self, artifact: Artifact) -> Metadata:
        path = local.path_of(artifact.url)
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
            reply = self._transport().get(_beside(artifact.url), most_bytes=LARGEST)
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
        length = self._tails.get(artifact.name, _TAIL)
        tail = self._transport().get_range(artifact.url, f"-{length}")
        self._transport().check(tail)
        if tail.status not in (_OK, _PARTIAL, 416, 501):
            raise UnusableMetadataError(f"the server said {tail.status} for it")
        size = _whole_size(tail)
        if tail.status != _PARTIAL or size is None:
            return None

        def fetch(start: int, end: int) -> bytes:
            return self._transport().get_range(artifact.url, f"{start}-{end - 1}").body

        remote = RangeFile(size=size, tail=tail.body, fetch=fetch)
        try:
            if (found := read_through(tail.body, remote.part)) is not None:
                self._learn(artifact.name, size - found[1])
                return parse_metadata(found[0], name=artifact.name)
            return read_wheel(io.BufferedReader(remote), name=artifact.name)
        except UnusableMetadataError:
            return None  # Either the ranges were wrong or the wheel is: all of it will tell.

    def _learn(self, name: str, needed: int) -> None:
        """Ask for as many last bytes of the project's other wheels as would have been enough."""
        if _TAIL < needed <= _LONGEST_TAIL:
            self._tails[name] = min(needed + _TAIL // 4, _LONGEST_TAIL)

    def _from_whole(self, artifact: Artifact) -> Metadata:
        from tempfile import TemporaryFile

        with TemporaryFile() as file:
            self._transport().download(artifact.url, file)
            if artifact.sha256 and local.digest_of(file) != artifact.sha256:
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
    remote = sorted(x.filename for x in missing if local.path_of(x.url) is None)
    if remote:
        more = f" and {len(remote) - 3} more" if len(remote) > 3 else ""
        raise IndexUnavailableError(
            f"offline, and the cache lacks metadata: {', '.join(remote[:3])}{more}",
            why="these wheels were not looked at before",
            fix="run the same command once without --offline",
        )
