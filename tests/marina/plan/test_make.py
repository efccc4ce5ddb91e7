"""The traffic of a plan."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from marina.errors import MarinaError, SpecError
from marina.plan import make
from marina.plan.make import make_plan, traffic_of
from marina.plan.workload import Demand, Promise, Traffic, Workload
from marina.project import Project
from marina.spec import read_spec
from tests.conftest import no_progress, write_spec
from tests.marina.plan.options.places import place, variant
from tests.marina.plan.options.places import traffic as random_traffic

DEMAND = Demand(name="m", rate=5, instances=2, lengths="lengths.json")


def traffic(project: Project, histogram: str) -> Traffic:
    """The traffic of a model whose longest shape has 64 tokens, with the lengths of a histogram."""
    path = write_spec(project, "m", task="text-classification", source={"path": "weights/m"}, shapes={"auto": 64})
    (project.root / "lengths.json").write_text(histogram)
    model: Any = SimpleNamespace(spec=read_spec(path), max_tokens=64)
    return traffic_of(DEMAND, model, project)


def test_a_histogram_of_lengths_is_cut_to_what_the_model_reads(project: Project) -> None:
    made = traffic(project, '{"12": 3, "90": 1}')
    assert sorted(made.tokens.tolist()) == [12, 12, 12, 64]
    assert (made.rate, made.instances, made.rows) == (5.0, 2, 1)


@pytest.mark.parametrize("histogram", ["", "[]", "{}", '{"12": null}', '{"12": [1]}', '{"0": 5}', '{"12": -1}'])
def test_a_histogram_that_cannot_be_used_is_named(project: Project, histogram: str) -> None:
    with pytest.raises(SpecError, match=r"lengths.json (cannot be read|must hold)"):
        traffic(project, histogram)


def test_a_recording_is_planned_for_at_the_rate_of_its_peak(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write_spec(project, "m", task="text-classification", source={"path": "weights/m"}, shapes={"auto": 64})
    quiet, busy = [f"{second},9" for second in range(200)], [f"{200 + number / 100},9" for number in range(200)]
    (project.root / "day.csv").write_text("\n".join(["seconds,tokens", *quiet, *busy]))
    monkeypatch.setattr(make, "FINE_REQUESTS", 100)
    model: Any = SimpleNamespace(spec=read_spec(path), max_tokens=64)
    assert traffic_of(Demand(name="m", log="day.csv"), model, project).rate == pytest.approx(100, rel=0.02)


@pytest.mark.parametrize(("models", "memory_gib"), [(3, 16.0), (1, 0.1)])
def test_models_that_fit_nowhere_are_refused(
    project: Project, monkeypatch: pytest.MonkeyPatch, models: int, memory_gib: float
) -> None:
    write_spec(project, "m", task="text-classification", source={"path": "weights/m"}, shapes={"exact": ["1x16"]})
    small = place("inf2.xlarge", cores=2, variants=((variant(),),) * models)
    monkeypatch.setattr(make, "Calibrated", lambda *_: None)
    monkeypatch.setattr(make, "place_of", lambda *_: small._replace(exclusive=True, memory_gib=memory_gib))
    monkeypatch.setattr(make, "traffic_of", lambda *_: random_traffic(5))
    workload = Workload(
        models=(Demand(name="m", rate=5),) * models, promise=Promise(latency_ms=50), places=("inf2.xlarge",)
    )
    with pytest.raises(MarinaError, match=r"a worker of each model does not fit into inf2.xlarge; plan fewer"):
        make_plan(workload, project, no_progress)
