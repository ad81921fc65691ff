"""The package indexes of a configuration, behind one face."""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from types import MappingProxyType, TracebackType
from typing import BinaryIO

from packaging.utils import canonicalize_name

from stackgen.errors import IndexUnavailableError, ResolutionError
from stackgen.index import local
from stackgen.index.cache import IndexCache
from stackgen.index.config import IndexConfig
from stackgen.index.listings import Listings
from stackgen.index.metadata import MetadataReader, artifact_key
from stackgen.index.pages import Page
from stackgen.index.parallel import Progress, as_done
from stackgen.index.transport import CONNECTIONS, Transport
from stackgen.values import Artifact, Metadata


class PackageIndex(AbstractContextManager["PackageIndex"]):
    """What the configured indexes offer, remembered in ``<cache>/index.db``.

    One object serves one run: what it has read once it does not read again. Progress is called
    with (done, total) in the calling thread.

    Args:
        config: which indexes, in which order.
        cache: the folder of caches; it is made where it does not exist.
        clock: seconds since 1970.
        sleep: waits between tries.

    Raises:
        StorageError: the cache folder cannot be used.
    """

    def __init__(
        self,
        config: IndexConfig,
        cache: Path,
        *,
        clock: Callable[[], float] = time.time,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._config = config
        self._cache = IndexCache(cache / "index.db")
        self._transport = Transport(config, sleep=sleep)
        self._pool = ThreadPoolExecutor(CONNECTIONS, thread_name_prefix="index")
        self._known: dict[str, tuple[Artifact, ...] | None] = {}
        self._announced: dict[str, str] = {}
        self._skipped: dict[str, int] = {}
        self._links: dict[str, list[Artifact]] | None = None
        self._notes: list[str] = []
        self._listings = Listings(
            transport=self._transport,
            cache=self._cache,
            pool=self._pool,
            clock=clock,
            offline=config.offline,
        )
        self._metadata = MetadataReader(
            transport=self._transport,
            cache=self._cache,
            pool=self._pool,
            announced=self._announced,
            offline=config.offline,
        )

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close connections and cache; what is under way is given up."""
        self._pool.shutdown(wait=True, cancel_futures=True)
        self._transport.close()
        self._cache.close()

    @property
    def skipped(self) -> Mapping[str, int]:
        """Return how many files of each package have a name or version nobody can read."""
        return MappingProxyType(self._skipped)

    @property
    def defects(self) -> Mapping[str, str]:
        """Return why an artifact has no usable metadata, by `artifact_key`, as far as asked."""
        return MappingProxyType(self._metadata.defects)

    @property
    def notes(self) -> Sequence[str]:
        """Return what went wrong without stopping anything, in words."""
        return (*self._notes, *self._cache.notes)

    def candidates(self, name: str) -> tuple[Artifact, ...]:
        """Return the wheels and sdists of a package, in the index's order.

        Raises:
            ResolutionError: no index has it.
            IndexUnavailableError: an index cannot be asked.
        """
        found = self.candidates_many([name])[canonicalize_name(name)]
        if found is None:
            places = [x.name for x in (*self._config.indexes, *self._config.find_links)]
            raise ResolutionError(
                f"there is no package {name}",
                why=f"looked in {', '.join(places) or 'no index at all'}",
                fix="check the spelling, or name the index that has it with --extra-index-url",
            )
        return found

    def candidates_many(
        self, names: Iterable[str], progress: Progress | None = None
    ) -> dict[str, tuple[Artifact, ...] | None]:
        """Return the candidates of several packages by normalised name; None where unknown.

        Raises:
            IndexUnavailableError: an index cannot be asked.
        """
        wanted = sorted({canonicalize_name(name) for name in names})
        missing = [name for name in wanted if name not in self._known]
        report = _counted(progress, done=len(wanted) - len(missing), total=len(wanted))
        pages = self._first_pages(missing, report)
        links = self._find_links() if missing else {}
        for name in missing:
            self._known[name] = self._merged(name, pages.get(name), links.get(name, []))
        return {name: self._known[name] for name in wanted}

    def metadata(self, artifact: Artifact) -> Metadata:
        """Return what one artifact requires.

        Raises:
            ResolutionError: it does not say so.
            IndexUnavailableError: its index cannot be asked.
        """
        found = self._metadata.read([artifact], None).get(artifact_key(artifact))
        if found is None:
            raise ResolutionError(
                f"{artifact.filename} does not say what it requires",
                why=self.defects[artifact_key(artifact)],
                fix=f"exclude it: {artifact.name}!={artifact.version}",
            )
        return found

    def metadata_many(
        self, artifacts: Iterable[Artifact], progress: Progress | None = None
    ) -> dict[str, Metadata]:
        """Return what artifacts require, by `artifact_key`; `defects` explains absent ones.

        Raises:
            IndexUnavailableError: an index cannot be asked.
        """
        return self._metadata.read(artifacts, progress)

    def size(self, artifact: Artifact) -> int | None:
        """Return the size in bytes; None where nobody says.

        Raises:
            IndexUnavailableError: its index cannot be asked.
        """
        return self.sizes([artifact])[artifact_key(artifact)]

    def sizes(
        self, artifacts: Iterable[Artifact], progress: Progress | None = None
    ) -> dict[str, int | None]:
        """Return sizes in bytes by `artifact_key`; None where nobody says.

        Raises:
            IndexUnavailableError: an index cannot be asked.
        """
        wanted = {artifact_key(artifact): artifact for artifact in artifacts}
        sizes = {key: artifact.size for key, artifact in wanted.items()}
        cached = self._cache.sizes([key for key, size in sizes.items() if size is None])
        sizes.update(cached)
        missing = [wanted[key] for key, size in sizes.items() if size is None]
        report = _counted(progress, done=len(wanted) - len(missing), total=len(wanted))
        fresh: dict[str, int] = {}
        for artifact, size in as_done(self._pool, self._ask_size, missing):
            sizes[artifact_key(artifact)] = size
            if size is not None and local.path_of(artifact.url) is None:
                fresh[artifact_key(artifact)] = size
            report()
        self._cache.keep_sizes(fresh)
        return sizes

    def download(self, artifact: Artifact, into: BinaryIO, *, start: int = 0) -> None:
        """Write an artifact from byte `start` on; where that cannot be, all of it from 0.

        Nothing is verified here: that is the store's part.

        Raises:
            IndexUnavailableError: it cannot be had.
            OSError: `into` cannot be written.
        """
        if self._config.offline:
            raise IndexUnavailableError(
                f"offline, and {artifact.filename} is not at hand",
                why="the wheel was not downloaded before",
                fix="run the same command once without --offline",
            )
        self._transport.download(artifact.url, into, start=start)

    def _first_pages(self, names: Sequence[str], report: Callable[[], None]) -> dict[str, Page]:
        """Return each package's page from the first index that has it."""
        found: dict[str, Page] = {}
        for place in self._config.indexes:
            left = [name for name in names if name not in found]
            if left:
                settled = partial(_settled, report, place == self._config.indexes[-1])
                pages = self._listings.read(place, left, settled)
                found |= {name: page for name, page in pages.items() if page is not None}
        return found

    def _find_links(self) -> dict[str, list[Artifact]]:
        """Return what the find-links locations hold, by package; read once."""
        if self._links is not None:
            return self._links
        self._links = {}
        for location in self._config.find_links:
            path = local.path_of(location.url)
            if path is not None and not path.exists():
                self._notes.append(f"find-links names {path}, which does not exist")
                continue
            page = self._listings.read(location, [""])[""]
            if page is None:
                self._notes.append(f"find-links names {location.name}, which lists nothing")
                continue
            self._announced.update(page.announced)
            for artifact in page.artifacts:
                self._links.setdefault(artifact.name, []).append(artifact)
        return self._links

    def _merged(
        self, name: str, page: Page | None, links: Sequence[Artifact]
    ) -> tuple[Artifact, ...] | None:
        """Join an index's files and those of find-links; of the same file, the index's counts."""
        if page is None and not links:
            return None
        files: dict[tuple[str, str], Artifact] = {}
        if page is not None:
            self._announced.update(page.announced)
            self._skipped[name] = page.skipped
            files = {(x.filename, x.sha256): x for x in map(self._hashed, page.artifacts)}
        for artifact in map(self._hashed, links):
            files.setdefault((artifact.filename, artifact.sha256), artifact)
        return tuple(files.values())

    def _hashed(self, artifact: Artifact) -> Artifact:
        return artifact if artifact.sha256 else local.hashed(artifact, self._cache)

    def _ask_size(self, artifact: Artifact) -> int | None:
        """Look or ask how large a file is. Runs in a thread of the pool."""
        path = local.path_of(artifact.url)
        if path is not None:
            return path.stat().st_size if path.is_file() else None
        if self._config.offline:
            return None
        reply = self._transport.head(artifact.url)
        text = reply.headers.get("Content-Length", "")
        return int(text) if reply.status == 200 and text.isdigit() else None


def _settled(report: Callable[[], None], is_last: bool, is_found: bool) -> None:
    """Report a package that needs no further index."""
    if is_found or is_last:
        report()


def _counted(progress: Progress | None, *, done: int, total: int) -> Callable[[], None]:
    """Return what is called after each step; it counts on."""
    count = done

    def step() -> None:
        nonlocal count
        count += 1
        if progress:
            progress(count, total)

    return step
