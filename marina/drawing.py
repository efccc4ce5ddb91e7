"""The style of all pictures, and helpers to draw them: figures without a display, legends below, labels apart.

Pictures are SVG without a background, in colours that can be read on a light page and on a dark one.
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

INK = "#6b7885"  # of texts and axes
MARINA, MARINA_FLOAT, PEER = "#1f6fb2", "#86b8e0", "#a9b3bd"  # int8 and bf16, float32, and others
PADDING, EMPTY = "#d9822b", "#ecc79a"  # what is computed for nothing: after texts, and in empty rows
LIMIT = "#c8504a"  # what must not be crossed
COLOURS = (
    *(MARINA, PADDING, "#3f9c62", "#8a63b8", LIMIT, "#8c97a3", "#c7a13e", "#3b9ab2"),
    *("#17476f", "#8a4a1f", "#2c6b44", "#54397a", "#7d2b27", "#5a6570", "#80671f", "#22606f"),
)
STYLE: dict[str, Any] = {
    "font.size": 10,
    "text.color": INK,
    "axes.titlesize": 11,
    "axes.labelcolor": INK,
    "axes.edgecolor": INK,
    "axes.facecolor": "none",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": INK,
    "grid.alpha": 0.2,
    "xtick.color": INK,
    "ytick.color": INK,
    "figure.facecolor": "none",
    "legend.frameon": False,
    "svg.fonttype": "none",  # texts stay texts
    "svg.hashsalt": "marina",  # the same picture is the same file
}
FONT = "system-ui, 'Segoe UI', 'Helvetica Neue', 'DejaVu Sans'"
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

    with matplotlib.rc_context(STYLE):
        figure, axes = pyplot.subplots(
            rows, columns, figsize=size, layout="constrained", squeeze=False, width_ratios=widths
        )
        try:
            yield figure, [axis for row in axes for axis in row]
        finally:
            pyplot.close(figure)


def svg_of(figure: Any) -> bytes:
    """A figure of `new_figure` as SVG."""
    file = io.StringIO()
    figure.savefig(file, format="svg", metadata={"Date": None, "Creator": None})
    return file.getvalue().replace("'DejaVu Sans'", FONT).encode()


def name_bars(axis: Any, labels: list[str]) -> None:
    """Name horizontal bars, the first on top."""
    axis.set_yticks(range(len(labels)), labels)
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
