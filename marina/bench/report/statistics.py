"""How sure a figure is: bootstrap intervals over rounds, and which configurations cannot be told apart."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

RESAMPLES = 10_000
CONFIDENCE = 0.95


class Interval(NamedTuple):
    """The median of some rounds, and where it lies with a confidence of 95 %."""

    median: float
    low: float
    high: float

    def overlaps(self, other: Interval) -> bool:
        """Whether a value could be both."""
        return self.low <= other.high and other.low <= self.high


def bootstrap(values: Sequence[float]) -> Interval:
    """The percentile bootstrap of the median (Efron 1979): rounds drawn again with replacement, always the same draws.

    With one round there is nothing to draw from, and the interval is that value.
    """
    rounds = np.asarray(values, dtype=np.float64)
    drawn = np.random.default_rng(0).integers(0, len(rounds), (RESAMPLES, len(rounds)))
    medians = np.median(rounds[drawn], axis=1)
    tail = (1 - CONFIDENCE) / 2
    low, high = np.quantile(medians, [tail, 1 - tail])
    return Interval(float(np.median(rounds)), float(low), float(high))


def places(intervals: Sequence[Interval], best: str) -> list[str]:
    """The place of each, from the best on: those whose intervals overlap that of a group's best share a place.

    Args:
        intervals: one a configuration.
        best: "high" or "low".

    Returns:
        In the order of the intervals, "1", or "1=" where a place is shared. With a single round in each,
        nothing is known of the spread, so callers give no places then.
    """
    order = sorted(range(len(intervals)), key=lambda number: intervals[number].median, reverse=best == "high")
    groups: list[list[int]] = []
    for number in order:
        if groups and intervals[number].overlaps(intervals[groups[-1][0]]):
            groups[-1].append(number)
        else:
            groups.append([number])
    ranks = [""] * len(intervals)
    place = 1
    for group in groups:
        for number in group:
            ranks[number] = f"{place}{'=' if len(group) > 1 else ''}"
        place += len(group)
    return ranks
