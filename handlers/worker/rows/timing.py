"""Times of graphs, the basis of plans. They depend on the machine, and are measured on it."""

from __future__ import annotations

import statistics
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

from handlers.worker.artifact import Signature
from handlers.worker.engines import Graph
from handlers.worker.rows.calls import Graphs, ModelGraphs, full_row, write_call
from handlers.worker.rows.packing import spread_call
from handlers.worker.values import Row, Shape

ROUNDS = (3, 50)  # minimum and maximum
SWITCHES = (3, 15)  # minimum and maximum, of each model


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


def time_switches(
    models: Sequence[ModelGraphs], times: Sequence[Mapping[Shape, float]], budget_s: float
) -> list[float]:
    """For each model, how many milliseconds longer a call takes if the call before it was another model's.

    Two graphs run in turn, the quickest of the model and of the next one; this is compared with the first alone. A
    worker with one model has no switches.

    Args:
        models: the graphs.
        times: milliseconds of one call of every shape of each.
        budget_s: seconds for all of them together; each is measured a few times in any case.
    """
    if len(models) == 1:
        return [0.0]
    quickest = [min(own, key=own.__getitem__) for own in times]
    graphs = [model.streams[0][shape] for model, shape in zip(models, quickest, strict=True)]
    found = []
    for number, (graph, shape) in enumerate(zip(graphs, quickest, strict=True)):
        other = (number + 1) % len(graphs)
        alone: list[float] = []
        in_turn: list[float] = []
        end = time.perf_counter() + budget_s / len(models)
        while len(alone) < SWITCHES[0] or (len(alone) < SWITCHES[1] and time.perf_counter() < end):
            graph.run(shape.batch_size)
            alone.append(_seconds(graph, shape))
            graphs[other].run(quickest[other].batch_size)
            in_turn.append(_seconds(graph, shape))
        found.append(max(0.0, statistics.median(in_turn) - statistics.median(alone)) * 1000)
    return found


def _seconds(graph: Graph, shape: Shape) -> float:
    start = time.perf_counter()
    graph.run(shape.batch_size)
    return time.perf_counter() - start


def warm_up(graph: Graph, shape: Shape, signature: Signature) -> None:
    """Fill every place of a graph of this shape, and run it once."""
    rows = [full_row(signature, shape.sequence_length, Row([signature.pad_token_id], []))] * shape.batch_size
    write_call(graph, spread_call(shape, tuple(range(len(rows)))), rows, signature)
    graph.run(shape.batch_size)
