"""Chooses the calls for the rows of a batch."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from math import inf
from typing import NamedTuple

from handlers.worker.rows.packing import Packer, lines_of, load_of, packed_call
from handlers.worker.values import Call, Shape

Worthy = list[list[tuple[int, float, Shape]]]  # rows, time and shape, by tokens


class _Part(NamedTuple):
    """The plan for so many of the longest rows, and its time."""

    rows: int
    time: float
    calls: list[Call]


def longest(shapes: Iterable[Shape]) -> int:
    """The maximum number of tokens that any of the shapes holds."""
    return max(shape.sequence_length for shape in shapes)


class Planner:
    """Chooses the calls that compute the rows of a batch in the least total time.

    Without packed shapes, plans are exact. Some optimal plan has this form: with the rows sorted by length, every call
    computes adjacent rows, and the call of the longest row takes as many rows as fit, because leaving a row out of it
    never makes the other calls cheaper. So the least time for the i shortest rows is a minimum over the shapes that
    hold the i-th row: the shape's time plus the least time for the i - batch_size shortest rows. This is a dynamic
    programme over i.

    With packed shapes, plans are good and not always the best. The longest rows that fit into lines of some length are
    packed, down to some row; the shorter ones are computed as above, and those that are too long are planned by
    themselves, in the same way. The best length and the best row are found by trying all. Rows are packed by best-fit
    decreasing, see `handlers.worker.rows.packing`. The lines then have calls as rows have above, so a line that is not
    full may have a shorter shape: that part is exact.

    Args:
        times: the time of one call of every compiled shape, in any unit.
    """

    def __init__(self, times: Mapping[Shape, float]) -> None:
        self._times = dict(times)
        self._longest = longest(times)
        self._worthy = _worthy({shape: time for shape, time in times.items() if not shape.packed}, self._longest)
        self._worthy_lines = _worthy({shape: time for shape, time in times.items() if shape.packed}, self._longest)
        lengths = sorted({shape.sequence_length for shape in times if shape.packed})
        self._packers = [
            Packer({shape: time for shape, time in times.items() if shape.packed and shape.sequence_length == length})
            for length in lengths
        ]
        self._alone: dict[int, list[Call]] = {}  # the plans of single rows, by their tokens

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
        if len(lengths) > 1:
            return self._best(order, lengths)
        if lengths[0] not in self._alone:
            self._alone[lengths[0]] = self._best(order, lengths)
        return list(self._alone[lengths[0]])

    def _best(self, order: Sequence[int], lengths: Sequence[int]) -> list[Call]:
        """The best calls for rows, whose ascending order is given."""
        ordered = [lengths[row] for row in order]
        # parts[k]: the best plan for the rows that are too long for the first k packers
        starts = [0, *(bisect_right(ordered, packer.length) for packer in self._packers)]
        parts: list[_Part] = []
        for number in range(len(self._packers), -1, -1):
            parts.insert(0, self._part(order[starts[number] :], lengths, self._packers[number:], parts))
        return sorted(parts[0].calls, key=lambda call: self._times[call.shape] / len(call.rows))

    def _part(
        self, order: Sequence[int], lengths: Sequence[int], packers: Sequence[Packer], longer: Sequence[_Part]
    ) -> _Part:
        """The best plan for some rows in ascending order; `longer[k]` is that of the rows too long for `packers[k]`."""
        least, chosen = _programme([lengths[row] for row in order], self._worthy)
        best = _Part(len(order), least[-1], [])
        if least[-1] < inf:
            best.calls.extend(_read_back(order, chosen))
        for packer, beyond in zip(packers, longer, strict=False):
            own = order[: len(order) - beyond.rows]
            places, used = packer.pack([lengths[row] for row in reversed(own)])
            # how many of the longest rows to pack, told by the time of lines of this length alone
            estimates = [least[len(own) - count] + packer.time(used[count - 1]) for count in range(1, len(own) + 1)]
            if not estimates:
                continue
            packed = min(range(len(own)), key=estimates.__getitem__) + 1
            lines = lines_of(own[::-1][:packed], places[:packed])
            loads = [load_of(line, lengths) for line in lines]
            ordered = sorted(range(len(lines)), key=loads.__getitem__)
            line_least, line_chosen = _programme([loads[line] for line in ordered], self._worthy_lines)
            total = least[len(own) - packed] + line_least[-1] + beyond.time
            if total < best.time:
                calls = _read_back(own[: len(own) - packed], chosen)
                for call in _read_back(ordered, line_chosen):
                    calls.append(packed_call(call.shape, [lines[line] for line in call.rows]))
                best = _Part(len(order), total, calls + beyond.calls)
        return best


def _worthy(times: Mapping[Shape, float], longest: int) -> Worthy:
    """For every number of tokens, the shapes worth considering, each larger and slower than the one before."""
    found: Worthy = []
    for tokens in range(longest + 1):
        worthy: list[tuple[int, float, Shape]] = []
        holding = [(time, -shape.batch_size, shape) for shape, time in times.items() if shape.sequence_length >= tokens]
        for time, _, shape in sorted(holding):
            if not worthy or shape.batch_size > worthy[-1][0]:
                worthy.append((shape.batch_size, time, shape))
        found.append(worthy)
    return found


def _programme(ordered: Sequence[int], worthy: Worthy) -> tuple[list[float], list[Shape | None]]:
    """For the i shortest rows, the least time, and the shape of the last call."""
    least = [0.0]
    chosen: list[Shape | None] = []
    for last, tokens in enumerate(ordered):
        best, best_shape = inf, None
        for size, time, shape in worthy[tokens]:
            total = time + (least[last + 1 - size] if last >= size else 0.0)
            if total < best:
                best, best_shape = total, shape
        least.append(best)
        chosen.append(best_shape)
    return least, chosen


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
