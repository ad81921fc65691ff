"""Several requests at once, results as they come."""

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from typing import TypeVar

_I = TypeVar("_I")
_T = TypeVar("_T")

CONNECTIONS = 8
"""At most so many to a host."""

AT_ONCE = 24
"""So many requests under way at most; where a host does not speak HTTP/2, they queue."""

# Called in the asking thread with how many of how many are done.
Progress = Callable[[int, int], None]


def as_done(
    pool: ThreadPoolExecutor, work: Callable[[_I], _T], items: Iterable[_I]
) -> Iterator[tuple[_I, _T]]:
    """Yield each item with its result; a failure cancels what has not begun."""
    waiting = {pool.submit(work, item): item for item in items}
    try:
        for future in as_completed(waiting):
            yield waiting[future], future.result()
    finally:
        for future in waiting:
            future.cancel()
