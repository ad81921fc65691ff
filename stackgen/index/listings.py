"""The pages of indexes: from the cache while they are young, from the index otherwise."""

import hashlib
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from stackgen.errors import IndexUnavailableError
from stackgen.index import local
from stackgen.index.cache import CachedPage, IndexCache
from stackgen.index.config import IndexLocation, TransferLimits
from stackgen.index.pages import Page, parse_html, parse_json
from stackgen.index.parallel import Pool, as_done
from stackgen.index.replies import Reply, ReplyTooLargeError
from stackgen.index.stored import decode, encode, source_of
from stackgen.values.files import Files

if TYPE_CHECKING:
    from stackgen.index.transport import Transport

FRESH_S = 600.0
_ABSENT = (404, 410)
_UNCHANGED = 304
_OK = 200


class Listings:
    """Reads pages; a page named "" is a location's own, for links to files of any project.

    transport: opens the connections, the first time that something must be asked.
    """

    def __init__(
        self,
        *,
        transport: Callable[[], "Transport"],
        cache: IndexCache,
        pool: Pool,
        clock: Callable[[], float],
        offline: bool,
        limits: TransferLimits,
    ) -> None:
        self._limits = limits
        self._transport = transport
        self._cache = cache
        self._pool = pool
        self._clock = clock
        self._offline = offline

    def read(
        self,
        location: IndexLocation,
        names: Sequence[str],
        on_each: Callable[[bool], None] = lambda _: None,
    ) -> dict[str, Page | None]:
        """Return the page of each name, None where the location does not have it.

        on_each: told for each name whether it is there.

        Raises:
            IndexUnavailableError: it cannot be asked, or answers with nonsense; or it is offline
                and the cache lacks a page.
        """
        found: dict[str, Page | None]
        root = local.path_of(location.url)
        if root is not None:
            found = {name: self._read_folder(location, root, name) for name in names}
            for page in found.values():
                on_each(page is not None)
            return found
        cached = self._cache.pages(location.url, names)
        now = self._clock()
        young = {
            name: page
            for name, page in cached.items()
            if self._offline or 0 <= now - page.fetched < FRESH_S
        }
        found = {}
        for name, entry in young.items():
            with suppress(_UnreadableError):
                found[name] = _decoded(entry, location)
                on_each(found[name] is not None)
        old = [name for name in names if name not in found]
        if self._offline and old:
            raise _not_cached(location, old)
        ask = partial(self._ask, location, cached)
        for name, (entry, page) in as_done(self._pool, ask, old):
            self._cache.keep_pages(location.url, {name: entry})
            found[name] = page
            on_each(page is not None)
        return found

    def _ask(
        self, location: IndexLocation, cached: dict[str, CachedPage], name: str
    ) -> tuple[CachedPage, Page | None]:
        """Fetch one page, or have the cached one confirmed. Runs in a thread of the pool."""
        before, page = cached.get(name), None
        if before is not None:
            try:
                page = _decoded(before, location)
            except _UnreadableError:
                before = None
        from pypi_simple import ACCEPT_JSON_PREFERRED

        url = f"{location.url.rstrip('/')}/{name}/" if name else location.url
        headers = {"Accept": ACCEPT_JSON_PREFERRED}
        if before and before.etag:
            headers["If-None-Match"] = before.etag
        elif before and before.modified:
            headers["If-Modified-Since"] = before.modified
        try:
            reply = self._transport().get(url, headers, most_bytes=self._limits.page_bytes)
        except ReplyTooLargeError as error:
            raise IndexUnavailableError(
                f"the page of {name or 'links'} at {location.name} is not read",
                why=str(error),
                fix="check the index URL; no package index has pages of that size",
            ) from error
        self._transport().check(reply)
        if before and reply.status == _UNCHANGED:
            return replace(before, fetched=self._clock()), page
        if reply.status not in (_OK, *_ABSENT):
            raise _nonsense(location, name, f"it said {reply.status}")
        source = _digest(reply)
        if before and before.content and source_of(before.content) == source:
            # Not every server says that nothing has changed; to read a page again takes longer.
            return replace(before, fetched=self._clock()), page
        page = _parsed(reply, name, location) if reply.status == _OK else None
        entry = CachedPage(
            fetched=self._clock(),
            etag=reply.headers.get("ETag", ""),
            modified=reply.headers.get("Last-Modified", ""),
            content=None if page is None else encode(page, source=source),
        )
        return entry, page

    def _read_folder(self, location: IndexLocation, root: Path, name: str) -> Page | None:
        try:
            if not name:
                return local.links(location, root)
            page = local.project_page(location, root, name)
        except OSError as error:
            raise IndexUnavailableError(
                f"the index {location.name} cannot be read",
                why=str(error),
                fix="correct its path in your options, environment or pip configuration",
            ) from error
        if page is None:
            return None
        files = Files.of([local.hashed(each, self._cache) for each in page.files])
        return replace(page, files=files)


def _digest(reply: Reply) -> str:
    """Return what tells this answer from others: its content, and where links in it lead from."""
    return hashlib.sha256(f"{reply.status} {reply.url}\n".encode() + reply.body).hexdigest()


class _UnreadableError(Exception):
    """A cached page is none; it counts as not cached."""


def _decoded(page: CachedPage, location: IndexLocation) -> Page | None:
    try:
        return None if page.content is None else decode(page.content, index=location.name)
    except ValueError as error:
        raise _UnreadableError from error


def _parsed(reply: Reply, name: str, location: IndexLocation) -> Page | None:
    """Parse an answer; a page that lists nothing means that the package is not there."""
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
    return page if page.listed else None


def _nonsense(location: IndexLocation, name: str, why: str) -> IndexUnavailableError:
    return IndexUnavailableError(
        f"{location.name} does not answer as a package index",
        why=f"asked for {name or 'its links'}: {why}",
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
