"""Many requests at once over one connection, where a server speaks HTTP/2.

A resolution from nothing asks for thousands of small files, and a server takes a tenth of a second
for each: eight connections of HTTP/1.1 wait for a minute, one of HTTP/2 for less than half of that.
"""

import asyncio
import math
import ssl
import time
from collections import Counter, defaultdict
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from threading import Lock, Thread
from urllib.parse import urlsplit

import httpx
import requests

from stackgen.index.config import IndexConfig
from stackgen.index.parallel import CONNECTIONS
from stackgen.index.replies import Reply

# Any other status is for the ordinary connections: they know credentials, and what can pass.
_FINAL = frozenset({200, 206, 304, 404, 410, 416})
_PASSING = frozenset({429, 500, 502, 503, 504})
_PARTIAL = 206
_FAULTS = 3


class Multiplexer:
    """Asks over HTTP/2, and answers only where nothing went wrong.

    What it leaves unanswered the ordinary connections ask again, and they explain what is wrong.
    The first request to a host goes alone; where the host turns out not to speak HTTP/2, or fails
    three times, none follows. Threads wait for the answers of one event loop.

    Args:
        config: certificates, timeouts, and which places want credentials.
        transport: stands in for the network, in tests.
    """

    def __init__(
        self, config: IndexConfig, transport: httpx.AsyncBaseTransport | None = None
    ) -> None:
        self._config = config
        self._transport = transport
        self._faults: Counter[str] = Counter()
        self._speaks: dict[str, bool] = {}
        self._known_to: dict[str, bool] = {}
        self._first: dict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._starting = Lock()
        self._is_started = False
        self._loop: asyncio.AbstractEventLoop | None = None
        self._client: httpx.AsyncClient | None = None

    def close(self) -> None:
        """Close the connections; nobody may be waiting."""
        if self._loop is not None and self._client is not None:
            asyncio.run_coroutine_threadsafe(self._client.aclose(), self._loop).result()
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
            self._loop.close()

    def get(
        self,
        url: str,
        headers: Mapping[str, str],
        *,
        most_bytes: float = math.inf,
        deadline: float = math.inf,
    ) -> Reply | None:
        """Return the answer; None where the ordinary connections must ask.

        The body is empty where a part was asked for and the server would send all of it.

        most_bytes: of the body, uncompressed. deadline: by time.monotonic, when it must be there.
        """
        parts = urlsplit(url)
        place = self._config.location_of(url)
        if parts.scheme != "https" or self._speaks.get(parts.netloc) is False:
            return None
        if place is not None and place.credentials is not None:
            return None
        if self._has_credentials(parts.netloc, url):  # to a stranger, all may be "not found"
            return None
        loop = self._started()
        if loop is None:
            return None
        asked = self._ask(url, dict(headers), parts.netloc, most_bytes, deadline)
        return asyncio.run_coroutine_threadsafe(asked, loop).result()

    def _has_credentials(self, host: str, url: str) -> bool:
        """Return whether the user's netrc has credentials for a host."""
        if host not in self._known_to:
            self._known_to[host] = requests.utils.get_netrc_auth(url) is not None
        return self._known_to[host]

    def _started(self) -> asyncio.AbstractEventLoop | None:
        """Return the loop; None where certificates or proxies are none, which others explain."""
        with self._starting:
            if not self._is_started:
                self._is_started = True
                with suppress(OSError, ValueError, ImportError):
                    self._client = self._connect(self._certificates())
                    self._loop = asyncio.new_event_loop()
                    self._thread = Thread(target=self._loop.run_forever, name="http2", daemon=True)
                    self._thread.start()
            return self._loop

    def _certificates(self) -> ssl.SSLContext:
        bundle = Path(self._config.ca_bundle or requests.utils.DEFAULT_CA_BUNDLE_PATH)
        if bundle.is_dir():
            return ssl.create_default_context(capath=bundle)
        return ssl.create_default_context(cafile=bundle)

    def _connect(self, trusted: ssl.SSLContext) -> httpx.AsyncClient:
        return httpx.AsyncClient(
            http2=True,
            verify=trusted,
            limits=httpx.Limits(max_connections=CONNECTIONS, max_keepalive_connections=CONNECTIONS),
            timeout=httpx.Timeout(
                self._config.read_timeout_s, connect=self._config.connect_timeout_s
            ),
            follow_redirects=True,
            transport=self._transport,
        )

    async def _ask(
        self, url: str, headers: dict[str, str], host: str, most_bytes: float, deadline: float
    ) -> Reply | None:
        if host not in self._speaks:
            async with self._first[host]:
                if host not in self._speaks:
                    return await self._answer(url, headers, host, most_bytes, deadline)
        if not self._speaks[host]:
            return None
        return await self._answer(url, headers, host, most_bytes, deadline)

    async def _answer(
        self, url: str, headers: dict[str, str], host: str, most_bytes: float, deadline: float
    ) -> Reply | None:
        left_s = None if deadline == math.inf else deadline - time.monotonic()
        try:
            return await asyncio.wait_for(self._read(url, headers, host, most_bytes), left_s)
        except Exception:  # noqa: BLE001 # whatever it is, the ordinary connections explain it
            self._speaks.setdefault(host, False)
            self._count_fault(host, is_fault=True)
            return None

    async def _read(
        self, url: str, headers: dict[str, str], host: str, most_bytes: float
    ) -> Reply | None:
        assert self._client is not None  # noqa: S101
        async with self._client.stream("GET", url, headers=headers) as response:
            self._speaks.setdefault(host, response.http_version == "HTTP/2")
            if response.status_code not in _FINAL:
                self._count_fault(host, is_fault=response.status_code in _PASSING)
                return None
            body = bytearray()
            if "Range" not in headers or response.status_code == _PARTIAL:
                async for piece in response.aiter_bytes():
                    body += piece
                    if len(body) > most_bytes:
                        return None
            return Reply(
                status=response.status_code,
                url=str(response.url),
                headers=response.headers,
                body=bytes(body),
            )

    def _count_fault(self, host: str, *, is_fault: bool) -> None:
        """Give a host up after some faults: one that is overwhelmed is asked less at once then."""
        self._faults[host] += is_fault
        if self._faults[host] >= _FAULTS:
            self._speaks[host] = False
