"""A worker of the host `direct` answers each message in its own form."""

from __future__ import annotations

import json

import pytest

from handlers.worker.answering.model import Model
from handlers.worker.hosts.direct import answer
from handlers.worker.hosts.frames import Message
from handlers.worker.request.instances import RequestLimits
from handlers.worker.tasks import TASKS
from tests.conftest import ENGINE
from tests.handlers.worker.conftest import Tiny
from tests.settings import make_settings

LIMITS = RequestLimits(instances=8, characters=1000, windows=8, body_bytes=10_000, tokens=1000)


@pytest.fixture(scope="module")
def model(compiled: dict[tuple[str, str], Tiny]) -> Model:
    return Model(compiled["text-classification", ENGINE].artifact, make_settings(LIMITS), TASKS)


def test_a_batch_has_a_reply_for_each_request_in_order(model: Model) -> None:
    bodies = [json.dumps({"inputs": inputs}).encode() for inputs in (["ok"], 5, ["ok", "no"])]
    answered = answer(model, Message({"headers": [{"content-type": "application/json"}] * 3}, bodies))
    assert [status for status, *_ in answered.fields["replies"]] == [200, 400, 200]
    assert [len(json.loads(body)) for body in answered.bodies[::2]] == [1, 2]
    with pytest.raises(ValueError, match="zip"):
        answer(model, Message({"headers": [{}]}, bodies))


def test_it_describes_itself_and_counts(model: Model) -> None:
    assert answer(model, Message({"describe": True})).fields["description"]["task"] == "text-classification"
    answer(model, Message({"metrics": True}))
    answer(model, Message({"headers": [{}]}, [b"ok"]))
    counts = answer(model, Message({"metrics": True})).fields["metrics"]
    assert ["marina_requests_total", (model.members[0].name, "200"), 1.0] in counts
    # as they are sent
    assert Message({"metrics": counts}).as_bytes()
    assert answer(model, Message({"metrics": True})).fields["metrics"] == []
