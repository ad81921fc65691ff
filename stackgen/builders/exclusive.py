"""One process at a time, for as long as it or any of its children lives."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def exclusively(lock: Path) -> Iterator[int]:
    """Hold a lock file, waiting for it; yield its descriptor.

    Whoever is handed the descriptor (``pass_fds``) keeps the lock until it ends: a child that
    outlives a killed parent goes on writing, and the next process must not come between.

    Raises:
        OSError: the file cannot be made.
    """
    import fcntl  # POSIX only, as virtualenvs are measured only there

    lock.parent.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(lock, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield descriptor
    finally:
        os.close(descriptor)
