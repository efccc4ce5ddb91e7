"""Puts rows into the lines of packed graphs.

Which rows share a line is bin packing: best-fit decreasing takes the longest row first, and puts it into the fullest
line that has room for it. Where no line is full of texts that have fewer than 4 tokens, it needs at most 11/9 of the
fewest lines that are possible, and 4 more. Source: Johnson, Near-optimal bin packing algorithms, 1973.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence

from handlers.worker.values import TOKENS_A_TEXT, Call, Place, Shape

Line = list[tuple[int, Place]]  # its rows, and where they are


class Packer:
    """The packed shapes of one sequence length.

    Args:
        times: the time of one call of each, in any unit.

    Attributes:
        length: their sequence length.
    """

    def __init__(self, times: Mapping[Shape, float]) -> None:
        (self.length,) = {shape.sequence_length for shape in times}
        self._texts = next(iter(times)).texts_a_line
        self._times = [(shape.batch_size, time) for shape, time in times.items()]
        self._least = [0.0]  # for every number of lines, the least time

    def time(self, lines: int) -> float:
        """The least time of calls for a number of lines, each in a shape of this length."""
        while len(self._least) <= lines:
            number = len(self._least)
            self._least.append(min(time + self._least[max(0, number - size)] for size, time in self._times))
        return self._least[lines]

    def pack(self, lengths: Sequence[int]) -> tuple[list[Place], list[int]]:
        """Places of rows.

        Args:
            lengths: the tokens of each row, in descending order, each at most `length`.

        Returns:
            The place of each row, and the lines that are used up to each row: the first n places are those of the
            first n rows alone.
        """
        places: list[Place] = []
        used: list[int] = []
        room: list[list[int]] = [[] for _ in range(self.length + 1)]  # lines by the tokens that they have left
        texts: list[int] = []
        open_rooms = 0  # bit n: some line has n tokens left
        for tokens in lengths:
            fitting = open_rooms >> tokens
            if fitting:
                left = tokens + (fitting & -fitting).bit_length() - 1
                line = room[left].pop()
                if not room[left]:
                    open_rooms &= ~(1 << left)
            else:
                left, line = self.length, len(texts)
                texts.append(0)
            places.append(Place(line, texts[line], self.length - left))
            texts[line] += 1
            rest = left - tokens
            if rest and texts[line] < self._texts:
                room[rest].append(line)
                open_rooms |= 1 << rest
            used.append(len(texts))
        return places, used


def lines_of(rows: Sequence[int], places: Sequence[Place]) -> list[Line]:
    """The lines that rows were packed into, from the places of each."""
    lines: list[Line] = [[] for _ in range(max((place.line for place in places), default=-1) + 1)]
    for row, place in zip(rows, places, strict=True):
        lines[place.line].append((row, place))
    return lines


def load_of(line: Line, lengths: Sequence[int]) -> int:
    """The least sequence length that holds the rows of a line, which are indices of `lengths`."""
    return max(sum(lengths[row] for row, _ in line), TOKENS_A_TEXT * len(line))


def packed_call(shape: Shape, lines: Sequence[Line]) -> Call:
    """The call that computes lines."""
    placed = [(row, place._replace(line=number)) for number, line in enumerate(lines) for row, place in line]
    return Call(shape, tuple(row for row, _ in placed), places=tuple(place for _, place in placed))


def calls_of(shape: Shape, lengths: Sequence[int], fill: bool = False) -> list[Call]:
    """Calls of one shape for all rows.

    Args:
        shape: holds each of them.
        lengths: the tokens of each row.
        fill: whether to add a call with every row filled, if one call has room for all of them: replicas that share a
            call have cores of their own.
    """
    if not lengths:
        return []
    size = shape.batch_size
    if shape.packed:
        order = sorted(range(len(lengths)), key=lambda row: -lengths[row])
        lines = lines_of(order, Packer({shape: 1.0}).pack([lengths[row] for row in order])[0])
        calls = [packed_call(shape, lines[start : start + size]) for start in range(0, len(lines), size)]
    else:
        rows = range(len(lengths))
        calls = [Call(shape, tuple(rows[start : start + size])) for start in range(0, len(rows), size)]
    if fill and len(calls) == 1 and calls[0].used < size:
        again = itertools.islice(itertools.cycle(range(len(lengths))), size)
        calls.append(spread_call(shape, tuple(again)))
    return calls


def spread_call(shape: Shape, rows: tuple[int, ...]) -> Call:
    """A call in which each of these rows has a row of the graph of its own."""
    places = tuple(Place(line, 0, 0) for line in range(len(rows))) if shape.packed else ()
    return Call(shape, rows, places=places)
