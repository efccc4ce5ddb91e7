"""Times of graphs, the basis of plans. They depend on the machine, and are measured on it."""

from __future__ import annotations

import statistics
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

from handlers.worker.archive.signature import Signature
from handlers.worker.engines import Graph
from handlers.worker.rows.calls import Graphs, ModelGraphs, full_row, write_call
from handlers.worker.rows.packing import spread_call
from handlers.worker.values import Row, Shape

MIN_ROUNDS, MAX_ROUNDS = 3, 50
MIN_SWITCHES, MAX_SWITCHES = 3, 15  # of each model


def time_graphs(streams: Sequence[Graphs], signature: Signature, budget_s: float) -> dict[Shape, float]:
    """Median milliseconds of one call of each graph with every row filled, after a warm-up.

    The graphs run in turn, as they do in plans. A graph that runs repeatedly finds its weights in the processor's
    cache, which makes small graphs look up to twice as fast as they are. If the runtime supports several concurrent
    calls, all streams run at once, and the time is divided by their number.
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
        for round_number in range(MAX_ROUNDS):
            if round_number >= MIN_ROUNDS and time.perf_counter() > end:
                break
            for shape in shapes:
                start = time.perf_counter()
                if len(streams) == 1:
                    streams[0][shape].run(shape.batch_size)
                else:
                    list(threads.map(lambda stream, shape=shape: stream[shape].run(shape.batch_size), streams))
                times[shape].append((time.perf_counter() - start) / len(streams))
    return {shape: statistics.median(seconds) * 1000 for shape, seconds in times.items()}


def time_switches(
    models: Sequence[ModelGraphs], times: Sequence[Mapping[Shape, float]], budget_s: float
) -> list[float]:
    """For each model, how many milliseconds longer a call takes after a call of another model.

    The quickest graph of the model and the quickest graph of the next model run in turn; this is compared with the
    first graph alone. A worker with one model has no switches.

    Args:
        models: the graphs of each model.
        times: milliseconds of one call of every shape of each model.
        budget_s: seconds for all models together; each is measured a few times in any case.
    """
    if len(models) == 1:
        return [0.0]
    quickest = [min(model_times, key=model_times.__getitem__) for model_times in times]
    graphs = [model.streams[0][shape] for model, shape in zip(models, quickest, strict=True)]
    switch_ms = []
    for number, (graph, shape) in enumerate(zip(graphs, quickest, strict=True)):
        next_number = (number + 1) % len(graphs)
        alone_s: list[float] = []
        in_turn_s: list[float] = []
        end = time.perf_counter() + budget_s / len(models)
        while len(alone_s) < MIN_SWITCHES or (len(alone_s) < MAX_SWITCHES and time.perf_counter() < end):
            graph.run(shape.batch_size)
            alone_s.append(_seconds(graph, shape))
            graphs[next_number].run(quickest[next_number].batch_size)
            in_turn_s.append(_seconds(graph, shape))
        switch_ms.append(max(0.0, statistics.median(in_turn_s) - statistics.median(alone_s)) * 1000)
    return switch_ms


def _seconds(graph: Graph, shape: Shape) -> float:
    start = time.perf_counter()
    graph.run(shape.batch_size)
    return time.perf_counter() - start


def warm_up(graph: Graph, shape: Shape, signature: Signature) -> None:
    """Fill every row of a graph of this shape, and run it once."""
    rows = [full_row(signature, shape.sequence_length, Row([signature.pad_token_id], []))] * shape.batch_size
    write_call(graph, spread_call(shape, tuple(range(len(rows)))), rows, signature)
    graph.run(shape.batch_size)
