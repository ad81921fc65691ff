"""HTTP to package indexes: retries what can pass, explains what cannot."""

import math
import re
import socket
import ssl
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import IO, TypeVar
from urllib.parse import urlsplit

import requests
from urllib3.exceptions import NameResolutionError

from stackgen.errors import IndexRefusalError, IndexUnavailableError
from stackgen.index.config import IndexConfig, IndexLocation
from stackgen.index.multiplex import Multiplexer
from stackgen.index.pacing import PacedAdapter, TooSlowError
from stackgen.index.replies import Reply, ReplyTooLargeError

_TRIES = 3
_WAIT_S = 0.5
_LONGEST_WAIT_S = 20.0
_CHUNK = 1 << 18
_PIECE = 1 << 14  # Of what is unpacked into memory: a piece may become a thousand times as long.
_ENOUGH_PROGRESS = 1 << 20
_PASSING = frozenset({429, 500, 502, 503, 504})
_T = TypeVar("_T")


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

    def know(self, place: IndexLocation) -> None:
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

        def ask() -> Reply:
            with self._request("GET", url, headers or {}, deadline) as response:
                return _reply(response, _body(response, most_bytes))

        found = self._many.get(url, headers or {}, most_bytes=most_bytes, deadline=deadline)
        return found or self._retrying(url, ask, deadline)

    def head(self, url: str) -> Reply:
        """Return status and headers alone.

        Raises:
            IndexUnavailableError: no answer can be had.
        """
        deadline = self._deadline()

        def ask() -> Reply:
            headers = {"Accept-Encoding": "identity"}
            with self._request("HEAD", url, headers, deadline) as response:
                return _reply(response)

        return self._retrying(url, ask, deadline)

    def get_range(self, url: str, span: str) -> Reply:
        """Return part of a file; the body is empty where the server would send all of it.

        Args:
            url: the file.
            span: as in a Range header: ``0-99``, or ``-100`` for the last hundred bytes.

        Raises:
            IndexUnavailableError: no answer can be had.
            ReplyTooLargeError: it sends more than was asked for.
        """
        headers = {"Range": f"bytes={span}", "Accept-Encoding": "identity"}
        deadline, length = self._deadline(), _length(span)

        def ask() -> Reply:
            with self._request("GET", url, headers, deadline) as response:
                partial = response.status_code == requests.codes.partial_content
                return _reply(response, _body(response, length) if partial else b"")

        found = self._many.get(url, headers, most_bytes=length, deadline=deadline)
        return found or self._retrying(url, ask, deadline)

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
        """Explain an answer that says who may ask, not what is there.

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
            into.writelines(_chunks(response))

    def _refused(self, response: requests.Response) -> IndexRefusalError:
        self.check(_reply(response))
        return IndexRefusalError(
            f"{self._label(response.url)} does not hand out a file",
            why=f"it said {response.status_code} for {_plain(response.url)}",
            fix="look whether the release was withdrawn, or name another index",
        )

    def _deadline(self) -> float:
        """Return when a response that is asked for now must have come (time.monotonic)."""
        return time.monotonic() + max(self._config.limits.response_s, self._config.read_timeout_s)

    @contextmanager
    def _request(
        self, method: str, url: str, headers: Mapping[str, str], deadline: float = math.inf
    ) -> Iterator[requests.Response]:
        """Ask once; the body is read by the caller, and its faults are sorted here too."""
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
        """Tell a failure that can pass from one that cannot."""
        if isinstance(error, requests.exceptions.SSLError):
            return self._unreachable(
                url,
                f"its certificate is not trusted: {_reason(error)}",
                fix="set SSL_CERT_FILE to the bundle of your network's authority",
            )
        if _is_unknown_host(error):
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

    def _retrying(self, url: str, ask: Callable[[], Reply], deadline: float) -> Reply:
        tries = 0
        while isinstance(answer := _attempt(ask), _PassingError):
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


def _attempt(ask: Callable[[], _T]) -> _T | _PassingError:
    try:
        return ask()
    except _PassingError as problem:
        return problem


def _reply(response: requests.Response, body: bytes = b"") -> Reply:
    return Reply(status=response.status_code, url=response.url, headers=response.headers, body=body)


def _chunks(response: requests.Response) -> Iterator[bytes]:
    chunks: Iterator[bytes] = response.iter_content(_CHUNK)
    return chunks


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


def _is_unknown_host(error: BaseException) -> bool:
    return any(isinstance(x, (NameResolutionError, socket.gaierror)) for x in _causes(error))


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
