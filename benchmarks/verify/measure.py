"""Predicts a case, and measures it."""

from __future__ import annotations

import itertools
import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from benchmarks.verify.cases import LENGTHS, Case
from handlers.worker.archive.artifact import read_artifact
from handlers.worker.rows.plan import max_sequence_length
from handlers.worker.tokens.prompts import default_rows
from handlers.worker.tokens.reader import open_reader
from marina.bench.load.arrivals import arrival_times
from marina.bench.load.measurement import Measurement
from marina.bench.load.payload import MIX, LoadCase, Payload, bodies_of, documents_of, read_instances
from marina.bench.load.profile import Load
from marina.bench.server.benchmark_server import BenchmarkServer
from marina.bench.server.endpoint import Endpoint, measure_endpoint
from marina.errors import SpecError
from marina.plan.evaluation.evaluate import machines_at
from marina.plan.options.places import Calibrated, place_here
from marina.plan.simulator.run import simulate
from marina.plan.simulator.system import Service, models_of
from marina.plan.simulator.uncertainty import RANGE, range_around
from marina.plan.simulator.values import ANSWERED, Floats, Machines, Models, Requests
from marina.plan.workload import Traffic, draw

CONNECTIONS = 256  # of the generator, and of the closed loop whose throughput is the capacity
CAPACITY_REQUESTS = 15_000
SIMULATIONS = 12
WARM_UP_S = 1.5
MIN_SECONDS, MAX_SECONDS, TARGET_REQUESTS = 8.0, 20.0, 1500  # of a measurement
QUEUE = 100_000


class Figures(NamedTuple):
    """Requests per second, and latencies in milliseconds."""

    rate: float
    p50: float
    p99: float


class Prediction(NamedTuple):
    """What is predicted of a model: its figures, and the ranges in which measurements of its latencies should be."""

    figures: Figures
    p50: tuple[float, float]
    p99: tuple[float, float]


@dataclass(frozen=True)
class Comparison:
    """The predicted and the measured figures of a case, for one of its models."""

    case: Case
    model: str
    rate: float
    predicted: Prediction
    measured: list[Figures]


class Texts(NamedTuple):
    """Instances in the format of requests, and the tokens of each."""

    documents: list[Any]
    tokens: np.ndarray[tuple[int], np.dtype[np.int64]]


def texts_of(model: Calibrated, kind: str) -> Texts:
    """The instances of the built-in mix with the lengths of a kind, or the instances of a file, as a model reads them.

    Raises:
        SpecError: the file cannot be read, or no instance has these lengths.
    """
    _, folder = model.calibrations[0]
    fields = model.spec.instance_fields
    artifact = read_artifact(folder)
    instances = read_instances(MIX if kind in LENGTHS else str(model.project.root / kind), fields)
    reader = open_reader(folder.joinpath, artifact.signature)
    rows = default_rows(instances, artifact.signature, reader, max_sequence_length(artifact.shapes), "truncate")
    min_tokens, max_tokens = LENGTHS.get(kind, (0, max_sequence_length(artifact.shapes)))
    indexes = [index for index, row in enumerate(rows) if min_tokens <= len(row.ids) <= max_tokens]
    if not indexes:
        raise SpecError(f"{model.spec.name} has no text of {min_tokens} to {max_tokens} tokens")
    documents = documents_of(instances, fields)
    return Texts(
        [documents[index] for index in indexes], np.array([len(rows[index].ids) for index in indexes], np.int64)
    )


def capacity(case: Case, models: list[Calibrated], texts: list[Texts], connections: int = CONNECTIONS) -> float:
    """The predicted requests per second of each model in a closed loop of all models."""
    arrays, machines = _system(case, models, [1.0] * len(models))
    traffic = [
        Traffic(1.0, instances, model_texts.tokens)
        for instances, model_texts in zip(case.instances, texts, strict=True)
    ]
    closed = draw(traffic, CAPACITY_REQUESTS, 1.0, case.number)._replace(connections=connections)
    return len(closed.model) / simulate(closed, arrays, machines, case.number).end * 1000 / len(models)


def predict(case: Case, models: list[Calibrated], texts: list[Texts], rate: float) -> list[Prediction]:
    """What is predicted of each model at `rate` requests per second.

    The arrivals and the texts are the same as the generator's. Only the server is random: the figures are computed
    from several simulations together.
    """
    requests = _requests_of(case, texts, rate)
    end_ms = (WARM_UP_S + seconds_of(rate)) * 1000

    def simulated(slowdowns: list[float]) -> list[Figures]:
        return _simulate(case, models, requests, end_ms, slowdowns)

    lows50, highs50, lows99, highs99 = (
        simulated([model.newest.uncertainty.at(percentile, end) for model in models])
        for percentile in (50, 99)
        for end in RANGE
    )
    figures = simulated([1.0] * len(models))
    return [
        Prediction(
            predicted,
            range_around(predicted.p50, low50.p50, high50.p50),
            range_around(predicted.p99, low99.p99, high99.p99),
        )
        for predicted, low50, high50, low99, high99 in zip(figures, lows50, highs50, lows99, highs99, strict=True)
    ]


def _simulate(
    case: Case, models: list[Calibrated], requests: Requests, end: float, slowdowns: list[float]
) -> list[Figures]:
    """The figures of each model until a time in milliseconds, if it is so much slower than its calibration says."""
    arrays, machines = _system(case, models, slowdowns)
    start = WARM_UP_S * 1000
    latencies: list[list[Floats]] = [[] for _ in models]
    answered = np.zeros(len(models))
    for seed in range(SIMULATIONS):
        outcome = simulate(requests, arrays, machines, seed)
        end_times = outcome.sent + outcome.latency
        for model_index in range(len(models)):
            of_model = requests.model == model_index
            counted = (requests.at >= start) & of_model & (outcome.status == ANSWERED)
            latencies[model_index].append(outcome.latency[counted])
            answered[model_index] += (of_model & (end_times >= start) & (end_times < end)).sum() / SIMULATIONS
    return [
        Figures(float(count / (end - start) * 1000), *map(float, np.percentile(np.concatenate(parts), (50, 99))))
        for count, parts in zip(answered, latencies, strict=True)
    ]


def _system(case: Case, models: list[Calibrated], slowdowns: list[float]) -> tuple[Models, Machines]:
    machine_type = place_here(models, None, client_here=True)
    services = [Service(case.groups, case.batch_size, case.delay_ms) for _ in models]
    costs = [
        variants[0].costs[case.groups[0]].slower(slowdown)
        for variants, slowdown in zip(machine_type.variants, slowdowns, strict=True)
    ]
    return models_of(costs, services), machines_at(machine_type, costs, services)


def seconds_of(rate: float) -> float:
    """The seconds for which a workload is measured."""
    return min(MAX_SECONDS, max(MIN_SECONDS, TARGET_REQUESTS / rate))


def _requests_of(case: Case, texts: list[Texts], rate: float) -> Requests:
    """The requests of the generators, one for each model: the same schedule, and the model's texts in turn."""
    end_s = WARM_UP_S + seconds_of(rate)
    schedule = list(itertools.takewhile(lambda send_time: send_time < end_s, arrival_times("poisson", rate, 0, 1)))
    count = len(schedule)
    send_times_ms, model_numbers, tokens = [], [], []
    for model_index, (instances, model_texts) in enumerate(zip(case.instances, texts, strict=True)):
        bodies = bodies_of(list(range(len(model_texts.documents))), instances)
        rows = np.array([json.loads(body)["inputs"] for body in bodies]).reshape(len(bodies), instances)
        send_times_ms.append(np.array(schedule) * 1000)
        model_numbers.append(np.full(count, model_index))
        tokens += [model_texts.tokens[rows[index % len(rows)]] for index in range(count)]
    all_times, all_models = np.concatenate(send_times_ms), np.concatenate(model_numbers)
    send_order = np.argsort(all_times, kind="stable")
    sizes = np.array([len(ids) for ids in tokens])[send_order]
    first_instances = np.concatenate([[0], np.cumsum(sizes)])
    return Requests(
        all_times[send_order],
        all_models[send_order],
        first_instances,
        np.concatenate([tokens[index] for index in send_order]),
        0,
    )


def serve(case: Case, models: list[Calibrated], server: BenchmarkServer) -> list[Endpoint]:
    """Serve the models of a case with its groups, batch size and delay."""
    groups = ",".join(map(str, case.groups))
    for model in models:
        serving = model.spec.serving.model_copy(
            update={"batch_size": case.batch_size, "batch_delay_ms": max(1, case.delay_ms), "queue_size": QUEUE}
        )
        server.archive(model.spec.model_copy(update={"core_groups": groups, "serving": serving}))
    return server.serve_together([model.spec.name for model in models], host=models[0].host)


def measure(case: Case, endpoints: list[Endpoint], texts: list[Texts], rate: float) -> list[Figures]:
    """Measure a served case in an open loop; returns the figures of each model."""
    seconds = seconds_of(rate)
    return _measure(case, endpoints, texts, Load(CONNECTIONS, rate=rate, window_s=seconds, seconds=seconds))


def measure_closed(case: Case, endpoints: list[Endpoint], texts: list[Texts], connections: int) -> list[Figures]:
    """Measure a served case in a closed loop; returns the figures of each model."""
    return _measure(case, endpoints, texts, Load(connections, window_s=MIN_SECONDS / 2, seconds=MIN_SECONDS / 2))


def _measure(case: Case, endpoints: list[Endpoint], texts: list[Texts], load: Load) -> list[Figures]:
    load = replace(load, warm_up_s=WARM_UP_S)
    payloads = [
        Payload(bodies_of(model_texts.documents, instances), instances, "")
        for instances, model_texts in zip(case.instances, texts, strict=True)
    ]
    with ThreadPoolExecutor(len(endpoints)) as threads:
        runs = [
            threads.submit(measure_endpoint, endpoint, LoadCase(load, payload))
            for endpoint, payload in zip(endpoints, payloads, strict=True)
        ]
        return [_figures(run.result()) for run in runs]


def _figures(measurement: Measurement) -> Figures:
    latency = measurement.latency_ms
    return Figures(measurement.requests / measurement.seconds, latency.get("p50", 0.0), latency.get("p99", 0.0))
