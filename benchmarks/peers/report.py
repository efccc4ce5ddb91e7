"""The report on the peers: tables, the conclusion from them, and the picture."""

from __future__ import annotations

from statistics import median

from benchmarks.peers import agreement
from benchmarks.peers.settings import INTENTS
from benchmarks.peers.table import LOADS, MODELS, key_of
from marina.bench.report.figures import Figures, figures_of, throughput_ratio
from marina.bench.report.results import Entry, Result
from marina.bench.report.standard import warnings_of
from marina.bench.report.table import Table, TableLayout, number
from marina.bench.sweep.strategies import MARINA
from marina.drawing import MARINA as MARINA_COLOUR
from marina.drawing import PEER, name_bars, new_figure, svg_of

LONE_LOAD, DRAWN_LOAD, BUSY_LOAD = (1, 1), (1, 32), (1, 64)  # latencies are of the first and last, CPU s of the last
PEER_FLOAT = "#d5dbe0"


def layout(result: Result) -> TableLayout:
    """For each model, a row for each server; then Marina against the best peer in int8, under each load."""
    by_model: dict[str, list[Figures]] = {}
    for figure in figures_of(result):
        by_model.setdefault(str(figure.entry.configuration.model), []).append(figure)
    tables = [_model_table(model, figures, result) for model, figures in by_model.items()]
    ratios = [row for model, figures in by_model.items() for row in _ratio_rows(model, figures)]
    columns = ["model", "texts x connections", MARINA, "best peer in int8", "texts/s", "the peer's", "ratio"]
    tables.append(Table(columns, ratios, 3, "Marina at its best against the best peer in int8"))
    notes = [
        "texts/s: one text a request with that many connections, and 32 texts a request with 4",
        "MB: proportional set size of the server with its workers after a load, the most of all; CPU s: of the server, "
        "for 1,000 texts, with 64 connections",
        "the last column compares answers with those of the original in float32, on every second example; peers were "
        "calibrated on the others, and Marina on half of all",
        *warnings_of(result),
    ]
    return TableLayout(tables, notes, _conclusion(ratios))


def _model_table(model: str, figures: list[Figures], result: Result) -> Table:
    (task,) = (task for task, name in MODELS.items() if name == model)
    rows = []
    by_server: dict[str, dict[tuple[int, int], Figures]] = {}
    for figure in figures:
        by_server.setdefault(key_of(figure.entry.configuration), {})[_load(figure.entry)] = figure
    measured_loads = [load for load in LOADS if any(load in loads for loads in by_server.values())]

    def busy_rate(loads: dict[tuple[int, int], Figures]) -> float:
        return loads[BUSY_LOAD].throughput.median if BUSY_LOAD in loads else 0.0

    for key, loads in sorted(by_server.items(), key=lambda item: -busy_rate(item[1])):
        configuration = next(iter(loads.values())).entry.configuration
        costs = result.more["costs"].get(key, [])
        cpu_s = [cost[3] for cost in costs if tuple(cost[:2]) == BUSY_LOAD]
        rows.append(
            [
                *(str(configuration.strategy), str(configuration.workers), str(configuration.precision)),
                *(number(loads[load].throughput.median, 0) if load in loads else "" for load in measured_loads),
                *(
                    number(loads[load].latency_ms.get(name), 1) if load in loads else ""
                    for load in (LONE_LOAD, BUSY_LOAD)
                    for name in ("p50", "p99")
                ),
                number(max(cost[2] for cost in costs), 0) if costs else "",
                number(median(cpu_s), 1) if cpu_s else "",
                number(result.more["agreements"].get(key), 3),
            ]
        )
    columns = [
        *("server", "workers", "precision"),
        *(f"texts/s, {count}" for texts, count in measured_loads if texts == 1),
        *("32 texts", "p50 ms, 1", "p99 ms, 1", "p50 ms, 64", "p99 ms, 64", "MB", "CPU s", agreement.NAMES[task]),
    ]
    return Table(columns, rows, len(columns) - 3, model)


def _ratio_rows(model: str, figures: list[Figures]) -> list[list[str]]:
    """Marina's best setting against the best peer in int8, by medians, under each load; the ratio is within rounds."""
    rows = []
    for load in LOADS:
        loaded = [figure for figure in figures if _load(figure.entry) == load]
        marina = _best([figure for figure in loaded if _is_marina(figure.entry)])
        peer = _best(
            [
                figure
                for figure in loaded
                if not _is_marina(figure.entry) and figure.entry.configuration.precision == "int8"
            ]
        )
        if marina and peer:
            ratio = throughput_ratio(marina.entry.rounds, peer.entry.rounds)
            rows.append(
                [
                    *(model, f"{load[0]} x {load[1]}", _name(marina), _name(peer)),
                    *(number(marina.throughput.median, 0), number(peer.throughput.median, 0)),
                    f"{ratio.median:.2f}x" if ratio else "",
                ]
            )
    return rows


def _best(figures: list[Figures]) -> Figures | None:
    return max(figures, key=lambda figure: figure.throughput.median, default=None)


def _is_marina(entry: Entry) -> bool:
    return str(entry.configuration.strategy).startswith(MARINA)


def _load(entry: Entry) -> tuple[int, int]:
    return entry.configuration.instances or 1, entry.configuration.connections or 0


def _name(figure: Figures) -> str:
    configuration = figure.entry.configuration
    return f"{str(configuration.strategy).removeprefix(f'{MARINA}, ')}, {configuration.workers}"


def _conclusion(rows: list[list[str]]) -> str:
    ratios = [float(row[-1].rstrip("x")) for row in rows if row[-1]]
    if not ratios:
        return ""
    return (
        f"At its best, Marina answers {min(ratios):.1f} to {max(ratios):.1f} times as many texts as the best peer in "
        "int8, by model and load."
    )


def draw(result: Result) -> dict[str, bytes]:
    """Texts per second of each server at its best, of the intent model with 32 connections, as bars."""
    rates = _rates_by_server(result, MODELS[INTENTS], DRAWN_LOAD)
    names = sorted(rates, key=rates.__getitem__, reverse=True)
    with new_figure(size=(9, 0.6 + 0.26 * len(names))) as (plot, (axis,)):
        bars = axis.barh(range(len(names)), [rates[name] for name in names], color=[_colour(name) for name in names])
        axis.bar_label(bars, [number(rates[name], 0) for name in names], padding=4)
        axis.margins(x=0.08)
        axis.grid(visible=False)
        axis.xaxis.set_visible(False)
        axis.spines["bottom"].set_visible(False)
        axis.set_title(
            f"Texts per second, one per request, {DRAWN_LOAD[1]} clients ({machine_name(result)})", loc="left"
        )
        name_bars(axis, names)
        return {"throughput": svg_of(plot)}


def machine_name(result: Result) -> str:
    """The machine of a result, for the title of a picture."""
    processor = str(result.machine["processor"]).partition(" (")[0].replace("(R)", "").removesuffix(" Processor")
    return f"{result.machine['cores']} cores, {processor}"


def _colour(name: str) -> str:
    if name.startswith(MARINA):
        return MARINA_COLOUR
    return PEER_FLOAT if name.endswith("f32") else PEER


def _rates_by_server(result: Result, model: str, load: tuple[int, int]) -> dict[str, float]:
    """Texts per second of each server with its best number of workers, by its name and precision."""
    rates: dict[str, float] = {}
    for figure in figures_of(result):
        configuration = figure.entry.configuration
        if configuration.model == model and _load(figure.entry) == load:
            name = f"{configuration.strategy}, {configuration.precision}"
            rates[name] = max(rates.get(name, 0.0), figure.throughput.median)
    return rates
