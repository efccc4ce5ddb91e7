"""Requests that are sent again."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from marina.client import Client, retries
from marina.errors import FailedError, OverloadedError, RefusedError, UnknownModelError
from tests.marina.client.servers import HttpAnswer, http_server

JSON = "application/json"
FINE = HttpAnswer(200, JSON, b'["fine"]')
FULL = HttpAnswer(503, JSON, b'{"code": 503, "type": "ServiceUnavailableException", "message": "full"}')
DIED = HttpAnswer(500, JSON, b'{"code": 500, "type": "InternalServerException", "message": "Worker died."}')
OWN = HttpAnswer(500, JSON, b'{"code": 500, "type": "NotFinite", "error": "NaN", "fix": "-"}')
WRONG = HttpAnswer(400, JSON, b'{"code": 400, "type": "InvalidBody", "error": "wrong", "fix": "-"}')
LIMITED = HttpAnswer(429, "text/html", b"<html>")
UNKNOWN = HttpAnswer(404, JSON, b'{"code": 404, "type": "ModelNotFoundException", "message": "Model not found: m"}')


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retries, "FIRST_PAUSE_S", 0.01)
    monkeypatch.setattr(retries, "MAX_PAUSE_S", 0.02)


def ask(*answers: HttpAnswer, retry: bool = True, limit_s: float = 10) -> tuple[object, int]:
    """The answer of a server that gives these answers, and how many requests it took."""
    given: Iterator[HttpAnswer] = iter(answers)
    asked = 0

    def answer(_: str | None) -> HttpAnswer:
        nonlocal asked
        asked += 1
        return next(given, answers[-1])

    with http_server(answer) as address, Client.http(f"http://{address}", timeout_s=limit_s, retry=retry) as client:
        try:
            return client.predict("m", ["a text"]), asked
        except Exception as error:
            return error, asked


@pytest.mark.parametrize("failure", [FULL, LIMITED, DIED, UNKNOWN])
def test_what_may_succeed_later_is_sent_again(failure: HttpAnswer) -> None:
    assert ask(failure, failure, FINE) == (["fine"], 3)


@pytest.mark.parametrize(("failure", "error"), [(OWN, FailedError), (WRONG, RefusedError)])
def test_what_fails_for_good_is_not(failure: HttpAnswer, error: type[Exception]) -> None:
    answer, asked = ask(failure, FINE)
    assert isinstance(answer, error)
    assert asked == 1


def test_retries_can_be_switched_off() -> None:
    answer, asked = ask(FULL, FINE, retry=False)
    assert isinstance(answer, OverloadedError)
    assert asked == 1


def test_retries_end_with_the_time_limit() -> None:
    answer, asked = ask(FULL, limit_s=2)
    assert isinstance(answer, OverloadedError)
    assert asked > 3


def test_a_model_that_stays_unknown_is_soon_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retries, "UNKNOWN_S", 0.1)
    answer, _ = ask(UNKNOWN)
    assert isinstance(answer, UnknownModelError)


def test_a_request_that_the_server_forgot_is_sent_again() -> None:
    waits = iter((5.0, 0.0))

    def answer(_: str | None) -> HttpAnswer:
        time.sleep(next(waits, 0))
        return FINE

    with http_server(answer) as address, Client.http(f"http://{address}", timeout_s=4) as client:
        assert client.predict("m", ["a text"]) == ["fine"]
