"""Finds the cheapest candidate that keeps a promise, without simulating all of them.

Two bounds need no simulation. The cores must have time for all requests, each in the graph that is fastest for it:
that bounds the number of instances, and so the cost, from below. And no request is answered sooner than one that comes
alone: that bounds the latency. Candidates are simulated in ascending order of their bound of cost; one that fails comes
back with more instances. So the first cost at which one keeps the promise is the least, and all that cost more are left
out.
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

ROUGH, FINE = 1500, 30_000  # requests of a simulation
NEAR = 1.25  # times the promise: a rough simulation that is worse has failed
REFINED = 12  # candidates of one cost that are simulated finely
STEP = 20  # instances grow by 1, or by this part of them
LIGHT = 50  # so many more instances have nearly nothing to do
SAMPLE = 300  # texts that bounds are taken from
MOST_INSTANCES = 100_000


# a cost, the candidate's number, a number of instances, and the candidate
Waiting = tuple[float, int, int, Candidate]


class Evaluation(NamedTuple):
    """A candidate, and what it does on a number of instances."""

    candidate: Candidate
    figures: Prediction


@dataclass
class Found:
    """The result of a search.

    Attributes:
        best: the cheapest that keeps the promise, and of those the fastest (estimates by their upper bounds); None if
            none keeps it.
        nearest: the one that misses it by least; None if nothing was simulated.
        trials: all that were simulated.
        candidates, bounded: how many there were, and how many the bounds left out.
    """

    best: Evaluation | None = None
    nearest: Evaluation | None = None
    trials: list[Evaluation] = field(default_factory=list)
    candidates: int = 0
    bounded: int = 0


def search(
    candidates: Iterable[Candidate],
    traffic: Sequence[Traffic],
    promise: Promise,
    budget: float | None,
    least: bool,
    progress: Progress,
) -> Found:
    """Find the cheapest candidate that keeps a promise.

    Args:
        candidates: those to choose from.
        traffic: of each model.
        promise: what is promised.
        budget: USD a month; None for any. Places without a price cost one unit an instance.
        least: how a balancer chooses; see `Machines`.
        progress: called for every cost that is tried.
    """
    found = Found()
    waiting: list[Waiting] = []
    for number, candidate in enumerate(candidates):
        found.candidates += 1
        if fastest(candidate, traffic, promise.percentile) > promise.latency_ms:
            found.bounded += 1
            continue
        count = least_instances(candidate, traffic) + promise.one_down
        heapq.heappush(waiting, (cost(candidate, count), number, count, candidate))
    open_at_first, hopeful = len(waiting), set[int]()
    with ThreadPoolExecutor(os.cpu_count() or 1) as threads:
        while waiting and found.best is None:
            price = waiting[0][0]
            if budget is not None and price * HOURS_A_MONTH > budget and waiting[0][3].place.per_hour is not None:
                found.bounded += len(waiting)
                break
            level = []
            while waiting and waiting[0][0] <= price * (1 + 1e-9):
                level.append(heapq.heappop(waiting))
            progress(f"{price:.4g} an hour, {len(level)} candidates", open_at_first - len(waiting), open_at_first)
            rough = _evaluate(threads, level, traffic, promise, ROUGH, least)
            found.trials += [Evaluation(one[3], figures) for one, figures in zip(level, rough, strict=True)]
            order = sorted(range(len(level)), key=lambda place: rough[place].promised)
            near = [place for place in order if rough[place].promised <= NEAR * promise.latency_ms][:REFINED]
            fine = _evaluate(threads, [level[place] for place in near], traffic, promise, FINE, least)
            kept = [
                Evaluation(level[at][3], figures)
                for at, figures in zip(near, fine, strict=True)
                if figures.keeps(promise)
            ]
            found.trials += [Evaluation(level[at][3], figures) for at, figures in zip(near, fine, strict=True)]
            if kept:
                found.best = min(kept, key=lambda trial: trial.figures.promised * trial.candidate.doubt)
                break
            for _, number, count, candidate in level:
                if number not in hopeful:
                    light = evaluate(candidate, count * LIGHT + 1, traffic, promise, ROUGH, least=False)
                    if not light.keeps(promise):
                        found.bounded += 1
                        continue
                    hopeful.add(number)
                more = count + max(1, count // STEP)
                if more <= MOST_INSTANCES:
                    heapq.heappush(waiting, (cost(candidate, more), number, more, candidate))
    found.bounded += len({number for _, number, _, _ in waiting} - hopeful) if found.best else 0
    if found.trials:
        found.nearest = min(found.trials, key=lambda trial: (-round(trial.figures.answered, 3), trial.figures.promised))
    return found


def _evaluate(
    threads: ThreadPoolExecutor,
    chosen: Sequence[Waiting],
    traffic: Sequence[Traffic],
    promise: Promise,
    requests: int,
    least: bool,
) -> list[Prediction]:
    """Simulate candidates at the same time; compiled code leaves the other threads alone."""
    return list(threads.map(lambda one: evaluate(one[3], one[2], traffic, promise, requests, least), chosen))


def cost(candidate: Candidate, count: int) -> float:
    """USD an hour of a number of instances; their number if there is no price."""
    per_hour = candidate.place.per_hour
    return count * (1.0 if per_hour is None else per_hour)


def fastest(candidate: Candidate, traffic: Sequence[Traffic], percentile: float) -> float:
    """The percentile of latencies, in milliseconds, if every request came alone: no simulation has less."""
    found = []
    for variant, groups, own in zip(candidate.variants, candidate.groups, traffic, strict=True):
        costs = variant.costs[groups[0]]
        rows = _row_times(costs, own) * own.instances
        alone = (
            costs.outside
            + costs.gap
            + costs.handing
            + costs.batch
            + costs.request
            + own.instances * costs.instance
            + rows
        )
        found.append(float(np.percentile(alone, percentile)) * costs.spread[0])
    # of all requests together, at least the percentile of the quickest model
    return min(found)


def least_instances(candidate: Candidate, traffic: Sequence[Traffic]) -> int:
    """The least number of instances whose cores have time for all requests."""
    core_ms, most = 0.0, 0.0
    for variant, groups, own in zip(candidate.variants, candidate.groups, traffic, strict=True):
        costs = variant.costs[groups[0]]
        request = costs.batch / candidate.batch_size + costs.request
        request += own.instances * (costs.instance + float(_row_times(costs, own).mean()))
        core_ms += own.rate * request * groups[0] * costs.used
        most = max(most, own.rate * request / len(groups))
    return max(1, math.ceil(most / 1000), math.ceil(core_ms / 1000 / candidate.place.cores))


def _row_times(costs: WorkerModel, own: Traffic) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """For a sample of texts, the least milliseconds of a graph that they can need."""
    tokens = own.tokens[:: max(1, len(own.tokens) // SAMPLE)]
    return np.array([min(_share(shape, time, count) for shape, time in costs.times.items()) for count in tokens])


def _share(shape: Shape, time: float, tokens: int) -> float:
    """The least milliseconds of a row in calls of a shape that take so long; infinite if it is too long for them."""
    if shape.sequence_length < tokens:
        return math.inf
    return time * tokens / shape.tokens if shape.packed else time / shape.batch_size
