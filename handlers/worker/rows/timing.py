"""Times of graphs, the basis of plans. They depend on the machine, and are measured on it."""

from __future__ import annotations

import statistics
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from handlers.worker.artifact import Signature
from handlers.worker.engines import Graph
from handlers.worker.rows.calls import Graphs, write_rows
from handlers.worker.values import Row, Shape

ROUNDS = (3, 50)  # minimum and maximum


def time_graphs(streams: Sequence[Graphs], signature: Signature, budget_s: float) -> dict[Shape, float]:
    """Median milliseconds of one call of each graph with every place filled, after a warm-up.

    The graphs run in turn, as they do in plans. Each has its own weights; a graph that runs repeatedly finds them in
    the processor's cache, which makes small graphs look up to twice as fast as they are. If the runtime supports
    several concurrent calls, all streams run at once, and the time is divided by their number.
    Timing stops when the budget is spent, but not before 3 rounds.

    Args:
        streams: the graphs, from `load_graphs`.
        signature: the model's signature.
        budget_s: seconds for all graphs together.
    """
    shapes = list(streams[0])
    for shape in shapes:
        for stream in streams:
            warm_up(stream[shape], shape, signature)
    times: dict[Shape, list[float]] = {shape: [] for shape in shapes}
    end = time.perf_counter() + budget_s
    with ThreadPoolExecutor(len(streams)) as threads:
        for done in range(ROUNDS[1]):
            if done >= ROUNDS[0] and time.perf_counter() > end:
                break
            for shape in shapes:
                start = time.perf_counter()
                if len(streams) == 1:
                    streams[0][shape].run(shape.batch_size)
                else:
                    list(threads.map(lambda stream, shape=shape: stream[shape].run(shape.batch_size), streams))
                times[shape].append((time.perf_counter() - start) / len(streams))
    return {shape: statistics.median(found) * 1000 for shape, found in times.items()}


def warm_up(graph: Graph, shape: Shape, signature: Signature) -> None:
    """Fill every place of a graph of this shape, and run it once."""
    row = Row([signature.pad_token_id] * shape.sequence_length, [0] * shape.sequence_length)
    write_rows(graph, [row] * shape.batch_size, signature)
    graph.run(shape.batch_size)
