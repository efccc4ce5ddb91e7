"""Where the rows of a file are."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple, TypeVar

import pyarrow as pa

STEP = 100  # rows of a piece at most
BOM = b"\xef\xbb\xbf"  # of UTF-8


class Piece(NamedTuple):
    """Rows of a file that follow each other.

    Attributes:
        start, end: the numbers of the first row and of the row after the last; for formats of lines, their bytes.
        rows: the number of rows.
    """

    start: int
    end: int
    rows: int


# the row limit of the next shard, from the number of rows that are left
ShardSize = Callable[[int], int]
T = TypeVar("T")


def cut(pieces: Iterable[tuple[T, T, int]], shard_size: ShardSize, left: int) -> Iterator[tuple[T, T, int]]:
    """Join pieces that follow each other to larger pieces.

    Args:
        pieces: each with its start, its end and its rows, in order.
        shard_size: the row limit of a larger piece; a piece that has more rows stays as it is.
        left: the rows of all pieces, and of the files after them.
    """
    group: list[tuple[T, T, int]] = []
    rows = 0
    for piece in pieces:
        _, _, piece_rows = piece
        if group and rows + piece_rows > shard_size(left):
            yield group[0][0], group[-1][1], rows
            left -= rows
            group, rows = [], 0
        group.append(piece)
        rows += piece_rows
    if group:
        yield group[0][0], group[-1][1], rows


class Scan(NamedTuple):
    """The rows of a file.

    Attributes:
        schema: the columns of the rows.
        pieces: all rows, in pieces of `STEP` rows at most.
        kinds: the kinds of values that decide the columns, where rows may differ in them; else None.
    """

    schema: pa.Schema
    pieces: list[Piece]
    kinds: Any = None

    @property
    def rows(self) -> int:
        """The number of rows."""
        return sum(piece.rows for piece in self.pieces)


class PieceBuilder:
    """Collects pieces while the rows of a file are counted.

    Args:
        start: where the first row starts.
    """

    def __init__(self, start: int) -> None:
        self.pieces: list[Piece] = []
        self.rows = 0
        self._start, self._end, self._counted = start, start, 0

    def add_row(self, end: int) -> None:
        """Count a row that ends here."""
        self.rows += 1
        self._counted += 1
        self._end = end
        if self._counted == STEP:
            self.close()

    def close(self) -> list[Piece]:
        """End the last piece; returns all pieces."""
        if self._counted:
            self.pieces.append(Piece(self._start, self._end, self._counted))
            self._start, self._counted = self._end, 0
        return self.pieces
