"""The costs of a worker in a simulation, from a calibration."""

from __future__ import annotations

import numpy as np

from handlers.worker.values import Shape
from marina.plan.calibration.record import ServerCosts, WorkerCosts
from marina.plan.simulator.system import WorkerModel


def costs_of(
    worker: WorkerCosts, server: ServerCosts, alone: bool, client_here: bool, core_usage: float = 1.0
) -> WorkerModel:
    """The costs of a worker in a simulation, from a calibration.

    Args:
        worker, server: of the calibration.
        alone: whether the worker has all cores of its machine.
        client_here: whether the load generator computes on the machine too.
        core_usage: see `WorkerModel`, and `core_usage_of`.
    """
    slower = server.slower_alone if alone else server.slower
    return WorkerModel(
        times={Shape.parse(shape): time * slower for shape, time in worker.times.items()},
        again={Shape.parse(shape): time * slower for shape, time in worker.again.items()},
        spread=tuple(1 + (factor - 1) * server.tail if factor > 1 else factor for factor in worker.spread),
        idle=server.idle,
        batch=worker.batch,
        request=worker.request,
        gap=server.gap,
        handing=server.request,
        instance=worker.instance,
        token=worker.token,
        outside=server.outside,
        replying=server.replying,
        front=server.front + (server.client if client_here else 0.0),
        core_usage=core_usage,
    )


def core_usage_of(worker: WorkerCosts, single_core_worker: WorkerCosts) -> float:
    """The part of its cores' time that a worker uses: how well graphs scale from one core to its cores."""
    shares = [single_core_worker.times[shape] / (worker.cores * time) for shape, time in worker.times.items()]
    return min(1.0, float(np.median(shares)))
