"""The cost of serving, compared with the usual TorchServe handler and with the bare graphs: `make bench`.

Marina serves an intent model with one worker on all cores, and with one worker per core. A model of BERT-base's
size is compared with its own bare graphs. Shapes are chosen on other texts of the same kind.
"""

from __future__ import annotations

import statistics
from contextlib import ExitStack
from typing import Any, NamedTuple

from benchmarks.random_models import TOKENS, bert_base, bert_texts
from benchmarks.usual.pack import NOTHING, pack_handler, pack_usual
from handlers.worker.placement.discovery import cpu_cores
from handlers.worker.values import Instance
from marina.bench.load.mix import mixed_texts
from marina.bench.load.payload import MIX_NAME, LoadCase, Payload, bodies_of
from marina.bench.load.profile import Load
from marina.bench.report.figures import Figures, figures_of, throughput_ratio
from marina.bench.report.pictures import pictures_of
from marina.bench.report.results import Configuration, Result
from marina.bench.report.standard import warnings_of
from marina.bench.report.table import Table, TableLayout, number
from marina.bench.server.bare_graphs import bare_graphs
from marina.bench.sweep.rounds import measure_rounds
from marina.bench.sweep.strategies import bare_strategy, served_strategy, with_memory_recorded
from marina.bench.tables.job import TableJob, advice_for_mix
from marina.compiler.hugging_face import find_source
from marina.drawing import COLOURS, INK, MARINA_FLOAT, PEER, legend, new_figure, svg_of
from marina.shapes.auto import PRICE
from marina.spec import Spec, make_spec

KIND = "table-overhead"
MODEL = "ava-intent"
USUAL, BERT = "usual", "bert-base"
ONE_WORKER, WORKER_PER_CORE = MARINA_STRATEGIES = ("one-worker", "worker-per-core")
BARE, SERVED = "bare graphs", "served"
CONNECTIONS = (1, 16, 64)
TEXTS_AT_ONCE = 32
ROUNDS, WARM_UP_S, WINDOW_S = 3, 1.0, 4.0
LABELS = {
    USUAL: "usual TorchServe handler",
    ONE_WORKER: "Marina, one worker",
    WORKER_PER_CORE: "Marina, one worker per core",
}
BAR_COLOURS = {USUAL: PEER, ONE_WORKER: COLOURS[0], WORKER_PER_CORE: MARINA_FLOAT}
USUAL_TOKENS, USUAL_BATCH = 128, 6


class ServedLoad(NamedTuple):
    """Texts per request, and connections."""

    texts: int
    connections: int


def measure(job: TableJob) -> Result:
    """Measure the table for a text classifier with one head; by default, for the demonstration model of intents.

    Raises:
        SourceError: the usual handler cannot serve the model.
    """
    server, progress = job.server, job.progress
    base = job.spec(MODEL)
    store, work = server.project.model_store, server.project.root
    progress("tracing the usual model", 0, 1)
    pack_usual(find_source(base.source, job.project.root), USUAL, store, work / USUAL, USUAL_TOKENS, USUAL_BATCH)
    pack_handler("nothing", NOTHING, {"minWorkers": 1, "maxWorkers": 1}, store)
    specs = {name: _marina_spec(name, base, job) for name in MARINA_STRATEGIES}
    specs[BERT] = make_spec(bert_base(job.project.root / "build" / "bench" / BERT, [1, 8], serving={"batch_size": 8}))
    texts = {USUAL: mixed_texts(), **{name: mixed_texts() for name in MARINA_STRATEGIES}, BERT: bert_texts()}
    single_text_loads = [(1, connections) for connections in CONNECTIONS]
    loads_of = {
        USUAL: single_text_loads,
        **{
            name: [*single_text_loads, *((TEXTS_AT_ONCE, count) for _, count in single_text_loads)]
            for name in MARINA_STRATEGIES
        },
    }
    loads_of[BERT] = [(1, CONNECTIONS[1])]
    paced_ms: dict[str, list[float]] = {name: [] for name in specs}
    megabytes: dict[str, float] = {}
    strategies = []
    with ExitStack() as stack:
        for name, spec in specs.items():
            progress("loading bare graphs", 0, 1)
            graphs_context = bare_graphs(spec, server.archive(spec), [Instance(text) for text in texts[name]])
            row = Configuration(model=BERT if name == BERT else base.name, strategy=name, part=BARE)
            graphs = stack.enter_context(graphs_context)
            strategies.append(bare_strategy(graphs, name, row, 2 * WINDOW_S, paced_ms[name], megabytes))
        for name, loads in loads_of.items():
            workloads = [_workload(texts[name], instances, count, name) for instances, count in loads]
            row = Configuration(model=BERT if name == BERT else base.name, strategy=name, part=SERVED)
            served = served_strategy(server, name, row, specs.get(name, name), workloads)
            strategies.append(with_memory_recorded(served, server, megabytes))
        entries, _ = measure_rounds(strategies, ROUNDS, progress)
    server.serve("nothing")
    megabytes["nothing"] = server.resident_megabytes()
    more = {"paced_ms": paced_ms, "resident_megabytes": megabytes}
    return Result(KIND, f"what serving {base.name} costs", entries, job.price, more=more)


def _marina_spec(name: str, base: Spec, job: TableJob) -> Spec:
    """The model with one worker or one worker per core, and with shapes for the built-in mix."""
    cores = len(cpu_cores())
    groups = 1 if name == ONE_WORKER else cores
    fields = {
        **base.model_dump(exclude_defaults=True),
        "name": name,
        "precision": "auto",
        "core_groups": ",".join([str(cores // groups)] * groups),
        "serving": {"batch_size": CONNECTIONS[-1] // groups},
        "shapes": {"exact": [f"1x{USUAL_TOKENS}"]},
    }
    shapes = advice_for_mix(job, make_spec(fields), None, PRICE).shapes
    return make_spec({**fields, "shapes": {"exact": [str(shape) for shape in shapes]}})


def _workload(texts: list[str], instances: int, connections: int, name: str) -> LoadCase:
    source = f"made up, {TOKENS} tokens" if name == BERT else MIX_NAME
    load = Load(connections, warm_up_s=WARM_UP_S, window_s=WINDOW_S, seconds=WINDOW_S)
    return LoadCase(load, Payload(bodies_of(list(texts), instances), instances, source))


def layout(result: Result) -> TableLayout:
    """The bare graphs, then the served models by texts per request and connections. Ratios are within rounds."""
    figures = figures_of(result)
    bare = {
        figure.entry.configuration.strategy: figure for figure in figures if figure.entry.configuration.part == BARE
    }
    served = sorted(
        (figure for figure in figures if figure.entry.configuration.part == SERVED),
        key=lambda figure: (figure.entry.configuration.strategy == BERT, *_load(figure)),
    )
    usual = {_load(figure): figure for figure in served if figure.entry.configuration.strategy == USUAL}
    rows = [
        [f"{LABELS.get(str(name), name)}: bare graphs", "", "", number(figure.throughput.median, 0), "", "", "", ""]
        for name, figure in bare.items()
    ]
    for figure in served:
        name, latency = figure.entry.configuration.strategy, figure.latency_ms
        of_bare = _median_ratio(figure, bare.get(name))
        of_usual = _median_ratio(figure, usual.get(_load(figure)) if name in MARINA_STRATEGIES else None)
        rows.append(
            [
                *(LABELS.get(str(name), str(name)), *map(str, _load(figure)), number(figure.throughput.median, 0)),
                *(number(latency.get(percentile), 1) for percentile in ("p50", "p99")),
                f"{of_bare:.0%}" if of_bare else "",
                f"{of_usual:.1f}x" if of_usual else "",
            ]
        )
    columns = ["", "texts", "conn.", "texts/s", "p50 ms", "p99 ms", "of bare graphs", "x usual"]
    notes = [*_notes(result, bare[ONE_WORKER], served), *warnings_of(result)]
    return TableLayout([Table(columns, rows, 7)], notes, _conclusion(served, usual, bare))


def _conclusion(served: list[Figures], usual: dict[ServedLoad, Figures], bare: dict[str | None, Figures]) -> str:
    marina_figures = [
        figure
        for figure in served
        if figure.entry.configuration.strategy in MARINA_STRATEGIES and _load(figure).texts == 1
    ]
    best = max(marina_figures, key=lambda figure: figure.throughput.median)
    name = str(best.entry.configuration.strategy)
    speedup = _median_ratio(best, usual.get(_load(best)))
    graphs_share = _median_ratio(best, bare.get(name))
    speedup_phrase = f", {speedup:.0f} times the usual handler" if speedup else ""
    return (
        f"{LABELS[name]} is fastest: {number(best.throughput.median, 0)} texts per second with "
        f"{_load(best).connections} clients{speedup_phrase}. That is {graphs_share:.0%} of what its graphs compute "
        "without a server."
    )


def _notes(result: Result, bare: Figures, served: list[Figures]) -> list[str]:
    """Notes on the graphs, the latency of a single text, stage shares with the most connections, and memory."""
    configurations = {figure.entry.configuration.strategy: figure.entry.configuration for figure in served}
    notes = [
        f"{LABELS[name]}: {configurations[name].precision}, graphs {', '.join(configurations[name].shapes or ())}"
        for name in MARINA_STRATEGIES
    ]
    paced_ms = statistics.median(result.more["paced_ms"][ONE_WORKER])
    bare_p50 = bare.latency_ms["p50"]
    notes.append(
        f"a text alone in its bare graph: {bare_p50:.2f} ms, with pauses as between requests {paced_ms:.2f} ms"
    )
    for figure in served:
        name, (texts, connections) = figure.entry.configuration.strategy, _load(figure)
        stage_shares = [measurement.server.stage_share for measurement in figure.entry.rounds if measurement.server]
        if name in MARINA_STRATEGIES and connections == CONNECTIONS[-1] and stage_shares:
            stages = [
                f"{stage} {statistics.median(stage_share[stage] for stage_share in stage_shares):.1%}"
                for stage in sorted(stage_shares[0])
            ]
            notes.append(
                f"{LABELS[name]}, {texts} text{'s' * (texts > 1)} per request: of the worker's time {', '.join(stages)}"
            )
    worker, nothing, graphs = (
        f"{result.more['resident_megabytes'][name]:.0f} MB" for name in (ONE_WORKER, "nothing", f"{ONE_WORKER}, bare")
    )
    return [*notes, f"resident: worker {worker}, worker that does nothing {nothing}, bare graphs {graphs}"]


def _load(figure: Figures) -> ServedLoad:
    configuration = figure.entry.configuration
    return ServedLoad(configuration.instances or 1, configuration.connections or 0)


def _median_ratio(figure: Figures, base: Figures | None) -> float | None:
    interval = throughput_ratio(figure.entry.rounds, base.entry.rounds) if base else None
    return interval.median if interval else None


def draw(result: Result) -> dict[str, bytes]:
    """The standard pictures, and texts per second by connections, with the bare graphs as the upper limit."""
    served = [figure for figure in figures_of(result) if figure.entry.configuration.part == SERVED]
    text_counts = sorted(
        {_load(figure).texts for figure in served if figure.entry.configuration.strategy in MARINA_STRATEGIES}
    )
    with new_figure(columns=len(text_counts), size=(10, 4.2)) as (plot, axes):
        for axis, texts in zip(axes, text_counts, strict=True):
            draw_served(axis, result, texts)
            axis.set_title(f"{texts} text{'s' if texts > 1 else ''} per request")
        axes[0].set_ylabel("texts per second")
        legend(axes[0])
        return {**pictures_of(result), "overhead": svg_of(plot)}


def draw_served(axis: Any, result: Result, texts: int) -> None:
    """Bars for the served models with `texts` per request, and a line at the fastest bare graphs."""
    figures = [figure for figure in figures_of(result) if figure.entry.configuration.strategy != BERT]
    with_texts = [
        figure for figure in figures if figure.entry.configuration.part == SERVED and _load(figure).texts == texts
    ]
    names = [
        name
        for name in (USUAL, *MARINA_STRATEGIES)
        if any(figure.entry.configuration.strategy == name for figure in with_texts)
    ]
    counts = sorted({_load(figure).connections for figure in with_texts})
    for index, name in enumerate(names):
        of_strategy = [figure for figure in with_texts if figure.entry.configuration.strategy == name]
        rates = {_load(figure).connections: figure.throughput.median for figure in of_strategy}
        positions = [counts.index(count) + (index - (len(names) - 1) / 2) * 0.27 for count in rates]
        precision = of_strategy[0].entry.configuration.precision or "f32"
        label = f"{LABELS[name]} ({precision})"
        bars = axis.bar(positions, list(rates.values()), width=0.25, color=BAR_COLOURS[name], label=label)
        axis.bar_label(bars, fmt="%.0f")
    ceiling = max(figure.throughput.median for figure in figures if figure.entry.configuration.part == BARE)
    axis.axhline(ceiling, color=INK, linestyle="--", linewidth=1)
    ceiling_label = f"ceiling: the graphs in a loop, without a server ({ceiling:.0f})"
    axis.annotate(
        ceiling_label,
        (0.02, ceiling),
        xycoords=("axes fraction", "data"),
        xytext=(0, 3),
        textcoords="offset points",
        color=INK,
    )
    axis.set_ylim(top=ceiling * 1.12)
    axis.set_xticks(range(len(counts)), [str(count) for count in counts])
    axis.set_xlabel("client connections")
