"""The result of a measurement: plain data that is stored as JSON, and from which every report is made."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from hdrh.histogram import HdrHistogram
from pydantic import ConfigDict

from marina.bench.load.histogram import encoded, milliseconds


@dataclass(frozen=True)
class MeasuredWindow:
    """The figures of one window.

    Attributes:
        seconds: length of the window.
        throughput: answered instances per second.
        p50_ms, p90_ms, p99_ms: latency in milliseconds; None if nothing was answered.
        errors: number of failed requests.
    """

    seconds: float
    throughput: float
    p50_ms: float | None
    p90_ms: float | None
    p99_ms: float | None
    errors: int


@dataclass(frozen=True)
class GeneratorLimit:
    """Why the generator, rather than the server, may limit a measurement.

    Attributes:
        kind: "busy" (it got too little CPU time), "connections" (all were in use) or "late" (it sent late).
        text: message for the user.
    """

    kind: Literal["busy", "connections", "late"]
    text: str


@dataclass(frozen=True)
class GeneratorMetrics:
    """Metrics of the load generator itself.

    Attributes:
        processes: number of processes.
        cpu, waited: share of the time in which its busiest process computed, and in which it waited for a core.
        late_p99_ms: open loop: 99th percentile of the delay between the intended and the actual send time.
        limit: None if there is no sign that the generator was the limit.
    """

    processes: int
    cpu: float
    waited: float
    late_p99_ms: float | None
    limit: GeneratorLimit | None


@dataclass(frozen=True)
class ServerMetrics:
    """The server's own metrics for the duration of a load.

    Attributes:
        queue_ms: mean time of a request in TorchServe's queue; None if no request came over HTTP.
        worker_ms: mean time of a request in the worker.
        stage_share: share of the worker's time that each stage took; the shares add up to 1.
        batch: mean number of requests per batch.
        length_padding, empty_padding: shares of the computed tokens that were padding: after texts, and in empty
            rows.
        calls: number of graph calls, by shape.
        repeated: share of the rows that equalled another one of their batch, and were not computed again.
    """

    queue_ms: float | None
    worker_ms: float
    stage_share: dict[str, float]
    batch: float
    length_padding: float
    empty_padding: float
    calls: dict[str, int]
    repeated: float = 0.0


@dataclass(frozen=True)
class Measurement:
    """The figures of one load.

    Attributes:
        seconds: measured time.
        requests, instances: number of requests and instances that succeeded in that time.
        throughput: instances per second.
        latency_ms: latency of requests: min, mean, p50, p90, p95, p99, p99.9, max; empty if none was answered.
        histogram: latencies in microseconds, as a compressed HdrHistogram V2 in base64.
        errors: number of failed requests by kind; the other figures do not include them.
        per_second: instances answered in each second from the end of the warm-up.
        windows: all windows, including those before throughput settled.
        counted: number of the last windows that the figures above cover.
        stable: whether throughput and p99 of the last three windows agree; None if there were fewer.
        generator: None for calls in a loop, which have no generator.
        server: None if the server reports no metrics.
    """

    __pydantic_config__ = ConfigDict(extra="forbid")

    seconds: float
    requests: int
    instances: int
    throughput: float
    latency_ms: dict[str, float]
    histogram: str
    errors: dict[str, int] = field(default_factory=dict)
    per_second: list[int] = field(default_factory=list)
    windows: list[MeasuredWindow] = field(default_factory=list)
    counted: int = 0
    stable: bool | None = None
    generator: GeneratorMetrics | None = None
    server: ServerMetrics | None = None

    @classmethod
    def of_calls(
        cls, seconds: float, requests: int, instances: int, throughput: float, latencies: HdrHistogram
    ) -> Measurement:
        """A measurement of calls in a loop, which has no generator, windows or errors."""
        rate = round(throughput, 3)
        return cls(round(seconds, 3), requests, instances, rate, milliseconds(latencies), encoded(latencies))

    @property
    def peak(self) -> int:
        """The highest number of instances that were answered in one second."""
        return max(self.per_second, default=0)
