"""Passes a worker's counters to TorchServe, which exports them to Prometheus."""

from __future__ import annotations

import logging
import threading
import time
from typing import Any

from handlers.worker.telemetry.metrics import COUNTERS, READY_SECONDS, WORKER_STARTS, Metrics

INTERVAL_S = 1.0
GAUGE_PREFIX = "[METRICS]PredictionTime."  # of the lines of a gauge that TorchServe's worker sets
IDLE_S = 4.0  # the longest wait for a count, so that a worker without requests appears in the metrics too


class _OncePerSecond(logging.Filter):
    """Passes on a gauge once per second: TorchServe's worker writes it for every batch, before it sends the answers."""

    def __init__(self) -> None:
        super().__init__()
        self._next = 0.0

    def filter(self, record: logging.LogRecord) -> bool:
        now = time.monotonic()
        if not str(record.msg).startswith(GAUGE_PREFIX):
            return True
        if now < self._next:
            return False
        self._next = now + INTERVAL_S
        return True


class Emitter(threading.Thread):
    """Emits counters once per second under load, and every few seconds when idle.

    TorchServe reads every value from a line of the worker's log, so emitting on every request would cost
    more than the request itself. TorchServe drops metrics that its `metrics_config` does not name; so does this class.

    Args:
        metrics: the counters.
        model: the model's name, a label of every metric.
        cache: TorchServe's `context.metrics`, which may be None.
    """

    def __init__(self, metrics: Metrics, model: str, cache: Any) -> None:
        super().__init__(name="metrics", daemon=True)
        self._metrics = metrics
        self._model = model
        metrics_by_kind = getattr(cache, "cache", {})
        declared = {
            name: metric for metrics_of_kind in metrics_by_kind.values() for name, metric in metrics_of_kind.items()
        }
        self._targets = {name: declared[name] for name in COUNTERS if name in declared}
        self._counted = threading.Event()

    def counted(self) -> None:
        """Signal that there are counts to emit."""
        self._counted.set()

    def run(self) -> None:
        # TorchServe emits through its log at INFO, which the worker has otherwise silenced
        log = logging.getLogger("ts.metrics.caching_metric")
        log.addFilter(_OncePerSecond())
        log.setLevel(logging.INFO)
        self._metrics.add(WORKER_STARTS, 1)
        last_emit = time.monotonic()
        while True:
            self._counted.wait(IDLE_S)
            time.sleep(INTERVAL_S)
            self._counted.clear()
            now = time.monotonic()
            self._metrics.add(READY_SECONDS, now - last_emit)
            last_emit = now
            self.emit()

    def emit(self) -> None:
        """Emit everything counted since the last emit."""
        for (name, labels), value in self._metrics.take().items():
            if name in self._targets:
                # rounded: TorchServe's pattern does not match exponents such as 1e-05
                self._targets[name].add_or_update(round(value, 6), [*labels, self._model, "Model"])
