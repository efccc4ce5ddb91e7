"""Where repeated measurements of a prediction would be, from what its calibration says of its uncertainty."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from marina.plan.simulator.values import Floats
from marina.plan.system import Deployment, counted_latencies
from marina.plan.uncertainty import VALUES, Uncertainty

COVERAGE = 0.9  # of measurements, by an interval
REQUESTS = 2000  # of a measurement
MEDIAN_UP_TO = 75  # percentiles up to here are as uncertain as the median, others as the p99

Interval = tuple[float, float]


class Intervals(NamedTuple):
    """Milliseconds between which 90 % of repeated measurements of each percentile should be."""

    p50: Interval
    p95: Interval
    p99: Interval
    promised: Interval


def possible_latencies(deployment: Deployment, percentiles: Sequence[float]) -> Floats:
    """Equally likely results of a measurement of some percentiles, in milliseconds.

    Each scenario has its requests and its speed of the machine. What it gives is multiplied with every factor by which
    the measured loads of the calibration differed from their simulations.

    Returns:
        Ascending values of shape (percentiles, scenarios * factors); infinite where nothing is answered.
    """
    uncertainties = [variant.uncertainty for variant in deployment.candidate.variants]
    scenarios = []
    for number in range(VALUES):
        latencies, _ = counted_latencies(deployment.simulate(REQUESTS, number, speeds_of(uncertainties, number)))
        scenarios.append(np.percentile(latencies, percentiles) if len(latencies) else np.full(len(percentiles), np.inf))
    return np.stack(
        [
            np.sort(np.outer(column, factors_of(uncertainties, percentile)).ravel())
            for column, percentile in zip(np.array(scenarios).T, percentiles, strict=True)
        ]
    )


def speeds_of(uncertainties: Sequence[Uncertainty], number: int) -> list[float]:
    """The factor of each model's times in one of `VALUES` equally likely scenarios: the machine is slow for all."""
    return [float(np.quantile(each.speed, (number + 0.5) / VALUES)) for each in uncertainties]


def factors_of(uncertainties: Sequence[Uncertainty], percentile: float) -> Floats:
    """Equally likely factors of a measured percentile over a simulated one: the mean of those of the models."""
    rows = [each.p50 if percentile <= MEDIAN_UP_TO else each.p99 for each in uncertainties]
    places = (np.arange(VALUES) + 0.5) / VALUES
    factors: Floats = np.mean([np.quantile(row, places) for row in rows], axis=0)
    return factors


def interval_of(values: Floats) -> Interval:
    """The middle part of equally likely values that holds `COVERAGE` of them."""
    low, high = np.quantile(values, [(1 - COVERAGE) / 2, (1 + COVERAGE) / 2], method="nearest")
    return round(float(low), 3), round(float(high), 3)
