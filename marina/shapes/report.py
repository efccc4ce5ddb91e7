"""The effect of shapes on texts: padding waste and time, with the plans that a worker would make."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from handlers.worker.rows.plan import Planner
from handlers.worker.values import Shape


class Effect(NamedTuple):
    """The cost of computing texts in batches of one size.

    Both kinds of padding waste are fractions of all computed tokens: padding after a text in its row, and rows
    without a text.
    """

    rows: int  # in a batch
    milliseconds: float  # per text
    length_waste: float
    empty_waste: float

    @property
    def waste(self) -> float:
        return self.length_waste + self.empty_waste


def effect(
    lengths: Sequence[int], shapes: Sequence[Shape], milliseconds: Callable[[Shape], float], rows: int
) -> Effect:
    """Plan texts, in the given order, in batches of `rows`.

    Args:
        lengths: the number of tokens of each text, none longer than the longest shape.
        shapes: the compiled shapes.
        milliseconds: the time of one call of a shape.
        rows: the number of rows in a batch.
    """
    planner = Planner({shape: milliseconds(shape) for shape in shapes})
    total_time, computed_tokens, row_tokens = 0.0, 0, 0
    for start in range(0, len(lengths), rows):
        for call in planner.plan(lengths[start : start + rows]):
            total_time += milliseconds(call.shape)
            computed_tokens += call.shape.tokens
            row_tokens += call.used_rows * call.shape.sequence_length
    return Effect(
        rows,
        total_time / len(lengths),
        (row_tokens - sum(lengths)) / computed_tokens,
        (computed_tokens - row_tokens) / computed_tokens,
    )
