from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from handlers.worker.archive.artifact import artifact_from, read_json
from handlers.worker.engines import Inputs
from handlers.worker.rows.timing import MAX_ROUNDS, MAX_SWITCHES, MIN_ROUNDS, MIN_SWITCHES, time_graphs, time_switches
from handlers.worker.values import Shape
from tests.conftest import ENGINE
from tests.handlers.worker.conftest import Tiny


class Counted:
    """A graph that notes its runs."""

    def __init__(self, shape: Shape, runs: list[Shape]) -> None:
        self.shape, self.runs = shape, runs
        self.inputs: Inputs = [np.zeros(shape.dims, dtype=np.int64) for _ in range(3)]

    def run(self, rows: int) -> list[Any]:
        self.runs.append(self.shape)
        return []


def test_graphs_run_in_turn_and_at_least_a_few_times(compiled: dict[tuple[str, str], Tiny]) -> None:
    folder = compiled["text-classification", ENGINE].artifact
    artifact = artifact_from(read_json(folder / "artifact.json"), Path(folder))
    shapes = [Shape(1, 16), Shape(4, 16), Shape(4, 64)]
    for budget_s, rounds in ((0.0, MIN_ROUNDS), (60.0, MAX_ROUNDS)):
        runs: list[Shape] = []
        times = time_graphs([{shape: Counted(shape, runs) for shape in shapes}], artifact.signature, budget_s)
        assert runs == shapes * (rounds + 1)
        assert set(times) == set(shapes)
        assert all(time > 0 for time in times.values())


class Clock:
    """A clock that only graphs move, and the graph that ran last."""

    def __init__(self) -> None:
        self.now = 0.0
        self.last: object = None
        self.runs: list[int] = []

    def perf_counter(self) -> float:
        return self.now


class Switched:
    """A graph that takes longer after another one."""

    def __init__(self, clock: Clock, number: int, seconds: float, longer: float) -> None:
        self.clock, self.number, self.seconds, self.longer = clock, number, seconds, longer

    def run(self, rows: int) -> list[Any]:
        self.clock.now += self.seconds + (0.0 if self.clock.last is self else self.longer)
        self.clock.last = self
        self.clock.runs.append(self.number)
        return []


QUICK, SLOW = Shape(1, 16), Shape(4, 64)


def switches(clock: Clock, longer: list[float], budget_s: float) -> list[float]:
    models, times = [], []
    for number, more in enumerate(longer):
        graphs = {SLOW: Switched(clock, 10 + number, 9.0, 0.0), QUICK: Switched(clock, number, 2.0 + number, more)}
        models.append(SimpleNamespace(streams=[graphs]))
        times.append({shape: graph.seconds * 1000 for shape, graph in graphs.items()})
    return time_switches(models, times, budget_s)  # type: ignore[arg-type]


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr("handlers.worker.rows.timing.time", clock)
    return clock


def test_a_switch_costs_what_a_call_takes_longer_after_another_model(clock: Clock) -> None:
    assert switches(clock, [0.5, 1.0, -0.1], 0.0) == pytest.approx([500, 1000, 0.0])
    # the quickest graph of each model and of the next one, in turn; the least number of rounds
    of_each = [[0, 0, 1, 0] * MIN_SWITCHES, [1, 1, 2, 1] * MIN_SWITCHES, [2, 2, 0, 2] * MIN_SWITCHES]
    assert clock.runs == [number for runs in of_each for number in runs]


def test_switches_are_measured_as_long_as_the_budget_lasts(clock: Clock) -> None:
    switches(clock, [0.5, 0.5], 1000.0)
    assert len(clock.runs) == 2 * 4 * MAX_SWITCHES
    clock.runs.clear()
    # 5 rounds of the first model of 10 seconds, and 4 of the second one of 12: each has half of the time
    switches(clock, [0.5, 0.5], 90.0)
    assert [clock.runs.count(0), clock.runs.count(1)] == [3 * 5 + 4, 5 + 3 * 4]


def test_a_model_alone_has_no_switches(clock: Clock) -> None:
    assert switches(clock, [0.5], 1.0) == [0.0]
    assert clock.runs == []
