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
BUSY = 0.85
# so may one that sends late: by more than this share of the median latency, and by more than LATE_MS
LATE, LATE_MS = 0.1, 1.0
STABLE_WINDOWS = 3


def join(samples: list[WindowSample]) -> WindowSample:
    """Merge the samples of all processes for one window; CPU times are those of the busiest process."""
    return replace(
        samples[0],
        begin=min(sample.begin for sample in samples),
        seconds=max(sample.seconds for sample in samples),
        answered=sum((sample.answered for sample in samples), Counter()),
        errors=sum((sample.errors for sample in samples), Counter()),
        latencies=encoded(merged(decoded(sample.latencies) for sample in samples)),
        late=encoded(merged(decoded(sample.late) for sample in samples)),
        cpu_s=max(sample.cpu_s for sample in samples),
        waited_s=max(sample.waited_s for sample in samples),
        last=False,
    )


def window_of(sample: WindowSample, instances: float) -> MeasuredWindow:
    """The figures of one window, with `instances` per request."""
    latency = milliseconds(decoded(sample.latencies))
    return MeasuredWindow(
        round(sample.seconds, 3),
        round(sum(sample.answered.values()) * instances / sample.seconds, 3) if sample.seconds else 0.0,
        latency.get("p50"),
        latency.get("p90"),
        latency.get("p99"),
        sum(sample.errors.values()),
    )


def agree(windows: list[MeasuredWindow], within: float) -> bool | None:
    """Whether throughput and p99 of the last three windows agree; None if there are fewer."""
    last = windows[-STABLE_WINDOWS:]
    if len(last) < STABLE_WINDOWS:
        return None
    return _close([one.throughput for one in last], within) and _close([one.p99_ms for one in last], within)


def _close(values: list[Any], within: float) -> bool:
    if None in values or not sum(values):
        return False
    return bool((max(values) - min(values)) * len(values) <= within * sum(values))


def measurement_of(
    samples: list[WindowSample], tail: WindowSample | None, counted: int, load: Load, instances: float
) -> Measurement:
    """The figures of the last `counted` windows.

    Args:
        samples: samples of all complete windows.
        tail: sample of the time after them. The latencies and errors of requests that were still in flight are
            counted; its few milliseconds of throughput are not.
        counted: number of windows to count, from the last one back.
        load: how requests were sent.
        instances: mean number of instances per request.
    """
    chosen = samples[-counted:]
    ended = [*chosen, tail] if tail else chosen
    latencies = merged(decoded(one.latencies) for one in ended)
    errors: Counter[str] = sum((one.errors for one in ended), Counter())
    each: Counter[int] = sum((sample.answered for sample in samples), Counter())
    seconds = sum(one.seconds for one in chosen)
    requests = sum(sum(one.answered.values()) for one in chosen)
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
            round(each[second] * instances) for second in range(int(sum(sample.seconds for sample in samples)))
        ],
        windows=windows,
        counted=len(chosen),
        stable=agree(windows, load.within),
        generator=_generator(chosen, latency, errors, load),
        histogram=encoded(latencies),
    )


def _generator(
    chosen: list[WindowSample], latency: dict[str, float], errors: Counter[str], load: Load
) -> GeneratorMetrics:
    seconds = sum(one.seconds for one in chosen)
    cpu = sum(one.cpu_s for one in chosen) / seconds
    waited = sum(one.waited_s for one in chosen) / seconds
    late_ms = milliseconds(merged(decoded(one.late) for one in chosen)).get("p99") if load.rate else None
    limit = None
    if cpu + waited >= BUSY:
        limit = GeneratorLimit(
            "busy",
            f"the generator itself may be the limit: it computed for {cpu:.0%} of the time and waited for a core for "
            f"{waited:.0%}; give it more processes (--generators) or a machine of its own",
        )
    elif NEVER_SENT in errors:
        limit = GeneratorLimit("connections", "the generator ran out of connections; allow more with --connections")
    elif late_ms is not None and late_ms > max(LATE_MS, LATE * latency.get("p50", 0.0)):
        limit = GeneratorLimit(
            "late",
            f"the generator sent late: 1 % of requests left {late_ms:.1f} ms or more after their time, which is in "
            "their latency; give it a core or a machine of its own",
        )
    return GeneratorMetrics(load.processes, round(cpu, 3), round(waited, 3), late_ms, limit)
