"""The best shapes to compile for texts of known lengths, by exact dynamic programming.

The model: rows arrive one at a time, or in full batches of `rows` rows. Each row has a length drawn from
the known lengths, and goes to the smallest compiled sequence length that holds it. A batch's rows at one sequence
length are computed with the batch sizes compiled for it, in the cheapest combination. Both kinds of traffic
have the same weight; each is measured by its time relative to the best that any number of graphs could reach.
(Plans also put short rows into empty places of longer graphs, so serving does a little better.)

For jobs in bulk, there are so many rows that batches of every length are full.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from handlers.worker.values import Shape

Array = npt.NDArray[np.float64]
BATCH_SIZES = (1, 2, 4, 8, 16, 32)
SIZES_AT_A_LENGTH = 3
TOLERANCE = 1.03  # in bulk: the ratio up to which times count as equal
# step between candidate lengths, below each limit
STEPS = ((64, 4), (128, 8), (256, 16), (512, 32))
COARSEST = 64


class ShapeChoice(NamedTuple):
    """The best shapes for one number of graphs.

    cost is the mean of the times of both kinds of traffic, relative to the best for any number of graphs.
    """

    shapes: tuple[Shape, ...]
    cost: float


def choose_shapes(
    lengths: Sequence[int], longest: int, rows: int, milliseconds: Callable[[Shape], float], max_graphs: int
) -> list[ShapeChoice]:
    """The best shapes for every number of graphs from 1 to `max_graphs`.

    Args:
        lengths: the texts' numbers of tokens; longer texts count as `longest`.
        longest: the number of tokens that the longest graph must hold, whether a text needs them or not.
        rows: the number of rows in a full batch.
        milliseconds: the time of one call of a shape.
        max_graphs: the maximum number of graphs.

    Returns:
        Choices in ascending order of their number of graphs, each better than the choice before it.
    """
    levels = candidates(longest)
    sizes = [size for size in BATCH_SIZES if size <= rows] or [1]
    sets = [size_set for count in range(1, SIZES_AT_A_LENGTH + 1) for size_set in itertools.combinations(sizes, count)]
    # fraction of texts up to each level
    up_to = np.searchsorted(np.sort(np.minimum(lengths, longest)), levels, side="right") / len(lengths)
    alone, full = _interval_costs(levels, sets, np.concatenate([[0.0], up_to]), rows, milliseconds)
    cost = (alone / _unlimited_cost(alone) + full / _unlimited_cost(full)) / 2
    return _best_choices(levels, sets, cost, max_graphs)


def choose_for_bulk(
    lengths: Sequence[int], longest: int, milliseconds: Callable[[Shape], float], max_graphs: int
) -> list[ShapeChoice]:
    """The best shapes for every number of graphs, if there are so many rows that every batch is full.

    Args and returns: as for `choose_shapes`; each sequence length has one graph, with the least batch size that is
    about as fast as any: small batches are filled when few rows are left.
    """
    levels = candidates(longest)
    sets: list[tuple[int, ...]] = [(size,) for size in BATCH_SIZES]
    up_to = np.searchsorted(np.sort(np.minimum(lengths, longest)), levels, side="right") / len(lengths)
    per_row = np.array([[milliseconds(Shape(size, level)) / size for size in BATCH_SIZES] for level in levels])
    best_size_indices = (per_row <= per_row.min(axis=1, keepdims=True) * TOLERANCE).argmax(axis=1)
    shares = up_to[None, :] - np.concatenate([[0.0], up_to])[:, None]  # of rows between two levels
    cost = np.full((len(levels) + 1, len(levels) + 1, len(sets)), np.inf)
    for high, index in enumerate(best_size_indices, start=1):
        cost[:high, high, index] = shares[:high, high - 1] * per_row[high - 1, index]
    return _best_choices(levels, sets, cost / _unlimited_cost(cost), max_graphs)


def candidates(longest: int) -> list[int]:
    """Sequence lengths worth compiling, up to `longest`, with smaller steps for short texts."""
    lengths, length = [], 0
    while length < longest:
        length += next((step for limit, step in STEPS if length < limit), COARSEST)
        lengths.append(min(length, longest))
    return lengths


def _interval_costs(
    levels: list[int], sets: list[tuple[int, ...]], up_to: Array, rows: int, milliseconds: Callable[[Shape], float]
) -> tuple[Array, Array]:
    """For [lower level, level, set of batch sizes], the expected milliseconds of the rows between the two levels.

    The first array is for a single row. The second is per row of a full batch, in which the number of rows
    between the levels is binomially distributed.
    """
    count = len(levels)
    alone = np.full((count + 1, count + 1, len(sets)), np.inf)
    full = np.full_like(alone, np.inf)
    for high in range(1, count + 1):
        fill_times = np.array(
            [_fill({size: milliseconds(Shape(size, levels[high - 1])) for size in size_set}, rows) for size_set in sets]
        )
        for low in range(high):
            share = up_to[high] - up_to[low]
            alone[low, high] = share * fill_times[:, 1]
            full[low, high] = fill_times @ _binomial(rows, share) / rows
    return alone, full


def _fill(times: dict[int, float], rows: int) -> list[float]:
    """The least time for 0, 1, ... `rows` rows of one length, given the times of some batch sizes."""
    min_times = [0.0]
    for number in range(1, rows + 1):
        min_times.append(min(time + min_times[max(0, number - size)] for size, time in times.items()))
    return min_times


def _binomial(rows: int, share: float) -> Array:
    """The probabilities of 0, 1, ... `rows` successes, each with probability `share`."""
    probabilities = np.array([1.0])
    for _ in range(rows):
        probabilities = np.convolve(probabilities, [1 - share, share])
    return probabilities


def _unlimited_cost(costs: Array) -> float:
    """The least cost without a limit on the number of graphs."""
    min_costs = [0.0]
    for high in range(1, costs.shape[1]):
        min_costs.append(min(min_costs[low] + costs[low, high].min() for low in range(high)))
    return min_costs[-1]


def _best_choices(levels: list[int], sets: list[tuple[int, ...]], cost: Array, max_graphs: int) -> list[ShapeChoice]:
    """The best choices of levels, with a set of batch sizes at each, by number of graphs.

    min_costs[k, j]: the least cost of all rows up to level j with at most k graphs, the longest at level j.
    """
    count = len(levels)
    min_costs = np.full((max_graphs + 1, count + 1), np.inf)
    min_costs[:, 0] = 0.0
    origin: dict[tuple[int, int], tuple[int, int]] = {}  # (k, j): the level below, the set at j
    graphs = np.array([len(size_set) for size_set in sets])
    for k in range(1, max_graphs + 1):
        affordable = np.flatnonzero(graphs <= k)
        for high in range(1, count + 1):
            below = min_costs[k - graphs[affordable]][:, :high].T  # (levels below, sets)
            totals = below + cost[:high, high][:, affordable]
            low, index = np.unravel_index(int(totals.argmin()), totals.shape)
            min_costs[k, high] = totals[low, index]
            origin[k, high] = int(low), int(affordable[index])
    choices: list[ShapeChoice] = []
    for k in range(1, max_graphs + 1):
        if np.isfinite(min_costs[k, count]) and (not choices or min_costs[k, count] < choices[-1].cost - 1e-9):
            choices.append(ShapeChoice(_shapes(levels, sets, graphs, origin, k), float(min_costs[k, count])))
    return choices


def _shapes(
    levels: list[int],
    sets: list[tuple[int, ...]],
    graphs: npt.NDArray[np.int64],
    origin: dict[tuple[int, int], tuple[int, int]],
    max_graphs: int,
) -> tuple[Shape, ...]:
    """The shapes of the best choice with at most `max_graphs` graphs."""
    shapes = []
    k, high = max_graphs, len(levels)
    while high > 0:
        low, index = origin[k, high]
        shapes += [Shape(size, levels[high - 1]) for size in sets[index]]
        k, high = k - int(graphs[index]), low
    return tuple(sorted(shapes))


def best_at_price(choices: Sequence[ShapeChoice], price: float) -> ShapeChoice:
    """The choice with the least cost when every graph adds `price`."""
    return min(choices, key=lambda choice: choice.cost + price * len(choice.shapes))
