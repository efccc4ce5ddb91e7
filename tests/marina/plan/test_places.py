"""Instance types, as estimates."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from handlers.worker.values import Shape
from marina.errors import MarinaError
from marina.plan import places
from marina.plan.calibration.record import WorkerCosts
from marina.plan.places import place_of
from tests.marina.plan.places import place, variant

BERT_BASE = 110_000_000


@pytest.fixture
def model(monkeypatch: pytest.MonkeyPatch) -> Callable[[int, int], Any]:
    """A calibrated model with so many weights and shapes."""

    class Model:
        def __init__(self, weights: int, shapes: int) -> None:
            listed = tuple(Shape(1, 8 * number) for number in range(1, shapes + 1))
            self.name, self.folder, self.weights = "intents", Path("model"), weights
            self.spec = self.shapes = self.newest = self
            self.workers: Sequence[WorkerCosts] = [WorkerCosts(1, {}, {}, (1.0,), 0.0, 0.0, 0.0, 0.0)]
            self.server = None
            self.listed = lambda: listed

        def count_weights(self) -> int:
            return self.weights

    monkeypatch.setattr(places, "place_here", lambda *_, **__: place())
    monkeypatch.setattr(places, "open_source", lambda spec, _: spec)
    monkeypatch.setattr(places, "encoder_weights", lambda _, total: total)
    monkeypatch.setattr(places, "costs_of", lambda *_, **__: variant().costs[1])
    return Model


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
