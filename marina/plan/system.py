"""The system that a candidate is on a number of instances, and a simulation of it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from marina.plan.candidates import Candidate, MachineType
from marina.plan.simulator.run import simulate
from marina.plan.simulator.system import Service, WorkerModel, machines_of, models_of
from marina.plan.simulator.values import ANSWERED, Floats, Machines, Models, SimulationResult
from marina.plan.workload import Promise, Traffic, draw
from marina.spec.sections import WorkerServing

SEED = 1
WARM_UP_SHARE = 0.05  # of the requests, which are not counted: the queues are empty at first


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
    least_loaded: bool

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

    def latency_below(self, percentile: float, probability: float, requests: int) -> tuple[float, float]:
        """The latency that measurements of a percentile stay below with this probability, in milliseconds.

        Returns:
            The latency, and the share of the requests that are answered then.
        """
        end = int(probability >= 0.5)  # of the bounds of estimates
        slowdowns = [
            (variant.uncertainty.at(percentile, probability), variant.bounds[end] if variant.bounds else 1.0)
            for variant in self.candidate.variants
        ]
        latencies, answered = counted_latencies(self.simulate(requests, slowdowns))
        return float(np.percentile(latencies, percentile)) if len(latencies) else math.inf, answered


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
