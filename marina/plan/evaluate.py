"""Simulates one candidate on a number of instances."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from marina.bench.report.pricing import cost_per_1m
from marina.plan.candidates import Candidate, MachineType
from marina.plan.simulator.run import simulate
from marina.plan.simulator.system import Service, WorkerModel, machines_of, models_of
from marina.plan.simulator.values import ANSWERED, Machines, Models
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
        p50, p95, p99: of all answered requests.
        throughput: texts per second of all instances.
        utilisation: share of the workers' time in which they compute.
        padding: share of the computed tokens.
        batch: mean requests of a batch.
        megabytes: of the workers of an instance.
        usd_month, usd_1m: of all instances a month, and for a million texts; None if there is no price.
    """

    count: int
    answered: float
    promised: float
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

    def keeps(self, promise: Promise) -> bool:
        """Whether it keeps a promise."""
        return self.answered >= promise.answered and self.promised <= promise.latency_ms


def system_of(candidate: Candidate, count: int = 1, least_loaded: bool = False) -> tuple[Models, Machines]:
    """The models and machines of a candidate, for a simulation."""
    place = candidate.place
    queue = WorkerServing(batch_size=candidate.batch_size).queue
    services = [Service(groups, candidate.batch_size, candidate.delay_ms, queue) for groups in candidate.groups]
    costs = [variant.costs[groups[0]] for variant, groups in zip(candidate.variants, candidate.groups, strict=True)]
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


def evaluate(
    candidate: Candidate,
    count: int,
    traffic: Sequence[Traffic],
    promise: Promise,
    requests: int,
    least_loaded: bool = False,
) -> Prediction:
    """Simulate a workload on a number of instances.

    Behind a balancer that chooses at random, the requests of each instance are a sample of all requests, independent of
    the other samples (the parts of a Poisson process are Poisson processes). So one instance stands for all.

    Args:
        candidate: how the models are served.
        count: of instances; one fewer takes requests if that is promised.
        traffic: of each model.
        promise: the promise to judge by.
        requests: number of requests to simulate.
        least_loaded: whether the balancer chooses the instance with the fewest requests.
    """
    instances_up = count - 1 if promise.one_down else count
    simulated = instances_up if least_loaded else 1
    models, machines = system_of(candidate, simulated, least_loaded)
    drawn_requests = draw(list(traffic), requests, simulated / instances_up, SEED)
    outcome = simulate(drawn_requests, models, machines, SEED)
    warm_up = round(WARM_UP_SHARE * len(outcome.status))
    status, latency = outcome.status[warm_up:], outcome.latency[warm_up:]
    latencies = latency[status == ANSWERED]
    percentiles = (
        np.percentile(latencies, [*PERCENTILES, promise.percentile]) if len(latencies) else np.full(4, math.inf)
    )
    answered = float((status == ANSWERED).mean())
    texts = answered * sum(model_traffic.rate * model_traffic.instances for model_traffic in traffic)
    computed, price = outcome.computed.sum(), candidate.place.per_hour
    return Prediction(
        count=count,
        answered=answered,
        promised=float(percentiles[3]),
        p50=float(percentiles[0]),
        p95=float(percentiles[1]),
        p99=float(percentiles[2]),
        throughput=texts,
        utilisation=float(outcome.busy.sum() / (outcome.end * len(outcome.busy) * simulated)) if outcome.end else 0.0,
        padding=float(1 - outcome.real.sum() / computed) if computed else 0.0,
        batch=float(outcome.batched.sum() / max(1, outcome.batches.sum())),
        megabytes=candidate.megabytes,
        usd_month=None if price is None else price * count * HOURS_A_MONTH,
        usd_1m=None if price is None else cost_per_1m(price * count, texts),
    )
