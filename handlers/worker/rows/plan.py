"""Chooses the calls for the rows of a batch."""

from __future__ import annotations

import itertools
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from math import inf
from typing import NamedTuple

from handlers.worker.rows.packing import Packer, fill_room, lengths_of_lines, lines_of, packed_call
from handlers.worker.values import Call, Place, Shape

MANY_ROWS = 100  # fewer leave too little room in long lines to plan again
ROUNDING = 1e-9  # of sums of times

UsefulShapes = list[list[tuple[int, float, Shape]]]  # by number of tokens: rows, time and shape


class _SortedRows:
    """Rows in ascending order of their tokens.

    Args:
        order: the numbers of the rows.
        lengths: the tokens of each.
        packers: of the planner.

    Attributes:
        ends: the number of rows that fit into the lines of a packer, by their length.
        tokens: the sum of the tokens of the first n rows, by n.
    """

    def __init__(self, order: Sequence[int], lengths: list[int], packers: Iterable[Packer]) -> None:
        self.order, self.lengths = order, lengths
        self.ends = {packer.length: bisect_right(lengths, packer.length) for packer in packers}
        self.tokens = [0, *itertools.accumulate(lengths)]
        self._packed: dict[int, tuple[list[Place], list[int]]] = {}

    def packed(self, packer: Packer) -> tuple[list[Place], list[int]]:
        """`Packer.pack` for the rows that fit into its lines, the longest of them first."""
        if packer.length not in self._packed:
            self._packed[packer.length] = packer.pack(self.lengths[: self.ends[packer.length]][::-1])
        return self._packed[packer.length]


class _PackedLines(NamedTuple):
    """The packed rows of a part.

    Attributes:
        places: of its longest rows, in descending order.
        order: the lines, from the shortest to the longest.
        last_shapes: from `_solve`, of the lines in this order.
    """

    places: list[Place]
    order: list[int]
    last_shapes: list[Shape | None]


class _Part(NamedTuple):
    """A plan for the longest rows.

    Attributes:
        time: of all its calls.
        start: the number of its first row.
        last_shapes: from `_solve`, of its rows that are not packed, which are its shortest.
        lines: its rows that are packed.
        longer: the plan for its rows that are too long for these lines.
    """

    time: float
    start: int
    last_shapes: list[Shape | None]
    lines: _PackedLines | None = None
    longer: _Part | None = None

    def calls(self, rows: _SortedRows) -> list[Call]:
        """Its calls, without those of the longer part."""
        end = self.start + len(self.last_shapes)
        calls = _read_back(rows.order[self.start : end], self.last_shapes)
        if self.lines:
            places, order, last_shapes = self.lines
            lines = lines_of(rows.order[end : end + len(places)][::-1], places)
            calls += [
                packed_call(call.shape, [lines[line] for line in call.rows]) for call in _read_back(order, last_shapes)
            ]
        return calls


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
        self._packers = [
            Packer(length, times) for length in sorted({shape.sequence_length for shape in times if shape.packed})
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
            long_calls = [call for call in calls if call.shape in packer.shapes]
            other_calls = [call for call in calls if call.shape not in packer.shapes]
            if not long_calls:
                continue
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
        rows = _SortedRows(order, [lengths[row] for row in order], self._packers)
        # by number of the first row: the best plan for the rows from there on
        parts: dict[int, _Part] = {}
        for start in sorted({0, *rows.ends.values(), len(order)}, reverse=True):
            parts[start] = self._best_part(start, rows, parts)
        calls: list[Call] = []
        part: _Part | None = parts[0]
        while part:
            calls += part.calls(rows)
            part = part.longer
        return calls

    def _best_part(self, start: int, rows: _SortedRows, parts: Mapping[int, _Part]) -> _Part:
        """The best plan for the rows from a number on; `parts` has those for rows that are too long for a packer."""
        min_times, last_shapes = _solve(rows.lengths[start:], self._useful_shapes)
        best = unpacked = _Part(min_times[-1], start, last_shapes)
        # the longest lines first: they are mostly the best, which leaves out others by their bound
        for packer in reversed(self._packers):
            end = rows.ends[packer.length]
            if end <= start:
                break
            bound = (rows.tokens[end] - rows.tokens[start]) * packer.min_token_time + parts[end].time
            if bound > best.time * (1 + ROUNDING):
                continue
            part = self._packed_part(packer, rows, unpacked, min_times, parts[end])
            # of equal plans, the one without packed rows, then that with the shortest lines
            if part.time < unpacked.time and part.time <= best.time:
                best = part
        return best

    def _packed_part(
        self, packer: Packer, rows: _SortedRows, unpacked: _Part, min_times: Sequence[float], longer: _Part
    ) -> _Part:
        """The plan of a part whose longest rows are packed into lines of one length, except those of `longer`.

        `min_times` has the times of its shortest rows without packing, by their number.
        """
        places, used_lines = rows.packed(packer)
        end = rows.ends[packer.length]
        row_count = end - unpacked.start
        # estimates[n]: the time if the longest n rows are packed, all into calls of this length
        estimates = {
            count: min_times[row_count - count] + packer.time(used_lines[count - 1])
            for count in (range(1, row_count + 1) if self._useful_shapes[0] else (row_count,))
        }
        count = min(estimates, key=estimates.__getitem__)
        line_lengths = lengths_of_lines(rows.lengths[end - count : end][::-1], places[:count])
        order = sorted(range(len(line_lengths)), key=line_lengths.__getitem__)
        line_min_times, line_last_shapes = _solve([line_lengths[line] for line in order], self._useful_line_shapes)
        return _Part(
            min_times[row_count - count] + line_min_times[-1] + longer.time,
            unpacked.start,
            unpacked.last_shapes[: row_count - count],
            _PackedLines(places[:count], order, line_last_shapes),
            longer,
        )


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
    if not useful_shapes[0]:
        return [0.0, *[inf] * len(lengths)], [None] * len(lengths)
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
