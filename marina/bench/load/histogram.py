"""HDR histograms of latencies: three significant digits from one microsecond up, for any number of values.

Uses HdrHistogram's own library. Histograms are stored in its compressed V2 format, which its other tools can read.
"""

from __future__ import annotations

from collections.abc import Iterable

from hdrh.histogram import HdrHistogram

HIGHEST_US = 3_600_000_000  # an hour
DIGITS = 3
PERCENTILES = (50.0, 90.0, 95.0, 99.0, 99.9)


def new_histogram() -> HdrHistogram:
    """An empty histogram of microseconds."""
    return HdrHistogram(1, HIGHEST_US, DIGITS)


def record(histogram: HdrHistogram, seconds: float) -> None:
    """Count one latency."""
    histogram.record_value(min(max(1, round(seconds * 1e6)), HIGHEST_US))


def merged(histograms: Iterable[HdrHistogram]) -> HdrHistogram:
    """One histogram with the counts of all histograms."""
    total = new_histogram()
    for histogram in histograms:
        total.add(histogram)
    return total


def encoded(histogram: HdrHistogram) -> str:
    """Encode a histogram as base64 text."""
    text: bytes = histogram.encode()
    return text.decode()


def decoded(text: str) -> HdrHistogram:
    """Decode a histogram from base64 text."""
    return HdrHistogram.decode(text.encode())


def milliseconds(histogram: HdrHistogram) -> dict[str, float]:
    """min, mean, p50, p90, p95, p99, p99.9 and max in milliseconds; empty if nothing was counted."""
    if not histogram.total_count:
        return {}
    percentiles = {f"p{percent:g}": histogram.get_value_at_percentile(percent) / 1000 for percent in PERCENTILES}
    return {
        "min": histogram.get_min_value() / 1000,
        "mean": round(histogram.get_mean_value() / 1000, 4),
        **percentiles,
        "max": histogram.get_max_value() / 1000,
    }
