"""Batches that compute at the same time, and what they take from each other.

A batch has work: the milliseconds that it would take alone. Several workers that share a core share its time equally;
a worker of several cores is as fast as its slowest core. Its cores wait for each other now and then; that time is left
to the workers that share them. If other cores compute too, all are slower, since they share caches and memory. What
TorchServe and a client on the same machine compute for requests is done by idle cores, or else it delays one of the
batches.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from marina.plan.simulator.values import Floats, Ints, Machines, compiled


class CoreStates(NamedTuple):
    """The state of all cores and workers.

    Attributes:
        active: workers that compute on each core, shape (instances, cores).
        running: whether each worker computes, shape (instances * workers,), as are the next five.
        work: milliseconds of work left in its batch.
        speed: work per millisecond.
        since: when `work` was last updated.
        version: counts the schedules of its end; an end of an older version is void.
        ended: when its last batch ended.
        front: milliseconds of CPU time for requests that no core has computed yet, shape (instances,).
        front_since: when `front` was last updated, shape (instances,).
    """

    active: Ints
    running: Ints
    work: Floats
    speed: Floats
    since: Floats
    version: Ints
    ended: Floats
    front: Floats
    front_since: Floats


@compiled
def pace(cores: CoreStates, machines: Machines, instance: int, now: float) -> None:
    """Bring the work of all workers of an instance up to date, and set their speeds anew."""
    workers = machines.worker_cores.shape[0]
    busy = 0
    for core in range(machines.cores):
        busy += cores.active[instance, core] > 0
    for index in range(workers):
        worker = instance * workers + index
        if not cores.running[worker]:
            continue
        cores.work[worker] -= (now - cores.since[worker]) * cores.speed[worker]
        cores.since[worker] = now
        workers_on_core, worker_core_count = 1, 0
        for core in range(machines.cores):
            if machines.worker_cores[index, core]:
                workers_on_core = max(workers_on_core, cores.active[instance, core])
                worker_core_count += 1
        busy_share = max(0, busy - worker_core_count) / max(1, machines.cores - worker_core_count)
        # time that one worker leaves idle on a shared core is used by the other workers of that core
        slowdown = max(1.0, workers_on_core * machines.core_usage[index]) if workers_on_core > 1 else 1.0
        cores.speed[worker] = 1.0 / (slowdown * (1.0 + machines.contention * busy_share))
        cores.version[worker] += 1


@compiled
def take_cores(cores: CoreStates, machines: Machines, worker: int, change: int) -> None:
    """Count a worker on its cores (change 1) or off them (-1)."""
    workers = machines.worker_cores.shape[0]
    instance, index = worker // workers, worker % workers
    for core in range(machines.cores):
        if machines.worker_cores[index, core]:
            cores.active[instance, core] += change
    cores.running[worker] = change > 0


@compiled
def add_front(cores: CoreStates, machines: Machines, instance: int, now: float, work: float) -> bool:
    """Add CPU time of requests; returns whether it delayed a batch, whose end must be scheduled anew."""
    free = 0
    for core in range(machines.cores):
        free += cores.active[instance, core] == 0
    if free:
        elapsed = now - cores.front_since[instance]
        cores.front[instance] = max(0.0, cores.front[instance] - elapsed * free) + work
        cores.front_since[instance] = now
        return False
    cores.front[instance] += work
    if cores.front[instance] <= 0.0:
        return False
    workers = machines.worker_cores.shape[0]
    core = np.random.randint(machines.cores)
    victim = np.random.randint(cores.active[instance, core])
    for index in range(workers):
        worker = instance * workers + index
        if cores.running[worker] and machines.worker_cores[index, core]:
            if victim == 0:
                cores.work[worker] += cores.front[instance] * machines.stolen * cores.speed[worker]
                break
            victim -= 1
    cores.front[instance] = 0.0
    cores.front_since[instance] = now
    return True
