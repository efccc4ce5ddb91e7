"""Server metrics of the time of a load: where requests spent it, from TorchServe's metrics page.

The queue is TorchServe's and counts requests over HTTP only; the rest are the workers' own metrics
(docs/metrics.md), which they hand over once a second.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Mapping

import requests
from prometheus_client.parser import text_string_to_metric_families

from marina.bench.load.measurement import ServerMetrics
from marina.errors import ServerError
from marina.server.tokens import loopback_session

FLUSH_S = 1.3  # until workers have handed over what they counted
TIMEOUT_S = 10

# of each metric, the label that divides it; the other labels are added up
DIVIDED = {"marina_stage_seconds": "stage", "marina_padding_tokens": "kind", "marina_calls": "shape"}

Counters = Mapping[str, Mapping[str, float]]


class MetricsReader:
    """The counters of one model, from when this was made."""

    def __init__(self, metrics_port: int, model: str) -> None:
        """Remember where counters stand; ServerError if the page cannot be read."""
        self._url = f"http://127.0.0.1:{metrics_port}/metrics"
        self._model = model
        self._session = loopback_session()
        self._before = self._read()

    def since(self) -> ServerMetrics | None:
        """What was counted since then; None if the model's worker is not Marina's."""
        time.sleep(FLUSH_S)
        return summary(
            {
                name: {part: count - self._before[name][part] for part, count in counts.items()}
                for name, counts in self._read().items()
            }
        )

    def _read(self) -> defaultdict[str, defaultdict[str, float]]:
        try:
            page = self._session.get(self._url, timeout=TIMEOUT_S)
            page.raise_for_status()
        except requests.RequestException as error:
            raise ServerError(f"the metrics of TorchServe at {self._url} cannot be read: {error}") from None
        return counters(page.text, self._model)


def counters(page: str, model: str) -> defaultdict[str, defaultdict[str, float]]:
    """The counters of a model on a metrics page, by name and by the label that divides them."""
    counts: defaultdict[str, defaultdict[str, float]] = defaultdict(lambda: defaultdict(float))
    for family in text_string_to_metric_families(page):
        for sample in family.samples:
            if model in (sample.labels.get("ModelName"), sample.labels.get("model_name")):
                # the parser gives every counter the ending that not all of them have
                name = sample.name.removesuffix("_total")
                counts[name][sample.labels.get(DIVIDED.get(name, ""), "")] += sample.value
    return counts


def summary(counted: Counters) -> ServerMetrics | None:
    """The figures that people ask for, from what was counted; None if a worker of Marina's counted nothing."""

    def of(name: str) -> float:
        return sum(counted.get(name, {}).values())

    stages = counted.get("marina_stage_seconds", {})
    answered, batches = of("marina_request_seconds_count"), of("marina_batch_requests_count")
    if not answered or not batches:
        return None
    tokens, padding = of("marina_tokens"), counted.get("marina_padding_tokens", {})
    computed = tokens + sum(padding.values())
    queue, queued = of("ts_queue_latency_microseconds"), of("ts_inference_requests")
    return ServerMetrics(
        queue_ms=round(queue / queued / 1000, 3) if queue and queued else None,
        worker_ms=round(of("marina_request_seconds_sum") / answered * 1000, 3),
        stage_share={stage: round(spent / sum(stages.values()), 4) for stage, spent in sorted(stages.items())},
        batch=round(of("marina_batch_requests_sum") / batches, 2),
        length_padding=round(padding.get("length", 0) / computed, 4) if computed else 0.0,
        empty_padding=round(padding.get("empty", 0) / computed, 4) if computed else 0.0,
        calls={shape: round(count) for shape, count in sorted(counted.get("marina_calls", {}).items())},
    )
