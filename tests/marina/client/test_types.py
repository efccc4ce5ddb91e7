"""Methods take lists, and answers of another task are named."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from marina.client import Client
from marina.errors import FailedError, MarinaError

EMBEDDING, RANKING, ENTITIES = [0.5, 1.0], [{"label": "a", "score": 0.5}], [{"word": "x", "entity": "B", "score": 0.5}]


class Transport:
    """Answers every input alike."""

    def __init__(self, answer: Any) -> None:
        self._answer = answer
        self.sent: list[Any] = []

    def predict(self, _: str, document: Any) -> Any:
        self.sent.append(document)
        return [self._answer for _ in document["inputs"]]

    def send_lines(self, *_: Any) -> Any:
        raise NotImplementedError

    def close(self) -> None:
        pass


METHODS: dict[str, Callable[[Client, Any], Any]] = {
    "embed": lambda client, texts: client.embed("m", texts),
    "classify": lambda client, texts: client.classify("m", texts),
    "classify_heads": lambda client, texts: client.classify_heads("m", texts),
    "classify_tokens": lambda client, texts: client.classify_tokens("m", texts),
    "rerank": lambda client, texts: client.rerank("m", "query", texts),
}
ANSWERS = {
    "embed": EMBEDDING,
    "classify": RANKING,
    "classify_heads": {"head": RANKING},
    "classify_tokens": ENTITIES,
    "rerank": 0.5,
}


@pytest.mark.parametrize("method", METHODS)
def test_a_text_is_no_list_of_texts(method: str) -> None:
    transport = Transport(ANSWERS[method])
    with pytest.raises(MarinaError, match=rf"a single text was given for a list of texts; call {method}\(model, "):
        METHODS[method](Client(transport), "just a text")
    assert not transport.sent


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("task", ANSWERS)
def test_answers_of_another_task_are_named(method: str, task: str) -> None:
    client = Client(Transport(ANSWERS[task]))
    if method == task:
        assert METHODS[method](client, ["a", "b"])
        return
    with pytest.raises(FailedError, match=f"m has another task than {method} is for; call ") as raised:
        METHODS[method](client, ["a", "b"])
    assert str(raised.value).endswith("call predict" if task == "rerank" else f"call {task}, or predict")


def test_documents_come_best_first() -> None:
    class Scores(Transport):
        def predict(self, _: str, document: Any) -> Any:
            self.sent.append(document)
            return [0.1, 0.9, 0.5]

    transport = Scores(None)
    ranked = Client(transport).rerank("m", "q", ["a", "b", "c"], top_n=2, function_to_apply="none")
    assert ranked == [{"index": 1, "score": 0.9}, {"index": 2, "score": 0.5}]
    assert transport.sent[0]["inputs"][1] == {"query": "q", "document": "b"}
    assert transport.sent[0]["parameters"] == {"function_to_apply": "none"}
