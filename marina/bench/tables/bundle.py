"""A bundle against an archive for each of its models: memory, and throughput with the same requests on all cores."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from statistics import median

from marina.bench.load.measurement import Measurement
from marina.bench.load.payload import LoadCase, Payload, payload_for, read_payload, texts_of
from marina.bench.load.profile import Load
from marina.bench.report.figures import figures_of, throughput_ratio
from marina.bench.report.results import Configuration, Result
from marina.bench.report.standard import warnings_of
from marina.bench.report.table import Table, TableLayout, number, spread
from marina.bench.server.endpoint import measure_endpoint
from marina.bench.sweep.rounds import Measure, Strategy, measure_rounds
from marina.bench.tables.job import TableJob
from marina.errors import MarinaError
from marina.spec import Spec
from marina.spec.bundle import Bundle, read_bundle, read_members

KIND = "table-bundle"
DEFAULT_BUNDLE = "ava-bot"
SEPARATE, BUNDLED = "an archive for each model", "one bundle"
CONNECTIONS = (1, 12, 48)
ROUNDS, SECONDS = 3, 10.0
REQUESTS_PER_MODEL = 256  # before requests repeat


def measure(job: TableJob) -> Result:
    """Measure the table for a bundle; by default, for the demonstration bundle. MarinaError for a single model."""
    path = job.project.models / f"{job.name or DEFAULT_BUNDLE}.yaml"
    bundle = read_bundle(path)
    specs = read_members(bundle, job.project.models, {"engine": job.engine} if job.engine else {})
    payloads = [read_payload(texts_of(spec, job.project), spec.instance_fields, 1) for spec in specs]
    memory: dict[str, list[float]] = {SEPARATE: [], BUNDLED: []}
    strategies = [
        _strategy(job, bundle, specs, SEPARATE, _interleaved_payload(payloads, None), memory),
        _strategy(job, bundle, specs, BUNDLED, _interleaved_payload(payloads, specs), memory),
    ]
    entries, _ = measure_rounds(strategies, ROUNDS, job.progress)
    title = f"{bundle.name}: {len(specs)} models in one worker, against a worker for each"
    return Result(KIND, title, entries, job.price, more={"models": list(bundle.bundle), "megabytes": memory})


def _interleaved_payload(payloads: Sequence[Payload], specs: Sequence[Spec] | None) -> Payload:
    """One request for each model in turn; with specs, every request names its model."""
    model_payloads = (
        [payload_for(spec.name, payload) for spec, payload in zip(specs, payloads, strict=True)] if specs else payloads
    )
    bodies = [
        payload.bodies[turn % len(payload.bodies)] for turn in range(REQUESTS_PER_MODEL) for payload in model_payloads
    ]
    return Payload(bodies, 1, "each model's own, in turn")


def _strategy(
    job: TableJob, bundle: Bundle, specs: Sequence[Spec], name: str, payload: Payload, memory: dict[str, list[float]]
) -> Strategy:
    workloads = [
        LoadCase(Load(connections=connections, window_s=SECONDS, seconds=SECONDS), payload)
        for connections in CONNECTIONS
    ]

    @contextmanager
    def start() -> Iterator[Measure]:
        if name == BUNDLED:
            job.server.archive_bundle(bundle, specs)
        else:
            for spec in specs:
                job.server.archive(spec)
        names = [bundle.name] if name == BUNDLED else [spec.name for spec in specs]
        endpoints = job.server.serve_together(names)
        paths = tuple(path for endpoint in endpoints for path in endpoint.target.paths)
        # the server's metrics count every model by itself
        mixed_endpoint = endpoints[0]._replace(target=replace(endpoints[0].target, paths=paths), metrics_port=None)

        def measure_workload(workload: LoadCase) -> tuple[Configuration, Measurement]:
            measurement = measure_endpoint(mixed_endpoint, workload)
            if measurement.errors:
                raise MarinaError(f"{name}: requests failed: {measurement.errors}")
            return Configuration(workers=len(endpoints)).with_load_of(workload), measurement

        yield measure_workload
        memory[name].append(job.server.shared_megabytes())

    return Strategy(name, Configuration(model=bundle.name, strategy=name), workloads, start)


def layout(result: Result) -> TableLayout:
    """Throughput and latency by connections, with the ratio within rounds, and the memory of all workers."""
    bases = {
        entry.configuration.connections: entry for entry in result.entries if entry.configuration.strategy == SEPARATE
    }
    memory = {name: median(values) for name, values in result.more["megabytes"].items()}
    rows, ratios = [], []
    for figure in figures_of(result):
        configuration = figure.entry.configuration
        base = bases[configuration.connections]
        ratio = throughput_ratio(figure.entry.rounds, base.rounds) if figure.entry is not base else None
        if ratio:
            ratios.append(ratio.median)
        rows.append(
            [
                str(configuration.strategy),
                str(configuration.connections),
                spread(figure.throughput),
                spread(ratio),
                number(figure.latency_ms.get("p50")),
                number(figure.latency_ms.get("p99")),
                number(memory[str(configuration.strategy)], 0),
            ]
        )
    columns = ["served as", "connections", "requests/s", "ratio", "p50 ms", "p99 ms", "MB of workers"]
    models = result.more["models"]
    saving = 1 - memory[BUNDLED] / memory[SEPARATE]
    conclusion = (
        f"{len(models)} models in one worker need {memory[BUNDLED]:.0f} MB, {saving:.0%} less than a worker for each "
        f"({memory[SEPARATE]:.0f} MB), and answer {min(ratios):.2f} to {max(ratios):.2f} times as many requests."
    )
    notes = [
        f"models: {', '.join(models)}; each request is for the next of them, with a text of its own examples",
        "memory: proportional set size of the workers after the load; pages that workers share are counted once",
        *warnings_of(result),
    ]
    return TableLayout([Table(columns, rows, 5)], notes, conclusion)
