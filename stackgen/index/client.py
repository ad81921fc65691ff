"""The package indexes of a configuration, behind one face."""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from threading import Lock
from types import MappingProxyType, TracebackType
from typing import TYPE_CHECKING, BinaryIO

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from stackgen.errors import IndexUnavailableError, ResolutionError
from stackgen.index import local
from stackgen.index.cache import IndexCache
from stackgen.index.catalogue import Catalogue
from stackgen.index.config import IndexConfig
from stackgen.index.direct import DirectFiles
from stackgen.index.listings import Listings
from stackgen.index.metadata import MetadataReader, artifact_key
from stackgen.index.parallel import Pool, Progress, as_done
from stackgen.values import Artifact, Metadata
from stackgen.values.files import Files

if TYPE_CHECKING:
    from stackgen.index.transport import Transport


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
        self._sleep = sleep
        self._opened: Transport | None = None
        self._opening = Lock()
        self._pool = Pool()
        self._known: dict[str, Files | None] = {}
        listings = Listings(
            transport=self._transport,
            cache=self._cache,
            pool=self._pool,
            clock=clock,
            offline=config.offline,
            limits=config.limits,
        )
        self._catalogue = Catalogue(config, self._cache, listings)
        self._direct = DirectFiles(
            transport=self._transport, cache=self._cache, clock=clock, offline=config.offline
        )
        self._metadata = MetadataReader(
            transport=self._transport,
            cache=self._cache,
            pool=self._pool,
            announced=self._catalogue.announced,
            offline=config.offline,
        )

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def give_up(self) -> None:
        """Begin no further request; what waits for one fails."""
        self._pool.give_up()

    def close(self) -> None:
        """Close connections and cache; what is under way is given up."""
        self._pool.shutdown(wait=True, cancel_futures=True)
        if self._opened is not None:
            self._opened.close()
        self._cache.close()

    @property
    def skipped(self) -> Mapping[str, int]:
        """Return how many files of each package have a name or version nobody can read."""
        return MappingProxyType(self._catalogue.skipped)

    @property
    def defects(self) -> Mapping[str, str]:
        """Return why an artifact has no usable metadata, by `artifact_key`, as far as asked."""
        return MappingProxyType(self._metadata.defects)

    @property
    def notes(self) -> Sequence[str]:
        """Return what went wrong without stopping anything, in words."""
        return (*self._catalogue.notes, *self._cache.notes)

    def candidates(self, name: str) -> tuple[Artifact, ...]:
        """Return the wheels and sdists of a package, in the order of its pages.

        Raises:
            ResolutionError: no index has it.
            IndexUnavailableError: an index cannot be asked.
        """
        found = self.candidates_many([name])[canonicalize_name(name)]
        if found is None:
            places = dict.fromkeys(x.name for x in self._config.locations)
            raise ResolutionError(
                f"there is no package {name}",
                why=f"looked in {', '.join(places) or 'no index at all'}",
                fix="check the spelling, or name the index that has it with --extra-index-url",
            )
        return tuple(found)

    def candidates_many(
        self, names: Iterable[str], progress: Progress | None = None
    ) -> dict[str, Files | None]:
        """Return the candidates of several packages by normalised name; None where unknown.

        Raises:
            IndexUnavailableError: an index cannot be asked.
        """
        wanted = sorted({canonicalize_name(name) for name in names})
        missing = [name for name in wanted if name not in self._known]
        report = _counted(progress, done=len(wanted) - len(missing), total=len(wanted))
        self._known |= self._catalogue.read(missing, report)
        return {name: self._known[name] for name in wanted}

    def direct(self, requirement: Requirement) -> Artifact:
        """Return the file that a requirement names by its address.

        Whether a source distribution will do is for the policy to say, as with any other.

        Raises:
            UsageError: no wheel or sdist of that project, or of another hash than stated.
            IndexUnavailableError: it must be read for its hash, and cannot be.
        """
        return self._direct.artifact(requirement)

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
        self._transport().download(artifact.url, into, start=start)

    def _transport(self) -> "Transport":
        """Return the connections; the libraries below them take longer to load than a warm run."""
        from stackgen.index.transport import Transport

        with self._opening:
            if self._opened is None:
                self._opened = Transport(self._config, sleep=self._sleep)
            return self._opened

    def _ask_size(self, artifact: Artifact) -> int | None:
        """Look or ask how large a file is. Runs in a thread of the pool."""
        path = local.path_of(artifact.url)
        if path is not None:
            return path.stat().st_size if path.is_file() else None
        if self._config.offline:
            return None
        reply = self._transport().head(artifact.url)
        text = reply.headers.get("Content-Length", "")
        return int(text) if reply.status == 200 and text.isdigit() else None


def _counted(progress: Progress | None, *, done: int, total: int) -> Callable[[], None]:
    """Return what is called after each step; it counts on."""
    count = done

    def step() -> None:
        nonlocal count
        count += 1
        if progress:
            progress(count, total)

    return step
