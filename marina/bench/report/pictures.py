"""The pictures of a result. Each is drawn where there is something to see, and named for its file."""

from __future__ import annotations

import io
import math
from collections.abc import Callable
from typing import Any

from marina.bench.report.figures import LOAD, Figures, figures_of, varying
from marina.bench.report.table import NAMES, cell
from marina.bench.result import Result

COLOURS = (
    *("#4878a8", "#d98c5f", "#5f9e6e", "#8d6cab", "#b85450", "#8c8c8c", "#c7a13e", "#5fa8b8"),
    *("#1f3f66", "#8a4a1f", "#2c5c39", "#4e3568", "#6e2522", "#444444", "#77601e", "#2c6470"),
)
MOST_LINES = len(COLOURS)
# fields whose values say by themselves what they are
SPEAKING = ("way", "mode", "model", "engine", "precision", "protocol", "arrivals", "texts")


def pictures_of(result: Result) -> dict[str, bytes]:
    """PNG files by name."""
    import matplotlib

    matplotlib.use("Agg")
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
        picture = _drawn(draw, found)
        if picture:
            drawn[name] = picture
    return drawn


def _drawn(draw: Callable[[Any, list[Figures]], bool], found: list[Figures]) -> bytes | None:
    from matplotlib import pyplot

    figure, axis = pyplot.subplots(figsize=(8, 4.8), layout="constrained")
    try:
        if not draw(axis, found):
            return None
        axis.grid(visible=True, color="#dddddd", linewidth=0.6)
        axis.set_axisbelow(True)
        for side in ("top", "right"):
            axis.spines[side].set_visible(False)
        file = io.BytesIO()
        figure.savefig(file, dpi=110)
        return file.getvalue()
    finally:
        pyplot.close(figure)


def _throughput(axis: Any, found: list[Figures]) -> bool:
    """A bar for each way under the heaviest load of a closed loop."""
    closed = [one for one in found if one.entry.configuration.get("connections")]
    if not closed or "way" not in closed[0].entry.configuration:
        return False
    heaviest = max(one.entry.configuration["connections"] for one in closed)
    shown = [one for one in closed if one.entry.configuration["connections"] == heaviest]
    if len(shown) < 3:
        return False
    rates = [one.throughput for one in shown]
    spread = [[rate.median - rate.low for rate in rates], [rate.high - rate.median for rate in rates]]
    models = sorted({str(one.entry.configuration.get("model")) for one in shown})
    colours = [COLOURS[models.index(str(one.entry.configuration.get("model")))] for one in shown]
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
    length = [server["length_padding"] * 100 for _, server in known]
    empty = [server["empty_padding"] * 100 for _, server in known]
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
    """What differs in how the server was set up, and the entries that were asked of it."""
    fields = [name for name in varying([one.entry for one in found]) if name not in LOAD]
    groups: dict[str, list[Figures]] = {}
    for one in found:
        groups.setdefault(_told(one, fields) or cell(one.entry.configuration.get("model")), []).append(one)
    return list(groups.items())[:MOST_LINES]


def _label(one: Figures, found: list[Figures]) -> str:
    return _told(one, varying([other.entry for other in found]))


def _told(one: Figures, fields: list[str]) -> str:
    told = [name for name in fields if name != "workers" or "core_groups" not in fields]
    values = [(name, one.entry.configuration.get(name)) for name in told]
    return ", ".join(
        cell(value) if name in SPEAKING else f"{NAMES.get(name, name)} {cell(value)}"
        for name, value in values
        if value is not None
    )


def _load(one: Figures) -> str:
    configuration = one.entry.configuration
    rate = configuration.get("rate")
    connections = configuration.get("connections")
    asked = f"{rate:g}/s" if rate is not None else f"{connections} conn." if connections else ""
    many = configuration.get("instances", 1)
    return asked if math.isclose(many, 1) else f"{asked} x {many:g}".strip()
