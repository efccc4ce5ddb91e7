"""Helpers to draw pictures: figures without a display, colours, legends below the axes, non-overlapping labels."""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

COLOURS = (
    *("#4878a8", "#d98c5f", "#5f9e6e", "#8d6cab", "#b85450", "#8c8c8c", "#c7a13e", "#5fa8b8"),
    *("#1f3f66", "#8a4a1f", "#2c5c39", "#4e3568", "#6e2522", "#444444", "#77601e", "#2c6470"),
)
LEGEND_LINE = 100  # characters that fit on one line below a picture
# positions to try for a label, relative to its point, in points
OFFSETS = ((4, -10), (4, 5), (-4, -10), (-4, 5), (8, -18), (8, 13))


@contextmanager
def new_figure(
    columns: int = 1, rows: int = 1, size: tuple[float, float] = (8, 4.8), widths: Sequence[float] | None = None
) -> Iterator[tuple[Any, list[Any]]]:
    """A figure and its axes, row by row, drawn without a display; size in inches. Closed after the block."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(
        rows, columns, figsize=size, layout="constrained", squeeze=False, width_ratios=widths
    )
    try:
        yield figure, [axis for row in axes for axis in row]
    finally:
        pyplot.close(figure)


def png_of(figure: Any) -> bytes:
    """The figure as PNG, with a light grid and without a frame."""
    for axis in figure.axes:
        axis.grid(visible=True, color="#dddddd", linewidth=0.6)
        axis.set_axisbelow(True)
        axis.spines[["top", "right"]].set_visible(False)
    file = io.BytesIO()
    figure.savefig(file, dpi=110)
    return file.getvalue()


def name_bars(axis: Any, labels: list[str]) -> None:
    """Name horizontal bars, the first on top."""
    axis.set_yticks(range(len(labels)), labels, fontsize=8)
    axis.invert_yaxis()


def legend(axis: Any) -> None:
    """Put the legend below the picture, where it hides nothing, with as many columns as fit."""
    handles, labels = axis.get_legend_handles_labels()
    if any(labels):
        columns = max(1, min(len(labels), LEGEND_LINE // (max(map(len, labels)) + 6)))
        axis.figure.legend(handles, labels, fontsize=8, loc="outside lower center", ncols=columns)


def label_apart(axis: Any, labels: list[tuple[str, tuple[float, float]]]) -> None:
    """Label points so that no label covers another; a label that fits nowhere is left out."""
    axis.figure.draw_without_rendering()
    placed_boxes: list[Any] = []
    for text, point in labels:
        note = axis.annotate(text, point, fontsize=7, xytext=OFFSETS[0], textcoords="offset points")
        for offset in OFFSETS:
            note.set_position(offset)
            note.set_horizontalalignment("left" if offset[0] > 0 else "right")
            box = note.get_window_extent()
            if not any(box.overlaps(placed_box) for placed_box in placed_boxes):
                placed_boxes.append(box)
                break
        else:
            note.remove()


def plain_numbers(axis: Any) -> None:
    """Show plain numbers on a logarithmic scale instead of powers of ten."""
    from matplotlib.ticker import LogFormatter

    axis.set_major_formatter(LogFormatter(labelOnlyBase=False))
    axis.set_minor_formatter(LogFormatter(labelOnlyBase=False, minor_thresholds=(2, 0.5)))
