"""Puts rows into the lines of packed graphs.

Which rows share a line is bin packing: best-fit decreasing takes the longest row first, and puts it into the fullest
line that has room for it. Where no line is full of texts that have fewer than 4 tokens, it needs at most 11/9 of the
minimum number of lines, and 4 more. Source: Johnson, Near-optimal bin packing algorithms, 1973.
"""

from __future__ import annotations

import itertools
from bisect import bisect_left, insort
from collections.abc import Mapping, Sequence

from handlers.worker.values import TOKENS_A_TEXT, Call, Place, Shape

Line = list[tuple[int, Place]]  # its rows with their places


class Packer:
    """The packed shapes of one sequence length.

    Args:
        length: their sequence length.
        times: the time of one call of each shape, those of other lengths included, in any unit.

    Attributes:
        length: their sequence length.
        shapes: these shapes.
        min_token_time: no call of any shape takes less for a token of rows or lines that have at most this length.
    """

    def __init__(self, length: int, times: Mapping[Shape, float]) -> None:
        self.length = length
        self.shapes = {shape for shape in times if shape.packed and shape.sequence_length == length}
        self.min_token_time = min(
            time / (shape.batch_size * min(shape.sequence_length, length)) for shape, time in times.items()
        )
        self._max_texts = next(iter(self.shapes)).texts_a_line
        self._times = [(shape.batch_size, times[shape]) for shape in self.shapes]
        self._min_times = [0.0]  # for every number of lines, the minimum time

    def time(self, lines: int) -> float:
        """The minimum time of calls for a number of lines, each in a shape of this length."""
        while len(self._min_times) <= lines:
            number = len(self._min_times)
            self._min_times.append(min(time + self._min_times[max(0, number - size)] for size, time in self._times))
        return self._min_times[lines]

    def pack(self, lengths: Sequence[int]) -> tuple[list[Place], list[int]]:
        """Places of rows.

        Args:
            lengths: the tokens of each row, in descending order, each at most `length`.

        Returns:
            The place of each row, and the number of lines in use after each row. The first n places are the places of
            the first n rows packed alone.
        """
        places: list[Place] = []
        used_lines: list[int] = []
        lines_by_room: list[list[int]] = [[] for _ in range(self.length + 1)]  # by tokens left
        text_counts: list[int] = []
        room_bits = 0  # bit n: some line has room for n tokens
        for tokens in lengths:
            fitting_bits = room_bits >> tokens
            if fitting_bits:
                room = tokens + (fitting_bits & -fitting_bits).bit_length() - 1
                line = lines_by_room[room].pop()
                if not lines_by_room[room]:
                    room_bits &= ~(1 << room)
            else:
                room, line = self.length, len(text_counts)
                text_counts.append(0)
            places.append(Place(line, text_counts[line], self.length - room))
            text_counts[line] += 1
            room_left = room - tokens
            if room_left and text_counts[line] < self._max_texts:
                lines_by_room[room_left].append(line)
                room_bits |= 1 << room_left
            used_lines.append(len(text_counts))
        return places, used_lines


def lines_of(rows: Sequence[int], places: Sequence[Place]) -> list[Line]:
    """The lines that rows were packed into, from the place of each row."""
    lines: list[Line] = [[] for _ in range(max((place.line for place in places), default=-1) + 1)]
    for row, place in zip(rows, places, strict=True):
        lines[place.line].append((row, place))
    return lines


def lengths_of_lines(lengths: Sequence[int], places: Sequence[Place]) -> list[int]:
    """The least sequence length of each line, from the tokens and the place of each row."""
    line_lengths = [0] * (max((place.line for place in places), default=-1) + 1)
    for tokens, place in zip(lengths, places, strict=True):
        line_lengths[place.line] = max(place.start + tokens, TOKENS_A_TEXT * (place.number + 1))
    return line_lengths


def fill_room(calls: Sequence[Call], rows: Sequence[int], lengths: Sequence[int]) -> tuple[list[Call], list[int]]:
    """Put more rows into the room that is left in the lines of calls, each into the fullest line that has room for it.

    Args:
        calls: of packed shapes.
        rows: indices of `lengths`, longest first.
        lengths: the tokens of each row.

    Returns:
        The calls with these rows, and the rows that found no room.
    """
    lines_of_calls = [_all_lines(call) for call in calls]
    lines = [(call.shape, line) for call, call_lines in zip(calls, lines_of_calls, strict=True) for line in call_lines]
    room = sorted(
        (shape.sequence_length - sum(lengths[row] for row, _ in line), number)
        for number, (shape, line) in enumerate(lines)
        if len(line) < shape.texts_a_line
    )
    rows_left: list[int] = []
    for row in rows:
        fullest = bisect_left(room, (lengths[row], 0))
        if fullest == len(room):
            rows_left.append(row)
            continue
        tokens, number = room.pop(fullest)
        shape, line = lines[number]
        line.append((row, Place(0, len(line), shape.sequence_length - tokens)))
        if len(line) < shape.texts_a_line:
            insort(room, (tokens - lengths[row], number))
    filled_calls = [packed_call(call.shape, lines) for call, lines in zip(calls, lines_of_calls, strict=True)]
    return filled_calls, rows_left


def _all_lines(call: Call) -> list[Line]:
    lines = lines_of(call.rows, call.places)
    return lines + [[] for _ in range(call.shape.batch_size - len(lines))]


def packed_call(shape: Shape, lines: Sequence[Line]) -> Call:
    """The call that computes lines."""
    # not by _replace, which takes three times as long
    placed = [
        (row, Place(number, place.number, place.start)) for number, line in enumerate(lines) for row, place in line
    ]
    return Call(shape, tuple(row for row, _ in placed), places=tuple(place for _, place in placed))


def calls_of(shape: Shape, lengths: Sequence[int], fill: bool = False) -> list[Call]:
    """Calls of one shape for all rows.

    Args:
        shape: holds each of the rows.
        lengths: the tokens of each row.
        fill: whether to add a call with every row of the graph filled, if one call has room for all rows: replicas that
            share a call have cores of their own.
    """
    if not lengths:
        return []
    size = shape.batch_size
    if shape.packed:
        order = sorted(range(len(lengths)), key=lambda row: -lengths[row])
        lines = lines_of(order, Packer(shape.sequence_length, {shape: 1.0}).pack([lengths[row] for row in order])[0])
        calls = [packed_call(shape, lines[start : start + size]) for start in range(0, len(lines), size)]
    else:
        rows = range(len(lengths))
        calls = [Call(shape, tuple(rows[start : start + size])) for start in range(0, len(rows), size)]
    if fill and len(calls) == 1 and calls[0].used_rows < size:
        repeated_rows = itertools.islice(itertools.cycle(range(len(lengths))), size)
        calls.append(spread_call(shape, tuple(repeated_rows)))
    return calls


def spread_call(shape: Shape, rows: tuple[int, ...]) -> Call:
    """A call in which each of these rows has its own row of the graph."""
    places = tuple(Place(line, 0, 0) for line in range(len(rows))) if shape.packed else ()
    return Call(shape, rows, places=places)
