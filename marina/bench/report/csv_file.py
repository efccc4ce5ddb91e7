"""The CSV of a result: one line per entry, with the columns of NeuronPerf and of TorchServe's benchmark tool.

NeuronPerf: the columns of its write_csv. TorchServe: those of benchmarks/benchmark-ab.py ("TS ...", "Queue ...").
Columns that have no meaning here are left out, and unknown values are empty cells.
"""

from __future__ import annotations

import csv
import io
from statistics import fmean
from typing import Any

from marina.bench.report.figures import Figures, figures_of, median
from marina.bench.report.results import Result


def csv_of(result: Result) -> str:
    """The contents of the CSV file."""
    rows = [_row(one, result) for one in figures_of(result)]
    file = io.StringIO()
    writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return file.getvalue()


def _row(one: Figures, result: Result) -> dict[str, Any]:
    entry, configuration, latency = one.entry, one.entry.configuration, one.latency_ms
    failed = sum(one.errors.values())
    sent = one.requests + failed
    server = [measured.server for measured in entry.rounds if measured.server]
    worker_ms = _mean([measured.worker_ms for measured in server])
    neuronperf = {
        "model_name": configuration.model,
        "workers_per_model": configuration.workers,
        "batch_size": configuration.batch_size,
        "throughput_avg": one.throughput.median,
        "throughput_peak": median(entry, lambda measured: float(measured.peak)),
        "latency_ms_p0": latency.get("min"),
        **{f"latency_ms_{name}": latency.get(name) for name in ("p50", "p90", "p95", "p99")},
        "latency_ms_p100": latency.get("max"),
        "e2e_avg_ms": latency.get("mean"),
        "infer_avg_ms": worker_ms,
        "total_infs": sum(measured.instances for measured in entry.rounds),
        "total_s": round(sum(measured.seconds for measured in entry.rounds), 3),
        "device_type": configuration.engine,
        "instance_type": result.price.instance if result.price else None,
        "cost_per_1m_inf": one.cost,
    }
    torchserve = {
        "Batch size": configuration.batch_size,
        "Batch delay": configuration.batch_delay_ms,
        "Workers": configuration.workers,
        "Model": configuration.model,
        "Concurrency": configuration.connections,
        "Input": configuration.texts,
        "Requests": sent,
        "TS failed requests": failed,
        "TS throughput": median(entry, lambda measured: measured.requests / measured.seconds),
        **{f"TS latency {name.upper()}": latency.get(name) for name in ("p50", "p90", "p99")},
        "TS latency mean": latency.get("mean"),
        "TS error rate": failed / sent * 100 if sent else None,
        "waiting_time_mean": _mean([measured.queue_ms for measured in server if measured.queue_ms is not None]),
        "handler_time_mean": worker_ms,
    }
    own = {
        **{name: getattr(configuration, name) for name in ("rate", "arrivals", "instances", "protocol")},
        **{name: getattr(configuration, name) for name in ("core_groups", "precision")},
        "shapes": " ".join(configuration.shapes or ()),
        "latency_ms_p99.9": latency.get("p99.9"),
        "throughput_low": one.throughput.low,
        "throughput_high": one.throughput.high,
        "rounds": len(entry.rounds),
        "stable": one.stable,
        "faster_than_baseline": one.faster.median if one.faster else None,
        "cost_over_baseline": one.cost_ratio,
        "place": one.place,
    }
    return {**neuronperf, **torchserve, **own}


def _mean(values: list[float]) -> float | None:
    return fmean(values) if values else None
