"""Runs calls: writes rows into a graph's static inputs and gathers each row's outputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from handlers.worker.artifact import Artifact
from handlers.worker.engines import Engine, Graph
from handlers.worker.plan import Call, Shape
from handlers.worker.tokenizing import Row

Outputs = list[npt.NDArray[np.float32]]


def load_graphs(engine: Engine, artifact: Artifact) -> dict[Shape, Graph]:
    """Load every graph of an artifact; ArtifactError when one cannot be loaded."""
    return {
        file.shape: engine.load(
            artifact.folder / file.graph,
            artifact.folder / file.weights if file.weights else None,
            new_inputs(file.shape, artifact),
        )
        for file in artifact.graphs
    }


def new_inputs(shape: Shape, artifact: Artifact) -> list[npt.NDArray[np.int64]]:
    """Arrays for a graph to read."""
    return [np.zeros(shape, dtype=np.int64) for _ in artifact.inputs]


def run_calls(
    calls: Sequence[Call], rows: Sequence[Row], graphs: Mapping[Shape, Graph], artifact: Artifact
) -> list[Outputs]:
    """Compute every row.

    Returns:
        For each row its outputs in the order of `artifact.outputs`, without the batch dimension.
    """
    outputs: list[Outputs] = [[] for _ in rows]
    for call in calls:
        results = run_rows(graphs[call.shape], [rows[index] for index in call.rows], artifact)
        for place, index in enumerate(call.rows):
            outputs[index] = [result[place] for result in results]
    return outputs


def run_rows(graph: Graph, rows: Sequence[Row], artifact: Artifact) -> Outputs:
    """Run one graph on rows that it holds; its outputs have the batch size first."""
    write_rows(graph, rows, artifact)
    return graph.run()


def write_rows(graph: Graph, rows: Sequence[Row], artifact: Artifact) -> None:
    """Write rows into a graph's inputs, padded on the right.

    An empty place attends to its first padding token: attention over nothing is not a number in
    some kernels.
    """
    for name, array in zip(artifact.inputs, graph.inputs):
        if name == "attention_mask":
            array.fill(0)
            array[len(rows) :, 0] = 1
            for place, row in enumerate(rows):
                array[place, : len(row.ids)] = 1
        elif name == "token_type_ids":
            array.fill(artifact.pad_token_type_id)
            for place, row in enumerate(rows):
                array[place, : len(row.type_ids)] = row.type_ids
        else:
            array.fill(artifact.pad_token_id)
            for place, row in enumerate(rows):
                array[place, : len(row.ids)] = row.ids
