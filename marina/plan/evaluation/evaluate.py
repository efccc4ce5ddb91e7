"""Simulates one candidate on a number of instances."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from marina.bench.report.pricing import cost_per_1m
from marina.plan.options.candidates import Candidate, MachineType
from marina.plan.simulator.run import simulate
from marina.plan.simulator.system import Service, WorkerModel, machines_of, models_of
from marina.plan.simulator.uncertainty import RANGE, range_around
from marina.plan.simulator.values import ANSWERED, Floats, Machines, Models, SimulationResult
from marina.plan.workload import Promise, Traffic, draw
from marina.spec.sections import WorkerServing

HOURS_A_MONTH = 730
PERCENTILES = (50, 95, 99)
SEED = 1
WARM_UP_SHARE = 0.05  # of the requests, which are not counted: the queues are empty at first


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


@dataclass(frozen=True)
class Deployment:
    """A candidate on a number of instances, and the workload that comes to them.

    Attributes:
        candidate: how the models are served.
        count: of instances.
        traffic: of each model.
        promise: to clients; one instance fewer takes requests if that is promised.
        least_loaded: whether the balancer chooses the instance with the fewest requests.
    """

    candidate: Candidate
    count: int
    traffic: Sequence[Traffic]
    promise: Promise
    least_loaded: bool = False

    @property
    def simulated(self) -> int:
        """The instances to simulate.

        Behind a balancer that chooses at random, the requests of each instance are a sample of all requests,
        independent of the other samples (the parts of a Poisson process are Poisson processes). So one instance stands
        for all.
        """
        return self.instances_up if self.least_loaded else 1

    @property
    def instances_up(self) -> int:
        """The instances that take requests."""
        return self.count - 1 if self.promise.one_down else self.count

    def simulate(self, requests: int, slowdowns: Sequence[tuple[float, float]] | None = None) -> SimulationResult:
        """Simulate a number of requests.

        Args:
            requests: number of requests.
            slowdowns: how much slower than predicted each model is: factors for everything, and for its graphs.
        """
        models, machines = system_of(self.candidate, self.simulated, self.least_loaded, slowdowns)
        drawn = draw(list(self.traffic), requests, self.simulated / self.instances_up, SEED)
        return simulate(drawn, models, machines, SEED)

    def latency_below(self, percentile: float, probability: float, requests: int) -> float:
        """The latency that measurements of a percentile stay below with this probability, in milliseconds.

        It is infinite if fewer requests than promised are answered then.
        """
        end = int(probability >= 0.5)  # of the bounds of estimates
        slowdowns = [
            (variant.uncertainty.at(percentile, probability), variant.bounds[end] if variant.bounds else 1.0)
            for variant in self.candidate.variants
        ]
        latencies, answered = counted_latencies(self.simulate(requests, slowdowns))
        return float(np.percentile(latencies, percentile)) if answered >= self.promise.answered else math.inf


def counted_latencies(outcome: SimulationResult) -> tuple[Floats, float]:
    """The latencies of answered requests in milliseconds, and the share of the requests that were answered."""
    warm_up = round(WARM_UP_SHARE * len(outcome.status))
    answered = outcome.status[warm_up:] == ANSWERED
    return outcome.latency[warm_up:][answered], float(answered.mean())


def system_of(
    candidate: Candidate,
    count: int = 1,
    least_loaded: bool = False,
    slowdowns: Sequence[tuple[float, float]] | None = None,
) -> tuple[Models, Machines]:
    """The models and machines of a candidate, for a simulation; for `slowdowns` see `Deployment.simulate`."""
    place = candidate.place
    queue = WorkerServing(batch_size=candidate.batch_size).queue
    services = [Service(groups, candidate.batch_size, candidate.delay_ms, queue) for groups in candidate.groups]
    costs = [variant.costs[groups[0]] for variant, groups in zip(candidate.variants, candidate.groups, strict=True)]
    if slowdowns is not None:
        costs = [cost.slower(*factors) for cost, factors in zip(costs, slowdowns, strict=True)]
    return models_of(costs, services), machines_at(place, costs, services, count, least_loaded)


def machines_at(
    place: MachineType,
    costs: Sequence[WorkerModel],
    services: Sequence[Service],
    count: int = 1,
    least_loaded: bool = False,
) -> Machines:
    """Instances of a place that serve these models."""
    core_usage = [cost.core_usage for cost in costs]
    return machines_of(
        services,
        place.cores,
        place.contention,
        place.stolen,
        place.entering,
        place.timer,
        count,
        least_loaded,
        core_usage,
    )


def evaluate(deployment: Deployment, requests: int) -> Prediction:
    """Simulate a number of requests that come to a deployment."""
    candidate, count, promise = deployment.candidate, deployment.count, deployment.promise
    outcome = deployment.simulate(requests)
    latencies, answered = counted_latencies(outcome)
    percentiles = (
        np.percentile(latencies, [*PERCENTILES, promise.percentile]) if len(latencies) else np.full(4, math.inf)
    )
    promised = sure = float(percentiles[3])
    if promise.confidence is not None:
        sure = max(promised, deployment.latency_below(promise.percentile, promise.confidence, requests))
    texts = answered * sum(model_traffic.rate * model_traffic.instances for model_traffic in deployment.traffic)
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


def with_ranges(prediction: Prediction, deployment: Deployment, requests: int) -> Prediction:
    """The prediction of `evaluate` for a deployment, with its ranges."""
    percentiles = {"p50": 50.0, "p99": 99.0, "promised": deployment.promise.percentile}
    ends = {
        percentile: [deployment.latency_below(percentile, end, requests) for end in RANGE]
        for percentile in set(percentiles.values())
    }
    ranges = {
        name: range_around(getattr(prediction, name), *ends[percentile]) for name, percentile in percentiles.items()
    }
    return replace(prediction, ranges=ranges)
