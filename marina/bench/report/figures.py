"""What every report derives from a result: medians over rounds, intervals, ratios, costs and places."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from marina.bench.load.measurement import Measurement
from marina.bench.report.pricing import cost_per_1m
from marina.bench.report.results import Configuration, Entry, Result
from marina.bench.report.statistics import Interval, bootstrap, places

# the fields of a configuration that describe its load
LOAD = ("connections", "rate", "arrivals", "instances", "texts", "protocol")
# the fields that distinguish the rows of a table; the others describe the settings of the server
ROWS = ("model", "strategy", "batch", "mode")


@dataclass(frozen=True)
class Figures:
    """The figures of one entry.

    Attributes:
        throughput: instances per second.
        latency_ms: medians over rounds, by the names in `Measurement`; empty if nothing was answered.
        p99_ms: p99 with its interval; None if nothing was answered in some round.
        errors: number of failed requests by kind, over all rounds.
        requests: number of answered requests, over all rounds.
        stable: whether all rounds settled; None if this is not known for any round.
        cost: USD per million inferences, or None without a price.
        speedup: throughput divided by the baseline's, within rounds; None without a baseline.
        place: place among the entries under the same load; "" if there is only one round or one entry.
    """

    entry: Entry
    throughput: Interval
    latency_ms: dict[str, float]
    p99_ms: Interval | None
    errors: dict[str, int]
    requests: int
    stable: bool | None
    cost: float | None
    speedup: Interval | None
    place: str

    @property
    def cost_ratio(self) -> float | None:
        """The cost divided by the baseline's, on the same instance; None without a price or a baseline."""
        return 1 / self.speedup.median if self.speedup and self.speedup.median and self.cost is not None else None


def figures_of(result: Result) -> list[Figures]:
    """The figures of each entry, in order."""
    figures = [_figures(entry, result) for entry in result.entries]
    return [replace(figure, place=place) for figure, place in zip(figures, _places(figures), strict=True)]


def comparison_key(configuration: Configuration) -> tuple[Any, ...]:
    """The model and the load; only entries with the same ones are compared."""
    return tuple(getattr(configuration, name) for name in ("model", *LOAD))


def varying_fields(entries: Sequence[Entry]) -> list[str]:
    """The fields that distinguish entries: those that differ, or the model if none does."""
    configurations = [vars(entry.configuration) for entry in entries]
    names = [name for name in configurations[0] if len({configuration[name] for configuration in configurations}) > 1]
    if "strategy" in names:
        names = [name for name in (*LOAD, *ROWS) if name in names]
    return names or (["model"] if configurations[0]["model"] else [])


def throughput_ratio(rounds: Sequence[Measurement], base_rounds: Sequence[Measurement]) -> Interval | None:
    """Throughput divided by another's, within rounds, because other activity on the machine changes between rounds."""
    ratios = [
        measurement.throughput / base_measurement.throughput
        for measurement, base_measurement in zip(rounds, base_rounds, strict=False)
        if base_measurement.throughput
    ]
    return bootstrap(ratios) if ratios else None


def _figures(entry: Entry, result: Result) -> Figures:
    rounds = entry.rounds
    names = rounds[0].latency_ms if all(measurement.latency_ms for measurement in rounds) else {}
    throughput = bootstrap([measurement.throughput for measurement in rounds])
    errors: Counter[str] = Counter()
    for measurement in rounds:
        errors.update(measurement.errors)
    settled = [measurement.stable for measurement in rounds if measurement.stable is not None]
    base = _baseline(entry, result)
    return Figures(
        entry=entry,
        throughput=throughput,
        latency_ms={name: statistics.median(measurement.latency_ms[name] for measurement in rounds) for name in names},
        p99_ms=bootstrap([measurement.latency_ms["p99"] for measurement in rounds]) if names else None,
        errors=dict(errors),
        requests=sum(measurement.requests for measurement in rounds),
        stable=all(settled) if settled else None,
        cost=cost_per_1m(result.price.per_hour, throughput.median) if result.price else None,
        speedup=throughput_ratio(rounds, base.rounds) if base else None,
        place="",
    )


def _baseline(entry: Entry, result: Result) -> Entry | None:
    """The baseline for an entry's ratios: one with the same load, or else one with the same model."""
    if result.baseline is None:
        return None
    candidates = [candidate for candidate in result.entries if candidate.configuration.matches(result.baseline)]
    with_same_load = [
        candidate
        for candidate in candidates
        if comparison_key(candidate.configuration) == comparison_key(entry.configuration)
    ]
    of_same_model = [
        candidate for candidate in candidates if candidate.configuration.model == entry.configuration.model
    ]
    return next(iter(with_same_load or of_same_model), None)


def _places(figures: list[Figures]) -> list[str]:
    """Places by throughput in a closed loop, and by p99 in an open loop, where the rate is given."""
    ranks = [""] * len(figures)
    groups: dict[tuple[Any, ...], list[int]] = {}
    for index, figure in enumerate(figures):
        if len(figure.entry.rounds) > 1 and figure.p99_ms:
            groups.setdefault(comparison_key(figure.entry.configuration), []).append(index)
    for indexes in groups.values():
        if len(indexes) < 2:
            continue
        open_loop = figures[indexes[0]].entry.configuration.rate is not None
        intervals = [figures[index].p99_ms if open_loop else figures[index].throughput for index in indexes]
        ranked = places([interval for interval in intervals if interval], "low" if open_loop else "high")
        for index, place in zip(indexes, ranked, strict=True):
            ranks[index] = place
    return ranks
