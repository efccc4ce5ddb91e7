"""The table of a result, for terminals and pages: what varies, and the figures."""

from __future__ import annotations

from typing import Any, NamedTuple

from marina.bench.report.figures import Figures, figures_of, varying
from marina.bench.result import Result
from marina.bench.statistics import Interval

NAMES = {
    "core_groups": "core groups",
    "batch_size": "batch",
    "batch_delay_ms": "delay ms",
    "connections": "conn.",
    "rate": "rate/s",
}
LONGEST = 40  # characters of a cell that tells a configuration


class Table(NamedTuple):
    """Column names, rows of cells, and how many of the last columns are numbers."""

    columns: list[str]
    rows: list[list[str]]
    numbers: int


def table_of(result: Result) -> Table:
    """One row an entry: the fields that are not the same in all, then the figures."""
    found = figures_of(result)
    fields = varying(result.entries)
    many = any(len(one.entry.rounds) > 1 for one in found)
    columns = [NAMES.get(name, name) for name in fields]
    rows = [[cell(one.entry.configuration.get(name)) for name in fields] for one in found]
    numbers = 0

    def add(column: str, cells: list[str]) -> None:
        nonlocal numbers
        if any(cells):
            columns.append(column)
            numbers += 1
            for row, text in zip(rows, cells):
                row.append(text)

    add("inst./s", [spread(one.throughput) if many else number(one.throughput.median) for one in found])
    for name in ("p50", "p90", "p95"):
        add(f"{name} ms", [number(one.latency_ms.get(name)) for one in found])
    add("p99 ms", [spread(one.p99_ms) if many else number(one.latency_ms.get("p99")) for one in found])
    for name in ("p99.9", "max"):
        add(f"{name} ms", [number(one.latency_ms.get(name)) for one in found])
    add("errors", [_errors(one) for one in found])
    add("settled", ["no" if one.stable is False else "" for one in found])
    add("$/1M", [number(one.cost, 3) for one in found])
    add("x base", [number(one.faster.median) if one.faster else "" for one in found])
    add("x base $", [number(one.cost_ratio) for one in found])
    add("place", [one.place for one in found])
    return Table(columns, rows, numbers)


def inside_of(result: Result) -> Table | None:
    """What the server said of the same time: one row an entry; None where it said nothing."""
    found = figures_of(result)
    known = [(one, server) for one in found if (server := one.entry.rounds[-1].server)]
    if not known:
        return None
    fields = varying(result.entries)
    stages = list(dict.fromkeys(stage for _, server in known for stage in server["stage_share"]))
    columns = [NAMES.get(name, name) for name in fields]
    own = ["queue ms", "worker ms", *(f"{stage} %" for stage in stages), "batch", "padding %", "empty %"]
    rows = [
        [cell(one.entry.configuration.get(name)) for name in fields]
        + [number(server["queue_ms"]), number(server["worker_ms"])]
        + [number(server["stage_share"].get(stage, 0.0) * 100) for stage in stages]
        + [number(server["batch"]), number(server["length_padding"] * 100), number(server["empty_padding"] * 100)]
        for one, server in known
    ]
    return Table([*columns, *own], rows, len(own))


def inside_lines(result: Result) -> list[str]:
    """The same in words, for each entry that has it."""
    lines = []
    for entry in result.entries:
        server = entry.rounds[-1].server
        if server:
            stages = ", ".join(f"{stage} {share:.0%}" for stage, share in server["stage_share"].items())
            queue = "" if server["queue_ms"] is None else f"{number(server['queue_ms'])} ms in the queue, "
            lines += [
                f"a request spent {queue}{number(server['worker_ms'])} ms in the worker ({stages})",
                f"batches of {number(server['batch'])} requests; of the computed tokens {server['length_padding']:.0%} "
                f"padded texts and {server['empty_padding']:.0%} were in empty rows",
            ]
    return lines


def notes_of(result: Result) -> list[str]:
    """What a reader must know beside the standard table, a line each."""
    fixed = _fixed(result)
    shared = any(one.place.endswith("=") for one in figures_of(result))
    return [
        *([f"same in all: {', '.join(fixed)}"] if fixed else []),
        *warnings_of(result),
        *(
            ["places that are shared (=): the intervals overlap, so the rounds cannot tell them apart"]
            if shared
            else []
        ),
        *price_notes(result),
    ]


def warnings_of(result: Result) -> list[str]:
    """What speaks against the figures: errors, a generator at its limit, windows that do not agree, stalls."""
    found = figures_of(result)
    notes = _limits([one.generator for entry in result.entries for one in entry.rounds])
    notes += [f"error: {count} x {kind}" for one in found for kind, count in sorted(one.errors.items())]
    if any(one.stable is False for one in found):
        notes.append("not settled: throughput or p99 of the last three windows do not agree within the bound")
    if any(_stalled(one) for one in found):
        notes.append(
            "the slowest answer took more than ten times the p99 in a closed loop, where the generator waits with the "
            "server; an open loop (--rate) counts all who would have come meanwhile"
        )
    return notes


def _limits(generators: list[dict[str, Any]]) -> list[str]:
    """What the generator said of itself, of each kind the worst."""
    worst: dict[str, dict[str, Any]] = {}
    for one in generators:
        limit = one.get("limit")
        if limit:
            kind = limit[:24]
            known = worst.setdefault(kind, one)
            if (one["late_p99_ms"] or 0, one["cpu"]) > (known["late_p99_ms"] or 0, known["cpu"]):
                worst[kind] = one
    of = f" (the worst of {len(generators)} rounds)" if len(generators) > 1 else ""
    return [f"{one['limit']}{of}" for one in worst.values()]


def price_notes(result: Result) -> list[str]:
    """How costs are reckoned, where a price is known."""
    if result.price is None:
        return []
    return [
        f"$/1M: {result.price.instance} at {result.price.per_hour:g} USD an hour ({result.price.basis}), "
        "price * 1e6 / (3600 * throughput)"
    ]


def number(value: float | None, digits: int | None = None) -> str:
    """A number with about three significant digits, or as many places as are asked for; "" for None."""
    if value is None:
        return ""
    if digits is None:
        digits = 0 if abs(value) >= 100 else 1 if abs(value) >= 10 else 2
    return f"{value:.{digits}f}"


def spread(interval: Interval | None) -> str:
    """A median with its interval."""
    if interval is None:
        return ""
    return f"{number(interval.median)} [{number(interval.low)}-{number(interval.high)}]"


def cell(value: Any) -> str:
    """A field of a configuration."""
    if value is None:
        return ""
    text = (
        ", ".join(map(str, value))
        if isinstance(value, list)
        else f"{value:g}"
        if isinstance(value, float)
        else str(value)
    )
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"


def _fixed(result: Result) -> list[str]:
    first, *others = [entry.configuration for entry in result.entries]
    return [
        f"{NAMES.get(name, name)} {cell(value)}"
        for name, value in first.items()
        if value is not None and (name != "model" or others) and all(one.get(name) == value for one in others)
    ]


def _errors(one: Figures) -> str:
    failed = sum(one.errors.values())
    return str(failed) if failed else ""


def _stalled(one: Figures) -> bool:
    closed = one.entry.configuration.get("rate") is None
    return closed and bool(one.latency_ms) and one.latency_ms["max"] > 10 * one.latency_ms["p99"]
