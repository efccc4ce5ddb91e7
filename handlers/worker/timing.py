"""Times of graphs: what plans are made from. They belong to a machine, and are measured on it."""

from __future__ import annotations

import statistics
import time
from collections.abc import Mapping

from handlers.worker.artifact import Artifact
from handlers.worker.calls import write_rows
from handlers.worker.engines import Graph
from handlers.worker.plan import Shape
from handlers.worker.tokenizing import Row

ROUNDS = (3, 50)  # at least and at most


def time_graphs(graphs: Mapping[Shape, Graph], artifact: Artifact, budget_s: float) -> dict[Shape, float]:
    """Median milliseconds of one call of each graph with every place filled, after a warm-up.

    The graphs run in turn, as they do in plans: each has weights of its own, and one that runs
    again and again finds them in the processor's cache, which makes small graphs look up to twice
    as fast as they are. Takes the budget, but at least 3 rounds.
    """
    for shape, graph in graphs.items():
        row = Row([artifact.pad_token_id] * shape.sequence_length, [0] * shape.sequence_length)
        write_rows(graph, [row] * shape.batch_size, artifact)
        graph.run()
    times: dict[Shape, list[float]] = {shape: [] for shape in graphs}
    end = time.perf_counter() + budget_s
    for done in range(ROUNDS[1]):
        if done >= ROUNDS[0] and time.perf_counter() > end:
            break
        for shape, graph in graphs.items():
            start = time.perf_counter()
            graph.run()
            times[shape].append(time.perf_counter() - start)
    return {shape: statistics.median(found) * 1000 for shape, found in times.items()}
