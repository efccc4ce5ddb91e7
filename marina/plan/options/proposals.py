"""Shapes that are not compiled yet, as one more variant of a model: the shapes that suit its texts best."""

from __future__ import annotations

import statistics
from dataclasses import replace
from typing import NamedTuple

from handlers.worker.values import Shape
from marina.plan.calibration.record import Calibration, WorkerCosts
from marina.plan.simulator.values import Ints
from marina.shapes.advice import MAX_GRAPHS
from marina.shapes.auto import PRICE
from marina.shapes.best import best_shapes
from marina.shapes.choice import choose_shapes
from marina.shapes.costs import CostModel, can_fit

ROWS = 32  # of a full batch
MAX_TEXTS = 1000


class Proposal(NamedTuple):
    """Shapes, the costs of workers with these shapes, and the largest relative error of the fitted times."""

    shapes: tuple[Shape, ...]
    workers: tuple[WorkerCosts, ...]
    error: float


def propose(calibration: Calibration, tokens: Ints) -> Proposal | None:
    """The best shapes for texts of these lengths; None if too few graphs were measured, or all are compiled already.

    Args:
        calibration: of one artifact of the model.
        tokens: of texts.
    """
    measured = {
        worker.cores: {Shape.parse(shape): time for shape, time in worker.times.items()}
        for worker in calibration.workers
    }
    current_times = measured[calibration.cores]
    if not can_fit([shape for shape in current_times if not shape.packed]):
        return None
    models = {cores: CostModel(times) for cores, times in measured.items()}
    longest = max(shape.sequence_length for shape in current_times)
    lengths = [int(count) for count in tokens[:: max(1, len(tokens) // MAX_TEXTS)]]
    choices = choose_shapes(lengths, longest, ROWS, models[calibration.cores].milliseconds, MAX_GRAPHS)
    shapes = best_shapes(choices, lengths, longest, ROWS, models[calibration.cores], MAX_GRAPHS, PRICE).shapes
    if set(shapes) <= set(current_times):
        return None
    workers = []
    for worker in calibration.workers:
        times = {str(shape): models[worker.cores].milliseconds(shape) for shape in shapes}
        again_ratio = statistics.median(worker.again[shape] / worker.times[shape] for shape in worker.times)
        workers.append(replace(worker, times=times, again={shape: time * again_ratio for shape, time in times.items()}))
    error = max(models[cores].error(times) for cores, times in measured.items())
    return Proposal(shapes, tuple(workers), error)
