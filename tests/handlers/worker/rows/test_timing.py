from pathlib import Path
from typing import Any

import numpy as np

from handlers.worker.artifact import artifact_from, read_json
from handlers.worker.engines import Inputs
from handlers.worker.rows.timing import ROUNDS, time_graphs
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
    for budget_s, rounds in ((0.0, ROUNDS[0]), (60.0, ROUNDS[1])):
        runs: list[Shape] = []
        times = time_graphs([{shape: Counted(shape, runs) for shape in shapes}], artifact.signature, budget_s)
        assert runs == shapes * (rounds + 1)
        assert set(times) == set(shapes)
        assert all(time > 0 for time in times.values())
