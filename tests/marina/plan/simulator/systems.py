"""Small systems to simulate."""

from __future__ import annotations

from typing import Any

import numpy as np

from handlers.worker.values import Shape
from marina.plan.simulator.run import simulate
from marina.plan.simulator.system import Service, WorkerModel, machines_of, models_of
from marina.plan.simulator.values import Requests, SimulationResult

ONE = Shape(1, 16)


def service_of(milliseconds: float, **fields: Any) -> WorkerModel:
    """A model with one graph for one row."""
    times = {ONE: milliseconds}
    return WorkerModel(times, times, **fields)


def poisson(rate: float, count: int, models: int = 1, seed: int = 0) -> Requests:
    """Single texts that come at random, so many in a second, for models in turn."""
    at = np.cumsum(np.random.default_rng(seed).exponential(1000 / rate, count))
    return at_times(at, models)


def at_times(at: Any, models: int = 1, connections: int = 0) -> Requests:
    """Single texts of 10 tokens at these milliseconds, for models in turn."""
    times = np.array(at, np.float64)
    count = len(times)
    tokens = np.full(count, 10, np.int64)
    return Requests(times, np.arange(count) % models, np.arange(count + 1), tokens, connections)


def run(
    requests: Requests, costs: list[WorkerModel], services: list[Service], cores: int = 1, seed: int = 0, **machine: Any
) -> SimulationResult:
    """Simulate instances that are alike."""
    changed = {name: machine.pop(name) for name in ("down", "up", "lost") if name in machine}
    machines = machines_of(services, cores, **machine)._replace(**changed)
    return simulate(requests, models_of(costs, services), machines, seed)
