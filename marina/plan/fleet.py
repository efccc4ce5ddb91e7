"""What happens to a choice over a day, when an instance is lost, and while the instances are upgraded."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from marina.plan.candidates import Candidate
from marina.plan.evaluate import SEED, system_of
from marina.plan.limits import Reach
from marina.plan.simulator.run import simulate
from marina.plan.simulator.values import ANSWERED, Machines
from marina.plan.workload import Promise, Traffic, Workload, draw

HOURS = 24
REQUESTS = 40_000
MOST_SIMULATED = 50  # instances; of more, the rest does the same
START, END = 0.3, 0.7  # of the simulated time: when an instance is lost, and back again; or all are upgraded


class Disruption(NamedTuple):
    """What clients see meanwhile: the promised percentile in milliseconds, and requests that are not answered."""

    latency_ms: float
    lost: int


def by_hour(workload: Workload, rate: float, reach: Reach) -> list[int]:
    """The least instances that keep the promise at each hour of the day; empty if no model has a curve.

    Args:
        workload: with the curves.
        rate: requests per second of all models at the peak.
        reach: of the choice.
    """
    if not any(demand.curve for demand in workload.models):
        return []
    spare = int(workload.promise.one_down)
    found = []
    for hour in range(HOURS):
        # the busiest model decides, since the reach is for all models in the proportions of the peak
        share = max(demand.rate_at(hour) / (demand.peak or 1.0) for demand in workload.models)
        found.append(max(1, math.ceil(share * rate * 60 / reach.per_minute)) + spare)
    return found


def lose_one(
    candidate: Candidate, count: int, traffic: Sequence[Traffic], promise: Promise, least: bool
) -> Disruption | None:
    """An instance is lost with all requests that it has, and comes back later; None if it is the only one."""
    return _disrupt(candidate, count, traffic, promise, least, upgrade=False)


def upgrade(
    candidate: Candidate, count: int, traffic: Sequence[Traffic], promise: Promise, least: bool
) -> Disruption | None:
    """The instances are upgraded one after the other, each drained before; None if there is only one."""
    return _disrupt(candidate, count, traffic, promise, least, upgrade=True)


def _disrupt(
    candidate: Candidate, count: int, traffic: Sequence[Traffic], promise: Promise, least: bool, upgrade: bool
) -> Disruption | None:
    simulated = min(count, MOST_SIMULATED)
    if simulated < 2:
        return None
    models, machines = system_of(candidate, simulated, least)
    requests = draw(list(traffic), REQUESTS, simulated / count, SEED)
    first, last = (float(share * requests.at[-1]) for share in (START, END))
    outcome = simulate(requests, models, _without(machines, simulated, first, last, upgrade), SEED)
    meanwhile = (outcome.sent >= first) & (outcome.sent < last)
    latency = outcome.latency[meanwhile & (outcome.status == ANSWERED)]
    value = float(np.percentile(latency, promise.percentile)) if len(latency) else math.inf
    return Disruption(value, int((outcome.status != ANSWERED).sum()))


def _without(machines: Machines, count: int, first: float, last: float, upgrade: bool) -> Machines:
    """The machines with one lost from `first` to `last`, or with each of them out of service in turn."""
    if upgrade:
        edges = np.linspace(first, last, count + 1)
        return machines._replace(down=edges[:-1].copy(), up=edges[1:].copy())
    down, up, lost = np.full(count, np.inf), np.full(count, np.inf), np.zeros(count, np.int64)
    down[0], up[0], lost[0] = first, last, 1
    return machines._replace(down=down, up=up, lost=lost)
