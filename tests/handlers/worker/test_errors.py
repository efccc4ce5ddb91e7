"""Every kind of error that docs/reference/errors.md lists: a request that meets it, and its body."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from handlers.worker.answering import reply as module
from handlers.worker.answering.model import Model
from handlers.worker.errors import KINDS
from handlers.worker.request.instances import RequestLimits
from handlers.worker.tasks import TASKS
from tests.conftest import ENGINE
from tests.handlers.worker.conftest import Tiny
from tests.settings import make_settings

LIMITS = RequestLimits(instances=4, characters=2000, windows=3, body_bytes=3000, tokens=180)
JSON = {"content-type": "application/json"}
TEXT = {"content-type": "text/plain"}
LONG = "ok " * 150  # three windows of 64 tokens


def inputs(value: Any, **parameters: Any) -> bytes:
    return json.dumps({"inputs": value, "parameters": parameters}).encode()


MEET: dict[str, tuple[bytes | None, dict[str, str]]] = {
    "NoBody": (None, {}),
    "InvalidEncoding": (b"\xff", TEXT),
    "UnknownEncoding": (b"ok", {**TEXT, "content-encoding": "br"}),
    "InvalidJson": (b"{", JSON),
    "InvalidBody": (b"{}", JSON),
    "InvalidInstance": (inputs(5), JSON),
    "InvalidText": (b'{"inputs": "\\ud800"}', JSON),
    "InvalidParameter": (inputs("ok", top_k=0), JSON),
    "TooManyCharacters": (inputs("a" * 2001), JSON),
    "TooManyWindows": (inputs("ok " * 500), JSON),
    "TooManyInstances": (inputs(["ok"] * 5), JSON),
    "BodyTooLarge": (gzip.compress(b"a" * 3001), {**TEXT, "content-encoding": "gzip"}),
    "TooManyRows": (inputs([LONG, LONG]), JSON),
    "TooMuchWork": (inputs([LONG, "ok " * 60]), JSON),
    "TooLate": (inputs("ok"), {**JSON, "x-request-start": "t=1700000000.1"}),
}
# of the worker's own making: what fails in it
FAILS: dict[str, Callable[[pytest.MonkeyPatch, Model], None]] = {
    "AnswerTooLarge": lambda patch, _: patch.setattr(module, "MAX_ANSWER", 5),
    "NotFinite": lambda patch, model: run_as(patch, model, lambda rows: [np.full((rows, 3), np.nan, np.float32)]),
    "Unexpected": lambda patch, model: run_as(patch, model, lambda _: 1 // 0),
}
# of TorchServe's URLs: tests of the host; of a batch with too much work: tests of the admission and of the model; of
# bundles: tests of bundles; of a tokenizer without special tokens, and of long_text: tests of the tokenizer
ELSEWHERE = {"NoExplanation", "Overloaded", "NoModel", "ModelFailed", "NoTokens", "TextTooLong"}


def run_as(patch: pytest.MonkeyPatch, model: Model, run: Callable[[int], Any]) -> None:
    for graph in model.members[0].graphs.streams[0].values():
        patch.setattr(graph, "run", run)


@pytest.fixture(scope="module")
def model(compiled: dict[tuple[str, str], Tiny]) -> Model:
    settings = make_settings(LIMITS, long_text="window")
    return Model(compiled["text-classification", ENGINE].artifact, settings, TASKS)


def check(model: Model, kind: str, body: bytes | None, headers: dict[str, str]) -> None:
    (reply,) = model.reply([(body, headers)])
    document = json.loads(reply.body)
    assert (reply.status, document["code"], document["type"]) == (KINDS[kind].status, KINDS[kind].status, kind)
    assert document["fix"] == KINDS[kind].fix
    assert document["error"]


@pytest.mark.parametrize("kind", MEET)
def test_a_request_that_is_refused(model: Model, kind: str) -> None:
    check(model, kind, *MEET[kind])


@pytest.mark.parametrize("kind", FAILS)
def test_a_worker_that_fails(model: Model, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    FAILS[kind](monkeypatch, model)
    check(model, kind, inputs("ok"), JSON)


def test_no_kind_is_left_out() -> None:
    assert {*MEET, *FAILS, *ELSEWHERE} == set(KINDS)
