"""The URLs of hosts that have none of their own, and how they batch requests."""

from __future__ import annotations

import asyncio
import gzip
import json
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from handlers.worker.answering.reply import Reply
from handlers.worker.hosts.batches import Batches
from handlers.worker.hosts.routes import Action, Route, route_of
from handlers.worker.hosts.urls import BODY_BYTES, Urls, read_tokens
from handlers.worker.values import Json


@pytest.mark.parametrize(
    ("method", "path", "route"),
    [
        ("POST", "/predictions/a.b-c_1", Route(Action.PREDICT, "a.b-c_1")),
        ("POST", "/predictions/m/2.0", Route(Action.PREDICT, "m", "2.0")),
        ("POST", "/v1/models/m:predict", Route(Action.PREDICT, "m")),
        ("POST", "/v2/models/m/versions/3/infer", Route(Action.PREDICT, "m", "3")),
        ("POST", "/invocations", Route(Action.PREDICT)),
        ("GET", "/v2/models/m", Route(Action.DESCRIBE, "m")),
        ("GET", "/v2/models/m/versions/3/ready", Route(Action.READY, "m", "3")),
        ("GET", "/ping", Route(Action.READY)),
        ("GET", "/health", Route(Action.READY)),
        ("GET", "/v1/models", Route(Action.LIST)),
        ("POST", "/tokenize", Route(Action.TOKENIZE)),
        ("GET", "/info", Route(Action.INFO)),
        ("GET", "/v1/models/m", Route(Action.READY, "m")),
        ("POST", "/v1/embeddings", Route(Action.PREDICT)),
        ("GET", "/v2/health/live", Route(Action.LIVE)),
        ("GET", "/predictions/m", None),
        ("POST", "/predictions/m/1/2", None),
        ("POST", "/predictions/../m", None),
        ("GET", "/", None),
    ],
)
def test_routes(method: str, path: str, route: Route | None) -> None:
    assert route_of(method, path) == route


DESCRIPTION: Json = {
    **{"name": "known", "task": "sentence-embedding", "labels": {"embedding": []}, "precision": "bf16"},
    **{"max_tokens": 128, "long_text": "truncate", "limits": {"tokens": 4096, "instances": 32}},
    "version": "2",
}


class Known:
    """A model that answers what it was asked, or does not answer at all."""

    body_bytes = BODY_BYTES

    def __init__(self, lost: bool = False, busy: bool = False) -> None:
        self._lost, self._busy = lost, busy
        self.headers: Mapping[str, str] = {}

    async def reply(self, body: bytes, headers: Mapping[str, str], version: str | None) -> Reply:
        self.headers = headers
        return Reply(200, json.dumps([body.decode(), version]).encode(), {})

    async def describe(self, version: str | None) -> Json:
        if self._lost:
            raise TimeoutError
        if version not in (None, "2"):
            return None
        return {} if self._busy else DESCRIPTION  # as Ray Serve's

    async def is_ready(self, version: str | None) -> bool | None:
        return None if version not in (None, "2") else not self._lost


def ask(
    urls: Urls, method: str, path: str, headers: Mapping[str, str] | None = None, content: bytes = b"text"
) -> tuple[int, Any]:
    async def body(_: int) -> bytes:
        return content

    reply = asyncio.run(urls.answer(method, path, headers or {}, body))
    return reply.status, json.loads(reply.body)


def test_a_token_is_asked_for_where_models_answer() -> None:
    urls = Urls({"m": Known()}, ["secret", "next"])
    for method, path in (("POST", "/predictions/m"), ("POST", "/invocations"), ("GET", "/models/m")):
        for given in (
            {},
            {"authorization": "secret"},
            {"authorization": "Bearer other"},
            {"authorization": "Bearer é"},
        ):
            assert ask(urls, method, path, given)[0] == 401
        for token in ("secret", "next"):
            assert ask(urls, method, path, {"authorization": f"Bearer {token}"})[0] == 200
    assert ask(urls, "GET", "/ping")[0] == 200


def test_which_model_is_meant() -> None:
    one, two = Urls({"m": Known()}, ()), Urls({"m": Known(), "n": Known()}, ())
    assert ask(one, "POST", "/invocations") == (200, ["text", None])
    assert ask(two, "POST", "/invocations", {"x-amzn-sagemaker-custom-attributes": "n"})[0] == 200
    for content in (b"text", b"[1]", b"{}", b'{"model": 5}'):
        assert ask(two, "POST", "/v1/embeddings", content=content)[0] == 404
    named = b'{"model": "n", "input": "a"}'
    without_name = (200, ['{"input":"a"}', None])
    assert ask(two, "POST", "/v1/embeddings", content=named) == without_name
    assert ask(two, "POST", "/invocations", {"content-encoding": "gzip"}, gzip.compress(named)) == without_name
    assert ask(two, "POST", "/invocations", {"content-encoding": "gzip"}, named)[0] == 400
    assert ask(two, "POST", "/invocations", content=b"{}")[1]["error"] == (
        'name the model in the URL, or as "model" in a JSON object; there are m, n'
    )
    # the only model needs no name, so the header may have other attributes
    assert ask(one, "POST", "/invocations", {"x-amzn-sagemaker-custom-attributes": "trace=1"})[0] == 200
    listed = ask(two, "GET", "/v1/models")[1]
    assert [entry["id"] for entry in listed["data"]] == ["m", "n"]
    assert ask(one, "POST", "/predictions/m/2") == (200, ["text", "2"])
    status, found = ask(one, "POST", "/predictions/other")
    assert (status, found["type"]) == (404, "UnknownModel")
    assert "did you mean intents?" in ask(Urls({"intents": Known()}, ()), "POST", "/predictions/intnts")[1]["error"]


def test_the_urls_of_text_embeddings_inference() -> None:
    one, two = Urls({"m": Known()}, ()), Urls({"m": Known(), "n": Known()}, ["secret"])
    assert ask(one, "POST", "/tokenize", content=b'{"inputs": ["a"]}') == (200, ['{"tokenize":["a"]}', None])
    # what is no such body is not taken for a prediction
    for content in (b"text", b"[1]", b"\x1f\x8b", b'{"instances": ["a"]}', b'{"inputs": "a", "tokenize": "b"}'):
        assert ask(one, "POST", "/tokenize", content=content)[1]["type"] == "InvalidBody"
    sparse = b'{"inputs": "a", "truncate": true}'
    rewritten = '{"inputs":["a"],"format":"indices","truncate":true}'
    assert ask(one, "POST", "/embed_sparse", content=sparse) == (200, [rewritten, None])
    nested = b'{"inputs": ["a"], "parameters": {"truncate": true}}'
    rewritten = '{"inputs":["a"],"parameters":{"truncate":true,"format":"indices"}}'
    assert ask(one, "POST", "/embed_sparse", content=nested) == (200, [rewritten, None])
    every = '{"inputs":["a"],"encoding":"float"}'
    assert ask(one, "POST", "/embed_all", content=b'{"inputs": "a"}') == (200, [every, None])
    token = {"authorization": "Bearer secret"}
    named = b'{"inputs": "a", "model": "n"}'
    assert ask(two, "POST", "/embed_sparse", token, named) == (200, ['{"inputs":["a"],"format":"indices"}', None])
    assert ask(two, "POST", "/embed_sparse", content=named)[0] == 401
    assert ask(two, "POST", "/tokenize", token, named) == (200, ['{"tokenize":"a"}', None])
    assert [ask(two, method, path)[0] for method, path in (("POST", "/tokenize"), ("GET", "/info"))] == [401, 401]
    assert ask(one, "GET", "/info")[1] == {
        **{"model_id": "m", "model_sha": "2", "model_dtype": "bfloat16", "model_type": {"embedding": {}}},
        **{"max_input_length": 128, "max_batch_tokens": 4096, "max_client_batch_size": 32, "auto_truncate": True},
    }
    model = Known()
    ask(Urls({"m": model}, ()), "POST", "/tokenize", {"content-type": "text/plain"}, b'{"inputs": "a"}')
    assert "content-type" not in model.headers
    assert set(ask(two, "GET", "/info", token)[1]["models"]) == {"m", "n"}
    assert ask(Urls({"m": Known(lost=True)}, ()), "GET", "/info")[0] == 503
    assert ask(Urls({"m": Known(busy=True)}, ()), "GET", "/info")[0] == 503


def test_it_is_ready_when_all_models_answer() -> None:
    urls = Urls({"m": Known(), "lost": Known(lost=True)}, ())
    assert ask(urls, "GET", "/ping") == (503, {"name": "marina", "ready": False, "missing": ["lost"]})
    assert ask(urls, "GET", "/v1/models/m")[0] == 200
    assert ask(urls, "GET", "/v2/models/lost/ready")[0] == 503
    for path in ("/v2/models/m/versions/{}/ready", "/v2/models/m/versions/{}", "/models/m/{}"):
        assert [ask(urls, "GET", path.format(version))[0] for version in (2, 3)] == [200, 404]


def test_a_model_that_is_still_to_come_is_not_unknown() -> None:
    coming = {"late"}
    urls = Urls({"m": Known()}, (), coming=coming)
    assert ask(urls, "GET", "/ping") == (503, {"name": "marina", "ready": False, "missing": ["late"]})
    status, refused = ask(urls, "POST", "/predictions/late")
    assert (status, refused["type"]) == (503, "NotReady")
    coming.clear()
    assert ask(urls, "GET", "/ping")[0] == 200
    assert ask(urls, "POST", "/predictions/late")[0] == 404


def test_a_body_that_is_too_large_is_not_read() -> None:
    status, found = ask(Urls({"m": Known()}, ()), "POST", "/predictions/m", {"content-length": str(BODY_BYTES + 1)})
    assert (status, found["type"]) == (413, "BodyTooLarge")


def test_a_body_may_be_as_large_as_its_model_takes() -> None:
    small, large = Known(), Known()
    small.body_bytes, large.body_bytes = 3, 5
    urls = Urls({"small": small, "large": large}, ())
    assert ask(urls, "POST", "/predictions/small", content=b"text")[0] == 413
    assert ask(urls, "POST", "/predictions/large", content=b"text")[0] == 200
    assert ask(urls, "POST", "/predictions/large", {"content-length": "6"})[0] == 413
    assert ask(urls, "POST", "/invocations", {"x-amzn-sagemaker-custom-attributes": "large"})[0] == 200


def test_a_method_that_a_url_does_not_have() -> None:
    urls = Urls({"m": Known()}, ())
    reply = asyncio.run(urls.answer("PUT", "/predictions/m", {}, lambda _: asyncio.sleep(0, b"")))
    assert (reply.status, reply.headers["allow"]) == (405, "POST")
    assert ask(urls, "POST", "/v1/models/m")[0] == 405
    assert ask(urls, "POST", "/elsewhere")[0] == 404


def test_it_is_not_alive_if_models_do_not_come_back(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    model = Known(lost=True)
    urls = Urls({"m": model}, (), dead_s=60)
    for seconds, status in ((0, 200), (59, 200), (60, 503)):
        now[0] = 100.0 + seconds
        assert ask(urls, "GET", "/v2/health/live")[0] == status
    model._lost = False
    assert ask(urls, "GET", "/v2/health/live")[0] == 200


def test_limits_for_batch_transform() -> None:
    assert ask(Urls({}, ["token"], limits=lambda: {"MaxPayloadInMB": 1}), "GET", "/execution-parameters") == (
        200,
        {"MaxPayloadInMB": 1},
    )
    assert ask(Urls({}, ()), "GET", "/execution-parameters")[0] == 404


def test_when_a_request_came_is_passed_on() -> None:
    model = Known()
    urls = Urls({"m": model}, ())
    ask(urls, "POST", "/predictions/m")
    assert model.headers["x-request-start"].startswith("t=")
    ask(urls, "POST", "/predictions/m", {"x-request-start": "t=1"})
    assert model.headers["x-request-start"] == "t=1"


def test_tokens(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("from-a-file\n")
    assert read_tokens({"MARINA_TOKEN_FILE": str(tmp_path / "token")}) == ("from-a-file",)
    assert read_tokens({"MARINA_TOKEN": "old new"}) == ("old", "new")
    assert read_tokens({"MARINA_OPEN": "true"}) == ()
    with pytest.raises(ValueError, match="MARINA_TOKEN"):
        read_tokens({})


class Slow:
    """A model that computes when it may, and remembers its batches."""

    def __init__(self) -> None:
        self.go = threading.Event()
        self.batches: list[int] = []
        self.threads: set[str] = set()

    def load(self) -> Slow:
        self.threads.add(threading.current_thread().name)
        return self

    def reply(self, bodies: Sequence[tuple[Any, Mapping[str, str]]]) -> list[Reply]:
        self.go.wait(10)
        self.threads.add(threading.current_thread().name)
        self.batches.append(len(bodies))
        if any(body == b"broken" for body, _ in bodies):
            raise RuntimeError("broken")
        return [Reply(200, body, {}) for body, _ in bodies]


def test_a_batch_is_what_waits_when_the_model_is_idle() -> None:
    model = Slow()

    async def run() -> list[bytes]:
        batches = Batches(model.load, 4)  # type: ignore[arg-type]
        first = asyncio.create_task(batches.reply(b"first", {}))
        await asyncio.sleep(0.05)  # it computes, and others come
        others = [asyncio.create_task(batches.reply(str(number).encode(), {})) for number in range(6)]
        await asyncio.sleep(0.05)
        model.go.set()
        replies = await asyncio.gather(first, *others)
        return [reply.body for reply in replies]

    assert asyncio.run(run()) == [b"first", *(str(number).encode() for number in range(6))]
    assert model.batches == [1, 4, 2]
    assert len(model.threads) == 1


def test_a_batch_that_fails_takes_no_other_with_it() -> None:
    model = Slow()
    model.go.set()

    async def run() -> None:
        batches = Batches(model.load, 4)  # type: ignore[arg-type]
        with pytest.raises(RuntimeError):
            await batches.reply(b"broken", {})
        cancelled = asyncio.create_task(batches.reply(b"gone", {}))
        await asyncio.sleep(0)
        cancelled.cancel()
        assert (await batches.reply(b"next", {})).body == b"next"

    asyncio.run(run())


class Changing(Known):
    """A model during whose description another takes its place."""

    def __init__(self, models: dict[str, Any]) -> None:
        super().__init__()
        self._models = models

    async def describe(self, version: str | None) -> Json:
        self._models["x"] = self._models.pop("m", None) or Known()
        return DESCRIPTION


def test_info_while_models_come_and_go() -> None:
    assert ask(Urls({}, (), coming={"m"}), "GET", "/info")[0] == 503
    models: dict[str, Any] = {"m": Known()}
    models["n"] = Changing(models)
    assert sorted(ask(Urls(models, ()), "GET", "/info")[1]["models"]) == ["m", "n"]


def test_parameters_for_text_embeddings_inference_must_be_an_object() -> None:
    for content in (b'{"inputs": "a", "parameters": [1]}', b'{"inputs": "a", "parameters": "b"}'):
        assert ask(Urls({"m": Known()}, ()), "POST", "/embed_sparse", content=content)[0] == 400


def test_the_time_in_which_a_client_sends_its_body_is_no_wait() -> None:
    model = Known()

    async def body(_: int) -> bytes:
        await asyncio.sleep(0.3)
        return b"text"

    asyncio.run(Urls({"m": model}, ()).answer("POST", "/predictions/m", {}, body))
    assert time.time() - float(model.headers["x-request-start"].removeprefix("t=")) < 0.2
