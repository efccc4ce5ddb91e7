"""Tables and pictures of stored benchmark results."""

from __future__ import annotations

from pathlib import Path

from benchmarks.kinds import TABLES
from benchmarks.peers.table import rates_by_server
from benchmarks.tables.overhead import draw_served
from marina.bench.report.results import Result, read_result
from marina.bench.report.table import markdown_of
from marina.bench.tables.kinds import draw, layout_of
from marina.drawing import MARINA, MARINA_FLOAT, PEER, legend, name_bars, new_figure, svg_of

# of each stored result, the picture that pages show
PICTURES = {"table-ava": "over-time", "table-search": "latency-throughput", "table-peers": "throughput"}
PEER_FLOAT = "#d5dbe0"
PEERS_MODEL, PEERS_CONNECTIONS = "ava-intent", 32


def result_tables(stored: Path) -> str:
    """The conclusion, tables and notes of a stored result, as Markdown."""
    return markdown_of(layout_of(read_result(stored), TABLES)).rstrip("\n")


def write_pictures(folder: Path) -> None:
    """Write the pictures that pages show: beside the results in docs/benchmarks, and docs/benchmarks.svg."""
    stored = {name: read_result(folder / "benchmarks" / f"{name}.json") for name in PICTURES}
    for name, picture in PICTURES.items():
        (folder / "benchmarks" / f"{name}.svg").write_bytes(draw(stored[name], TABLES)[picture])
    (folder / "benchmarks.svg").write_bytes(front_picture(stored["table-peers"]))
    (folder / "benchmarks" / "overhead.svg").write_bytes(overhead_picture(read_result(folder / "benchmarks.json")))


def overhead_picture(overhead: Result) -> bytes:
    """Marina against the usual handler and the ceiling."""
    with new_figure(size=(8, 4)) as (figure, (axis,)):
        draw_served(axis, overhead, 1)
        axis.set(ylabel="texts per second", title=f"One text per request ({_machine(overhead)})")
        legend(axis)
        return svg_of(figure)


def front_picture(peers: Result) -> bytes:
    """README's picture: Marina against other servers, each at its best."""
    rates = rates_by_server(peers, PEERS_MODEL, (1, PEERS_CONNECTIONS))
    names = sorted(rates, key=rates.__getitem__, reverse=True)
    with new_figure(size=(9, 0.6 + 0.26 * len(names))) as (figure, (axis,)):
        bars = axis.barh(range(len(names)), [rates[name] for name in names], color=[_colour(name) for name in names])
        axis.bar_label(bars, fmt="%.0f", padding=4)
        axis.margins(x=0.08)
        axis.grid(visible=False)
        axis.xaxis.set_visible(False)
        axis.spines["bottom"].set_visible(False)
        axis.set_title(
            f"Texts per second, one per request, {PEERS_CONNECTIONS} clients ({_machine(peers)})", loc="left"
        )
        name_bars(axis, names)
        return svg_of(figure)


def _colour(name: str) -> str:
    if name.startswith("Marina"):
        return MARINA_FLOAT if name.endswith("f32") else MARINA
    return PEER_FLOAT if name.endswith("f32") else PEER


def _machine(result: Result) -> str:
    processor = str(result.machine["processor"]).partition(" (")[0].replace("(R)", "").removesuffix(" Processor")
    return f"{result.machine['cores']} cores, {processor}"
