"""The tokens of texts, against the tokenizer of transformers."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import AutoTokenizer

from handlers.worker.answering.model import Model
from handlers.worker.hosts import tei
from handlers.worker.request.instances import RequestLimits
from handlers.worker.tasks import TASKS
from tests.conftest import ENGINE
from tests.handlers.worker.conftest import Tiny
from tests.settings import make_settings

LIMITS = RequestLimits(instances=8, characters=500, windows=8, body_bytes=100_000, tokens=400)
JSON = {"content-type": "application/json"}
Served = tuple[Model, Any]


@pytest.fixture(scope="module")
def served(compiled: dict[tuple[str, str], Tiny]) -> Served:
    """A classifier of pairs, and its tokenizer."""
    tiny = compiled["text-classification", ENGINE]
    return Model(tiny.artifact, make_settings(LIMITS), TASKS), AutoTokenizer.from_pretrained(tiny.source)


def ask(model: Model, **body: Any) -> tuple[int, Any, dict[str, str]]:
    (reply,) = model.reply([(json.dumps(body).encode(), JSON)])
    return reply.status, json.loads(reply.body), dict(reply.headers)


@settings(max_examples=50, deadline=None)
@given(st.text(max_size=40), st.none() | st.text(min_size=1, max_size=40), st.booleans())
def test_they_are_those_of_transformers(served: Served, text: str, pair: str | None, special: bool) -> None:
    model, tokenizer = served
    instance = {"text": text, "text_pair": pair} if pair else text
    status, (tokens,), _ = ask(model, tokenize=instance, add_special_tokens=special)
    expected = tokenizer(
        text, pair, add_special_tokens=special, return_offsets_mapping=True, return_special_tokens_mask=True
    )
    assert status == 200
    assert [token["id"] for token in tokens] == expected["input_ids"]
    for token, sequence, offsets in zip(tokens, expected.sequence_ids(0), expected["offset_mapping"], strict=True):
        if sequence is None:
            assert (token["special"], token["start"], token["stop"]) == (True, None, None)
            assert token["text"] == tokenizer.convert_ids_to_tokens(token["id"])
        else:
            assert (token["special"], token["start"], token["stop"]) == (False, *offsets)
            assert token["text"] == (text, pair or "")[sequence][slice(*offsets)]


def test_what_the_model_would_cut_is_named(served: Served) -> None:
    fits, long = "ok " * 62, "ok " * 63  # with [CLS] and [SEP], 64 tokens are the most
    for special in (True, False):
        status, tokens, headers = ask(served[0], tokenize=[fits, long, fits], add_special_tokens=special)
        assert (status, headers["x-marina-truncated"]) == (200, "1")
        assert [len(text_tokens) for text_tokens in tokens] == [62 + 2 * special, 63 + 2 * special, 62 + 2 * special]


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({"tokenize": []}, "at least one instance"),
        ({"tokenize": None}, r"tokenize\[0\] must be a text"),
        ({"tokenize": ["a", 5]}, r"tokenize\[1\] must be a text"),
        ({"tokenize": ["a"] * 9}, "at most 8"),
        ({"tokenize": "a" * 501}, "at most 500"),
        ({"tokenize": ["ok " * 160] * 8}, "has 162 tokens, and the request may have 76 more"),
        ({"tokenize": "a", "inputs": "a"}, 'unknown field "inputs"'),
        ({"tokenize": "a", "add_special_tokens": 1}, "must be true or false"),
        ({"tokenize": "a", "top_k": 1, "parameters": {"top_k": 1}}, "not both"),
        ({"tokenize": "a", "parameters": {"thresholds": {"x": 1}}}, "the model has no label"),
    ],
)
def test_what_is_refused(served: Served, body: dict[str, Any], message: str) -> None:
    status, answer, _ = ask(served[0], **body)
    assert status in (400, 413)
    assert re.search(message, answer["error"])


def test_lines_of_tokens(served: Served) -> None:
    lines = [{"tokenize": "ok"}, {"inputs": "ok"}, {"tokenize": ["ok"], "add_special_tokens": False}]
    body = b"\n".join(json.dumps(line).encode() for line in lines)
    (reply,) = served[0].reply([(body, {"content-type": "application/jsonlines"})])
    first, second, third = map(json.loads, reply.body.splitlines())
    assert [len(first[0]), set(second[0]), len(third[0])] == [3, {"label", "score"}, 1]


def test_they_count_as_work(compiled: dict[tuple[str, str], Tiny]) -> None:
    settings = make_settings(LIMITS)._replace(max_batch_ms=1)
    model = Model(compiled["text-classification", ENGINE].artifact, settings, TASKS)
    bodies = [(json.dumps({"tokenize": ["ok " * 40] * 8}).encode(), JSON) for _ in range(40)]
    assert {reply.status for reply in model.reply(bodies)} == {200, 503}


def test_nothing_is_counted_as_cut(served: Served) -> None:
    served[0].metrics.take()
    assert ask(served[0], tokenize="ok " * 80)[2]["x-marina-truncated"] == "0"
    assert not any(name == "marina_truncated_total" for name, _ in served[0].metrics.take())


def test_others_in_the_batch_are_answered_as_usual(served: Served) -> None:
    bodies = [{"tokenize": "ok"}, {"inputs": "ok"}, {"tokenize": 5}]
    replies = served[0].reply([(json.dumps(body).encode(), JSON) for body in bodies])
    assert [reply.status for reply in replies] == [200, 200, 400]
    assert set(json.loads(replies[1].body)[0]) == {"label", "score"}


def test_what_a_model_says_of_itself(served: Served) -> None:
    model, _ = served
    description = model.describe()
    document = tei.info({"m": description})
    (head,) = description["labels"].values()
    labels = document["model_type"]["classifier"]
    assert labels["label2id"] == {label: number for number, label in enumerate(head)}
    assert labels["id2label"] == {str(number): label for number, label in enumerate(head)}
    assert document["model_dtype"] == "float32"
    assert (document["max_input_length"], document["max_client_batch_size"]) == (64, 8)
    bundle = {"members": {"m": description}, "version": "3"}
    assert tei.info({"m": description, "b": bundle})["models"] == {
        "m": document,
        "b:m": {**document, "model_id": "b:m", "model_sha": "3"},
    }
    assert set(tei.info({"b": bundle})["models"]) == {"b:m"}
