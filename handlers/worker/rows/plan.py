"""Chooses the calls for the rows of a batch."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from handlers.worker.rows.packing import Packer, packed_calls
from handlers.worker.values import Call, Shape


def longest(shapes: Iterable[Shape]) -> int:
    """The maximum number of tokens that any of the shapes holds."""
    return max(shape.sequence_length for shape in shapes)


class Planner:
    """Chooses the calls that compute the rows of a batch in the least total time.

    Without packed shapes, plans are exact. Some optimal plan has this form: with the rows sorted by length, every call
    computes adjacent rows, and the call of the longest row takes as many rows as fit, because leaving a row out of it
    never makes the other calls cheaper. So the least time for the i shortest rows is a minimum over the shapes that hold
    the i-th row: the shape's time plus the least time for the i - batch_size shortest rows. This is a
    dynamic programme over i.

    With packed shapes of one length, the longest rows that they hold are packed, down to some row, and the shorter ones
    are computed as above; the best row to change at is found by trying all of them. Rows are packed by best-fit
    decreasing, so the packed part may take up to 11/9 of the fewest lines that are possible, and 4 more. Every sequence length of
    packed shapes is tried.

    Args:
        times: the time of one call of every compiled shape, in any unit.
    """

    def __init__(self, times: Mapping[Shape, float]) -> None:
        self._times = dict(times)
        self._longest = longest(times)
        # for every number of tokens, the shapes worth considering: each has a larger batch size, and takes
        # longer, than the one before
        self._worthy: list[list[tuple[int, float, Shape]]] = []
        for tokens in range(self._longest + 1):
            holding = sorted(
                (time, -shape.batch_size, shape)
                for shape, time in times.items()
                if not shape.packed and shape.sequence_length >= tokens
            )
            worthy: list[tuple[int, float, Shape]] = []
            for time, _, shape in holding:
                if not worthy or shape.batch_size > worthy[-1][0]:
                    worthy.append((shape.batch_size, time, shape))
            self._worthy.append(worthy)
        lengths = sorted({shape.sequence_length for shape in times if shape.packed})
        self._packers = [
            Packer({shape: time for shape, time in times.items() if shape.packed and shape.sequence_length == length})
            for length in lengths
        ]

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
        if lengths[order[-1]] > self._longest:
            raise ValueError(f"a row of {lengths[order[-1]]} tokens is longer than every shape: {self._longest}")
        least, chosen = self._programme([lengths[row] for row in order])
        best, calls = least[-1], None
        for packer in self._packers:
            found = self._packed(packer, order, lengths, least, chosen, best)
            if found:
                best, calls = found
        if calls is None:
            calls = _read_back(order, chosen)
        return sorted(calls, key=lambda call: self._times[call.shape] / len(call.rows))

    def _programme(self, ordered: Sequence[int]) -> tuple[list[float], list[Shape | None]]:
        """For the i shortest rows, the least time in shapes that are not packed, and the shape of the last call."""
        least = [0.0]
        chosen: list[Shape | None] = []
        for last, tokens in enumerate(ordered):
            best, best_shape = float("inf"), None
            for size, time, shape in self._worthy[tokens]:
                total = time + (least[last + 1 - size] if last >= size else 0.0)
                if total < best:
                    best, best_shape = total, shape
            least.append(best)
            chosen.append(best_shape)
        return least, chosen

    def _packed(
        self,
        packer: Packer,
        order: Sequence[int],
        lengths: Sequence[int],
        least: Sequence[float],
        chosen: Sequence[Shape | None],
        limit: float,
    ) -> tuple[float, list[Call]] | None:
        """The best plan that packs rows into the lines of one length, if it takes less than a limit."""
        short = [row for row in order if lengths[row] <= packer.length]
        long = order[len(short) :]  # which only longer shapes hold
        beyond, chosen_beyond = self._programme([lengths[row] for row in long])
        descending = short[::-1]
        places, used = packer.pack([lengths[row] for row in descending])
        best, packed = limit, 0
        for count in range(1, len(short) + 1):
            total = least[len(short) - count] + packer.time(used[count - 1]) + beyond[-1]
            if total < best:
                best, packed = total, count
        if not packed:
            return None
        calls = _read_back(short[: len(short) - packed], chosen) + _read_back(long, chosen_beyond)
        return best, calls + packed_calls(packer, descending[:packed], places[:packed])


def _read_back(order: Sequence[int], chosen: Sequence[Shape | None]) -> list[Call]:
    """The calls of the first rows of an order."""
    calls = []
    end = len(order)
    while end > 0:
        shape = chosen[end - 1]
        assert shape  # since the time of these rows is finite
        start = max(0, end - shape.batch_size)
        calls.append(Call(shape, tuple(order[start:end])))
        end = start
    return calls
