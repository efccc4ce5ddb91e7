"""Simulates one candidate on a number of instances."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from marina.bench.report.pricing import cost_per_1m
from marina.plan.candidates import Candidate
from marina.plan.system import Deployment, counted_latencies
from marina.plan.uncertainty import RANGE
from marina.plan.workload import Promise, Traffic

HOURS_A_MONTH = 730
PERCENTILES = (50, 95, 99)


@dataclass(frozen=True)
class Prediction:
    """What a number of instances does under a workload; latencies in milliseconds.

    Attributes:
        count: of instances.
        answered: share of the requests.
        promised: the promised percentile, with one instance down if that is promised.
        sure: the same, with the confidence that is promised: what keeps the promise or does not.
        p50, p95, p99: of all answered requests.
        throughput: texts per second of all instances.
        utilisation: share of the workers' time in which they compute.
        padding: share of the computed tokens.
        batch: mean requests of a batch.
        megabytes: of the workers of an instance.
        usd_month, usd_1m: of all instances a month, and for a million texts; None if there is no price.
        ranges: where 90 % of measurements of these percentiles should be; empty if that was not computed.
    """

    count: int
    answered: float
    promised: float
    sure: float
    p50: float
    p95: float
    p99: float
    throughput: float
    utilisation: float
    padding: float
    batch: float
    megabytes: float
    usd_month: float | None
    usd_1m: float | None
    ranges: Mapping[str, tuple[float, float]] = field(default_factory=dict)

    def keeps(self, promise: Promise) -> bool:
        """Whether it keeps a promise."""
        return self.answered >= promise.answered and self.sure <= promise.latency_ms


def evaluate(
    candidate: Candidate,
    count: int,
    traffic: Sequence[Traffic],
    promise: Promise,
    requests: int,
    least_loaded: bool = False,
) -> Prediction:
    """Simulate a workload on a number of instances.

    Args:
        candidate: how the models are served.
        count: of instances; one fewer takes requests if that is promised.
        traffic: of each model.
        promise: the promise to judge by.
        requests: number of requests to simulate.
        least_loaded: whether the balancer chooses the instance with the fewest requests.
    """
    deployment = Deployment(candidate, count, traffic, promise, least_loaded)
    outcome = deployment.simulate(requests)
    latencies, answered = counted_latencies(outcome)
    percentiles = (
        np.percentile(latencies, [*PERCENTILES, promise.percentile]) if len(latencies) else np.full(4, math.inf)
    )
    promised = sure = float(percentiles[3])
    if promise.confidence is not None:
        slow, answered_slowly = deployment.latency_below(promise.percentile, promise.confidence, requests)
        sure, answered = max(promised, slow), min(answered, answered_slowly)
    texts = answered * sum(model_traffic.rate * model_traffic.instances for model_traffic in traffic)
    computed, price = outcome.computed.sum(), candidate.place.per_hour
    return Prediction(
        count=count,
        answered=answered,
        promised=promised,
        sure=sure,
        p50=float(percentiles[0]),
        p95=float(percentiles[1]),
        p99=float(percentiles[2]),
        throughput=texts,
        utilisation=float(outcome.busy.sum() / (outcome.end * len(outcome.busy) * deployment.simulated))
        if outcome.end
        else 0.0,
        padding=float(1 - outcome.real.sum() / computed) if computed else 0.0,
        batch=float(outcome.batched.sum() / max(1, outcome.batches.sum())),
        megabytes=candidate.megabytes,
        usd_month=None if price is None else price * count * HOURS_A_MONTH,
        usd_1m=None if price is None else cost_per_1m(price * count, texts),
    )


def with_ranges(
    prediction: Prediction,
    candidate: Candidate,
    traffic: Sequence[Traffic],
    promise: Promise,
    requests: int,
    least_loaded: bool = False,
) -> Prediction:
    """The prediction of `evaluate` for these arguments, with its ranges."""
    deployment = Deployment(candidate, prediction.count, traffic, promise, least_loaded)
    ranges = {}
    for name, percentile in (("p50", 50), ("p99", 99), ("promised", promise.percentile)):
        point = getattr(prediction, name)
        low, high = (deployment.latency_below(percentile, end, requests)[0] for end in RANGE)
        ranges[name] = min(low, point), max(high, point)
    return replace(prediction, ranges=ranges)
