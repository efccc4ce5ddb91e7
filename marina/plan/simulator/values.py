"""What a simulation takes and gives, as arrays that compiled code reads. Times are in milliseconds."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar, cast

import numba
import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Function = TypeVar("Function", bound=Callable[..., Any])

ANSWERED, QUEUE_FULL, TOO_LATE, LOST, UNFINISHED = range(5)
STATUSES = ("answered", "queue full", "too late", "lost", "unfinished")


def compiled(function: Function) -> Function:
    """Compile a function with Numba when it is first called; the machine code is kept for later runs."""
    return cast(Function, numba.njit(cache=True, nogil=True, error_model="numpy")(function))


class Requests(NamedTuple):
    """The requests of a simulation, in the order in which they are sent.

    Attributes:
        at: when each is sent, ascending, shape (requests,); ignored in a closed loop.
        model: the number of its model, shape (requests,).
        first: where its instances start in `tokens`, shape (requests + 1,).
        tokens: tokens of each instance, cut to the longest shape of its model, shape (instances,).
        connections: 0 for an open loop; else a closed loop of so many, in which each sends its next request when it has
            its answer.
    """

    at: Floats
    model: Ints
    first: Ints
    tokens: Ints
    connections: int


class Models(NamedTuple):
    """What the models cost, and how they are served; every field but the tables has the shape (models,).

    Attributes:
        batch_size, delay, queue: TorchServe's batch_size, its batch delay, and the places in its queue.
        deadline: how long a request may have waited when its batch starts.
        workers: of each instance.
        batch, request, instance, token: a worker's time for each of these, besides its graphs.
        gap, handing: before a worker has a batch: for the batch, and for each of its requests.
        idle: a worker that was idle for longer than this has cold caches, and sleeps.
        arriving, leaving: from a client to the queue, and from the worker to the client.
        replying: between two answers of a batch.
        front: CPU time of everything but workers for a request, half before its batch and half after it.
        lot: index of the first entry of its table in `sizes` and `times` for a number of tokens; shape
            (models, tokens + 2).
        sizes, times, again: the shapes worth considering for a number of tokens: rows of a call, its time after a call
            of another graph, and after one of the same.
        graph: the number of each entry's graph.
        padded: computed tokens of a call of each entry.
        packer: index of the first of its packers, one for each length of packed shapes; shape (models + 1,).
        packed_tokens, packed_texts: the tokens and the most texts of a line, shape (packers,).
        packed_lot: as lot, for lines of packed shapes.
        packed_first: index of each packer's first entry in the next two, shape (packers + 1,).
        packed_sizes, packed_times: lines of a call, and its time.
        spread: equally likely factors of a batch's time, shape (models, values).
        idle_spread: equally likely times that answers of an idle worker take longer, shape (models, values).
    """

    batch_size: Ints
    delay: Ints
    queue: Ints
    deadline: Floats
    workers: Ints
    batch: Floats
    request: Floats
    instance: Floats
    token: Floats
    gap: Floats
    handing: Floats
    idle: Floats
    arriving: Floats
    leaving: Floats
    replying: Floats
    front: Floats
    lot: Ints
    sizes: Ints
    times: Floats
    again: Floats
    graph: Ints
    padded: Ints
    packer: Ints
    packed_tokens: Ints
    packed_texts: Ints
    packed_first: Ints
    packed_sizes: Ints
    packed_times: Floats
    packed_lot: Ints
    spread: Floats
    idle_spread: Floats


class Machines(NamedTuple):
    """Instances that are all alike, behind a balancer.

    Attributes:
        instances: their number.
        cores: of an instance.
        worker_cores: for each worker of an instance, model by model, which cores it computes on: 0 or 1, shape
            (workers, cores).
        used: the part of its cores' time that each worker of an instance uses while it computes, shape (workers,).
        contention: how much longer calls take if all other cores compute too, as a fraction.
        stolen: how much a millisecond of `Models.front` delays a batch when no core is free.
        entering: at least this between two requests that enter queues of an instance.
        timer: how much later than asked a waiting thread of TorchServe wakes up.
        least: whether the balancer chooses the instance with the fewest requests under way; else one at random.
        down, up: when each instance stops to take requests, and takes them again, shape (instances,).
        lost: whether the requests that it has when it stops are lost: 0 or 1, shape (instances,).
    """

    instances: int
    cores: int
    worker_cores: Ints
    used: Floats
    contention: float
    stolen: float
    entering: float
    timer: float
    least: bool
    down: Floats
    up: Floats
    lost: Ints


class System(NamedTuple):
    """All that does not change while a simulation runs."""

    requests: Requests
    models: Models
    machines: Machines


class SimulationResult(NamedTuple):
    """What became of each request, and what the workers did.

    Attributes:
        latency: from sending to the answer, shape (requests,); NaN if it was not answered.
        status: `ANSWERED` or why not, shape (requests,).
        sent: when it was sent, shape (requests,).
        batches, batched: number of batches, and of requests in them, shape (models,).
        busy: milliseconds in which workers computed, shape (workers of an instance,), over all instances.
        computed, real: tokens that graphs computed, and tokens of texts, shape (models,).
        end: when the last request was answered, or 0.
    """

    latency: Floats
    status: Ints
    sent: Floats
    batches: Ints
    batched: Ints
    busy: Floats
    computed: Ints
    real: Ints
    end: float
