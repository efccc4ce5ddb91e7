"""Hands what a worker counts to TorchServe, which shows it to Prometheus."""

from __future__ import annotations

import logging
import threading
import time
from typing import Any

from handlers.worker.telemetry.metrics import COUNTERS, Metrics

INTERVAL_S = 1.0


class Emitter(threading.Thread):
    """Emits counts once a second, and nothing while there are none.

    TorchServe reads every value from a line of the worker's log, which for every request would cost
    more than the request. It drops metrics that its `metrics_config` does not name, and so does this.

    Args:
        metrics: what is counted.
        model: the model's name, a label of every metric.
        cache: TorchServe's `context.metrics`, which may be None.
    """

    def __init__(self, metrics: Metrics, model: str, cache: Any) -> None:
        super().__init__(name="metrics", daemon=True)
        self._metrics = metrics
        self._model = model
        kinds = getattr(cache, "cache", {})
        known = {name: metric for kind in kinds.values() for name, metric in kind.items()}
        self._targets = {name: known[name] for name in COUNTERS if name in known}
        self._counted = threading.Event()

    def counted(self) -> None:
        """Tell that there is something to emit."""
        self._counted.set()

    def run(self) -> None:
        # TorchServe emits through its log, at INFO, which the worker has silenced otherwise
        logging.getLogger("ts.metrics.caching_metric").setLevel(logging.INFO)
        while True:
            self._counted.wait()
            time.sleep(INTERVAL_S)
            self._counted.clear()
            self.emit()

    def emit(self) -> None:
        """Emit what was counted since the last time."""
        for (name, labels), value in self._metrics.take().items():
            if name in self._targets:
                # rounded: TorchServe's pattern does not know exponents such as 1e-05
                self._targets[name].add_or_update(round(value, 6), [*labels, self._model, "Model"])
