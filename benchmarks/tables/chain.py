"""A chain against two requests: `python -m benchmarks chain`.

A bundle has all-MiniLM-L6-v2 and a cross-encoder of its size with random weights, since only sizes affect speed. A
client sends a query with documents, one request after the other: for the chain, or the documents for their embeddings,
and then those with the highest cosines to the reranker.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from statistics import median
from typing import Any

import numpy as np

from benchmarks.random_models import TOKENIZER
from benchmarks.tables.tasks import RERANK, save_model
from handlers.worker.placement.discovery import cpu_cores
from marina.bench.load.histogram import new_histogram, record
from marina.bench.load.measurement import Measurement
from marina.bench.load.mix import random_text
from marina.bench.load.payload import LoadCase, Payload
from marina.bench.load.profile import Load
from marina.bench.report.figures import figures_of, throughput_ratio
from marina.bench.report.results import Configuration, Result
from marina.bench.report.table import Table, TableLayout, number, spread
from marina.bench.sweep.rounds import Measure, Strategy, measure_rounds
from marina.bench.tables.job import TableJob
from marina.client import Client
from marina.spec import Spec, make_spec
from marina.spec.bundle import Bundle

KIND = "table-chain"
NAME, SEARCH, RERANKER = "match", "search", "rerank"
CHAINED, TWO = "one request for the chain", "two requests"
QUERY_TOKENS, DOCUMENT_TOKENS, MAX_LENGTH = 8, 60, 128
DOCUMENTS = (8, 24, 96)
CANDIDATES = 8
HOST = "direct"
ROUNDS, SECONDS, WARM_UPS = 3, 8.0, 5


def measure(job: TableJob) -> Result:
    """Measure the table."""
    folder = save_model(job.project.root / "build" / "bench" / "tasks" / RERANK, RERANK, job.project.root)
    specs = [
        _spec(SEARCH, "sentence-embedding", TOKENIZER.model_dump(exclude_none=True)),
        _spec(RERANKER, RERANK, {"path": str(folder)}),
    ]
    names = [spec.name for spec in specs]
    bundle = Bundle.model_validate({"name": NAME, "bundle": names, "chain": names, "core_groups": specs[0].core_groups})
    strategies = [_strategy(job, bundle, specs, name) for name in (TWO, CHAINED)]
    entries, _ = measure_rounds(strategies, ROUNDS, job.progress)
    return Result(KIND, "a chain against two requests", entries, job.price)


def _spec(name: str, task: str, source: dict[str, Any]) -> Spec:
    fields: dict[str, Any] = {"name": name, "task": task, "source": source, "shapes": {"auto": MAX_LENGTH}}
    return make_spec({**fields, "core_groups": str(len(cpu_cores()))})


def _strategy(job: TableJob, bundle: Bundle, specs: list[Spec], name: str) -> Strategy:
    @contextmanager
    def start() -> Iterator[Measure]:
        job.server.archive_bundle(bundle, specs)
        target = job.server.serve(bundle.name, host=HOST).target
        with Client.http(f"http://{target.address}", target.token) as client:
            ask = chained if name == CHAINED else in_two_requests

            def measured(workload: LoadCase) -> tuple[Configuration, Measurement]:
                query, documents = _texts(workload.payload.instances)
                return _measured(lambda: ask(client, query, documents), workload)

            yield measured
        job.server.unserve()

    workloads = [LoadCase(Load(1), Payload([], count, "mix")) for count in DOCUMENTS]
    return Strategy(name, Configuration(model=bundle.name, strategy=name), workloads, start)


def _texts(documents: int) -> tuple[str, list[str]]:
    chance = random.Random(documents)
    query = random_text(QUERY_TOKENS, chance)
    return query, [random_text(DOCUMENT_TOKENS, chance) for _ in range(documents)]


def chained(client: Client, query: str, documents: list[str]) -> list[int]:
    """The documents in their order, by one request."""
    return [entry["index"] for entry in client.rerank(NAME, query, documents, candidates=CANDIDATES)]


def in_two_requests(client: Client, query: str, documents: list[str]) -> list[int]:
    """The same by a request for embeddings, and one for the documents that are nearest to the query."""
    vectors = np.array(client.embed(f"{NAME}:{SEARCH}", [query, *documents]))
    best = sorted(np.argsort(-(vectors[1:] @ vectors[0]), kind="stable")[:CANDIDATES].tolist())
    ranked = client.rerank(f"{NAME}:{RERANKER}", query, [documents[number] for number in best])
    return [best[entry["index"]] for entry in ranked]


def _measured(ask: Callable[[], list[int]], workload: LoadCase) -> tuple[Configuration, Measurement]:
    for _ in range(WARM_UPS):
        ask()
    latencies, requests, start = new_histogram(), 0, time.perf_counter()
    while time.perf_counter() < start + SECONDS:
        began = time.perf_counter()
        ask()
        record(latencies, time.perf_counter() - began)
        requests += 1
    seconds, texts = time.perf_counter() - start, requests * workload.payload.instances
    measurement = Measurement.of_calls(seconds, requests, texts, texts / seconds, latencies)
    return Configuration().with_load_of(workload), measurement


def layout(result: Result) -> TableLayout:
    """Documents per second and latency, with the ratio within rounds."""
    figures = figures_of(result)
    bases = {
        figure.entry.configuration.instances: figure for figure in figures if figure.entry.configuration.strategy == TWO
    }
    rows, ratios = [], []
    for figure in figures:
        configuration = figure.entry.configuration
        base = bases[configuration.instances]
        ratio = throughput_ratio(figure.entry.rounds, base.entry.rounds) if figure is not base else None
        ratios += [ratio.median] if ratio else []
        latencies = (number(figure.latency_ms.get(percentile), 1) for percentile in ("p50", "p99"))
        rows.append(
            [
                str(configuration.instances),
                str(configuration.strategy),
                spread(figure.throughput),
                *latencies,
                spread(ratio) if ratio else "",
            ]
        )
    columns = ["documents", "", "documents/s", "p50 ms", "p99 ms", "ratio"]
    notes = [
        f"host {HOST} on this machine, one connection; documents of {DOCUMENT_TOKENS} tokens, {CANDIDATES} candidates",
        "two requests: embeddings of the query and of the documents, then a ranking of the nearest",
    ]
    conclusion = (
        f"A chain answers {min(ratios):.2f} to {max(ratios):.2f} times as many documents as two requests; median "
        f"{median(ratios):.2f}."
    )
    return TableLayout([Table(columns, rows, 2)], notes, conclusion)
