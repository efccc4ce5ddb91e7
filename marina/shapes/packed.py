"""Sets of packed shapes, for texts of known lengths.

Short packed shapes compute a text that comes alone as fast as ordinary graphs do, and a model that is compiled in one
form only is quantized and stored once.

The cost of a set comes from the plans of workers, so there is no dynamic programme over sets. A set starts with one
shape that holds the longest texts, and grows by the shape that saves most; every start is tried. That is a heuristic:
a better set may exist. A shape saves little more in a larger set than in a smaller set, so only shapes that saved
enough before are costed again (Minoux's accelerated greedy algorithm, 1978).
"""

from __future__ import annotations

import heapq
import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence

import numpy as np

from handlers.worker.rows.plan import Planner
from handlers.worker.values import Shape
from marina.shapes.choice import candidates
from marina.spec.sections import MIN_PACKED_LENGTH

BATCH_SIZES = (1, 2, 4, 8, 16)  # of packed shapes
MIN_LENGTH = 32  # of packed shapes
MAX_SHAPES = 8  # of a set; more save next to nothing
MIN_ROWS = 128  # of each size of batches, to judge a set on
BATCH_DIVISORS = (1, 4, 16)  # batches are full, a quarter full, and nearly empty
MAX_SINGLE_LENGTH = 64  # tokens, up to which texts that come alone have shapes of one row
MIN_SAVING = 0.002


def sets_with_packed(
    lengths: Sequence[int],
    longest: int,
    rows: int,
    milliseconds: Callable[[Shape], float],
    max_shapes: int,
    saving: float = MIN_SAVING,
) -> list[tuple[Shape, ...]]:
    """Good sets of every number of shapes up to `max_shapes`, each with packed shapes.

    Args:
        lengths: the texts' numbers of tokens, at most `longest` each.
        longest: the number of tokens that the longest shape must hold.
        rows: the number of rows in a full batch.
        milliseconds: the time of one call of a shape.
        max_shapes: the maximum number of shapes; sets have at most 8.
        saving: the fraction of the best possible time that each further shape must save.
    """
    levels = candidates(longest)
    long_levels = [level for level in levels if level >= min(MIN_LENGTH, longest)]
    line_lengths = {longest, *long_levels[:: max(1, len(long_levels) // 4)]}
    packed = [
        Shape(size, length, packed=True)
        for length in sorted(line_lengths)
        for size in BATCH_SIZES
        if size <= max(1, rows)
    ]
    single_row = [Shape(1, level, packed=True) for level in levels if MIN_PACKED_LENGTH <= level <= MAX_SINGLE_LENGTH]
    costing = Costing(lengths, rows, milliseconds, [*packed, *single_row])
    best_by_count: dict[int, tuple[float, tuple[Shape, ...]]] = {}
    for start in packed:
        if start.sequence_length < longest:
            continue
        shapes: tuple[Shape, ...] = (start,)
        min_cost = costing.cost(shapes)
        _keep_cheaper(best_by_count, min_cost, shapes)
        changes = [(-math.inf, shape) for shape in sorted({*packed, *single_row} - {start})]
        while changes and len(shapes) < min(max_shapes, MAX_SHAPES):
            updated: set[Shape] = set()
            while (shape := changes[0][1]) not in updated:
                updated.add(shape)
                heapq.heapreplace(changes, (costing.cost((*shapes, shape)) - min_cost, shape))
            change, best_shape = heapq.heappop(changes)
            if change > -saving:
                break
            min_cost, shapes = min_cost + change, (*shapes, best_shape)
            _keep_cheaper(best_by_count, min_cost, shapes)
    return [tuple(sorted(shapes)) for _, (_, shapes) in sorted(best_by_count.items())]


def _keep_cheaper(
    best_by_count: dict[int, tuple[float, tuple[Shape, ...]]], cost: float, shapes: tuple[Shape, ...]
) -> None:
    if len(shapes) not in best_by_count or cost < best_by_count[len(shapes)][0]:
        best_by_count[len(shapes)] = cost, shapes


class Costing:
    """The cost of sets of shapes: the mean of the times of texts that come alone and of texts in batches.

    Both are relative to the best time that the pool of shapes allows: alone each text in its quickest shape, in batches
    each token in the shape with the least time for a token. Batches of all sizes count the same, as servers under less
    than full load have smaller batches.

    Args:
        lengths: the texts' numbers of tokens.
        rows: of a full batch.
        milliseconds: the time of one call of a shape.
        pool: the shapes that the best possible times come from.
    """

    def __init__(
        self, lengths: Sequence[int], rows: int, milliseconds: Callable[[Shape], float], pool: Iterable[Shape]
    ) -> None:
        self._times = milliseconds
        self._tokens, self._counts = np.unique(lengths, return_counts=True)
        count = rows * max(1, MIN_ROWS // rows)
        sample = (list(lengths) * -(-count // len(lengths)))[:count]
        sizes = {max(1, rows // divisor) for divisor in BATCH_DIVISORS}
        batches = [sample[start : start + size] for size in sizes for start in range(0, count, size)]
        # plans do not depend on the order of rows, and short texts are often equally long
        self._batches = Counter(tuple(sorted(batch)) for batch in batches)
        self._best_alone = self._time_alone(pool)
        self._best_full = sum(map(sum, batches)) * min(milliseconds(shape) / shape.tokens for shape in pool)
        self._costs: dict[frozenset[Shape], float] = {}

    def cost(self, shapes: Iterable[Shape]) -> float:
        """The cost of a set, at least about 1."""
        key = frozenset(shapes)
        if key not in self._costs:
            planner = Planner({shape: self._times(shape) for shape in key})
            full_time = sum(
                repeats * sum(self._times(call.shape) for call in planner.plan(batch))
                for batch, repeats in self._batches.items()
            )
            self._costs[key] = (self._time_alone(key) / self._best_alone + full_time / self._best_full) / 2
        return self._costs[key]

    def _time_alone(self, shapes: Iterable[Shape]) -> float:
        times = [np.where(self._tokens <= shape.sequence_length, self._times(shape), np.inf) for shape in shapes]
        return float((np.min(times, axis=0) * self._counts).sum())
