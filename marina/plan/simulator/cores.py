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
        work: milliseconds of work that are left of its batch.
        speed: work per millisecond.
        since: when `work` was right.
        version: counts the schedules of its end; an end of an older version is void.
        ended: when its last batch ended.
        front: milliseconds of CPU time for requests that nobody has computed yet, shape (instances,).
        front_since: when `front` was right, shape (instances,).
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
    for own in range(workers):
        worker = instance * workers + own
        if not cores.running[worker]:
            continue
        cores.work[worker] -= (now - cores.since[worker]) * cores.speed[worker]
        cores.since[worker] = now
        shared, mine = 1, 0
        for core in range(machines.cores):
            if machines.worker_cores[own, core]:
                shared = max(shared, cores.active[instance, core])
                mine += 1
        others = max(0, busy - mine) / max(1, machines.cores - mine)
        # what the workers that share cores leave idle of them, the others use
        shared_time = max(1.0, shared * machines.used[own]) if shared > 1 else 1.0
        cores.speed[worker] = 1.0 / (shared_time * (1.0 + machines.contention * others))
        cores.version[worker] += 1


@compiled
def take_cores(cores: CoreStates, machines: Machines, worker: int, change: int) -> None:
    """Count a worker on its cores (change 1) or off them (-1)."""
    workers = machines.worker_cores.shape[0]
    instance, own = worker // workers, worker % workers
    for core in range(machines.cores):
        if machines.worker_cores[own, core]:
            cores.active[instance, core] += change
    cores.running[worker] = change > 0


@compiled
def add_front(cores: CoreStates, machines: Machines, instance: int, now: float, work: float) -> bool:
    """Add CPU time of requests; returns whether a batch was delayed by it, whose end must be scheduled anew."""
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
    for own in range(workers):
        worker = instance * workers + own
        if cores.running[worker] and machines.worker_cores[own, core]:
            if victim == 0:
                cores.work[worker] += cores.front[instance] * machines.stolen * cores.speed[worker]
                break
            victim -= 1
    cores.front[instance] = 0.0
    cores.front_since[instance] = now
    return True
