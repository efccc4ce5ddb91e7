"""Formats of files, one module each: how rows are found in a file, read and written.

Enters: bytes. Leaves: Arrow batches, and bytes again. Not known here: places and models.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import IO, Protocol

import pyarrow as pa

from marina.errors import MarinaError
from marina.score.formats import json_lines, parquet
from marina.score.formats.csv_rows import CSV, TSV
from marina.score.formats.scan import Piece, Scan
from marina.score.values import Read


class Format(Protocol):
    """The interface of a format's module."""

    @property
    def SUFFIXES(self) -> tuple[str, ...]:
        """The suffixes of its files, in lower case; the first is for files that are written."""

    def scan(self, file: IO[bytes], text_columns: frozenset[str], max_rows: int | None, /) -> Scan:
        """Find the rows of a file.

        Args:
            file: the file.
            text_columns: columns that hold texts.
            max_rows: stop after this many rows.

        Raises:
            ValueError: it is not a file of this format.
        """

    def read(self, file: IO[bytes], piece: Piece, schema: pa.Schema, text_columns: frozenset[str], /) -> Read:
        """Read the rows of a piece: the columns of the file that are in the schema."""

    def write(self, rows: pa.Table, path: Path, /) -> None:
        """Write rows into a new file."""

    def join(self, parts: Sequence[Path], path: Path, schema: pa.Schema, /) -> None:
        """Write the rows of several files into one."""


FORMATS: dict[str, Format] = {"parquet": parquet, "csv": CSV, "tsv": TSV, "jsonl": json_lines}


def format_of(path: str) -> str | None:
    """The name of the format of a file, by its suffix; None for other suffixes.

    Raises:
        MarinaError: the file is compressed as a whole.
    """
    lower = path.lower()
    if lower.endswith((".gz", ".bz2", ".zst", ".xz", ".zip")):
        raise MarinaError(f"{path} is compressed as a whole, so that its rows cannot be found", "unpack it first")
    return next((name for name, file_format in FORMATS.items() if lower.endswith(file_format.SUFFIXES)), None)
