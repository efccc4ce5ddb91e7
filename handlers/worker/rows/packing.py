"""Puts rows into the lines of packed graphs.

Which rows share a line is bin packing: best-fit decreasing takes the longest row first, and puts it into the fullest
line that has room for it. Where no line is full of texts that have fewer than 4 tokens, it needs at most 11/9 of the
fewest lines that are possible, and 4 more. Source: Johnson, Near-optimal bin packing algorithms, 1973.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence

from handlers.worker.values import Call, Place, Shape


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
        self._times = [(shape.batch_size, time, shape) for shape, time in times.items()]
        # for every number of lines: the least time, and the shape of the last call
        self._least = [0.0]
        self._last: list[Shape] = []

    def time(self, lines: int) -> float:
        """The least time of calls for a number of lines."""
        while len(self._least) <= lines:
            number = len(self._least)
            best = min((time + self._least[max(0, number - size)], -size, shape) for size, time, shape in self._times)
            self._least.append(best[0])
            self._last.append(best[2])
        return self._least[lines]

    def shapes(self, lines: int) -> list[Shape]:
        """The shapes of those calls; all but the last are full."""
        self.time(lines)
        found = []
        while lines > 0:
            found.append(self._last[lines - 1])
            lines -= found[-1].batch_size
        return sorted(found, key=lambda shape: -shape.batch_size)

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


def packed_calls(packer: Packer, rows: Sequence[int], places: Sequence[Place]) -> list[Call]:
    """The calls for the lines that rows were packed into."""
    lines: list[list[tuple[int, Place]]] = [[] for _ in range(max(place.line for place in places) + 1)]
    for row, place in zip(rows, places):
        lines[place.line].append((row, place))
    calls, first = [], 0
    for shape in packer.shapes(len(lines)):
        own = lines[first : first + shape.batch_size]
        first += shape.batch_size
        placed = [(row, place._replace(line=line)) for line, entries in enumerate(own) for row, place in entries]
        calls.append(Call(shape, tuple(row for row, _ in placed), places=tuple(place for _, place in placed)))
    return calls


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
    if shape.packed:
        order = sorted(range(len(lengths)), key=lambda row: -lengths[row])
        packer = Packer({shape: 1.0})
        calls = packed_calls(packer, order, packer.pack([lengths[row] for row in order])[0])
    else:
        rows, size = range(len(lengths)), shape.batch_size
        calls = [Call(shape, tuple(rows[start : start + size])) for start in range(0, len(rows), size)]
    if fill and len(calls) == 1 and calls[0].used < shape.batch_size:
        again = itertools.islice(itertools.cycle(range(len(lengths))), shape.batch_size)
        calls.append(spread_call(shape, tuple(again)))
    return calls


def spread_call(shape: Shape, rows: tuple[int, ...]) -> Call:
    """A call in which each of these rows has a row of the graph of its own."""
    places = tuple(Place(line, 0, 0) for line in range(len(rows))) if shape.packed else ()
    return Call(shape, rows, places=places)
