"""How far measurements may be from simulations, as slowdowns: how much slower the machine would have to be.

A slower machine makes latencies a little longer where there is room, and much longer near capacity. So the same
slowdowns give narrow ranges for light loads and wide ones for heavy loads.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, stdev

import numpy as np

from marina.plan.simulator.values import Floats

COVERAGE = 0.9  # of repeated measurements, by a range
RANGE = ((1 - COVERAGE) / 2, (1 + COVERAGE) / 2)  # the probabilities at its ends
MEDIAN_UP_TO = 75  # percentiles up to here are as uncertain as the median, others as the p99


@dataclass(frozen=True)
class Slowdowns:
    """The slowdowns that explain measurements, of which the logarithms have Student's distribution.

    Attributes:
        mean, deviation: of the logarithm of the slowdown of the next measurement.
        loads: number of different loads that were measured.
    """

    mean: float = 0.0
    deviation: float = 0.0
    loads: int = 2

    def at(self, probability: float) -> float:
        """The slowdown that a measurement stays below with this probability."""
        from scipy.stats import t

        return math.exp(self.mean + self.deviation * float(t.ppf(probability, self.loads - 1)))


@dataclass(frozen=True)
class Uncertainty:
    """How far measurements may be from simulations.

    Attributes:
        p50, p99: what explains measured percentiles of latencies.
        now: how much slower the machine is than when it was measured, or 1.
    """

    p50: Slowdowns = Slowdowns()
    p99: Slowdowns = Slowdowns()
    now: float = 1.0

    def at(self, percentile: float, probability: float) -> float:
        """The slowdown at which a simulation gives a percentile that measurements stay below with this probability."""
        slowdowns = self.p50 if percentile <= MEDIAN_UP_TO else self.p99
        return slowdowns.at(probability) * (max(1.0, self.now) if probability >= 0.5 else min(1.0, self.now))


CERTAIN = Uncertainty()


def slowdowns_of(values: Sequence[float], loads: int) -> Slowdowns:
    """The distribution of the next slowdown, from a sample: Student's prediction interval.

    Args:
        values: a slowdown for each measurement.
        loads: how many different loads were measured; the measurements of a load have the error of its simulation in
            common, so they count as one for the degrees of freedom.
    """
    logs = [math.log(value) for value in values]
    return Slowdowns(round(fmean(logs), 4), round(stdev(logs) * math.sqrt(1 + 1 / loads), 4), loads)


def slowdown_that_explains(measured: float, slowdowns: Sequence[float], simulated: Floats) -> float:
    """The slowdown at which a simulation gives what was measured, between the first and the last that were simulated.

    Args:
        measured: a latency.
        slowdowns: ascending.
        simulated: the latency at each of them.
    """
    rising = np.maximum.accumulate(simulated)
    return math.exp(float(np.interp(math.log(measured), np.log(rising), np.log(slowdowns))))


def range_around(predicted: float, low: float, high: float) -> tuple[float, float]:
    """The range between two ends, which holds the prediction, whatever chance did to the simulations of its ends."""
    return min(low, predicted), max(high, predicted)
