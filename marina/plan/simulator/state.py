"""The state of a simulation: what changes while it runs."""

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
        following: the next request to send, shape (1,).
        latency, status, sent, place: of each request: see `Outcome`; and the instance that it went to.
        under_way: requests that each instance has, shape (instances,).
        entered: when the last request entered a queue of each instance, shape (instances,).
        formed: the requests in each worker's batch, shape (workers of all instances,).
        started, late: when that batch started, and how much later than usual its answers arrive; the same shape.
        batches, batched, computed, real: see `Outcome`.
        busy: see `Outcome`.
        rows, least, chosen: room for plans.
    """

    queues: Queues
    cores: CoreStates
    model: Ints
    following: Ints
    latency: Floats
    status: Ints
    sent: Floats
    place: Ints
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
    least: Floats
    chosen: Ints


@compiled
def new_state(requests: Requests, models: Models, machines: Machines) -> State:
    """The state before the first request: every queue is empty, and every worker idle."""
    kinds, count, own_workers = models.batch_size.size, requests.model.size, machines.worker_cores.shape[0]
    stations, workers = machines.instances * kinds, machines.instances * own_workers
    longest = models.batch_size.max()
    most_rows = longest * np.diff(requests.first).max() + 1
    most = min(count, models.queue.max()) + 1
    queues = Queues(
        ring=np.zeros((stations, most), np.int64),
        head=np.zeros(stations, np.int64),
        size=np.zeros(stations, np.int64),
        former=np.full(stations, FREE),
        formed=np.zeros(stations, np.int64),
        tick=np.zeros(stations, np.int64),
        left=np.zeros(stations, np.int64),
        version=np.zeros(stations, np.int64),
        idle=np.zeros((stations, models.workers.max()), np.int64),
        idle_size=np.zeros(stations, np.int64),
        batch=np.zeros((workers, longest), np.int64),
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
    model = np.zeros(own_workers, np.int64)
    number = 0
    for kind in range(kinds):
        model[number : number + models.workers[kind]] = kind
        number += models.workers[kind]
    for worker in np.random.permutation(workers):
        station = worker // own_workers * kinds + model[worker % own_workers]
        queues.idle[station, queues.idle_size[station]] = worker
        queues.idle_size[station] += 1
    return State(
        queues=queues,
        cores=cores,
        model=model,
        following=np.zeros(1, np.int64),
        latency=np.full(count, np.nan),
        status=np.full(count, UNFINISHED),
        sent=requests.at.copy(),
        place=np.zeros(count, np.int64),
        under_way=np.zeros(machines.instances, np.int64),
        entered=np.full(machines.instances, -np.inf),
        formed=np.zeros(workers, np.int64),
        started=np.zeros(workers),
        late=np.zeros(workers),
        batches=np.zeros(kinds, np.int64),
        batched=np.zeros(kinds, np.int64),
        computed=np.zeros(kinds, np.int64),
        real=np.zeros(kinds, np.int64),
        busy=np.zeros(own_workers),
        rows=np.zeros(most_rows, np.int64),
        least=np.zeros(most_rows + 1),
        chosen=np.zeros(most_rows + 1, np.int64),
    )
