"""A picture of lengths and of the shapes chosen for them."""

from __future__ import annotations

from pathlib import Path

from marina.shapes.advice import Advice

LABELS = ("length padding", "empty rows", "tokens of texts")
LABEL_WIDTH = 0.07  # of the longest length
COLOURS = ("#d98c5f", "#e8c9a0", "#4878a8")


def draw(advice: Advice, name: str, path: Path) -> None:
    """Write a PNG: the distribution of lengths, the sequence lengths of graphs, and the time before and after."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, (left, right) = pyplot.subplots(1, 2, figsize=(11, 4.4), width_ratios=(3, 2), layout="constrained")
    longest = max(shape.sequence_length for shape in advice.shapes)
    left.hist(advice.lengths, bins=range(1, longest + 2), color=COLOURS[2], align="left")
    top = left.get_ylim()[1]
    previous, level = -longest, 0
    for length in sorted({shape.sequence_length for shape in advice.shapes}):
        # labels of neighbours stand on different levels
        level = (level + 1) % 3 if length - previous < LABEL_WIDTH * longest else 0
        previous = length
        left.axvline(length, color="#444444", linewidth=0.8, linestyle="--")
        own = sorted(shape for shape in advice.shapes if shape.sequence_length == length)
        sizes = ",".join(f"{shape.batch_size}{'p' * shape.packed}" for shape in own)
        label = f"{length}\n×{sizes}" + "\n\n" * level
        left.text(length, top, label, fontsize=7, ha="center", va="bottom")
    left.set(xlabel="tokens in a text", ylabel="texts", xlim=(0, longest * 1.03), ylim=(0, top))
    left.set_title(f"{name}: {len(advice.shapes)} graphs, length ×batch sizes", fontsize=10, pad=62)

    bars = [
        (f"{label}, {when}", found)
        for label, place in ((f"batches of {advice.after[1].rows}", 1), ("alone", 0))
        for when, found in (("chosen", advice.after[place]), ("now", advice.before[place]))
    ]
    names = [label for label, _ in bars]
    start = [0.0] * len(bars)
    for label, colour, shares in (
        (LABELS[2], COLOURS[2], [1 - found.waste for _, found in bars]),
        (LABELS[0], COLOURS[0], [found.length_waste for _, found in bars]),
        (LABELS[1], COLOURS[1], [found.empty_waste for _, found in bars]),
    ):
        widths = [share * found.milliseconds for share, (_, found) in zip(shares, bars, strict=True)]
        right.barh(names, widths, left=start, color=colour, label=label)
        start = [one + other for one, other in zip(start, widths, strict=True)]
    right.set(xlabel="milliseconds per text, by what is computed")
    right.margins(x=0.08)
    left.yaxis.get_major_locator().set_params(integer=True)
    right.legend(fontsize=8, loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=3)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110)
    pyplot.close(figure)
