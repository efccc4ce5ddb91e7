"""Finds the cheapest candidate that keeps a promise, without simulating all of them.

Bounds leave out some candidates without a simulation (`marina.plan.evaluation.bounds`). The others are simulated in
ascending order of their bound of cost; a candidate that fails comes back with more instances. So the first cost at
which a candidate keeps the promise is the lowest, and all costlier candidates are left out.
"""

from __future__ import annotations

import heapq
import math
import os
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import NamedTuple

from marina.console import Progress
from marina.plan.evaluation.bounds import latency_alone, min_instances
from marina.plan.evaluation.evaluate import HOURS_A_MONTH, Deployment, Prediction, evaluate
from marina.plan.options.candidates import Candidate
from marina.plan.workload import Promise, Traffic

ROUGH_REQUESTS, FINE_REQUESTS = 1500, 30_000  # requests of a simulation
SLACK = 1.25  # times the promise: a rough simulation that is worse has failed
MAX_REFINED = 12  # candidates of one cost that are simulated finely
STEP = 20  # instances grow by 1, or by this part of them
LIGHT_LOAD_FACTOR = 50  # so many more instances have nearly nothing to do
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
    with ThreadPoolExecutor(os.cpu_count() or 1) as threads:
        queue = _Queue(traffic, promise, least_loaded, threads)
        for candidate in candidates:
            queue.add(candidate)
        result, initial_size = queue.result, len(queue.waiting)
        while queue.waiting and result.best is None:
            cheapest = queue.waiting[0]
            usd_month = cheapest.cost * HOURS_A_MONTH
            if budget is not None and usd_month > budget and cheapest.candidate.place.per_hour is not None:
                result.pruned += len(queue.waiting)
                result.over_budget = usd_month
                break
            level = queue.take_cheapest()
            progress(
                f"{cheapest.cost:.4g} an hour, {len(level)} candidates", initial_size - len(queue.waiting), initial_size
            )
            result.best = queue.simulate(level)
            if result.best is None:
                queue.grow(level)
        queue.finish()
        return result


class _Queue:
    """The candidates that wait to be simulated, cheapest first, and the result so far.

    Args:
        traffic, promise, least_loaded: as in `search`.
        threads: simulate candidates at the same time; compiled code leaves the other threads alone.
    """

    def __init__(
        self, traffic: Sequence[Traffic], promise: Promise, least_loaded: bool, threads: ThreadPoolExecutor
    ) -> None:
        self.result = SearchResult()
        self.waiting: list[QueuedCandidate] = []
        self._traffic = traffic
        self._promise = promise
        self._least_loaded = least_loaded
        self._threads = threads
        self._feasible: set[int] = set()  # numbers of the candidates that keep the promise with nearly nothing to do
        self._infeasible: list[Evaluation] = []  # the others, with nearly nothing to do

    def add(self, candidate: Candidate) -> None:
        """Let a candidate wait, unless the bounds leave it out."""
        number = self.result.candidates
        self.result.candidates += 1
        if latency_alone(candidate, self._traffic, self._promise.percentile) > self._promise.latency_ms:
            self.result.pruned += 1
        else:
            self._push(number, min_instances(candidate, self._traffic) + self._promise.one_down, candidate)

    def take_cheapest(self) -> list[QueuedCandidate]:
        """Remove all candidates of the lowest cost."""
        limit = self.waiting[0].cost * (1 + 1e-9)
        level = []
        while self.waiting and self.waiting[0].cost <= limit:
            level.append(heapq.heappop(self.waiting))
        return level

    def simulate(self, level: Sequence[QueuedCandidate]) -> Evaluation | None:
        """Simulate all roughly, and the promising ones finely; returns the best that keeps the promise."""
        rough = self._evaluate(level, ROUGH_REQUESTS)
        sure_ms = [trial.figures.sure for trial in rough]
        order = sorted(range(len(level)), key=lambda place: sure_ms[place])
        limit = SLACK * self._promise.latency_ms
        fine = self._evaluate([level[place] for place in order if sure_ms[place] <= limit][:MAX_REFINED], FINE_REQUESTS)
        self.result.trials += [*rough, *fine]
        keeping = [trial for trial in fine if trial.figures.keeps(self._promise)]
        return min(keeping, key=lambda trial: _worst(trial, self._promise), default=None)

    def grow(self, level: Sequence[QueuedCandidate]) -> None:
        """Let candidates that failed wait with more instances, except those that no number of instances helps."""
        for _, number, count, candidate in level:
            if number not in self._feasible:
                light_load = self._with_light_load(candidate, count * LIGHT_LOAD_FACTOR + 1, ROUGH_REQUESTS)
                if not light_load.keeps(self._promise):
                    self.result.pruned += 1
                    self._infeasible.append(Evaluation(candidate, light_load))
                    continue
                self._feasible.add(number)
            more = count + max(1, count // STEP)
            if more <= MAX_INSTANCES:
                self._push(number, more, candidate)

    def finish(self) -> None:
        """Complete the result, once its best candidate is known or no candidate waits."""
        result = self.result
        if result.best:
            result.pruned += len({queued.number for queued in self.waiting} - self._feasible)
        elif self._infeasible and not (self._feasible or result.over_budget):
            candidate, figures = min(self._infeasible, key=self._miss)
            sure_ms = self._with_light_load(candidate, figures.count, FINE_REQUESTS).sure
            result.light_load_ms = sure_ms if self._promise.latency_ms < sure_ms < math.inf else None
        # a fine simulation of a candidate comes after its rough one
        latest = {(id(trial.candidate), trial.figures.count): trial for trial in result.trials}
        result.nearest = min(latest.values(), key=self._miss, default=None)

    def _push(self, number: int, count: int, candidate: Candidate) -> None:
        heapq.heappush(self.waiting, QueuedCandidate(cost(candidate, count), number, count, candidate))

    def _evaluate(self, level: Sequence[QueuedCandidate], requests: int) -> list[Evaluation]:
        def work(queued: QueuedCandidate) -> Evaluation:
            deployment = Deployment(
                queued.candidate, queued.instances, self._traffic, self._promise, self._least_loaded
            )
            return Evaluation(queued.candidate, evaluate(deployment, requests))

        return list(self._threads.map(work, level))

    def _with_light_load(self, candidate: Candidate, count: int, requests: int) -> Prediction:
        return evaluate(Deployment(candidate, count, self._traffic, self._promise), requests)

    def _miss(self, trial: Evaluation) -> tuple[float, float]:
        """By how much it misses the promise: requests that it should have answered, then the latency."""
        return max(0.0, self._promise.answered - trial.figures.answered), trial.figures.sure


def _worst(trial: Evaluation, promise: Promise) -> float:
    """The promised percentile at the upper bound of an estimate, which a promise with confidence has in it."""
    return trial.figures.sure * (trial.candidate.worst_slowdown if promise.confidence is None else 1.0)


def cost(candidate: Candidate, count: int) -> float:
    """USD an hour of a number of instances; their number if there is no price."""
    per_hour = candidate.place.per_hour
    return count * (1.0 if per_hour is None else per_hour)
