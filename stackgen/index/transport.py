"""HTTP to package indexes: retries what can pass, explains what cannot.

`Multiplexer` reads small files over one connection of HTTP/2 where a host speaks it (httpx).
`Transport` reads everything else over HTTP/1.1 (requests), and `PacedAdapter` ends the responses
that take too long.
"""

import asyncio
import io
import math
import re
import socket
import ssl
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from http.client import HTTPResponse
from pathlib import Path
from threading import Lock, Thread
from typing import IO, Any, TypeVar
from urllib.parse import urlsplit

import httpx
import requests
from requests.adapters import HTTPAdapter
from urllib3 import HTTPConnectionPool, PoolManager
from urllib3.exceptions import NameResolutionError

from stackgen.errors import IndexRefusalError, IndexUnavailableError
from stackgen.index.config import IndexConfig, IndexLocation
from stackgen.index.replies import CONNECTIONS, Reply, ReplyTooLargeError

_T = TypeVar("_T")

# Any other status is for the ordinary connections: they know credentials, and what can pass.
_FINAL = frozenset({200, 206, 304, 404, 410, 416})
_PASSING = frozenset({429, 500, 502, 503, 504})
_PARTIAL = 206
_FAULTS = 3


class Multiplexer:
    """Sends requests over HTTP/2, and returns replies only where nothing went wrong.

    What it leaves open is requested again over ordinary connections, which explain what is wrong.
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
        """Close the connections; no thread may be waiting."""
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
        """Return the reply; None where ordinary connections must send the request.

        The body is empty where a part was requested and the server would send all of it.

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
        sending = self._send(url, dict(headers), parts.netloc, most_bytes, deadline)
        return asyncio.run_coroutine_threadsafe(sending, loop).result()

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

    async def _send(
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
        """Give a host up after some faults: overloaded ones get fewer requests at once then."""
        self._faults[host] += is_fault
        if self._faults[host] >= _FAULTS:
            self._speaks[host] = False


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
        """Set when responses to this thread's requests end from now on (time.monotonic)."""
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


_TRIES = 3
_WAIT_S = 0.5
_LONGEST_WAIT_S = 20.0
_CHUNK = 1 << 18
_PIECE = 1 << 14  # Of what is unpacked into memory: a piece may become a thousand times as long.
_ENOUGH_PROGRESS = 1 << 20


class _PassingError(Exception):
    """A failure that may be gone at the next try."""

    def __init__(self, why: str, wait_s: float = 0.0) -> None:
        super().__init__(why)
        self.wait_s = wait_s


class Transport:
    """One HTTP session with the user's proxies, certificates and credentials.

    Several threads may use it; at most eight connections to a host are open. What is small goes
    over one connection of HTTP/2 where that is spoken.
    """

    def __init__(self, config: IndexConfig, *, sleep: Callable[[float], None] = time.sleep) -> None:
        self._config = config
        self._sleep = sleep
        self._known: dict[tuple[str, str], IndexLocation] = {}
        self._many = Multiplexer(config)
        self._session = requests.Session()
        # A server that may be silent for long may also be that slow.
        window_s = max(config.limits.rate_window_s, config.read_timeout_s)
        self._adapter = PacedAdapter(rate_bytes_s=config.limits.rate_bytes_s, window_s=window_s)
        self._session.mount("https://", self._adapter)
        self._session.mount("http://", self._adapter)

    def close(self) -> None:
        """Close all connections."""
        self._many.close()
        self._session.close()

    def add_credentials(self, place: IndexLocation) -> None:
        """Use the credentials of a place that is not configured for its host from now on."""
        self._known[place.origin] = place

    def get(self, url: str, headers: Mapping[str, str] | None = None, *, most_bytes: int) -> Reply:
        """Return the whole answer, whatever its status, after retrying what can pass.

        most_bytes: of its body, uncompressed.

        Raises:
            IndexUnavailableError: no answer can be had.
            ReplyTooLargeError: its body is larger.
        """
        deadline = self._deadline()

        def send() -> Reply:
            with self._request("GET", url, headers or {}, deadline) as response:
                return _reply(response, _body(response, most_bytes))

        found = self._many.get(url, headers or {}, most_bytes=most_bytes, deadline=deadline)
        return found or self._retrying(url, send, deadline)

    def head(self, url: str) -> Reply:
        """Return status and headers alone.

        Raises:
            IndexUnavailableError: no answer can be had.
        """
        deadline = self._deadline()

        def send() -> Reply:
            headers = {"Accept-Encoding": "identity"}
            with self._request("HEAD", url, headers, deadline) as response:
                return _reply(response)

        return self._retrying(url, send, deadline)

    def get_range(self, url: str, span: str) -> Reply:
        """Return part of a file; the body is empty where the server would send all of it.

        Args:
            url: the file.
            span: as in a Range header: ``0-99``, or ``-100`` for the last hundred bytes.

        Raises:
            IndexUnavailableError: no answer can be had.
            ReplyTooLargeError: it sends more than was requested.
        """
        headers = {"Range": f"bytes={span}", "Accept-Encoding": "identity"}
        deadline, length = self._deadline(), _length(span)

        def send() -> Reply:
            with self._request("GET", url, headers, deadline) as response:
                partial = response.status_code == requests.codes.partial_content
                return _reply(response, _body(response, length) if partial else b"")

        found = self._many.get(url, headers, most_bytes=length, deadline=deadline)
        return found or self._retrying(url, send, deadline)

    def download(self, url: str, into: IO[bytes], *, start: int = 0) -> None:
        """Write a file from byte `start` on; a cut connection goes on where it stopped.

        A server that cannot resume makes `into` start again from nothing.

        Raises:
            IndexUnavailableError: the file cannot be had.
            OSError: `into` cannot be written (a full disk).
        """
        into.seek(start)
        reached, tries = start, 0
        while (problem := _attempt(lambda: self._append(url, into))) is not None:
            # A long download over a poor line may be cut many times and still get there.
            tries = 1 if into.tell() - reached >= _ENOUGH_PROGRESS else tries + 1
            reached = into.tell()
            self._pause(url, problem, tries)

    def check(self, reply: Reply) -> None:
        """Explain a reply that refuses access.

        Raises:
            IndexUnavailableError: the server wants credentials, or others.
        """
        if reply.status in (requests.codes.unauthorized, requests.codes.forbidden):
            label = self._label(reply.url)
            raise IndexRefusalError(
                f"{label} refuses to answer",
                why=f"it said {reply.status} for {_plain(reply.url)}",
                fix="put the right user and password for it into ~/.netrc or the index URL",
            )

    def _append(self, url: str, into: IO[bytes]) -> None:
        start = into.tell()
        headers = {"Accept-Encoding": "identity"} | ({"Range": f"bytes={start}-"} if start else {})
        with self._request("GET", url, headers) as response:
            status = response.status_code
            if start and status == requests.codes.requested_range_not_satisfiable:
                _restart(into)
                raise _PassingError("the partial file did not fit the server's")
            if not response.ok:
                raise self._refused(response)
            if start and status != requests.codes.partial_content:
                _restart(into)
            elif start and not response.headers.get("Content-Range", "").startswith(
                f"bytes {start}-"
            ):
                _restart(into)
                raise _PassingError("the server resumed at another place")
            into.writelines(response.iter_content(_CHUNK))

    def _refused(self, response: requests.Response) -> IndexRefusalError:
        self.check(_reply(response))
        return IndexRefusalError(
            f"{self._label(response.url)} does not hand out a file",
            why=f"it said {response.status_code} for {_plain(response.url)}",
            fix="look whether the release was withdrawn, or name another index",
        )

    def _deadline(self) -> float:
        """Return when the response to a request of now must have come (time.monotonic)."""
        return time.monotonic() + max(self._config.limits.response_s, self._config.read_timeout_s)

    @contextmanager
    def _request(
        self, method: str, url: str, headers: Mapping[str, str], deadline: float = math.inf
    ) -> Iterator[requests.Response]:
        """Send a request once; the caller reads the body, whose faults are sorted by this, too."""
        self._adapter.end_at(deadline)
        try:
            with self._begin(method, url, headers) as response:
                if response.status_code in _PASSING:
                    raise _PassingError(f"it said {response.status_code}", _retry_after(response))
                yield response
        except requests.RequestException as error:
            raise self._sorted(url, error) from error

    def _begin(self, method: str, url: str, headers: Mapping[str, str]) -> requests.Response:
        place = self._place(url)
        known = place.credentials if place else None
        try:
            return self._session.request(
                method,
                url,
                headers=dict(headers),
                auth=(known.user, known.password) if known else None,
                timeout=(self._config.connect_timeout_s, self._config.read_timeout_s),
                verify=self._config.ca_bundle or True,
                allow_redirects=True,
                stream=True,
            )
        except requests.RequestException:
            raise
        except OSError as error:
            # requests raises a bare OSError for a certificate bundle that does not exist.
            raise self._unreachable(
                url, str(error), fix="correct PIP_CERT, REQUESTS_CA_BUNDLE or SSL_CERT_FILE"
            ) from error

    def _sorted(self, url: str, error: requests.RequestException) -> Exception:
        """Return a transient failure as `_PassingError`, any other as its explanation."""
        if isinstance(error, requests.exceptions.SSLError):
            return self._unreachable(
                url,
                f"its certificate is not trusted: {_reason(error)}",
                fix="set SSL_CERT_FILE to the bundle of your network's authority",
            )
        if any(isinstance(e, (NameResolutionError, socket.gaierror)) for e in _causes(error)):
            return self._unreachable(
                url,
                f"no address is known for the host {urlsplit(url).hostname}",
                fix="check the network and the index URL, or use what is cached: --offline",
            )
        passing = (
            requests.ConnectionError,
            requests.Timeout,
            requests.exceptions.ChunkedEncodingError,
            requests.exceptions.ContentDecodingError,
        )
        if isinstance(error, passing):
            return _PassingError(_reason(error))
        return self._unreachable(url, _plain(str(error)))

    def _retrying(self, url: str, send: Callable[[], Reply], deadline: float) -> Reply:
        tries = 0
        while isinstance(answer := _attempt(send), _PassingError):
            tries += 1
            self._pause(url, answer, tries, deadline)
        return answer

    def _pause(
        self, url: str, problem: _PassingError, tries: int, deadline: float = math.inf
    ) -> None:
        """Wait before the next try, or give up."""
        if tries >= _TRIES or time.monotonic() >= deadline:
            raise self._unreachable(url, str(problem)) from problem
        self._sleep(max(problem.wait_s, _WAIT_S * 2 ** (tries - 1)))

    def _unreachable(self, url: str, why: str, *, fix: str = "") -> IndexUnavailableError:
        return IndexUnavailableError(
            f"{self._label(url)} cannot be reached",
            why=why,
            fix=fix or "check the network and the index URL, or use what is cached: --offline",
        )

    def _place(self, url: str) -> IndexLocation | None:
        parts = urlsplit(url)
        return self._known.get((parts.scheme, parts.netloc)) or self._config.location_of(url)

    def _label(self, url: str) -> str:
        place = self._place(url)
        return place.name if place else (urlsplit(url).hostname or "the index")


def _attempt(send: Callable[[], _T]) -> _T | _PassingError:
    try:
        return send()
    except _PassingError as problem:
        return problem


def _reply(response: requests.Response, body: bytes = b"") -> Reply:
    return Reply(status=response.status_code, url=response.url, headers=response.headers, body=body)


def _body(response: requests.Response, most_bytes: int) -> bytes:
    """Return an uncompressed body.

    Raises:
        ReplyTooLargeError: it is larger.
    """
    stated = response.headers.get("Content-Length", "")
    if stated.isdigit() and int(stated) > most_bytes:
        raise ReplyTooLargeError(most_bytes)
    body = bytearray()
    for piece in response.iter_content(_PIECE):
        body += piece
        if len(body) > most_bytes:
            raise ReplyTooLargeError(most_bytes)
    return bytes(body)


def _length(span: str) -> int:
    """Return how many bytes a span names, as `Transport.get_range` takes it."""
    first, _, last = span.partition("-")
    return int(last) - int(first) + 1 if first else int(last)


def _restart(into: IO[bytes]) -> None:
    into.seek(0)
    into.truncate()


def _retry_after(response: requests.Response) -> float:
    text = response.headers.get("Retry-After", "")
    return min(float(text), _LONGEST_WAIT_S) if text.isdigit() else 0.0


def _causes(error: BaseException) -> Iterator[BaseException]:
    """Yield an error and all that requests and urllib3 have wrapped into it."""
    seen: set[int] = set()
    waiting: list[object] = [error]
    while waiting:
        each = waiting.pop()
        if isinstance(each, BaseException) and id(each) not in seen:
            seen.add(id(each))
            yield each
            waiting += [*each.args, each.__cause__, each.__context__, getattr(each, "reason", None)]


def _reason(error: requests.RequestException) -> str:
    """Return in few words what went wrong; requests says it in many."""
    for each in _causes(error):
        if isinstance(each, TooSlowError):
            return str(each)
    if isinstance(error, requests.exceptions.ChunkedEncodingError):
        return "the answer broke off in the middle"
    if isinstance(error, requests.exceptions.ProxyError):
        return f"the proxy does not let it through: {_plain(str(error))}"
    if isinstance(error, requests.Timeout):
        return "no answer came in time"
    words = (
        x.verify_message if isinstance(x, ssl.SSLCertVerificationError) else x.strerror
        for x in _causes(error)
        if isinstance(x, OSError)
    )
    return next((each for each in words if each), _plain(str(error)))


def _plain(text: str) -> str:
    """Return the text without what stands before an @ or after a ? in an address."""
    without_user = re.sub(r"://[^/@\s]*@", "://", text)
    return re.sub(r"(https?://[^\s?]+)\?\S*", r"\1", without_user)
