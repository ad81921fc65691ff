"""Replies of package indexes, and the threads that wait for them.

Nothing here imports an HTTP library: a run whose answers are all cached needs none, and loading one
takes longer than such a run.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import CancelledError, ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from threading import Event
from typing import TYPE_CHECKING, TypeVar

from stackgen.index.cache import IndexCache
from stackgen.index.config import IndexConfig

if TYPE_CHECKING:
    from stackgen.index.transport import Transport


class ReplyTooLargeError(Exception):
    """A body is larger than its reader takes; limit: bytes."""

    def __init__(self, limit: int) -> None:
        super().__init__(f"it is larger than {limit / (1 << 20):g} MiB")


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """The response of a server; `body` is empty where only the headers were wanted."""

    status: int
    url: str
    headers: Mapping[str, str]
    body: bytes = b""


_I = TypeVar("_I")
_T = TypeVar("_T")

CONNECTIONS = 8
"""Connections of HTTP/1.1 to one host, at most."""

AT_ONCE = 24
"""Requests at once, at most; where a host does not speak HTTP/2, they queue for connections."""

FRESH_S = 600.0
"""What was fetched so recently is not fetched again."""


class Pool(ThreadPoolExecutor):
    """Threads for requests; they can be stopped from beginning more."""

    def __init__(self) -> None:
        super().__init__(AT_ONCE, thread_name_prefix="index")
        self._given_up = Event()

    def give_up(self) -> None:
        """Let what has not begun fail at once."""
        self._given_up.set()

    def check(self) -> None:
        """Fail where nothing more shall begin.

        Raises:
            CancelledError: it was given up.
        """
        if self._given_up.is_set():
            raise CancelledError


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexAccess:
    """What reading an index takes.

    clock: seconds since 1970.
    transport: opens the connections, the first time that a request is sent.
    fresh_s: for so many seconds a cached page is used without a request.
    """

    config: IndexConfig
    cache: IndexCache
    pool: Pool
    clock: Callable[[], float]
    transport: Callable[[], "Transport"]
    fresh_s: float


def as_done(pool: Pool, work: Callable[[_I], _T], items: Iterable[_I]) -> Iterator[tuple[_I, _T]]:
    """Yield each item with its result; a failure cancels what has not begun."""

    def begun(item: _I) -> _T:
        pool.check()
        return work(item)

    waiting = {pool.submit(begun, item): item for item in items}
    try:
        for future in as_completed(waiting):
            yield waiting[future], future.result()
    finally:
        for future in waiting:
            future.cancel()
