"""After Amazon Search: the p99 of a query model at rising load until it exceeds 10 ms, and duplicates in bulk.

The query model is served by each host, and answers one text after the other without a server, in `marina.Scorer`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from statistics import median

from benchmarks.scorer_load import scorer_load
from benchmarks.tables.published import published_table, source_note
from marina.bench.load.measurement import Measurement
from marina.bench.load.payload import LoadCase, Payload, read_instances, read_payload, texts_of
from marina.bench.load.profile import OPEN_CONNECTIONS, Load
from marina.bench.report.figures import figures_of
from marina.bench.report.pictures import latency_throughput, pictures_of
from marina.bench.report.results import Configuration, Entry, Result
from marina.bench.report.standard import price_notes, warnings_of
from marina.bench.report.table import Table, TableLayout, number, spread
from marina.bench.server.endpoint import check, measure_endpoint
from marina.bench.sweep.rounds import Measure, measure_rounds
from marina.bench.sweep.strategies import served_strategy
from marina.bench.tables.job import TableJob
from marina.drawing import LIMIT, new_figure, svg_of
from marina.server.run.state import DIRECT, TORCHSERVE
from marina.spec import Spec

KIND = "table-search"
QUERIES, DUPLICATES = "ava-intent", "product-duplicates"
SCORER, HOSTS = "marina.Scorer", {DIRECT: "direct", TORCHSERVE: "TorchServe"}
PROMISE_MS = 10.0
FIRST_RATE = 50.0
MIN_STEPS, MAX_STEPS = 5, 12  # of doubling the rate
HALVINGS = 2  # of the step in which the p99 first exceeded the limit
ROUNDS = 3
MIN_REQUESTS, MIN_SECONDS = 1000, 6.0  # per round, so that at least ten requests are beyond the p99
BULK_CONNECTIONS, BULK_INSTANCES, BULK_S = 16, 32, 10.0


def measure(job: TableJob) -> Result:
    """Measure the table for a model; by default, for the demonstration models of intents (queries) and duplicates."""
    queries, duplicates = job.spec(QUERIES), job.spec(DUPLICATES)
    job.server.archive(queries)
    strategies = {SCORER: _without_server(job, queries)}
    strategies |= {name: _served(job, queries, host) for host, name in HOSTS.items()}
    entries, highest_rates = [], {}
    for name, strategy in strategies.items():
        with strategy as measure_load:
            highest_rates[name], rising = _rising_load(name, measure_load, _payload(job, queries, 1), job)
            entries += rising
    load = Load(connections=BULK_CONNECTIONS, window_s=BULK_S, seconds=BULK_S)
    bulk_workload = LoadCase(load, _payload(job, duplicates, BULK_INSTANCES))
    bulk_strategy = served_strategy(
        job.server, f"{duplicates.name} in bulk", Configuration(part="bulk"), duplicates, [bulk_workload]
    )
    entries += measure_rounds([bulk_strategy], ROUNDS, job.progress)[0]
    title = f"{queries.name} within {PROMISE_MS:g} ms and {duplicates.name} in bulk, after Amazon Search"
    return Result(KIND, title, entries, job.price, more={"highest_rates": highest_rates, "promise_ms": PROMISE_MS})


@contextmanager
def _served(job: TableJob, spec: Spec, host: str) -> Iterator[Measure]:
    endpoint = job.server.serve(spec.name, host=host)
    try:
        check(endpoint, _payload(job, spec, 1))
        yield lambda workload: (endpoint.configuration, measure_endpoint(endpoint, workload))
    finally:
        job.server.unserve()


@contextmanager
def _without_server(job: TableJob, spec: Spec) -> Iterator[Measure]:
    names = spec.instance_fields.names
    instances = read_instances(texts_of(spec, job.project), spec.instance_fields)
    rows = [dict(zip(names, instance.texts, strict=False)) for instance in instances]
    with scorer_load(job.server.project.model_store / f"{spec.name}.mar", rows) as run:
        yield lambda workload: (Configuration(model=spec.name), run(workload.load))


def _rising_load(name: str, measure_load: Measure, payload: Payload, job: TableJob) -> tuple[float | None, list[Entry]]:
    """The highest rate within the limit, and an entry for each rate that was tried."""
    entries: dict[float, Entry] = {}

    def passes(rate: float) -> bool:
        workload, step = LoadCase(_open_load(rate), payload), len(entries)
        for round_index in range(ROUNDS):
            title = f"{name}, {rate:.0f} requests/s, round {round_index + 1} of {ROUNDS}"
            job.progress(title, step, MAX_STEPS)
            configuration, measurement = measure_load(workload)
            row = replace(configuration, strategy=name, part="queries").with_load_of(workload)
            entries.setdefault(rate, Entry(row, [])).rounds.append(measurement)
            if measurement.errors:
                break
        return within_limit(entries[rate].rounds)

    return highest_passing_rate(passes), [entry for _, entry in sorted(entries.items())]


def within_limit(rounds: list[Measurement]) -> bool:
    """Whether a rate passes: the median p99 of its rounds is within the limit, and every request was answered."""
    if any(measurement.errors or not measurement.latency_ms for measurement in rounds):
        return False
    return median(measurement.latency_ms["p99"] for measurement in rounds) <= PROMISE_MS


def highest_passing_rate(passes: Callable[[float], bool]) -> float | None:
    """Find the highest rate that passes: double it until `passes(rate)` is false, then bisect the last step.

    The rate is doubled at least a few times, even if one of the first rates fails.

    Returns:
        The highest passing rate below the lowest failing one; None if the first rate failed.
    """
    highest_passing, lowest_failing, rate = None, None, FIRST_RATE
    for step in range(MAX_STEPS):
        if not passes(rate):
            lowest_failing = lowest_failing or rate
        elif lowest_failing is None:
            highest_passing = rate
        if lowest_failing is not None and step + 1 >= MIN_STEPS:
            break
        rate *= 2
    if highest_passing is None or lowest_failing is None:
        return highest_passing
    for _ in range(HALVINGS):
        middle = (highest_passing + lowest_failing) / 2
        if passes(middle):
            highest_passing = middle
        else:
            lowest_failing = middle
    return highest_passing


def layout(result: Result) -> TableLayout:
    """The tables of rising load and of bulk requests, and the published figures."""
    rising_rows, bulk_rows = [], []
    for figure in figures_of(result):
        cells = [spread(figure.throughput), *(number(figure.latency_ms.get(name)) for name in ("p50", "p95"))]
        cells.append(spread(figure.p99_ms))
        configuration, cost = figure.entry.configuration, number(figure.cost, 3)
        if configuration.part == "queries":
            verdict = "met" if within_limit(figure.entry.rounds) else "missed"
            failed = str(sum(figure.errors.values()) or "")
            rising_rows.append(
                [str(configuration.strategy), number(configuration.rate, 0), *cells, failed, verdict, cost]
            )
        else:
            requests_by_pairs = f"{configuration.connections} x {configuration.instances}"
            bulk_rows.append([str(configuration.model), requests_by_pairs, *cells, cost])
    columns = [
        "",
        "offered, /s",
        "achieved, /s",
        "p50 ms",
        "p95 ms",
        "p99 ms",
        "errors",
        f"p99 of {PROMISE_MS:g} ms",
        "$/1M",
    ]
    bulk_columns = ["", "requests x pairs", "pairs/s", "p50 ms", "p95 ms", "p99 ms", "$/1M"]
    tables = [
        Table(columns, rising_rows, 8, "Rising load, Poisson arrivals"),
        Table(bulk_columns, bulk_rows, 6, "In bulk"),
        published_table(KIND, _measured_here(result)),
    ]
    return TableLayout(tables, _notes(result), _conclusion(result))


def _lowest_p99(result: Result) -> dict[str, float]:
    """The lowest p99 of the rising load in milliseconds, by strategy."""
    lowest: dict[str, float] = {}
    for figure in figures_of(result):
        if figure.entry.configuration.part == "queries" and figure.p99_ms:
            name = str(figure.entry.configuration.strategy)
            lowest[name] = min(lowest.get(name, figure.p99_ms.median), figure.p99_ms.median)
    return lowest


def _pairs(result: Result) -> float | None:
    """The pairs per second in bulk; None if not measured."""
    bulk = (figure for figure in figures_of(result) if figure.entry.configuration.part == "bulk")
    return next((figure.throughput.median for figure in bulk), None)


def _measured_here(result: Result) -> dict[str, str]:
    """The figures measured here, by the names of the published figures."""
    rates = [rate for name, rate in result.more["highest_rates"].items() if rate and name != SCORER]
    tails = [tail for name, tail in _lowest_p99(result).items() if name != SCORER]
    return {
        "query intent: p99 ms, as required": f"{number(min(tails, default=None))} at best",
        "query intent: requests/s at the peak, of the whole service": f"{max(rates):g} within it"
        if rates
        else "none within it",
        "duplicates: pairs/s, of the whole service": number(_pairs(result)),
    }


def _conclusion(result: Result) -> str:
    lowest, highest_rates = _lowest_p99(result), result.more["highest_rates"]
    if any(highest_rates.values()):
        parts = [
            f"up to {highest_rates[name]:g} requests per second with {name}"
            if highest_rates[name]
            else f"never with {name} ({number(tail)} ms at best)"
            for name, tail in lowest.items()
        ]
        sentence = f"The p99 stays within {PROMISE_MS:g} ms {', '.join(parts)}"
    else:
        parts = [f"{number(tail)} ms with {name}" for name, tail in lowest.items()]
        sentence = f"The p99 is above {PROMISE_MS:g} ms at the lowest rate already; at best it is {', '.join(parts)}"
    return f"{sentence}. In bulk, {number(_pairs(result))} pairs per second are compared."


def _notes(result: Result) -> list[str]:
    notes = [f"met: the median p99 of {ROUNDS} rounds, each of at least {MIN_REQUESTS} requests, without errors"]
    if SCORER in result.more["highest_rates"]:
        notes.append(f"{SCORER}: without a server or a generator, one text after the other")
    return [*notes, *warnings_of(result), *price_notes(result), source_note(KIND)]


def _payload(job: TableJob, spec: Spec, instances: int) -> Payload:
    return read_payload(texts_of(spec, job.project), spec.instance_fields, instances)


def _open_load(rate: float) -> Load:
    seconds = max(MIN_SECONDS, MIN_REQUESTS / rate)
    return Load(connections=OPEN_CONNECTIONS, rate=rate, warm_up_s=1.0, window_s=seconds, seconds=seconds)


def draw(result: Result) -> dict[str, bytes]:
    """The standard pictures, with latency for the rising load only, and the limit as a line."""
    rising = [figure for figure in figures_of(result) if figure.entry.configuration.part == "queries"]
    with new_figure() as (plot, (axis,)):
        if not latency_throughput(axis, rising):
            return pictures_of(result)
        axis.axhline(PROMISE_MS, color=LIMIT, linestyle=":", linewidth=1.2)
        axis.annotate(
            f"{PROMISE_MS:g} ms",
            (1.0, PROMISE_MS),
            xycoords=("axes fraction", "data"),
            xytext=(2, -3),
            textcoords="offset points",
            color=LIMIT,
        )
        axis.set(xlabel="requests per second", title="Query intents: median (solid) and p99 (dashed)")
        return {**pictures_of(result), "latency-throughput": svg_of(plot)}
