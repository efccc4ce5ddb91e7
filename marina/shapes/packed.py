"""Sets of packed shapes, for texts of known lengths.

Short ones hold a text that comes alone as fast as ordinary graphs do, and a model that is compiled in one form only is
quantized and stored once.

What a set costs is told by the workers' own plans, so there is no dynamic programme over sets. A set starts with one
shape that holds the longest texts, and grows by the shape that saves most; every start is tried. That is a heuristic:
a better set may exist. A shape saves little more in a larger set than in a smaller one, so only those are costed again
that saved enough before (Minoux's accelerated greedy algorithm, 1978).
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
from marina.spec.sections import LEAST_PACKED

LINES = (1, 2, 4, 8, 16)  # batch sizes of packed shapes
LEAST_LENGTH = 32  # of packed shapes
MOST = 8  # shapes of a set; more save next to nothing
PLANNED = 128  # rows of each size of batches, at least, that a set is judged on
SHARES = (1, 4, 16)  # batches are full, a quarter full, and nearly empty
SHORT = 64  # tokens; texts that come alone have shapes of their own up to here
LEAST_SAVING = 0.002


def sets_with_packed(
    lengths: Sequence[int],
    longest: int,
    rows: int,
    milliseconds: Callable[[Shape], float],
    most: int,
    saving: float = LEAST_SAVING,
) -> list[tuple[Shape, ...]]:
    """Good sets of every number of shapes up to `most`, each with packed ones.

    Args:
        lengths: the texts' numbers of tokens, at most `longest` each.
        longest: the number of tokens that the longest shape must hold.
        rows: the number of rows in a full batch.
        milliseconds: the time of one call of a shape.
        most: the maximum number of shapes; sets have at most 8.
        saving: the fraction of the best possible time that each further shape must save.
    """
    levels = candidates(longest)
    long = [level for level in levels if level >= min(LEAST_LENGTH, longest)]
    lines = {longest, *long[:: max(1, len(long) // 4)]}
    packed = [Shape(size, length, packed=True) for length in sorted(lines) for size in LINES if size <= max(1, rows)]
    single = [Shape(1, level, packed=True) for level in levels if LEAST_PACKED <= level <= SHORT]
    cost = Costing(lengths, rows, milliseconds, [*packed, *single])
    found: dict[int, tuple[float, tuple[Shape, ...]]] = {}
    for start in packed:
        if start.sequence_length < longest:
            continue
        chosen: tuple[Shape, ...] = (start,)
        least = cost.of(chosen)
        _keep(found, least, chosen)
        changes = [(-math.inf, one) for one in sorted({*packed, *single} - {start})]
        while changes and len(chosen) < min(most, MOST):
            costed: set[Shape] = set()
            while (one := changes[0][1]) not in costed:
                costed.add(one)
                heapq.heapreplace(changes, (cost.of((*chosen, one)) - least, one))
            change, best = heapq.heappop(changes)
            if change > -saving:
                break
            least, chosen = least + change, (*chosen, best)
            _keep(found, least, chosen)
    return [tuple(sorted(shapes)) for _, (_, shapes) in sorted(found.items())]


def _keep(found: dict[int, tuple[float, tuple[Shape, ...]]], cost: float, shapes: tuple[Shape, ...]) -> None:
    if len(shapes) not in found or cost < found[len(shapes)][0]:
        found[len(shapes)] = cost, shapes


class Costing:
    """The cost of sets of shapes: the mean of the times of texts that come alone and of texts in batches.

    Both are relative to the best that the pool of shapes allows: alone each text in its quickest shape, in batches each
    token in the shape with the least time for a token. Batches of all sizes count the same, as servers under less than
    full load have smaller ones.

    Args:
        lengths: the texts' numbers of tokens.
        rows: of a full batch.
        milliseconds: the time of one call of a shape.
        pool: shapes that the best is told by.
    """

    def __init__(
        self, lengths: Sequence[int], rows: int, milliseconds: Callable[[Shape], float], pool: Iterable[Shape]
    ) -> None:
        self._times = milliseconds
        self._tokens, self._counts = np.unique(lengths, return_counts=True)
        count = rows * max(1, PLANNED // rows)
        some = (list(lengths) * -(-count // len(lengths)))[:count]
        sizes = {max(1, rows // share) for share in SHARES}
        batches = [some[start : start + size] for size in sizes for start in range(0, count, size)]
        # plans do not depend on the order of rows, and short texts are often equally long
        self._batches = Counter(tuple(sorted(batch)) for batch in batches)
        self._alone = self._alone_of(pool)
        self._full = sum(map(sum, batches)) * min(milliseconds(shape) / shape.tokens for shape in pool)
        self._known: dict[frozenset[Shape], float] = {}

    def of(self, shapes: Iterable[Shape]) -> float:
        """The cost of a set, at least about 1."""
        key = frozenset(shapes)
        if key not in self._known:
            planner = Planner({shape: self._times(shape) for shape in key})
            full = sum(
                repeats * sum(self._times(call.shape) for call in planner.plan(batch))
                for batch, repeats in self._batches.items()
            )
            self._known[key] = (self._alone_of(key) / self._alone + full / self._full) / 2
        return self._known[key]

    def _alone_of(self, shapes: Iterable[Shape]) -> float:
        times = [np.where(self._tokens <= shape.sequence_length, self._times(shape), np.inf) for shape in shapes]
        return float((np.min(times, axis=0) * self._counts).sum())
