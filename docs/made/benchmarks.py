"""Tables and pictures of stored benchmark results."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from benchmarks.kinds import TABLES
from benchmarks.tables.overhead import draw_served
from marina.bench.report.drawing import legend, new_figure, png_of
from marina.bench.report.figures import figures_of
from marina.bench.report.results import Result, read_result
from marina.bench.report.table import markdown_of
from marina.bench.tables.kinds import draw, layout_of

# of each stored result, the picture that pages show
PICTURES = {"table-ava": "over-time", "table-search": "latency-throughput", "peers": "throughput"}
# what README's picture shows of the peers, by strategy, with the number format of each
SHOWN_PEERS = {
    "Marina auto, 1 worker": ("Marina (int8)", "#4878a8"),
    "Marina f32, 2 workers": ("Marina (f32)", "#7aa6d0"),
    "infinity, optimum": ("infinity, ONNX (f32)", "#b0b0b0"),
    "LitServe, 2 workers": ("LitServe (f32)", "#b0b0b0"),
    "infinity, torch": ("infinity, torch (f32)", "#b0b0b0"),
    "FastAPI + pipeline, 1 worker": ("FastAPI + pipeline (f32)", "#b0b0b0"),
    "the usual handler": ("usual TorchServe handler (f32)", "#b0b0b0"),
}
PEERS_MODEL, PEERS_CONNECTIONS = "ava-intent", 32


def result_tables(stored: Path) -> str:
    """The conclusion, tables and notes of a stored result, as Markdown."""
    return markdown_of(layout_of(read_result(stored), TABLES)).rstrip("\n")


def write_pictures(folder: Path) -> None:
    """Write the pictures that pages show: beside the results in docs/benchmarks, and docs/benchmarks.png."""
    stored = {name: read_result(folder / "benchmarks" / f"{name}.json") for name in PICTURES}
    for name, picture in PICTURES.items():
        (folder / "benchmarks" / f"{name}.png").write_bytes(draw(stored[name], TABLES)[picture])
    (folder / "benchmarks.png").write_bytes(front_picture(read_result(folder / "benchmarks.json"), stored["peers"]))


def front_picture(overhead: Result, peers: Result) -> bytes:
    """README's picture: Marina against the usual handler and the ceiling, and against other servers."""
    with new_figure(columns=2, size=(11, 4.4), widths=(3, 2)) as (figure, (left, right)):
        draw_served(left, overhead, 1)
        left.set(ylabel="texts per second")
        left.set_title(f"One text per request ({_machine(overhead)})", fontsize=10)
        legend(left)
        _peers(right, peers)
        return png_of(figure)


def _peers(axis: Any, peers: Result) -> None:
    rates = {
        str(one.entry.configuration.strategy): one.throughput.median
        for one in figures_of(peers)
        if one.entry.configuration.model == PEERS_MODEL and one.entry.configuration.connections == PEERS_CONNECTIONS
    }
    shown = sorted(SHOWN_PEERS, key=lambda name: rates[name])
    colours = [SHOWN_PEERS[name][1] for name in shown]
    bars = axis.barh([SHOWN_PEERS[name][0] for name in shown], [rates[name] for name in shown], color=colours)
    axis.bar_label(bars, fmt="%.0f", fontsize=8, padding=3)
    axis.tick_params(axis="y", labelsize=8)
    axis.margins(x=0.12)
    axis.set_xlabel(f"texts per second with {PEERS_CONNECTIONS} connections")
    axis.set_title(f"Other servers ({_machine(peers)})", fontsize=10)


def _machine(result: Result) -> str:
    processor = str(result.machine["processor"]).partition(" (")[0].replace("(R)", "").removesuffix(" Processor")
    return f"{result.machine['cores']} cores, {processor}"
