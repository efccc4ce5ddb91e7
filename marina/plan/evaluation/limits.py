"""The reach of a choice: the highest rate of requests, and the largest mini-batch."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from marina.plan.evaluation.evaluate import Deployment, Prediction, evaluate
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


def find_reach(deployment: Deployment) -> Reach:
    """The highest rate at which a choice keeps the promise."""

    def predict(scale: float) -> Prediction:
        scaled = [model_traffic._replace(rate=model_traffic.rate * scale) for model_traffic in deployment.traffic]
        return evaluate(replace(deployment, traffic=scaled), REQUESTS)

    low, high = SCALES
    total_rate = sum(model_traffic.rate for model_traffic in deployment.traffic)
    for _ in range(STEPS):
        scale = (low * high) ** 0.5
        if predict(scale).keeps(deployment.promise):
            low = scale
        else:
            high = scale
    rate, median_s = total_rate * low, predict(low).p50 / 1000
    return Reach(rate, rate * 60 / deployment.count, rate * median_s)


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
        if evaluate(Deployment(candidate, 1, [alone], promise), 300).keeps(promise):
            low = texts
        else:
            high = texts
    return low
