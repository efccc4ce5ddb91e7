"""The pictures of a result. A picture with nothing to see is not drawn. The name of a picture is also its file name."""

from __future__ import annotations

import itertools
from typing import Any

from marina.bench.load.histogram import decoded, merged
from marina.bench.report.figures import Figures, figures_of
from marina.bench.report.labels import (
    MAX_LINES,
    by_configuration,
    colours_of,
    error_bars,
    label_of,
    load_label,
    scale_latencies,
)
from marina.bench.report.results import Result
from marina.bench.report.table import number
from marina.drawing import (
    COLOURS,
    EMPTY,
    INK,
    MARINA,
    MARINA_FLOAT,
    PADDING,
    PEER,
    label_apart,
    legend,
    name_bars,
    new_figure,
    plain_numbers,
    svg_of,
)

PERCENTS = (50.0, 75.0, 90.0, 95.0, 99.0, 99.5, 99.9)
BINS = 60
# the stages of a worker in their order
STAGE_COLOURS = {
    "read": COLOURS[3],
    "tokenize": MARINA_FLOAT,
    "plan": COLOURS[2],
    "graph": MARINA,
    "answer": PADDING,
}


def pictures_of(result: Result) -> dict[str, bytes]:
    """SVG files by name."""
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
        with new_figure() as (plot, (axis,)):
            if draw(axis, figures):
                drawn[name] = svg_of(plot)
    with new_figure(size=(8, 1.4 + 0.35 * min(len(figures), MAX_LINES))) as (plot, (axis,)):
        if _stages(axis, figures):
            drawn["stages"] = svg_of(plot)
    with new_figure(rows=2, size=(8, 6)) as (plot, axes):
        if over_time(axes, figures):
            drawn["over-time"] = svg_of(plot)
    return drawn


def _throughput(axis: Any, figures: list[Figures]) -> bool:
    """One bar per strategy, for the closed loop with the most connections."""
    closed = [
        figure for figure in figures if figure.entry.configuration.connections and figure.entry.configuration.strategy
    ]
    max_connections = max((figure.entry.configuration.connections or 0 for figure in closed), default=0)
    busiest = [figure for figure in closed if figure.entry.configuration.connections == max_connections]
    if len(busiest) < 3:
        return False
    busiest.sort(key=lambda figure: (str(figure.entry.configuration.model), -figure.throughput.median))
    colours = colours_of(busiest)
    rates = [figure.throughput for figure in busiest]
    bars = axis.barh(
        range(len(busiest)),
        [rate.median for rate in rates],
        xerr=error_bars(rates),
        color=colours,
        capsize=2,
        ecolor=INK,
    )
    axis.bar_label(bars, [number(rate.median) for rate in rates], padding=4)
    axis.margins(x=0.1)
    name_bars(axis, [label_of(figure, busiest) for figure in busiest])
    axis.set(xlabel="instances per second", title=f"Throughput with {max_connections} connections")
    return True


def latency_throughput(axis: Any, figures: list[Figures]) -> bool:
    """One line per configuration through its loads: the median solid, the p99 dashed."""
    answered = [figure for figure in figures if figure.p99_ms]
    if len(answered) < 2:
        return False
    labels = []
    for (label, group), colour in zip(by_configuration(answered), COLOURS, strict=False):
        group.sort(key=lambda figure: figure.throughput.median)
        rates = [figure.throughput.median for figure in group]
        tails = [figure.p99_ms for figure in group if figure.p99_ms]
        axis.plot(rates, [figure.latency_ms["p50"] for figure in group], "o-", color=colour, label=label)
        medians = [tail.median for tail in tails]
        axis.errorbar(rates, medians, error_bars(tails), fmt="o--", color=colour, mfc="white", capsize=2)
        labels += [
            (load_label(figure), (rate, figure.latency_ms["p50"])) for figure, rate in zip(group, rates, strict=True)
        ]
    title = "Latency and throughput: median (solid) and p99 (dashed)"
    axis.set(xlabel="instances per second", ylabel="milliseconds", title=title)
    axis.margins(x=0.1)
    scale_latencies(axis, [figure.latency_ms["p99"] for figure in answered])
    legend(axis)
    label_apart(axis, labels)
    return True


def _cost_p99(axis: Any, figures: list[Figures]) -> bool:
    """One point per entry; lower and further left is better."""
    priced = [figure for figure in figures if figure.cost is not None and figure.p99_ms]
    if len(priced) < 2:
        return False
    labels = []
    for (label, group), colour in zip(by_configuration(priced), COLOURS, strict=False):
        axis.scatter(
            [figure.latency_ms["p99"] for figure in group], [figure.cost for figure in group], color=colour, label=label
        )
        labels += [(load_label(figure), (figure.latency_ms["p99"], figure.cost or 0.0)) for figure in group]
    axis.set(xlabel="p99, milliseconds", ylabel="USD per million inferences", title="Cost and p99")
    tails = [figure.latency_ms["p99"] for figure in priced]
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
    histogram = merged(decoded(measurement.histogram) for measurement in figures[0].entry.rounds)
    values = [
        (item.value_iterated_to / 1000, item.count_added_in_this_iter_step)
        for item in histogram.get_recorded_iterator()
    ]
    ends = sorted(value for value, _ in values)
    low, high = max(ends[0], 0.001), ends[-1] * 1.001
    edges = [low * (high / low) ** (step / BINS) for step in range(BINS + 1)]
    axis.hist([value for value, _ in values], bins=edges, weights=[count for _, count in values], color=COLOURS[0])
    for name, label_side in (("p50", "right"), ("p99", "left")):
        latency_ms = figures[0].latency_ms[name]
        axis.axvline(latency_ms, color=INK, linestyle="--", linewidth=1)
        axis.annotate(
            f"{name} {number(latency_ms)} ms",
            (latency_ms, 0.99),
            xycoords=("data", "axes fraction"),
            xytext=(-4 if label_side == "right" else 4, 0),
            textcoords="offset points",
            va="top",
            ha=label_side,
        )
    axis.margins(x=0.15)
    axis.set_ylim(top=axis.get_ylim()[1] * 1.15)
    axis.set_xscale("log")
    plain_numbers(axis.xaxis)
    axis.set(xlabel="milliseconds (log scale)", ylabel="requests", title="Latency of requests")
    return True


def _percentiles(axis: Any, figures: list[Figures]) -> bool:
    """The latency percentiles of several entries."""
    answered = [figure for figure in figures if figure.p99_ms][:MAX_LINES]
    if len(answered) < 2:
        return False
    for figure, colour in zip(answered, COLOURS, strict=False):
        histogram = merged(decoded(measurement.histogram) for measurement in figure.entry.rounds)
        values = [histogram.get_value_at_percentile(percent) / 1000 for percent in PERCENTS]
        axis.plot(range(len(PERCENTS)), values, ".-", color=colour, label=label_of(figure, figures))
    axis.set_xticks(range(len(PERCENTS)), [f"{percent:g} %" for percent in PERCENTS])
    axis.set(xlabel="share of requests", ylabel="milliseconds, at most", title="Latency percentiles")
    scale_latencies(
        axis, [figure.latency_ms["p99.9"] for figure in answered] + [figure.latency_ms["p50"] for figure in answered]
    )
    legend(axis)
    return True


def over_time(axes: list[Any], figures: list[Figures]) -> bool:
    """Figures of each window, the rounds one after the other: throughput above, median and p99 (dashed) below."""
    above, below = axes
    max_seconds, tails = 0.0, [0.0]
    for figure, colour in zip(figures[:MAX_LINES], colours_of(figures), strict=False):
        windows = [
            window for measurement in figure.entry.rounds for window in measurement.windows if window.p99_ms is not None
        ]
        if len(windows) < 2:
            continue
        ends = list(itertools.accumulate(window.seconds for window in windows))
        above.plot(ends, [window.throughput for window in windows], ".-", color=colour, label=label_of(figure, figures))
        below.plot(ends, [window.p50_ms for window in windows], ".-", color=colour)
        below.plot(ends, [window.p99_ms for window in windows], ".--", color=colour)
        max_seconds = max(max_seconds, ends[-1])
        tails += [window.p99_ms for window in windows if window.p99_ms]
    if not max_seconds:
        return False
    above.set(ylabel="instances per second", title="Throughput over time", xlim=(0, max_seconds * 1.02))
    above.set_ylim(bottom=0)
    below.set(xlabel="seconds", ylabel="milliseconds", title="Latency over time: median (solid) and p99 (dashed)")
    below.set_xlim(0, max_seconds * 1.02)
    scale_latencies(below, tails[1:])
    legend(above)
    return True


def _padding(axis: Any, figures: list[Figures]) -> bool:
    """The share of computed tokens that is padding, if there are entries to compare."""
    labelled_servers = [
        (label_of(figure, figures), server) for figure in figures if (server := figure.entry.rounds[-1].server)
    ]
    if len(labelled_servers) < 2:
        return False
    length = [server.length_padding * 100 for _, server in labelled_servers]
    empty = [server.empty_padding * 100 for _, server in labelled_servers]
    axis.barh(range(len(labelled_servers)), length, color=PADDING, label="after texts")
    axis.barh(range(len(labelled_servers)), empty, left=length, color=EMPTY, label="empty rows")
    name_bars(axis, [label for label, _ in labelled_servers])
    axis.set(xlabel="percent of the computed tokens", title="Padding", xlim=(0, max(30, *length, *empty) * 1.4))
    legend(axis)
    return True


def _stages(axis: Any, figures: list[Figures]) -> bool:
    """Where a request spends its time: in the server's queue, and in each stage of the worker."""
    servers = [
        (label_of(figure, figures), server)
        for figure in figures[:MAX_LINES]
        if (server := figure.entry.rounds[-1].server)
    ]
    if not servers:
        return False
    parts = {"queue": (PEER, [server.queue_ms or 0.0 for _, server in servers])}
    for stage, colour in STAGE_COLOURS.items():
        parts[stage] = colour, [server.worker_ms * server.stage_share.get(stage, 0.0) for _, server in servers]
    left_edges = [0.0] * len(servers)
    for stage, (colour, widths) in parts.items():
        axis.barh(range(len(servers)), widths, left=left_edges, color=colour, label=stage)
        left_edges = [edge + width for edge, width in zip(left_edges, widths, strict=True)]
    name_bars(axis, [label for label, _ in servers])
    axis.set(xlabel="milliseconds of a request, on average", title="Where the time goes")
    legend(axis)
    return True
