from functools import partial

import grpc
import pytest

from marina import Client
from marina.client.answers import grpc_error
from marina.errors import (
    ClientError,
    FailedError,
    OverloadedError,
    RefusedError,
    TimedOutError,
    UnauthorizedError,
    UnreachableError,
)
from tests.marina.client.servers import HttpAnswer, grpc_server, http_server

PAGE = b"<html><title>Sign in</title>a text of a user</html>"


@pytest.mark.parametrize(
    ("content_type", "body", "said"),
    [
        ("text/html", PAGE, f"text/html) of {len(PAGE)} bytes"),
        ("application/json", b"", "of 0 bytes"),
        ("application/json", b'{"label": "cut o', "of 16 bytes"),
        ("application/json", b"\xff\xfe\xfa", "of 3 bytes"),
        ("application/json", b"[" * 100_000, "of 100000 bytes"),
        (None, b"OK", "no Content-Type"),
        ("x" * 10_000, b"OK", "of 2 bytes"),
    ],
)
def test_a_good_answer_over_http_that_is_not_json_is_an_error(content_type: str | None, body: bytes, said: str) -> None:
    with (
        http_server(lambda _: HttpAnswer(200, content_type, body)) as address,
        Client.http(f"http://{address}", timeout_s=10, retry=False) as client,
        pytest.raises(FailedError) as failed,
    ):
        client.predict("m", ["a text"])
    message = str(failed.value)
    assert message.startswith(f"http://{address} sent an answer (HTTP 200, ")
    assert said in message
    assert "proxy" in message
    assert "user" not in message
    assert len(message) < 400


def reply(body: bytes, _: object) -> HttpAnswer:
    return HttpAnswer(200, "text/plain", body)


def test_json_over_http_is_the_answer_whatever_it_is_called() -> None:
    for document, answer in ((b"null", None), (b"[[0.5, 1]]", [[0.5, 1]]), (b'"ok"', "ok")):
        with (
            http_server(partial(reply, document)) as address,
            Client.http(f"http://{address}", timeout_s=10, retry=False) as client,
        ):
            assert client.predict("m", ["a text"]) == answer


@pytest.mark.parametrize(("status", "kind"), [(404, RefusedError), (502, FailedError)])
def test_an_error_over_http_needs_no_json(status: int, kind: type[ClientError]) -> None:
    with (
        http_server(lambda _: HttpAnswer(status, "text/html", PAGE)) as address,
        Client.http(f"http://{address}", timeout_s=10, retry=False) as client,
        pytest.raises(kind, match=f"HTTP status {status}"),
    ):
        client.predict("m", ["a text"])


@pytest.mark.parametrize("body", [PAGE, b"", b"\xff\xfe\xfa", b"[" * 100_000])
def test_an_answer_over_grpc_that_is_not_json_is_an_error(body: bytes) -> None:
    with (
        grpc_server(lambda *_: body) as address,
        Client.grpc(address, timeout_s=10, retry=False) as client,
        pytest.raises(FailedError) as failed,
    ):
        client.predict("m", ["a text"])
    message = str(failed.value)
    assert message.startswith(f"{address} sent a prediction of {len(body)} bytes that is not JSON")
    assert "another kind of server" in message
    assert "user" not in message


def test_another_grpc_server_is_named() -> None:
    def unknown(_: object, context: grpc.ServicerContext) -> bytes:
        context.abort(grpc.StatusCode.UNIMPLEMENTED, "Method not found!")
        raise AssertionError

    with (
        grpc_server(unknown) as address,
        Client.grpc(address, timeout_s=10, retry=False) as client,
        pytest.raises(FailedError, match=f"{address} is not TorchServe's gRPC inference API"),
    ):
        client.predict("m", ["a text"])


def test_an_answer_over_grpc_may_be_as_large_as_over_http() -> None:
    text = "x" * 6_000_000
    with grpc_server(lambda *_: f'["{text}"]'.encode()) as address, Client.grpc(address, timeout_s=10) as client:
        assert client.predict("m", ["a text"]) == [text]


def test_a_message_that_is_too_large_for_grpc_is_sent_once() -> None:
    asked: list[object] = []

    def refuse(_: object, context: grpc.ServicerContext) -> bytes:
        asked.append(context)
        context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, "gRPC message exceeds maximum size 1000000: 2000000")
        return b""

    with grpc_server(refuse) as address, Client.grpc(address, timeout_s=10) as client:
        with pytest.raises(RefusedError, match="exceeds maximum size"):
            client.predict("m", ["a text"])
        assert len(asked) == 1
        with pytest.raises(RefusedError, match="larger than max"):  # of the server's own gRPC
            client.predict("m", ["x" * 5_000_000])


@pytest.mark.parametrize(
    ("code", "kind", "transient"),
    [
        (grpc.StatusCode.DEADLINE_EXCEEDED, TimedOutError, True),
        (grpc.StatusCode.RESOURCE_EXHAUSTED, OverloadedError, True),
        (grpc.StatusCode.UNAUTHENTICATED, UnauthorizedError, False),
        (grpc.StatusCode.INVALID_ARGUMENT, RefusedError, False),
        (grpc.StatusCode.UNAVAILABLE, UnreachableError, True),
    ],
)
def test_refusals_over_grpc_are_those_of_http(code: grpc.StatusCode, kind: type[ClientError], transient: bool) -> None:
    class Refusal:
        def code(self) -> grpc.StatusCode:
            return code

        def details(self) -> str:
            return "no"

    error = grpc_error(Refusal(), "host:1")
    assert type(error) is kind
    assert error.transient is transient
