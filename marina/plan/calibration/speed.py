"""The speed of the machine: the time of one graph, which is measured again whenever the speed may have changed."""

from __future__ import annotations

from pathlib import Path

from handlers.worker.artifact import read_artifact
from handlers.worker.engines import Setup, open_runtime
from handlers.worker.rows.calls import load_graphs
from handlers.worker.rows.timing import time_graphs

BUDGET_S = 1.0


def probe(folder: Path, cores: int) -> float:
    """Milliseconds of one call of an artifact's graph of middle size.

    Args:
        folder: of the artifact.
        cores: to compute on.
    """
    artifact = read_artifact(folder)
    graphs = sorted(artifact.graphs, key=lambda graph: graph.shape.tokens)
    runtime = open_runtime(artifact.engine, Setup(cores, cores, artifact.precision))
    streams = load_graphs(runtime, folder.joinpath, [graphs[len(graphs) // 2]], artifact.signature)
    (milliseconds,) = time_graphs(streams, artifact.signature, BUDGET_S).values()
    return milliseconds
