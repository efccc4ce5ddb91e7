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


def scan(file: IO[bytes], _: frozenset[str], max_rows: int | None) -> Scan:
    try:
        parquet_file = pq.ParquetFile(file)
    except pa.ArrowException as error:
        raise ValueError(" ".join(str(error).split())) from None
    rows = parquet_file.metadata.num_rows if max_rows is None else min(max_rows, parquet_file.metadata.num_rows)
    starts = range(0, rows, STEP)
    pieces = [Piece(start, min(start + STEP, rows), min(STEP, rows - start)) for start in starts]
    return Scan(parquet_file.schema_arrow.remove_metadata(), pieces)


def read(file: IO[bytes], piece: Piece, schema: pa.Schema, _: frozenset[str]) -> Read:
    parquet_file = pq.ParquetFile(file, buffer_size=BUFFER_BYTES)
    table = pa.Table.from_batches(_slices(parquet_file, piece, schema.names))
    unread: dict[int, RequestError] = {}
    columns = []
    for number, name in enumerate(schema.names):
        # a name may be there several times
        index = table.schema.get_all_field_indices(name)[schema.names[:number].count(name)]
        columns.append(_readable(table.column(index), name, unread))
    return Read(pa.table(columns, names=schema.names).cast(schema), unread)


def _readable(column: pa.ChunkedArray, name: str, unread: dict[int, RequestError]) -> pa.ChunkedArray:
    """A column with nulls for texts that are not UTF-8, whose rows are noted as unread."""
    try:
        column.validate(full=True)
        return column
    except pa.ArrowInvalid:
        # a slice would keep all values of its lists
        validity = [_is_valid(column.take([row])) for row in range(len(column))]
    message = f"the column {quote(name)} holds a text that is not UTF-8"
    unread.update({row: RequestError("InvalidText", message) for row, valid in enumerate(validity) if not valid})
    return pc.if_else(pa.array(validity), column, pa.scalar(None, column.type))


def _is_valid(value: pa.ChunkedArray) -> bool:
    try:
        value.validate(full=True)
        return True
    except pa.ArrowInvalid:
        return False


def _slices(parquet_file: pq.ParquetFile, piece: Piece, columns: list[str]) -> Iterator[pa.RecordBatch]:
    """The rows of a piece; only the groups that hold them are read, and only these columns."""
    groups: list[int] = []
    first_row = position = 0
    for group in range(parquet_file.num_row_groups):
        end = position + parquet_file.metadata.row_group(group).num_rows
        if position < piece.end and end > piece.start:
            first_row = position if not groups else first_row
            groups.append(group)
        position = end
    position = first_row
    for batch in parquet_file.iter_batches(BATCH_ROWS, row_groups=groups, columns=columns):
        start, end = max(piece.start - position, 0), min(piece.end - position, len(batch))
        if start < end:
            yield batch.slice(start, end - start)
        position += len(batch)
        if position >= piece.end:
            return


def write(rows: pa.Table, path: Path) -> None:
    with _writer(path, rows.schema) as writer:
        writer.write_table(rows.cast(writer.schema))


def join(parts: Sequence[Path], path: Path, schema: pa.Schema) -> None:
    with _writer(path, schema) as writer:
        batches: list[pa.RecordBatch] = []
        for part in parts:
            for batch in pq.ParquetFile(part).iter_batches(GROUP_ROWS):
                batches.append(batch)
                if sum(map(len, batches)) >= GROUP_ROWS:
                    writer.write_table(pa.Table.from_batches(batches, schema=writer.schema))
                    batches = []
        if batches:
            writer.write_table(pa.Table.from_batches(batches, schema=writer.schema))


def _writer(path: Path, schema: pa.Schema) -> pq.ParquetWriter:
    """Writes a file, without a dictionary of the numbers of embeddings, which makes it larger."""
    repetitive = [field.name for field in schema if not pa.types.is_nested(field.type)]
    return pq.ParquetWriter(path, _typed(schema), compression="zstd", use_dictionary=repetitive)


def _typed(schema: pa.Schema) -> pa.Schema:
    """A schema in which numbers that are carried as texts are floats."""
    return pa.schema([pa.field(field.name, pa.float64()) if is_number(field) else field for field in schema])
