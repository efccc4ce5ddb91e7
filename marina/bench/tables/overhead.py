"""What serving costs, against the usual TorchServe handler and against the bare graphs: `make bench`.

Marina serves an intent model with one worker on all cores, and with a worker on each core; a model of BERT-base's
size stands beside its own bare graphs. Shapes are chosen on other texts of the same kind than those that are sent.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import replace
from typing import Any

from handlers.worker.placement.discovery import cpu_cores
from handlers.worker.values import Instance
from marina.bench.load.measurement import Measurement
from marina.bench.load.mix import mixed
from marina.bench.load.payload import MIX_NAME, Payload, Workload, bodies_of
from marina.bench.load.profile import Load
from marina.bench.report.figures import Figures, figures_of, ratio
from marina.bench.report.pictures import COLOURS, new_figure, pictures_of, png_of
from marina.bench.report.pricing import Price
from marina.bench.report.results import Configuration, Result
from marina.bench.report.standard import warnings_of
from marina.bench.report.table import Layout, Table, number
from marina.bench.server.bare_graphs import BareGraphs, bare_graphs
from marina.bench.server.benchmark_server import BenchmarkServer
from marina.bench.server.bert_base import TOKENS, bert_base, bert_texts
from marina.bench.server.usual.pack import NOTHING, pack_handler, pack_usual
from marina.bench.sweep.rounds import Measure, Strategy, measure_rounds
from marina.bench.sweep.strategies import served_strategy
from marina.compiler.source import find_source
from marina.console import Progress
from marina.project import Project
from marina.shapes.advice import advise
from marina.spec import Spec, make_spec, read_spec

KIND = "table-overhead"
MODEL = "ava-intent"
USUAL, BERT = "usual", "bert-base"
NEAR = ("one-worker", "worker-a-core")
BARE, SERVED = "bare graphs", "served"
CONNECTIONS = (1, 16, 64)
TEXTS_AT_ONCE = 32
ROUNDS, WARM_UP_S, WINDOW_S = 3, 1.0, 4.0
GRAPHS = 24
USUAL_TOKENS, USUAL_BATCH = 128, 6


def measure(
    server: BenchmarkServer,
    project: Project,
    name: str | None,
    engine: str | None,
    price: Price | None,
    progress: Progress,
) -> Result:
    """Measure it for a text classifier with one head, or for the demonstration model of intents.

    Raises:
        SourceError: the usual handler cannot serve the model.
    """
    base = read_spec(project.models / f"{name or MODEL}.yaml", {"engine": engine} if engine else None)
    store, work = server.project.model_store, server.project.root
    progress("tracing the usual model", 0, 1)
    pack_usual(find_source(base.source, project.root), USUAL, store, work / USUAL, USUAL_TOKENS, USUAL_BATCH)
    start_only = {"minWorkers": 1, "maxWorkers": 1, "responseTimeout": 120, "startupTimeout": 120}
    pack_handler("nothing", NOTHING, start_only, store)
    specs = {one: _near_spec(one, base, server, project, progress) for one in NEAR}
    specs[BERT] = make_spec(bert_base(project.root / "build" / "bench" / BERT, [1, 8], serving={"batch_size": 8}))
    texts = {USUAL: mixed(), **dict.fromkeys(NEAR, mixed()), BERT: bert_texts()}
    loads = {USUAL: [(1, count) for count in CONNECTIONS], BERT: [(1, CONNECTIONS[1])]}
    paced_ms: dict[str, list[float]] = {one: [] for one in specs}
    megabytes: dict[str, float] = {}
    with ExitStack() as stack:
        strategies = []
        for one, spec in specs.items():
            progress("loading bare graphs", 0, 1)
            instances = [Instance(text) for text in texts[one]]
            graphs = stack.enter_context(bare_graphs(spec, server.archive(spec), instances))
            strategies.append(_bare(graphs, one, base.name, paced_ms[one], megabytes))
        for one in (USUAL, *specs):
            asked = loads.get(one, [(many, count) for many in (1, TEXTS_AT_ONCE) for count in CONNECTIONS])
            workloads = [_workload(texts[one], many, count, one) for many, count in asked]
            row = Configuration(model=BERT if one == BERT else base.name, strategy=one, part=SERVED)
            served = served_strategy(server, one, row, specs.get(one, one), workloads)
            strategies.append(_weighed(served, server, megabytes))
        entries, _ = measure_rounds(strategies, ROUNDS, progress)
    server.serve("nothing")
    megabytes["nothing"] = server.resident_megabytes()
    more = {"paced_ms": paced_ms, "resident_megabytes": megabytes}
    return Result(KIND, f"what serving {base.name} costs", entries, price, more=more)


def _near_spec(name: str, base: Spec, server: BenchmarkServer, project: Project, progress: Progress) -> Spec:
    """The model with one worker or a worker on each core, and with shapes for the built-in mix."""
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
    lengths = server.project.root / "lengths.csv"
    lengths.write_text("text\n" + "\n".join(mixed(seed=1)) + "\n")
    shapes = advise(make_spec(fields), project, lengths, GRAPHS, 0.0, progress).shapes
    return make_spec({**fields, "shapes": {"exact": [str(shape) for shape in shapes]}})


def _workload(texts: list[str], instances: int, connections: int, name: str) -> Workload:
    source = f"made up, {TOKENS} tokens" if name == BERT else MIX_NAME
    load = Load(connections, warm_up_s=WARM_UP_S, window_s=WINDOW_S, seconds=WINDOW_S)
    return Workload(load, Payload(bodies_of(list(texts), instances), instances, source))


def _bare(graphs: BareGraphs, name: str, model: str, paced_ms: list[float], megabytes: dict[str, float]) -> Strategy:
    def measure(_: Workload) -> tuple[Configuration, Measurement]:
        bare = graphs.run(2 * WINDOW_S)
        paced_ms.append(bare.paced_ms)
        megabytes[f"{name}, bare"] = bare.megabytes
        return Configuration(), bare.measurement(2 * WINDOW_S)

    row = Configuration(model=BERT if name == BERT else model, strategy=name, part=BARE)
    once = Workload(Load(1, seconds=2 * WINDOW_S), Payload([], 1, MIX_NAME))
    return Strategy(f"{name}, {BARE}", row, [once], lambda: nullcontext(measure))


def _weighed(strategy: Strategy, server: BenchmarkServer, megabytes: dict[str, float]) -> Strategy:
    """The same, with the resident memory of a worker after each round."""

    @contextmanager
    def start() -> Iterator[Measure]:
        with strategy.start() as measure:
            yield measure
            megabytes[strategy.name] = server.resident_megabytes()

    return replace(strategy, start=start)


def layout(result: Result) -> Layout:
    """The bare graphs, then what was served by texts a request and connections; ratios are within rounds."""
    found = figures_of(result)
    bare = {one.entry.configuration.strategy: one for one in found if one.entry.configuration.part == BARE}
    served = sorted((one for one in found if one.entry.configuration.part == SERVED), key=_order)
    usual = {_asked(one): one for one in served if one.entry.configuration.strategy == USUAL}
    rows = [[f"{name}, bare", "", "", number(one.throughput.median, 0), "", "", "", ""] for name, one in bare.items()]
    for one in served:
        configuration = one.entry.configuration
        of_bare = _median_ratio(one, bare.get(configuration.strategy))
        of_usual = _median_ratio(one, usual.get(_asked(one))) if configuration.strategy in NEAR else None
        rows.append(
            [
                str(configuration.strategy),
                str(configuration.instances),
                str(configuration.connections),
                number(one.throughput.median, 0),
                number(one.latency_ms.get("p50"), 1),
                number(one.latency_ms.get("p99"), 1),
                f"{of_bare:.0%}" if of_bare else "",
                f"{of_usual:.1f}x" if of_usual else "",
            ]
        )
    columns = ["", "texts", "conn.", "texts/s", "p50 ms", "p99 ms", "of bare", "of usual"]
    return Layout([Table(columns, rows, 7)], _notes(result, bare, served))


def _notes(result: Result, bare: dict[str | None, Figures], served: list[Figures]) -> list[str]:
    first = {one.entry.configuration.strategy: one.entry.configuration for one in reversed(served)}
    notes = [
        f"{name}: {first[name].precision}, graphs {', '.join(first[name].shapes or ())}"
        for name in NEAR
        if name in first
    ]
    if NEAR[0] in bare:
        alone, paced = bare[NEAR[0]].latency_ms["p50"], statistics.median(result.more["paced_ms"][NEAR[0]])
        notes.append(f"a text alone in its bare graph: {alone:.2f} ms, with pauses as between requests {paced:.2f} ms")
    for one in served:
        configuration = one.entry.configuration
        if configuration.strategy in NEAR and configuration.connections == CONNECTIONS[-1]:
            rounds = [found.server.stage_share for found in one.entry.rounds if found.server]
            shares = ", ".join(
                f"{stage} {statistics.median(share[stage] for share in rounds):.1%}" for stage in sorted(rounds[0])
            )
            notes.append(
                f"{configuration.strategy}, {configuration.instances} texts a request: of a worker's time {shares}"
            )
    resident = result.more["resident_megabytes"]
    notes.append(
        f"resident: worker {resident[NEAR[0]]:.0f} MB, worker that does nothing {resident['nothing']:.0f} MB, "
        f"bare graphs {resident[f'{NEAR[0]}, bare']:.0f} MB"
    )
    return [*notes, *warnings_of(result)]


def _asked(one: Figures) -> tuple[int, int]:
    """Texts a request, and connections."""
    return one.entry.configuration.instances or 1, one.entry.configuration.connections or 0


def _order(one: Figures) -> tuple[bool, int, int]:
    return one.entry.configuration.strategy == BERT, *_asked(one)


def _median_ratio(one: Figures, base: Figures | None) -> float | None:
    found = ratio(one.entry.rounds, base.entry.rounds) if base else None
    return found.median if found else None


def draw(result: Result) -> dict[str, bytes]:
    """The pictures of every result; and texts a second by connections, with the bare graphs as lines."""
    found = [one for one in figures_of(result) if one.entry.configuration.strategy != BERT]
    served = [one for one in found if one.entry.configuration.part == SERVED]
    groups = sorted({_asked(one)[0] for one in served})
    with new_figure(columns=len(groups), size=(10, 3.6)) as (figure, axes):
        for axis, texts in zip(axes, groups):
            _bars(axis, [one for one in served if _asked(one)[0] == texts])
            for one, style in zip((one for one in found if one.entry.configuration.part == BARE), ("--", ":")):
                label = f"{one.entry.configuration.strategy}, bare graphs"
                axis.axhline(one.throughput.median, color="#444444", linestyle=style, linewidth=1, label=label)
            axis.set_title(f"{texts} text{'s' if texts > 1 else ''} a request", fontsize=10)
        axes[0].set_ylabel("texts per second")
        axes[0].legend(fontsize=8)
        return {**pictures_of(result), "overhead": png_of(figure)}


def _bars(axis: Any, shown: list[Figures]) -> None:
    names = [name for name in (USUAL, *NEAR) if any(one.entry.configuration.strategy == name for one in shown)]
    counts = sorted({_asked(one)[1] for one in shown})
    for place, name in enumerate(names):
        rates = {_asked(one)[1]: one.throughput.median for one in shown if one.entry.configuration.strategy == name}
        at = [counts.index(count) + (place - (len(names) - 1) / 2) * 0.27 for count in rates]
        colour = {USUAL: "#b0b0b0", NEAR[0]: COLOURS[0], NEAR[1]: "#7aa6d0"}[name]
        bars = axis.bar(at, list(rates.values()), width=0.25, color=colour, label=name)
        axis.bar_label(bars, fmt="%.0f", fontsize=8)
    axis.set_xticks(range(len(counts)), [str(count) for count in counts])
    axis.set_xlabel("connections")
