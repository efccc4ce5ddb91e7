"""CSV: a line of column names, then rows; fields may be quoted, with line breaks in them.

CSV has no types, so all columns are texts, and carried values stay as they are written.
"""

from __future__ import annotations

import csv
import io
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, Any, NamedTuple

import pyarrow as pa

from handlers.worker.errors import RequestError
from marina.score.formats.scan import BOM, Piece, PieceBuilder, Scan
from marina.score.formats.values import json_text, values_of
from marina.score.values import Read

csv.field_size_limit(1 << 30)
END = ["the end"]  # compared by identity


class Csv(NamedTuple):
    """CSV with one kind of delimiter."""

    SUFFIXES: tuple[str, ...]
    delimiter: str

    def scan(self, file: IO[bytes], text_columns: frozenset[str], max_rows: int | None) -> Scan:
        start = len(BOM) if file.read(len(BOM)) == BOM else 0
        file.seek(start)
        lines = _Lines(file, start)
        records = self._records(lines)
        header = next(records, None)
        if not header or len(set(header)) < len(header):
            raise ValueError("its first line must have a name for each column, all different")
        builder = PieceBuilder(lines.end)
        while builder.rows != max_rows and (record := next(records, END)) is not END:
            if record != []:  # else an empty line
                builder.add_row(lines.end)
        return Scan(pa.schema([(_utf8(name), pa.string()) for name in header]), builder.close())

    def read(self, file: IO[bytes], piece: Piece, schema: pa.Schema, text_columns: frozenset[str]) -> Read:
        header = self.scan(file, text_columns, 0).schema.names
        indices = [header.index(name) for name in schema.names]
        file.seek(piece.start)
        content = file.read(piece.end - piece.start)
        columns: list[list[str | None]] = [[] for _ in indices]
        unread = {}
        records = self._records(_Lines(io.BytesIO(content), 0))
        for row, record in enumerate(record for record in records if record != []):
            raw_fields = [record[index] if record and index < len(record) else None for index in indices]
            fields = [None if field is None else _utf8(field) for field in raw_fields]
            if record is None:
                unread[row] = RequestError("InvalidInstance", "the row is not CSV")
            elif len(record) != len(header):
                message = f"the row has {len(record)} fields, and not {len(header)}"
                unread[row] = RequestError("InvalidInstance", message)
            elif fields != raw_fields:
                unread[row] = RequestError("InvalidText", "the row is not UTF-8")
            for column, field in zip(columns, fields, strict=True):
                column.append(field)
        return Read(pa.table([pa.array(column, pa.string()) for column in columns], schema=schema), unread)

    def _records(self, lines: _Lines) -> Iterator[list[str] | None]:
        """The records of lines: their fields, of which an empty line has none; None for one that is not CSV."""
        reader = csv.reader(lines, delimiter=self.delimiter)
        while True:
            try:
                yield next(reader)
            except StopIteration:
                return
            except csv.Error:
                yield None

    def write(self, rows: pa.Table, path: Path) -> None:
        columns = [[_field_text(value) for value in values_of(column)] for column in rows.columns]
        with path.open("w", encoding="utf-8", newline="") as file:
            for record in (rows.schema.names, *zip(*columns, strict=True)):
                line = self.delimiter.join(self._quoted(field) for field in record)
                file.write(f"{line or chr(34) * 2}\n")  # an empty line would be no row

    def _quoted(self, field: str) -> str:
        """A field in quotes if it needs them; the library's writer leaves out the quotes around a lone \\r."""
        if any(character in field for character in (self.delimiter, '"', "\r", "\n")):
            return '"' + field.replace('"', '""') + '"'
        return field

    def join(self, parts: Sequence[Path], path: Path, schema: pa.Schema) -> None:
        self.write(schema.empty_table(), path)
        header = path.stat().st_size
        with path.open("ab") as output:
            for part in parts:
                with part.open("rb") as file:
                    file.seek(header)
                    shutil.copyfileobj(file, output, 1 << 20)


class _Lines:
    """The lines of a file; bytes that are no UTF-8 become lone surrogates.

    Attributes:
        end: where the last line that was read ends.
    """

    def __init__(self, file: IO[bytes], start: int) -> None:
        self._file, self.end = file, start

    def __iter__(self) -> Iterator[str]:
        for line in self._file:
            self.end += len(line)
            yield line.decode("utf-8", "surrogateescape")


def _utf8(text: str) -> str:
    """A text with replacement characters for bytes that are no UTF-8."""
    if text.isascii():
        return text
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def _field_text(value: Any) -> str:
    """A value as a field: texts as they are, others as JSON, and nothing for null."""
    if value is None or isinstance(value, str):
        return value or ""
    return json_text(value).strip('"')


CSV = Csv((".csv",), ",")
TSV = Csv((".tsv",), "\t")
