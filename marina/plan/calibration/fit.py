"""Fits what cannot be measured by itself, so that simulations of the measured loads give what was measured."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from marina.plan.calibration.record import ServerCosts
from marina.plan.calibration.server import ClosedLoop, Served
from marina.plan.calibration.worker import spread_of
from marina.plan.simulator.values import Floats

STEPS, TRIES = 20, 4
# first guesses, and the least change that the fit tries, of each parameter
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
NUDGE = 0.05
WEIGHT = 0.5  # of batches, which say how requests meet, and of p99s, which vary, beside what matters
DAMPING, FLOOR = 0.3, 0.02  # of the steps; the second keeps parameters in place that change nothing
ENOUGH = 0.003  # gain of a step, below which the fit ends
TIMER_MS = 0.06  # the kernel's slack of timers is 0.05 ms


class Fit(NamedTuple):
    """The costs, and the median of the relative errors of throughput and median latency."""

    server: ServerCosts
    error: float


def fit_server(served: Served, simulate: Callable[[ServerCosts, ClosedLoop], tuple[float, float, float, float]]) -> Fit:
    """Fit the costs of a server to its closed loops (Levenberg-Marquardt, with parameters that stay positive).

    Args:
        served: the measurement.
        simulate: requests per second, p50, p99 and mean batch of a closed loop, with these costs.
    """

    def costs(values: Floats) -> ServerCosts:
        named = {name: round(float(value), 5) for name, value in zip(START, np.exp(values), strict=True)}
        return ServerCosts(front=served.front, client=served.client, timer=TIMER_MS, idle=(0.0,), **named)

    def errors(values: Floats) -> Floats:
        found = [simulate(costs(values), loop) for loop in served.loops]
        pairs = [
            (rate / loop.rate, p50 / loop.p50, (p99 / loop.p99) ** WEIGHT, (batch / loop.batch) ** WEIGHT)
            for (rate, p50, p99, batch), loop in zip(found, served.loops, strict=True)
        ]
        logs: Floats = np.log(np.array(pairs)).ravel()
        return logs

    values = np.log(np.array(list(START.values())))
    now, damping = errors(values), DAMPING
    for _ in range(STEPS):
        slopes = np.array([(errors(values + NUDGE * one) - now) / NUDGE for one in np.eye(len(values))]).T
        square = slopes.T @ slopes
        for _ in range(TRIES):
            step = np.linalg.solve(square + damping * np.diag(np.diag(square) + FLOOR), slopes.T @ now)
            tried = values - np.clip(step, -1, 1)
            then = errors(tried)
            if (then**2).sum() < (now**2).sum():
                break
            damping *= 4
        else:
            break
        values, gain = tried, (now**2).sum() - (then**2).sum()
        now, damping = then, damping / 4
        if gain < ENOUGH * (now**2).sum():
            break
    fitted = costs(values)
    return Fit(fitted, float(statistics.median(np.abs(np.expm1(now.reshape(-1, 4)[:, :2].ravel())))))


def idle_times(idle: Sequence[float], usual: Sequence[float]) -> tuple[float, ...]:
    """How much longer answers take after a pause: the quantiles of the latencies, less those of a simulation."""
    return tuple(round(a - b, 4) for a, b in zip(spread_of(idle), spread_of(usual), strict=True))
