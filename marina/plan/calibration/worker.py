"""Measures workers in processes of their own: graphs, their spread, the stages, and what cores take from each other."""

from __future__ import annotations

import itertools
import json
import multiprocessing
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
from marina.plan.calibration.record import WorkerCosts
from marina.shapes.costs import nonnegative_least_squares

BUDGET_S = 4.0  # for the graphs
LEAST_ROUNDS = 5
REPEATS = 5  # of a batch
VALUES = 41  # of a spread
# requests, and instances in each
BATCHES = [
    (requests, each) for requests, each in itertools.product((1, 2, 4, 8, 16, 32), (1, 4, 16)) if requests * each <= 128
]
_STAGE = re.compile(r"(\w+);dur=([\d.]+)")


class Sample(NamedTuple):
    """Instances in the format of requests, and the tokens of each: lists of the same length."""

    documents: list[Any]
    tokens: list[int]


class GraphTimes(NamedTuple):
    """Milliseconds of one call of each graph, and equally likely factors of them."""

    times: dict[Shape, float]
    spread: tuple[float, ...]


class Stages(NamedTuple):
    """Milliseconds of a batch, a request, an instance and a token besides graphs; and graphs as a factor of their times."""

    batch: float
    request: float
    instance: float
    token: float
    factor: float


def measure_worker(folder: Path, cores: int, sample: Sample) -> WorkerCosts:
    """Measure a worker that has so many cores while the others are idle.

    Args:
        folder: an unpacked archive with one model.
        cores: of the worker's core group.
        sample: what requests contain.
    """
    with _processes(folder, str(cores), 1) as (process,):
        first: GraphTimes = process.submit(_time_graphs).result()
        stages: Stages = process.submit(_time_stages, sample, first.times).result()
        second: GraphTimes = process.submit(_time_graphs).result()
    # in turn in a loop, and as a plan has them
    factor = stages.factor / statistics.fmean(second.times[shape] / time for shape, time in first.times.items())
    times = {
        str(shape): round((time + second.times[shape]) / 2 * max(factor, 1.0), 4) for shape, time in first.times.items()
    }
    return WorkerCosts(cores, times, first.spread, stages.batch, stages.request, stages.instance, stages.token)


def measure_contention(folder: Path, cores: int) -> float:
    """How much longer calls of workers with one core take while all cores compute, as a fraction."""
    with _processes(folder, ",".join(["1"] * cores), cores) as processes:
        alone = processes[0].submit(_time_graphs).result().times
        together = [one.result().times for one in [process.submit(_time_graphs) for process in processes]]
    return max(0.0, statistics.median(own[shape] / alone[shape] for own in together for shape in alone) - 1)


@contextmanager
def _processes(folder: Path, groups: str, count: int) -> Iterator[list[ProcessPoolExecutor]]:
    """As many processes as there are core groups, each with the model loaded on its own group."""
    context = multiprocessing.get_context("spawn")
    with ExitStack() as stack:
        processes = [stack.enter_context(ProcessPoolExecutor(1, mp_context=context)) for _ in range(count)]
        for loading in [process.submit(_load, folder, groups) for process in processes]:
            loading.result()
        yield processes


_loaded: list[Any] = []  # of this process: the member, and the model


def _load(folder: Path, groups: str) -> None:
    from handlers.worker.artifact import ARTIFACT_FOLDER
    from handlers.worker.model import Model
    from handlers.worker.tasks import TASKS
    from marina.score.model import load, read_unpacked

    unpacked = read_unpacked(folder, None)
    member, _ = load(unpacked, groups)
    settings = unpacked.settings._replace(core_groups=groups, server_timing=True)
    _loaded[:] = member, Model(folder / ARTIFACT_FOLDER, settings, TASKS)


def _time_graphs() -> GraphTimes:
    """Run the graphs in turn, with every place filled."""
    from handlers.worker.rows.timing import warm_up

    graphs, signature = _loaded[0].graphs
    stream = graphs[0]
    for shape in stream:
        warm_up(stream[shape], shape, signature)
    found: dict[Shape, list[float]] = {shape: [] for shape in stream}
    end = time.perf_counter() + BUDGET_S
    while time.perf_counter() < end or len(next(iter(found.values()))) < LEAST_ROUNDS:
        for shape, graph in stream.items():
            start = time.perf_counter()
            graph.run(shape.batch_size)
            found[shape].append((time.perf_counter() - start) * 1000)
    times = {shape: statistics.median(own) for shape, own in found.items()}
    ratios = [one / times[shape] for shape, own in found.items() for one in own]
    return GraphTimes(times, spread_of(ratios))


def spread_of(values: Sequence[float]) -> tuple[float, ...]:
    """Equally likely values of a distribution, in ascending order."""
    places = (np.arange(VALUES) + 0.5) / VALUES
    return tuple(round(float(value), 4) for value in np.quantile(values, places))


def _time_stages(sample: Sample, times: dict[Shape, float]) -> Stages:
    from handlers.worker.rows.plan import Planner
    from handlers.worker.telemetry.tracing import SERVER_TIMING

    model, planner = _loaded[1], Planner(times)
    headers = {"content-type": "application/json"}
    features, measured, factors = [], [], []
    number = 0
    for requests, each in BATCHES:
        places = [place % len(sample.documents) for place in range(number, number + requests * each)]
        number += requests * each
        bodies = [
            json.dumps({"inputs": [sample.documents[place] for place in places[start : start + each]]}).encode()
            for start in range(0, len(places), each)
        ]
        tokens = [sample.tokens[place] for place in places]
        planned = sum(times[call.shape] for call in planner.plan(tokens))
        found = []
        for _ in range(REPEATS):
            replies = model.reply([(body, headers) for body in bodies])
            found.append({stage: float(spent) for stage, spent in _STAGE.findall(replies[0].headers[SERVER_TIMING])})
        features.append([1.0, requests, requests * each, sum(tokens)])
        measured.append(statistics.median(sum(one.values()) - one["graph"] for one in found))
        factors.append(statistics.median(one["graph"] for one in found) / planned)
    table, weights = np.array(features), 1 / np.array(measured)
    batch, request, instance, token = nonnegative_least_squares(table * weights[:, None], np.ones(len(weights))).round(5).tolist()
    return Stages(batch, request, instance, token, statistics.median(factors))
