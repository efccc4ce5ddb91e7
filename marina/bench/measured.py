"""What was measured: a plain value that is stored as JSON and that every report is made from."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, dataclass
from typing import Any

from hdrh.histogram import HdrHistogram

from marina.bench.generator import NEVER_SENT, Seen
from marina.bench.histogram import decoded, encoded, merged, milliseconds
from marina.bench.load import Load

# a generator that computes or wants to compute for so much of the time may be what limits
BUSY = 0.85
# or one that sends so much later than it meant to, against the median latency
LATE, LATE_MS = 0.1, 1.0
STABLE_WINDOWS = 3


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
class Measured:
    """What a load saw.

    Attributes:
        seconds: that were measured.
        requests, instances: that were answered well in that time.
        throughput: instances a second.
        latency_ms: of requests: min, mean, p50, p90, p95, p99, p99.9, max; empty if none was answered.
        errors: requests by kind; no error is among the others.
        per_second: instances answered in each second from the end of the warm-up.
        windows: all of them, also those before throughput settled.
        counted: how many windows, from the last one back, the figures above are of.
        stable: whether throughput and p99 of the last three windows agree; None if there were fewer.
        generator: share of a core that it used ("cpu") and waited for ("waited") in its busiest
            process, how late it sent ("late_p99_ms", open loop), and what there is to say of that
            ("limit", or None).
        histogram: of the latencies in microseconds, HdrHistogram V2 compressed, base64.
        server: what the server's own metrics say of that time; see `marina.bench.inside`.
    """

    seconds: float
    requests: int
    instances: int
    throughput: float
    latency_ms: dict[str, float]
    errors: dict[str, int]
    per_second: list[int]
    windows: list[Window]
    counted: int
    stable: bool | None
    generator: dict[str, Any]
    histogram: str
    server: dict[str, Any] | None = None

    @classmethod
    def without_load(
        cls, seconds: float, requests: int, instances: int, throughput: float, latencies: HdrHistogram
    ) -> Measured:
        """Of calls in a loop: there is no generator, and there are no windows and no errors."""
        return cls(
            seconds=round(seconds, 3),
            requests=requests,
            instances=instances,
            throughput=round(throughput, 3),
            latency_ms=milliseconds(latencies),
            errors={},
            per_second=[],
            windows=[],
            counted=0,
            stable=None,
            generator={},
            histogram=encoded(latencies),
        )

    @property
    def failed(self) -> int:
        """Requests that were errors."""
        return sum(self.errors.values())

    @property
    def peak(self) -> int:
        """The most instances that were answered in a second."""
        return max(self.per_second, default=0)

    def as_json(self) -> dict[str, Any]:
        """As JSON types."""
        return asdict(self)

    @classmethod
    def from_json(cls, fields: dict[str, Any]) -> Measured:
        """Back from JSON types."""
        return cls(**{**fields, "windows": [Window(**window) for window in fields["windows"]]})


def join(parts: list[Seen]) -> Seen:
    """What all processes saw in one window, as one; times of the processor are those of the busiest."""
    answered: Counter[int] = Counter()
    errors: Counter[str] = Counter()
    for part in parts:
        answered += part.answered
        errors += part.errors
    return Seen(
        parts[0].number,
        min(part.begin for part in parts),
        max(part.seconds for part in parts),
        answered,
        errors,
        encoded(merged(decoded(part.latencies) for part in parts)),
        encoded(merged(decoded(part.late) for part in parts)),
        max(part.cpu_s for part in parts),
        max(part.waited_s for part in parts),
    )


def window_of(seen: Seen, instances: float) -> Window:
    """The figures of one window; `instances` a request."""
    latency = milliseconds(decoded(seen.latencies))
    return Window(
        round(seen.seconds, 3),
        round(sum(seen.answered.values()) * instances / seen.seconds, 3) if seen.seconds else 0.0,
        latency.get("p50"),
        latency.get("p90"),
        latency.get("p99"),
        sum(seen.errors.values()),
    )


def agree(windows: list[Window], within: float) -> bool | None:
    """Whether throughput and p99 of the last three windows agree; None if there are fewer."""
    last = windows[-STABLE_WINDOWS:]
    if len(last) < STABLE_WINDOWS:
        return None
    rates, tails = [window.throughput for window in last], [window.p99_ms for window in last]
    return _close(rates, within) and _close(tails, within)


def _close(values: list[Any], within: float) -> bool:
    if None in values or not sum(values):
        return False
    return bool((max(values) - min(values)) * len(values) <= within * sum(values))


def measured_of(windows: list[Seen], tail: Seen | None, counted: int, load: Load, instances: float) -> Measured:
    """The figures of the last `counted` windows.

    Args:
        windows: all whole windows.
        tail: what came after them: latencies and errors of requests that were in flight, which belong to the
            rest, while its few milliseconds of throughput do not.
        counted: how many windows, from the last one back, to count.
        load: how it was asked.
        instances: in a request, on average.
    """
    chosen = windows[-counted:]
    last = [tail] if tail else []
    latencies = merged(decoded(seen.latencies) for seen in (*chosen, *last))
    late = merged(decoded(seen.late) for seen in chosen)
    errors: Counter[str] = Counter()
    for seen in (*chosen, *last):
        errors += seen.errors
    seconds = sum(seen.seconds for seen in chosen)
    requests = sum(sum(seen.answered.values()) for seen in chosen)
    each: Counter[int] = Counter()
    for seen in windows:
        each += seen.answered
    length = int(sum(seen.seconds for seen in windows))
    latency = milliseconds(latencies)
    figures = [window_of(seen, instances) for seen in windows]
    return Measured(
        seconds=round(seconds, 3),
        requests=requests,
        instances=round(requests * instances),
        throughput=round(requests * instances / seconds, 3),
        latency_ms=latency,
        errors=dict(errors),
        per_second=[round(each[second] * instances) for second in range(length)],
        windows=figures,
        counted=len(chosen),
        stable=agree(figures, load.within),
        generator=_generator(chosen, late, latency, errors, load),
        histogram=encoded(latencies),
    )


def _generator(
    chosen: list[Seen], late: Any, latency: dict[str, float], errors: Counter[str], load: Load
) -> dict[str, Any]:
    seconds = sum(seen.seconds for seen in chosen)
    cpu = sum(seen.cpu_s for seen in chosen) / seconds
    waited = sum(seen.waited_s for seen in chosen) / seconds
    late_ms = milliseconds(late).get("p99") if load.rate else None
    limit = None
    if cpu + waited >= BUSY:
        limit = (
            f"the generator itself may be the limit: it computed for {cpu:.0%} of the time and waited for a core for "
            f"{waited:.0%}; give it more processes (--generators) or a machine of its own"
        )
    elif NEVER_SENT in errors:
        limit = "the generator ran out of connections; allow more with --connections"
    elif late_ms is not None and late_ms > max(LATE_MS, LATE * latency.get("p50", 0.0)):
        limit = (
            f"the generator sent late: 1 % of requests left {late_ms:.1f} ms or more after their time, which is in "
            "their latency; give it a core or a machine of its own"
        )
    return {
        "processes": load.processes,
        "cpu": round(cpu, 3),
        "waited": round(waited, 3),
        "late_p99_ms": late_ms,
        "limit": limit,
    }
