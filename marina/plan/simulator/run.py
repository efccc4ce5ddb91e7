"""The loop over events: a request arrives, a wait for more requests ends, a batch ends, an instance is lost."""

from __future__ import annotations

import heapq

import numpy as np

from marina.plan.simulator.arrivals import arrive, enter
from marina.plan.simulator.batches import lose_queue
from marina.plan.simulator.cores import take_cores
from marina.plan.simulator.events import ARRIVE, BEGIN, END, ENTER, FAIL, RETRY_MS, WAITED, Event, send_next
from marina.plan.simulator.state import State, new_state
from marina.plan.simulator.values import (
    LOST,
    UNFINISHED,
    Machines,
    Models,
    Requests,
    SimulationResult,
    System,
    compiled,
)
from marina.plan.simulator.workers import begin_batch, dispatch_batch, end_batch, form_batches

STAGGER_MS = 0.01  # between the first requests of a closed loop


def simulate(requests: Requests, models: Models, machines: Machines, seed: int) -> SimulationResult:
    """Simulate until every request is answered, refused or lost. The same seed gives the same outcome."""
    return _simulate(System(requests, models, machines), seed)


@compiled
def _simulate(system: System, seed: int) -> SimulationResult:
    np.random.seed(seed)
    requests, models, machines = system.requests, system.models, system.machines
    state = new_state(requests, models, machines)
    events = [(np.inf, ARRIVE, 0, 0)]
    for instance in range(machines.instances):
        if machines.lost[instance]:
            heapq.heappush(events, (machines.down[instance], FAIL, instance, 0))
    for _ in range(min(requests.connections, requests.model.size)):
        send_next(state, system.requests, events, state.next_request[0] * STAGGER_MS)
    while True:
        next_request = state.next_request[0]
        if (
            not requests.connections
            and next_request < requests.model.size
            and requests.at[next_request] <= events[0][0]
        ):
            now, kind, subject, version = requests.at[next_request], ARRIVE, next_request, 0
            state.next_request[0] += 1
        else:
            now, kind, subject, version = heapq.heappop(events)
        if now == np.inf:
            break
        station = _handle(state, system, events, kind, subject, version, now)
        if station >= 0:
            form_batches(state, system, events, station, now)
    return SimulationResult(
        state.latency,
        state.status,
        state.sent,
        state.batches,
        state.batched,
        state.busy,
        state.computed,
        state.real,
    )


@compiled
def _handle(
    state: State, system: System, events: list[Event], kind: int, subject: int, version: int, now: float
) -> int:
    """Handle an event; returns the station whose workers may form a batch now, or -1."""
    if kind == ARRIVE:
        return arrive(state, system, events, subject, now)
    if kind == ENTER:
        return enter(state, system, events, subject, now)
    if kind == WAITED and version == state.queues.version[subject] and state.queues.formed[subject]:
        dispatch_batch(state, system, events, subject, now)
        return subject
    if kind == BEGIN and version == state.cores.version[subject]:
        begin_batch(state, system, events, subject, now)
    if kind == END and version == state.cores.version[subject] and state.cores.running[subject]:
        return end_batch(state, system, events, subject, now)
    if kind == FAIL:
        _fail_instance(state, system, events, subject, now)
    return -1


@compiled
def _fail_instance(state: State, system: System, events: list[Event], instance: int, now: float) -> None:
    """Lose all requests that an instance has; its workers are idle when it comes back."""
    models, machines = system.models, system.machines
    workers_per_instance, model_count = machines.worker_cores.shape[0], models.batch_size.size
    for request in range(state.status.size):
        sent = request < state.next_request[0] and state.sent[request] <= now
        if sent and state.status[request] == UNFINISHED and state.instance[request] == instance:
            state.status[request] = LOST
            send_next(state, system.requests, events, now + RETRY_MS)
    state.under_way[instance] = 0
    for station in range(instance * model_count, (instance + 1) * model_count):
        lose_queue(state.queues, station)
    for worker in range(instance * workers_per_instance, (instance + 1) * workers_per_instance):
        state.cores.version[worker] += 1
        if state.formed[worker]:
            if state.cores.running[worker]:
                take_cores(state.cores, machines, worker, -1)
            state.formed[worker] = 0
            station = instance * model_count + state.model[worker % workers_per_instance]
            state.queues.idle[station, state.queues.idle_size[station]] = worker
            state.queues.idle_size[station] += 1
