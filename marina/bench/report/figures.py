"""What every report derives from a result: medians over rounds, intervals, ratios, costs and places."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Callable, Sequence
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
        faster: throughput divided by the baseline's, within rounds; None without a baseline.
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
    faster: Interval | None
    place: str

    @property
    def cost_ratio(self) -> float | None:
        """The cost divided by the baseline's, on the same instance; None without a price or a baseline."""
        return 1 / self.faster.median if self.faster and self.faster.median and self.cost is not None else None


def figures_of(result: Result) -> list[Figures]:
    """The figures of each entry, in order."""
    figures = [_figures(entry, result) for entry in result.entries]
    return [replace(one, place=place) for one, place in zip(figures, _places(figures), strict=True)]


def under_load(configuration: Configuration) -> tuple[Any, ...]:
    """The model and the load, which entries must share to be compared."""
    return tuple(getattr(configuration, name) for name in ("model", *LOAD))


def varying(entries: Sequence[Entry]) -> list[str]:
    """The fields that distinguish entries: those that differ, or the model if none does."""
    configurations = [vars(entry.configuration) for entry in entries]
    varied = [name for name in configurations[0] if len({configuration[name] for configuration in configurations}) > 1]
    if "strategy" in varied:
        varied = [name for name in (*LOAD, *ROWS) if name in varied]
    return varied or (["model"] if configurations[0]["model"] else [])


def median(entry: Entry, value: Callable[[Measurement], float | None]) -> float | None:
    """The median of a measured value over rounds; None if no round has it."""
    values = [known for one in entry.rounds if (known := value(one)) is not None]
    return statistics.median(values) if values else None


def ratio(rounds: Sequence[Measurement], base: Sequence[Measurement]) -> Interval | None:
    """Throughput divided by another's, within rounds, because other activity on the machine changes between rounds."""
    ratios = [one.throughput / other.throughput for one, other in zip(rounds, base, strict=False) if other.throughput]
    return bootstrap(ratios) if ratios else None


def _figures(entry: Entry, result: Result) -> Figures:
    rounds = entry.rounds
    names = rounds[0].latency_ms if all(one.latency_ms for one in rounds) else {}
    throughput = bootstrap([one.throughput for one in rounds])
    errors: Counter[str] = Counter()
    for one in rounds:
        errors.update(one.errors)
    settled = [one.stable for one in rounds if one.stable is not None]
    base = _baseline(entry, result)
    return Figures(
        entry=entry,
        throughput=throughput,
        latency_ms={name: statistics.median(one.latency_ms[name] for one in rounds) for name in names},
        p99_ms=bootstrap([one.latency_ms["p99"] for one in rounds]) if names else None,
        errors=dict(errors),
        requests=sum(one.requests for one in rounds),
        stable=all(settled) if settled else None,
        cost=cost_per_1m(result.price.per_hour, throughput.median) if result.price else None,
        faster=ratio(rounds, base.rounds) if base else None,
        place="",
    )


def _baseline(entry: Entry, result: Result) -> Entry | None:
    """The baseline for an entry's ratios: one with the same load, or else one with the same model."""
    if result.baseline is None:
        return None
    matching = [one for one in result.entries if one.configuration.matches(result.baseline)]
    same = [one for one in matching if under_load(one.configuration) == under_load(entry.configuration)]
    of_model = [one for one in matching if one.configuration.model == entry.configuration.model]
    return next(iter(same or of_model), None)


def _places(figures: list[Figures]) -> list[str]:
    """Places by throughput in a closed loop, and by p99 in an open loop, where the rate is given."""
    ranks = [""] * len(figures)
    groups: dict[tuple[Any, ...], list[int]] = {}
    for number, one in enumerate(figures):
        if len(one.entry.rounds) > 1 and one.p99_ms:
            groups.setdefault(under_load(one.entry.configuration), []).append(number)
    for numbers in groups.values():
        if len(numbers) < 2:
            continue
        open_loop = figures[numbers[0]].entry.configuration.rate is not None
        intervals = [figures[number].p99_ms if open_loop else figures[number].throughput for number in numbers]
        ranked = places([interval for interval in intervals if interval], "low" if open_loop else "high")
        for number, place in zip(numbers, ranked, strict=True):
            ranks[number] = place
    return ranks
