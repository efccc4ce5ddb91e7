"""Streams of instances against small servers that have limits, fail, and lose connections."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from marina.client import Client, Limits, Streamed
from marina.errors import FailedError, MarinaError, OverloadedError, RefusedError, UnauthorizedError, UnreachableError

SMALL = Limits(2_000, 4_000, 5)


class Stub:
    """A server that answers each line with the length of its text, within limits.

    Attributes:
        most: lines that it takes at most.
        answer_bytes: bytes of an answer at most.
        trouble: called with the number of a request; a status to answer with, or None.
        requests: the number of lines of each request.
    """

    def __init__(self, most: int = 1000, trouble: Callable[[int], int | None] = lambda _: None) -> None:
        self.most, self.trouble = most, trouble
        self.request_bytes, self.answer_bytes, self.line_s = 2_000, 4_000, 0.0
        self.requests: list[int] = []
        self.flying = self.most_flying = 0
        self.lock = threading.Lock()

    def answer(self, body: bytes) -> tuple[int, bytes]:
        lines = body.decode().removesuffix("\n").split("\n")
        with self.lock:
            number = len(self.requests)
            self.requests.append(len(lines))
        status = self.trouble(number)
        if status is not None:
            return status, json.dumps({"message": "trouble"}).encode()
        if len(body) > self.request_bytes or len(lines) > self.most:
            return 413, json.dumps({"code": 413, "type": "BodyTooLarge", "error": "too large"}).encode()
        time.sleep(self.line_s * len(lines))
        answer = b"".join(self.line(json.loads(line)["inputs"]) for line in lines)
        if len(answer) > self.answer_bytes:
            return 413, json.dumps({"code": 413, "type": "AnswerTooLarge", "error": "too large"}).encode()
        return 200, answer

    def line(self, text: Any) -> bytes:
        if not isinstance(text, str):
            return b'{"code": 400, "type": "InvalidInstance", "error": "not a text"}\n'
        return json.dumps([len(text)] * (len(text) % 7)).encode() + b"\n"


@contextmanager
def serving(stub: Stub) -> Iterator[str]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            assert self.headers["Content-Type"] == "application/jsonlines"
            body = self.rfile.read(int(self.headers["Content-Length"]))
            with stub.lock:
                stub.flying += 1
                stub.most_flying = max(stub.flying, stub.most_flying)
            status, answer = stub.answer(body)
            with stub.lock:
                stub.flying -= 1
            if status == 0:  # the connection is lost
                self.close_connection = True
                return
            self.send_response(status)
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()


def ask(stub: Stub, texts: list[Any], **options: Any) -> list[Streamed]:
    with serving(stub) as url, Client.http(url) as client:
        return list(client.stream("m", enumerate(texts), **{"limits": SMALL, **options}))


def expected(texts: list[Any]) -> list[Any]:
    return [[len(text)] * (len(text) % 7) if isinstance(text, str) else None for text in texts]


@settings(max_examples=15, deadline=None)
@given(
    st.lists(st.one_of(st.text("aé\u2028 ", max_size=300), st.just(3)), max_size=80),
    st.integers(1, 20),
    st.integers(1, 5),
)
def test_every_instance_is_answered_once_and_in_order(texts: list[Any], most: int, at_once: int) -> None:
    stub = Stub(most)
    found = ask(stub, texts, at_once=at_once)
    assert [one.key for one in found] == list(range(len(texts)))
    # a single text may be too large for the server by itself
    too_large = [one.error is not None and "too large" in str(one.error) for one in found]
    wanted = [None if lost else answer for lost, answer in zip(too_large, expected(texts), strict=True)]
    assert [one.answer for one in found] == wanted
    assert [isinstance(one.error, RefusedError) for one in found] == [answer is None for answer in wanted]
    assert stub.most_flying <= at_once


def test_requests_grow_to_what_the_path_allows() -> None:
    stub = Stub()
    ask(stub, ["x" * 6] * 400, at_once=1)
    assert stub.requests[0] == 8
    assert max(stub.requests) > 30  # 2,000 bytes hold 80 of these lines, and half of 4,000 about 100 answers
    assert sum(stub.requests) == 400  # none was refused


def test_a_slow_server_gets_requests_that_it_can_answer_in_time() -> None:
    stub = Stub()
    stub.line_s = 0.02
    found = ask(stub, ["x"] * 60, limits=Limits(2_000, 4_000, 0.6), at_once=1)
    assert [one.answer for one in found] == [[1]] * 60
    assert max(stub.requests) <= 20


def test_a_request_that_takes_too_long_is_split() -> None:
    stub = Stub()
    stub.line_s = 0.1
    found = ask(stub, ["x"] * 8, limits=Limits(2_000, 4_000, 0.5), at_once=1)
    assert [one.answer for one in found] == [[1]] * 8
    assert stub.requests == [8, 4, 4]


@pytest.mark.parametrize("status", [503, 429, 504, 0])
def test_trouble_that_passes_is_waited_for(status: int) -> None:
    stub = Stub(trouble=lambda number: status if number in (1, 2, 5) else None)
    assert [one.answer for one in ask(stub, ["abc"] * 50)] == [[3] * 3] * 50


@pytest.mark.parametrize(("status", "kind"), [(503, OverloadedError), (0, UnreachableError), (500, FailedError)])
def test_trouble_that_stays_ends_the_stream(status: int, kind: type[Exception]) -> None:
    stub = Stub(trouble=lambda number: status if number > 1 else None)
    found = []
    with serving(stub) as url, Client.http(url) as client, pytest.raises(kind):
        for one in client.stream("m", enumerate(["x"] * 100), limits=SMALL, at_once=1, patience_s=1.0):
            found.append(one)
    assert [one.key for one in found] == list(range(len(found)))
    assert 0 < len(found) < 100


def test_a_token_that_is_refused_ends_the_stream_at_once() -> None:
    class Closed(Stub):
        def answer(self, body: bytes) -> tuple[int, bytes]:
            self.requests.append(1)
            return 400, json.dumps(
                {"code": 400, "type": "InvalidKeyException", "message": "Token is incorrect"}
            ).encode()

    stub = Closed()
    with pytest.raises(UnauthorizedError):
        ask(stub, ["x"] * 20, at_once=1)
    assert len(stub.requests) == 1


def test_instances_are_read_as_they_are_needed() -> None:
    stub, taken = Stub(), 0

    def endless() -> Iterator[tuple[int, str]]:
        nonlocal taken
        while True:
            taken += 1
            yield taken, "x"

    with serving(stub) as url, Client.http(url) as client:
        answers = client.stream("m", endless(), limits=SMALL, at_once=2)
        assert [next(answers).key for _ in range(20)] == list(range(1, 21))
        answers.close()  # type: ignore[attr-defined]
    assert taken < 500


def test_the_same_for_an_event_loop() -> None:
    stub = Stub(most=10, trouble=lambda number: 503 if number == 2 else None)

    async def instances() -> AsyncIterator[tuple[str, str]]:
        for number in range(60):
            yield f"k{number}", "x" * (number % 5)

    async def collect(client: Client) -> list[Streamed]:
        return [one async for one in client.stream_async("m", instances(), limits=SMALL)]

    with serving(stub) as url, Client.http(url) as client:
        found = asyncio.run(collect(client))
    assert [(one.key, one.answer) for one in found] == [
        (f"k{number}", answer) for number, answer in enumerate(expected(["x" * (n % 5) for n in range(60)]))
    ]


def test_models_of_bundles_and_parameters_are_named_on_each_line() -> None:
    seen: list[Any] = []

    class Reading(Stub):
        def answer(self, body: bytes) -> tuple[int, bytes]:
            seen.extend(json.loads(line) for line in body.decode().splitlines())
            return super().answer(body)

    with serving(Reading()) as url, Client.http(url) as client:
        list(client.stream("bot:intent", [("a", "x"), ("b", "y")], top_k=1))
    assert seen == [{"model": "intent", "inputs": text, "parameters": {"top_k": 1}} for text in "xy"]


def test_streams_need_http() -> None:
    with Client.grpc("127.0.0.1:1") as client, pytest.raises(MarinaError, match=r"Client\.http"):
        list(client.stream("m", enumerate(["x"])))


def test_paths_that_are_known() -> None:
    assert Limits(6_291_456, 6_291_456, 60) == Limits.SAGEMAKER
    assert Limits.LAMBDA_GATEWAY.seconds == 29


def test_an_answer_without_content_is_a_failure() -> None:
    stub = Stub(trouble=lambda _: 200)
    stub.answer = lambda _: (200, b"")  # type: ignore[method-assign, assignment]
    with serving(stub) as url, Client.http(url) as client, pytest.raises(FailedError):
        list(client.stream("m", [("a", "x")]))


@pytest.mark.parametrize("name", ["model", "instances"])
def test_any_name_may_be_a_parameter(name: str) -> None:
    class Recording(Stub):
        def answer(self, body: bytes) -> tuple[int, bytes]:
            parameters.append(json.loads(body)["parameters"])
            return super().answer(body)

    async def instances() -> AsyncIterator[tuple[int, str]]:
        yield 0, "a"

    async def ask_async(client: Client) -> list[Streamed]:
        return [streamed async for streamed in client.stream_async("m", instances(), **named)]

    named: dict[str, Any] = {name: "x"}
    parameters: list[Any] = []
    with serving(Recording()) as url, Client.http(url) as client:
        assert [found.answer for found in client.stream("m", [(0, "a")], **named)] == [[1]]
        assert [found.answer for found in asyncio.run(ask_async(client))] == [[1]]
    assert parameters == [named, named]
