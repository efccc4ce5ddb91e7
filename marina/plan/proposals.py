"""Shapes that nobody has compiled yet, as one more variant of a model: those that suit its texts best."""

from __future__ import annotations

import statistics
from dataclasses import replace
from typing import NamedTuple

from handlers.worker.values import Shape
from marina.plan.calibration.record import Calibration, WorkerCosts
from marina.plan.simulator.values import Ints
from marina.shapes.advice import MOST_GRAPHS
from marina.shapes.best import best_shapes
from marina.shapes.choice import choose_shapes
from marina.shapes.costs import CostModel, can_tell

ROWS = 32  # of a full batch
PRICE = 0.01  # the fraction of the best possible time that a graph must save, as in `marina shapes`
MOST_TEXTS = 1000


class Proposal(NamedTuple):
    """Shapes, what workers cost with them, and the largest relative error of the times that they were told from."""

    shapes: tuple[Shape, ...]
    workers: tuple[WorkerCosts, ...]
    error: float


def propose(calibration: Calibration, tokens: Ints) -> Proposal | None:
    """The best shapes for texts of these lengths; None if too few graphs were measured, or they are those already.

    Args:
        calibration: of one artifact of the model.
        tokens: of texts.
    """
    measured = {
        worker.cores: {Shape.parse(shape): time for shape, time in worker.times.items()}
        for worker in calibration.workers
    }
    present = measured[calibration.cores]
    if not can_tell([shape for shape in present if not shape.packed]):
        return None
    models = {cores: CostModel(times) for cores, times in measured.items()}
    longest = max(shape.sequence_length for shape in present)
    lengths = [int(count) for count in tokens[:: max(1, len(tokens) // MOST_TEXTS)]]
    choices = choose_shapes(lengths, longest, ROWS, models[calibration.cores].milliseconds, MOST_GRAPHS)
    shapes = best_shapes(choices, lengths, longest, ROWS, models[calibration.cores], MOST_GRAPHS, PRICE).shapes
    if set(shapes) <= set(present):
        return None
    workers = []
    for worker in calibration.workers:
        times = {str(shape): models[worker.cores].milliseconds(shape) for shape in shapes}
        again = statistics.median(worker.again[shape] / worker.times[shape] for shape in worker.times)
        workers.append(replace(worker, times=times, again={shape: time * again for shape, time in times.items()}))
    error = max(models[cores].error(times) for cores, times in measured.items())
    return Proposal(shapes, tuple(workers), error)
