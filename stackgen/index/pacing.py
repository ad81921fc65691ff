"""HTTP/1.1 connections on which no response takes for ever, however its bytes drip in.

The read timeout of a socket starts anew with each byte. Here every read of the socket, be it of
headers or of a body, is checked against a deadline and a least rate.
"""

import io
import math
import threading
import time
from http.client import HTTPResponse
from typing import Any

from requests.adapters import HTTPAdapter
from urllib3 import HTTPConnectionPool, PoolManager

from stackgen.index.parallel import CONNECTIONS


class TooSlowError(TimeoutError):
    """A response did not come in time, or at too low a rate; the message says which."""


class PacedAdapter(HTTPAdapter):
    """Opens the connections of a session, and ends responses that are too slow.

    Args:
        rate_bytes_s: the least rate.
        window_s: time of waiting over which it is an average.
    """

    def __init__(self, *, rate_bytes_s: float, window_s: float) -> None:
        self._rate_bytes_s = rate_bytes_s
        self._window_s = window_s
        self._of_thread = threading.local()
        super().__init__(pool_connections=16, pool_maxsize=CONNECTIONS, pool_block=True)

    def end_at(self, deadline: float) -> None:
        """Set when responses that this thread asks for from now on end (time.monotonic)."""
        self._of_thread.deadline = deadline

    # These two are as untyped as what they override.
    def init_poolmanager(self, *args: Any, **kwargs: Any) -> None:
        """Make the pool of direct connections."""
        super().init_poolmanager(*args, **kwargs)
        self._pace(self.poolmanager)

    def proxy_manager_for(self, proxy: str, **kwargs: Any) -> PoolManager:
        """Return the pool of connections through a proxy."""
        is_new = proxy not in self.proxy_manager
        manager: PoolManager = super().proxy_manager_for(proxy, **kwargs)
        if is_new:
            self._pace(manager)
        return manager

    def _pace(self, manager: PoolManager) -> None:
        """Let the connections of a pool read through `_Pace`."""
        adapter = self

        class Response(HTTPResponse):
            def __init__(self, *args: Any, **kwargs: Any) -> None:
                super().__init__(*args, **kwargs)
                self.fp = io.BufferedReader(adapter.paced(self.fp.detach()))

        def paced(pool: type[HTTPConnectionPool]) -> type[HTTPConnectionPool]:
            connection = type("Connection", (pool.ConnectionCls,), {"response_class": Response})
            return type(pool.__name__, (pool,), {"ConnectionCls": connection})

        pools = manager.pool_classes_by_scheme
        manager.pool_classes_by_scheme = {scheme: paced(pools[scheme]) for scheme in pools}

    def paced(self, socket: io.RawIOBase) -> io.RawIOBase:
        """Return the bytes of a socket, as long as they come fast enough."""
        deadline = getattr(self._of_thread, "deadline", math.inf)
        return _Pace(socket, self._rate_bytes_s, self._window_s, deadline)


class _Pace(io.RawIOBase):
    """Reads a socket. What counts is the time that is spent waiting for it, not using it."""

    def __init__(
        self, socket: io.RawIOBase, rate_bytes_s: float, window_s: float, deadline: float
    ) -> None:
        self._socket = socket
        self._rate_bytes_s = rate_bytes_s
        self._window_s = window_s
        self._deadline = deadline
        self._began = time.monotonic()
        self._waited_s = 0.0
        self._bytes = 0

    def readable(self) -> bool:
        """Return True."""
        return True

    def readinto(self, buffer: memoryview | bytearray) -> int | None:  # type: ignore[override]
        """Fill the buffer with what comes next.

        Raises:
            TooSlowError: that is too late, or has been too little for long.
        """
        before = time.monotonic()
        if before >= self._deadline:
            raise TooSlowError(f"it took longer than {self._deadline - self._began:.0f} s")
        count = self._socket.readinto(buffer)
        self._waited_s += time.monotonic() - before
        self._bytes += count or 0
        if self._waited_s >= self._window_s:
            if self._bytes < self._rate_bytes_s * self._waited_s:
                raise TooSlowError(
                    f"it sent {self._bytes} bytes in {self._waited_s:.0f} s, "
                    f"and {self._rate_bytes_s:.0f} bytes per second are the least"
                )
            self._waited_s, self._bytes = 0.0, 0
        return count

    def close(self) -> None:
        """Close the socket's side of it, too."""
        self._socket.close()
        super().close()
