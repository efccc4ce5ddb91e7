"""The handler as TorchServe's own Python code loads and calls it."""

import json
from pathlib import Path
from typing import Any

import pytest
from ts.context import Context, RequestProcessor

from handlers.text_classification import TextClassification
from handlers.worker.archive.artifact import ARTIFACT_FOLDER
from handlers.worker.errors import FAILURE_MARK, ArtifactError, RequestError
from tests.conftest import ENGINE, scores
from tests.handlers.worker.conftest import Tiny

CONFIG: dict[str, Any] = {
    "batchSize": 8,
    "jobQueueSize": 100,
    "minWorkers": 2,
    "responseTimeout": 600,
    "handler": {
        **{"core_groups": None, "mode": "core-per-worker", "version": "1.0", "server_timing": False},
        **{"deadline_ms": 60_000, "max_batch_ms": 60_000},
        "members": {
            "text_classification": {
                **{"long_text": "truncate", "parameters": {}, "max_instances": 8, "max_characters": 1000},
                **{"max_windows": 8, "max_body_bytes": 10_000, "max_tokens": 1000},
            }
        },
    },
}


def context(folder: Path, config: dict[str, Any] = CONFIG) -> Context:
    return Context("m", str(folder), {}, 1, None, "0.12.0", model_yaml_config=config)


@pytest.fixture(scope="module")
def served(
    compiled: dict[tuple[str, str], Tiny], tmp_path_factory: pytest.TempPathFactory
) -> tuple[TextClassification, Context]:
    folder = tmp_path_factory.mktemp("model")
    (folder / ARTIFACT_FOLDER).symlink_to(compiled["text-classification", ENGINE].artifact)
    handler, ctx = TextClassification(), context(folder)
    handler.initialize(ctx)
    return handler, ctx


def test_each_request_has_its_own_status_and_content_type(served: tuple[TextClassification, Context]) -> None:
    handler, ctx = served
    json_body = {"body": {"content-type": "application/json"}}
    ctx.request_processor = [
        RequestProcessor(json_body),
        RequestProcessor({"body": "a header of that name"}),
        RequestProcessor({"data": {"content-type": ""}}),
        RequestProcessor({}),
    ]
    data: list[dict[str, Any]] = [
        {"body": b'{"inputs": 1}'},
        {"body": b"ok"},
        {"data": bytearray(b'{"inputs": "ok"}')},
        {"form field": "x"},
    ]
    answers = [json.loads(answer) for answer in handler.handle(data, ctx)]
    assert [ctx.get_response_status(i)[0] for i in range(4)] == [400, 200, 200, 400]
    assert ctx.get_response_status(0)[1] == "Bad Request"
    assert all(ctx.get_response_content_type(i) == "application/json" for i in range(4))
    assert scores(answers[1]) == pytest.approx(scores(answers[2]))
    assert answers[3]["type"] == "NoBody"


OVER_HTTP = {"host": "localhost"}


@pytest.mark.parametrize(
    ("data", "headers", "expected"),
    [
        ({"body": b""}, OVER_HTTP, "NoBody"),
        ({"data": b"hello", "body": b""}, OVER_HTTP, "NoBody"),  # /predictions/m?data=hello
        ({"data": b"hello"}, {**OVER_HTTP, "Content-Type": "application/x-www-form-urlencoded"}, "NoBody"),
        ({"body": "hello"}, {**OVER_HTTP, "content-type": "multipart/form-data; boundary=x"}, "NoBody"),
        ({"body": b""}, {**OVER_HTTP, "body": {"content-type": "text/plain"}}, None),
        ({"data": b"hello", "body": b"ok"}, OVER_HTTP, None),
        ({"data": b"hello"}, {}, None),  # gRPC
        ({"data": b""}, {}, "NoBody"),
    ],
)
def test_what_is_a_body_and_what_is_none(
    served: tuple[TextClassification, Context], data: dict[str, Any], headers: dict[str, Any], expected: str | None
) -> None:
    handler, ctx = served
    ctx.request_processor = [RequestProcessor(headers)]
    answer = json.loads(handler.handle([data], ctx)[0])
    if expected is None:
        assert set(scores(answer)) == {"bad", "fair", "good"}
    else:
        assert (answer["type"], ctx.get_response_status(0)[0]) == (expected, 400)


def test_a_failed_request_is_found_in_the_log_by_its_id(
    served: tuple[TextClassification, Context], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    handler, ctx = served
    traced = {"traceparent": f"00-{'ab' * 16}-{'cd' * 8}-01"}
    headers = [{"X-Request-Id": "abc-123"}, {"X-Request-Id": "two words"}, traced]
    ctx.request_processor = [RequestProcessor({**OVER_HTTP, **more}) for more in headers]
    ctx.request_ids = {number: f"made-{number}" for number in range(3)}
    failure = RequestError("NotFinite", "")
    monkeypatch.setattr(handler._model._graphs._runner, "run", lambda _, rows: dict.fromkeys(range(len(rows)), failure))
    handler.handle([{"body": b"secret"}] * 3, ctx)
    logged = [line for line in caplog.messages if line.startswith("request ")]
    ids = ("abc-123 (made-0)", "made-1", f"made-2 of trace {'ab' * 16}")
    assert logged == [f"request {request_id} was answered with 500" for request_id in ids]
    assert "secret" not in caplog.text
    returned = [ctx.get_response_headers(number) for number in range(3)]
    assert [answer.get("x-correlation-id") for answer in returned] == ["abc-123", None, None]
    assert [answer.get("traceparent") for answer in returned] == [None, None, traced["traceparent"]]


def test_explanations_are_refused(served: tuple[TextClassification, Context]) -> None:
    """/explanations/m is TorchServe's URL for them; a prediction would be another answer than the client means."""
    handler, ctx = served
    ctx.request_processor = [RequestProcessor({**OVER_HTTP, "explain": "True"}), RequestProcessor(dict(OVER_HTTP))]
    explained, predicted = (json.loads(answer) for answer in handler.handle([{"body": b"ok"}, {"body": b"ok"}], ctx))
    assert (explained["type"], ctx.get_response_status(0)[0]) == ("NoExplanation", 400)
    assert set(scores(predicted)) == {"bad", "fair", "good"}


def test_calls_over_grpc_are_answered_as_the_last_of_a_stream(served: tuple[TextClassification, Context]) -> None:
    handler, ctx = served
    sequence = {"ts_request_sequence_id": "1", "ts_request_sequence_start": "true"}
    ctx.request_processor = [RequestProcessor({}), RequestProcessor(dict(OVER_HTTP)), RequestProcessor(sequence)]
    handler.handle([{"data": b"ok"}, {"body": b"ok"}, {"body": b"ok"}], ctx)
    found = [ctx.get_response_headers(number).get("ts_stream_next") for number in range(3)]
    assert found == ["false", None, "false"]


def test_why_a_worker_cannot_serve_is_one_marked_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(ArtifactError):
        TextClassification().initialize(context(tmp_path))
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(FAILURE_MARK)
    assert "artifact.json is missing" in line


def test_a_configuration_without_our_section_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ArtifactError, match=r"model-config\.yaml lacks 'handler'"):
        TextClassification().initialize(context(tmp_path, {}))


def test_text_that_was_cut_is_told_in_a_header(served: tuple[TextClassification, Context]) -> None:
    handler, ctx = served
    ctx.request_processor = [RequestProcessor({"body": {"content-type": "application/json"}})]
    handler.handle([{"body": json.dumps({"inputs": ["ok", "ok " * 90, "ok"]}).encode()}], ctx)
    assert ctx.get_response_headers(0)["x-marina-truncated"] == "1"


def test_what_serves_is_described(served: tuple[TextClassification, Context]) -> None:
    handler, ctx = served
    ctx.request_processor = [RequestProcessor({"describe": "True"})]
    (answer,) = handler.handle([{}], ctx)
    described = json.loads(answer)
    assert described["task"] == "text-classification"
    assert described["labels"] == {"logits": ["bad", "fair", "good"]}
    assert described["shapes"] == ["1x16", "4x16", "4x64"]
    assert 0 < described["parity"]["served"] < 1e-4
    assert described["limits"] == {
        "instances": 8,
        "characters": 1000,
        "windows": 8,
        "body_bytes": 10_000,
        "tokens": 1000,
    }
    assert described["versions"]["served"] == described["versions"]["compiled"]


def test_a_clients_own_describe_header_is_no_description(served: tuple[TextClassification, Context]) -> None:
    handler, ctx = served
    ctx.request_processor = [RequestProcessor({"Describe": "True"}), RequestProcessor({})]
    answers = [json.loads(answer) for answer in handler.handle([{"body": b"ok"}, {"body": b"ok"}], ctx)]
    assert len(answers) == 2
    assert scores(answers[0]) == pytest.approx(scores(answers[1]))
