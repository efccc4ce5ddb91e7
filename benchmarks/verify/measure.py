"""Predicts a case, and measures it."""

from __future__ import annotations

import itertools
import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from benchmarks.verify.cases import LENGTHS, Case
from handlers.worker.artifact import read_artifact
from handlers.worker.rows.plan import max_sequence_length
from handlers.worker.rows.prompts import default_rows
from handlers.worker.rows.reader import open_reader
from marina.bench.load.arrivals import arrival_times
from marina.bench.load.measurement import Measurement
from marina.bench.load.payload import MIX, LoadCase, Payload, bodies_of, documents_of, read_instances
from marina.bench.load.profile import Load
from marina.bench.server.benchmark_server import BenchmarkServer
from marina.bench.server.endpoint import Endpoint, measure_endpoint
from marina.errors import SpecError
from marina.plan.evaluate import machines_at
from marina.plan.places import Calibrated, place_here
from marina.plan.simulator.run import simulate
from marina.plan.simulator.system import Service, models_of
from marina.plan.simulator.values import ANSWERED, Floats, Machines, Models, Requests
from marina.plan.workload import Traffic, draw

CONNECTIONS = 256  # of the generator, and of the closed loop that gives the capacity
CAPACITY_REQUESTS = 15_000
SIMULATIONS = 12
WARM_UP_S = 1.5
SECONDS, LONGEST_S, REQUESTS = 8.0, 20.0, 1500  # of a measurement: the least, the most, and wanted
QUEUE = 100_000


class Figures(NamedTuple):
    """Requests per second, and latencies in milliseconds."""

    rate: float
    p50: float
    p99: float


@dataclass(frozen=True)
class Compared:
    """A case with what was predicted and measured, for each of its models."""

    case: Case
    model: str
    rate: float
    predicted: Figures
    measured: list[Figures]


class Texts(NamedTuple):
    """Instances in the format of requests, and the tokens of each."""

    documents: list[Any]
    tokens: np.ndarray[tuple[int], np.dtype[np.int64]]


def texts_of(model: Calibrated, kind: str) -> Texts:
    """The instances of the built-in mix that have the lengths of a kind, or those of a file, as a model reads them.

    Raises:
        SpecError: the file cannot be read, or no instance has these lengths.
    """
    folder, fields = model.calibrations[0][1], model.spec.instance_fields
    artifact = read_artifact(folder)
    instances = read_instances(MIX if kind in LENGTHS else str(model.project.root / kind), fields)
    reader = open_reader(folder.joinpath, artifact.signature)
    rows = default_rows(instances, artifact.signature, reader, max_sequence_length(artifact.shapes), "truncate")
    low, high = LENGTHS.get(kind, (0, max_sequence_length(artifact.shapes)))
    kept = [place for place, row in enumerate(rows) if low <= len(row.ids) <= high]
    if not kept:
        raise SpecError(f"{model.spec.name} has no text of {low} to {high} tokens")
    documents = documents_of(instances, fields)
    return Texts([documents[place] for place in kept], np.array([len(rows[place].ids) for place in kept], np.int64))


def capacity(case: Case, models: list[Calibrated], texts: list[Texts], connections: int = CONNECTIONS) -> float:
    """Requests per second of each model that a closed loop of all of them would have, as predicted."""
    arrays, machines = _system(case, models)
    traffic = [Traffic(1.0, instances, own.tokens) for instances, own in zip(case.instances, texts, strict=True)]
    closed = draw(traffic, CAPACITY_REQUESTS, 1.0, case.number)._replace(connections=connections)
    return len(closed.model) / simulate(closed, arrays, machines, case.number).end * 1000 / len(models)


def predict(case: Case, models: list[Calibrated], texts: list[Texts], rate: float) -> list[Figures]:
    """What is predicted of each model at this many requests per second.

    The arrivals and the texts are those that the generator will send. Chance is in the server only: the figures are
    those of several simulations together.
    """
    arrays, machines = _system(case, models)
    requests = _sent(case, texts, rate)
    kept = requests.at >= WARM_UP_S * 1000
    latencies: list[list[Floats]] = [[] for _ in models]
    answered = np.zeros(len(models))
    for seed in range(SIMULATIONS):
        outcome = simulate(requests, arrays, machines, seed)
        at = outcome.sent + outcome.latency
        end = (WARM_UP_S + seconds_of(rate)) * 1000
        for number in range(len(models)):
            own = kept & (requests.model == number) & (outcome.status == ANSWERED)
            latencies[number].append(outcome.latency[own])
            in_time = (requests.model == number) & (at >= WARM_UP_S * 1000) & (at < end)
            answered[number] += in_time.sum() / seconds_of(rate) / SIMULATIONS
    found = []
    for own_rate, values in zip(answered, latencies, strict=True):
        p50, p99 = (float(one) for one in np.percentile(np.concatenate(values), (50, 99)))
        found.append(Figures(float(own_rate), p50, p99))
    return found


def _system(case: Case, models: list[Calibrated]) -> tuple[Models, Machines]:
    place = place_here(models, None, client_here=True)
    services = [Service(case.groups, case.batch_size, case.delay_ms) for _ in models]
    costs = [variants[0].costs[case.groups[0]] for variants in place.variants]
    return models_of(costs, services), machines_at(place, costs, services)


def seconds_of(rate: float) -> float:
    """How long a workload is measured."""
    return min(LONGEST_S, max(SECONDS, REQUESTS / rate))


def _sent(case: Case, texts: list[Texts], rate: float) -> Requests:
    """The requests that the generators send: each model has one, with the same schedule and its own texts in turn."""
    last = WARM_UP_S + seconds_of(rate)
    schedule = list(itertools.takewhile(lambda at: at < last, arrival_times("poisson", rate, 0, 1)))
    count = len(schedule)
    at, model, tokens = [], [], []
    for number, (instances, own) in enumerate(zip(case.instances, texts, strict=True)):
        bodies = bodies_of(list(range(len(own.documents))), instances)
        rows = np.array([json.loads(body)["inputs"] for body in bodies]).reshape(len(bodies), instances)
        at.append(np.array(schedule) * 1000)
        model.append(np.full(count, number))
        tokens += [own.tokens[rows[place % len(rows)]] for place in range(count)]
    times, numbers = np.concatenate(at), np.concatenate(model)
    order = np.argsort(times, kind="stable")
    sizes = np.array([len(ids) for ids in tokens])[order]
    first = np.concatenate([[0], np.cumsum(sizes)])
    return Requests(times[order], numbers[order], first, np.concatenate([tokens[place] for place in order]), 0)


def serve(case: Case, models: list[Calibrated], server: BenchmarkServer) -> list[Endpoint]:
    """Serve the models of a case as it says."""
    groups = ",".join(map(str, case.groups))
    for model in models:
        serving = model.spec.serving.model_copy(
            update={"batch_size": case.batch_size, "batch_delay_ms": case.delay_ms, "queue_size": QUEUE}
        )
        server.archive(model.spec.model_copy(update={"core_groups": groups, "serving": serving}))
    return server.serve_together([model.spec.name for model in models])


def measure(case: Case, endpoints: list[Endpoint], texts: list[Texts], rate: float) -> list[Figures]:
    """Measure a case that is served, in an open loop: the figures of each model."""
    seconds = seconds_of(rate)
    return _measure(case, endpoints, texts, Load(CONNECTIONS, rate=rate, window_s=seconds, seconds=seconds))


def measure_closed(case: Case, endpoints: list[Endpoint], texts: list[Texts], connections: int) -> list[Figures]:
    """The same in a closed loop."""
    return _measure(case, endpoints, texts, Load(connections, window_s=SECONDS / 2, seconds=SECONDS / 2))


def _measure(case: Case, endpoints: list[Endpoint], texts: list[Texts], load: Load) -> list[Figures]:
    load = replace(load, warm_up_s=WARM_UP_S)
    payloads = [
        Payload(bodies_of(own.documents, instances), instances, "")
        for instances, own in zip(case.instances, texts, strict=True)
    ]
    with ThreadPoolExecutor(len(endpoints)) as threads:
        runs = [
            threads.submit(measure_endpoint, endpoint, LoadCase(load, payload))
            for endpoint, payload in zip(endpoints, payloads, strict=True)
        ]
        return [_figures(run.result()) for run in runs]


def _figures(measured: Measurement) -> Figures:
    latency = measured.latency_ms
    return Figures(measured.requests / measured.seconds, latency.get("p50", 0.0), latency.get("p99", 0.0))
