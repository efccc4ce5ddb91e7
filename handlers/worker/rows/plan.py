"""Chooses the calls for the rows of a batch."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from handlers.worker.values import Call, Shape


def longest(shapes: Iterable[Shape]) -> int:
    """The maximum number of tokens that any of the shapes holds."""
    return max(shape.sequence_length for shape in shapes)


class Planner:
    """Chooses the calls that compute the rows of a batch in the least total time.

    Some optimal plan has this form: with the rows sorted by length, every call computes adjacent rows,
    and the call of the longest row takes as many rows as fit, because leaving a row out of it never makes
    the other calls cheaper. So the least time for the i shortest rows is a minimum over the shapes that hold
    the i-th row: the shape's time plus the least time for the i - batch_size shortest rows. This is a
    dynamic programme over i.

    Args:
        times: the time of one call of every compiled shape, in any unit.
    """

    def __init__(self, times: Mapping[Shape, float]) -> None:
        self._times = dict(times)
        # for every number of tokens, the shapes worth considering: each has a larger batch size, and takes
        # longer, than the one before
        self._worthy: list[list[tuple[int, float, Shape]]] = []
        for tokens in range(longest(times) + 1):
            holding = sorted(
                ((time, -shape.batch_size, shape) for shape, time in times.items() if shape.sequence_length >= tokens)
            )
            worthy: list[tuple[int, float, Shape]] = []
            for time, _, shape in holding:
                if not worthy or shape.batch_size > worthy[-1][0]:
                    worthy.append((shape.batch_size, time, shape))
            self._worthy.append(worthy)

    def plan(self, lengths: Sequence[int]) -> list[Call]:
        """The calls in ascending order of time per row, which minimises the mean waiting time of rows.

        Args:
            lengths: the number of tokens in each row.

        Raises:
            ValueError: a row is longer than every shape.
        """
        if not lengths:
            return []
        order = sorted(range(len(lengths)), key=lengths.__getitem__)
        if lengths[order[-1]] >= len(self._worthy):
            limit = len(self._worthy) - 1
            raise ValueError(f"a row of {lengths[order[-1]]} tokens is longer than every shape: {limit}")
        least = [0.0]
        chosen: list[Shape] = []
        for last, row in enumerate(order):
            best = float("inf")
            for size, time, shape in self._worthy[lengths[row]]:
                total = time + (least[last + 1 - size] if last >= size else 0.0)
                if total < best:
                    best, best_shape = total, shape
            least.append(best)
            chosen.append(best_shape)
        calls = []
        end = len(order)
        while end > 0:
            shape = chosen[end - 1]
            start = max(0, end - shape.batch_size)
            calls.append(Call(shape, tuple(order[start:end])))
            end = start
        return sorted(calls, key=lambda call: self._times[call.shape] / len(call.rows))
