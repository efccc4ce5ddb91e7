"""Where the milliseconds of a text that comes alone go: `marina bench table latency`.

An intent model with shapes for the built-in mix, with TorchServe's batches and without them: one request after the
other, and requests that arrive as users send them. Shapes are chosen on other texts than the texts that are sent.
"""

from __future__ import annotations

import statistics
from contextlib import ExitStack

from handlers.worker.placement.discovery import cpu_cores
from handlers.worker.values import Instance
from marina.bench.load.measurement import ServerMetrics
from marina.bench.load.mix import mixed_texts
from marina.bench.load.payload import MIX_NAME, LoadCase, Payload, bodies_of
from marina.bench.load.profile import OPEN_CONNECTIONS, Load
from marina.bench.report.figures import Figures, figures_of
from marina.bench.report.results import Configuration, Result
from marina.bench.report.standard import warnings_of
from marina.bench.report.table import Table, TableLayout, number
from marina.bench.server.bare_graphs import bare_graphs
from marina.bench.sweep.rounds import measure_rounds
from marina.bench.sweep.strategies import bare_strategy, served_strategy
from marina.bench.tables.job import TableJob, advice_for_mix
from marina.spec import Spec, make_spec

KIND = "table-latency"
MODEL = "ava-intent"
BATCHES, NO_BATCHES, PER_CORE = "batches of 32 at most", "no batches", "no batches, a worker per core"
VARIANTS = {BATCHES: (1, 32), NO_BATCHES: (1, 1), PER_CORE: (len(cpu_cores()), 1)}  # workers, requests in a batch
RATE = 100.0
MAX_LENGTH, PRICE = 128, 0.01
ROUNDS, WARM_UP_S, WINDOW_S, OPEN_S = 3, 2.0, 5.0, 10.0
BARE, SERVED = "bare graphs", "served"


def measure(job: TableJob) -> Result:
    """Measure the table for a text classifier with one head; by default, for the demonstration model of intents."""
    base = job.spec(MODEL)
    fields = {**base.model_dump(exclude_defaults=True), "precision": "auto", "shapes": {"exact": [f"1x{MAX_LENGTH}"]}}
    fields["shapes"] = {"exact": [str(shape) for shape in advice_for_mix(job, make_spec(fields), None, PRICE).shapes]}
    specs = {kind: _variant(fields, index, *variant) for index, (kind, variant) in enumerate(VARIANTS.items())}
    closed = Load(1, warm_up_s=WARM_UP_S, window_s=WINDOW_S, seconds=WINDOW_S)
    opened = Load(OPEN_CONNECTIONS, rate=RATE, warm_up_s=WARM_UP_S, window_s=OPEN_S, seconds=OPEN_S)
    workloads = [LoadCase(load, Payload(bodies_of(mixed_texts(), 1), 1, MIX_NAME)) for load in (closed, opened)]
    paced_ms: list[float] = []
    with ExitStack() as stack:
        bare_spec = specs[NO_BATCHES]
        graphs_context = bare_graphs(
            bare_spec, job.server.archive(bare_spec), [Instance(text) for text in mixed_texts()]
        )
        row = Configuration(model=base.name, strategy=NO_BATCHES, part=BARE)
        strategies = [bare_strategy(stack.enter_context(graphs_context), NO_BATCHES, row, 2 * WINDOW_S, paced_ms, {})]
        for kind, spec in specs.items():
            row = Configuration(model=base.name, strategy=kind, part=SERVED)
            strategies.append(served_strategy(job.server, kind, row, spec, workloads))
        entries, _ = measure_rounds(strategies, ROUNDS, job.progress)
    more = {"paced_ms": paced_ms, "shapes": fields["shapes"]["exact"]}
    return Result(KIND, f"the latency of {base.name}", entries, job.price, more=more)


def _variant(fields: dict[str, object], index: int, workers: int, batch_size: int) -> Spec:
    groups = ",".join([str(len(cpu_cores()) // workers)] * workers)
    name = f"{fields['name']}-latency-{index}"
    return make_spec({**fields, "name": name, "core_groups": groups, "serving": {"batch_size": batch_size}})


def layout(result: Result) -> TableLayout:
    """Latencies, their excess over the latency of the bare graphs, and the means of their parts."""
    figures = figures_of(result)
    (bare,) = (figure for figure in figures if figure.entry.configuration.part == BARE)
    served = sorted(
        (figure for figure in figures if figure.entry.configuration.part == SERVED),
        key=lambda figure: figure.entry.configuration.rate or 0.0,
    )
    bare_p50 = bare.latency_ms["p50"]
    latencies = [number(bare_p50, 2), number(bare.latency_ms["p99"], 1)]
    rows = [["bare graphs", "one after the other", *latencies, "", "", number(bare.latency_ms["mean"], 2), "", ""]]
    for figure in served:
        configuration = figure.entry.configuration
        load = f"{configuration.rate:g} requests/s" if configuration.rate else "one after the other"
        p50 = figure.latency_ms["p50"]
        cells = [number(p50, 2), number(figure.latency_ms["p99"], 1), number(p50 - bare_p50, 2)]
        rows.append([str(configuration.strategy), load, *cells, *(number(part, 2) for part in _parts(figure))])
    columns = ["", "load", "p50 ms", "p99 ms", "p50 over bare", "queue ms", "graph ms", "rest of worker ms", "rest ms"]
    notes = [
        f"graphs: {', '.join(result.more['shapes'])}",
        f"a text alone in its bare graph, with pauses as between requests: "
        f"{statistics.median(result.more['paced_ms']):.2f} ms",
        "queue, graph and rests are means of requests: in TorchServe's queue with its wait for a batch, in the graph, "
        "in the worker besides, and on the way between client, TorchServe and worker",
    ]
    fastest = min(
        (figure for figure in served if not figure.entry.configuration.rate),
        key=lambda figure: figure.latency_ms["p50"],
    )
    conclusion = (
        f"A text alone takes {number(fastest.latency_ms['p50'], 1)} ms with {fastest.entry.configuration.strategy}, "
        f"{number(fastest.latency_ms['p50'] - bare_p50, 1)} ms more than its bare graph."
    )
    return TableLayout([Table(columns, rows, 7)], [*notes, *warnings_of(result)], conclusion)


def _parts(figure: Figures) -> list[float | None]:
    """Mean milliseconds in the queue, in graphs, in the rest of the worker and elsewhere: medians over rounds."""
    parts_of_rounds = [
        _split(measurement.server, measurement.latency_ms["mean"])
        for measurement in figure.entry.rounds
        if measurement.server and measurement.server.queue_ms is not None
    ]
    return (
        [statistics.median(values) for values in zip(*parts_of_rounds, strict=True)] if parts_of_rounds else [None] * 4
    )


def _split(server: ServerMetrics, mean_ms: float) -> tuple[float, ...]:
    queue = server.queue_ms or 0.0
    graph = server.worker_ms * server.stage_share["graph"]
    return queue, graph, server.worker_ms - graph, mean_ms - queue - server.worker_ms
