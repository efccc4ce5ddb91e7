"""The metrics of a worker: requests, time by stage, rows, tokens, padding, calls.

Every metric is a counter. A histogram is several counters in Prometheus' format: NAME_bucket with the
label `le`, NAME_sum and NAME_count, so that histogram_quantile() works on them.
"""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import NamedTuple

from handlers.worker.values import Call

LATENCY = "marina_request_seconds"
FILL = "marina_batch_requests"
READY_SECONDS, WORKER_STARTS = "marina_ready_seconds_total", "marina_worker_starts_total"
ROW_TOKENS = "marina_row_tokens"
LATENCY_BUCKETS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0)
FILL_BUCKETS = (1, 2, 4, 8, 16, 32, 64, 128)
# as fine as the lengths that `marina shapes` chooses from
ROW_TOKENS_BUCKETS = (
    *range(4, 64, 4),
    *range(64, 128, 8),
    *range(128, 256, 16),
    *range(256, 512, 32),
    *range(512, 1025, 64),
)
BUCKETS: Mapping[str, Sequence[float]] = {
    LATENCY: LATENCY_BUCKETS,
    FILL: FILL_BUCKETS,
    ROW_TOKENS: ROW_TOKENS_BUCKETS,
}


class Metric(NamedTuple):
    """A counter: its labels besides the archive's name, and what it counts.

    The label `member` is the model of the archive, or a member of its bundle.
    """

    labels: tuple[str, ...]
    meaning: str


COUNTERS = {
    "marina_requests_total": Metric(
        ("member", "status"), "Answered requests, by HTTP status. A request to several models counts once for each."
    ),
    f"{LATENCY}_bucket": Metric(("le",), "Requests answered within `le` seconds after they reached the worker."),
    f"{LATENCY}_sum": Metric((), "Seconds from a request's arrival at the worker to its answer, summed."),
    f"{LATENCY}_count": Metric((), "Requests in this histogram."),
    f"{FILL}_bucket": Metric(("le",), "Batches of at most `le` requests."),
    f"{FILL}_sum": Metric((), "Requests in all batches."),
    f"{FILL}_count": Metric((), "Batches."),
    "marina_stage_seconds_total": Metric(
        ("stage",), "Seconds of the worker's time by stage: `read`, `tokenize`, `plan`, `graph`, `answer`."
    ),
    "marina_rows_total": Metric(("member",), "Computed rows, without empty ones."),
    f"{ROW_TOKENS}_bucket": Metric(("member", "le"), "Computed rows of at most `le` tokens."),
    "marina_repeated_rows_total": Metric((), "Rows that equal another one of their batch, and are not computed again."),
    "marina_tokens_total": Metric(("member",), "Tokens of texts in these rows."),
    "marina_padding_tokens_total": Metric(
        ("member", "kind"), "Padding tokens: `length` after texts, `empty` in empty rows."
    ),
    "marina_calls_total": Metric(("member", "shape"), "Calls, by the shape of the graph."),
    "marina_truncated_total": Metric(("member",), "Instances whose text was cut."),
    "marina_model_switches_total": Metric((), "Calls of a bundle that came after a call of another model."),
    READY_SECONDS: Metric((), "Seconds that workers have been READY. Its rate is the number of READY workers."),
    WORKER_STARTS: Metric((), "Workers that have become READY."),
}


class Metrics:
    """Counts since the last `take`. One thread may count while another thread takes."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts: dict[tuple[str, tuple[str, ...]], float] = defaultdict(float)
        # for each histogram the values in every bucket, which `take` sums up
        self._buckets: dict[tuple[str, tuple[str, ...]], list[int]] = {}
        self._last_member: str | None = None  # the model of the last call

    def add(self, name: str, value: float, *labels: str) -> None:
        """Increase a metric of `COUNTERS` with these values of its labels."""
        with self._lock:
            self._counts[name, labels] += value

    def observe(self, name: str, value: float, times: int = 1) -> None:
        """Add a value, `times` times, to a histogram of `BUCKETS`."""
        with self._lock:
            self._count(name, value, times)
            self._counts[f"{name}_sum", ()] += value * times
            self._counts[f"{name}_count", ()] += times

    def count_calls(self, calls: Sequence[Call], lengths: Sequence[int], members: Sequence[str]) -> None:
        """Count the work in a plan, how much of it is padding, and changes between models.

        Args:
            calls: in the order in which they ran.
            lengths: the number of tokens in each row.
            members: the names of the models, which calls refer to by index.
        """
        for call in calls:
            name = members[call.member]
            if self._last_member not in (None, name):
                self.add("marina_model_switches_total", 1)
            self._last_member = name
            tokens = sum(lengths[row] for row in call.rows)
            row_tokens = call.used_rows * call.shape.sequence_length
            self.add("marina_calls_total", 1, name, str(call.shape))
            self.add("marina_rows_total", len(call.rows), name)
            self.add("marina_tokens_total", tokens, name)
            self.add("marina_padding_tokens_total", row_tokens - tokens, name, "length")
            self.add("marina_padding_tokens_total", call.shape.tokens - row_tokens, name, "empty")
            with self._lock:
                for row in call.rows:
                    self._count(ROW_TOKENS, lengths[row], 1, name)

    def take(self) -> dict[tuple[str, tuple[str, ...]], float]:
        """The counts since the last call, by metric and labels."""
        with self._lock:
            counts, self._counts = self._counts, defaultdict(float)
            buckets, self._buckets = self._buckets, {}
        for (name, labels), values in buckets.items():
            for bound, value in zip((*BUCKETS[name], float("inf")), accumulate(values), strict=True):
                counts[f"{name}_bucket", (*labels, f"{bound:g}".replace("inf", "+Inf"))] = value
        return {key: value for key, value in counts.items() if value}

    def _count(self, name: str, value: float, times: int, *labels: str) -> None:
        """Count a value in its bucket."""
        bounds = BUCKETS[name]
        if (name, labels) not in self._buckets:
            self._buckets[name, labels] = [0] * (len(bounds) + 1)
        self._buckets[name, labels][bisect_left(bounds, value)] += times
