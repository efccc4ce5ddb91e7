"""The rules by which workers take batches: that of TorchServe, and that of the host `direct`, which has no delay.

TorchServe (`pollBatch` of Model.java, version 0.12): one idle worker of a model at a time waits for the first request,
without limit. It then takes waiting requests at once, and further requests as they come, until it has `batch_size` of
them or `delay` is over. The delay is kept in whole milliseconds of the clock: each time a request is taken, the ticks
since the previous request are subtracted, and the next request may come within the rest of the delay. So a delay of 1
ends with the first request that is taken after a tick, or with a millisecond without a request.

Direct (`marina.server.hosts.direct.queue`): each idle worker takes its share of what waits, and waits for nothing.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from marina.plan.simulator.values import Ints, compiled

FREE = -1  # no worker forms a batch
FORMED, WAITING = 1, 0
NO_DELAY = 0  # of hosts whose batches never wait for more requests


class Queues(NamedTuple):
    """The queue of each station (a model on an instance), and the batch that is formed from it.

    Attributes:
        ring, head, size: the waiting requests: a ring of shape (stations, capacity), its first place, and their number.
        former: the worker that forms a batch, or FREE; shape (stations,), as are the next three.
        formed: the number of requests in that batch.
        tick: the clock when its last request was taken, in whole milliseconds.
        left: milliseconds until the batch stops waiting.
        version: counts the timeouts scheduled for the batch; a timeout of an older version is void.
        idle: the idle workers besides `former`, in the order in which they came, shape (stations, workers).
        idle_size: the number of workers in `idle`, shape (stations,).
        batch: the requests of each worker's batch, shape (workers of all instances, most requests of a batch).
    """

    ring: Ints
    head: Ints
    size: Ints
    former: Ints
    formed: Ints
    tick: Ints
    left: Ints
    version: Ints
    idle: Ints
    idle_size: Ints
    batch: Ints


@compiled
def join_queue(queues: Queues, station: int, request: int) -> None:
    """Add a request to a queue that has room."""
    capacity = queues.ring.shape[1]
    queues.ring[station, (queues.head[station] + queues.size[station]) % capacity] = request
    queues.size[station] += 1


@compiled
def _take_idle_worker(queues: Queues, station: int) -> None:
    """Let the worker that has been idle for longest form a batch."""
    queues.former[station] = queues.idle[station, 0]
    for place in range(1, queues.idle_size[station]):
        queues.idle[station, place - 1] = queues.idle[station, place]
    queues.idle_size[station] -= 1
    queues.formed[station] = 0


@compiled
def _take_request(queues: Queues, station: int) -> None:
    """Add the first request of a queue to the batch that is formed."""
    queues.batch[queues.former[station], queues.formed[station]] = queues.ring[station, queues.head[station]]
    queues.head[station] = (queues.head[station] + 1) % queues.ring.shape[1]
    queues.size[station] -= 1
    queues.formed[station] += 1


@compiled
def form_batch(queues: Queues, station: int, now: float, batch_size: int, delay: int) -> int:
    """Let the next idle worker take requests.

    Returns:
        FORMED if the worker's batch is ready, WAITING if the worker waits for requests: without limit if the batch is
        empty (`formed` is 0), else for `left` more milliseconds. FREE if no worker is idle, or, without a delay, if
        no request waits.
    """
    idle_workers = queues.idle_size[station]
    if delay == NO_DELAY:
        if idle_workers == 0 or queues.size[station] == 0:
            return FREE
        share = min(batch_size, -(-queues.size[station] // idle_workers))
        _take_idle_worker(queues, station)
        while queues.formed[station] < share:
            _take_request(queues, station)
        return FORMED
    if queues.former[station] == FREE:
        if idle_workers == 0:
            return FREE
        _take_idle_worker(queues, station)
    while queues.size[station] > 0:
        place = queues.formed[station]
        tick = np.int64(np.floor(now))
        _take_request(queues, station)
        queues.left[station] = delay if place == 0 else queues.left[station] - (tick - queues.tick[station])
        queues.tick[station] = tick
        if queues.formed[station] == batch_size or (place > 0 and queues.left[station] <= 0):
            return FORMED
    return WAITING


@compiled
def lose_queue(queues: Queues, station: int) -> None:
    """Forget the requests of a station, and the batch that is formed from them."""
    queues.size[station] = 0
    queues.formed[station] = 0
    queues.version[station] += 1
