"""Several requests at once, results as they come."""

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import CancelledError, ThreadPoolExecutor, as_completed
from threading import Event
from typing import TypeVar

_I = TypeVar("_I")
_T = TypeVar("_T")

CONNECTIONS = 8
"""At most so many to a host."""

AT_ONCE = 24
"""So many requests under way at most; where a host does not speak HTTP/2, they queue."""

# Called in the asking thread with how many of how many are done.
Progress = Callable[[int, int], None]


class Pool(ThreadPoolExecutor):
    """Threads that can be told to begin nothing more."""

    def __init__(self) -> None:
        super().__init__(AT_ONCE, thread_name_prefix="index")
        self._given_up = Event()

    def give_up(self) -> None:
        """Let whatever has not begun fail at once."""
        self._given_up.set()

    def check(self) -> None:
        """Fail where nothing more shall begin.

        Raises:
            CancelledError: it was given up.
        """
        if self._given_up.is_set():
            raise CancelledError


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
