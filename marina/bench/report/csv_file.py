"""The CSV of a result: a line an entry, with the columns that NeuronPerf writes and those of TorchServe's tool.

NeuronPerf: the columns of its write_csv. TorchServe: those of benchmarks/benchmark-ab.py ("TS ...", "Queue ...").
Where a column of theirs has no meaning here it is left out, and cells that are not known are empty.
"""

from __future__ import annotations

import csv
import io
from typing import Any

from marina.bench.report.figures import Figures, figures_of, median
from marina.bench.result import Result


def csv_of(result: Result) -> str:
    """The whole file."""
    rows = [_row(one, result) for one in figures_of(result)]
    file = io.StringIO()
    writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return file.getvalue()


def _row(one: Figures, result: Result) -> dict[str, Any]:
    entry, configuration = one.entry, one.entry.configuration
    latency = one.latency_ms
    failed = sum(one.errors.values())
    server = [found.server for found in entry.rounds if found.server]
    neuronperf = {
        "model_name": configuration.get("model"),
        "workers_per_model": configuration.get("workers"),
        "batch_size": configuration.get("batch_size"),
        "throughput_avg": one.throughput.median,
        "throughput_peak": median(entry, lambda found: float(found.peak)),
        "latency_ms_p0": latency.get("min"),
        "latency_ms_p50": latency.get("p50"),
        "latency_ms_p90": latency.get("p90"),
        "latency_ms_p95": latency.get("p95"),
        "latency_ms_p99": latency.get("p99"),
        "latency_ms_p100": latency.get("max"),
        "e2e_avg_ms": latency.get("mean"),
        "infer_avg_ms": _mean([found["worker_ms"] for found in server]),
        "total_infs": sum(found.instances for found in entry.rounds),
        "total_s": round(sum(found.seconds for found in entry.rounds), 3),
        "device_type": configuration.get("engine"),
        "instance_type": result.price.instance if result.price else None,
        "cost_per_1m_inf": one.cost,
    }
    torchserve = {
        "Batch size": configuration.get("batch_size"),
        "Batch delay": configuration.get("batch_delay_ms"),
        "Workers": configuration.get("workers"),
        "Model": configuration.get("model"),
        "Concurrency": configuration.get("connections"),
        "Input": configuration.get("texts"),
        "Requests": one.requests + failed,
        "TS failed requests": failed,
        "TS throughput": median(entry, lambda found: found.requests / found.seconds),
        "TS latency P50": latency.get("p50"),
        "TS latency P90": latency.get("p90"),
        "TS latency P99": latency.get("p99"),
        "TS latency mean": latency.get("mean"),
        "TS error rate": failed / (one.requests + failed) * 100 if one.requests + failed else None,
        "waiting_time_mean": _mean([found["queue_ms"] for found in server if found["queue_ms"] is not None]),
        "handler_time_mean": _mean([found["worker_ms"] for found in server]),
    }
    own = {
        "rate": configuration.get("rate"),
        "arrivals": configuration.get("arrivals"),
        "instances": configuration.get("instances"),
        "protocol": configuration.get("protocol"),
        "core_groups": configuration.get("core_groups"),
        "precision": configuration.get("precision"),
        "shapes": " ".join(configuration.get("shapes") or []),
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
    return sum(values) / len(values) if values else None
