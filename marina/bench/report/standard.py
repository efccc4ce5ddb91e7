"""The standard tables of a result: the fields that differ, the figures, and the notes on them."""

from __future__ import annotations

from typing import Any

from marina.bench.load.measurement import GeneratorMetrics, Measurement
from marina.bench.report.figures import Figures, figures_of, varying_fields
from marina.bench.report.results import Configuration, Result
from marina.bench.report.table import Table, TableLayout, cell, number, spread

NAMES = {
    "core_groups": "core groups",
    "batch_size": "batch",
    "batch_delay_ms": "delay ms",
    "connections": "conn.",
    "rate": "rate/s",
}
# fields whose values are clear without their names
SPEAKING = ("strategy", "mode", "model", "engine", "precision", "protocol", "arrivals", "texts", "part")
BUSY = 0.2  # share of the machine's CPU time that others use
IN_SERVER = "In the server: mean time of a request, shares of the worker's time, padding"


def labelled(name: str, value: Any) -> str:
    """The value of a configuration's field, with the name of the field unless the value is clear without it."""
    return cell(value) if name in SPEAKING else f"{NAMES.get(name, name)} {cell(value)}"


def standard_layout(result: Result) -> TableLayout:
    """The figures of every entry, and the server's metrics if it reports them."""
    in_server = server_table(result)
    return TableLayout([table_of(result), *([in_server] if in_server else [])], notes_of(result))


def table_of(result: Result) -> Table:
    """One row per entry: the fields that differ between entries, then the figures."""
    figures = figures_of(result)
    fields = varying_fields(result.entries)
    several_rounds = any(len(figure.entry.rounds) > 1 for figure in figures)
    columns = {
        "inst./s": [
            spread(figure.throughput) if several_rounds else number(figure.throughput.median) for figure in figures
        ],
        **{f"{name} ms": [number(figure.latency_ms.get(name)) for figure in figures] for name in ("p50", "p90", "p95")},
        "p99 ms": [
            spread(figure.p99_ms) if several_rounds else number(figure.latency_ms.get("p99")) for figure in figures
        ],
        **{f"{name} ms": [number(figure.latency_ms.get(name)) for figure in figures] for name in ("p99.9", "max")},
        "errors": [str(sum(figure.errors.values()) or "") for figure in figures],
        "settled": ["no" if figure.stable is False else "" for figure in figures],
        "$/1M": [number(figure.cost, 3) for figure in figures],
        "x baseline": [number(figure.speedup.median) if figure.speedup else "" for figure in figures],
        "x baseline $": [number(figure.cost_ratio) for figure in figures],
        "place": [figure.place for figure in figures],
    }
    filled_columns = {column: cells for column, cells in columns.items() if any(cells)}
    rows = [
        [*_cells(figure.entry.configuration, fields), *cells]
        for figure, *cells in zip(figures, *filled_columns.values(), strict=True)
    ]
    return Table([*_names(fields), *filled_columns], rows, len(filled_columns))


def server_table(result: Result) -> Table | None:
    """The server's metrics of the last round, one row per entry; None if there are none."""
    server_metrics = [(entry.configuration, server) for entry in result.entries if (server := entry.rounds[-1].server)]
    if not server_metrics:
        return None
    fields = varying_fields(result.entries)
    stages = list(dict.fromkeys(stage for _, server in server_metrics for stage in server.stage_share))
    columns = ["queue ms", "worker ms", *(f"{stage} %" for stage in stages), "batch", "padding %", "empty %"]
    rows = []
    for configuration, server in server_metrics:
        shares = [server.stage_share.get(stage, 0.0) * 100 for stage in stages]
        wasted = (server.length_padding * 100, server.empty_padding * 100)
        values = (server.queue_ms, server.worker_ms, *shares, server.batch, *wasted)
        rows.append([*_cells(configuration, fields), *map(number, values)])
    return Table([*_names(fields), *columns], rows, len(columns), IN_SERVER)


def server_lines(result: Result) -> list[str]:
    """The server's metrics in words, for each entry that has them."""
    lines = []
    for entry in result.entries:
        server = entry.rounds[-1].server
        if server:
            stages = ", ".join(f"{stage} {share:.0%}" for stage, share in server.stage_share.items())
            queue = "" if server.queue_ms is None else f"{number(server.queue_ms)} ms in the queue, "
            repeated = f"; {server.repeated:.0%} of the rows equalled another of their batch" if server.repeated else ""
            lines += [
                f"a request spent {queue}{number(server.worker_ms)} ms in the worker ({stages})",
                f"batches of {number(server.batch)} requests; {server.length_padding:.0%} of the computed tokens "
                f"were padding after texts, {server.empty_padding:.0%} were in empty rows{repeated}",
            ]
    return lines


def notes_of(result: Result) -> list[str]:
    """The notes on the standard table, a line each."""
    first, *others = [entry.configuration for entry in result.entries]
    fixed = ", ".join(
        f"{NAMES.get(name, name)} {cell(value)}"
        for name, value in first.known_fields().items()
        if (name != "model" or others) and all(getattr(other, name) == value for other in others)
    )
    notes = [f"same in all: {fixed}"] if fixed else []
    notes += warnings_of(result)
    if any(figure.place.endswith("=") for figure in figures_of(result)):
        notes.append("a shared place (=) means that the intervals overlap: the difference is not significant")
    return notes + price_notes(result)


def warnings_of(result: Result) -> list[str]:
    """Reasons to doubt the figures: errors, a generator at its limit, windows that do not agree, stalls."""
    figures = figures_of(result)
    busy = result.more.get("busy", 0.0)
    notes = [f"the machine was busy before the load: {busy:.0%} of its cores, so the figures may vary"] * (busy > BUSY)
    notes += _limits([measurement for entry in result.entries for measurement in entry.rounds])
    notes += [f"error: {count} x {kind}" for figure in figures for kind, count in sorted(figure.errors.items())]
    if any(figure.stable is False for figure in figures):
        notes.append("not settled: throughput or p99 of the last three windows do not agree within the bound")
    if any(_stalled(figure) for figure in figures):
        notes.append(
            "the slowest answer took more than ten times the p99 in a closed loop, where the generator waits with the "
            "server; an open loop (--rate) counts all who would have come meanwhile"
        )
    return notes


def comparison_note(result: Result, earlier: Result) -> str | None:
    """One run beside an earlier run of the same configuration and load.

    None if `earlier` is of another load, without answers, or the same run, as it was stored.
    """
    if len(result.entries) != 1 or len(earlier.entries) != 1 or earlier.made == result.made:
        return None
    (entry,), (earlier_entry,) = result.entries, earlier.entries
    (figure,), (earlier_figure,) = figures_of(result), figures_of(earlier)
    old_rate = earlier_figure.throughput.median
    if entry.configuration != earlier_entry.configuration or not old_rate or not figure.latency_ms:
        return None
    change = figure.throughput.median / old_rate - 1
    p50, p99 = (
        f"{name} {number(earlier_figure.latency_ms.get(name))} -> {number(figure.latency_ms.get(name))} ms"
        for name in ("p50", "p99")
    )
    return f"since the run of {earlier.made}: {change:+.0%} instances per second, {p50}, {p99}"


def price_notes(result: Result) -> list[str]:
    """How costs are calculated, if a price is known."""
    if result.price is None:
        return []
    return [
        f"$/1M: {result.price.instance} at {result.price.per_hour:g} USD an hour ({result.price.basis}), "
        "price * 1e6 / (3600 * throughput)"
    ]


def failures_of(result: Result) -> list[str]:
    """The configurations that could not be measured, with the reasons."""
    return [f"left out: {failure}" for failure in result.more.get("failures", ())]


def _limits(rounds: list[Measurement]) -> list[str]:
    """What limited the generator; for each kind of limit, the worst round."""

    def severity(generator: GeneratorMetrics) -> tuple[float, float]:
        return generator.late_p99_ms or 0, generator.cpu

    worst: dict[str, GeneratorMetrics] = {}
    for measurement in rounds:
        generator = measurement.generator
        if generator and generator.limit:
            kind = generator.limit.kind
            worst[kind] = max(worst.get(kind, generator), generator, key=severity)
    suffix = f" (the worst of {len(rounds)} rounds)" if len(rounds) > 1 else ""
    return [f"{generator.limit.text}{suffix}" for generator in worst.values() if generator.limit]


def _names(fields: list[str]) -> list[str]:
    return [NAMES.get(name, name) for name in fields]


def _cells(configuration: Configuration, fields: list[str]) -> list[str]:
    return [cell(getattr(configuration, name)) for name in fields]


def _stalled(figure: Figures) -> bool:
    closed = figure.entry.configuration.rate is None
    return closed and bool(figure.latency_ms) and figure.latency_ms["max"] > 10 * figure.latency_ms["p99"]
