"""JSON Lines: an object per line.

A column that has values of several kinds is carried along as JSON, so that every value comes out as it went in.
"""

from __future__ import annotations

import json
import re
import shutil
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import IO, Any

import orjson
import pyarrow as pa

from handlers.worker.errors import RequestError
from handlers.worker.request.text import type_name
from marina.score.answers import JSON, NUMBER, is_json
from marina.score.formats.scan import BOM, Piece, PieceBuilder, Scan
from marina.score.formats.values import json_text, values_of
from marina.score.values import Read

SUFFIXES = (".jsonl", ".ndjson", ".jsonlines")
ARROW_TYPES = {str: pa.string(), bool: pa.bool_(), int: pa.int64(), float: pa.float64()}
INT64_LIMIT = 1 << 63  # of integers in Arrow
EXACT_FLOAT_LIMIT = 1 << 53  # 64-bit floats hold every integer up to it
LONG_NUMBER = re.compile(rb"[0-9.]{17}")  # a number that 64 bits may not hold


def scan(file: IO[bytes], text_columns: frozenset[str], max_rows: int | None) -> Scan:
    builder, end, kinds = PieceBuilder(0), 0, Kinds()
    for line in file:
        if builder.rows == max_rows:
            break
        end += len(line)
        if line.isspace():
            continue
        builder.add_row(end)
        value = _object(line)
        if isinstance(value, dict):
            kinds.add(value)
    return Scan(kinds.schema(text_columns), builder.close(), kinds)


def read(file: IO[bytes], piece: Piece, schema: pa.Schema, text_columns: frozenset[str]) -> Read:
    file.seek(piece.start)
    lines = file.read(piece.end - piece.start).split(b"\n")
    return read_objects([_object(line) for line in lines if line and not line.isspace()], schema, text_columns)


def read_objects(
    objects: Sequence[dict[str, Any] | RequestError], schema: pa.Schema, text_columns: frozenset[str]
) -> Read:
    """Objects as rows with the columns of a schema from `Kinds`."""
    columns: dict[str, list[Any]] = {name: [] for name in schema.names}
    as_json = {name for name in schema.names if is_json(schema.field(name))}
    unread = {}
    for row, document in enumerate(objects):
        fields: dict[str, Any] = {}
        if isinstance(document, RequestError):
            unread[row] = document
        else:
            fields = document
        for name, column in columns.items():
            item = fields.get(name)
            if name in as_json and item is not None:
                item = json_text(item)
            elif name in text_columns and not isinstance(item, str | None):
                message = f'the field "{name}" must be a text, not {type_name(item)}'
                unread[row], item = RequestError("InvalidInstance", message), None
            column.append(item)
    arrays = [pa.array(column, schema.field(name).type) for name, column in columns.items()]
    return Read(pa.table(arrays, schema=schema), unread)


def write(rows: pa.Table, path: Path) -> None:
    columns = []
    for field, column in zip(rows.schema, rows.columns, strict=True):
        values = values_of(column)
        columns.append(
            [value if value is None else orjson.Fragment(value) for value in values] if is_json(field) else values
        )
    names = rows.schema.names
    with path.open("wb") as file:
        for row in zip(*columns, strict=True):
            file.write(json_text(dict(zip(names, row, strict=True))).encode() + b"\n")


def join(parts: Sequence[Path], path: Path, _: pa.Schema) -> None:
    with path.open("wb") as output:
        for part in parts:
            with part.open("rb") as file:
                shutil.copyfileobj(file, output, 1 << 20)


def _object(line: bytes) -> dict[str, Any] | RequestError:
    line = line.removeprefix(BOM)  # which some editors write at the start of a file
    try:
        value = orjson.loads(line)
        if LONG_NUMBER.search(line):  # orjson rounds numbers that do not fit
            value = json.loads(line, parse_int=_whole, parse_float=_fraction)
    except (ValueError, RecursionError):
        return RequestError("InvalidJson", "the line is not valid JSON")
    if not isinstance(value, dict):
        return RequestError("InvalidInstance", f"the line must be an object, not {type_name(value)}")
    return value


def _whole(text: str) -> int | orjson.Fragment:
    """A whole number; one of more than 64 bits stays as it is written."""
    return int(text) if len(text) < 21 and -INT64_LIMIT <= int(text) < INT64_LIMIT else orjson.Fragment(text)


def _fraction(text: str) -> float | orjson.Fragment:
    """A number with a fraction; one with more digits than a 64-bit float has stays as it is written."""
    value = float(text)
    exact = Decimal(text) in (Decimal(repr(value)), Decimal(f"{value:.17g}"))
    return value if exact else orjson.Fragment(text)


class Kinds:
    """The kinds of values that the fields of objects have, which decide the types of columns."""

    def __init__(self) -> None:
        self._kinds: dict[str, set[Any]] = defaultdict(set)
        self._large: set[str] = set()  # fields with whole numbers that a float would round

    @classmethod
    def merged(cls, several: Iterable[Kinds]) -> Kinds:
        """Those of all objects together."""
        merged = cls()
        for kinds in several:
            for name, kinds_of_field in kinds._kinds.items():
                merged._kinds[name] |= kinds_of_field
            merged._large |= kinds._large
        return merged

    def add(self, value: Mapping[str, Any]) -> None:
        """Take note of the values of an object."""
        for name, item in value.items():
            self._kinds[name].add(_kind(item))
            if isinstance(item, int) and abs(item) > EXACT_FLOAT_LIMIT:
                self._large.add(name)

    def schema(self, text_columns: frozenset[str]) -> pa.Schema:
        """A column per field: a text if it is among `text_columns`, and JSON if its values are of several kinds."""
        return pa.schema([self._field(name, kinds - {None}, text_columns) for name, kinds in self._kinds.items()])

    def _field(self, name: str, kinds: set[Any], text_columns: frozenset[str]) -> pa.Field:
        if name in text_columns or not kinds:
            return pa.field(name, pa.string())
        if kinds == {int, float} and name not in self._large:
            return pa.field(name, pa.string(), metadata=NUMBER)
        (kind,) = kinds if len(kinds) == 1 else (object,)
        return pa.field(name, ARROW_TYPES[kind]) if kind in ARROW_TYPES else pa.field(name, pa.string(), metadata=JSON)


def _kind(value: Any) -> Any:
    """The Python type of a value that a column of Arrow can hold; else None for null, and object for any other."""
    if value is None:
        return None
    if type(value) not in ARROW_TYPES or (isinstance(value, int) and not -INT64_LIMIT <= value < INT64_LIMIT):
        return object
    return type(value)
