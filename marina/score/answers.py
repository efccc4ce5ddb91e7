"""Answers as typed columns: how a kind of values is stored."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

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


def _as_json(value: Callable[[Json], Any]) -> Callable[[Json], str | None]:
    def text(answer: Json) -> str | None:
        taken = value(answer)
        return None if taken is None else dump(taken).decode()

    return text
