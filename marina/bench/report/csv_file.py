"""The CSV of a result: one line per entry, with the columns of NeuronPerf and of TorchServe's benchmark tool.

NeuronPerf: the columns of its write_csv. TorchServe: those of benchmarks/benchmark-ab.py ("TS ...", "Queue ...").
Columns that have no meaning here are left out, and unknown values are empty cells.
"""

from __future__ import annotations

import csv
import io
from statistics import fmean, median
from typing import Any

from marina.bench.report.figures import Figures, figures_of
from marina.bench.report.results import Result


def csv_of(result: Result) -> str:
    """The contents of the CSV file."""
    rows = [_row(figure, result) for figure in figures_of(result)]
    file = io.StringIO()
    writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return file.getvalue()


def _row(figure: Figures, result: Result) -> dict[str, Any]:
    entry, configuration, latency = figure.entry, figure.entry.configuration, figure.latency_ms
    failed = sum(figure.errors.values())
    sent = figure.requests + failed
    server_metrics = [measurement.server for measurement in entry.rounds if measurement.server]
    worker_ms = _mean([metrics.worker_ms for metrics in server_metrics])
    neuronperf_columns = {
        "model_name": configuration.model,
        "workers_per_model": configuration.workers,
        "batch_size": configuration.batch_size,
        "throughput_avg": figure.throughput.median,
        "throughput_peak": float(median(measurement.peak for measurement in entry.rounds)),
        "latency_ms_p0": latency.get("min"),
        **{f"latency_ms_{name}": latency.get(name) for name in ("p50", "p90", "p95", "p99")},
        "latency_ms_p100": latency.get("max"),
        "e2e_avg_ms": latency.get("mean"),
        "infer_avg_ms": worker_ms,
        "total_infs": sum(measurement.instances for measurement in entry.rounds),
        "total_s": round(sum(measurement.seconds for measurement in entry.rounds), 3),
        "device_type": configuration.engine,
        "instance_type": result.price.instance if result.price else None,
        "cost_per_1m_inf": figure.cost,
    }
    torchserve_columns = {
        "Batch size": configuration.batch_size,
        "Batch delay": configuration.batch_delay_ms,
        "Workers": configuration.workers,
        "Model": configuration.model,
        "Concurrency": configuration.connections,
        "Input": configuration.texts,
        "Requests": sent,
        "TS failed requests": failed,
        "TS throughput": median(measurement.requests / measurement.seconds for measurement in entry.rounds),
        **{f"TS latency {name.upper()}": latency.get(name) for name in ("p50", "p90", "p99")},
        "TS latency mean": latency.get("mean"),
        "TS error rate": failed / sent * 100 if sent else None,
        "waiting_time_mean": _mean([metrics.queue_ms for metrics in server_metrics if metrics.queue_ms is not None]),
        "handler_time_mean": worker_ms,
    }
    marina_columns = {
        **{name: getattr(configuration, name) for name in ("rate", "arrivals", "instances", "protocol")},
        **{name: getattr(configuration, name) for name in ("core_groups", "precision")},
        "shapes": " ".join(configuration.shapes or ()),
        "latency_ms_p99.9": latency.get("p99.9"),
        "throughput_low": figure.throughput.low,
        "throughput_high": figure.throughput.high,
        "rounds": len(entry.rounds),
        "stable": figure.stable,
        "faster_than_baseline": figure.speedup.median if figure.speedup else None,
        "cost_over_baseline": figure.cost_ratio,
        "place": figure.place,
    }
    return {**neuronperf_columns, **torchserve_columns, **marina_columns}


def _mean(values: list[float]) -> float | None:
    return fmean(values) if values else None
