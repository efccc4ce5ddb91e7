"""The Lambda function, with events of API Gateway and endpoints that keep SageMaker's limits."""

from __future__ import annotations

import base64
import io
import json
import time
from types import ModuleType
from typing import Any

import pytest
from botocore.exceptions import ClientError
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from handlers.worker.request.body import decode
from handlers.worker.request.selection import select
from tests.conftest import ROOT
from tests.marina.deploy.conftest import load

HANDLER = ROOT / "marina" / "deploy" / "sagemaker" / "files" / "lambda" / "handler.py"
LIMIT = 6_291_456


class Clock:
    """A clock that only endpoints move."""

    def __init__(self) -> None:
        self.now = 0.0


class Endpoints:
    """Endpoints that answer `each` bytes an instance, take `seconds` for one, and `most` of them at once."""

    def __init__(self, clock: Clock, each: int = 10, seconds: float = 0.001, most: int = 256) -> None:
        self.clock, self.each, self.seconds, self.most = clock, each, seconds, most
        self.calls: list[tuple[str, int]] = []

    def invoke_endpoint(self, EndpointName: str, ContentType: str, Body: bytes) -> dict[str, Any]:
        assert len(Body) <= LIMIT
        inputs = json.loads(Body)["inputs"]
        self.calls.append((EndpointName, len(inputs)))
        self.clock.now += self.seconds * len(inputs)
        if len(inputs) > self.most:
            raise refusal(413, '{"code": 413, "type": "TooManyInstances", "error": "too many"}')
        if "wrong" in inputs:
            raise refusal(400, '{"code": 400, "type": "InvalidInstance", "error": "wrong"}')
        answers = [f"{EndpointName}:{text}".ljust(self.each)[: max(self.each, 1)] for text in inputs]
        return {"Body": io.BytesIO(json.dumps(answers).encode())}


def refusal(status: int, message: str) -> ClientError:
    details: Any = {
        "OriginalStatusCode": status,
        "OriginalMessage": message,
        "Error": {"Code": "ModelError", "Message": "?"},
    }
    return ClientError(details, "InvokeEndpoint")


class Context:
    """Lambda's own."""

    def get_remaining_time_in_millis(self) -> int:
        return 29_000


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(time, "monotonic", lambda: made.now)
    return made


@pytest.fixture
def function(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-west-1")
    monkeypatch.setenv("ENDPOINTS", "search,ner")
    return load(HANDLER)


def ask(function: ModuleType, endpoints: Endpoints, event: dict[str, Any]) -> tuple[int, Any]:
    vars(function)["runtime"] = endpoints
    answer = function.handler(event, Context())
    assert len(json.dumps(answer).encode()) <= LIMIT
    return answer["statusCode"], json.loads(answer["body"])


def event(inputs: Any) -> dict[str, Any]:
    return {"body": json.dumps({"inputs": inputs}), "isBase64Encoded": False}


def test_both_endpoints_answer_one_after_the_other(function: ModuleType, clock: Clock) -> None:
    endpoints = Endpoints(clock)
    status, found = ask(function, endpoints, event(["a", "b"]))
    assert (status, found["next"]) == (200, None)
    assert [text.strip() for text in found["answers"]["search"]] == ["search:a", "search:b"]
    assert [text.strip() for text in found["answers"]["ner"]] == ["ner:a", "ner:b"]
    assert endpoints.calls == [("search", 2), ("ner", 2)]


def test_a_body_in_base64(function: ModuleType, clock: Clock) -> None:
    body = base64.b64encode(b'{"inputs": ["a"]}').decode()
    assert ask(function, Endpoints(clock), {"body": body, "isBase64Encoded": True})[0] == 200


@pytest.mark.parametrize("body", ["", "{", "[]", '{"inputs": "a"}', '{"inputs": [], "parameters": 1}', '{"a": 1}'])
def test_a_body_that_cannot_be_read(function: ModuleType, clock: Clock, body: str) -> None:
    status, found = ask(function, Endpoints(clock), {"body": body})
    assert (status, found["type"]) == (400, "InvalidBody")


def test_an_error_of_the_model_is_passed_on(function: ModuleType, clock: Clock) -> None:
    status, found = ask(function, Endpoints(clock), event(["a", "wrong"]))
    assert (status, found["type"]) == (400, "InvalidInstance")


def test_a_request_names_its_model_of_a_bundle(function: ModuleType, clock: Clock) -> None:
    bodies: list[bytes] = []

    class Bundle(Endpoints):
        def invoke_endpoint(self, EndpointName: str, ContentType: str, Body: bytes) -> dict[str, Any]:
            bodies.append(Body)
            return super().invoke_endpoint(EndpointName, ContentType, Body)

    document = {"model": "ava-intent", "inputs": ["a"], "parameters": {"top_k": 1}}
    assert ask(function, Bundle(clock), {"body": json.dumps(document)})[0] == 200
    selected, several = select(
        decode(bodies[0], {"content-type": "application/json"}, LIMIT), ["ava-intent", "resume-ner"]
    )
    assert (list(selected), several) == (["ava-intent"], False)
    assert selected["ava-intent"].value == {"inputs": ["a"], "parameters": {"top_k": 1}}


def test_an_error_of_aws_is_json_too(function: ModuleType, clock: Clock) -> None:
    class Missing(Endpoints):
        def invoke_endpoint(self, EndpointName: str, ContentType: str, Body: bytes) -> dict[str, Any]:
            details: Any = {"Error": {"Code": "ValidationError", "Message": "Endpoint not found."}}
            raise ClientError(details, "InvokeEndpoint")

    status, found = ask(function, Missing(clock), event(["a"]))
    assert (status, found) == (503, {"code": 503, "type": "NoAnswer", "error": "search: Endpoint not found."})


def test_no_instances(function: ModuleType, clock: Clock) -> None:
    assert ask(function, Endpoints(clock), event([])) == (200, {"answers": {"search": [], "ner": []}, "next": None})


def test_it_stops_before_the_gateway_does(function: ModuleType, clock: Clock) -> None:
    endpoints = Endpoints(clock, seconds=0.05)
    status, found = ask(function, endpoints, event(["a"] * 1000))
    assert status == 200
    assert clock.now < 29
    # 0.1 s an instance: 29 s less the margin have room for 270
    assert 230 <= found["next"] <= 270
    assert len(found["answers"]["search"]) == len(found["answers"]["ner"]) == found["next"]


def test_it_stops_before_lambda_does(function: ModuleType, clock: Clock) -> None:
    # an embedding of 384 floats is about 8 KB
    endpoints = Endpoints(clock, each=8000)
    status, found = ask(function, endpoints, event(["a"] * 1000))
    assert status == 200
    assert 370 <= found["next"] <= LIMIT // 16_000
    rest = ask(function, endpoints, event(["a"] * (1000 - found["next"])))
    assert rest[1]["next"] is not None


def test_large_instances_are_sent_in_bodies_that_sagemaker_takes(function: ModuleType, clock: Clock) -> None:
    endpoints = Endpoints(clock)
    # Lambda's own limit is for the whole request, so this is at it
    status, found = ask(function, endpoints, event(["a" * 2_500_000] * 3))
    assert (status, found["next"]) == (200, None)
    assert max(count for _, count in endpoints.calls) == 2
    status, found = ask(function, endpoints, event(["a" * (LIMIT + 1)]))
    assert (status, found["type"]) == (413, "BodyTooLarge")


def test_a_model_that_takes_fewer_at_once(function: ModuleType, clock: Clock) -> None:
    endpoints = Endpoints(clock, most=10)
    status, found = ask(function, endpoints, event(["a"] * 100))
    assert (status, found["next"]) == (200, None)
    refused = sum(count > 10 for _, count in endpoints.calls)
    assert refused <= 2


def test_one_answer_that_is_too_large(function: ModuleType, clock: Clock) -> None:
    status, found = ask(function, Endpoints(clock, each=LIMIT // 2), event(["a"]))
    assert (status, found["type"]) == (413, "AnswerTooLarge")


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)
@given(
    count=st.integers(0, 700),
    each=st.integers(1, 60_000),
    seconds=st.floats(0.0001, 0.5),
    most=st.integers(1, 300),
)
def test_every_instance_is_answered_once_and_in_order(
    function: ModuleType, clock: Clock, count: int, each: int, seconds: float, most: int
) -> None:
    texts, done = [str(number) for number in range(count)], 0
    for _ in range(count + 1):  # the caller goes on with what is left
        clock.now = 0.0
        status, found = ask(function, Endpoints(clock, each + 20, seconds, most), event(texts[done:]))
        assert status == 200
        assert clock.now <= 29
        answers = [text.strip() for text in found["answers"]["ner"]]
        assert answers == [f"ner:{text}" for text in texts[done : done + len(answers)]]
        done += len(answers)
        if found["next"] is None:
            break
        assert found["next"] == len(answers) > 0
    assert done == count
