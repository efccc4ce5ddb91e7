"""Makes the arrays of a simulation, from the costs of models and from how they are served."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from handlers.worker.values import Shape
from marina.plan.simulator.values import Floats, Ints, Machines, Models

NEVER = np.inf
# the times of a `WorkerModel` besides those of graphs
SCALED = ("batch", "request", "instance", "token", "gap", "handing", "outside", "replying", "front")


class WorkerModel(NamedTuple):
    """What a model costs on a worker of a given number of cores; times in milliseconds.

    Attributes:
        times, again: of one call of each graph: after another graph's call, and after its own.
        spread, idle: equally likely factors of a batch's time, and times that an answer takes longer after a pause.
        batch, request, instance, token: a worker's time for each of these, besides its graphs.
        gap, handing: before a worker has a batch: for the batch, and for each of its requests; no core computes it.
        outside: from a client to the queue and from the worker to the client.
        replying: between two answers of a batch.
        front: CPU time of everything but the workers for a request.
        core_usage: the part of its cores' time that a worker uses while it computes.
    """

    times: Mapping[Shape, float]
    again: Mapping[Shape, float]
    spread: tuple[float, ...] = (1.0,)
    idle: tuple[float, ...] = (0.0,)
    batch: float = 0.0
    request: float = 0.0
    instance: float = 0.0
    token: float = 0.0
    gap: float = 0.0
    handing: float = 0.0
    outside: float = 0.0
    replying: float = 0.0
    front: float = 0.0
    core_usage: float = 1.0

    def slower(self, factor: float, graphs: float = 1.0) -> WorkerModel:
        """The same on a machine that takes so many times as long for everything but to wake up after a pause.

        Args:
            factor: the number of times.
            graphs: how many times as long graphs take, on top of that.
        """
        return self._replace(
            times={shape: time * factor * graphs for shape, time in self.times.items()},
            again={shape: time * factor * graphs for shape, time in self.again.items()},
            **{name: getattr(self, name) * factor for name in SCALED},
        )


class Service(NamedTuple):
    """How a model is served: the cores of each worker, and the settings of its host.

    `delay_ms` is TorchServe's batch delay, or 0 for the host `direct`: see `marina.plan.simulator.batches`.
    """

    groups: tuple[int, ...] = (1,)
    batch_size: int = 1
    delay_ms: int = 1
    queue: int = 1_000_000


def models_of(costs: Sequence[WorkerModel], services: Sequence[Service]) -> Models:
    """The models of a simulation, each with what it costs and how it is served."""
    tokens = max(shape.sequence_length for cost in costs for shape in cost.times)
    starts_by_packed: dict[bool, list[list[int]]] = {False: [], True: []}
    sizes: list[int] = []
    times: list[float] = []
    again: list[float] = []
    graph: list[int] = []
    padded: list[int] = []
    for packed, cost in itertools.product(starts_by_packed, costs):
        shapes = {shape: time for shape, time in cost.times.items() if shape.packed == packed}
        starts = [len(sizes)]
        for length in range(tokens + 1):
            for shape, time in _useful_shapes(shapes, length):
                sizes.append(shape.batch_size)
                times.append(time)
                again.append(min(time, cost.again[shape]))
                graph.append(list(cost.times).index(shape))
                padded.append(shape.tokens)
            starts.append(len(sizes))
        starts_by_packed[packed].append(starts)

    def ints(values: Sequence[int]) -> Ints:
        return np.array(values, np.int64)

    def floats(values: Sequence[float]) -> Floats:
        return np.array(values, np.float64)

    def tables(values: Sequence[tuple[float, ...]]) -> Floats:
        columns = max(map(len, values))
        return np.array([np.quantile(row, (np.arange(columns) + 0.5) / columns) for row in values])

    times_of: dict[str, Any] = {name: floats([getattr(cost, name) for cost in costs]) for name in SCALED}
    return Models(
        batch_size=ints([service.batch_size for service in services]),
        delay=ints([service.delay_ms for service in services]),
        queue=ints([service.queue for service in services]),
        workers=ints([len(service.groups) for service in services]),
        **times_of,
        entry_starts=np.array(starts_by_packed[False], np.int64),
        sizes=ints(sizes),
        times=floats(times),
        again=floats(again),
        graph=ints(graph),
        padded=ints(padded),
        **_packers(costs),
        line_entry_starts=np.array(starts_by_packed[True], np.int64),
        spread=tables([cost.spread for cost in costs]),
        idle_spread=tables([cost.idle for cost in costs]),
    )


def _packers(costs: Sequence[WorkerModel]) -> dict[str, Any]:
    """The fields of `Models` for packed shapes."""
    packer_starts, line_limits, entry_starts = [0], [], [0]
    entries: list[tuple[int, float]] = []
    for cost in costs:
        packed = [shape for shape in cost.times if shape.packed]
        for length in sorted({shape.sequence_length for shape in packed}):
            same_length = [shape for shape in packed if shape.sequence_length == length]
            line_limits.append((length, same_length[0].texts_a_line))
            entries += [(shape.batch_size, cost.times[shape]) for shape in same_length]
            entry_starts.append(len(entries))
        packer_starts.append(len(line_limits))
    tokens, texts = np.array(line_limits, np.int64).reshape(-1, 2).T
    return {
        "packer_starts": np.array(packer_starts, np.int64),
        "packed_tokens": np.ascontiguousarray(tokens),
        "packed_texts": np.ascontiguousarray(texts),
        "packed_starts": np.array(entry_starts, np.int64),
        "packed_sizes": np.array([size for size, _ in entries], np.int64),
        "packed_times": np.array([time for _, time in entries], np.float64),
    }


def _useful_shapes(times: Mapping[Shape, float], tokens: int) -> list[tuple[Shape, float]]:
    """The useful shapes for rows of so many tokens: each is larger and slower than the shape before it."""
    useful: list[tuple[Shape, float]] = []
    for time, _, shape in sorted((time, -shape.batch_size, shape) for shape, time in times.items()):
        if shape.sequence_length >= tokens and (not useful or shape.batch_size > useful[-1][0].batch_size):
            useful.append((shape, time))
    return useful


def machines_of(
    services: Sequence[Service],
    cores: int,
    contention: float = 0.0,
    stolen: float = 0.0,
    entering: float = 0.0,
    timer: float = 0.0,
    count: int = 1,
    least_loaded: bool = False,
    core_usage: Sequence[float] | None = None,
) -> Machines:
    """Instances with so many cores, which all serve the same models and are always up.

    `core_usage` is the part of their cores' time that workers of each model use, by default all of it. For the other
    parameters see `Machines`.
    """
    usages = [1.0] * len(services) if core_usage is None else core_usage
    return Machines(
        instances=count,
        cores=cores,
        worker_cores=lay_out([service.groups for service in services], cores),
        core_usage=np.array([usage for service, usage in zip(services, usages, strict=True) for _ in service.groups]),
        contention=contention,
        stolen=stolen,
        entering=entering,
        timer=timer,
        least_loaded=least_loaded,
        down=np.full(count, NEVER),
        up=np.full(count, NEVER),
        lost=np.zeros(count, np.int64),
    )


def lay_out(groups: Sequence[tuple[int, ...]], cores: int) -> Ints:
    """Which cores each worker computes on: the cores with the fewest workers of its model, then with the fewest of all.

    This is how workers on CPU cores choose (`handlers.worker.placement.choice.SharedGroup`).

    Returns:
        0 or 1, shape (workers, cores).
    """
    masks = []
    total_use = np.zeros(cores, np.int64)
    for sizes in groups:
        model_use = np.zeros(cores, np.int64)
        for size in sizes:
            starts = range(cores - size + 1)
            start = min(starts, key=lambda at: (model_use[at : at + size].sum(), total_use[at : at + size].sum()))
            mask = np.zeros(cores, np.int64)
            mask[start : start + size] = 1
            model_use += mask
            total_use += mask
            masks.append(mask)
    return np.array(masks)
