"""Where the rows of a file are."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple, TypeVar

import pyarrow as pa

STEP = 100  # rows of a piece at most


class Piece(NamedTuple):
    """Rows of a file that follow each other.

    Attributes:
        start, end: the first row and the one after the last; for formats of lines, their bytes.
        rows: how many rows.
    """

    start: int
    end: int
    rows: int


# the rows of the next shard at most, from the number of rows that are left
Size = Callable[[int], int]
T = TypeVar("T")


def cut(pieces: Iterable[tuple[T, T, int]], size: Size, left: int) -> Iterator[tuple[T, T, int]]:
    """Join pieces to larger ones.

    Args:
        pieces: each with its start, its end and its rows, in order.
        size: the rows of a larger one at most; a piece that has more stays as it is.
        left: the rows of all of them, and of what comes after them.
    """
    own: list[tuple[T, T, int]] = []
    rows = 0
    for piece in pieces:
        if own and rows + piece[2] > size(left):
            yield own[0][0], own[-1][1], rows
            left -= rows
            own, rows = [], 0
        own.append(piece)
        rows += piece[2]
    if own:
        yield own[0][0], own[-1][1], rows


class Scan(NamedTuple):
    """The rows of a file.

    Attributes:
        schema: their columns.
        pieces: all of them, in pieces of `STEP` rows at most.
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
