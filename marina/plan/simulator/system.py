"""Makes what a simulation takes: from what models cost, and from how they are served."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from handlers.worker.values import Shape
from marina.plan.simulator.values import Floats, Ints, Machines, Models

IDLE_MS = 5.0  # after which processors sleep and caches are cold
NEVER = np.inf


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
        used: the part of its cores' time that a worker uses while it computes.
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
    used: float = 1.0


class Service(NamedTuple):
    """How a model is served: the cores of each worker, TorchServe's settings, and the longest wait in milliseconds."""

    groups: tuple[int, ...] = (1,)
    batch_size: int = 1
    delay_ms: int = 1
    queue: int = 1_000_000
    deadline_ms: float = NEVER


def models_of(costs: Sequence[WorkerModel], services: Sequence[Service]) -> Models:
    """The models of a simulation, each with what it costs and how it is served."""
    tokens = max(shape.sequence_length for own in costs for shape in own.times)
    lots: dict[bool, list[list[int]]] = {False: [], True: []}  # by whether shapes are packed
    sizes: list[int] = []
    times: list[float] = []
    again: list[float] = []
    graph: list[int] = []
    padded: list[int] = []
    for kind, own in itertools.product(lots, costs):
        shapes = {shape: time for shape, time in own.times.items() if shape.packed == kind}
        lot = [len(sizes)]
        for length in range(tokens + 1):
            for shape, time in _worthy(shapes, length):
                sizes.append(shape.batch_size)
                times.append(time)
                again.append(min(time, own.again[shape]))
                graph.append(list(own.times).index(shape))
                padded.append(shape.tokens)
            lot.append(len(sizes))
        lots[kind].append(lot)

    def ints(values: Sequence[int]) -> Ints:
        return np.array(values, np.int64)

    def floats(values: Sequence[float]) -> Floats:
        return np.array(values, np.float64)

    def tables(values: Sequence[tuple[float, ...]]) -> Floats:
        most = max(map(len, values))
        return np.array([np.quantile(own, (np.arange(most) + 0.5) / most) for own in values])

    return Models(
        batch_size=ints([service.batch_size for service in services]),
        delay=ints([service.delay_ms for service in services]),
        queue=ints([service.queue for service in services]),
        deadline=floats([service.deadline_ms for service in services]),
        workers=ints([len(service.groups) for service in services]),
        batch=floats([cost.batch for cost in costs]),
        request=floats([cost.request for cost in costs]),
        instance=floats([cost.instance for cost in costs]),
        token=floats([cost.token for cost in costs]),
        gap=floats([cost.gap for cost in costs]),
        handing=floats([cost.handing for cost in costs]),
        idle=floats([IDLE_MS for _ in costs]),
        arriving=floats([cost.outside / 2 for cost in costs]),
        leaving=floats([cost.outside / 2 for cost in costs]),
        replying=floats([cost.replying for cost in costs]),
        front=floats([cost.front for cost in costs]),
        lot=np.array(lots[False], np.int64),
        sizes=ints(sizes),
        times=floats(times),
        again=floats(again),
        graph=ints(graph),
        padded=ints(padded),
        **_packers(costs),
        packed_lot=np.array(lots[True], np.int64),
        spread=tables([cost.spread for cost in costs]),
        idle_spread=tables([cost.idle for cost in costs]),
    )


def _packers(costs: Sequence[WorkerModel]) -> dict[str, Any]:
    """The fields of `Models` for packed shapes."""
    packer, lines, first = [0], [], [0]
    entries: list[tuple[int, float]] = []
    for own in costs:
        packed = [shape for shape in own.times if shape.packed]
        for length in sorted({shape.sequence_length for shape in packed}):
            same = [shape for shape in packed if shape.sequence_length == length]
            lines.append((length, same[0].texts_a_line))
            entries += [(shape.batch_size, own.times[shape]) for shape in same]
            first.append(len(entries))
        packer.append(len(lines))
    tokens, texts = np.array(lines, np.int64).reshape(-1, 2).T
    return {
        "packer": np.array(packer, np.int64),
        "packed_tokens": np.ascontiguousarray(tokens),
        "packed_texts": np.ascontiguousarray(texts),
        "packed_first": np.array(first, np.int64),
        "packed_sizes": np.array([size for size, _ in entries], np.int64),
        "packed_times": np.array([time for _, time in entries], np.float64),
    }


def _worthy(times: Mapping[Shape, float], tokens: int) -> list[tuple[Shape, float]]:
    """The shapes that are worth considering for rows of so many tokens: each larger and slower than the one before."""
    found: list[tuple[Shape, float]] = []
    for time, _, shape in sorted((time, -shape.batch_size, shape) for shape, time in times.items()):
        if shape.sequence_length >= tokens and (not found or shape.batch_size > found[-1][0].batch_size):
            found.append((shape, time))
    return found


def machines_of(
    services: Sequence[Service],
    cores: int,
    contention: float = 0.0,
    stolen: float = 0.0,
    entering: float = 0.0,
    timer: float = 0.0,
    count: int = 1,
    least: bool = False,
    used: Sequence[float] | None = None,
) -> Machines:
    """Instances with so many cores, that all serve the same models and are up all the time.

    `used` is the part of their cores' time that workers of each model use, by default all of it; for others see
    `Machines`.
    """
    parts = [1.0] * len(services) if used is None else used
    return Machines(
        instances=count,
        cores=cores,
        worker_cores=lay_out([own.groups for own in services], cores),
        used=np.array([part for own, part in zip(services, parts, strict=True) for _ in own.groups]),
        contention=contention,
        stolen=stolen,
        entering=entering,
        timer=timer,
        least=least,
        down=np.full(count, NEVER),
        up=np.full(count, NEVER),
        lost=np.zeros(count, np.int64),
    )


def lay_out(groups: Sequence[tuple[int, ...]], cores: int) -> Ints:
    """Which cores each worker computes on: those that its model's workers use least, then those that all use least.

    This is how workers on CPU cores choose (`handlers.worker.placement.choice.SharedGroup`).

    Returns:
        0 or 1, shape (workers, cores).
    """
    found = []
    used = np.zeros(cores, np.int64)
    for sizes in groups:
        own = np.zeros(cores, np.int64)
        for size in sizes:
            starts = range(cores - size + 1)
            start = min(starts, key=lambda at: (own[at : at + size].sum(), used[at : at + size].sum()))
            mask = np.zeros(cores, np.int64)
            mask[start : start + size] = 1
            own += mask
            used += mask
            found.append(mask)
    return np.array(found)
