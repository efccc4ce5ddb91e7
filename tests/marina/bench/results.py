"""Results made up for tests of reports: figures that are known beforehand."""

from __future__ import annotations

from typing import Any

from marina.bench.load.histogram import encoded, milliseconds, new_histogram, record
from marina.bench.load.measurement import GeneratorMetrics, MeasuredWindow, Measurement, ServerMetrics
from marina.bench.report.pricing import Price
from marina.bench.report.results import Configuration, Entry, Result

MACHINE = {
    "processor": "a <processor>",
    "cores": 2,
    "memory_gib": 8.0,
    "system": "Linux 6",
    "python": "3.11.7",
    "packages": {"marina": "0.1.0"},
    "revision": None,
}


def measured(throughput: float, latency_ms: float = 10.0, **fields: Any) -> Measurement:
    """Half of the requests take as long as is said, and the slowest twice that."""
    histogram = new_histogram()
    for number in range(1000):
        record(histogram, latency_ms / 1000 * (1 + number / 1000))
    window = MeasuredWindow(5.0, throughput, latency_ms * 1.5, latency_ms * 1.9, latency_ms * 1.99, 0)
    values: dict[str, Any] = {
        "seconds": 10.0,
        "requests": round(throughput * 10),
        "instances": round(throughput * 10),
        "throughput": throughput,
        "latency_ms": milliseconds(histogram),
        "errors": {},
        "per_second": [round(throughput)] * 10,
        "windows": [window, window],
        "counted": 2,
        "stable": True,
        "generator": GeneratorMetrics(processes=1, cpu=0.1, waited=0.0, late_p99_ms=None, limit=None),
        "histogram": encoded(histogram),
        "server": ServerMetrics(
            queue_ms=1.0,
            worker_ms=5.0,
            stage_share={"graph": 0.9, "tokenize": 0.1},
            batch=3.0,
            length_padding=0.2,
            empty_padding=0.05,
            calls={"1x16": 10},
        ),
    }
    return Measurement(**{**values, **fields})


def entry(rounds: list[Measurement], **configuration: Any) -> Entry:
    """An entry of a closed loop."""
    fields = {"model": "m", "protocol": "rest", "connections": 16, "instances": 1, **configuration}
    return Entry(Configuration(**fields), rounds)


def result(entries: list[Entry], **fields: Any) -> Result:
    """A result with a price of one dollar an hour."""
    values: dict[str, Any] = {
        "kind": "sweep",
        "title": "a <title>",
        "price": Price("this machine", 1.0, "as given"),
        "machine": MACHINE,
        "command": "marina bench",
        "made": "2026-01-01T00:00:00+00:00",
    }
    return Result(entries=entries, **{**values, **fields})
