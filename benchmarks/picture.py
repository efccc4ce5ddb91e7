"""Draws the result of the benchmark."""

from __future__ import annotations

import statistics
from pathlib import Path
from typing import Any

COLOURS = {"usual": "#b0b0b0", "one-worker": "#4878a8", "worker-a-core": "#7aa6d0"}


def draw(result: dict[str, Any], path: Path) -> None:
    """Write a PNG: texts per second by connections, one text a request and many, with the bare graphs as lines."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    groups = sorted({window["texts"] for window in result["windows"]})
    figure, axes = pyplot.subplots(1, len(groups), figsize=(10, 3.6), sharey=True, layout="constrained")
    bare = {name: statistics.median(found["rows_per_s"] for found in rounds) for name, rounds in result["bare"].items()}
    for axis, texts in zip(axes, groups):
        windows = [w for w in result["windows"] if w["texts"] == texts and w["model"] in COLOURS]
        models = [name for name in COLOURS if any(w["model"] == name for w in windows)]
        connections = sorted({w["connections"] for w in windows})
        for place, model in enumerate(models):
            rates = [
                statistics.median(found["texts_per_s"] for found in w["rounds"])
                for count in connections
                for w in windows
                if w["model"] == model and w["connections"] == count
            ]
            at = [number + (place - (len(models) - 1) / 2) * 0.27 for number in range(len(connections))]
            bars = axis.bar(at, rates, width=0.25, color=COLOURS[model], label=model)
            axis.bar_label(bars, fmt="%.0f", fontsize=8)
        for name, style in (("one-worker", "--"), ("worker-a-core", ":")):
            axis.axhline(bare[name], color="#444444", linestyle=style, linewidth=1, label=f"{name}, bare graphs")
        axis.set_xticks(range(len(connections)), [str(count) for count in connections])
        axis.set_xlabel("connections")
        axis.set_title(f"{texts} text{'s' if texts > 1 else ''} a request", fontsize=10)
    axes[0].set_ylabel("texts per second")
    axes[0].legend(fontsize=8)
    figure.savefig(path, dpi=110)
    pyplot.close(figure)
