"""Runs calls: writes rows into a graph's static inputs and gathers each row's outputs."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from typing import Any, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from handlers.worker.archive.artifact import GraphFile, Locate
from handlers.worker.archive.signature import (
    ATTENTION_MASK,
    INPUT_IDS,
    POOLING_MASK,
    POSITION_IDS,
    TOKEN_TYPE_IDS,
    VALID_LENGTH,
    InputTensor,
    Signature,
    hides_filling,
)
from handlers.worker.engines import Graph, GraphLoad, Runtime, load_all
from handlers.worker.errors import RequestError, request_error
from handlers.worker.rows.lines import number_positions, read_packed, write_packed
from handlers.worker.rows.packing import calls_of
from handlers.worker.values import Call, Outputs, Row, Shape

Graphs = Mapping[Shape, Graph]
T = TypeVar("T")


def load_graphs(runtime: Runtime, locate: Locate, files: Sequence[GraphFile], signature: Signature) -> list[Graphs]:
    """Load the graphs of an artifact, whose files `locate` finds.

    Returns:
        Streams: one set of the graphs for each call that the runtime can run concurrently. Their
        shapes count the rows of all replicas.

    Raises:
        ArtifactError: a graph cannot be loaded.
    """
    streams: list[dict[Shape, Graph]] = [{} for _ in range(runtime.calls_at_once)]

    shapes = [file.shape._replace(batch_size=file.shape.batch_size * runtime.replicas) for file in files]
    loads = [
        GraphLoad(*file.paths(locate), [new_inputs(shape, signature) for _ in streams])
        for file, shape in zip(files, shapes, strict=True)
    ]
    for shape, graphs in zip(shapes, load_all(runtime, loads), strict=True):
        for stream, graph in zip(streams, graphs, strict=True):
            stream[shape] = graph
    return list(streams)


def new_inputs(shape: Shape, signature: Signature) -> list[npt.NDArray[Any]]:
    """Input arrays for a graph."""
    arrays: list[npt.NDArray[Any]] = []
    for name in signature.packed_inputs if shape.packed else signature.inputs:
        tensor = signature.tensors.get(name, InputTensor("int64", per_row=False, padding=0))
        arrays.append(np.zeros(shape.dims[:1] if tensor.per_row else shape.dims, dtype=tensor.dtype))
    return arrays


class ModelGraphs(NamedTuple):
    """The graphs of a model, from `load_graphs`, and its signature."""

    streams: Sequence[Graphs]
    signature: Signature


class Runner:
    """Runs calls on the streams of a worker.

    Args:
        members: the models of the worker, each with the same number of streams.
        condense: for each of them, what to keep of the outputs of a row.
    """

    def __init__(self, members: Sequence[ModelGraphs], condense: Sequence[Callable[[Outputs], Outputs]]) -> None:
        self._members, self._condense = members, condense
        self._streams = range(len(members[0].streams))
        self._threads = (
            ThreadPoolExecutor(len(self._streams), thread_name_prefix="stream") if len(self._streams) > 1 else None
        )

    def run(self, calls: Sequence[Call], rows: Sequence[Row]) -> dict[int, Outputs | RequestError]:
        """Compute the rows that calls name by their index.

        Returns:
            By the index of each row what is kept of its outputs, which are in the order of its model's
            `Signature.outputs`, without the batch dimension; or the error of its call.
        """
        outputs: dict[int, Outputs | RequestError] = {}
        pending = iter(calls)

        def run_pending(stream: int) -> None:
            for call in pending:
                streams, signature = self._members[call.member]
                try:
                    rows_of_call = [rows[index] for index in call.rows]
                    outputs_of_call = run_call(streams[stream][call.shape], call, rows_of_call, signature)
                    kept_outputs = map(self._condense[call.member], outputs_of_call)
                    outputs.update(zip(call.rows, kept_outputs, strict=True))
                except Exception as error:  # an error of the runtime affects only this call
                    outputs.update(dict.fromkeys(call.rows, request_error(error)))

        if self._threads is None or len(calls) == 1:
            run_pending(self._streams[0])
        else:
            futures = [self._threads.submit(run_pending, stream) for stream in self._streams]
            wait(futures)  # wait for all streams, since the next batch writes into the same inputs
            for future in futures:
                future.result()
        return outputs


def run_call(graph: Graph, call: Call, rows: Sequence[Row], signature: Signature) -> list[Outputs]:
    """Run a call; returns the outputs of each of its rows, in the order of `Signature.outputs`."""
    write_call(graph, call, rows, signature)
    results = graph.run(call.used_rows)
    min_values = call.used_rows * (call.shape.texts_a_line if call.shape.packed and not signature.per_token else 1)
    if len(results) != len(signature.outputs) or any(len(result) < min_values for result in results):
        raise ValueError(
            f"graph {call.shape} returned {[len(result) for result in results]} values; at least {min_values} are "
            f"needed of each of {len(signature.outputs)} outputs"
        )
    if call.shape.packed:
        return read_packed(results, call, rows, signature)
    return [[result[index] for result in results] for index in range(len(rows))]


def write_call(graph: Graph, call: Call, rows: Sequence[Row], signature: Signature) -> None:
    """Write the rows of a call into a graph's inputs."""
    if call.shape.packed:
        write_packed(graph, call, rows, signature)
    else:
        write_rows(graph, rows, signature)


def run_all(graph: Graph, shape: Shape, rows: Sequence[Row], signature: Signature) -> list[Outputs]:
    """Run a graph of a shape as often as needed; returns the outputs of each row."""
    outputs: list[Outputs] = [[] for _ in rows]
    for call in calls_of(shape, [len(row.ids) for row in rows]):
        outputs_of_call = run_call(graph, call, [rows[index] for index in call.rows], signature)
        for index, row_outputs in zip(call.rows, outputs_of_call, strict=True):
            outputs[index] = row_outputs
    return outputs


def write_rows(graph: Graph, rows: Sequence[Row], signature: Signature) -> None:
    """Write rows into a graph's inputs, padded on the right.

    An empty row attends to its first padding token, because some kernels return NaN for attention
    over no tokens.
    """
    inputs = dict(zip(signature.inputs, graph.inputs, strict=True))
    for name, array in inputs.items():
        if name in signature.tensors:
            _write_tensor(array, name, rows, signature.tensors[name])
        elif name == ATTENTION_MASK:
            array.fill(0)
            array[len(rows) :, 0] = 1
            hides = hides_filling(signature.roles)
            for index, row in enumerate(rows):
                array[index, : len(row.ids) - row.filled * hides] = 1
        elif name == POOLING_MASK:
            array.fill(0)
            array[len(rows) :, 0] = 1
            for index, row in enumerate(rows):
                array[index, row.prompt_tokens : len(row.ids)] = 1
        elif name == TOKEN_TYPE_IDS:
            array.fill(signature.pad_token_type_id)
            for index, row in enumerate(rows):
                array[index, : len(row.type_ids)] = row.type_ids
        elif name == INPUT_IDS:
            array.fill(signature.pad_token_id)
            for index, row in enumerate(rows):
                array[index, : len(row.ids)] = row.ids
    if signature.padding_position is not None:
        inputs[POSITION_IDS][:] = number_positions(inputs[INPUT_IDS], signature.padding_position)


def _write_tensor(array: npt.NDArray[Any], name: str, rows: Sequence[Row], tensor: InputTensor) -> None:
    """Write the values that a preprocessor gave for an input; an empty row of the graph repeats the first row."""
    array.fill(tensor.padding)
    for index, row in enumerate(rows):
        values = row.tensors[name]
        if isinstance(values, list):
            array[index, : len(values)] = values
        else:
            array[index] = values
    if rows:
        array[len(rows) :] = array[0]


def full_row(signature: Signature, length: int, pattern: Row) -> Row:
    """A row of this many tokens, which repeats the tokens of another row."""
    tensors: dict[str, list[float] | float] = {}
    for name, tensor in signature.tensors.items():
        values = pattern.tensors.get(name, tensor.padding)
        if tensor.per_row:
            tensors[name] = length if name == VALID_LENGTH else values
        else:
            tensors[name] = _cycled(values if isinstance(values, list) else [values], length)
    return Row(_cycled(pattern.ids or [signature.pad_token_id], length), [0] * length, 0, tensors)


def _cycled(values: Sequence[T], length: int) -> list[T]:
    return list(itertools.islice(itertools.cycle(values), length))
