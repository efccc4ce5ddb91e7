"""Shapes for texts of unknown lengths: a ladder of sequence lengths with a bound on padding waste."""

from __future__ import annotations

import itertools
from typing import NamedTuple

from handlers.worker.values import Shape

SHORTEST = 16  # tokens of the first rung
STEP = 4  # rungs are multiples of this
BATCH_SIZES = (1, 8)  # of each rung, without packed shapes
DEFAULT_GRAPHS = {False: 12, True: 6}  # by whether there are packed shapes
PACKED_BATCH_SIZES = (1, 4)  # batch sizes of packed shapes


class Ladder(NamedTuple):
    """Shapes, and the maximum length padding of a text longer than the first rung, as a fraction of its row."""

    shapes: tuple[Shape, ...]
    waste: float


def ladder(longest: int, graphs: int, batch_sizes: tuple[int, ...]) -> Ladder:
    """Lengths that grow by a constant ratio, each with every batch size.

    A ratio r between rungs bounds the padding of a text between them by 1 - 1/r. No other choice of the same number
    of rungs has a better bound for every distribution of lengths.

    Args:
        longest: the last rung.
        graphs: the maximum number of graphs; at least one rung is made.
        batch_sizes: the batch sizes of each rung.
    """
    rungs = max(1, graphs // len(batch_sizes))
    lengths = {longest}
    if rungs > 1 and longest > SHORTEST:
        ratio = (longest / SHORTEST) ** (1 / (rungs - 1))
        lengths |= {min(longest, -(-round(SHORTEST * ratio**number) // STEP) * STEP) for number in range(rungs - 1)}
    ordered = sorted(lengths)
    # a text one token longer than a rung has the most padding on the next rung
    waste = max((1 - (low + 1) / high for low, high in itertools.pairwise(ordered)), default=1 - 1 / longest)
    return Ladder(tuple(sorted(Shape(size, length) for size in batch_sizes for length in ordered)), waste)


def default_ladder(longest: int, graphs: int | None, packed: bool) -> Ladder:
    """Shapes for a model whose texts are unknown.

    With packed shapes, texts that come alone have a ladder, and several share the lines of the longest shape. All are
    packed then, so that the model is compiled and stored in one form only.

    Args:
        longest: the last rung.
        graphs: the maximum number of graphs; None for the default.
        packed: whether rows of the model can be packed.
    """
    max_graphs = graphs or DEFAULT_GRAPHS[packed]
    if not packed or max_graphs < len(PACKED_BATCH_SIZES):
        return ladder(longest, max_graphs, BATCH_SIZES if max_graphs > 1 else (1,))
    single = ladder(longest, max_graphs - len(PACKED_BATCH_SIZES) + 1, (1,))
    rungs = [shape._replace(packed=True) for shape in single.shapes if shape.sequence_length < longest]
    return Ladder(
        tuple(sorted([*rungs, *(Shape(size, longest, packed=True) for size in PACKED_BATCH_SIZES)])), single.waste
    )
