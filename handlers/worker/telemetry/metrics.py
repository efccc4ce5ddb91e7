"""What a worker counts: requests, time by stage, rows, tokens, padding, calls.

Every metric is a counter. A histogram is a few counters as Prometheus has them: NAME_bucket with the
label `le`, NAME_sum and NAME_count, so that histogram_quantile() works on them.
"""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

from handlers.worker.values import Call

LATENCY = "marina_request_seconds"
FILL = "marina_batch_requests"
LATENCY_BUCKETS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0)
FILL_BUCKETS = (1, 2, 4, 8, 16, 32, 64, 128)


class Metric(NamedTuple):
    """A counter: its labels, beside the model's name, and what it counts."""

    labels: tuple[str, ...]
    meaning: str


COUNTERS = {
    "marina_requests_total": Metric(("status",), "Requests that were answered, by HTTP status."),
    f"{LATENCY}_bucket": Metric(("le",), "Requests that were answered within `le` seconds of reaching the worker."),
    f"{LATENCY}_sum": Metric((), "Seconds from reaching the worker to the answer, over all requests."),
    f"{LATENCY}_count": Metric((), "Requests in that histogram."),
    f"{FILL}_bucket": Metric(("le",), "Batches of at most `le` requests, as TorchServe made them."),
    f"{FILL}_sum": Metric((), "Requests in all batches."),
    f"{FILL}_count": Metric((), "Batches."),
    "marina_stage_seconds_total": Metric(
        ("stage",), "Seconds of the worker's time by stage: `read`, `tokenize`, `plan`, `graph`, `answer`."
    ),
    "marina_rows_total": Metric((), "Rows that were computed, empty ones left out."),
    "marina_tokens_total": Metric((), "Tokens of texts in them."),
    "marina_padding_tokens_total": Metric(
        ("kind",), "Tokens that were computed for nothing: `length` behind a text, `empty` in rows without a text."
    ),
    "marina_calls_total": Metric(("shape",), "Calls by the shape of their graph."),
    "marina_truncated_total": Metric((), "Instances whose text was cut to fit."),
}


class Metrics:
    """Counts since they were last taken. Counting and taking may be done by different threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts: dict[tuple[str, tuple[str, ...]], float] = defaultdict(float)

    def add(self, name: str, value: float, *labels: str) -> None:
        """Count up a metric of `COUNTERS` with the values of its labels."""
        with self._lock:
            self._counts[name, labels] += value

    def observe(self, name: str, value: float, buckets: Sequence[float], times: int = 1) -> None:
        """Add a value, `times` times, to a histogram."""
        with self._lock:
            for bound in buckets:
                if value <= bound:
                    self._counts[f"{name}_bucket", (f"{bound:g}",)] += times
            self._counts[f"{name}_bucket", ("+Inf",)] += times
            self._counts[f"{name}_sum", ()] += value * times
            self._counts[f"{name}_count", ()] += times

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Count the time of a block for a stage."""
        start = time.perf_counter()
        try:
            yield
        finally:
            self.add("marina_stage_seconds_total", time.perf_counter() - start, name)

    def count_calls(self, calls: Sequence[Call], lengths: Sequence[int]) -> None:
        """Count what a plan computes, and what of it is padding."""
        tokens = in_rows = computed = 0
        for call in calls:
            self.add("marina_calls_total", 1, str(call.shape))
            tokens += sum(lengths[row] for row in call.rows)
            in_rows += len(call.rows) * call.shape.sequence_length
            computed += call.shape.batch_size * call.shape.sequence_length
        self.add("marina_rows_total", len(lengths))
        self.add("marina_tokens_total", tokens)
        self.add("marina_padding_tokens_total", in_rows - tokens, "length")
        self.add("marina_padding_tokens_total", computed - in_rows, "empty")

    def take(self) -> dict[tuple[str, tuple[str, ...]], float]:
        """What was counted since the last time, by metric and labels."""
        with self._lock:
            counts, self._counts = self._counts, defaultdict(float)
        return {key: value for key, value in counts.items() if value}
