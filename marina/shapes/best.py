"""The best shapes of all, without or with packed shapes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from handlers.worker.values import Shape
from marina.shapes.choice import ShapeChoice, best_at_price
from marina.shapes.costs import CostModel
from marina.shapes.packed import MIN_SAVING, Costing, sets_with_packed


class BestShapes(NamedTuple):
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
    max_shapes: int,
    price: float | None,
) -> BestShapes:
    """Choose between sets without and with packed shapes.

    Args:
        choices: the choices without packed shapes.
        lengths: the texts' numbers of tokens, at most `longest` each.
        longest: the number of tokens that the longest shape must hold.
        rows: the number of rows in a full batch.
        model: the times of shapes.
        max_shapes: the maximum number of shapes.
        price: the fraction of the best possible time that each shape must save; None for as many shapes as help.
    """
    plain = choices[-1].shapes if price is None else best_at_price(choices, price).shapes
    if not model.packed:
        return BestShapes(plain, plain, None)
    sets = sets_with_packed(lengths, longest, rows, model.milliseconds, max_shapes, price or MIN_SAVING)
    costing = Costing(lengths, rows, model.milliseconds, {shape for shapes in (plain, *sets) for shape in shapes})

    def cost(shapes: tuple[Shape, ...]) -> float:
        return costing.cost(shapes) + (price or 0.0) * len(shapes)

    packed = min(sets, key=cost)
    return BestShapes(min((plain, packed), key=cost), plain, packed)
