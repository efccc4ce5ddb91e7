"""A batch: an idle worker forms it, begins it, computes it and answers its requests."""

from __future__ import annotations

import heapq

import numpy as np

from marina.plan.simulator.batches import FORMED, WAITING, form_batch
from marina.plan.simulator.calls import plan_calls
from marina.plan.simulator.cores import add_front, pace, take_cores
from marina.plan.simulator.events import BEGIN, WAITED, Event, schedule_ends, send_next
from marina.plan.simulator.state import State
from marina.plan.simulator.values import ANSWERED, Ints, Models, Requests, System, compiled

IDLE_MS = 5.0  # a worker that was idle for longer has cold caches, and its processor sleeps


@compiled
def form_batches(state: State, system: System, events: list[Event], station: int, now: float) -> None:
    """Let idle workers of a station take requests, and start the batches that are ready."""
    models = system.models
    model = station % models.batch_size.size
    while True:
        batch_state = form_batch(state.queues, station, now, models.batch_size[model], models.delay[model])
        if batch_state == WAITING and state.queues.formed[station]:
            state.queues.version[station] += 1
            until = now + state.queues.left[station] + system.machines.timer
            heapq.heappush(events, (until, WAITED, station, state.queues.version[station]))
        if batch_state != FORMED:
            return
        dispatch_batch(state, system, events, station, now)


@compiled
def dispatch_batch(state: State, system: System, events: list[Event], station: int, now: float) -> None:
    """Hand the batch of a station to the worker that formed it."""
    queues, models = state.queues, system.models
    model = station % models.batch_size.size
    worker, count = queues.former[station], queues.formed[station]
    queues.former[station], queues.formed[station] = -1, 0
    queues.version[station] += 1
    work = _work_of(state, system.requests, models, model, queues.batch[worker], count)
    work *= models.spread[model, np.random.randint(models.spread.shape[1])]
    state.late[worker] = 0.0
    if now - state.cores.ended[worker] > IDLE_MS:
        state.late[worker] = models.idle_spread[model, np.random.randint(models.idle_spread.shape[1])]
    state.started[worker], state.formed[worker], state.cores.work[worker] = now, count, work
    state.cores.version[worker] += 1
    at = now + models.gap[model] + count * models.handing[model]
    heapq.heappush(events, (at, BEGIN, worker, state.cores.version[worker]))


@compiled
def begin_batch(state: State, system: System, events: list[Event], worker: int, now: float) -> None:
    """Let a worker compute its batch."""
    machines = system.machines
    instance = worker // machines.worker_cores.shape[0]
    pace(state.cores, machines, instance, now)
    take_cores(state.cores, machines, worker, 1)
    state.cores.since[worker], state.cores.speed[worker] = now, 1.0
    pace(state.cores, machines, instance, now)
    add_front(state.cores, machines, instance, now, 0.0)
    schedule_ends(state, machines, events, instance)


@compiled
def end_batch(state: State, system: System, events: list[Event], worker: int, now: float) -> int:
    """Answer the requests of a batch; returns its station."""
    models, machines = system.models, system.machines
    workers_per_instance = machines.worker_cores.shape[0]
    instance, model = worker // workers_per_instance, int(state.model[worker % workers_per_instance])
    station = instance * models.batch_size.size + model
    pace(state.cores, machines, instance, now)
    take_cores(state.cores, machines, worker, -1)
    pace(state.cores, machines, instance, now)
    state.cores.ended[worker] = now
    state.busy[worker % workers_per_instance] += now - state.started[worker]
    for place in range(state.formed[worker]):
        request = state.queues.batch[worker, place]
        at = now + models.outside[model] + place * models.replying[model] + state.late[worker]
        state.status[request] = ANSWERED
        state.latency[request] = at - state.sent[request]
        state.under_way[instance] -= 1
        send_next(state, system.requests, events, at)
    add_front(state.cores, machines, instance, now, state.formed[worker] * models.front[model] / 2)
    state.formed[worker] = 0
    schedule_ends(state, system.machines, events, instance)
    state.queues.idle[station, state.queues.idle_size[station]] = worker
    state.queues.idle_size[station] += 1
    return int(station)


@compiled
def _work_of(state: State, requests: Requests, models: Models, model: int, batch: Ints, count: int) -> float:
    """Milliseconds that a batch takes alone, without chance; counts it."""
    row_count, tokens = 0, 0
    for place in range(count):
        request = batch[place]
        for index in range(requests.first[request], requests.first[request + 1]):
            state.rows[row_count] = requests.tokens[index]
            tokens += requests.tokens[index]
            row_count += 1
    graphs, computed = plan_calls(state.rows, row_count, model, models, state.min_times, state.last_entries)
    state.batches[model] += 1
    state.batched[model] += count
    state.computed[model] += computed
    state.real[model] += tokens
    overhead = models.batch[model] + count * models.request[model] + row_count * models.instance[model]
    return float(graphs + overhead + tokens * models.token[model])
