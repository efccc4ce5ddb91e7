"""An answer of a server never reaches another row, whatever comes back."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator
from types import SimpleNamespace
from typing import Any, cast

import pyarrow as pa
import pytest

from handlers.worker.errors import RequestError
from handlers.worker.request.instances import Answered
from marina.client import Streamed
from marina.client.stream import Limits, Sender, line_of
from marina.client.transport import Sent
from marina.errors import FailedError, RefusedError
from marina.score.layout import Layout
from marina.score.remote import RemoteScorer, Server
from marina.score.values import Read

CASES = 10_000
PATH = Limits(1_000_000, 1_000_000, 10)


class FaultyServer:
    """Answers each text with itself; loses, doubles and reorders answers, drawn with a seed."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.kind = self.random.choice(["none", "drop", "double", "order", "refuse"])

    def stream(self, _: str, instances: Iterable[tuple[int, Any]], **__: Any) -> Iterator[Streamed]:
        answers = [Streamed(key, instance["text"], None, truncated=False) for key, instance in instances]
        place = self.random.randrange(len(answers)) if answers else 0
        if answers and self.kind == "drop":
            del answers[place]
        elif answers and self.kind == "double":
            answers.append(answers[place])
        elif self.kind == "order":
            self.random.shuffle(answers)
        elif answers and self.kind == "refuse":
            refusal = RefusedError("no", status=400, kind="InvalidText")
            answers[place] = answers[place]._replace(answer=None, error=refusal)
        yield from answers


def test_no_answer_reaches_another_row(monkeypatch: pytest.MonkeyPatch) -> None:
    layout = cast("Layout", SimpleNamespace(columns=lambda _: {"text": "text"}, explicit={}))
    scorer = RemoteScorer(Server("http://127.0.0.1:1", None, "m"), layout)
    lost = 0
    for seed in range(CASES):
        server = FaultyServer(seed)
        monkeypatch.setattr(scorer, "_client", server)
        count = server.random.randrange(6)
        rows = pa.table({"text": pa.array([f"text {number}" for number in range(count)], pa.string())})
        unread = {1: RequestError("InvalidText", "not UTF-8")} if count > 1 and seed % 3 == 0 else {}
        answers = scorer.compute(scorer.encode(Read(rows, unread))).answers
        assert len(answers) == count
        for number, answer in enumerate(answers):
            if isinstance(answer, Answered):
                assert answer.answer == f"text {number}", seed
                assert number not in unread
            else:
                lost += number not in unread
    assert lost > CASES / 10


@pytest.mark.parametrize("lines", [b"1\n", b"1\n2\n3\n", b"1\n1\n2\n3\n4\n"])
def test_an_answer_with_too_few_or_too_many_lines_is_an_error(lines: bytes) -> None:
    sender = Sender(lambda _, __: Sent(lines, frozenset()), PATH, 0)
    with pytest.raises(FailedError, match="2 lines were sent"):
        sender.answer([line_of(key, "ok", "", {}) for key in (0, 1)])
