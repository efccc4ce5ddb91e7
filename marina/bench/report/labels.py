"""The labels, colours and scales that the pictures of a result share."""

from __future__ import annotations

from typing import Any

from marina.bench.report.figures import LOAD, Figures, varying_fields
from marina.bench.report.standard import labelled
from marina.bench.report.statistics import Interval
from marina.bench.report.table import cell
from marina.drawing import COLOURS, MARINA, MARINA_FLOAT, PEER, plain_numbers

MAX_LINES = len(COLOURS)


def by_configuration(figures: list[Figures]) -> list[tuple[str, list[Figures]]]:
    """The entries of each server configuration, with a label of the fields that differ."""
    fields = [name for name in varying_fields([figure.entry for figure in figures]) if name not in LOAD]
    groups: dict[str, list[Figures]] = {}
    for figure in figures:
        groups.setdefault(_configuration_label(figure, fields) or cell(figure.entry.configuration.model), []).append(
            figure
        )
    return list(groups.items())[:MAX_LINES]


def label_of(figure: Figures, figures: list[Figures]) -> str:
    """The fields of an entry that differ among the entries."""
    return _configuration_label(figure, varying_fields([listed_figure.entry for listed_figure in figures]))


def _configuration_label(figure: Figures, fields: list[str]) -> str:
    """The fields that distinguish an entry; shapes are long, so they are used only if it has no other such field."""
    values = figure.entry.configuration.known_fields()
    names = [name for name in fields if name in values and (name != "workers" or "core_groups" not in fields)]
    short_names = [name for name in names if name != "shapes"] or names
    return ", ".join(labelled(name, values[name]) for name in short_names)


def load_label(figure: Figures) -> str:
    """The connections or the rate of an entry, with its instances per request."""
    configuration = figure.entry.configuration
    connections, rate = configuration.connections, configuration.rate
    load = f"{rate:g}/s" if rate is not None else f"{connections} conn." if connections else ""
    instances = configuration.instances or 1
    return load if instances == 1 else f"{load} x {instances}".strip()


def colours_of(figures: list[Figures]) -> list[str]:
    """A colour for each entry: blue for Marina and grey for others where there are both, else all different."""
    is_marina = ["marina" in str(figure.entry.configuration.strategy).lower() for figure in figures]
    if not any(is_marina) or all(is_marina):
        return [COLOURS[number % len(COLOURS)] for number in range(len(figures))]
    colours = []
    for figure, ours in zip(figures, is_marina, strict=True):
        is_float = "f32" in str(figure.entry.configuration.strategy)
        colours.append((MARINA_FLOAT if is_float else MARINA) if ours else PEER)
    return colours


def error_bars(intervals: list[Interval]) -> list[list[float]]:
    """The distances from the medians to the lower and upper bounds of their intervals."""
    return [
        [interval.median - interval.low for interval in intervals],
        [interval.high - interval.median for interval in intervals],
    ]


def scale_latencies(axis: Any, values: list[float]) -> None:
    """Scale latencies from zero up, or logarithmically if they differ too much to be seen together."""
    if max(values) > 20 * min(values):
        axis.set_yscale("log")
        plain_numbers(axis.yaxis)
    else:
        axis.set_ylim(bottom=0)
