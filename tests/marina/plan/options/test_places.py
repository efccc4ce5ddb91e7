"""Instance types, as estimates."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from handlers.worker.placement.discovery import cpu_cores
from handlers.worker.values import Shape
from marina.bench.report.machine import machine
from marina.errors import MarinaError
from marina.plan.calibration.record import WorkerCosts, write_calibration
from marina.plan.options import places
from marina.plan.options.places import Calibrated, place_of
from marina.plan.simulator.uncertainty import CERTAIN
from marina.project import Project
from marina.spec import read_spec
from tests.conftest import write_spec
from tests.marina.plan.options.places import place, variant
from tests.marina.plan.test_calibration import calibration

BERT_BASE = 110_000_000
WEIGHTS = SimpleNamespace(fingerprint=lambda: "now")


@pytest.fixture
def model(monkeypatch: pytest.MonkeyPatch) -> Callable[[int, int], Any]:
    """A calibrated model with so many weights and shapes."""

    class Model:
        def __init__(self, weights: int, shapes: int) -> None:
            listed = tuple(Shape(1, 8 * number) for number in range(1, shapes + 1))
            self.name, self.folder, self.weights = "intents", Path("model"), weights
            self.spec = self.shapes = self.newest = self
            self.workers: Sequence[WorkerCosts] = [WorkerCosts(1, {}, {}, (1.0,), 0.0, 0.0, 0.0, 0.0)]
            self.server, self.uncertainty = None, CERTAIN
            self.max_tokens, self.host, self.weights_fingerprint = 8 * shapes, "direct", "now"
            self.listed = lambda: listed

        def count_weights(self) -> int:
            return self.weights

        fits = Calibrated.fits

    monkeypatch.setattr(places, "place_here", lambda *_, **__: place())
    monkeypatch.setattr(places, "open_source", lambda spec, _: spec)
    monkeypatch.setattr(places, "encoder_weights", lambda _, total: total)
    monkeypatch.setattr(places, "costs_of", lambda *_, **__: variant().costs[1])
    return Model


def add_calibrated(project: Project, name: str, made: str, weights: str = "now") -> None:
    """Add a calibrated artifact of the model m, compiled from these weights."""
    artifact = project.artifacts / "m" / name
    artifact.mkdir(parents=True)
    (artifact / "artifact.json").write_text(json.dumps({"source": {"sha256": weights}}))
    write_calibration(artifact, replace(calibration(), cores=len(cpu_cores()), machine=machine(), made=made))


@pytest.mark.parametrize(("instance", "room"), [("inf1.xlarge", 9), ("inf2.xlarge", 27), ("trn1.2xlarge", 27)])
def test_graphs_must_fit_into_the_memory_of_a_core(
    model: Callable[[int, int], Any], tmp_path: Path, instance: str, room: int
) -> None:
    (variants,) = place_of(instance, [model(BERT_BASE, room)], tmp_path).variants
    assert [len(estimated.shapes) for estimated in variants] == [room]
    with pytest.raises(MarinaError, match=f"room for about {room} of its graphs, .* {room + 1} shapes") as refused:
        place_of(instance, [model(BERT_BASE, room + 1)], tmp_path)
    assert refused.value.fix == f"marina shapes intents --graphs {room} --write"


def test_a_model_that_is_too_large_needs_another_instance(model: Callable[[int, int], Any], tmp_path: Path) -> None:
    with pytest.raises(MarinaError, match="room for about 0 of its graphs") as refused:
        place_of("inf1.xlarge", [model(2_000_000_000, 1)], tmp_path)
    assert refused.value.fix == "use other instances"


def test_a_spec_that_reads_less_than_its_calibration_is_not_estimated(
    model: Callable[[int, int], Any], tmp_path: Path
) -> None:
    shortened = model(BERT_BASE, 2)
    shortened.max_tokens = 64
    with pytest.raises(
        MarinaError, match="longest shape of its spec has 16 tokens, and that of its newest calibration 64"
    ) as refused:
        place_of("inf2.xlarge", [shortened], tmp_path)
    assert refused.value.fix == "marina calibrate intents --host direct"


def test_artifacts_that_read_less_than_the_newest_one_are_left_out(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Texts are cut to the longest shape of the newest artifact, which has 64 tokens."""
    write_spec(project, "m", task="text-classification", source={"path": "weights/m"}, shapes={"auto": 64})
    longest = {"older": 64, "shorter": 16, "longer": 128, "newest": 64}
    for day, name in enumerate(longest, 1):
        add_calibrated(project, name, f"2026-11-0{day}T00:00:00+00:00")
    monkeypatch.setattr(places, "open_source", lambda *_: WEIGHTS)

    def read_artifact(folder: Path) -> SimpleNamespace:
        return SimpleNamespace(
            engine="openvino", precision=folder.name, shapes=(Shape(1, 8), Shape(1, longest[folder.name]))
        )

    monkeypatch.setattr(places, "read_artifact", read_artifact)
    model = Calibrated(read_spec(project.models / "m.yaml"), project, "direct")
    assert model.max_tokens == 64
    (variants,) = places.place_here([model], None).variants
    assert [one.precision for one in variants] == ["newest", "longer", "older"]


def test_artifacts_of_other_weights_are_left_out(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    write_spec(project, "m", task="text-classification", source={"path": "weights/m"}, shapes={"auto": 64})
    spec = read_spec(project.models / "m.yaml")
    monkeypatch.setattr(places, "open_source", lambda *_: WEIGHTS)
    add_calibrated(project, "before", "2026-11-02T00:00:00+00:00", "before")
    with pytest.raises(MarinaError, match="m has not been calibrated on this machine"):
        Calibrated(spec, project, "direct")
    add_calibrated(project, "now", "2026-11-01T00:00:00+00:00")
    assert [folder.name for _, folder in Calibrated(spec, project, "direct").calibrations] == ["now"]


def test_times_of_other_weights_say_nothing_of_an_instance(
    model: Callable[[int, int], Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for weights in ("before", "now"):
        artifact = tmp_path / "build" / "artifacts" / "intents" / weights
        artifact.mkdir(parents=True)
        (artifact / "artifact.json").write_text(json.dumps({"source": {"sha256": weights}}))
    shapes = (Shape(1, 8),)
    monkeypatch.setattr(places, "is_complete", lambda _: True)
    monkeypatch.setattr(places, "read_times", lambda _: dict.fromkeys(shapes, 1.0))
    monkeypatch.setattr(
        places,
        "read_artifact",
        lambda folder: SimpleNamespace(engine="neuronx", precision=folder.name, shapes=shapes),
    )
    (variants,) = place_of("inf2.xlarge", [model(BERT_BASE, 1)], tmp_path).variants
    assert [one.precision for one in variants] == ["now"]


@pytest.mark.parametrize(("probe_ms", "said"), [(2.6, ""), (5.0, "takes 2 times as long"), (1.25, "takes 0.5 times")])
def test_a_machine_of_another_speed_makes_ranges_wide(
    project: Project, monkeypatch: pytest.MonkeyPatch, probe_ms: float, said: str
) -> None:
    """The calibration measured 2.5 ms."""
    write_spec(project, "m", task="text-classification", source={"path": "weights/m"}, shapes={"auto": 64})
    add_calibrated(project, "abc", calibration().made)
    monkeypatch.setattr(places, "open_source", lambda *_: WEIGHTS)
    monkeypatch.setattr(places, "probe", lambda *_: probe_ms)
    model = Calibrated(read_spec(project.models / "m.yaml"), project, "direct")
    before = model.newest.uncertainty
    note = model.compare_speed()
    after = model.newest.uncertainty
    if not said:
        assert (note, after) == ("", before)
        return
    assert said in note
    assert note.endswith("marina calibrate m --host direct")
    low, high = sorted((1.0, probe_ms / 2.5))
    assert after.at(99, 0.05) == pytest.approx(before.at(99, 0.05) * low)
    assert after.at(99, 0.95) == pytest.approx(before.at(99, 0.95) * high)
