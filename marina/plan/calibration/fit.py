"""Fits the costs that cannot be measured by themselves, so that simulations of the measured loads match them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from scipy.optimize import least_squares

from marina.plan.calibration.record import ServerCosts
from marina.plan.calibration.server import MeasuredLoad, MeasuredServer
from marina.plan.calibration.worker import spread_of
from marina.plan.simulator.values import Floats

# first guesses
START = {
    "gap": 0.8,
    "request": 0.03,
    "outside": 0.3,
    "entering": 0.05,
    "replying": 0.05,
    "stolen": 0.7,
    "slower": 1.0,
    "slower_alone": 1.0,
    "tail": 1.5,
}
STEP = 0.1  # of a logarithm, for slopes: simulations are noisy, so smaller steps measure noise
WEIGHT = 0.5  # of mean batches, which say how requests meet, and of p99s, which vary; throughput and p50 have 1
MIN_GAIN = 0.003  # of a step, relative to the sum of squares, below which the fit ends
MAX_STEPS = 20
FURTHEST = 1000.0  # a simulation that answers nothing is as wrong as an error by this factor, so slopes stay finite
TIMER_MS = 0.06  # the kernel's slack of timers is 0.05 ms


class Fit(NamedTuple):
    """The costs, and the median of the relative errors of throughput and median latency."""

    server: ServerCosts
    error: float


def fit_server(
    measured: MeasuredServer,
    simulate: Callable[[ServerCosts, MeasuredLoad], tuple[float, float, float, float]],
    idle: tuple[float, ...] = (0.0,),
) -> Fit:
    """Fit the costs of a server to its loads by least squares, with parameters that stay positive.

    Args:
        measured: the measured server.
        simulate: requests per second, p50, p99 and mean batch of a load, with these costs.
        idle: see `ServerCosts`.
    """

    def costs(values: Floats) -> ServerCosts:
        fitted = {name: round(float(value), 5) for name, value in zip(START, np.exp(values), strict=True)}
        return ServerCosts(front=measured.front, client=measured.client, timer=TIMER_MS, idle=idle, **fitted)

    def errors(values: Floats) -> Floats:
        simulated = [simulate(costs(values), load) for load in measured.loads]
        pairs = [
            (rate / load.rate, p50 / load.p50, (p99 / load.p99) ** WEIGHT, (batch / load.batch) ** WEIGHT)
            for (rate, p50, p99, batch), load in zip(simulated, measured.loads, strict=True)
        ]
        logs: Floats = np.log(np.clip(pairs, 1 / FURTHEST, FURTHEST)).ravel()
        return logs

    def slopes(values: Floats) -> Floats:
        base = errors(values)
        return np.stack([(errors(values + step) - base) / STEP for step in STEP * np.eye(len(values))], axis=1)

    start = np.log(np.array(list(START.values())))
    fit = least_squares(errors, start, slopes, ftol=MIN_GAIN, max_nfev=MAX_STEPS)
    relative = np.abs(np.expm1(fit.fun.reshape(-1, 4)[:, :2]))
    return Fit(costs(fit.x), float(np.median(relative)))


def idle_times(measured: Sequence[float], simulated: Sequence[float]) -> tuple[float, ...]:
    """How much longer answers take after a pause: quantiles of the latencies, less quantiles of a simulation."""
    return tuple(
        round(measured_ms - simulated_ms, 4)
        for measured_ms, simulated_ms in zip(spread_of(measured), spread_of(simulated), strict=True)
    )
