"""What predictions are worth: a table, a picture, and the medians of the errors."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Any

from benchmarks.verify.measure import Compared, Figures
from marina.bench.report.drawing import COLOURS, new_figure, png_of

UP_TO = 0.85  # of capacity: what published simulators are judged at


def middle(one: Compared) -> Figures:
    """The mean of the measurements."""
    return Figures(*(statistics.fmean(values) for values in zip(*one.measured, strict=True)))


def errors(one: Compared) -> Figures:
    """How far the prediction is from the mean of the measurements, as fractions."""
    return Figures(*(abs(said / found - 1) for said, found in zip(one.predicted, middle(one), strict=True)))


def apart(one: Compared) -> Figures:
    """How far the measurements are from each other, as fractions of their mean."""
    return Figures(
        *((max(values) - min(values)) / statistics.fmean(values) for values in zip(*one.measured, strict=True))
    )


def medians(compared: Sequence[Compared]) -> dict[str, dict[str, float]]:
    """The medians of errors and of differences between measurements: of all, and of those up to `UP_TO`."""
    found: dict[str, dict[str, float]] = {}
    for label, kept in (
        ("all", compared),
        (f"up to {UP_TO:.0%}", [one for one in compared if one.case.share <= UP_TO]),
    ):
        if kept:
            for what, of in (("error", errors), ("apart", apart)):
                columns = zip(*(of(one) for one in kept), strict=True)
                found[f"{what}, {label}"] = dict(zip(Figures._fields, map(statistics.median, columns), strict=True))
    return found


def rows(compared: Sequence[Compared]) -> list[list[str]]:
    """A table: every case with its errors, and how far the measurements are apart."""
    found = []
    for one in compared:
        mean, error, between = middle(one), errors(one), apart(one)
        cells = [f"{one.case.number}", one.model, one.case.describe(), f"{one.rate:.0f}"]
        for name in ("p50", "p99"):
            cells += [f"{getattr(one.predicted, name):.1f}", f"{getattr(mean, name):.1f}"]
            cells += [f"{getattr(error, name):.0%}", f"{getattr(between, name):.0%}"]
        found.append([*cells, f"{error.rate:.1%}"])
    return found


COLUMNS = [
    *(
        "",
        "model",
        "workload",
        "req/s",
        "p50 said",
        "p50",
        "error",
        "apart",
        "p99 said",
        "p99",
        "error",
        "apart",
        "rate error",
    ),
]


def picture(compared: Sequence[Compared]) -> bytes:
    """A PNG: predicted against measured, for both percentiles."""
    with new_figure(columns=2, size=(10, 4.8)) as (figure, axes):
        for axis, name in zip(axes, ("p50", "p99"), strict=True):
            values: list[float] = []
            for place, (label, low, high) in enumerate(
                (("up to 50%", 0, 0.5), ("to 85%", 0.5, UP_TO), ("above", UP_TO, 1))
            ):
                own = [one for one in compared if low < one.case.share <= high]
                found = [getattr(middle(one), name) for one in own]
                said = [getattr(one.predicted, name) for one in own]
                spans = [
                    [abs(getattr(edge, name) - mean) for edge in one.measured]
                    for one, mean in zip(own, found, strict=True)
                ]
                axis.errorbar(
                    found, said, xerr=[max(span) for span in spans] if spans else None, fmt="o", ms=4, lw=0.8,
                    color=COLOURS[place], label=label,
                )  # fmt: skip
                values += [*found, *said]
            _frame(axis, values, name)
        axes[0].legend(title="of capacity", fontsize=8)
        return png_of(figure)


def _frame(axis: Any, values: list[float], name: str) -> None:
    edges = [min(values) * 0.8, max(values) * 1.25]
    axis.plot(edges, edges, color="#444444", linewidth=0.8)
    axis.fill_between(edges, [0.9 * edge for edge in edges], [1.1 * edge for edge in edges], color="#bbbbbb", alpha=0.4)
    axis.set(
        xscale="log",
        yscale="log",
        xlim=edges,
        ylim=edges,
        xlabel=f"measured {name}, ms",
        ylabel=f"predicted {name}, ms",
    )
    axis.set_title(f"{name}; the band is 10 %", fontsize=10)
