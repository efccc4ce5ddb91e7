import json
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import grpc
import pytest
import requests

from marina import Client
from marina.client.tokens import Token
from marina.client.transport import HttpTransport
from marina.errors import FailedError, MarinaError, UnauthorizedError, UnreachableError
from tests.marina.client.servers import HttpAnswer, grpc_server, http_server

VALID = "new"
REFUSAL = {"code": 400, "type": "InvalidKeyException", "message": "Token Authorization failed. Token is incorrect"}

Asked = list[str | None]
Connect = Callable[[Token], AbstractContextManager[tuple[Client, Asked]]]


@contextmanager
def over_http(token: Token) -> Iterator[tuple[Client, Asked]]:
    asked: Asked = []

    def answer(given: str | None) -> HttpAnswer:
        asked.append(given)
        good = given == f"Bearer {VALID}"
        return HttpAnswer(200 if good else 400, "application/json", b"[1]" if good else json.dumps(REFUSAL).encode())

    with http_server(answer) as address, Client.http(f"http://{address}", token, timeout_s=10) as client:
        yield client, asked


@contextmanager
def over_grpc(token: Token) -> Iterator[tuple[Client, Asked]]:
    asked: Asked = []

    def answer(given: str | None, context: grpc.ServicerContext) -> bytes:
        asked.append(given)
        if given != f"Bearer {VALID}":
            context.abort(grpc.StatusCode.PERMISSION_DENIED, f"{REFUSAL['message']}\nInvalidKeyException")
        return b"[1]"

    with grpc_server(answer) as address, Client.grpc(address, token, timeout_s=10) as client:
        yield client, asked


@pytest.fixture(params=[over_http, over_grpc])
def connect(request: pytest.FixtureRequest) -> Connect:
    made: Connect = request.param
    return made


def test_a_function_is_called_again_where_its_token_is_refused(connect: Connect) -> None:
    tokens = iter(["old", VALID, VALID])
    with connect(lambda: next(tokens)) as (client, asked):
        assert client.predict("m", ["a text"]) == [1]
        assert asked == ["Bearer old", f"Bearer {VALID}"]
        assert client.predict("m", ["a text"]) == [1]
        assert len(asked) == 3


def test_a_second_refusal_is_the_last(connect: Connect) -> None:
    tokens = iter(["old", "older", VALID])
    with connect(lambda: next(tokens)) as (client, asked):
        with pytest.raises(UnauthorizedError, match="Token is incorrect"):
            client.predict("m", ["a text"])
        assert asked == ["Bearer old", "Bearer older"]


def test_the_same_token_is_not_sent_again(connect: Connect) -> None:
    calls = 0

    def token() -> str:
        nonlocal calls
        calls += 1
        return "old"

    with connect(token) as (client, asked):
        with pytest.raises(UnauthorizedError):
            client.predict("m", ["a text"])
        assert asked == ["Bearer old"]
        assert calls == 2


@pytest.mark.parametrize(("token", "sent"), [("old", "Bearer old"), (None, None)])
def test_a_token_that_is_no_function_is_refused_at_once(connect: Connect, token: Token, sent: str | None) -> None:
    with connect(token) as (client, asked):
        with pytest.raises(UnauthorizedError):
            client.predict("m", ["a text"])
        assert asked == [sent]


def test_other_errors_ask_for_no_token() -> None:
    calls = 0

    def token() -> str:
        nonlocal calls
        calls += 1
        return str(calls)

    with (
        http_server(lambda _: HttpAnswer(500, "application/json", b"{}")) as address,
        Client.http(f"http://{address}", token, timeout_s=10, retry=False) as client,
    ):
        with pytest.raises(FailedError):
            client.predict("m", ["a text"])
        assert calls == 1


def test_an_error_of_the_function_comes_out(connect: Connect) -> None:
    def token() -> str:
        raise MarinaError("no key file")

    with connect(token) as (client, asked):
        with pytest.raises(MarinaError, match="no key file"):
            client.predict("m", ["a text"])
        assert asked == []


@pytest.mark.parametrize("token", [f"{VALID}\n", lambda: f" {VALID}\r\n"])
def test_a_token_may_be_the_content_of_a_file(connect: Connect, token: Token) -> None:
    with connect(token) as (client, asked):
        assert client.predict("m", ["a text"]) == [1]
    assert asked == [f"Bearer {VALID}"]


def test_no_netrc_replaces_a_token(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "netrc").write_text("default login a password b\n")
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    sent: list[str] = []

    class Adapter(requests.adapters.HTTPAdapter):
        def send(self, request: requests.PreparedRequest, *_: Any, **__: Any) -> requests.Response:
            sent.append(request.headers["Authorization"])
            raise requests.ConnectionError

    transport = HttpTransport("http://models.example.com", VALID, 1, None, retry=False)
    transport._session.mount("http://", Adapter())
    with pytest.raises(UnreachableError):
        transport.predict("m", {})
    assert sent == [f"Bearer {VALID}"]
