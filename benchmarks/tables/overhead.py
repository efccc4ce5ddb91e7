"""The cost of serving, compared with the usual TorchServe handler and with the bare graphs: `make bench`.

Marina serves an intent model with one worker on all cores, and with one worker per core. A model of BERT-base's
size is compared with its own bare graphs. Shapes are chosen on different texts, of the same kind as those sent.
"""

from __future__ import annotations

import statistics
from contextlib import ExitStack
from typing import Any

from benchmarks.random_models import TOKENS, bert_base, bert_texts
from benchmarks.usual.pack import NOTHING, pack_handler, pack_usual
from handlers.worker.placement.discovery import cpu_cores
from handlers.worker.values import Instance
from marina.bench.load.mix import mixed
from marina.bench.load.payload import MIX_NAME, LoadCase, Payload, bodies_of
from marina.bench.load.profile import Load
from marina.bench.report.drawing import COLOURS, legend, new_figure, png_of
from marina.bench.report.figures import Figures, figures_of, ratio
from marina.bench.report.pictures import pictures_of
from marina.bench.report.results import Configuration, Result
from marina.bench.report.standard import warnings_of
from marina.bench.report.table import Table, TableLayout, number
from marina.bench.server.bare_graphs import bare_graphs
from marina.bench.sweep.rounds import measure_rounds
from marina.bench.sweep.strategies import bare_strategy, served_strategy, weighed
from marina.bench.tables.job import TableJob, advice_for_mix
from marina.compiler.hugging_face import find_source
from marina.spec import Spec, make_spec

KIND = "table-overhead"
MODEL = "ava-intent"
USUAL, BERT = "usual", "bert-base"
NEAR = ("one-worker", "worker-per-core")
BARE, SERVED = "bare graphs", "served"
CONNECTIONS = (1, 16, 64)
TEXTS_AT_ONCE = 32
ROUNDS, WARM_UP_S, WINDOW_S = 3, 1.0, 4.0
GRAPHS = 24
SHOWN = {USUAL: "usual TorchServe handler", NEAR[0]: "Marina, one worker", NEAR[1]: "Marina, one worker per core"}
BAR_COLOURS = {USUAL: "#b0b0b0", NEAR[0]: COLOURS[0], NEAR[1]: "#7aa6d0"}
USUAL_TOKENS, USUAL_BATCH = 128, 6


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
    specs = {name: _near_spec(name, base, job) for name in NEAR}
    specs[BERT] = make_spec(bert_base(job.project.root / "build" / "bench" / BERT, [1, 8], serving={"batch_size": 8}))
    texts = {USUAL: mixed(), **{name: mixed() for name in NEAR}, BERT: bert_texts()}
    once = [(1, connections) for connections in CONNECTIONS]
    loads_of = {USUAL: once, **{name: [*once, *((TEXTS_AT_ONCE, count) for _, count in once)] for name in NEAR}}
    loads_of[BERT] = [(1, CONNECTIONS[1])]
    paced_ms: dict[str, list[float]] = {name: [] for name in specs}
    megabytes: dict[str, float] = {}
    strategies = []
    with ExitStack() as stack:
        for name, spec in specs.items():
            progress("loading bare graphs", 0, 1)
            loading = bare_graphs(spec, server.archive(spec), [Instance(text) for text in texts[name]])
            row = Configuration(model=BERT if name == BERT else base.name, strategy=name, part=BARE)
            graphs = stack.enter_context(loading)
            strategies.append(bare_strategy(graphs, name, row, 2 * WINDOW_S, paced_ms[name], megabytes))
        for name, loads in loads_of.items():
            workloads = [_workload(texts[name], instances, count, name) for instances, count in loads]
            row = Configuration(model=BERT if name == BERT else base.name, strategy=name, part=SERVED)
            served = served_strategy(server, name, row, specs.get(name, name), workloads)
            strategies.append(weighed(served, server, megabytes))
        entries, _ = measure_rounds(strategies, ROUNDS, progress)
    server.serve("nothing")
    megabytes["nothing"] = server.resident_megabytes()
    more = {"paced_ms": paced_ms, "resident_megabytes": megabytes}
    return Result(KIND, f"what serving {base.name} costs", entries, job.price, more=more)


def _near_spec(name: str, base: Spec, job: TableJob) -> Spec:
    """The model with one worker or one worker per core, and with shapes for the built-in mix."""
    cores = len(cpu_cores())
    groups = 1 if name == NEAR[0] else cores
    fields = {
        **base.model_dump(exclude_defaults=True),
        "name": name,
        "precision": "auto",
        "core_groups": ",".join([str(cores // groups)] * groups),
        "serving": {"batch_size": CONNECTIONS[-1] // groups},
        "shapes": {"exact": [f"1x{USUAL_TOKENS}"]},
    }
    shapes = advice_for_mix(job, make_spec(fields), GRAPHS, 0.0).shapes
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
        key=lambda one: (one.entry.configuration.strategy == BERT, *_load(one)),
    )
    usual = {_load(one): one for one in served if one.entry.configuration.strategy == USUAL}
    rows = [
        [f"{SHOWN.get(str(name), name)}: bare graphs", "", "", number(one.throughput.median, 0), "", "", "", ""]
        for name, one in bare.items()
    ]
    for one in served:
        name, latency = one.entry.configuration.strategy, one.latency_ms
        of_bare = _median_ratio(one, bare.get(name))
        of_usual = _median_ratio(one, usual.get(_load(one)) if name in NEAR else None)
        rows.append(
            [
                *(SHOWN.get(str(name), str(name)), *map(str, _load(one)), number(one.throughput.median, 0)),
                *(number(latency.get(percentile), 1) for percentile in ("p50", "p99")),
                f"{of_bare:.0%}" if of_bare else "",
                f"{of_usual:.1f}x" if of_usual else "",
            ]
        )
    columns = ["", "texts", "conn.", "texts/s", "p50 ms", "p99 ms", "of bare graphs", "x usual"]
    notes = [*_notes(result, bare[NEAR[0]], served), *warnings_of(result)]
    return TableLayout([Table(columns, rows, 7)], notes, _conclusion(served, usual, bare))


def _conclusion(served: list[Figures], usual: dict[tuple[int, int], Figures], bare: dict[str | None, Figures]) -> str:
    ours = [one for one in served if one.entry.configuration.strategy in NEAR and _load(one)[0] == 1]
    best = max(ours, key=lambda one: one.throughput.median)
    name = str(best.entry.configuration.strategy)
    times = _median_ratio(best, usual.get(_load(best)))
    share = _median_ratio(best, bare.get(name))
    against = f", {times:.0f} times the usual handler" if times else ""
    return (
        f"{SHOWN[name]} is fastest: {number(best.throughput.median, 0)} texts per second with {_load(best)[1]} clients"
        f"{against}. That is {share:.0%} of what its graphs compute without a server."
    )


def _notes(result: Result, bare: Figures, served: list[Figures]) -> list[str]:
    """Notes on the graphs, the latency of a single text, stage shares with the most connections, and memory."""
    first = {one.entry.configuration.strategy: one.entry.configuration for one in served}
    notes = [f"{SHOWN[name]}: {first[name].precision}, graphs {', '.join(first[name].shapes or ())}" for name in NEAR]
    paced = statistics.median(result.more["paced_ms"][NEAR[0]])
    alone = bare.latency_ms["p50"]
    notes.append(f"a text alone in its bare graph: {alone:.2f} ms, with pauses as between requests {paced:.2f} ms")
    for one in served:
        name, (texts, connections) = one.entry.configuration.strategy, _load(one)
        shares = [one_round.server.stage_share for one_round in one.entry.rounds if one_round.server]
        if name in NEAR and connections == CONNECTIONS[-1] and shares:
            stages = [f"{stage} {statistics.median(each[stage] for each in shares):.1%}" for stage in sorted(shares[0])]
            notes.append(
                f"{SHOWN[name]}, {texts} text{'s' * (texts > 1)} per request: of the worker's time {', '.join(stages)}"
            )
    worker, nothing, graphs = (
        f"{result.more['resident_megabytes'][name]:.0f} MB" for name in (NEAR[0], "nothing", f"{NEAR[0]}, bare")
    )
    return [*notes, f"resident: worker {worker}, worker that does nothing {nothing}, bare graphs {graphs}"]


def _load(one: Figures) -> tuple[int, int]:
    """Texts per request, and connections."""
    return one.entry.configuration.instances or 1, one.entry.configuration.connections or 0


def _median_ratio(one: Figures, base: Figures | None) -> float | None:
    interval = ratio(one.entry.rounds, base.entry.rounds) if base else None
    return interval.median if interval else None


def draw(result: Result) -> dict[str, bytes]:
    """The standard pictures, and texts per second by connections, with the bare graphs as the upper limit."""
    served = [one for one in figures_of(result) if one.entry.configuration.part == SERVED]
    groups = sorted({_load(one)[0] for one in served if one.entry.configuration.strategy in NEAR})
    with new_figure(columns=len(groups), size=(10, 4.2)) as (figure, axes):
        for axis, texts in zip(axes, groups, strict=True):
            draw_served(axis, result, texts)
            axis.set_title(f"{texts} text{'s' if texts > 1 else ''} per request", fontsize=10)
        axes[0].set_ylabel("texts per second")
        legend(axes[0])
        return {**pictures_of(result), "overhead": png_of(figure)}


def draw_served(axis: Any, result: Result, texts: int) -> None:
    """Bars for the served models with `texts` per request, and a line at the fastest bare graphs."""
    figures = [one for one in figures_of(result) if one.entry.configuration.strategy != BERT]
    shown = [figure for figure in figures if figure.entry.configuration.part == SERVED and _load(figure)[0] == texts]
    names = [name for name in (USUAL, *NEAR) if any(one.entry.configuration.strategy == name for one in shown)]
    counts = sorted({_load(one)[1] for one in shown})
    for place, name in enumerate(names):
        own = [one for one in shown if one.entry.configuration.strategy == name]
        rates = {_load(one)[1]: one.throughput.median for one in own}
        at = [counts.index(count) + (place - (len(names) - 1) / 2) * 0.27 for count in rates]
        precision = own[0].entry.configuration.precision or "f32"
        label = f"{SHOWN[name]} ({precision})"
        bars = axis.bar(at, list(rates.values()), width=0.25, color=BAR_COLOURS[name], label=label)
        axis.bar_label(bars, fmt="%.0f", fontsize=8)
    ceiling = max(figure.throughput.median for figure in figures if figure.entry.configuration.part == BARE)
    axis.axhline(ceiling, color="#444444", linestyle="--", linewidth=1)
    words = f"ceiling: the graphs in a loop, without a server ({ceiling:.0f})"
    axis.annotate(
        words,
        (0.02, ceiling),
        xycoords=("axes fraction", "data"),
        xytext=(0, 3),
        textcoords="offset points",
        fontsize=8,
        color="#444444",
    )
    axis.set_ylim(top=ceiling * 1.12)
    axis.set_xticks(range(len(counts)), [str(count) for count in counts])
    axis.set_xlabel("client connections")
