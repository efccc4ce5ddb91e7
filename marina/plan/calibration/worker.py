"""Measures workers in processes of their own: graphs, their spread, the stages, and what cores take from each other."""

from __future__ import annotations

import itertools
import json
import re
import statistics
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from handlers.worker.values import Shape
from marina.bench.server.spawned import spawned_process
from marina.plan.calibration.record import WorkerCosts
from marina.shapes.costs import nonnegative_factors

BUDGET_S = 4.0  # for the graphs
MIN_ROUNDS = 5
REPEATS = 5  # of a batch
VALUES = 41  # of a spread
# requests, and instances in each
BATCHES = [
    (requests, instances)
    for requests, instances in itertools.product((1, 2, 4, 8, 16, 32), (1, 4, 16))
    if requests * instances <= 128
]
_STAGE = re.compile(r"(\w+);dur=([\d.]+)")


class RequestSample(NamedTuple):
    """Instances in the format of requests, and the tokens of their rows, of which each has the same number."""

    documents: list[Any]
    tokens: list[int]

    @property
    def rows(self) -> int:
        """Of an instance."""
        return len(self.tokens) // len(self.documents)

    def tokens_of(self, place: int) -> list[int]:
        """The tokens of each row of an instance."""
        return self.tokens[place * self.rows : (place + 1) * self.rows]


class GraphTimes(NamedTuple):
    """Milliseconds of a call of each graph: after another graph, after itself; and equally likely factors of both."""

    times: dict[Shape, float]
    again: dict[Shape, float]
    spread: tuple[float, ...]


def measure_worker(folder: Path, cores: int, sample: RequestSample) -> WorkerCosts:
    """Measure a worker that has so many cores while all other cores are idle.

    Args:
        folder: an unpacked archive with one model.
        cores: of the worker's core group.
        sample: the contents of requests.
    """
    with _processes(folder, str(cores), 1) as (process,):
        first: GraphTimes = process.submit(_time_graphs).result()
        stages: list[float] = process.submit(_time_stages, sample).result()
        second: GraphTimes = process.submit(_time_graphs).result()
    times, again = (
        {str(shape): round((milliseconds + second_ms[shape]) / 2, 4) for shape, milliseconds in first_ms.items()}
        for first_ms, second_ms in ((first.times, second.times), (first.again, second.again))
    )
    return WorkerCosts(cores, times, again, first.spread, *stages)


def measure_contention(folder: Path, cores: int) -> float:
    """How much longer calls of workers with one core take while all cores compute, as a fraction."""
    with _processes(folder, ",".join(["1"] * cores), cores) as processes:
        alone = processes[0].submit(_time_graphs).result().times
        together = [timing.result().times for timing in [process.submit(_time_graphs) for process in processes]]
    return max(
        0.0, statistics.median(worker_times[shape] / alone[shape] for worker_times in together for shape in alone) - 1
    )


@contextmanager
def _processes(folder: Path, groups: str, count: int) -> Iterator[list[ProcessPoolExecutor]]:
    """As many processes as there are core groups, each with the model loaded on its own group."""
    with ExitStack() as stack:
        processes = [stack.enter_context(spawned_process()) for _ in range(count)]
        for loading in [process.submit(_load, folder, groups) for process in processes]:
            loading.result()
        yield processes


_loaded: list[Any] = []  # of this process: the model


def _load(folder: Path, groups: str) -> None:
    from handlers.worker.answering.model import Model
    from handlers.worker.archive.artifact import ARTIFACT_FOLDER
    from handlers.worker.tasks import TASKS
    from marina.archive.unpacked import read_unpacked

    settings = read_unpacked(folder, None).settings._replace(core_groups=groups, server_timing=True)
    _loaded.append(Model(folder / ARTIFACT_FOLDER, settings, TASKS))


def _time_graphs() -> GraphTimes:
    """Run the graphs in turn, each twice, with every place filled."""
    from handlers.worker.rows.timing import warm_up

    (model,) = _loaded
    (stream, *_), signature = model.members[0].graphs
    for shape in stream:
        warm_up(stream[shape], shape, signature)
    measured: tuple[dict[Shape, list[float]], ...] = tuple({shape: [] for shape in stream} for _ in range(2))
    end, rounds = time.perf_counter() + BUDGET_S, 0
    while time.perf_counter() < end or rounds < MIN_ROUNDS:
        rounds += 1
        for shape, graph in stream.items():
            for calls in measured:
                start = time.perf_counter()
                graph.run(shape.batch_size)
                calls[shape].append((time.perf_counter() - start) * 1000)
    times, again = ({shape: statistics.median(samples) for shape, samples in calls.items()} for calls in measured)
    ratios = [milliseconds / times[shape] for shape, samples in measured[0].items() for milliseconds in samples]
    return GraphTimes(times, again, spread_of(ratios))


def spread_of(values: Sequence[float]) -> tuple[float, ...]:
    """Equally likely values of a distribution, in ascending order."""
    places = (np.arange(VALUES) + 0.5) / VALUES
    return tuple(round(float(value), 4) for value in np.quantile(values, places))


def _time_stages(sample: RequestSample) -> list[float]:
    """Milliseconds of a batch, a request, a row of an instance and a token, besides the graphs."""
    from handlers.worker.telemetry.tracing import SERVER_TIMING

    (model,), headers = _loaded, {"content-type": "application/json"}
    features, measured = [], []
    number = 0
    for requests, instances in BATCHES:
        places = [place % len(sample.documents) for place in range(number, number + requests * instances)]
        number += requests * instances
        bodies = [
            json.dumps({"inputs": [sample.documents[place] for place in places[start : start + instances]]}).encode()
            for start in range(0, len(places), instances)
        ]
        overheads = []
        for _ in range(REPEATS):
            replies = model.reply([(body, headers) for body in bodies])
            spent = dict(_STAGE.findall(replies[0].headers[SERVER_TIMING]))
            overheads.append(sum(float(spent[stage]) for stage in spent.keys() - {"graph"}))
        tokens = [count for place in places for count in sample.tokens_of(place)]
        features.append([1.0, requests, len(tokens), sum(tokens)])
        measured.append(statistics.median(overheads))
    factors = nonnegative_factors(np.array(features), np.array(measured))
    return list(factors.round(5).tolist())
