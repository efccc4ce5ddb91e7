"""A choice over a day, when an instance is lost, and while the instances are upgraded."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from marina.plan.evaluation.evaluate import SEED, Deployment, system_of
from marina.plan.evaluation.limits import Reach
from marina.plan.simulator.run import simulate
from marina.plan.simulator.values import ANSWERED, Machines
from marina.plan.workload import Workload, draw

HOURS = 24
REQUESTS = 40_000
MAX_SIMULATED = 50  # instances; a larger fleet behaves the same
START, END = 0.3, 0.7  # of the simulated time: when an instance is lost, and back again; or all are upgraded


class Disruption(NamedTuple):
    """What clients see during a disruption: the promised percentile in milliseconds, and requests without an answer."""

    latency_ms: float
    lost: int


def by_hour(workload: Workload, rate: float, reach: Reach, count: int) -> list[int]:
    """The smallest number of instances that keeps the promise at each hour of the day; empty if no model has a curve.

    Args:
        workload: with the curves.
        rate: requests per second of all models at the peak.
        reach: of the choice.
        count: of the instances of the choice.
    """
    if not any(demand.curve for demand in workload.models):
        return []
    spare = int(workload.promise.one_down)
    rate_of_one = reach.rate / (count - spare)
    counts = []
    for hour in range(HOURS):
        # the busiest model decides, since the reach is for all models in the proportions of the peak
        share = max(demand.rate_at(hour) / (demand.peak or 1.0) for demand in workload.models)
        counts.append(max(1, math.ceil(share * rate / rate_of_one)) + spare)
    return counts


def disrupt(deployment: Deployment, upgrade: bool) -> Disruption | None:
    """Simulate that an instance is lost, or that the instances are upgraded.

    Args:
        deployment: the choice.
        upgrade: whether the instances are upgraded one after the other, each drained before; else one is lost with all
            its requests, and comes back later.

    Returns:
        None if there is only one instance.
    """
    simulated = min(deployment.count, MAX_SIMULATED)
    if simulated < 2:
        return None
    models, machines = system_of(deployment.candidate, simulated, deployment.least_loaded)
    requests = draw(list(deployment.traffic), REQUESTS, simulated / deployment.count, SEED)
    down_at, up_at = (float(share * requests.at[-1]) for share in (START, END))
    outcome = simulate(requests, models, _with_downtime(machines, simulated, down_at, up_at, upgrade), SEED)
    disrupted = (outcome.sent >= down_at) & (outcome.sent < up_at)
    latencies = outcome.latency[disrupted & (outcome.status == ANSWERED)]
    promised_ms = float(np.percentile(latencies, deployment.promise.percentile)) if len(latencies) else math.inf
    return Disruption(promised_ms, int((outcome.status != ANSWERED).sum()))


def _with_downtime(machines: Machines, count: int, down_at: float, up_at: float, upgrade: bool) -> Machines:
    """The machines with one lost from `down_at` to `up_at`, or with each of them out of service in turn."""
    if upgrade:
        edges = np.linspace(down_at, up_at, count + 1)
        return machines._replace(down=edges[:-1].copy(), up=edges[1:].copy())
    down, up, lost = np.full(count, np.inf), np.full(count, np.inf), np.zeros(count, np.int64)
    down[0], up[0], lost[0] = down_at, up_at, 1
    return machines._replace(down=down, up=up, lost=lost)
