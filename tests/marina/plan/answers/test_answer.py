"""Answers in words, and for programs."""

from __future__ import annotations

import json
import math

from marina.plan.answers.answer import Recommendation
from marina.plan.evaluation.fleet import Disruption
from marina.plan.evaluation.limits import Reach
from marina.plan.evaluation.search import search
from marina.plan.options.candidates import candidates_of
from marina.plan.workload import Demand, Promise, Workload
from tests.marina.plan.options.places import place, traffic


def test_nothing_is_said_of_a_disruption_in_which_no_request_is_answered() -> None:
    """As if a recording had a pause while an instance is lost."""
    asked, own = Workload(models=(Demand(name="m", rate=50),), promise=Promise(latency_ms=40)), [traffic(50)]
    found = search(list(candidates_of(place())), own, asked.promise, None, False, lambda *_: None)
    nothing = Disruption(math.inf, 0)
    answer = Recommendation(asked, own, found, Reach(500, 30_000, 9), {}, "", nothing, nothing)
    stored = json.loads(json.dumps(answer.as_json(), allow_nan=False))
    assert stored["while_one_is_lost"] == stored["while_upgraded"] == {"latency_ms": None, "lost": 0}
    assert not any("While one machine is lost" in line for line in answer.lines())
    finite = Recommendation(asked, own, found, Reach(500, 30_000, 9), {}, "", Disruption(9, 1), Disruption(8, 0))
    assert any("While one machine is lost: p99 9" in line for line in finite.lines())
