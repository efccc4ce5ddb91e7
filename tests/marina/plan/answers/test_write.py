"""Writing a choice into specs."""

from __future__ import annotations

import json

import pytest

from marina.plan.answers.answer import Recommendation
from marina.plan.answers.write import write_choice
from marina.plan.evaluation.limits import Reach
from marina.plan.evaluation.search import SearchResult, search
from marina.plan.options.candidates import candidates_of
from marina.plan.workload import Demand, Promise, Workload
from marina.project import Project
from marina.spec import read_spec
from tests.conftest import write_spec
from tests.marina.plan.options.places import place, traffic


@pytest.mark.parametrize("host", ["torchserve", "direct"])
def test_a_choice_is_written_and_the_rest_stays(project: Project, host: str) -> None:
    serving = {"deadline_ms": 900, "batch_size": 4, "batch_delay_ms": 3}
    fields = {"source": {"path": "weights"}, "examples": "texts.csv", "serving": serving}
    path = write_spec(project, "m", task="text-classification", **fields)
    path.write_text("# ours\n" + path.read_text())
    asked = Workload(models=(Demand(name="m", rate=50),), promise=Promise(latency_ms=40), host=host)
    own = [traffic(50)]
    found = search(list(candidates_of(place(host=host))), own, asked.promise, None, False, lambda *_: None)
    written = write_choice(Recommendation(asked, own, found, Reach(500, 30_000, 9), {}, ""), project)
    assert [one.name for one in written] == ["m.yaml", "plan.json"]
    assert found.best
    spec, candidate = read_spec(path), found.best.candidate
    assert path.read_text().startswith("# ours\n")
    assert (spec.serving.deadline_ms, spec.serving.batch_size) == (900, candidate.batch_size)
    # the host direct has no delay, so that of the spec stays
    assert spec.serving.batch_delay_ms == (3 if host == "direct" else candidate.delay_ms)
    assert spec.core_groups == ",".join(map(str, candidate.groups[0]))
    assert [str(shape) for shape in spec.shapes.listed()] == sorted(
        candidate.variants[0].shapes, key=lambda shape: tuple(map(int, shape.split("x")))
    )
    plan = json.loads(written[1].read_text())
    assert plan["host"] == host
    assert (plan["instances"], plan["least_instances"], plan["calls_per_minute"]) == (1, 1, {"m": 21_000})
    assert plan["busy"] == pytest.approx(min(1.0, found.best.figures.utilisation * 7), abs=0.001)
    assert write_choice(Recommendation(asked, own, SearchResult(), None, {}, ""), project) == []
