"""What was measured: a plain value that is stored as JSON and that every report is made from."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from hdrh.histogram import HdrHistogram
from pydantic import ConfigDict

from marina.bench.load.histogram import encoded, milliseconds


@dataclass(frozen=True)
class Window:
    """One window.

    Attributes:
        seconds: how long it was.
        throughput: instances a second that were answered.
        p50_ms, p90_ms, p99_ms: latency in milliseconds; None if nothing was answered.
        errors: requests.
    """

    seconds: float
    throughput: float
    p50_ms: float | None
    p90_ms: float | None
    p99_ms: float | None
    errors: int


@dataclass(frozen=True)
class GeneratorLimit:
    """Why the generator, and not the server, may be what limits a measurement.

    Attributes:
        kind: "busy" (it had too little of a core), "connections" (all were taken) or "late" (it sent late).
        text: for people.
    """

    kind: Literal["busy", "connections", "late"]
    text: str


@dataclass(frozen=True)
class GeneratorMetrics:
    """What the generator says of itself.

    Attributes:
        processes: how many it had.
        cpu, waited: share of a core that its busiest process used, and waited for.
        late_p99_ms: open loop: the 99th percentile of how long after their time requests were sent.
        limit: None if nothing speaks against it.
    """

    processes: int
    cpu: float
    waited: float
    late_p99_ms: float | None
    limit: GeneratorLimit | None


@dataclass(frozen=True)
class ServerMetrics:
    """What the server's own metrics say of the time of a load.

    Attributes:
        queue_ms: mean time of a request in TorchServe's queue; None if no request came over HTTP.
        worker_ms: mean time of a request in the worker.
        stage_share: the part of the worker's time that each stage took; they add up to 1.
        batch: mean requests in a batch.
        length_padding, empty_padding: parts of the computed tokens that were for nothing, behind texts and in
            empty rows.
        calls: of graphs, by shape.
    """

    queue_ms: float | None
    worker_ms: float
    stage_share: dict[str, float]
    batch: float
    length_padding: float
    empty_padding: float
    calls: dict[str, int]


@dataclass(frozen=True)
class Measurement:
    """What a load saw.

    Attributes:
        seconds: that were measured.
        requests, instances: that were answered well in that time.
        throughput: instances a second.
        latency_ms: of requests: min, mean, p50, p90, p95, p99, p99.9, max; empty if none was answered.
        histogram: of the latencies in microseconds, HdrHistogram V2 compressed, base64.
        errors: requests by kind; no error is among the others.
        per_second: instances answered in each second from the end of the warm-up.
        windows: all of them, also those before throughput settled.
        counted: how many windows, from the last one back, the figures above are of.
        stable: whether throughput and p99 of the last three windows agree; None if there were fewer.
        generator: None for calls in a loop, which have no generator.
        server: None where the server does not say.
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
    windows: list[Window] = field(default_factory=list)
    counted: int = 0
    stable: bool | None = None
    generator: GeneratorMetrics | None = None
    server: ServerMetrics | None = None

    @classmethod
    def of_calls(
        cls, seconds: float, requests: int, instances: int, throughput: float, latencies: HdrHistogram
    ) -> Measurement:
        """Of calls in a loop: there is no generator, and there are no windows and no errors."""
        rate = round(throughput, 3)
        return cls(round(seconds, 3), requests, instances, rate, milliseconds(latencies), encoded(latencies))

    @property
    def failed(self) -> int:
        """Requests that were errors."""
        return sum(self.errors.values())

    @property
    def peak(self) -> int:
        """The most instances that were answered in a second."""
        return max(self.per_second, default=0)
