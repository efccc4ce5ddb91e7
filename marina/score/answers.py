"""Answers as typed columns: how a kind of values is stored."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from handlers.worker.archive.signature import Signature
from handlers.worker.request.documents import dump
from handlers.worker.tasks import TASKS
from handlers.worker.tasks.base import Parameters
from handlers.worker.tasks.columns import ValueKind
from handlers.worker.values import Json

JSON = {"marina": "json"}  # metadata of a column whose texts are JSON documents
NUMBER = {"marina": "number"}  # metadata of a column of JSON numbers that 64-bit floats hold exactly
ERROR = pa.field("error", pa.string())
TRUNCATED = pa.field("truncated", pa.bool_())
TYPES: Mapping[ValueKind, pa.DataType] = {
    ValueKind.TEXT: pa.string(),
    ValueKind.WHOLE: pa.int64(),
    ValueKind.NUMBER: pa.float64(),
    ValueKind.VECTOR: pa.list_(pa.float32()),
    ValueKind.MATRIX: pa.list_(pa.list_(pa.float32())),
    ValueKind.WHOLES: pa.list_(pa.int32()),
    ValueKind.SMALL_WHOLES: pa.list_(pa.int16()),
    ValueKind.TEXTS: pa.list_(pa.string()),
    ValueKind.BYTES: pa.list_(pa.uint8()),
    ValueKind.SIGNED_BYTES: pa.list_(pa.int8()),
    ValueKind.LABELS: pa.list_(pa.struct([("label", pa.string()), ("score", pa.float64())])),
    ValueKind.JSON: pa.string(),
}


class TypedColumn(NamedTuple):
    """A column of answers: its name and type, and how to take its value from an answer."""

    field: pa.Field
    value: Callable[[Json], Any]


def is_json(field: pa.Field) -> bool:
    """Whether the texts of a column are JSON documents."""
    return bool(field.metadata) and field.metadata.get(b"marina") in (b"json", b"number")


def is_number(field: pa.Field) -> bool:
    """Whether the texts of a column are numbers, which become 64-bit floats where a place has types."""
    return bool(field.metadata) and field.metadata.get(b"marina") == b"number"


def answer_columns(task: str, signature: Signature, parameters: Parameters, prefix: str) -> list[TypedColumn]:
    """The columns of a model's answers.

    Args:
        task: the name of the model's task.
        signature: the model's signature.
        parameters: the parameters of every row.
        prefix: for the names of the columns.
    """
    return [
        TypedColumn(pa.field(prefix + name, TYPES[kind], metadata=JSON), _as_json(value))
        if kind is ValueKind.JSON
        else TypedColumn(pa.field(prefix + name, TYPES[kind]), value)
        for name, kind, value in TASKS[task].columns(signature, parameters)
    ]


def array_of(values: Sequence[Any], data_type: pa.DataType) -> pa.Array:
    """Values, of which some may be None, as an Arrow array.

    Embeddings and flags, of which every row has one, become its buffers: pyarrow's own conversion takes twice as long,
    and imports pandas where it is installed, which takes as long as hundreds of rows.
    """
    valid = np.array([value is not None for value in values])
    if not valid.any():
        return pa.nulls(len(values), data_type)
    if data_type == TYPES[ValueKind.VECTOR]:
        offsets = np.zeros(len(values) + 1, np.int32)
        np.cumsum([0 if vector is None else len(vector) for vector in values], out=offsets[1:])
        floats = np.concatenate([vector for vector in values if vector is not None], dtype=np.float32)
        vectors = pa.Array.from_buffers(pa.float32(), len(floats), [None, pa.py_buffer(floats)])
        return pa.Array.from_buffers(data_type, len(values), [_bits(valid), pa.py_buffer(offsets)], children=[vectors])
    if pa.types.is_boolean(data_type):
        return pa.Array.from_buffers(data_type, len(values), [_bits(valid), _bits(np.array(values, bool))])
    return pa.array(values, data_type)


def _bits(flags: npt.NDArray[np.bool_]) -> pa.Buffer:
    return pa.py_buffer(np.packbits(flags, bitorder="little"))


def _as_json(value: Callable[[Json], Any]) -> Callable[[Json], str | None]:
    def text(answer: Json) -> str | None:
        taken = value(answer)
        return None if taken is None else dump(taken).decode()

    return text
