"""The pictures of a result. Each is drawn only if there is something to see; its name is also its file name."""

from __future__ import annotations

import itertools
from typing import Any

from marina.bench.load.histogram import decoded, merged
from marina.bench.report.drawing import COLOURS, label_apart, legend, name_bars, new_figure, plain_numbers, png_of
from marina.bench.report.figures import LOAD, Figures, figures_of, varying
from marina.bench.report.results import Result
from marina.bench.report.standard import labelled
from marina.bench.report.statistics import Interval
from marina.bench.report.table import cell, number

MOST_LINES = len(COLOURS)
PERCENTS = (50.0, 75.0, 90.0, 95.0, 99.0, 99.5, 99.9)
BINS = 60


def pictures_of(result: Result) -> dict[str, bytes]:
    """PNG files by name."""
    figures = figures_of(result)
    drawn: dict[str, bytes] = {}
    for name, draw in (
        ("throughput", _throughput),
        ("latency-throughput", latency_throughput),
        ("cost-p99", _cost_p99),
        ("latency-histogram", _histogram),
        ("latency-percentiles", _percentiles),
        ("padding", _padding),
    ):
        with new_figure() as (figure, (axis,)):
            if draw(axis, figures):
                drawn[name] = png_of(figure)
    with new_figure(rows=2, size=(8, 6)) as (figure, axes):
        if over_time(axes, figures):
            drawn["over-time"] = png_of(figure)
    return drawn


def _throughput(axis: Any, figures: list[Figures]) -> bool:
    """One bar per strategy, for the closed loop with the most connections."""
    closed = [
        figure for figure in figures if figure.entry.configuration.connections and figure.entry.configuration.strategy
    ]
    heaviest = max((one.entry.configuration.connections or 0 for one in closed), default=0)
    shown = [one for one in closed if one.entry.configuration.connections == heaviest]
    if len(shown) < 3:
        return False
    models = sorted({str(one.entry.configuration.model) for one in shown})
    colours = [COLOURS[models.index(str(one.entry.configuration.model))] for one in shown]
    rates = [one.throughput for one in shown]
    bars = axis.barh(range(len(shown)), [rate.median for rate in rates], xerr=_errors(rates), color=colours, capsize=2)
    axis.bar_label(bars, [number(rate.median) for rate in rates], fontsize=8, padding=4)
    axis.margins(x=0.1)
    name_bars(axis, [_label(one, shown) for one in shown])
    axis.set(xlabel="instances per second", title=f"Throughput with {heaviest} connections")
    return True


def latency_throughput(axis: Any, figures: list[Figures]) -> bool:
    """One line per configuration through its loads: the median solid, the p99 dashed."""
    answered = [figure for figure in figures if figure.p99_ms]
    if len(answered) < 2:
        return False
    labels = []
    for (label, ones), colour in zip(_by_configuration(answered), COLOURS, strict=False):
        ones.sort(key=lambda one: one.throughput.median)
        rates = [one.throughput.median for one in ones]
        tails = [one.p99_ms for one in ones if one.p99_ms]
        axis.plot(rates, [one.latency_ms["p50"] for one in ones], "o-", color=colour, label=label)
        medians = [tail.median for tail in tails]
        axis.errorbar(rates, medians, _errors(tails), fmt="o--", color=colour, mfc="white", capsize=2)
        labels += [(_load(one), (rate, one.latency_ms["p50"])) for one, rate in zip(ones, rates, strict=True)]
    title = "Latency and throughput: median (solid) and p99 (dashed)"
    axis.set(xlabel="instances per second", ylabel="milliseconds", title=title)
    axis.margins(x=0.1)
    _spread_out(axis, [one.latency_ms["p99"] for one in answered])
    legend(axis)
    label_apart(axis, labels)
    return True


def _cost_p99(axis: Any, figures: list[Figures]) -> bool:
    """One point per entry; lower and further left is better."""
    priced = [figure for figure in figures if figure.cost is not None and figure.p99_ms]
    if len(priced) < 2:
        return False
    labels = []
    for (label, ones), colour in zip(_by_configuration(priced), COLOURS, strict=False):
        axis.scatter([one.latency_ms["p99"] for one in ones], [one.cost for one in ones], color=colour, label=label)
        labels += [(_load(one), (one.latency_ms["p99"], one.cost or 0.0)) for one in ones]
    axis.set(xlabel="p99, milliseconds", ylabel="USD per million inferences", title="Cost and p99")
    tails = [one.latency_ms["p99"] for one in priced]
    if max(tails) > 10 * min(tails):
        axis.set_xscale("log")
        plain_numbers(axis.xaxis)
    axis.margins(x=0.12, y=0.12)
    legend(axis)
    label_apart(axis, labels)
    return True


def _histogram(axis: Any, figures: list[Figures]) -> bool:
    """The distribution of request latencies, for a result with one entry."""
    if len(figures) != 1 or not figures[0].p99_ms:
        return False
    whole = merged(decoded(one.histogram) for one in figures[0].entry.rounds)
    values = [
        (item.value_iterated_to / 1000, item.count_added_in_this_iter_step) for item in whole.get_recorded_iterator()
    ]
    ends = sorted(value for value, _ in values)
    low, high = max(ends[0], 0.001), ends[-1] * 1.001
    edges = [low * (high / low) ** (step / BINS) for step in range(BINS + 1)]
    axis.hist([value for value, _ in values], bins=edges, weights=[count for _, count in values], color=COLOURS[0])
    for name, side in (("p50", "right"), ("p99", "left")):
        at = figures[0].latency_ms[name]
        axis.axvline(at, color="#444444", linestyle="--", linewidth=1)
        axis.annotate(
            f"{name} {number(at)} ms",
            (at, 0.99),
            xycoords=("data", "axes fraction"),
            xytext=(-4 if side == "right" else 4, 0),
            textcoords="offset points",
            fontsize=9,
            va="top",
            ha=side,
        )
    axis.margins(x=0.15)
    axis.set_ylim(top=axis.get_ylim()[1] * 1.15)
    axis.set_xscale("log")
    plain_numbers(axis.xaxis)
    axis.set(xlabel="milliseconds (log scale)", ylabel="requests", title="Latency of requests")
    return True


def _percentiles(axis: Any, figures: list[Figures]) -> bool:
    """The latency percentiles of several entries."""
    shown = [figure for figure in figures if figure.p99_ms][:MOST_LINES]
    if len(shown) < 2:
        return False
    for one, colour in zip(shown, COLOURS, strict=False):
        whole = merged(decoded(each.histogram) for each in one.entry.rounds)
        values = [whole.get_value_at_percentile(percent) / 1000 for percent in PERCENTS]
        axis.plot(range(len(PERCENTS)), values, ".-", color=colour, label=_label(one, figures))
    axis.set_xticks(range(len(PERCENTS)), [f"{percent:g} %" for percent in PERCENTS])
    axis.set(xlabel="share of requests", ylabel="milliseconds, at most", title="Latency percentiles")
    _spread_out(axis, [one.latency_ms["p99.9"] for one in shown] + [one.latency_ms["p50"] for one in shown])
    legend(axis)
    return True


def over_time(axes: list[Any], figures: list[Figures]) -> bool:
    """Figures of each window, the rounds one after the other: throughput above, median and p99 (dashed) below."""
    above, below = axes
    longest, tails = 0.0, [0.0]
    for one, colour in zip(figures, COLOURS, strict=False):
        windows = [window for each in one.entry.rounds for window in each.windows if window.p99_ms is not None]
        if len(windows) < 2:
            continue
        ends = list(itertools.accumulate(window.seconds for window in windows))
        above.plot(ends, [window.throughput for window in windows], ".-", color=colour, label=_label(one, figures))
        below.plot(ends, [window.p50_ms for window in windows], ".-", color=colour)
        below.plot(ends, [window.p99_ms for window in windows], ".--", color=colour)
        longest = max(longest, ends[-1])
        tails += [window.p99_ms for window in windows if window.p99_ms]
    if not longest:
        return False
    above.set(ylabel="instances per second", title="Throughput over time", xlim=(0, longest * 1.02))
    above.set_ylim(bottom=0)
    below.set(xlabel="seconds", ylabel="milliseconds", title="Latency over time: median (solid) and p99 (dashed)")
    below.set_xlim(0, longest * 1.02)
    _spread_out(below, tails[1:])
    legend(above)
    return True


def _padding(axis: Any, figures: list[Figures]) -> bool:
    """The share of computed tokens that is padding, if there are entries to compare."""
    known = [(_label(figure, figures), server) for figure in figures if (server := figure.entry.rounds[-1].server)]
    if len(known) < 2:
        return False
    length = [server.length_padding * 100 for _, server in known]
    empty = [server.empty_padding * 100 for _, server in known]
    axis.barh(range(len(known)), length, color=COLOURS[1], label="after texts")
    axis.barh(range(len(known)), empty, left=length, color="#e8c9a0", label="empty rows")
    name_bars(axis, [label for label, _ in known])
    axis.set(xlabel="percent of the computed tokens", title="Padding", xlim=(0, max(30, *length, *empty) * 1.4))
    legend(axis)
    return True


def _errors(intervals: list[Interval]) -> list[list[float]]:
    """The distances from the medians to the lower and upper bounds of their intervals."""
    return [
        [interval.median - interval.low for interval in intervals],
        [interval.high - interval.median for interval in intervals],
    ]


def _spread_out(axis: Any, values: list[float]) -> None:
    """Scale latencies from zero up, or logarithmically if they differ too much to be seen together."""
    if max(values) > 20 * min(values):
        axis.set_yscale("log")
        plain_numbers(axis.yaxis)
    else:
        axis.set_ylim(bottom=0)


def _by_configuration(figures: list[Figures]) -> list[tuple[str, list[Figures]]]:
    """The entries of each server configuration, with a label of the fields that differ."""
    fields = [name for name in varying([figure.entry for figure in figures]) if name not in LOAD]
    groups: dict[str, list[Figures]] = {}
    for figure in figures:
        groups.setdefault(_described(figure, fields) or cell(figure.entry.configuration.model), []).append(figure)
    return list(groups.items())[:MOST_LINES]


def _label(one: Figures, figures: list[Figures]) -> str:
    return _described(one, varying([other.entry for other in figures]))


def _described(one: Figures, fields: list[str]) -> str:
    """The fields that distinguish an entry; shapes are long, so they are used only if no other field does."""
    known = one.entry.configuration.known()
    shown = [name for name in fields if name in known and (name != "workers" or "core_groups" not in fields)]
    short = [name for name in shown if name != "shapes"] or shown
    return ", ".join(labelled(name, known[name]) for name in short)


def _load(one: Figures) -> str:
    configuration = one.entry.configuration
    connections, rate = configuration.connections, configuration.rate
    load = f"{rate:g}/s" if rate is not None else f"{connections} conn." if connections else ""
    many = configuration.instances or 1
    return load if many == 1 else f"{load} x {many}".strip()
