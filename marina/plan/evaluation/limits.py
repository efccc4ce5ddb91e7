"""The reach of a choice: the highest rate of requests, and the largest mini-batch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from marina.plan.evaluation.evaluate import evaluate
from marina.plan.options.candidates import Candidate
from marina.plan.workload import Promise, Traffic

STEPS = 9  # of a bisection: the result is within half a percent
REQUESTS = 15_000
SCALES = (0.05, 64.0)  # of the rates: where the limit is looked for
MAX_TEXTS = 4096


class Reach(NamedTuple):
    """The highest load at which a choice keeps the promise.

    Attributes:
        rate: requests per second of all models together, in the proportions of the workload.
        per_minute: the same rate, but for a minute and for each instance.
        under_way: requests that are under way at the same time, on average (Little's law).
    """

    rate: float
    per_minute: float
    under_way: float


def find_reach(
    candidate: Candidate, count: int, traffic: Sequence[Traffic], promise: Promise, least_loaded: bool
) -> Reach:
    """The highest rate at which a choice keeps the promise."""
    low, high = SCALES
    total_rate = sum(model_traffic.rate for model_traffic in traffic)
    for _ in range(STEPS):
        scale = (low * high) ** 0.5
        scaled = [model_traffic._replace(rate=model_traffic.rate * scale) for model_traffic in traffic]
        if evaluate(candidate, count, scaled, promise, REQUESTS, least_loaded).keeps(promise):
            low = scale
        else:
            high = scale
    scaled = [model_traffic._replace(rate=model_traffic.rate * low) for model_traffic in traffic]
    median_s = evaluate(candidate, count, scaled, promise, REQUESTS, least_loaded).p50 / 1000
    return Reach(total_rate * low, total_rate * low * 60 / count, total_rate * low * median_s)


def largest_request(candidate: Candidate, traffic: Traffic, seconds: float, max_texts: int) -> int:
    """The most texts of a request that, alone, is answered in time in 99 of 100 cases; 0 if one text takes longer.

    Args:
        candidate: how its model is served, as the only one.
        traffic: of the model.
        seconds: that a request may take.
        max_texts: the largest number of texts to try.
    """
    promise = Promise(latency_ms=seconds * 1000, percentile=99)
    low, high = 0, min(max_texts, MAX_TEXTS) + 1
    while high - low > 1:
        texts = (low + high) // 2
        alone = traffic._replace(rate=0.01 / seconds, instances=texts, log=None)
        if evaluate(candidate, 1, [alone], promise, 300, least_loaded=False).keeps(promise):
            low = texts
        else:
            high = texts
    return low
