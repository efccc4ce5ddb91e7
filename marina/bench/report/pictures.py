"""The pictures of a result. Each is drawn where there is something to see, and named for its file."""

from __future__ import annotations

import io
import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from marina.bench.report.figures import LOAD, Figures, figures_of, varying
from marina.bench.report.results import Result
from marina.bench.report.standard import NAMES
from marina.bench.report.statistics import Interval
from marina.bench.report.table import cell

COLOURS = (
    *("#4878a8", "#d98c5f", "#5f9e6e", "#8d6cab", "#b85450", "#8c8c8c", "#c7a13e", "#5fa8b8"),
    *("#1f3f66", "#8a4a1f", "#2c5c39", "#4e3568", "#6e2522", "#444444", "#77601e", "#2c6470"),
)
MOST_LINES = len(COLOURS)
# fields whose values say by themselves what they are
SPEAKING = ("strategy", "mode", "model", "engine", "precision", "protocol", "arrivals", "texts")


def pictures_of(result: Result) -> dict[str, bytes]:
    """PNG files by name."""
    figures = figures_of(result)
    drawn: dict[str, bytes] = {}
    for name, draw in (
        ("throughput", _throughput),
        ("latency-throughput", _latency_throughput),
        ("cost-p99", _cost_p99),
        ("latency-time", _latency_time),
        ("throughput-time", _throughput_time),
        ("padding", _padding),
    ):
        with new_figure() as (figure, (axis,)):
            if draw(axis, figures):
                drawn[name] = png_of(figure)
    return drawn


@contextmanager
def new_figure(columns: int = 1, size: tuple[float, float] = (8, 4.8)) -> Iterator[tuple[Any, list[Any]]]:
    """A figure of so many inches with its axes beside each other, without a screen; closed after the block."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(1, columns, figsize=size, sharey=True, layout="constrained", squeeze=False)
    try:
        yield figure, list(axes[0])
    finally:
        pyplot.close(figure)


def png_of(figure: Any) -> bytes:
    """The picture, with a light grid and without a frame."""
    for axis in figure.axes:
        axis.grid(visible=True, color="#dddddd", linewidth=0.6)
        axis.set_axisbelow(True)
        axis.spines[["top", "right"]].set_visible(False)
    file = io.BytesIO()
    figure.savefig(file, dpi=110)
    return file.getvalue()


def _throughput(axis: Any, figures: list[Figures]) -> bool:
    """A bar for each strategy under the heaviest load of a closed loop."""
    closed = [one for one in figures if one.entry.configuration.connections and one.entry.configuration.strategy]
    heaviest = max((one.entry.configuration.connections or 0 for one in closed), default=0)
    shown = [one for one in closed if one.entry.configuration.connections == heaviest]
    if len(shown) < 3:
        return False
    models = sorted({str(one.entry.configuration.model) for one in shown})
    colours = [COLOURS[models.index(str(one.entry.configuration.model))] for one in shown]
    rates = [one.throughput for one in shown]
    axis.barh(range(len(shown)), [rate.median for rate in rates], xerr=_errors(rates), color=colours, capsize=2)
    _name_bars(axis, [_label(one, shown) for one in shown])
    axis.set(xlabel="instances per second", title=f"throughput at {heaviest} connections")
    return True


def _latency_throughput(axis: Any, figures: list[Figures]) -> bool:
    """A line a configuration through its loads: the median, and dashed the p99."""
    answered = [one for one in figures if one.p99_ms]
    if len(answered) < 2:
        return False
    for (label, ones), colour in zip(_by_configuration(answered), COLOURS):
        ones.sort(key=lambda one: one.throughput.median)
        rates = [one.throughput.median for one in ones]
        tails = [one.p99_ms for one in ones if one.p99_ms]
        axis.plot(rates, [one.latency_ms["p50"] for one in ones], "o-", color=colour, label=label)
        medians = [tail.median for tail in tails]
        axis.errorbar(rates, medians, _errors(tails), fmt="o--", color=colour, mfc="white", capsize=2)
        for one, rate in zip(ones, rates):
            _annotate(axis, _load(one), (rate, one.latency_ms["p50"]), (3, -9))
    title = "latency against throughput: the median, and hollow p99"
    axis.set(xlabel="instances per second", ylabel="milliseconds", title=title)
    axis.margins(x=0.1)
    _spread_out(axis, [one.latency_ms["p99"] for one in answered])
    _legend(axis)
    return True


def _cost_p99(axis: Any, figures: list[Figures]) -> bool:
    """A point an entry: down and to the left is better."""
    priced = [one for one in figures if one.cost is not None and one.p99_ms]
    if len(priced) < 2:
        return False
    for (label, ones), colour in zip(_by_configuration(priced), COLOURS):
        axis.scatter([one.latency_ms["p99"] for one in ones], [one.cost for one in ones], color=colour, label=label)
        for one in ones:
            _annotate(axis, _load(one), (one.latency_ms["p99"], one.cost or 0.0), (4, 3))
    axis.set(xlabel="p99, milliseconds", ylabel="USD for a million inferences", title="cost against p99")
    tails = [one.latency_ms["p99"] for one in priced]
    if max(tails) > 10 * min(tails):
        axis.set_xscale("log")
        _plain(axis.xaxis)
    axis.margins(x=0.12)
    _legend(axis)
    return True


def _latency_time(axis: Any, figures: list[Figures]) -> bool:
    """Window by window, the rounds one after the other: the median, and dashed the p99."""
    longest = 0.0
    tails: list[float] = []
    for one, colour in zip(figures, COLOURS):
        windows = [window for each in one.entry.rounds for window in each.windows if window.p99_ms is not None]
        if len(windows) < 2:
            continue
        ends = list(itertools.accumulate(window.seconds for window in windows))
        axis.plot(ends, [window.p50_ms for window in windows], ".-", color=colour, label=_label(one, figures))
        axis.plot(ends, [window.p99_ms for window in windows], ".--", color=colour)
        longest = max(longest, ends[-1])
        tails += [window.p99_ms for window in windows if window.p99_ms]
    if not longest:
        return False
    title = "latency over time: the median, and dashed p99"
    axis.set(xlabel="seconds", ylabel="milliseconds", title=title, xlim=(0, longest * 1.02))
    _spread_out(axis, tails)
    _legend(axis)
    return True


def _throughput_time(axis: Any, figures: list[Figures]) -> bool:
    """Second by second, of the last round."""
    shown = [one for one in figures[:MOST_LINES] if len(one.entry.rounds[-1].per_second) > 1]
    if not shown:
        return False
    for one, colour in zip(shown, COLOURS):
        seconds = one.entry.rounds[-1].per_second
        axis.step(range(1, len(seconds) + 1), seconds, where="mid", color=colour, label=_label(one, figures))
    axis.set(xlabel="second", ylabel="instances", title="throughput over time")
    axis.set_ylim(bottom=0)
    _legend(axis)
    return True


def _padding(axis: Any, figures: list[Figures]) -> bool:
    """Of what was computed, what was for nothing."""
    known = [(_label(one, figures), server) for one in figures if (server := one.entry.rounds[-1].server)]
    if not known:
        return False
    length = [server.length_padding * 100 for _, server in known]
    empty = [server.empty_padding * 100 for _, server in known]
    axis.barh(range(len(known)), length, color=COLOURS[1], label="behind texts")
    axis.barh(range(len(known)), empty, left=length, color="#e8c9a0", label="in empty rows")
    _name_bars(axis, [label for label, _ in known])
    axis.set(xlabel="percent of the computed tokens", title="padding waste", xlim=(0, max(30, *length, *empty) * 1.4))
    _legend(axis)
    return True


def _errors(intervals: list[Interval]) -> list[list[float]]:
    """How far intervals reach below and above their medians."""
    return [[one.median - one.low for one in intervals], [one.high - one.median for one in intervals]]


def _name_bars(axis: Any, labels: list[str]) -> None:
    axis.set_yticks(range(len(labels)), labels, fontsize=8)
    axis.invert_yaxis()


def _annotate(axis: Any, text: str, place: tuple[float, float], offset: tuple[int, int]) -> None:
    axis.annotate(text, place, fontsize=7, xytext=offset, textcoords="offset points")


def _spread_out(axis: Any, values: list[float]) -> None:
    """Latencies from nothing up, or on a logarithmic scale where they differ too much to be seen together."""
    if max(values) > 20 * min(values):
        axis.set_yscale("log")
        _plain(axis.yaxis)
    else:
        axis.set_ylim(bottom=0)


def _legend(axis: Any) -> None:
    """Below the picture, where it hides nothing."""
    axis.figure.legend(fontsize=8, loc="outside lower center", ncols=2)


def _plain(axis: Any) -> None:
    """Numbers as they are on a logarithmic scale, and not powers of ten."""
    from matplotlib.ticker import LogFormatter

    axis.set_major_formatter(LogFormatter(labelOnlyBase=False))
    axis.set_minor_formatter(LogFormatter(labelOnlyBase=False, minor_thresholds=(2, 0.5)))


def _by_configuration(figures: list[Figures]) -> list[tuple[str, list[Figures]]]:
    """What differs in how the server was set up, and the entries of each."""
    fields = [name for name in varying([one.entry for one in figures]) if name not in LOAD]
    groups: dict[str, list[Figures]] = {}
    for one in figures:
        groups.setdefault(_described(one, fields) or cell(one.entry.configuration.model), []).append(one)
    return list(groups.items())[:MOST_LINES]


def _label(one: Figures, figures: list[Figures]) -> str:
    return _described(one, varying([other.entry for other in figures]))


def _described(one: Figures, fields: list[str]) -> str:
    known = one.entry.configuration.known()
    return ", ".join(
        cell(known[name]) if name in SPEAKING else f"{NAMES.get(name, name)} {cell(known[name])}"
        for name in fields
        if name in known and (name != "workers" or "core_groups" not in fields)
    )


def _load(one: Figures) -> str:
    configuration = one.entry.configuration
    connections, rate = configuration.connections, configuration.rate
    load = f"{rate:g}/s" if rate is not None else f"{connections} conn." if connections else ""
    many = configuration.instances or 1
    return load if many == 1 else f"{load} x {many}".strip()
