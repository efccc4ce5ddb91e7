"""After Amazon Search: the p99 of a query model at rising load until it exceeds 10 ms, and duplicates in bulk."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from statistics import median

from benchmarks.tables.published import published_table, source_note
from marina.bench.load.measurement import Measurement
from marina.bench.load.payload import LoadCase, Payload, read_payload, texts_of
from marina.bench.load.profile import OPEN_CONNECTIONS, Load
from marina.bench.report.drawing import new_figure, png_of
from marina.bench.report.figures import figures_of
from marina.bench.report.pictures import latency_throughput, pictures_of
from marina.bench.report.pricing import cost_per_1m
from marina.bench.report.results import Configuration, Entry, Result
from marina.bench.report.standard import price_notes, warnings_of
from marina.bench.report.table import Table, TableLayout, number, spread
from marina.bench.server.endpoint import check, measure_endpoint
from marina.bench.sweep.rounds import measure_rounds
from marina.bench.sweep.strategies import served_strategy
from marina.bench.tables.job import TableJob
from marina.spec import Spec

KIND = "table-search"
QUERIES, DUPLICATES = "ava-intent", "product-duplicates"
PROMISE_MS = 10.0
FIRST_RATE = 25.0
LEAST_STEPS, MOST_STEPS = 5, 12  # of doubling the rate
HALVINGS = 2  # of the step in which the p99 first exceeded the limit
ROUNDS = 3
LEAST_REQUESTS, LEAST_S = 1000, 6.0  # per round, so that at least ten requests are beyond the p99
BULK_CONNECTIONS, BULK_INSTANCES, BULK_S = 16, 32, 10.0


def measure(job: TableJob) -> Result:
    """Measure the table for a model; by default, for the demonstration models of intents (queries) and duplicates."""
    queries, duplicates = job.spec(QUERIES), job.spec(DUPLICATES)
    job.server.archive(queries)
    endpoint = job.server.serve(queries.name)
    payload = _payload(job, queries, 1)
    check(endpoint, payload)
    measured: dict[float, list[Measurement]] = {}

    def kept(rate: float) -> bool:
        rounds = measured.setdefault(rate, [])
        for turn in range(ROUNDS):
            job.progress(f"{rate:.0f} requests/s, round {turn + 1} of {ROUNDS}", len(measured) - 1, MOST_STEPS)
            rounds.append(measure_endpoint(endpoint, LoadCase(_open(rate), payload)))
            if rounds[-1].errors:
                break
        return keeps(rounds)

    highest = highest_kept(kept)
    configuration = replace(endpoint.configuration, part="queries")
    entries = [
        Entry(configuration.under(LoadCase(_open(rate), payload)), rounds) for rate, rounds in sorted(measured.items())
    ]
    load = Load(connections=BULK_CONNECTIONS, window_s=BULK_S, seconds=BULK_S)
    many = LoadCase(load, _payload(job, duplicates, BULK_INSTANCES))
    bulk = served_strategy(job.server, f"{duplicates.name} in bulk", Configuration(part="bulk"), duplicates, [many])
    entries += measure_rounds([bulk], ROUNDS, job.progress)[0]
    title = f"{queries.name} within {PROMISE_MS:g} ms and {duplicates.name} in bulk, after Amazon Search"
    return Result(KIND, title, entries, job.price, more={"highest_rate": highest, "promise_ms": PROMISE_MS})


def keeps(rounds: list[Measurement]) -> bool:
    """Whether a rate keeps the limit: the median p99 of its rounds is within it, and every request was answered."""
    if any(one.errors or not one.latency_ms for one in rounds):
        return False
    return median(one.latency_ms["p99"] for one in rounds) <= PROMISE_MS


def highest_kept(kept: Callable[[float], bool]) -> float | None:
    """Find the highest rate that is kept: double it until `kept(rate)` is false, then bisect the last step.

    The rate is doubled at least a few times, even if one of the first rates is not kept.

    Returns:
        The highest rate below the first one that was not kept; None if the very first was not kept.
    """
    highest, broken, rate = None, None, FIRST_RATE
    for step in range(MOST_STEPS):
        if not kept(rate):
            broken = broken or rate
        elif broken is None:
            highest = rate
        if broken is not None and step + 1 >= LEAST_STEPS:
            break
        rate *= 2
    if highest is None or broken is None:
        return highest
    for _ in range(HALVINGS):
        middle = (highest + broken) / 2
        if kept(middle):
            highest = middle
        else:
            broken = middle
    return highest


def layout(result: Result) -> TableLayout:
    """The tables of rising load and of bulk requests, and the published figures."""
    rising, bulk = [], []
    for one in figures_of(result):
        cells = [spread(one.throughput), *(number(one.latency_ms.get(name)) for name in ("p50", "p95"))]
        cells.append(spread(one.p99_ms))
        configuration, cost = one.entry.configuration, number(one.cost, 3)
        if configuration.part == "queries":
            verdict = "met" if keeps(one.entry.rounds) else "missed"
            failed = str(sum(one.errors.values()) or "")
            rising.append([number(configuration.rate, 0), *cells, failed, verdict, cost])
        else:
            sent = f"{configuration.connections} x {configuration.instances}"
            bulk.append([str(configuration.model), sent, *cells, cost])
    columns = [
        "offered, /s",
        "achieved, /s",
        "p50 ms",
        "p95 ms",
        "p99 ms",
        "errors",
        f"p99 of {PROMISE_MS:g} ms",
        "$/1M",
    ]
    in_bulk = ["", "requests x pairs", "pairs/s", "p50 ms", "p95 ms", "p99 ms", "$/1M"]
    tables = [
        Table(columns, rising, 8, "Rising load, Poisson arrivals"),
        Table(in_bulk, bulk, 6, "In bulk"),
        published_table(KIND, _here(result)),
    ]
    return TableLayout(tables, _notes(result), _conclusion(result))


def _lowest_p99_and_pairs(result: Result) -> tuple[float | None, float | None]:
    """The lowest p99 of the rising load in milliseconds, and the pairs per second in bulk; None if not measured."""
    figures = figures_of(result)
    tails = [
        figure.p99_ms.median for figure in figures if figure.entry.configuration.part == "queries" and figure.p99_ms
    ]
    pairs = [figure.throughput.median for figure in figures if figure.entry.configuration.part == "bulk"]
    return min(tails, default=None), next(iter(pairs), None)


def _here(result: Result) -> dict[str, str]:
    """Our own figures, by the names of the published ones."""
    highest = result.more["highest_rate"]
    lowest, pairs = _lowest_p99_and_pairs(result)
    return {
        "query intent: p99 ms, as required": f"{number(lowest)} at best",
        "query intent: requests/s at the peak, of the whole service": f"{highest:g} within it"
        if highest
        else "none within it",
        "duplicates: pairs/s, of the whole service": number(pairs),
    }


def _conclusion(result: Result) -> str:
    highest = result.more["highest_rate"]
    lowest, pairs = _lowest_p99_and_pairs(result)
    if highest:
        said = f"The p99 stays within {PROMISE_MS:g} ms up to {highest:g} requests per second"
    else:
        said = f"The p99 is above {PROMISE_MS:g} ms at every rate; the lowest is {number(lowest or 0.0)} ms"
    return f"{said}. In bulk, {number(pairs or 0.0)} pairs per second are compared."


def _notes(result: Result) -> list[str]:
    highest = result.more["highest_rate"]
    cost = cost_per_1m(result.price.per_hour, highest) if result.price and highest else None
    said = (
        f"the highest rate with a p99 of at most {PROMISE_MS:g} ms is {highest:g} requests per second"
        if highest
        else f"no rate of {FIRST_RATE:g} requests per second or more has a p99 of at most {PROMISE_MS:g} ms"
    )
    return [
        said + (f", {number(cost, 3)} USD for a million" if cost else ""),
        f"met: the median p99 of {ROUNDS} rounds, each of at least {LEAST_REQUESTS} requests, without errors",
        *warnings_of(result),
        *price_notes(result),
        source_note(KIND),
    ]


def _payload(job: TableJob, spec: Spec, instances: int) -> Payload:
    return read_payload(texts_of(spec, job.project), spec.instance_fields, instances)


def _open(rate: float) -> Load:
    seconds = max(LEAST_S, LEAST_REQUESTS / rate)
    return Load(connections=OPEN_CONNECTIONS, rate=rate, warm_up_s=1.0, window_s=seconds, seconds=seconds)


def draw(result: Result) -> dict[str, bytes]:
    """The standard pictures, with latency for the rising load only, and the limit as a line."""
    rising = [one for one in figures_of(result) if one.entry.configuration.part == "queries"]
    with new_figure() as (figure, (axis,)):
        if not latency_throughput(axis, rising):
            return pictures_of(result)
        axis.axhline(PROMISE_MS, color="#b85450", linestyle=":", linewidth=1.2)
        axis.annotate(
            f"{PROMISE_MS:g} ms",
            (1.0, PROMISE_MS),
            xycoords=("axes fraction", "data"),
            xytext=(2, -3),
            textcoords="offset points",
            fontsize=8,
            color="#b85450",
        )
        axis.set(xlabel="requests per second", title="Query intents: median (solid) and p99 (dashed)")
        return {**pictures_of(result), "latency-throughput": png_of(figure)}
