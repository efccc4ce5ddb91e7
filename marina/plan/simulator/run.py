"""The loop over events: a request arrives, a wait for more requests ends, a batch ends, an instance is lost."""

from __future__ import annotations

import heapq

import numpy as np

from marina.plan.simulator.batches import FORMED, WAITING, form_batch, join_queue, lose_queue
from marina.plan.simulator.calls import plan_calls
from marina.plan.simulator.cores import add_front, pace, take_cores
from marina.plan.simulator.state import State, new_state
from marina.plan.simulator.values import (
    ANSWERED,
    LOST,
    QUEUE_FULL,
    TOO_LATE,
    UNFINISHED,
    Ints,
    Machines,
    Models,
    Requests,
    SimulationResult,
    System,
    compiled,
)

# a time, a kind, its subject (a request, a station, a worker or an instance), and the version of the subject
Event = tuple[float, int, int, int]
ARRIVE, ENTER, WAITED, BEGIN, END, FAIL = range(6)
STAGGER_MS, RETRY_MS = 0.01, 1.0  # between the first requests of a closed loop; after a refusal


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
        _send_next(state, system.requests, events, state.next_request[0] * STAGGER_MS)
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
            _form_batches(state, system, events, station, now)
    return SimulationResult(
        state.latency,
        state.status,
        state.sent,
        state.batches,
        state.batched,
        state.busy,
        state.computed,
        state.real,
        _last_answer(state),
    )


@compiled
def _handle(
    state: State, system: System, events: list[Event], kind: int, subject: int, version: int, now: float
) -> int:
    """Handle an event; returns the station whose workers may form a batch now, or -1."""
    if kind == ARRIVE:
        return _arrive(state, system, events, subject, now)
    if kind == ENTER:
        return _enter(state, system, events, subject, now)
    if kind == WAITED and version == state.queues.version[subject] and state.queues.formed[subject]:
        _dispatch_batch(state, system, events, subject, now)
        return subject
    if kind == BEGIN and version == state.cores.version[subject]:
        _compute_batch(state, system, events, subject, now)
    if kind == END and version == state.cores.version[subject] and state.cores.running[subject]:
        return _end_batch(state, system, events, subject, now)
    if kind == FAIL:
        _fail_instance(state, system, events, subject, now)
    return -1


@compiled
def _last_answer(state: State) -> float:
    last_answer = 0.0
    for request in range(state.status.size):
        if state.status[request] == ANSWERED:
            last_answer = max(last_answer, state.sent[request] + state.latency[request])
    return last_answer


@compiled
def _send_next(state: State, requests: Requests, events: list[Event], at: float) -> None:
    """In a closed loop, send the next request at this time."""
    request = state.next_request[0]
    if requests.connections and request < requests.model.size:
        heapq.heappush(events, (at, ARRIVE, request, 0))
        state.next_request[0] += 1


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


@compiled
def _arrive(
    state: State,
    system: System,
    events: list[Event],
    request: int,
    now: float,
) -> int:
    """Hand a request to an instance; returns its station if it enters a queue at once, else -1."""
    machines = system.machines
    state.sent[request] = now
    instance = _choose_instance(state, machines, now)
    if instance < 0:
        state.status[request] = LOST
        _send_next(state, system.requests, events, now + RETRY_MS)
        return -1
    state.instance[request] = instance
    state.under_way[instance] += 1
    front = system.models.front[system.requests.model[request]] / 2
    if add_front(state.cores, machines, instance, now, front):
        _schedule(state, machines, events, instance)
    at = max(now, state.entered[instance] + machines.entering)
    state.entered[instance] = at
    if at > now:
        heapq.heappush(events, (at, ENTER, request, 0))
        return -1
    return _enter(state, system, events, request, now)


@compiled
def _enter(state: State, system: System, events: list[Event], request: int, now: float) -> int:
    """Put a request into a queue; returns its station, or -1 if it is refused."""
    model, instance = int(system.requests.model[request]), int(state.instance[request])
    station = instance * system.models.batch_size.size + model
    if state.status[request] != UNFINISHED:  # its instance was lost meanwhile
        return -1
    if state.queues.size[station] >= system.models.queue[model]:
        state.status[request] = QUEUE_FULL
        state.under_way[instance] -= 1
        _send_next(state, system.requests, events, now + RETRY_MS)
        return -1
    join_queue(state.queues, station, request)
    return station


@compiled
def _form_batches(
    state: State,
    system: System,
    events: list[Event],
    station: int,
    now: float,
) -> None:
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
        _dispatch_batch(state, system, events, station, now)


@compiled
def _dispatch_batch(
    state: State,
    system: System,
    events: list[Event],
    station: int,
    now: float,
) -> None:
    """Hand the batch of a station to the worker that formed it, without the requests past their deadline."""
    queues, models = state.queues, system.models
    model = station % models.batch_size.size
    worker, count = queues.former[station], 0
    for place in range(queues.formed[station]):
        request = queues.batch[worker, place]
        if now - state.sent[request] > models.deadline[model]:
            state.status[request] = TOO_LATE
            state.under_way[station // models.batch_size.size] -= 1
            _send_next(state, system.requests, events, now + RETRY_MS)
        else:
            queues.batch[worker, count] = request
            count += 1
    queues.former[station], queues.formed[station] = -1, 0
    queues.version[station] += 1
    if count == 0:
        queues.idle[station, queues.idle_size[station]] = worker
        queues.idle_size[station] += 1
        return
    work = _work_of(state, system.requests, models, model, queues.batch[worker], count)
    work *= models.spread[model, np.random.randint(models.spread.shape[1])]
    state.late[worker] = 0.0
    if now - state.cores.ended[worker] > models.idle[model]:
        state.late[worker] = models.idle_spread[model, np.random.randint(models.idle_spread.shape[1])]
    state.started[worker], state.formed[worker], state.cores.work[worker] = now, count, work
    state.cores.version[worker] += 1
    at = now + models.gap[model] + count * models.handing[model]
    heapq.heappush(events, (at, BEGIN, worker, state.cores.version[worker]))


@compiled
def _compute_batch(state: State, system: System, events: list[Event], worker: int, now: float) -> None:
    """Let a worker compute its batch."""
    machines = system.machines
    instance = worker // machines.worker_cores.shape[0]
    pace(state.cores, machines, instance, now)
    take_cores(state.cores, machines, worker, 1)
    state.cores.since[worker], state.cores.speed[worker] = now, 1.0
    pace(state.cores, machines, instance, now)
    add_front(state.cores, machines, instance, now, 0.0)
    _schedule(state, machines, events, instance)


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


@compiled
def _schedule(state: State, machines: Machines, events: list[Event], instance: int) -> None:
    """Schedule the ends of all batches of an instance anew."""
    workers = machines.worker_cores.shape[0]
    for worker in range(instance * workers, (instance + 1) * workers):
        if state.cores.running[worker]:
            state.cores.version[worker] += 1
            left = max(0.0, state.cores.work[worker]) / state.cores.speed[worker]
            heapq.heappush(events, (state.cores.since[worker] + left, END, worker, state.cores.version[worker]))


@compiled
def _end_batch(
    state: State,
    system: System,
    events: list[Event],
    worker: int,
    now: float,
) -> int:
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
        at = now + models.leaving[model] + place * models.replying[model] + state.late[worker]
        state.status[request] = ANSWERED
        state.latency[request] = at + models.arriving[model] - state.sent[request]
        state.under_way[instance] -= 1
        _send_next(state, system.requests, events, at + models.arriving[model])
    add_front(state.cores, machines, instance, now, state.formed[worker] * models.front[model] / 2)
    state.formed[worker] = 0
    _schedule(state, system.machines, events, instance)
    state.queues.idle[station, state.queues.idle_size[station]] = worker
    state.queues.idle_size[station] += 1
    return int(station)


@compiled
def _fail_instance(
    state: State,
    system: System,
    events: list[Event],
    instance: int,
    now: float,
) -> None:
    """Lose all requests that an instance has; its workers are idle when it comes back."""
    models, machines = system.models, system.machines
    workers_per_instance, model_count = machines.worker_cores.shape[0], models.batch_size.size
    for request in range(state.status.size):
        sent = request < state.next_request[0] and state.sent[request] <= now
        if sent and state.status[request] == UNFINISHED and state.instance[request] == instance:
            state.status[request] = LOST
            _send_next(state, system.requests, events, now + RETRY_MS)
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
