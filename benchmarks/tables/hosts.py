"""The same archive on all cores of this machine: its bare graphs, TorchServe, the host `direct`, and Ray Serve."""

from __future__ import annotations

import shutil
import statistics
from collections.abc import Iterator
from contextlib import contextmanager

from benchmarks.ray_cluster import served_by_ray
from handlers.worker.placement.discovery import cpu_cores
from handlers.worker.values import Instance
from marina.bench.load.measurement import Measurement
from marina.bench.load.mix import mixed_texts
from marina.bench.load.payload import MIX_NAME, LoadCase, Payload, bodies_of
from marina.bench.load.profile import Load
from marina.bench.report.figures import Figures, figures_of, throughput_ratio
from marina.bench.report.results import Configuration, Result
from marina.bench.report.standard import warnings_of
from marina.bench.report.table import Table, TableLayout, number
from marina.bench.server.bare_graphs import bare_graphs
from marina.bench.server.endpoint import Endpoint, measure_endpoint
from marina.bench.sweep.rounds import Measure, Strategy, measure_rounds
from marina.bench.sweep.strategies import bare_strategy
from marina.bench.tables.job import TableJob
from marina.errors import MarinaError
from marina.spec import Spec, make_spec

KIND = "table-hosts"
MODEL = "ava-intent"
TORCHSERVE, DIRECT, RAY, BARE = "TorchServe", "direct", "Ray Serve", "bare graphs"
MANAGED = {TORCHSERVE: "torchserve", DIRECT: "direct"}  # the hosts that `marina serve` has, by their names there
LOADS = ((1, 1), (1, 16), (1, 64), (32, 16))  # texts in a request, connections
ROUNDS, WARM_UP_S, WINDOW_S = 3, 2.0, 6.0


def measure(job: TableJob) -> Result:
    """Measure the table for a text classifier with one head; by default, for the demonstration model of intents."""
    base = job.spec(MODEL)
    fields = {**base.model_dump(exclude_defaults=True), "core_groups": str(len(cpu_cores()))}
    spec = make_spec({**fields, "serving": {"batch_size": 64}})
    workloads = []
    for texts, connections in LOADS:
        load = Load(connections, warm_up_s=WARM_UP_S, window_s=WINDOW_S, seconds=WINDOW_S)
        workloads.append(LoadCase(load, Payload(bodies_of(mixed_texts(), texts), texts, MIX_NAME)))
    paced_ms: list[float] = []
    instances = [Instance(text) for text in mixed_texts()]
    with bare_graphs(spec, job.server.archive(spec), instances) as graphs:
        row = Configuration(model=spec.name, strategy=BARE)
        strategies = [
            bare_strategy(graphs, BARE, row, 2 * WINDOW_S, paced_ms, {}),
            *(_managed(job, spec, workloads, host) for host in MANAGED),
            _ray(job, spec, workloads),
        ]
        entries, _ = measure_rounds(strategies, ROUNDS, job.progress)
    return Result(KIND, f"{base.name} on three hosts", entries, job.price, more={"paced_ms": paced_ms})


def _managed(job: TableJob, spec: Spec, workloads: list[LoadCase], host: str) -> Strategy:
    @contextmanager
    def start() -> Iterator[Measure]:
        job.server.archive(spec)
        endpoint = job.server.serve(spec.name, host=MANAGED[host])
        yield lambda workload: _measure(endpoint, workload, host)
        job.server.unserve()

    return Strategy(host, Configuration(model=spec.name, strategy=host), workloads, start)


def _ray(job: TableJob, spec: Spec, workloads: list[LoadCase]) -> Strategy:
    @contextmanager
    def start() -> Iterator[Measure]:
        job.server.archive(spec)
        folder = job.server.project.root / "ray"
        shutil.rmtree(folder, ignore_errors=True)
        with served_by_ray(job.server.project, spec.name, len(cpu_cores()), folder) as target:
            endpoint = Endpoint(target, Configuration(model=spec.name))
            yield lambda workload: _measure(endpoint, workload, RAY)

    return Strategy(RAY, Configuration(model=spec.name, strategy=RAY), workloads, start)


def _measure(endpoint: Endpoint, workload: LoadCase, host: str) -> tuple[Configuration, Measurement]:
    measurement = measure_endpoint(endpoint, workload)
    if measurement.errors:
        raise MarinaError(f"{host}: requests failed: {measurement.errors}")
    return Configuration(workers=1).with_load_of(workload), measurement


def layout(result: Result) -> TableLayout:
    """Rates and latencies by load; ratios are within rounds."""
    every_figure = figures_of(result)
    (bare,) = [figure for figure in every_figure if figure.entry.configuration.strategy == BARE]
    figures = [figure for figure in every_figure if figure is not bare]
    bases = {_load(figure): figure for figure in figures if figure.entry.configuration.strategy == TORCHSERVE}
    rows: list[list[str]] = [[BARE, "", "", number(bare.throughput.median, 0), "", "", "", ""]]
    ratios: dict[str, list[float]] = {DIRECT: [], RAY: []}
    for figure in sorted(figures, key=_load):
        base = bases[_load(figure)]
        share = throughput_ratio(figure.entry.rounds, base.entry.rounds) if figure is not base else None
        of_bare = throughput_ratio(figure.entry.rounds, bare.entry.rounds)
        if share:
            ratios[str(figure.entry.configuration.strategy)].append(share.median)
        rows.append(
            [
                *(
                    str(figure.entry.configuration.strategy),
                    *map(str, _load(figure)),
                    number(figure.throughput.median, 0),
                ),
                *(number(figure.latency_ms.get(percentile), 1) for percentile in ("p50", "p99")),
                f"{of_bare.median:.0%}" if of_bare else "",
                f"{share.median:.0%}" if share else "",
            ]
        )
    columns = ["host", "texts a request", "connections", "texts/s", "p50 ms", "p99 ms", "of bare", "of TorchServe"]
    shares = [f"{host} answers {min(ratio):.0%} to {max(ratio):.0%}" for host, ratio in ratios.items() if ratio]
    conclusion = f"{', '.join(shares)} of what TorchServe does on the same cores."
    notes = [
        "one worker, or one replica, on all cores; the load generator shares them",
        f"a text alone, after a pause, takes {statistics.median(result.more['paced_ms']):.1f} ms in the bare graphs",
        *warnings_of(result),
    ]
    return TableLayout([Table(columns, rows, 6)], notes, conclusion)


def _load(figure: Figures) -> tuple[int, int]:
    return figure.entry.configuration.instances or 1, figure.entry.configuration.connections or 0
