"""The least time of the calls for a batch: the dynamic programme of `handlers.worker.rows.plan`, compiled."""

from __future__ import annotations

import numpy as np

from marina.plan.simulator.values import Floats, Ints, Models, compiled


@compiled
def plan_calls(rows: Ints, count: int, model: int, models: Models, least: Floats, chosen: Ints) -> tuple[float, int]:
    """The calls that the workers' planner chooses for some rows of one model.

    Args:
        rows: the tokens of each row in its first `count` places, which are sorted here.
        count: number of rows.
        model: number of the model.
        models: with its table of shapes.
        least, chosen: room for count + 1 values.

    Returns:
        The time of all calls, and the tokens that they compute.
    """
    ordered = np.sort(rows[:count])
    least[0] = 0.0
    for last in range(count):
        best, best_entry = np.inf, 0
        for entry in range(models.lot[model, ordered[last]], models.lot[model, ordered[last] + 1]):
            size = models.sizes[entry]
            total = models.times[entry] + (least[last + 1 - size] if last >= size else 0.0)
            if total < best:
                best, best_entry = total, entry
        least[last + 1] = best
        chosen[last + 1] = best_entry
    computed, end, spent, last = 0, count, 0.0, -1
    while end > 0:
        entry = chosen[end]
        spent += models.again[entry] if models.graph[entry] == last else models.times[entry]
        last = models.graph[entry]
        computed += models.padded[entry]
        end -= models.sizes[entry]
    return spent, computed
