"""Finds the cheapest candidate that keeps a promise, without simulating all of them.

Two bounds need no simulation. The cores must have time for all requests, each in the graph that is fastest for it:
that bounds the number of instances, and so the cost, from below. And no request is answered sooner than a request that
comes alone: that bounds the latency. Candidates are simulated in ascending order of their bound of cost; a candidate
that fails comes back with more instances. So the first cost at which a candidate keeps the promise is the lowest, and
all costlier candidates are left out.
"""

from __future__ import annotations

import heapq
import math
import os
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from handlers.worker.values import Shape
from marina.console import Progress
from marina.plan.candidates import Candidate
from marina.plan.evaluate import HOURS_A_MONTH, Prediction, evaluate
from marina.plan.simulator.system import WorkerModel
from marina.plan.workload import Promise, Traffic

ROUGH_REQUESTS, FINE_REQUESTS = 1500, 30_000  # requests of a simulation
SLACK = 1.25  # times the promise: a rough simulation that is worse has failed
MAX_REFINED = 12  # candidates of one cost that are simulated finely
STEP = 20  # instances grow by 1, or by this part of them
LIGHT_LOAD_FACTOR = 50  # so many more instances have nearly nothing to do
SAMPLE = 300  # texts that bounds are taken from
MAX_INSTANCES = 100_000


class QueuedCandidate(NamedTuple):
    """A candidate to simulate, in ascending order of its cost.

    Attributes:
        cost: USD an hour of these instances; see `cost`.
        number: of the candidate, in the order in which candidates came.
        instances: number of instances.
        candidate: the candidate.
    """

    cost: float
    number: int
    instances: int
    candidate: Candidate


class Evaluation(NamedTuple):
    """A candidate, and its figures on a number of instances."""

    candidate: Candidate
    figures: Prediction


@dataclass
class SearchResult:
    """The result of a search.

    Attributes:
        best: the cheapest candidate that keeps the promise, and of several the fastest (estimates by their upper
            bounds); None if no candidate keeps it.
        nearest: the candidate that misses the promise by least; None if nothing was simulated.
        light_load_ms: the smallest promised percentile with nearly nothing to do, if that breaks the promise for every
            candidate, so that no number of instances keeps it; else None.
        over_budget: USD a month of the cheapest candidate that the budget left out; None if it left out none.
        trials: every simulated candidate.
        candidates, pruned: number of candidates, and number of candidates that the bounds left out.
    """

    best: Evaluation | None = None
    nearest: Evaluation | None = None
    light_load_ms: float | None = None
    over_budget: float | None = None
    trials: list[Evaluation] = field(default_factory=list)
    candidates: int = 0
    pruned: int = 0


def search(
    candidates: Iterable[Candidate],
    traffic: Sequence[Traffic],
    promise: Promise,
    budget: float | None,
    least_loaded: bool,
    progress: Progress,
) -> SearchResult:
    """Find the cheapest candidate that keeps a promise.

    Args:
        candidates: to choose from.
        traffic: of each model.
        promise: the promise to keep.
        budget: USD a month; None for any. Places without a price cost one unit an instance.
        least_loaded: how a balancer chooses; see `Machines`.
        progress: called for every cost that is tried.
    """

    def miss(trial: Evaluation) -> tuple[float, float]:
        """By how much it misses the promise: requests that it should have answered, then the latency."""
        return max(0.0, promise.answered - trial.figures.answered), trial.figures.sure

    result = SearchResult()
    queue: list[QueuedCandidate] = []
    for number, candidate in enumerate(candidates):
        result.candidates += 1
        if latency_alone(candidate, traffic, promise.percentile) > promise.latency_ms:
            result.pruned += 1
            continue
        count = min_instances(candidate, traffic) + promise.one_down
        heapq.heappush(queue, QueuedCandidate(cost(candidate, count), number, count, candidate))
    initial_size, feasible, light_load = len(queue), set[int](), list[Evaluation]()
    with ThreadPoolExecutor(os.cpu_count() or 1) as threads:
        while queue and result.best is None:
            price = queue[0].cost
            if budget is not None and price * HOURS_A_MONTH > budget and queue[0].candidate.place.per_hour is not None:
                result.pruned += len(queue)
                result.over_budget = price * HOURS_A_MONTH
                break
            level = []
            while queue and queue[0].cost <= price * (1 + 1e-9):
                level.append(heapq.heappop(queue))
            progress(f"{price:.4g} an hour, {len(level)} candidates", initial_size - len(queue), initial_size)
            rough = _evaluate(threads, level, traffic, promise, ROUGH_REQUESTS, least_loaded)
            sure_ms = [trial.figures.sure for trial in rough]
            order = sorted(range(len(level)), key=lambda place: sure_ms[place])
            promising = [level[place] for place in order if sure_ms[place] <= SLACK * promise.latency_ms][:MAX_REFINED]
            fine = _evaluate(threads, promising, traffic, promise, FINE_REQUESTS, least_loaded)
            result.trials += [*rough, *fine]
            keeping = [trial for trial in fine if trial.figures.keeps(promise)]
            if keeping:
                result.best = min(keeping, key=lambda trial: _worst(trial, promise))
                break
            for _, number, count, candidate in level:
                if number not in feasible:
                    prediction = evaluate(
                        candidate, count * LIGHT_LOAD_FACTOR + 1, traffic, promise, ROUGH_REQUESTS, least_loaded=False
                    )
                    if not prediction.keeps(promise):
                        result.pruned += 1
                        light_load.append(Evaluation(candidate, prediction))
                        continue
                    feasible.add(number)
                more = count + max(1, count // STEP)
                if more <= MAX_INSTANCES:
                    heapq.heappush(queue, QueuedCandidate(cost(candidate, more), number, more, candidate))
    result.pruned += len({queued.number for queued in queue} - feasible) if result.best else 0
    if light_load and not (result.best or feasible or result.over_budget):
        candidate, figures = min(light_load, key=miss)
        figures = evaluate(candidate, figures.count, traffic, promise, FINE_REQUESTS, least_loaded=False)
        result.light_load_ms = figures.sure if promise.latency_ms < figures.sure < math.inf else None
    # a fine simulation of a candidate comes after its rough one
    latest = {(id(trial.candidate), trial.figures.count): trial for trial in result.trials}
    result.nearest = min(latest.values(), key=miss, default=None)
    return result


def _worst(trial: Evaluation, promise: Promise) -> float:
    """The promised percentile at the upper bound of an estimate, which a promise with confidence has in it."""
    return trial.figures.sure * (trial.candidate.worst_slowdown if promise.confidence is None else 1.0)


def _evaluate(
    threads: ThreadPoolExecutor,
    batch: Sequence[QueuedCandidate],
    traffic: Sequence[Traffic],
    promise: Promise,
    requests: int,
    least_loaded: bool,
) -> list[Evaluation]:
    """Simulate candidates at the same time; compiled code leaves the other threads alone."""

    def work(queued: QueuedCandidate) -> Evaluation:
        figures = evaluate(queued.candidate, queued.instances, traffic, promise, requests, least_loaded)
        return Evaluation(queued.candidate, figures)

    return list(threads.map(work, batch))


def cost(candidate: Candidate, count: int) -> float:
    """USD an hour of a number of instances; their number if there is no price."""
    per_hour = candidate.place.per_hour
    return count * (1.0 if per_hour is None else per_hour)


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
