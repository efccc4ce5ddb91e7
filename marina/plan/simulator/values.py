"""The inputs and the result of a simulation, as arrays that compiled code reads. Times are in milliseconds."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar, cast

import numba
import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Function = TypeVar("Function", bound=Callable[..., Any])

ANSWERED, QUEUE_FULL, LOST, UNFINISHED = range(4)


def compiled(function: Function) -> Function:
    """Compile a function with Numba when it is first called; the machine code is kept for later runs."""
    return cast(Function, numba.njit(cache=True, nogil=True, error_model="numpy")(function))


class Requests(NamedTuple):
    """The requests of a simulation, in the order in which they are sent.

    Attributes:
        at: when each request is sent, ascending, shape (requests,); ignored in a closed loop.
        model: the number of each request's model, shape (requests,).
        first: where each request's instances start in `tokens`, shape (requests + 1,).
        tokens: tokens of each instance, cut to the longest shape of its model, shape (instances,).
        connections: 0 for an open loop; else the connections of a closed loop, each of which sends its next request
            when it has the answer.
    """

    at: Floats
    model: Ints
    first: Ints
    tokens: Ints
    connections: int


class Models(NamedTuple):
    """What the models cost, and how they are served; every field but the tables has the shape (models,).

    Attributes:
        batch_size, delay, queue: the most requests of a batch, the batch delay (see `batches`), places in the queue.
        workers: of each instance.
        batch, request, instance, token: a worker's time for each of these, besides its graphs.
        gap, handing: before a worker has a batch: for the batch, and for each of its requests.
        outside: from a client to the queue and from the worker to the client, together.
        replying: between two answers of a batch.
        front: CPU time of everything but workers for a request, half before its batch and half after it.
        entry_starts: where the entries of a model for a number of tokens start in `sizes` and `times`; shape
            (models, tokens + 2).
        sizes, times, again: of each useful shape for a number of tokens: rows of a call, its time after a call of
            another graph, and after a call of the same graph.
        graph: the number of each entry's graph.
        padded: computed tokens of a call of each entry.
        packer_starts: where the packers of a model start, one for each length of packed shapes; shape (models + 1,).
        packed_tokens, packed_texts: the tokens and the most texts of a line, shape (packers,).
        line_entry_starts: as entry_starts, for lines of packed shapes.
        packed_starts: where the entries of a packer start in `packed_sizes` and `packed_times`, shape (packers + 1,).
        packed_sizes, packed_times: lines of a call, and its time.
        spread: equally likely factors of a batch's time, shape (models, values).
        idle_spread: equally likely times that answers of an idle worker take longer, shape (models, values).
    """

    batch_size: Ints
    delay: Ints
    queue: Ints
    workers: Ints
    batch: Floats
    request: Floats
    instance: Floats
    token: Floats
    gap: Floats
    handing: Floats
    outside: Floats
    replying: Floats
    front: Floats
    entry_starts: Ints
    sizes: Ints
    times: Floats
    again: Floats
    graph: Ints
    padded: Ints
    packer_starts: Ints
    packed_tokens: Ints
    packed_texts: Ints
    packed_starts: Ints
    packed_sizes: Ints
    packed_times: Floats
    line_entry_starts: Ints
    spread: Floats
    idle_spread: Floats


class Machines(NamedTuple):
    """Instances that are all alike, behind a balancer.

    Attributes:
        instances: their number.
        cores: of an instance.
        worker_cores: for each worker of an instance, model by model, which cores it computes on: 0 or 1, shape
            (workers, cores).
        core_usage: the part of its cores' time that each worker of an instance uses while it computes, shape
            (workers,).
        contention: how much longer calls take if all other cores compute too, as a fraction.
        stolen: how much a millisecond of `Models.front` delays a batch when no core is free.
        entering: at least this between two requests that enter queues of an instance.
        timer: how much later than requested a waiting thread of TorchServe wakes up.
        least_loaded: whether the balancer chooses the instance with the fewest requests under way; else it chooses at
            random.
        down, up: when each instance stops to take requests, and takes them again, shape (instances,).
        lost: whether an instance that stops loses its requests: 0 or 1, shape (instances,).
    """

    instances: int
    cores: int
    worker_cores: Ints
    core_usage: Floats
    contention: float
    stolen: float
    entering: float
    timer: float
    least_loaded: bool
    down: Floats
    up: Floats
    lost: Ints


class System(NamedTuple):
    """Everything that does not change while a simulation runs."""

    requests: Requests
    models: Models
    machines: Machines


class SimulationResult(NamedTuple):
    """The outcome of each request, and the work of the workers.

    Attributes:
        latency: from sending to the answer, shape (requests,); NaN if it was not answered.
        status: `ANSWERED` or why not, shape (requests,).
        sent: when it was sent, shape (requests,).
        batches, batched: number of batches, and of requests in them, shape (models,).
        busy: milliseconds in which workers computed, shape (workers of an instance,), over all instances.
        computed, real: tokens that graphs computed, and tokens of texts, shape (models,).
    """

    latency: Floats
    status: Ints
    sent: Floats
    batches: Ints
    batched: Ints
    busy: Floats
    computed: Ints
    real: Ints

    @property
    def end(self) -> float:
        """When the last request was answered, or 0."""
        return float((self.sent + self.latency)[self.status == ANSWERED].max(initial=0.0))
