"""Predicts a case, and measures it twice."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from handlers.worker.artifact import read_artifact
from handlers.worker.rows.plan import longest
from handlers.worker.rows.prompts import default_rows
from handlers.worker.rows.reader import open_reader
from handlers.worker.values import Instance
from marina.bench.load.measurement import Measurement
from marina.bench.load.mix import mixed
from marina.bench.load.payload import Payload, Workload, bodies_of
from marina.bench.load.profile import Load
from marina.bench.server.benchmark_server import BenchmarkServer
from marina.bench.server.endpoint import measure_endpoint
from marina.plan.places import Calibrated, place_here
from marina.plan.simulator.run import simulate
from marina.plan.simulator.system import Service, machines_of, models_of
from marina.plan.simulator.values import ANSWERED, Outcome, Requests
from marina.plan.verify.cases import LENGTHS, Case
from marina.plan.workload import Traffic, draw

CONNECTIONS = 256  # of the generator, and of the closed loop that gives the capacity
SIMULATED = 60_000
WARM_UP_S = 1.5
SECONDS, LONGEST_S, REQUESTS = 10.0, 25.0, 1500  # of a measurement: the least, the most, and wanted
TWICE = 2


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
    """Texts of one kind, and the tokens of each."""

    texts: list[str]
    tokens: np.ndarray[tuple[int], np.dtype[np.int64]]


def texts_of(model: Calibrated, kind: str) -> Texts:
    """The texts of the built-in mix that have the lengths of a kind, as a model reads them."""
    artifact = read_artifact(model.calibrations[0][1])
    texts = mixed(seed=2)
    reader = open_reader(model.calibrations[0][1].joinpath, artifact.signature)
    rows = default_rows(
        [Instance(one) for one in texts], artifact.signature, reader, longest(artifact.shapes), "truncate"
    )
    low, high = LENGTHS[kind]
    kept = [(text, len(row.ids)) for text, row in zip(texts, rows) if low <= len(row.ids) <= high]
    return Texts([text for text, _ in kept], np.array([tokens for _, tokens in kept], np.int64))


def predict(case: Case, models: list[Calibrated], texts: list[Texts]) -> tuple[float, list[Figures]]:
    """The requests per second to send for each model, and what is predicted of each."""
    place = place_here(models, None, client_here=True)
    services = [Service(case.groups, case.batch_size, case.delay_ms) for _ in models]
    costs = [variants[0].costs[case.groups[0]] for variants in place.variants]
    machines = machines_of(services, place.cores, place.contention, place.stolen, place.entering, place.timer)
    arrays = models_of(costs, services)

    def run(requests: Requests) -> Outcome:
        return simulate(requests, arrays, machines, case.number)

    traffic = [Traffic(1.0, instances, own.tokens) for instances, own in zip(case.instances, texts)]
    closed = draw(traffic, SIMULATED // 4, 1.0, case.number)
    whole = run(closed._replace(connections=CONNECTIONS))
    rate = case.share * len(closed.model) / whole.end * 1000 / len(models)
    drawn = draw([own._replace(rate=rate) for own in traffic], SIMULATED, 1.0, case.number)
    outcome = run(drawn)
    found = []
    for number in range(len(models)):
        kept = (drawn.model == number) & (outcome.status == ANSWERED)
        span = outcome.sent[drawn.model == number].max() / 1000
        p50, p99 = (float(one) for one in np.percentile(outcome.latency[kept], (50, 99)))
        found.append(Figures(min(rate, float(kept.sum() / span)), p50, p99))
    return rate, found


def measure(
    case: Case, models: list[Calibrated], texts: list[Texts], rate: float, server: BenchmarkServer
) -> list[list[Figures]]:
    """Measure a case twice: for each model, the figures of each time."""
    groups = ",".join(map(str, case.groups))
    for model in models:
        serving = model.spec.serving.model_copy(
            update={"batch_size": case.batch_size, "batch_delay_ms": case.delay_ms, "queue_size": 100_000}
        )
        server.archive(model.spec.model_copy(update={"core_groups": groups, "serving": serving}))
    endpoints = server.serve_together([model.spec.name for model in models])
    seconds = min(LONGEST_S, max(SECONDS, REQUESTS / rate))
    load = Load(CONNECTIONS, rate=rate, warm_up_s=WARM_UP_S, window_s=seconds, seconds=seconds)
    payloads = [
        Payload(bodies_of(list(own.texts), instances), instances, "") for instances, own in zip(case.instances, texts)
    ]
    found: list[list[Figures]] = [[] for _ in models]
    for _ in range(TWICE):
        with ThreadPoolExecutor(len(endpoints)) as threads:
            runs = [
                threads.submit(measure_endpoint, endpoint, Workload(load, payload))
                for endpoint, payload in zip(endpoints, payloads)
            ]
            for own, one in zip(found, runs):
                own.append(_figures(one.result()))
    return found


def _figures(measured: Measurement) -> Figures:
    latency = measured.latency_ms
    return Figures(measured.requests / measured.seconds, latency.get("p50", 0.0), latency.get("p99", 0.0))
