"""HTTP/2: what it answers, and what it leaves to the ordinary connections."""

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import httpx
import pytest

from stackgen.index import IndexConfig
from stackgen.index.config import location
from stackgen.index.transport import Multiplexer

URL = "https://h.test/demo"
Answer = Callable[[httpx.Request], httpx.Response]


def answer(status: int = 200, content: bytes = b"body", version: bytes = b"HTTP/2") -> Answer:
    def respond(request: httpx.Request) -> httpx.Response:
        headers = {"X-Range": request.headers.get("Range", "")}
        extensions = {"http_version": version}
        return httpx.Response(status, headers=headers, content=content, extensions=extensions)

    return respond


@contextmanager
def asking(respond: Answer, config: IndexConfig | None = None) -> Iterator[Multiplexer]:
    network = httpx.MockTransport(respond)
    multiplexer = Multiplexer(config or IndexConfig(indexes=()), transport=network)
    try:
        yield multiplexer
    finally:
        multiplexer.close()


@pytest.mark.parametrize("status", [200, 206, 304, 404, 410, 416])
def test_final_answers_are_handed_on(status: int) -> None:
    with asking(answer(status)) as many:
        reply = many.get(URL, {"Range": "bytes=0-3"} if status == 206 else {})
    assert reply is not None
    assert (reply.status, reply.url, reply.body) == (status, URL, b"body")


@pytest.mark.parametrize("status", [401, 403, 407, 429, 500, 503])
def test_what_can_pass_or_wants_credentials_is_left_to_others(status: int) -> None:
    with asking(answer(status)) as many:
        assert many.get(URL, {}) is None


def test_a_part_that_would_be_the_whole_is_not_read() -> None:
    with asking(answer(200, b"x" * 10**6)) as many:
        reply = many.get(URL, {"Range": "bytes=-5"})
    assert reply is not None
    assert reply.body == b""
    assert reply.headers["x-range"] == "bytes=-5"


def test_a_host_of_http_1_is_tried_once() -> None:
    requested: list[httpx.Request] = []

    def respond(request: httpx.Request) -> httpx.Response:
        requested.append(request)
        return answer(version=b"HTTP/1.1")(request)

    with asking(respond) as many, ThreadPoolExecutor(8) as pool:
        replies = list(pool.map(lambda _: many.get(URL, {}), range(20)))
    assert len(requested) == 1
    assert len([each for each in replies if each is not None]) == 1


@pytest.mark.parametrize("failures", [1, 3])
def test_a_host_that_fails_is_given_up(failures: int) -> None:
    requested: list[httpx.Request] = []

    def respond(request: httpx.Request) -> httpx.Response:
        requested.append(request)
        if failures == 1 or len(requested) > 1:
            raise httpx.RemoteProtocolError("connection terminated", request=request)
        return answer()(request)

    with asking(respond) as many:
        replies = [many.get(URL, {}) for _ in range(9)]
    # Nothing is known of a host that fails at first; one that answered before has three tries.
    assert len(requested) == (1 if failures == 1 else 4)
    assert [each is not None for each in replies] == [failures == 3] + [False] * 8


def test_several_requests_are_under_way_at_once() -> None:
    together = threading.Barrier(4, timeout=20)

    with asking(answer()) as many:
        assert many.get(URL, {}) is not None

        def ask(_: int) -> bool:
            together.wait()
            return many.get(URL, {}) is not None

        with ThreadPoolExecutor(4) as pool:
            assert all(pool.map(ask, range(4)))


def test_places_with_credentials_and_plain_http_are_left_to_others() -> None:
    place = location("https://me:pw@h.test/simple")
    with asking(answer(), IndexConfig(indexes=(place,))) as many:
        assert many.get(URL, {}) is None
        assert many.get("http://other.test/demo", {}) is None


def test_certificates_that_cannot_be_read_are_left_to_others() -> None:
    with asking(answer(), IndexConfig(indexes=(), ca_bundle="/no/such/bundle.pem")) as many:
        assert many.get(URL, {}) is None


def test_a_host_that_throttles_gets_fewer_requests() -> None:
    requested: list[httpx.Request] = []

    def respond(request: httpx.Request) -> httpx.Response:
        requested.append(request)
        return answer(429)(request)

    with asking(respond) as many:
        assert [many.get(URL, {}) for _ in range(9)] == [None] * 9
    assert len(requested) == 3


def test_a_proxy_that_cannot_be_used_is_left_to_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ALL_PROXY", "nonsense://127.0.0.1:9")
    many = Multiplexer(IndexConfig(indexes=()))
    assert many.get(URL, {}) is None
    many.close()
