"""The quality of predictions: a table, a picture, and the medians of the errors."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Any

from benchmarks.verify.measure import Comparison, Figures
from marina.drawing import COLOURS, INK, new_figure, plain_numbers, svg_of

MAX_JUDGED_SHARE = 0.85  # of capacity: published simulators are judged up to it


def mean_figures(comparison: Comparison) -> Figures:
    """The mean of the measurements."""
    return Figures(*(statistics.fmean(values) for values in zip(*comparison.measured, strict=True)))


def relative_errors(comparison: Comparison) -> Figures:
    """The distance of the prediction from the mean of the measurements, as fractions of the mean."""
    return Figures(
        *(
            abs(predicted / measured - 1)
            for predicted, measured in zip(comparison.predicted.figures, mean_figures(comparison), strict=True)
        )
    )


def relative_spread(comparison: Comparison) -> Figures:
    """The spread of the measurements, as fractions of their mean."""
    return Figures(
        *((max(values) - min(values)) / statistics.fmean(values) for values in zip(*comparison.measured, strict=True))
    )


def medians(comparisons: Sequence[Comparison]) -> dict[str, dict[str, float]]:
    """The medians of errors and of spreads of measurements: of all cases, and of cases up to `MAX_JUDGED_SHARE`."""
    medians_by_label: dict[str, dict[str, float]] = {}
    for label, selected in (
        ("all", comparisons),
        (
            f"up to {MAX_JUDGED_SHARE:.0%}",
            [comparison for comparison in comparisons if comparison.case.share <= MAX_JUDGED_SHARE],
        ),
    ):
        if selected:
            for quantity, figures_of in (("error", relative_errors), ("apart", relative_spread)):
                columns = zip(*(figures_of(comparison) for comparison in selected), strict=True)
                medians_by_label[f"{quantity}, {label}"] = dict(
                    zip(Figures._fields, map(statistics.median, columns), strict=True)
                )
    return medians_by_label


def coverage(comparisons: Sequence[Comparison]) -> dict[str, float]:
    """The share of all measurements of each percentile that are in the predicted range; 90 % would be right.

    As the errors, it is of workloads up to `MAX_JUDGED_SHARE`, if there are any.
    """
    judged = [comparison for comparison in comparisons if comparison.case.share <= MAX_JUDGED_SHARE]
    return {
        name: statistics.fmean(
            low <= getattr(figures, name) <= high
            for comparison in judged or comparisons
            for low, high in [getattr(comparison.predicted, name)]
            for figures in comparison.measured
        )
        for name in ("p50", "p99")
    }


def rows(comparisons: Sequence[Comparison]) -> list[list[str]]:
    """A table: every case with its errors, and the spread of its measurements."""
    table_rows = []
    for comparison in comparisons:
        mean, errors, spread = mean_figures(comparison), relative_errors(comparison), relative_spread(comparison)
        cells = [f"{comparison.case.number}", comparison.model, comparison.case.describe(), f"{comparison.rate:.0f}"]
        for name in ("p50", "p99"):
            low, high = getattr(comparison.predicted, name)
            cells += [f"{getattr(comparison.predicted.figures, name):.1f} ({low:.1f} to {high:.1f})"]
            cells += [f"{getattr(mean, name):.1f}"]
            cells += [f"{getattr(errors, name):.0%}", f"{getattr(spread, name):.0%}"]
        table_rows.append([*cells, f"{errors.rate:.1%}"])
    return table_rows


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


def picture(comparisons: Sequence[Comparison]) -> bytes:
    """An SVG: predicted with ranges against measured with the distance of the measurements, for both percentiles."""
    with new_figure(columns=2, size=(10, 4.8)) as (figure, axes):
        for axis, name in zip(axes, ("p50", "p99"), strict=True):
            values: list[float] = []
            for index, (label, low, high) in enumerate(
                (("up to 50%", 0, 0.5), ("to 85%", 0.5, MAX_JUDGED_SHARE), ("above", MAX_JUDGED_SHARE, 1))
            ):
                selected = [comparison for comparison in comparisons if low < comparison.case.share <= high]
                if not selected:
                    continue
                measured = [getattr(mean_figures(comparison), name) for comparison in selected]
                predicted = [getattr(comparison.predicted.figures, name) for comparison in selected]
                lows, highs = zip(*(getattr(comparison.predicted, name) for comparison in selected), strict=True)
                axis.vlines(measured, lows, highs, lw=0.8, color=COLOURS[index])
                spans = [
                    [abs(getattr(measured_figures, name) - mean) for measured_figures in comparison.measured]
                    for comparison, mean in zip(selected, measured, strict=True)
                ]
                axis.errorbar(
                    measured, predicted, xerr=[max(span) for span in spans], fmt="o", ms=4, lw=0.8,
                    color=COLOURS[index], label=label,
                )  # fmt: skip
                values += [*measured, *lows, *highs]
            _frame(axis, values, name)
        axes[0].legend(title="of capacity")
        return svg_of(figure)


def _frame(axis: Any, values: list[float], name: str) -> None:
    edges = [min(values) * 0.8, max(values) * 1.25]
    axis.plot(edges, edges, color=INK, linewidth=0.8)
    axis.fill_between(edges, [0.9 * edge for edge in edges], [1.1 * edge for edge in edges], color=INK, alpha=0.4)
    axis.set(
        xscale="log",
        yscale="log",
        xlim=edges,
        ylim=edges,
        xlabel=f"measured {name}, ms",
        ylabel=f"predicted {name}, ms",
    )
    axis.set_title(f"{name}, with its range; the band is 10 %")
    plain_numbers(axis.xaxis)
    plain_numbers(axis.yaxis)
