"""The package indexes of a configuration, behind one face."""

import hashlib
import json
import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from threading import Lock
from types import MappingProxyType, TracebackType
from typing import TYPE_CHECKING, BinaryIO

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from stackgen.errors import IndexUnavailableError, ResolutionError
from stackgen.index import pages
from stackgen.index.cache import CachedPage, CachedUniverse, IndexCache
from stackgen.index.config import IndexConfig, IndexLocation
from stackgen.index.direct import DirectFiles
from stackgen.index.metadata import MetadataBuilder, MetadataReader, artifact_key
from stackgen.index.pages import (
    Page,
    PageFacts,
    decode,
    encode,
    parse_html,
    parse_json,
    source_of,
    with_local_hash,
)
from stackgen.index.replies import (
    FRESH_S,
    IndexAccess,
    Pool,
    Reply,
    ReplyTooLargeError,
    as_done,
)
from stackgen.model.files import Files
from stackgen.model.packages import Artifact, Metadata
from stackgen.storage.files import path_of

if TYPE_CHECKING:
    from stackgen.index.transport import Transport


# PEP 691: JSON, or else HTML.
_ACCEPT = (
    "application/vnd.pypi.simple.v1+json, application/vnd.pypi.simple.v1+html;q=0.5, "
    "text/html;q=0.01"
)
_ABSENT = (404, 410)
_UNCHANGED = 304
_OK = 200


class Listings:
    """Reads pages; a page named "" is a location's own, for links to files of any project."""

    def __init__(self, access: IndexAccess) -> None:
        self._access = access
        self._read: dict[tuple[str, str], CachedPage] = {}

    def digests(self, location: IndexLocation, names: Sequence[str]) -> Mapping[str, str]:
        """Return the digest of each page that the cache would give, "" where there is none."""
        found = self._access.cache.digests(location.url, names)
        return {
            name: digest for name, (fetched, digest) in found.items() if self._is_young(fetched)
        }

    def keep_digests(self, location: IndexLocation, names: Sequence[str]) -> Mapping[str, str]:
        """Return the digests of pages that were read, and store them."""
        pages = {x: self._read[location.url, x] for x in names if (location.url, x) in self._read}
        self._access.cache.keep_digests(location.url, pages)
        return {name: page.digest for name, page in pages.items()}

    def _is_young(self, fetched: float, since: float = -math.inf) -> bool:
        """Return whether a cached page is taken as it is: it is not of before ``since``, either."""
        if fetched < since:
            return False
        age = self._access.clock() - fetched
        return self._access.config.offline or 0 <= age < self._access.fresh_s

    def read(
        self, location: IndexLocation, names: Sequence[str], *, since: float = -math.inf
    ) -> dict[str, Page | None]:
        """Return the page of each name, None where the location does not have it.

        since: pages that were cached before are requested again, however young they are.

        Raises:
            IndexUnavailableError: it cannot be read, or its reply is no page; or it is offline
                and the cache lacks a page.
        """
        root = path_of(location.url)
        if root is not None:
            return {name: self._read_folder(location, root, name) for name in names}
        cached = self._access.cache.pages(location.url, names)
        found: dict[str, Page | None] = {}
        young = {n: page for n, page in cached.items() if self._is_young(page.fetched, since)}
        for name, entry in young.items():
            with suppress(_UnreadableError):
                found[name] = _decoded(entry, location)
                self._read[location.url, name] = entry
        old = [name for name in names if name not in found]
        if self._access.config.offline and old:
            raise _not_cached(location, old)
        fetch = partial(self._revalidate, location, cached)
        for name, (entry, page) in as_done(self._access.pool, fetch, old):
            self._access.cache.keep_pages(location.url, {name: entry})
            self._read[location.url, name] = entry
            found[name] = page
        return found

    def _revalidate(
        self, location: IndexLocation, cached: dict[str, CachedPage], name: str
    ) -> tuple[CachedPage, Page | None]:
        """Fetch one page, or have the cached one confirmed. Runs in a thread of the pool."""
        before, page = cached.get(name), None
        if before is not None:
            try:
                page = _decoded(before, location)
            except _UnreadableError:
                before = None
        url = f"{location.url.rstrip('/')}/{name}/" if name else location.url
        headers = {"Accept": _ACCEPT}
        if before and before.etag:
            headers["If-None-Match"] = before.etag
        elif before and before.modified:
            headers["If-Modified-Since"] = before.modified
        try:
            reply = self._access.transport().get(
                url, headers, most_bytes=self._access.config.limits.page_bytes
            )
        except ReplyTooLargeError as error:
            raise IndexUnavailableError(
                f"the page of {name or 'links'} at {location.name} is not read",
                why=str(error),
                fix="check the index URL; no package index has pages of that size",
            ) from error
        self._access.transport().check(reply)
        if before and reply.status == _UNCHANGED:
            return replace(before, fetched=self._access.clock()), page
        if reply.status not in (_OK, *_ABSENT):
            raise _nonsense(location, name, f"it said {reply.status}")
        # What identifies a reply: its content, and where links in it lead from.
        source = hashlib.sha256(f"{reply.status} {reply.url}\n".encode() + reply.body).hexdigest()
        if before and before.content and source_of(before.content) == source:
            # Not every server says that nothing has changed; to read a page again takes longer.
            return replace(before, fetched=self._access.clock()), page
        page = _parsed(reply, name, location) if reply.status == _OK else None
        entry = CachedPage(
            fetched=self._access.clock(),
            etag=reply.headers.get("ETag", ""),
            modified=reply.headers.get("Last-Modified", ""),
            content=None if page is None else encode(page, source=source),
        )
        return entry, page

    def _read_folder(self, location: IndexLocation, root: Path, name: str) -> Page | None:
        try:
            if not name:
                return pages.links(location, root)
            page = pages.project_page(location, root, name)
        except OSError as error:
            raise IndexUnavailableError(
                f"the index {location.name} cannot be read",
                why=error.strerror or str(error),
                fix="correct its path in your options, environment or pip configuration",
            ) from error
        if page is None:
            return None
        files = Files.of([with_local_hash(each, self._access.cache) for each in page.files])
        return replace(page, files=files)


class _UnreadableError(Exception):
    """A cached page is none; it counts as not cached."""


def _decoded(page: CachedPage, location: IndexLocation) -> Page | None:
    try:
        return None if page.content is None else decode(page.content, index=location.name)
    except ValueError as error:
        raise _UnreadableError from error


def _parsed(reply: Reply, name: str, location: IndexLocation) -> Page | None:
    """Parse an answer; a page without files and status means that the package is not there."""
    from email.message import Message

    header = Message()
    header["Content-Type"] = reply.headers.get("Content-Type", "text/html")
    kind, charset = header.get_content_type(), header.get_content_charset() or "utf-8"
    try:
        if kind.endswith("json"):
            page = parse_json(reply.body, url=reply.url, name=name, index=location.name)
        elif kind.endswith("html"):
            text = reply.body.decode(charset, errors="replace")
            page = parse_html(text, url=reply.url, name=name, index=location.name)
        else:
            raise _nonsense(location, name, f"it sent {kind}")
    except (ValueError, LookupError) as error:
        raise _nonsense(location, name, str(error)) from error
    return page if page.listed or page.packed_facts else None


def _nonsense(location: IndexLocation, name: str, why: str) -> IndexUnavailableError:
    return IndexUnavailableError(
        f"{location.name} does not answer as a package index",
        why=f"the request was for {name or 'its links'}: {why}",
        fix="check the index URL: it usually ends in /simple",
    )


def _not_cached(location: IndexLocation, names: Sequence[str]) -> IndexUnavailableError:
    shown = ", ".join(name or "its links" for name in sorted(names)[:5])
    more = f" and {len(names) - 5} more" if len(names) > 5 else ""
    return IndexUnavailableError(
        f"offline, and the cache lacks pages of {location.name}: {shown}{more}",
        why="these packages were not looked up before",
        fix="run the same command once without --offline",
    )


class Catalogue:
    """Joins pages: of the first index that has a package, of compared indexes, of find-links.

    skipped: by package, how many of its files have a malformed name or version.
    notes: what went wrong without stopping anything, in words.
    """

    def __init__(self, access: IndexAccess) -> None:
        self.skipped: dict[str, int] = {}
        self.notes: list[str] = []
        self._access = access
        self._listings = Listings(access)
        self._pages: dict[str, list[Page]] = {}
        self._links: dict[str, list[Artifact]] | None = None
        self._of_links: dict[str, str] = {}
        self._words: dict[str, Mapping[str, str]] = {}

    def read(self, names: Sequence[str], *, since: float = -math.inf) -> dict[str, Files | None]:
        """Return the files of packages by normalised name; None where no index has them.

        since: pages that were cached before are requested again.

        Raises:
            IndexUnavailableError: an index cannot be read.
        """
        pages = self._first_pages(names, since)
        for place in self._access.config.compared:
            of_place = self._listings.read(place, names, since=since)
            for name, page in of_place.items():
                if page is not None:
                    pages.setdefault(name, []).append(page)
        self._pages |= pages
        for name in names:
            self._words.pop(name, None)
        links = self._find_links() if names else {}
        return {
            name: self._joined(name, pages.get(name, []), links.get(name, [])) for name in names
        }

    def fingerprint(self, names: Sequence[str], *, as_read: bool) -> str | None:
        """Return a digest of all that is offered of packages; None where that is not known.

        as_read: of what was read; otherwise of what would be read now, from the cache alone.

        Raises:
            IndexUnavailableError: a page of links cannot be read.
        """
        config, content, left = self._access.config, [], list(names)
        digests = self._listings.keep_digests if as_read else self._listings.digests
        for place in (*(x for x in config.indexes if x not in config.compared), *config.compared):
            wanted = list(names) if place in config.compared else left
            found = digests(place, wanted)
            if len(found) < len(wanted):
                return None
            content.append([place.name, place.url, sorted(found.items())])
            left = [name for name in left if not found.get(name)]
        links = self._find_links() if config.find_links else {}
        for name in names:
            files = [with_local_hash(each, self._access.cache) for each in links.get(name, ())]
            content.append([name, list(map(repr, files))])
        return hashlib.sha256(json.dumps(content).encode()).hexdigest()

    def every(self, names: Sequence[str]) -> dict[IndexLocation, dict[str, Page]]:
        """Return the page that each index has of each package; find-links count as one more.

        Raises:
            IndexUnavailableError: an index cannot be reached.
        """
        places = dict.fromkeys((*self._access.config.indexes, *self._access.config.compared))
        found = {
            place: {
                name: page
                for name, page in self._listings.read(place, names).items()
                if page is not None
            }
            for place in places
        }
        links = self._find_links() if names and self._access.config.find_links else {}
        if links:
            found[self._access.config.find_links[0]] = {
                name: Page(
                    files=Files.of([with_local_hash(x, self._access.cache) for x in links[name]]),
                    announced=[""] * len(links[name]),
                    listed=len(links[name]),
                )
                for name in names
                if name in links
            }
        return found

    def statuses(self) -> dict[str, PageFacts]:
        """Return the status (PEP 792) of the projects read so far that are not active."""
        facts = {name: page.facts for name, found in self._pages.items() for page in found[:1]}
        return {name: each for name, each in facts.items() if each.status not in ("", "active")}

    def announced(self, artifact: Artifact) -> str:
        """Return what a page said of the metadata file beside an artifact; "" for nothing.

        Threads of the pool call this; most runs never do, so it is not computed before.
        """
        if artifact.name not in self._words:
            self._words[artifact.name] = {
                url: word
                for page in self._pages.get(artifact.name, ())
                if any(page.announced)
                for url, word in zip(page.files.column("url"), page.announced, strict=True)
            }
        return self._words[artifact.name].get(artifact.url) or self._of_links.get(artifact.url, "")

    def _first_pages(self, names: Sequence[str], since: float) -> dict[str, list[Page]]:
        """Return each package's page from the first index that has it.

        An index that is compared with the others is not one of them, wherever it stands.
        """
        config, found = self._access.config, dict[str, list[Page]]()
        for place in (each for each in config.indexes if each not in config.compared):
            left = [name for name in names if name not in found]
            pages = self._listings.read(place, left, since=since)
            found |= {name: [page] for name, page in pages.items() if page is not None}
        return found

    def _find_links(self) -> dict[str, list[Artifact]]:
        """Return what the find-links locations hold, by package; read once."""
        if self._links is None:
            self._links = {}
            for place in self._access.config.find_links:
                self._add_links(place, self._links)
        return self._links

    def _add_links(self, place: IndexLocation, links: dict[str, list[Artifact]]) -> None:
        path = path_of(place.url)
        if path is not None and not path.exists():
            self.notes.append(f"find-links names {path}, which does not exist")
            return
        page = self._listings.read(place, [""])[""]
        if page is None:
            self.notes.append(f"find-links names {place.name}, which lists nothing")
            return
        for artifact, word in zip(page.files, page.announced, strict=True):
            links.setdefault(artifact.name, []).append(artifact)
            self._of_links[artifact.url] = word

    def _joined(self, name: str, pages: Sequence[Page], links: Sequence[Artifact]) -> Files | None:
        """Join indexes' files and those of find-links; of the same file, the index's counts."""
        if not pages and not links:
            return None
        self.skipped[name] = sum(page.skipped for page in pages)
        parts = [page.files for page in pages]
        if links:
            known = {(each.filename, each.sha256) for part in parts for each in part}
            hashed = [with_local_hash(each, self._access.cache) for each in links]
            fresh = {(each.filename, each.sha256): each for each in hashed}
            parts.append(Files.of([each for key, each in fresh.items() if key not in known]))
        return Files.joined(parts)


class PackageIndex(AbstractContextManager["PackageIndex"]):
    """What the configured indexes offer, remembered in ``<cache>/index.db``.

    One object serves one run: what it has read once it does not read again.

    Args:
        config: which indexes, in which order.
        cache: the folder of caches; it is made where it does not exist.
        clock: seconds since 1970.
        sleep: waits between tries.
        builder: builds the metadata of source distributions that declare none.
        fresh_s: a cached page that is older is requested again.

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
        builder: MetadataBuilder | None = None,
        fresh_s: float = FRESH_S,
    ) -> None:
        self._config = config
        self._cache = IndexCache(cache / "index.db")
        self._sleep = sleep
        self._opened: Transport | None = None
        self._opening = Lock()
        self._pool = Pool()
        self._known: dict[str, Files | None] = {}
        self._recalled: set[str] = set()
        self._clock = clock
        self._began = clock()
        access = IndexAccess(
            config=config,
            cache=self._cache,
            pool=self._pool,
            clock=clock,
            fresh_s=fresh_s,
            transport=self._transport,
        )
        self._catalogue = Catalogue(access)
        self._direct = DirectFiles(access)
        self._metadata = MetadataReader(access, self._catalogue.announced, builder)

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

    def recall(self, key: str) -> bytes | None:
        """Return what was remembered, if what it was made of is still what would be read."""
        found = self._cache.universe(key)
        if found is None:
            return None
        if self._catalogue.fingerprint(found.names, as_read=False) != found.fingerprint:
            return None
        self._recalled.update(found.names)
        return found.content

    def remember(self, key: str, names: Iterable[str], content: bytes) -> None:
        """Store what was made of packages' pages; nothing where these came from no cache."""
        wanted = tuple(sorted(names))
        fingerprint = self._catalogue.fingerprint(wanted, as_read=True)
        if fingerprint is not None:
            found = CachedUniverse(names=wanted, fingerprint=fingerprint, content=content)
            self._cache.keep_universe(key, found, self._clock())

    def _read_recalled(self) -> None:
        """Read the pages of what was recalled, for what they say beside that."""
        names, self._recalled = self._recalled, set()
        self.candidates_many(names)

    @property
    def skipped(self) -> Mapping[str, int]:
        """Return how many files of each package have a malformed name or version."""
        self._read_recalled()
        return MappingProxyType(self._catalogue.skipped)

    @property
    def defects(self) -> Mapping[str, str]:
        """Return why artifacts that were read have no usable metadata, by `artifact_key`."""
        return MappingProxyType(self._metadata.defects)

    @property
    def notes(self) -> Sequence[str]:
        """Return what went wrong without stopping anything, in words."""
        return (*self._catalogue.notes, *self._cache.notes)

    def candidates(self, name: str) -> tuple[Artifact, ...]:
        """Return the wheels and sdists of a package, in the order of its pages.

        Raises:
            ResolutionError: no index has it.
            IndexUnavailableError: an index cannot be read.
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

    def candidates_many(self, names: Iterable[str]) -> dict[str, Files | None]:
        """Return the candidates of several packages by normalised name; None where unknown.

        Raises:
            IndexUnavailableError: an index cannot be read.
        """
        wanted = sorted({canonicalize_name(name) for name in names})
        missing = [name for name in wanted if name not in self._known]
        self._known |= self._catalogue.read(missing)
        return {name: self._known[name] for name in wanted}

    def renew(self, names: Iterable[str]) -> dict[str, Files | None]:
        """Return candidates as `candidates_many` does, of pages that were confirmed in this run.

        Pages from the cache are requested again, once in a run. Offline they stay as they are.

        Raises:
            IndexUnavailableError: an index cannot be read.
        """
        wanted = sorted({canonicalize_name(name) for name in names})
        if self._config.offline:
            return self.candidates_many(wanted)
        self._known |= self._catalogue.read(wanted, since=self._began)
        return {name: self._known[name] for name in wanted}

    def every_page(self, names: Iterable[str]) -> dict[IndexLocation, dict[str, Page]]:
        """Return the page of each index for each package that it has, whatever comes first.

        Raises:
            IndexUnavailableError: an index cannot be reached.
        """
        return self._catalogue.every(sorted({canonicalize_name(name) for name in names}))

    @property
    def statuses(self) -> Mapping[str, PageFacts]:
        """Return the status of the projects read so far that are not active (PEP 792)."""
        self._read_recalled()
        return MappingProxyType(self._catalogue.statuses())

    def documents(self, urls: Iterable[str], *, most_bytes: int) -> dict[str, bytes]:
        """Return small documents that pages of indexes point to; absent ones are left out.

        Raises:
            IndexUnavailableError: a server cannot be reached.
        """

        def read(url: str) -> bytes | None:
            path = path_of(url)
            if path is not None:
                return path.read_bytes() if path.is_file() else None
            try:
                reply = self._transport().get(
                    url, {"Accept": "application/*"}, most_bytes=most_bytes
                )
            except ReplyTooLargeError:
                return None
            return reply.body if reply.status == _OK else None

        wanted = [] if self._config.offline else sorted(set(urls))
        found = as_done(self._pool, read, wanted)
        return {url: content for url, content in found if content is not None}

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
            IndexUnavailableError: its index cannot be read.
        """
        found = self._metadata.read([artifact]).get(artifact_key(artifact))
        if found is None:
            raise ResolutionError(
                f"{artifact.filename} does not say what it requires",
                why=self.defects[artifact_key(artifact)],
                fix=f"exclude it: {artifact.name}!={artifact.version}",
            )
        return found

    def metadata_many(self, artifacts: Iterable[Artifact]) -> dict[str, Metadata]:
        """Return what artifacts require, by `artifact_key`; `defects` explains absent ones.

        Raises:
            IndexUnavailableError: an index cannot be read.
        """
        self._read_recalled()
        return self._metadata.read(artifacts)

    def sizes(self, artifacts: Iterable[Artifact]) -> dict[str, int | None]:
        """Return sizes in bytes by `artifact_key`; None where no server states it.

        Raises:
            IndexUnavailableError: an index cannot be read.
        """
        wanted = {artifact_key(artifact): artifact for artifact in artifacts}
        sizes = {key: artifact.size for key, artifact in wanted.items()}
        cached = self._cache.sizes([key for key, size in sizes.items() if size is None])
        sizes.update(cached)
        missing = [wanted[key] for key, size in sizes.items() if size is None]
        fresh: dict[str, int] = {}
        for artifact, size in as_done(self._pool, self._fetch_size, missing):
            sizes[artifact_key(artifact)] = size
            if size is not None and path_of(artifact.url) is None:
                fresh[artifact_key(artifact)] = size
        self._cache.keep_sizes(fresh)
        return sizes

    def installed_sizes(self, wheels: Iterable[Artifact]) -> dict[str, int]:
        """Return the bytes of wheels once they are installed, by `artifact_key`.

        Each takes a request or two; wheels whose server sends no parts are left out.

        Raises:
            IndexUnavailableError: an index cannot be read.
        """
        remote = [
            each
            for each in wheels
            if each.is_wheel and path_of(each.url) is None and not self._config.offline
        ]
        found = as_done(self._pool, self._metadata.installed_size, remote)
        return {artifact_key(wheel): size for wheel, size in found if size is not None}

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

    def _fetch_size(self, artifact: Artifact) -> int | None:
        """Return the size of a file, read from disk or requested. Runs in a thread of the pool."""
        path = path_of(artifact.url)
        if path is not None:
            return path.stat().st_size if path.is_file() else None
        if self._config.offline:
            return None
        reply = self._transport().head(artifact.url)
        text = reply.headers.get("Content-Length", "")
        return int(text) if reply.status == 200 and text.isdigit() else None
