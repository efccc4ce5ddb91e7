"""Tables and pictures of stored benchmark results."""

from __future__ import annotations

from pathlib import Path

from benchmarks.kinds import TABLES
from benchmarks.peers.report import machine_name
from benchmarks.tables.overhead import draw_served
from marina.bench.report.results import Result, read_result
from marina.bench.report.table import markdown_of
from marina.bench.tables.kinds import draw, layout_of
from marina.drawing import legend, new_figure, svg_of

# of each stored result, the picture that pages show
PICTURES = {"table-ava": "over-time", "table-search": "latency-throughput"}


def result_tables(stored: Path) -> str:
    """The conclusion, tables and notes of a stored result, as Markdown."""
    return markdown_of(layout_of(read_result(stored), TABLES)).rstrip("\n")


def write_pictures(folder: Path) -> None:
    """Write the pictures that pages show: beside the results in docs/benchmarks, and docs/benchmarks.svg."""
    stored = {name: read_result(folder / "benchmarks" / f"{name}.json") for name in PICTURES}
    for name, picture in PICTURES.items():
        (folder / "benchmarks" / f"{name}.svg").write_bytes(draw(stored[name], TABLES)[picture])
    peers = read_result(folder / "benchmarks" / "table-peers.json")
    (folder / "benchmarks.svg").write_bytes(draw(peers, TABLES)["throughput"])
    (folder / "benchmarks" / "overhead.svg").write_bytes(overhead_picture(read_result(folder / "benchmarks.json")))


def overhead_picture(overhead: Result) -> bytes:
    """Marina against the usual handler and the ceiling."""
    with new_figure(size=(8, 4)) as (figure, (axis,)):
        draw_served(axis, overhead, 1)
        axis.set(ylabel="texts per second", title=f"One text per request ({machine_name(overhead)})")
        legend(axis)
        return svg_of(figure)
