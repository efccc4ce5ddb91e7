"""The uncertainty of figures: bootstrap intervals over rounds, and which configurations cannot be told apart."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

RESAMPLES = 10_000
CONFIDENCE = 0.95


class Interval(NamedTuple):
    """The median over rounds, with its 95 % confidence interval."""

    median: float
    low: float
    high: float

    def overlaps(self, other: Interval) -> bool:
        """Whether two intervals have a value in common."""
        return self.low <= other.high and other.low <= self.high


def bootstrap(values: Sequence[float]) -> Interval:
    """The percentile bootstrap of the median (Efron 1979).

    Rounds are resampled with replacement, with a fixed seed. With one round, the interval is that single value.
    """
    rounds = np.asarray(values, dtype=np.float64)
    samples = np.random.default_rng(0).integers(0, len(rounds), (RESAMPLES, len(rounds)))
    medians = np.median(rounds[samples], axis=1)
    tail = (1 - CONFIDENCE) / 2
    low, high = np.quantile(medians, [tail, 1 - tail])
    return Interval(float(np.median(rounds)), float(low), float(high))


def places(intervals: Sequence[Interval], best: str) -> list[str]:
    """Rank configurations from the best. Intervals that overlap the interval of the best in a group share its place.

    Args:
        intervals: one interval per configuration.
        best: "high" or "low".

    Returns:
        The places in the order of the intervals: "1", or "1=" if a place is shared. With a single round each,
        the spread is unknown, so callers assign no places then.
    """
    order = sorted(range(len(intervals)), key=lambda index: intervals[index].median, reverse=best == "high")
    groups: list[list[int]] = []
    for index in order:
        if groups and intervals[index].overlaps(intervals[groups[-1][0]]):
            groups[-1].append(index)
        else:
            groups.append([index])
    ranks = [""] * len(intervals)
    place = 1
    for group in groups:
        for index in group:
            ranks[index] = f"{place}{'=' if len(group) > 1 else ''}"
        place += len(group)
    return ranks
