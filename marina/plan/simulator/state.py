"""The state of a simulation."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from marina.plan.simulator.batches import FREE, Queues
from marina.plan.simulator.cores import CoreStates
from marina.plan.simulator.values import UNFINISHED, Floats, Ints, Machines, Models, Requests, compiled


class State(NamedTuple):
    """What changes while a simulation runs. Stations are the models of each instance, in that order.

    Attributes:
        queues, cores: of stations, and of workers.
        model: the model of each worker of an instance, shape (workers of an instance,).
        next_request: the next request to send, shape (1,).
        latency, status, sent, instance: of each request: see `SimulationResult`; and the instance that it went to.
        under_way: the number of requests that each instance has, shape (instances,).
        entered: when the last request entered a queue of each instance, shape (instances,).
        formed: the number of requests in each worker's batch, shape (workers of all instances,).
        started, late: when that batch started, and how much later than usual its answers arrive; the same shape.
        batches, batched, computed, real: see `SimulationResult`.
        busy: see `SimulationResult`.
        rows, min_times, last_entries: room for plans.
    """

    queues: Queues
    cores: CoreStates
    model: Ints
    next_request: Ints
    latency: Floats
    status: Ints
    sent: Floats
    instance: Ints
    under_way: Ints
    entered: Floats
    formed: Ints
    started: Floats
    late: Floats
    batches: Ints
    batched: Ints
    computed: Ints
    real: Ints
    busy: Floats
    rows: Ints
    min_times: Floats
    last_entries: Ints


@compiled
def new_state(requests: Requests, models: Models, machines: Machines) -> State:
    """The state before the first request: every queue is empty, and every worker idle."""
    model_count, request_count, workers_per_instance = (
        models.batch_size.size,
        requests.model.size,
        machines.worker_cores.shape[0],
    )
    stations, workers = machines.instances * model_count, machines.instances * workers_per_instance
    max_batch_size = models.batch_size.max()
    max_rows = max_batch_size * np.diff(requests.first).max() + 1
    capacity = min(request_count, models.queue.max()) + 1
    queues = Queues(
        ring=np.zeros((stations, capacity), np.int64),
        head=np.zeros(stations, np.int64),
        size=np.zeros(stations, np.int64),
        former=np.full(stations, FREE),
        formed=np.zeros(stations, np.int64),
        tick=np.zeros(stations, np.int64),
        left=np.zeros(stations, np.int64),
        version=np.zeros(stations, np.int64),
        idle=np.zeros((stations, models.workers.max()), np.int64),
        idle_size=np.zeros(stations, np.int64),
        batch=np.zeros((workers, max_batch_size), np.int64),
    )
    cores = CoreStates(
        active=np.zeros((machines.instances, machines.cores), np.int64),
        running=np.zeros(workers, np.int64),
        work=np.zeros(workers),
        speed=np.ones(workers),
        since=np.zeros(workers),
        version=np.zeros(workers, np.int64),
        ended=np.full(workers, -np.inf),
        front=np.zeros(machines.instances),
        front_since=np.zeros(machines.instances),
    )
    model_of_worker = np.zeros(workers_per_instance, np.int64)
    first_worker = 0
    for index in range(model_count):
        model_of_worker[first_worker : first_worker + models.workers[index]] = index
        first_worker += models.workers[index]
    for worker in np.random.permutation(workers):
        station = worker // workers_per_instance * model_count + model_of_worker[worker % workers_per_instance]
        queues.idle[station, queues.idle_size[station]] = worker
        queues.idle_size[station] += 1
    return State(
        queues=queues,
        cores=cores,
        model=model_of_worker,
        next_request=np.zeros(1, np.int64),
        latency=np.full(request_count, np.nan),
        status=np.full(request_count, UNFINISHED),
        sent=requests.at.copy(),
        instance=np.zeros(request_count, np.int64),
        under_way=np.zeros(machines.instances, np.int64),
        entered=np.full(machines.instances, -np.inf),
        formed=np.zeros(workers, np.int64),
        started=np.zeros(workers),
        late=np.zeros(workers),
        batches=np.zeros(model_count, np.int64),
        batched=np.zeros(model_count, np.int64),
        computed=np.zeros(model_count, np.int64),
        real=np.zeros(model_count, np.int64),
        busy=np.zeros(workers_per_instance),
        rows=np.zeros(max_rows, np.int64),
        min_times=np.zeros(max_rows + 1),
        last_entries=np.zeros(max_rows + 1, np.int64),
    )
