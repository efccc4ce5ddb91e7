"""A picture of lengths and of the shapes chosen for them."""

from __future__ import annotations

from pathlib import Path

from marina.shapes.advice import Advice

LABELS = ("length padding", "empty rows", "tokens of texts")
COLOURS = ("#d98c5f", "#e8c9a0", "#4878a8")


def draw(advice: Advice, name: str, path: Path) -> None:
    """Write a PNG: how long texts are, where graphs stand, and what is computed before and after."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, (left, right) = pyplot.subplots(1, 2, figsize=(11, 3.8), width_ratios=(3, 2), layout="constrained")
    longest = max(shape.sequence_length for shape in advice.shapes)
    left.hist(advice.lengths, bins=range(1, longest + 2), color=COLOURS[2], align="left")
    top = left.get_ylim()[1]
    for length in sorted({shape.sequence_length for shape in advice.shapes}):
        left.axvline(length, color="#444444", linewidth=0.8, linestyle="--")
        sizes = sorted(shape.batch_size for shape in advice.shapes if shape.sequence_length == length)
        left.text(length, top, f"{length}\n×" + ",".join(map(str, sizes)), fontsize=7, ha="center", va="bottom")
    left.set(xlabel="tokens in a text", ylabel="texts", xlim=(0, longest * 1.03), ylim=(0, top))
    left.set_title(f"{name}: {len(advice.shapes)} graphs, length ×batch sizes", fontsize=10, pad=28)

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
        widths = [share * found.milliseconds for share, (_, found) in zip(shares, bars)]
        right.barh(names, widths, left=start, color=colour, label=label)
        start = [one + other for one, other in zip(start, widths)]
    right.set(xlabel="milliseconds a text, by what is computed")
    right.legend(fontsize=8, loc="lower right")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110)
    pyplot.close(figure)
