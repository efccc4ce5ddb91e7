"""Values of Arrow columns, for JSON, CSV and databases."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import orjson
import pyarrow as pa

OPTIONS = orjson.OPT_SERIALIZE_NUMPY | orjson.OPT_NON_STR_KEYS


def values_of(column: pa.ChunkedArray) -> Sequence[Any]:
    """The values of a column; lists of 32-bit floats, and of such lists, are of NumPy arrays, which are quicker."""
    kind = column.type
    if getattr(kind, "unit", "") == "ns":  # Python's times have microseconds
        kind = _in_microseconds(kind)
        column = column.cast(kind, safe=False)
    if pa.types.is_list(kind) and pa.types.is_list(kind.value_type) and pa.types.is_float32(kind.value_type.value_type):
        return _matrices(column)
    if not (pa.types.is_list(kind) and pa.types.is_float32(kind.value_type)):
        values: list[Any] = column.to_pylist()
        return values
    vectors: list[Any] = []
    for chunk in column.chunks:
        numbers = chunk.values.to_numpy(zero_copy_only=False)
        ends = chunk.offsets.to_numpy()
        present = chunk.is_valid().to_pylist()
        vectors += [numbers[ends[i] : ends[i + 1]] if is_present else None for i, is_present in enumerate(present)]
    return vectors


def _in_microseconds(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_timestamp(kind):
        return pa.timestamp("us", kind.tz)
    return pa.duration("us") if pa.types.is_duration(kind) else pa.time64("us")


def _matrices(column: pa.ChunkedArray) -> list[Any]:
    """The values of a column of lists of vectors, each a list of NumPy arrays."""
    matrices: list[Any] = []
    for chunk in column.chunks:
        vectors, ends = values_of(pa.chunked_array([chunk.values])), chunk.offsets.to_pylist()
        present = chunk.is_valid().to_pylist()
        matrices += [vectors[ends[i] : ends[i + 1]] if is_present else None for i, is_present in enumerate(present)]
    return matrices


def json_text(value: Any) -> str:
    """A value as JSON; numbers that JSON has not become null, and other kinds of values their text."""
    return orjson.dumps(value, default=str, option=OPTIONS).decode()
