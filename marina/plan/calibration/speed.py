"""The speed of the machine: the time of one graph, which is measured again whenever the speed may have changed."""

from __future__ import annotations

import statistics
import time
from pathlib import Path

from handlers.worker.archive.artifact import read_artifact
from handlers.worker.engines import Setup, open_runtime
from handlers.worker.rows.calls import load_graphs
from handlers.worker.rows.timing import warm_up

BUDGET_S = 3.0  # so that short disturbances, which every measurement has, do not count


def probe(folder: Path, cores: int) -> float:
    """Median milliseconds of one call of an artifact's graph of middle size.

    Args:
        folder: of the artifact.
        cores: to compute on.
    """
    artifact = read_artifact(folder)
    graphs = sorted(artifact.graphs, key=lambda graph: graph.shape.tokens)
    runtime = open_runtime(artifact.engine, Setup(cores, cores, artifact.precision))
    stream, *_ = load_graphs(runtime, folder.joinpath, [graphs[len(graphs) // 2]], artifact.signature)
    ((shape, graph),) = stream.items()
    warm_up(graph, shape, artifact.signature)
    seconds: list[float] = []
    end = time.perf_counter() + BUDGET_S
    while not seconds or time.perf_counter() < end:
        start = time.perf_counter()
        graph.run(shape.batch_size)
        seconds.append(time.perf_counter() - start)
    return statistics.median(seconds) * 1000
