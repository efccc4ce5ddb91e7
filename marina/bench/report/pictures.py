"""The pictures of a result. Each is drawn where there is something to see, and named for its file."""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from marina.bench.report.figures import LOAD, Figures, figures_of, varying
from marina.bench.report.results import Result
from marina.bench.report.standard import NAMES
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
    found = figures_of(result)
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
            if draw(axis, found):
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


def _throughput(axis: Any, found: list[Figures]) -> bool:
    """A bar for each strategy under the heaviest load of a closed loop."""
    closed = [one for one in found if one.entry.configuration.connections and one.entry.configuration.strategy]
    heaviest = max((one.entry.configuration.connections or 0 for one in closed), default=0)
    shown = [one for one in closed if one.entry.configuration.connections == heaviest]
    if len(shown) < 3:
        return False
    rates = [one.throughput for one in shown]
    spread = [[rate.median - rate.low for rate in rates], [rate.high - rate.median for rate in rates]]
    models = sorted({str(one.entry.configuration.model) for one in shown})
    colours = [COLOURS[models.index(str(one.entry.configuration.model))] for one in shown]
    axis.barh(range(len(shown)), [rate.median for rate in rates], xerr=spread, color=colours, capsize=2)
    axis.set_yticks(range(len(shown)), [_label(one, shown) for one in shown], fontsize=8)
    axis.invert_yaxis()
    axis.set(xlabel="instances per second", title=f"throughput at {heaviest} connections")
    return True


def _latency_throughput(axis: Any, found: list[Figures]) -> bool:
    """A line a configuration through its loads: the median, and dashed the p99."""
    answered = [one for one in found if one.p99_ms]
    if len(answered) < 2:
        return False
    for (label, ones), colour in zip(_by_configuration(answered), COLOURS):
        ones.sort(key=lambda one: one.throughput.median)
        rates = [one.throughput.median for one in ones]
        axis.plot(rates, [one.latency_ms["p50"] for one in ones], "o-", color=colour, label=label)
        tails = [one.p99_ms for one in ones if one.p99_ms]
        medians = [tail.median for tail in tails]
        spread = [[tail.median - tail.low for tail in tails], [tail.high - tail.median for tail in tails]]
        axis.errorbar(rates, medians, spread, fmt="o--", color=colour, mfc="white", capsize=2)
        for one, rate in zip(ones, rates):
            axis.annotate(
                _load(one), (rate, one.latency_ms["p50"]), fontsize=7, xytext=(3, -9), textcoords="offset points"
            )
    axis.set(
        xlabel="instances per second",
        ylabel="milliseconds",
        title="latency against throughput: the median, and hollow p99",
    )
    axis.margins(x=0.1)
    _spread_out(axis, [one.latency_ms["p99"] for one in answered])
    _legend(axis)
    return True


def _cost_p99(axis: Any, found: list[Figures]) -> bool:
    """A point an entry: down and to the left is better."""
    priced = [one for one in found if one.cost is not None and one.p99_ms]
    if len(priced) < 2:
        return False
    for (label, ones), colour in zip(_by_configuration(priced), COLOURS):
        axis.scatter([one.latency_ms["p99"] for one in ones], [one.cost for one in ones], color=colour, label=label)
        for one in ones:
            place = (one.latency_ms["p99"], one.cost)
            axis.annotate(_load(one), place, fontsize=7, xytext=(4, 3), textcoords="offset points")
    axis.set(xlabel="p99, milliseconds", ylabel="USD for a million inferences", title="cost against p99")
    if max(one.latency_ms["p99"] for one in priced) > 10 * min(one.latency_ms["p99"] for one in priced):
        axis.set_xscale("log")
        _plain(axis.xaxis)
    axis.margins(x=0.12)
    _legend(axis)
    return True


def _latency_time(axis: Any, found: list[Figures]) -> bool:
    """Window by window, the rounds one after the other: the median, and dashed the p99."""
    shown = found[:MOST_LINES]
    longest = 0.0
    seen: list[float] = []
    for one, colour in zip(shown, COLOURS):
        windows = [window for each in one.entry.rounds for window in each.windows if window.p99_ms is not None]
        if len(windows) < 2:
            continue
        ends = [sum(window.seconds for window in windows[: number + 1]) for number in range(len(windows))]
        label = _label(one, found)
        axis.plot(ends, [window.p50_ms for window in windows], ".-", color=colour, label=label)
        axis.plot(ends, [window.p99_ms for window in windows], ".--", color=colour)
        longest = max(longest, ends[-1])
        seen += [window.p99_ms for window in windows if window.p99_ms]
    if not longest:
        return False
    axis.set(
        xlabel="seconds",
        ylabel="milliseconds",
        title="latency over time: the median, and dashed p99",
        xlim=(0, longest * 1.02),
    )
    _spread_out(axis, seen)
    _legend(axis)
    return True


def _throughput_time(axis: Any, found: list[Figures]) -> bool:
    """Second by second, of the last round."""
    shown = [one for one in found[:MOST_LINES] if len(one.entry.rounds[-1].per_second) > 1]
    if not shown:
        return False
    for one, colour in zip(shown, COLOURS):
        seconds = one.entry.rounds[-1].per_second
        axis.step(range(1, len(seconds) + 1), seconds, where="mid", color=colour, label=_label(one, found))
    axis.set(xlabel="second", ylabel="instances", title="throughput over time")
    axis.set_ylim(bottom=0)
    _legend(axis)
    return True


def _padding(axis: Any, found: list[Figures]) -> bool:
    """Of what was computed, what was for nothing."""
    known = [(one, server) for one in found if (server := one.entry.rounds[-1].server)]
    if not known:
        return False
    labels = [_label(one, found) for one, _ in known]
    length = [server.length_padding * 100 for _, server in known]
    empty = [server.empty_padding * 100 for _, server in known]
    places = range(len(known))
    axis.barh(places, length, color=COLOURS[1], label="behind texts")
    axis.barh(places, empty, left=length, color="#e8c9a0", label="in empty rows")
    axis.set_yticks(places, labels, fontsize=8)
    axis.invert_yaxis()
    axis.set(xlabel="percent of the computed tokens", title="padding waste", xlim=(0, max(30, *length, *empty) * 1.4))
    _legend(axis)
    return True


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


def _by_configuration(found: list[Figures]) -> list[tuple[str, list[Figures]]]:
    """What differs in how the server was set up, and the entries of each."""
    fields = [name for name in varying([one.entry for one in found]) if name not in LOAD]
    groups: dict[str, list[Figures]] = {}
    for one in found:
        groups.setdefault(_described(one, fields) or cell(one.entry.configuration.model), []).append(one)
    return list(groups.items())[:MOST_LINES]


def _label(one: Figures, found: list[Figures]) -> str:
    return _described(one, varying([other.entry for other in found]))


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
    asked = f"{rate:g}/s" if rate is not None else f"{connections} conn." if connections else ""
    many = configuration.instances or 1
    return asked if many == 1 else f"{asked} x {many}".strip()
