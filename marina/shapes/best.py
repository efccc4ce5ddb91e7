"""The best shapes of all: without packed ones, or with them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from handlers.worker.values import Shape
from marina.shapes.choice import ShapeChoice, worth
from marina.shapes.costs import CostModel
from marina.shapes.packed import LEAST_SAVING, Costing, sets_with_packed


class Best(NamedTuple):
    """The best shapes, and the best of each kind; packed is None if no times of packed shapes are known."""

    shapes: tuple[Shape, ...]
    plain: tuple[Shape, ...]
    packed: tuple[Shape, ...] | None


def best_shapes(
    choices: Sequence[ShapeChoice],
    lengths: Sequence[int],
    longest: int,
    rows: int,
    model: CostModel,
    most: int,
    price: float | None,
) -> Best:
    """Choose between shapes without packed ones, and sets with them.

    Args:
        choices: those without packed shapes.
        lengths: the texts' numbers of tokens, at most `longest` each.
        longest: the number of tokens that the longest shape must hold.
        rows: the number of rows in a full batch.
        model: the times of shapes.
        most: the maximum number of shapes.
        price: the fraction of the best possible time that each shape must save; None for as many shapes as help.
    """
    plain = choices[-1].shapes if price is None else worth(choices, price).shapes
    if not model.packed:
        return Best(plain, plain, None)
    sets = sets_with_packed(lengths, longest, rows, model.milliseconds, most, price or LEAST_SAVING)
    costing = Costing(lengths, rows, model.milliseconds, {shape for one in (plain, *sets) for shape in one})

    def cost(shapes: tuple[Shape, ...]) -> float:
        return costing.of(shapes) + (price or 0.0) * len(shapes)

    packed = min(sets, key=cost)
    return Best(min((plain, packed), key=cost), plain, packed)
