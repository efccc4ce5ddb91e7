"""Shapes, and the calls chosen for the rows of a batch."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import NamedTuple


class Shape(NamedTuple):
    """The static shape that one compiled graph accepts, in rows and tokens."""

    batch_size: int
    sequence_length: int

    def __str__(self) -> str:
        return f"{self.batch_size}x{self.sequence_length}"

    @classmethod
    def parse(cls, text: str) -> Shape:
        """Read "8x128" as batch_size 8 and sequence_length 128; ValueError otherwise."""
        batch_size, separator, sequence_length = text.strip().partition("x")
        if not (separator and batch_size.isdecimal() and sequence_length.isdecimal()):
            raise ValueError(f"{text!r} is not a shape; write BATCHxLENGTH, for example 8x128")
        if not (int(batch_size) and int(sequence_length)):
            raise ValueError(f"{text!r} is not a shape; both numbers must be at least 1")
        return cls(int(batch_size), int(sequence_length))


class Call(NamedTuple):
    """One run of one graph: the graph's shape and the indices of the rows it computes."""

    shape: Shape
    rows: tuple[int, ...]


def longest(shapes: Iterable[Shape]) -> int:
    """The most tokens that any of the shapes holds."""
    return max(shape.sequence_length for shape in shapes)


def plan(lengths: Sequence[int], shapes: Iterable[Shape]) -> list[Call]:
    """Choose calls so that every row is computed exactly once.

    Each row goes to the smallest compiled sequence length that holds it. The rows of one length
    fill its batch sizes from the largest down; a remainder takes the smallest batch size that
    holds it where that is at least half filled, else the largest that it fills.

    Args:
        lengths: tokens in each row.
        shapes: the compiled shapes, in any order.

    Raises:
        ValueError: a row is longer than every shape.
    """
    batch_sizes: dict[int, list[int]] = defaultdict(list)
    for shape in sorted(shapes):
        batch_sizes[shape.sequence_length].append(shape.batch_size)
    held_by: dict[int, list[int]] = {length: [] for length in sorted(batch_sizes)}
    for row, tokens in enumerate(lengths):
        home = next((length for length in held_by if tokens <= length), None)
        if home is None:
            raise ValueError(f"a row of {tokens} tokens is longer than every shape: {max(held_by)}")
        held_by[home].append(row)

    calls = []
    for length, rows in held_by.items():
        start = 0
        while start < len(rows):
            size = _batch_size(len(rows) - start, batch_sizes[length])
            calls.append(Call(Shape(size, length), tuple(rows[start : start + size])))
            start += size
    return calls


def _batch_size(rows: int, sizes: Sequence[int]) -> int:
    """The batch size, out of the ascending `sizes`, of the next call for `rows` rows."""
    filled = [size for size in sizes if size <= rows]
    holding = [size for size in sizes if size >= rows]
    if holding and (not filled or holding[0] <= 2 * rows):
        return holding[0]
    return filled[-1]
