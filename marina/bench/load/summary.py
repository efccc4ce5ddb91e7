"""Computes figures from samples: of windows, of a whole measurement, and of the generator itself."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

from marina.bench.load.generator import NEVER_SENT, WindowSample
from marina.bench.load.histogram import decoded, encoded, merged, milliseconds
from marina.bench.load.measurement import GeneratorLimit, GeneratorMetrics, MeasuredWindow, Measurement
from marina.bench.load.profile import Load

# a generator that computes or waits for a core for this share of the time may be the bottleneck
BUSY_SHARE = 0.85
# so may a generator that sends late: by more than this share of the median latency, and by more than LATE_MS
LATE_SHARE, LATE_MS = 0.1, 1.0
STABLE_WINDOWS = 3


def merge_samples(samples: list[WindowSample]) -> WindowSample:
    """Merge the samples of all processes for one window; CPU times are those of the busiest process."""
    return replace(
        samples[0],
        begin=min(sample.begin for sample in samples),
        seconds=max(sample.seconds for sample in samples),
        answered_by_second=sum((sample.answered_by_second for sample in samples), Counter()),
        errors=sum((sample.errors for sample in samples), Counter()),
        latencies=encoded(merged(decoded(sample.latencies) for sample in samples)),
        send_delays=encoded(merged(decoded(sample.send_delays) for sample in samples)),
        cpu_s=max(sample.cpu_s for sample in samples),
        waited_s=max(sample.waited_s for sample in samples),
        last=False,
    )


def window_of(sample: WindowSample, instances: float) -> MeasuredWindow:
    """The figures of one window, with `instances` per request."""
    latency = milliseconds(decoded(sample.latencies))
    return MeasuredWindow(
        round(sample.seconds, 3),
        round(sum(sample.answered_by_second.values()) * instances / sample.seconds, 3) if sample.seconds else 0.0,
        latency.get("p50"),
        latency.get("p90"),
        latency.get("p99"),
        sum(sample.errors.values()),
    )


def windows_agree(windows: list[MeasuredWindow], within: float) -> bool | None:
    """Whether throughput and p99 of the last three windows agree; None if there are fewer."""
    last_windows = windows[-STABLE_WINDOWS:]
    if len(last_windows) < STABLE_WINDOWS:
        return None
    return _spread_is_within([window.throughput for window in last_windows], within) and _spread_is_within(
        [window.p99_ms for window in last_windows], within
    )


def _spread_is_within(values: list[Any], within: float) -> bool:
    if None in values or not sum(values):
        return False
    return bool((max(values) - min(values)) * len(values) <= within * sum(values))


def measurement_of(
    samples: list[WindowSample], tail: WindowSample | None, counted: int, load: Load, instances: float
) -> Measurement:
    """The figures of the last `counted` windows.

    Args:
        samples: samples of all complete windows.
        tail: sample of the time after them. Its latencies and errors, of requests that were still in flight, are
            counted; its few milliseconds of throughput are not.
        counted: number of the last windows to count.
        load: how requests were sent.
        instances: mean number of instances per request.
    """
    counted_samples = samples[-counted:]
    samples_with_tail = [*counted_samples, tail] if tail else counted_samples
    latencies = merged(decoded(sample.latencies) for sample in samples_with_tail)
    errors: Counter[str] = sum((sample.errors for sample in samples_with_tail), Counter())
    answered_by_second: Counter[int] = sum((sample.answered_by_second for sample in samples), Counter())
    seconds = sum(sample.seconds for sample in counted_samples)
    requests = sum(sum(sample.answered_by_second.values()) for sample in counted_samples)
    latency = milliseconds(latencies)
    windows = [window_of(sample, instances) for sample in samples]
    return Measurement(
        seconds=round(seconds, 3),
        requests=requests,
        instances=round(requests * instances),
        throughput=round(requests * instances / seconds, 3),
        latency_ms=latency,
        errors=dict(errors),
        per_second=[
            round(answered_by_second[second] * instances)
            for second in range(int(sum(sample.seconds for sample in samples)))
        ],
        windows=windows,
        counted=len(counted_samples),
        stable=windows_agree(windows, load.within),
        generator=_generator(counted_samples, latency, errors, load),
        histogram=encoded(latencies),
    )


def _generator(
    counted_samples: list[WindowSample], latency: dict[str, float], errors: Counter[str], load: Load
) -> GeneratorMetrics:
    seconds = sum(sample.seconds for sample in counted_samples)
    cpu = sum(sample.cpu_s for sample in counted_samples) / seconds
    waited = sum(sample.waited_s for sample in counted_samples) / seconds
    late_ms = (
        milliseconds(merged(decoded(sample.send_delays) for sample in counted_samples)).get("p99")
        if load.rate
        else None
    )
    limit = None
    if cpu + waited >= BUSY_SHARE:
        limit = GeneratorLimit(
            "busy",
            f"the generator itself may be the limit: it computed for {cpu:.0%} of the time and waited for a core for "
            f"{waited:.0%}; give it more processes (--generators) or a machine of its own",
        )
    elif NEVER_SENT in errors:
        limit = GeneratorLimit("connections", "the generator ran out of connections; allow more with --connections")
    elif late_ms is not None and late_ms > max(LATE_MS, LATE_SHARE * latency.get("p50", 0.0)):
        limit = GeneratorLimit(
            "late",
            f"the generator sent late: 1 % of requests left {late_ms:.1f} ms or more after their time, which is in "
            "their latency; give it a core or a machine of its own",
        )
    return GeneratorMetrics(load.processes, round(cpu, 3), round(waited, 3), late_ms, limit)
