"""Writes rows into the lines of a packed graph, and takes their outputs from it.

The inputs, all of shape (batch_size, sequence_length): the tokens; `SEGMENTS`, the number in its line of the text that
a token belongs to, or -1; and its position in that text, as the model counts. An output per text has
`Shape.texts_a_line` rows for each line; an output per token has one row for each line.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from handlers.worker.archive.signature import INPUT_IDS, POOLING_MASK, POSITION_IDS, SEGMENTS, TOKEN_TYPE_IDS, Signature
from handlers.worker.engines import Graph
from handlers.worker.values import Call, Outputs, Place, Row


def write_packed(graph: Graph, call: Call, rows: Sequence[Row], signature: Signature) -> None:
    """Write the rows of a call into a packed graph's inputs. Padding attends to padding only."""
    arrays = dict(zip(signature.packed_inputs, graph.inputs, strict=True))
    padding = {INPUT_IDS: signature.pad_token_id, TOKEN_TYPE_IDS: signature.pad_token_type_id}
    write_lines(arrays, rows, call.places, signature.padding_position, padding)


def read_packed(results: Outputs, call: Call, rows: Sequence[Row], signature: Signature) -> list[Outputs]:
    """The outputs of each row, in the order of `Signature.outputs`, from the outputs of a packed graph."""
    if signature.per_token:
        return [
            [result[line, start : start + len(row.ids)] for result in results]
            for row, (line, _, start) in zip(rows, call.places, strict=True)
        ]
    texts = call.shape.texts_a_line
    return [[result[line * texts + number] for result in results] for line, number, _ in call.places]


def write_lines(
    arrays: Mapping[str, npt.NDArray[np.int64]],
    rows: Sequence[Row],
    places: Sequence[Place],
    padding_position: int | None,
    padding: Mapping[str, int],
) -> None:
    """Write rows into arrays of shape (lines, tokens), each named as the input that it is for.

    Args:
        arrays: by name.
        rows: the rows to write.
        places: the place of each row.
        padding_position: see `Signature`.
        padding: the values of inputs where there is no token; 0 for inputs that are not named here.
    """
    first_position = 0 if padding_position is None else padding_position + 1
    fill_values = {SEGMENTS: -1, POSITION_IDS: first_position, **padding}
    for name, array in arrays.items():
        array.fill(fill_values.get(name, 0))
        for row, (line, number, start) in zip(rows, places, strict=True):
            target = array[line, start : start + len(row.ids)]
            if name == INPUT_IDS:
                target[:] = row.ids
            elif name == TOKEN_TYPE_IDS:
                target[:] = row.type_ids
            elif name == SEGMENTS:
                target.fill(number)
            elif name == POSITION_IDS:
                target[:] = _positions(row, padding_position)
            elif name == POOLING_MASK:
                target[row.prompt_tokens :] = 1


def number_positions(ids: npt.NDArray[np.int64], padding: int) -> npt.NDArray[np.int64]:
    """Position ids as RoBERTa and its relatives number tokens, of the same shape (rows, tokens) as `ids`.

    Tokens are numbered from `padding` + 1; a token whose id is `padding` is not counted and keeps `padding`.
    Computed here and not in graphs, as neuron-cc has no cumsum.
    Source: `create_position_ids_from_input_ids` of transformers' modeling_roberta.py.
    """
    tokens = ids != padding
    return np.asarray(np.cumsum(tokens, axis=1) * tokens + padding, dtype=np.int64)


def _positions(row: Row, padding_position: int | None) -> npt.NDArray[np.int64]:
    if padding_position is None:
        return np.arange(len(row.ids))
    positions: npt.NDArray[np.int64] = number_positions(np.array([row.ids]), padding_position)[0]
    return positions
