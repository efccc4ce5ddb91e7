"""Shapes that a plan proposes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from handlers.worker.values import Shape
from marina.plan.options.proposals import propose
from tests.marina.plan.test_calibration import WORKERS, calibration


def test_shapes_suit_the_texts() -> None:
    shapes = [Shape(1, 16), Shape(1, 64), Shape(8, 64), Shape(8, 16)]
    times = {str(shape): 1.0 + 0.05 * shape.batch_size * shape.sequence_length for shape in shapes}
    workers = tuple(replace(one, times=times, again=times) for one in WORKERS)
    found = propose(replace(calibration(), workers=workers), np.full(500, 30))
    assert found
    assert {shape.sequence_length for shape in found.shapes} == {32, 64}  # the limit stays
    assert found.error < 0.01
    own = found.workers[0]
    assert own.times == {str(shape): own.times[str(shape)] for shape in found.shapes}
    assert own.times[str(found.shapes[0])] < times["1x64"]
    # once they are compiled, there is nothing to propose
    compiled = tuple(replace(one, times=own.times, again=own.times) for one in workers)
    assert propose(replace(calibration(), workers=compiled), np.full(500, 30)) is None


def test_few_graphs_tell_nothing_of_others() -> None:
    times = {"1x16": 1.0, "1x64": 3.0}
    workers = tuple(replace(one, times=times, again=times) for one in WORKERS)
    assert propose(replace(calibration(), workers=workers), np.full(500, 30)) is None
