"""A picture of lengths and of the shapes chosen for them."""

from __future__ import annotations

from pathlib import Path

from marina.drawing import EMPTY, INK, MARINA, PADDING, new_figure, svg_of
from marina.shapes.advice import Advice

LABELS = ("length padding", "empty rows", "tokens of texts")
LABEL_WIDTH = 0.07  # of the longest length
COLOURS = (PADDING, EMPTY, MARINA)


def draw(advice: Advice, name: str, path: Path) -> None:
    """Write an SVG: the distribution of lengths, the sequence lengths of graphs, and the time before and after."""
    with new_figure(columns=2, size=(11, 4.4), widths=(3, 2)) as (figure, (left, right)):
        longest = max(shape.sequence_length for shape in advice.shapes)
        left.hist(advice.lengths, bins=range(1, longest + 2), color=COLOURS[2], align="left")
        top = left.get_ylim()[1]
        previous, label_level = -longest, 0
        for length in sorted({shape.sequence_length for shape in advice.shapes}):
            # labels of neighbours stand on different levels
            label_level = (label_level + 1) % 3 if length - previous < LABEL_WIDTH * longest else 0
            previous = length
            left.axvline(length, color=INK, linewidth=0.8, linestyle="--")
            shapes = sorted(shape for shape in advice.shapes if shape.sequence_length == length)
            sizes = ",".join(f"{shape.batch_size}{'p' * shape.packed}" for shape in shapes)
            label = f"{length}\n×{sizes}" + "\n\n" * label_level
            left.text(length, top, label, fontsize=7, ha="center", va="bottom")
        left.set(xlabel="tokens in a text", ylabel="texts", xlim=(0, longest * 1.03), ylim=(0, top))
        left.set_title(f"{name}: {len(advice.shapes)} graphs, length ×batch sizes", pad=62)

        bars = [
            (f"{label}, {when}", effect)
            for label, index in ((f"batches of {advice.after[1].rows}", 1), ("alone", 0))
            for when, effect in (("chosen", advice.after[index]), ("now", advice.before[index]))
        ]
        names = [label for label, _ in bars]
        left_edges = [0.0] * len(bars)
        for label, colour, shares in (
            (LABELS[2], COLOURS[2], [1 - effect.waste for _, effect in bars]),
            (LABELS[0], COLOURS[0], [effect.length_waste for _, effect in bars]),
            (LABELS[1], COLOURS[1], [effect.empty_waste for _, effect in bars]),
        ):
            widths = [share * effect.milliseconds for share, (_, effect) in zip(shares, bars, strict=True)]
            right.barh(names, widths, left=left_edges, color=colour, label=label)
            left_edges = [left_edge + width for left_edge, width in zip(left_edges, widths, strict=True)]
        right.set(xlabel="milliseconds per text, by what is computed")
        right.margins(x=0.08)
        left.yaxis.get_major_locator().set_params(integer=True)
        right.legend(fontsize=9, loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=3)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(svg_of(figure))
