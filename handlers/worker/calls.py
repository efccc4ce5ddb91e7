"""Runs calls: writes rows into a graph's static inputs and gathers each row's outputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from handlers.worker.artifact import Artifact
from handlers.worker.engines import Graph
from handlers.worker.plan import Call, Shape
from handlers.worker.tokenizing import Row

Outputs = list[npt.NDArray[np.float32]]


def run_calls(
    calls: Sequence[Call], rows: Sequence[Row], graphs: Mapping[Shape, Graph], artifact: Artifact
) -> list[Outputs]:
    """Compute every row.

    Returns:
        For each row its outputs in the order of `artifact.outputs`, without the batch dimension.
    """
    outputs: list[Outputs] = [[] for _ in rows]
    for call in calls:
        inputs = fill_inputs([rows[index] for index in call.rows], call.shape, artifact)
        results = graphs[call.shape].run(inputs)
        for place, index in enumerate(call.rows):
            outputs[index] = [result[place] for result in results]
    return outputs


def fill_inputs(rows: Sequence[Row], shape: Shape, artifact: Artifact) -> list[npt.NDArray[np.int64]]:
    """The graph's inputs, each int64 of (batch_size, sequence_length), padded on the right.

    An empty place attends to its first padding token: attention over nothing is not a number in
    some kernels.
    """
    ids = np.full(shape, artifact.pad_token_id, dtype=np.int64)
    mask = np.zeros(shape, dtype=np.int64)
    type_ids = np.full(shape, artifact.pad_token_type_id, dtype=np.int64)
    mask[len(rows) :, 0] = 1
    for place, row in enumerate(rows):
        tokens = len(row.ids)
        ids[place, :tokens] = row.ids
        mask[place, :tokens] = 1
        type_ids[place, :tokens] = row.type_ids
    arrays = {"input_ids": ids, "attention_mask": mask, "token_type_ids": type_ids}
    return [arrays[name] for name in artifact.inputs]
