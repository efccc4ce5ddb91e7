"""Bounds of a candidate that need no simulation: the least latency of a request, and the fewest instances.

No request is answered sooner than a request that comes alone. The cores must have time for all requests, each in the
graph that is fastest for it: that bounds the number of instances, and so the cost, from below.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from handlers.worker.values import Shape
from marina.plan.options.candidates import Candidate
from marina.plan.simulator.system import WorkerModel
from marina.plan.workload import Traffic

SAMPLE = 300  # texts that bounds are taken from


def latency_alone(candidate: Candidate, traffic: Sequence[Traffic], percentile: float) -> float:
    """The percentile of latencies, in milliseconds, if every request came alone: no simulation has less."""
    latencies = []
    for variant, groups, model_traffic in zip(candidate.variants, candidate.groups, traffic, strict=True):
        costs = variant.costs[groups[0]]
        fixed_ms = costs.outside + costs.gap + costs.handing + costs.batch + costs.request
        alone = fixed_ms + model_traffic.rows_of_request * (costs.instance + _min_row_times(costs, model_traffic))
        latencies.append(float(np.percentile(alone, percentile)) * costs.spread[0])
    # the percentile of all requests together is at least the percentile of the quickest model
    return min(latencies)


def min_instances(candidate: Candidate, traffic: Sequence[Traffic]) -> int:
    """The smallest number of instances whose cores have time for all requests."""
    core_ms, max_worker_ms = 0.0, 0.0
    for variant, groups, model_traffic in zip(candidate.variants, candidate.groups, traffic, strict=True):
        costs = variant.costs[groups[0]]
        request_ms = costs.batch / candidate.batch_size + costs.request
        row_ms = costs.instance + float(_min_row_times(costs, model_traffic).mean())
        request_ms += model_traffic.rows_of_request * row_ms
        core_ms += model_traffic.rate * request_ms * groups[0] * costs.core_usage
        max_worker_ms = max(max_worker_ms, model_traffic.rate * request_ms / len(groups))
    return max(1, math.ceil(max_worker_ms / 1000), math.ceil(core_ms / 1000 / candidate.place.cores))


def _min_row_times(costs: WorkerModel, model_traffic: Traffic) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """For each of a sample of rows, the least milliseconds of any graph."""
    tokens = model_traffic.tokens[:: max(1, len(model_traffic.tokens) // SAMPLE)]
    return np.array(
        [min(_min_row_time(shape, time, token_count) for shape, time in costs.times.items()) for token_count in tokens]
    )


def _min_row_time(shape: Shape, time: float, tokens: int) -> float:
    """The least milliseconds of a row in calls of a shape that take `time`; infinite if the row is too long for it."""
    if shape.sequence_length < tokens:
        return math.inf
    return time * tokens / shape.tokens if shape.packed else time / shape.batch_size
