"""Server metrics for the duration of a load: where requests spent their time, from TorchServe's metrics page.

The queue time comes from TorchServe, which counts only requests over HTTP. The rest are the workers'
own metrics (docs/reference/metrics.md), which they publish once per second.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Mapping

import requests
from prometheus_client.parser import text_string_to_metric_families

from marina.bench.load.measurement import ServerMetrics
from marina.errors import ServerError
from marina.server.run.tokens import loopback_session

FLUSH_S = 1.3  # until workers have published their counters
TIMEOUT_S = 10

# the label by which each metric is split; its values are summed over the other labels
SPLIT_LABELS = {
    "marina_stage_seconds": "stage",
    "marina_padding_tokens": "kind",
    "marina_calls": "shape",
    "marina_row_tokens_bucket": "le",
}

Counters = Mapping[str, Mapping[str, float]]


class MetricsReader:
    """The counters of one model since this object was created."""

    def __init__(self, metrics_port: int, model: str) -> None:
        """Read the initial values of the counters; ServerError if the page cannot be read."""
        self._url = f"http://127.0.0.1:{metrics_port}/metrics"
        self._model = model
        self._session = loopback_session()
        self._start_counts = self.read()

    def since_start(self) -> ServerMetrics | None:
        """The metrics since this object was created; None if the model's worker is not Marina's."""
        time.sleep(FLUSH_S)
        return summary(
            {
                name: {label: count - self._start_counts[name][label] for label, count in counts.items()}
                for name, counts in self.read().items()
            }
        )

    def read(self) -> defaultdict[str, defaultdict[str, float]]:
        """The counters so far; ServerError if the page cannot be read."""
        try:
            page = self._session.get(self._url, timeout=TIMEOUT_S)
            page.raise_for_status()
        except requests.RequestException as error:
            raise ServerError(f"the metrics of TorchServe at {self._url} cannot be read: {error}") from None
        return counters(page.text, self._model)


def counters(page: str, model: str) -> defaultdict[str, defaultdict[str, float]]:
    """The counters of a model on a metrics page, by name and by the label that splits them."""
    counts: defaultdict[str, defaultdict[str, float]] = defaultdict(lambda: defaultdict(float))
    for family in text_string_to_metric_families(page):
        for sample in family.samples:
            if model in (sample.labels.get("ModelName"), sample.labels.get("model_name")):
                # the parser appends _total to every counter, but not all of them have it
                name = sample.name.removesuffix("_total")
                counts[name][sample.labels.get(SPLIT_LABELS.get(name, ""), "")] += sample.value
    return counts


def summary(counts: Counters) -> ServerMetrics | None:
    """The figures to report, from the counters; None if no worker of Marina counted anything."""

    def total(name: str) -> float:
        return sum(counts.get(name, {}).values())

    stages = counts.get("marina_stage_seconds", {})
    answered, batches = total("marina_request_seconds_count"), total("marina_batch_requests_count")
    if not answered or not batches:
        return None
    tokens, padding = total("marina_tokens"), counts.get("marina_padding_tokens", {})
    computed = tokens + sum(padding.values())
    repeated = total("marina_repeated_rows")
    rows = total("marina_rows") + repeated
    queue_us, queued_requests = total("ts_queue_latency_microseconds"), total("ts_inference_requests")
    return ServerMetrics(
        queue_ms=round(queue_us / queued_requests / 1000, 3) if queue_us and queued_requests else None,
        worker_ms=round(total("marina_request_seconds_sum") / answered * 1000, 3),
        stage_share={stage: round(spent / sum(stages.values()), 4) for stage, spent in sorted(stages.items())},
        batch=round(total("marina_batch_requests_sum") / batches, 2),
        length_padding=round(padding.get("length", 0) / computed, 4) if computed else 0.0,
        empty_padding=round(padding.get("empty", 0) / computed, 4) if computed else 0.0,
        calls={shape: round(count) for shape, count in sorted(counts.get("marina_calls", {}).items())},
        repeated=round(repeated / rows, 4) if rows else 0.0,
    )
