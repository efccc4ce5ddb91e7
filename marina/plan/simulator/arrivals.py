"""A request arrives: the balancer chooses its instance, and it enters the queue of its model or is refused."""

from __future__ import annotations

import heapq

import numpy as np

from marina.plan.simulator.batches import join_queue
from marina.plan.simulator.cores import add_front
from marina.plan.simulator.events import ENTER, RETRY_MS, Event, schedule_ends, send_next
from marina.plan.simulator.state import State
from marina.plan.simulator.values import LOST, QUEUE_FULL, UNFINISHED, Machines, System, compiled


@compiled
def arrive(state: State, system: System, events: list[Event], request: int, now: float) -> int:
    """Hand a request to an instance; returns its station if it enters a queue at once, else -1."""
    machines = system.machines
    state.sent[request] = now
    instance = _choose_instance(state, machines, now)
    if instance < 0:
        state.status[request] = LOST
        send_next(state, system.requests, events, now + RETRY_MS)
        return -1
    state.instance[request] = instance
    state.under_way[instance] += 1
    front = system.models.front[system.requests.model[request]] / 2
    if add_front(state.cores, machines, instance, now, front):
        schedule_ends(state, machines, events, instance)
    at = max(now, state.entered[instance] + machines.entering)
    state.entered[instance] = at
    if at > now:
        heapq.heappush(events, (at, ENTER, request, 0))
        return -1
    return enter(state, system, events, request, now)


@compiled
def enter(state: State, system: System, events: list[Event], request: int, now: float) -> int:
    """Put a request into a queue; returns its station, or -1 if it is refused."""
    model, instance = int(system.requests.model[request]), int(state.instance[request])
    station = instance * system.models.batch_size.size + model
    if state.status[request] != UNFINISHED:  # its instance was lost meanwhile
        return -1
    if state.queues.size[station] >= system.models.queue[model]:
        state.status[request] = QUEUE_FULL
        state.under_way[instance] -= 1
        send_next(state, system.requests, events, now + RETRY_MS)
        return -1
    join_queue(state.queues, station, request)
    return station


@compiled
def _choose_instance(state: State, machines: Machines, now: float) -> int:
    """The instance that the balancer chooses; -1 if none takes requests."""
    start = np.random.randint(machines.instances)
    best = -1
    for step in range(machines.instances):
        instance = (start + step) % machines.instances
        if machines.down[instance] <= now < machines.up[instance]:
            continue
        if not machines.least_loaded or state.under_way[instance] == 0:
            return instance
        if best < 0 or state.under_way[instance] < state.under_way[best]:
            best = instance
    return best
