"""Parquet: columns keep their types."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO

import pyarrow as pa
import pyarrow.parquet as pq

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
    return Read(pa.Table.from_batches(_slices(source, piece), schema=source.schema_arrow).cast(schema), {})


def _slices(source: pq.ParquetFile, piece: Piece) -> Iterator[pa.RecordBatch]:
    """The rows of a piece; only the groups that hold them are read."""
    groups: list[int] = []
    first = at = 0
    for group in range(source.num_row_groups):
        end = at + source.metadata.row_group(group).num_rows
        if at < piece.end and end > piece.start:
            first = at if not groups else first
            groups.append(group)
        at = end
    at = first
    for batch in source.iter_batches(BATCH_ROWS, row_groups=groups):
        start, end = max(piece.start - at, 0), min(piece.end - at, len(batch))
        if start < end:
            yield batch.slice(start, end - start)
        at += len(batch)
        if at >= piece.end:
            return


def write(rows: pa.Table, path: Path) -> None:
    pq.write_table(rows, path, compression="zstd")


def join(parts: Sequence[Path], path: Path, schema: pa.Schema) -> None:
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
