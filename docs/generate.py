"""Files that are made from code: `make docs` writes them, a test compares them."""
# ruff: noqa: E501  lines of tables

from __future__ import annotations

import re
from pathlib import Path

import yaml

from handlers.worker.errors import KINDS
from handlers.worker.telemetry.metrics import COUNTERS
from marina.bench.report.pictures import pictures_of
from marina.bench.report.results import read_result
from marina.bench.report.table import markdown_of
from marina.bench.tables.kinds import layout_of
from marina.project import find_project

ERRORS_HEAD = """# Errors

Made from `handlers/worker/errors.py` by `make docs`; do not edit.

One bad request fails alone: the others in its batch are answered. A request with several instances fails as a whole if one of them
is bad, and the message names it. The body says what and why:

```json
{"code": 400, "type": "InvalidInstance", "error": "inputs[3] must be a text or {\\"text\\": ...}, not a number", "fix": "..."}
```

Over gRPC TorchServe carries no status for one request of a batch: there the answer is this body; its `error` tells it from a good one.

| status | type | meaning | fix |
|---|---|---|---|
"""
ERRORS_TAIL = """
TorchServe itself answers these, with `code`, `type` and `message`:

| status | type | meaning | fix |
|---|---|---|---|
| 400 | `InvalidKeyException` | The token is missing, wrong or expired. | `marina token` prints one that is valid. |
| 404 | `ModelNotFoundException` | No such model is served. | `marina status` lists them, `marina register` adds one. |
| 413 | | The body is larger than `max_request_size` in `config.properties`. | Send several requests. |
| 503 | `ServiceUnavailableException` | The queue is full, or no worker is READY. | Try again later; raise `serving.queue_size`. |
| 500 | `InternalServerException` | A worker died, or did not answer in `serving.response_timeout_s`. | See the logs. |
"""


def errors_page() -> str:
    """docs/errors.md."""
    rows = [f"| {kind.status} | `{name}` | {kind.meaning} | {kind.fix} |" for name, kind in KINDS.items()]
    return ERRORS_HEAD + "\n".join(rows) + "\n" + ERRORS_TAIL


METRICS_HEAD = """# Made from `handlers/worker/telemetry/metrics.py` by `make docs`; do not edit. TorchServe shows the metrics that are named here.
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
    return METRICS_HEAD + yaml.safe_dump(document, sort_keys=False, default_flow_style=None, width=120)


def metrics_table() -> str:
    """The table in docs/metrics.md, from its marks on."""
    rows = [
        f"| `{name}` | {', '.join(f'`{label}`' for label in m.labels)} | {m.meaning} |" for name, m in COUNTERS.items()
    ]
    return "\n".join([TABLE_START, "", "| metric | labels | counts |", "|---|---|---|", *rows, "", TABLE_END])


TABLE_START = "<!-- made from handlers/worker/telemetry/metrics.py by make docs -->"
TABLE_END = "<!-- end -->"


def metrics_page(page: str) -> str:
    """docs/metrics.md with its table made anew."""
    head, _, rest = page.partition(TABLE_START)
    return head + metrics_table() + rest.partition(TABLE_END)[2]


BENCHMARK = re.compile(
    r"(<!-- made from docs/benchmarks/([\w-]+)\.json by make docs -->\n).*?(<!-- end -->)", re.DOTALL
)
PICTURES = {"table-ava": "latency-time", "table-search": "latency-throughput", "peers": "throughput"}


def benchmarks_page(page: str, results: Path) -> str:
    """docs/benchmarks.md with its tables made anew from the stored results."""

    def table(found: re.Match[str]) -> str:
        layout = layout_of(read_result(results / f"{found[2]}.json"))
        return f"{found[1]}\n{markdown_of(layout)}\n{found[3]}"

    return BENCHMARK.sub(table, page)


def made(root: Path) -> dict[Path, str]:
    """Every file that is made from code, with what it should hold."""
    metrics, benchmarks = root / "docs" / "metrics.md", root / "docs" / "benchmarks.md"
    return {
        root / "docs" / "errors.md": errors_page(),
        root / "deploy" / "metrics.yaml": metrics_config(),
        metrics: metrics_page(metrics.read_text(encoding="utf-8")),
        benchmarks: benchmarks_page(benchmarks.read_text(encoding="utf-8"), root / "docs" / "benchmarks"),
    }


def main() -> None:
    """Write the files of the current project, and the pictures of its stored results."""
    root = find_project().root
    for path, content in made(root).items():
        path.write_text(content, encoding="utf-8")
    for name, picture in PICTURES.items():
        stored = root / "docs" / "benchmarks" / f"{name}.json"
        stored.with_suffix(".png").write_bytes(pictures_of(read_result(stored))[picture])


if __name__ == "__main__":
    main()
