"""deploy/metrics.yaml, which tells TorchServe the metrics to show, and the table of reference/metrics.md."""

from __future__ import annotations

import yaml

from docs.made.tables import table
from handlers.worker.telemetry.metrics import COUNTERS

HEAD = """# Made from `handlers/worker/telemetry/metrics.py` by `make docs`; do not edit.
# TorchServe shows the metrics that are named here, and no others.
"""
# TorchServe's own, as its ts/configs/metrics.yaml has them
_HOST = ["Level", "Hostname"]
_MODEL = ["model_name", "model_version", "hostname"]
_OWN_COUNTERS = {
    **dict.fromkeys(("Requests2XX", "Requests4XX", "Requests5XX"), ("Count", _HOST)),
    "ts_inference_requests_total": ("Count", _MODEL),
    "ts_inference_latency_microseconds": ("Microseconds", _MODEL),
    "ts_queue_latency_microseconds": ("Microseconds", _MODEL),
}
_OWN_GAUGES = {
    "QueueTime": ("Milliseconds", _HOST),
    "WorkerThreadTime": ("Milliseconds", _HOST),
    "WorkerLoadTime": ("Milliseconds", ["WorkerName", *_HOST]),
    "CPUUtilization": ("Percent", _HOST),
    "MemoryUsed": ("Megabytes", _HOST),
    "MemoryAvailable": ("Megabytes", _HOST),
    "MemoryUtilization": ("Percent", _HOST),
    "DiskUsage": ("Gigabytes", _HOST),
    "DiskUtilization": ("Percent", _HOST),
    "DiskAvailable": ("Gigabytes", _HOST),
}


def metrics_config() -> str:
    """deploy/metrics.yaml."""

    def entries(metrics: dict[str, tuple[str, list[str]]]) -> list[dict[str, object]]:
        return [{"name": name, "unit": unit, "dimensions": [*labels]} for name, (unit, labels) in metrics.items()]

    ours = {name: ("Count", [*metric.labels, "ModelName", "Level"]) for name, metric in COUNTERS.items()}
    document = {
        "ts_metrics": {"counter": entries(_OWN_COUNTERS), "gauge": entries(_OWN_GAUGES)},
        "model_metrics": {
            "counter": entries(ours),
            "gauge": entries({"PredictionTime": ("ms", ["ModelName", "Level"])}),
        },
    }
    return HEAD + yaml.safe_dump(document, sort_keys=False, default_flow_style=None, width=120)


def metrics_table() -> str:
    """What a worker counts."""
    rows = [(f"`{name}`", ", ".join(f"`{one}`" for one in m.labels), m.meaning) for name, m in COUNTERS.items()]
    return table(("metric", "labels", "counts"), rows)
