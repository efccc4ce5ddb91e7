"""Parquet: columns keep their types."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from handlers.worker.errors import RequestError
from handlers.worker.request.text import quote
from marina.score.answers import is_number
from marina.score.formats.scan import STEP, Piece, Scan
from marina.score.values import Read

SUFFIXES = (".parquet", ".pq")
BUFFER_BYTES = 1 << 20
BATCH_ROWS = 1000  # rows read at once: few, as a row may hold a long text
GROUP_ROWS = 100_000  # rows of a group in files that are written whole


def scan(file: IO[bytes], _: frozenset[str], most: int | None) -> Scan:
    try:
        found = pq.ParquetFile(file)
    except pa.ArrowException as error:
        raise ValueError(" ".join(str(error).split())) from None
    rows = found.metadata.num_rows if most is None else min(most, found.metadata.num_rows)
    starts = range(0, rows, STEP)
    pieces = [Piece(start, min(start + STEP, rows), min(STEP, rows - start)) for start in starts]
    return Scan(found.schema_arrow.remove_metadata(), pieces)


def read(file: IO[bytes], piece: Piece, schema: pa.Schema, _: frozenset[str]) -> Read:
    source = pq.ParquetFile(file, buffer_size=BUFFER_BYTES)
    read = pa.Table.from_batches(_slices(source, piece, schema.names))
    unread: dict[int, RequestError] = {}
    columns = []
    for number, name in enumerate(schema.names):
        # a name may be there several times
        place = read.schema.get_all_field_indices(name)[schema.names[:number].count(name)]
        columns.append(_readable(read.column(place), name, unread))
    return Read(pa.table(columns, names=schema.names).cast(schema), unread)


def _readable(column: pa.ChunkedArray, name: str, unread: dict[int, RequestError]) -> pa.ChunkedArray:
    """A column with nulls for texts that are not UTF-8, whose rows are noted as unread."""
    try:
        column.validate(full=True)
        return column
    except pa.ArrowInvalid:
        good = [_is_valid(column.take([row])) for row in range(len(column))]  # a slice keeps all that lists hold
    message = f"the column {quote(name)} holds a text that is not UTF-8"
    unread.update({row: RequestError("InvalidText", message) for row, valid in enumerate(good) if not valid})
    return pc.if_else(pa.array(good), column, pa.scalar(None, column.type))


def _is_valid(value: pa.ChunkedArray) -> bool:
    try:
        value.validate(full=True)
        return True
    except pa.ArrowInvalid:
        return False


def _slices(source: pq.ParquetFile, piece: Piece, columns: list[str]) -> Iterator[pa.RecordBatch]:
    """The rows of a piece; only the groups that hold them are read, and only these columns."""
    groups: list[int] = []
    first = at = 0
    for group in range(source.num_row_groups):
        end = at + source.metadata.row_group(group).num_rows
        if at < piece.end and end > piece.start:
            first = at if not groups else first
            groups.append(group)
        at = end
    at = first
    for batch in source.iter_batches(BATCH_ROWS, row_groups=groups, columns=columns):
        start, end = max(piece.start - at, 0), min(piece.end - at, len(batch))
        if start < end:
            yield batch.slice(start, end - start)
        at += len(batch)
        if at >= piece.end:
            return


def write(rows: pa.Table, path: Path) -> None:
    pq.write_table(rows.cast(_typed(rows.schema)), path, compression="zstd")


def join(parts: Sequence[Path], path: Path, schema: pa.Schema) -> None:
    schema = _typed(schema)
    with pq.ParquetWriter(path, schema, compression="zstd") as whole:
        waiting: list[pa.RecordBatch] = []
        for part in parts:
            for batch in pq.ParquetFile(part).iter_batches(GROUP_ROWS):
                waiting.append(batch)
                if sum(map(len, waiting)) >= GROUP_ROWS:
                    whole.write_table(pa.Table.from_batches(waiting, schema=schema))
                    waiting = []
        if waiting:
            whole.write_table(pa.Table.from_batches(waiting, schema=schema))


def _typed(schema: pa.Schema) -> pa.Schema:
    """A schema in which numbers that are carried as texts are floats."""
    return pa.schema([pa.field(field.name, pa.float64()) if is_number(field) else field for field in schema])
