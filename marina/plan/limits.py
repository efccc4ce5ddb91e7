"""How far a choice carries: the most requests, and the largest mini-batch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from marina.plan.candidates import Candidate
from marina.plan.evaluate import evaluate
from marina.plan.workload import Promise, Traffic

STEPS = 9  # of a bisection: the result is within half a percent
REQUESTS = 15_000
SCALES = (0.05, 64.0)  # of the rates: where the limit is looked for
MOST_INSTANCES = 4096


class Reach(NamedTuple):
    """What a choice can do while it keeps the promise.

    Attributes:
        rate: requests per second of all models together, in the proportions of the workload.
        per_minute: the same a minute, for each instance.
        under_way: requests that are under way at the same time, on average (Little's law).
    """

    rate: float
    per_minute: float
    under_way: float


def most_requests(candidate: Candidate, count: int, traffic: Sequence[Traffic], promise: Promise, least: bool) -> Reach:
    """The highest rate at which a choice keeps the promise."""
    low, high = SCALES
    total = sum(own.rate for own in traffic)
    for _ in range(STEPS):
        middle = (low * high) ** 0.5
        scaled = [own._replace(rate=own.rate * middle) for own in traffic]
        if evaluate(candidate, count, scaled, promise, REQUESTS, least).keeps(promise):
            low = middle
        else:
            high = middle
    scaled = [own._replace(rate=own.rate * low) for own in traffic]
    median_s = evaluate(candidate, count, scaled, promise, REQUESTS, least).p50 / 1000
    return Reach(total * low, total * low * 60 / count, total * low * median_s)


def largest_request(candidate: Candidate, traffic: Traffic, seconds: float, most: int) -> int:
    """The most texts of a request that alone is answered within this time in 99 of 100 cases; 0 if one takes longer.

    Args:
        candidate: how its model is served, as the only one.
        traffic: of the model.
        seconds: that a request may take.
        most: the most texts to think of.
    """
    promise = Promise(latency_ms=seconds * 1000, percentile=99)
    low, high = 0, min(most, MOST_INSTANCES) + 1
    while high - low > 1:
        middle = (low + high) // 2
        alone = traffic._replace(rate=0.01 / seconds, instances=middle, log=None)
        if evaluate(candidate, 1, [alone], promise, 300, least=False).keeps(promise):
            low = middle
        else:
            high = middle
    return low
