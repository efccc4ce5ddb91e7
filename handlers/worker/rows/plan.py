"""Chooses the calls for the rows of a batch."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from math import inf
from typing import NamedTuple

from handlers.worker.rows.packing import Packer, fill_room, lines_of, packed_call, required_length
from handlers.worker.values import Call, Shape

MANY_ROWS = 100  # fewer leave too little room in long lines to plan again

UsefulShapes = list[list[tuple[int, float, Shape]]]  # by number of tokens: rows, time and shape


class _Part(NamedTuple):
    """A plan for the longest rows: their number, its time, and its calls."""

    rows: int
    time: float
    calls: list[Call]


def max_sequence_length(shapes: Iterable[Shape]) -> int:
    """The maximum number of tokens in a row of any of the shapes."""
    return max(shape.sequence_length for shape in shapes)


class Planner:
    """Chooses the calls that compute the rows of a batch in the minimum total time.

    Without packed shapes, plans are exact. Some optimal plan has this form: with the rows sorted by length, every call
    computes adjacent rows, and the call of the longest row takes as many rows as fit, because leaving a row out of it
    never makes the other calls cheaper. So the minimum time for the i shortest rows is a minimum over the shapes that
    hold the i-th row: the shape's time plus the minimum time for the i - batch_size shortest rows. This is a dynamic
    programme over i.

    With packed shapes, plans are good and not always the best. The longest rows that fit into lines of some length are
    packed, down to some row; shorter rows are computed as above, and rows that are too long for the lines are planned
    by themselves, in the same way. The best length and the best row are found by trying all. Rows are packed by
    best-fit decreasing, see `handlers.worker.rows.packing`. The calls for the lines are then chosen as for rows above,
    so a line that is not full may have a shorter shape: this step is exact. Long rows leave room in their lines. If
    there are many rows, shorter ones fill it, and the others are planned again.

    Args:
        times: the time of one call of every compiled shape, in any unit.
    """

    def __init__(self, times: Mapping[Shape, float]) -> None:
        self._times = dict(times)
        self._max_length = max_sequence_length(times)
        self._useful_shapes = _useful_shapes(
            {shape: time for shape, time in times.items() if not shape.packed}, self._max_length
        )
        self._useful_line_shapes = _useful_shapes(
            {shape: time for shape, time in times.items() if shape.packed}, self._max_length
        )
        lengths = sorted({shape.sequence_length for shape in times if shape.packed})
        self._packers = [
            Packer({shape: time for shape, time in times.items() if shape.packed and shape.sequence_length == length})
            for length in lengths
        ]
        self._single_row_plans: dict[int, list[Call]] = {}  # the plans of single rows, by their tokens

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
        if lengths[order[-1]] > self._max_length:
            raise ValueError(f"a row of {lengths[order[-1]]} tokens is longer than every shape: {self._max_length}")
        if len(lengths) > 1:
            calls = self._best_calls(order, lengths)
            if len(lengths) >= MANY_ROWS:
                calls = self._with_room_filled(calls, lengths)
            return sorted(calls, key=lambda call: self._times[call.shape] / len(call.rows))
        if lengths[0] not in self._single_row_plans:
            self._single_row_plans[lengths[0]] = self._best_calls(order, lengths)
        return list(self._single_row_plans[lengths[0]])

    def _with_room_filled(self, calls: list[Call], lengths: Sequence[int]) -> list[Call]:
        """Calls in which shorter rows fill the lines, the longest lines first, with new plans for the others."""
        filled_calls: list[Call] = []
        for packer in reversed(self._packers):
            long_shapes = {shape for shape in self._times if shape.packed and shape.sequence_length == packer.length}
            long_calls = [call for call in calls if call.shape in long_shapes]
            other_calls = [call for call in calls if call.shape not in long_shapes]
            other_rows = sorted((row for call in other_calls for row in call.rows), key=lengths.__getitem__)
            more_calls, rows_left = fill_room(long_calls, other_rows[::-1], lengths)
            new_calls = self._best_calls(rows_left[::-1], lengths) if len(rows_left) < len(other_rows) else other_calls
            is_faster = self._time(new_calls) < self._time(other_calls)
            filled_calls += more_calls if is_faster else long_calls
            calls = new_calls if is_faster else other_calls
        return filled_calls + calls

    def _time(self, calls: Iterable[Call]) -> float:
        return sum(self._times[call.shape] for call in calls)

    def _best_calls(self, order: Sequence[int], lengths: Sequence[int]) -> list[Call]:
        """The best calls for rows, whose ascending order is given."""
        sorted_lengths = [lengths[row] for row in order]
        # parts[k]: the best plan for the rows that are too long for the first k packers
        starts = [0, *(bisect_right(sorted_lengths, packer.length) for packer in self._packers)]
        parts: list[_Part] = []
        for number in range(len(self._packers), -1, -1):
            parts.insert(0, self._best_part(order[starts[number] :], lengths, self._packers[number:], parts))
        return parts[0].calls

    def _best_part(
        self, order: Sequence[int], lengths: Sequence[int], packers: Sequence[Packer], longer_parts: Sequence[_Part]
    ) -> _Part:
        """The best plan for rows in ascending order; `longer_parts[k]` has the rows too long for `packers[k]`."""
        min_times, last_shapes = _solve([lengths[row] for row in order], self._useful_shapes)
        best = _Part(len(order), min_times[-1], [])
        if min_times[-1] < inf:
            best.calls.extend(_read_back(order, last_shapes))
        for packer, longer_part in zip(packers, longer_parts, strict=False):
            fitting_rows = order[: len(order) - longer_part.rows]
            places, used_lines = packer.pack([lengths[row] for row in reversed(fitting_rows)])
            # estimates[n - 1]: the time if the longest n rows are packed, all into lines of this length
            estimates = [
                min_times[len(fitting_rows) - count] + packer.time(used_lines[count - 1])
                for count in range(1, len(fitting_rows) + 1)
            ]
            if not estimates:
                continue
            packed_count = min(range(len(fitting_rows)), key=estimates.__getitem__) + 1
            lines = lines_of(fitting_rows[::-1][:packed_count], places[:packed_count])
            line_lengths = [required_length(line, lengths) for line in lines]
            line_order = sorted(range(len(lines)), key=line_lengths.__getitem__)
            line_min_times, line_last_shapes = _solve(
                [line_lengths[line] for line in line_order], self._useful_line_shapes
            )
            total = min_times[len(fitting_rows) - packed_count] + line_min_times[-1] + longer_part.time
            if total < best.time:
                calls = _read_back(fitting_rows[: len(fitting_rows) - packed_count], last_shapes)
                for call in _read_back(line_order, line_last_shapes):
                    calls.append(packed_call(call.shape, [lines[line] for line in call.rows]))
                best = _Part(len(order), total, calls + longer_part.calls)
        return best


def _useful_shapes(times: Mapping[Shape, float], max_tokens: int) -> UsefulShapes:
    """For every number of tokens, the shapes worth considering, each larger and slower than the previous shape."""
    useful_shapes: UsefulShapes = []
    for tokens in range(max_tokens + 1):
        useful: list[tuple[int, float, Shape]] = []
        holding_shapes = [
            (time, -shape.batch_size, shape) for shape, time in times.items() if shape.sequence_length >= tokens
        ]
        for time, _, shape in sorted(holding_shapes):
            if not useful or shape.batch_size > useful[-1][0]:
                useful.append((shape.batch_size, time, shape))
        useful_shapes.append(useful)
    return useful_shapes


def _solve(lengths: Sequence[int], useful_shapes: UsefulShapes) -> tuple[list[float], list[Shape | None]]:
    """For the i shortest rows, whose lengths are ascending: the minimum time, and the shape of the last call."""
    min_times = [0.0]
    last_shapes: list[Shape | None] = []
    for last, tokens in enumerate(lengths):
        best, best_shape = inf, None
        for size, time, shape in useful_shapes[tokens]:
            total = time + (min_times[last + 1 - size] if last >= size else 0.0)
            if total < best:
                best, best_shape = total, shape
        min_times.append(best)
        last_shapes.append(best_shape)
    return min_times, last_shapes


def _read_back(order: Sequence[int], last_shapes: Sequence[Shape | None]) -> list[Call]:
    """The calls for rows in ascending order, from the shape of the last call for each number of rows."""
    calls = []
    end = len(order)
    while end > 0:
        shape = last_shapes[end - 1]
        assert shape  # since the time of these rows is finite
        start = max(0, end - shape.batch_size)
        calls.append(Call(shape, tuple(order[start:end])))
        end = start
    return calls
