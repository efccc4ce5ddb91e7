"""Writes rows into the lines of a packed graph, and takes their outputs from it.

The inputs, all of shape (batch_size, sequence_length): the tokens; `SEGMENTS`, the number of the text that a token
belongs to, or -1; and its position in that text, as the model counts. An output per text has one row for each segment;
an output per token has one for each line.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from handlers.worker.artifact import POOLING_MASK, POSITION_IDS, SEGMENTS, Signature
from handlers.worker.engines import Graph
from handlers.worker.values import Call, Outputs, Place, Row


def run_packed(graph: Graph, call: Call, rows: Sequence[Row], signature: Signature) -> list[Outputs]:
    """Run a packed graph; returns the outputs of each row, in the order of `Signature.outputs`.

    Args:
        graph: of the call's shape.
        call: with the places of the rows.
        rows: those of the call, in the same order.
        signature: of the model.
    """
    write_packed(graph, rows, call.places, signature)
    if not signature.per_token:
        results = graph.run(len(rows))
        return [[result[number] for result in results] for number in range(len(rows))]
    results = graph.run(call.used)
    return [
        [result[line, start : start + len(row.ids)] for result in results]
        for row, (line, start) in zip(rows, call.places)
    ]


def write_packed(graph: Graph, rows: Sequence[Row], places: Sequence[Place], signature: Signature) -> None:
    """Write rows into a packed graph's inputs. Padding attends to padding only."""
    arrays = dict(zip(signature.packed_inputs, graph.inputs))
    write_lines(arrays, rows, places, signature.first_position, signature.pad_token_id, signature.pad_token_type_id)


def write_lines(
    arrays: Mapping[str, npt.NDArray[np.int64]],
    rows: Sequence[Row],
    places: Sequence[Place],
    first_position: int,
    pad_token_id: int = 0,
    pad_token_type_id: int = 0,
) -> None:
    """Write rows into arrays of shape (lines, tokens), each named as the input that it is for."""
    padding = {
        "input_ids": pad_token_id,
        "token_type_ids": pad_token_type_id,
        SEGMENTS: -1,
        POSITION_IDS: first_position,
        POOLING_MASK: 0,
    }
    for name, array in arrays.items():
        array.fill(padding[name])
        for number, (row, (line, start)) in enumerate(zip(rows, places)):
            tokens = len(row.ids)
            own = array[line, start : start + tokens]
            if name == "input_ids":
                own[:] = row.ids
            elif name == "token_type_ids":
                own[:] = row.type_ids
            elif name == SEGMENTS:
                own.fill(number)
            elif name == POSITION_IDS:
                own[:] = np.arange(first_position, first_position + tokens)
            else:
                own[row.prompt_tokens :] = 1
