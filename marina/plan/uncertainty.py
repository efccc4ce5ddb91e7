"""How far measurements may be from simulations, as factors."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import fmean

import numpy as np

VALUES = 21


@dataclass(frozen=True)
class Uncertainty:
    """How far measurements may be from simulations, as equally likely factors in ascending order.

    Attributes:
        speed: of all times that a simulation is made of: how much the speed of the machine changes.
        p50, p99: of these percentiles of measured latencies, over those of simulations.
    """

    speed: tuple[float, ...] = (1.0,)
    p50: tuple[float, ...] = (1.0,)
    p99: tuple[float, ...] = (1.0,)

    @property
    def noise(self) -> float:
        """How far the machine's speed is from its mean in 9 of 10 cases, as a fraction."""
        return max(abs(float(factor) - 1) for factor in np.quantile(self.speed, (0.05, 0.95)))

    def with_speeds(self, low: float, high: float) -> Uncertainty:
        """The same, if all times may also have any factor between these two, each as likely."""
        speeds = np.outer(self.speed, np.geomspace(low, high, VALUES)).ravel()
        return replace(self, speed=quantiles(speeds))


CERTAIN = Uncertainty()


def quantiles(values: Sequence[float] | np.ndarray[tuple[int], np.dtype[np.float64]]) -> tuple[float, ...]:
    """Equally likely values of a distribution, in ascending order."""
    places = (np.arange(VALUES) + 0.5) / VALUES
    return tuple(round(float(value), 4) for value in np.quantile(values, places))


def next_factors(logs: Sequence[float], fitted: float = 0.0) -> tuple[float, ...]:
    """Equally likely factors for the next value of a small sample of a lognormal distribution.

    These are the quantiles of Student's prediction interval: mean + t * deviation * sqrt(1 + 1 / n).

    Args:
        logs: logarithms of the sample.
        fitted: parameters that were fitted to the sample, besides its mean.
    """
    from scipy.stats import t

    freedom = max(1.0, len(logs) - 1 - fitted)
    mean = fmean(logs)
    deviation = math.sqrt(sum((value - mean) ** 2 for value in logs) / freedom * (1 + 1 / len(logs)))
    places = (np.arange(VALUES) + 0.5) / VALUES
    return tuple(round(math.exp(mean + deviation * float(value)), 4) for value in t.ppf(places, freedom))
