"""Bodies of JSON Lines: an answer or an error on each line."""

import gzip
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from handlers.worker.answering.model import Model
from handlers.worker.answering.reply import Reply
from handlers.worker.tasks import TASKS
from tests.conftest import ENGINE, WORDS
from tests.handlers.worker.answering.test_model import LIMITS, SETTINGS, ask
from tests.handlers.worker.conftest import Tiny
from tests.settings import make_settings

LINES = {"content-type": "application/jsonlines; charset=utf-8"}


@pytest.fixture(scope="module")
def model(compiled: dict[tuple[str, str], Tiny]) -> Model:
    return Model(compiled["text-classification", ENGINE].artifact, SETTINGS, TASKS)


def send(model: Model, body: bytes, **headers: str) -> Reply:
    (reply,) = model.reply([(body, {**LINES, **headers})])
    return reply


def answers_of(reply: Reply) -> list[Any]:
    assert reply.status == 200
    assert reply.media_type == "application/jsonlines"
    assert reply.body.endswith(b"\n")
    return [json.loads(line) for line in reply.body.decode().removesuffix("\n").split("\n")]


def body_of(*documents: Any) -> bytes:
    return "\n".join(json.dumps(document, ensure_ascii=False) for document in documents).encode()


words = st.lists(st.sampled_from([*WORDS, "\u2028", "\x85", "👍"]), max_size=12).map(" ".join)
lines = st.one_of(
    words,
    words.map(lambda text: {"text": text}),
    words.map(lambda text: {"inputs": text, "parameters": {"top_k": 1}}),
    st.lists(words, min_size=1, max_size=3).map(lambda texts: {"instances": texts}),
    st.sampled_from([{}, 3, {"inputs": 3}, {"other": "x"}, {"inputs": ["x", None]}]),
)


@settings(max_examples=40, deadline=None)
@given(st.lists(lines, min_size=1, max_size=8))
def test_each_line_is_answered_as_a_request_of_its_own(model: Model, documents: list[Any]) -> None:
    found = answers_of(send(model, body_of(*documents)))
    assert len(found) == len(documents)
    for document, answer in zip(documents, found, strict=True):
        ((_, alone),) = ask(model, {"inputs": document} if isinstance(document, str) else document)
        if isinstance(answer, dict) and "error" in answer:
            assert answer == alone
        else:
            assert str(_labels(answer)) == str(_labels(alone))


def _labels(answer: Any) -> Any:
    """An answer without scores, which differ a little between graphs."""
    if isinstance(answer, dict):
        return {name: _labels(value) for name, value in answer.items() if name != "score"}
    return [_labels(one) for one in answer] if isinstance(answer, list) else answer


def test_broken_lines_fail_alone(model: Model) -> None:
    reply = send(model, b'"ok"\n{"inputs": \n\n{"inputs": "ok"}\r\n[1e400, NaN]\n"fine"\n')
    kinds = [one.get("type") if isinstance(one, dict) else None for one in answers_of(reply)]
    assert kinds == [None, "InvalidJson", "InvalidJson", None, "InvalidJson", None]


def test_a_body_that_cannot_be_split_is_refused_as_a_whole(model: Model) -> None:
    most = LIMITS.instances
    assert len(answers_of(send(model, b'"ok"\n' * most))) == most
    for body, status in ((b'"ok"\n' * (most + 1), 413), (b"", 400), (b'"\xff"', 400)):
        reply = send(model, body)
        assert (reply.status, reply.media_type) == (status, "application/json")
    assert send(model, b'"' + b"x" * LIMITS.body_bytes + b'"').status == 413


def test_compressed_lines_and_truncated_texts(model: Model) -> None:
    body = gzip.compress(body_of("ok", " ".join(WORDS * 20), "ok"))
    reply = send(model, body, **{"content-encoding": "gzip"})
    assert len(answers_of(reply)) == 3
    assert reply.headers["x-marina-truncated"] == "1"


def test_lines_that_are_too_much_work_together_are_refused_together(
    compiled: dict[tuple[str, str], Tiny],
) -> None:
    hurried = make_settings(LIMITS)._replace(deadline_ms=1)
    model = Model(compiled["text-classification", ENGINE].artifact, hurried, TASKS)
    reply = send(model, body_of(*[" ".join(WORDS * 4)] * LIMITS.instances))
    assert reply.status == 413
    assert json.loads(reply.body)["type"] == "TooMuchWork"
