"""Where the rows of a file are."""

from __future__ import annotations

from typing import NamedTuple

import pyarrow as pa

STEP = 100  # rows between two marks


class Piece(NamedTuple):
    """Rows of a file that follow each other.

    Attributes:
        start, end: the first row and the one after the last; for formats of lines, their bytes.
        rows: how many rows.
    """

    start: int
    end: int
    rows: int


class Scan(NamedTuple):
    """The rows of a file.

    Attributes:
        schema: their columns.
        pieces: all of them, in pieces of `STEP` rows at most where a format has marks between rows.
    """

    schema: pa.Schema
    pieces: list[Piece]

    @property
    def rows(self) -> int:
        """How many there are."""
        return sum(piece.rows for piece in self.pieces)


class Marks:
    """Collects pieces while the rows of a file are counted.

    Args:
        start: where the first row starts.
    """

    def __init__(self, start: int) -> None:
        self.pieces: list[Piece] = []
        self.rows = 0
        self._start, self._end, self._counted = start, start, 0

    def row(self, end: int) -> None:
        """Count a row that ends here."""
        self.rows += 1
        self._counted += 1
        self._end = end
        if self._counted == STEP:
            self.close()

    def close(self) -> list[Piece]:
        """End the last piece; returns all of them."""
        if self._counted:
            self.pieces.append(Piece(self._start, self._end, self._counted))
            self._start, self._counted = self._end, 0
        return self.pieces
