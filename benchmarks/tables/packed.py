"""A few packed graphs against many ordinary ones: `python -m benchmarks packed`.

An intent model with the best ordinary shapes for the built-in mix of lengths, and with packed ones; and a
model of BERT-base's size with two graphs of each kind. Shapes are chosen on other texts than the texts that are sent.
"""

from __future__ import annotations

import statistics
from contextlib import ExitStack

from benchmarks.random_models import bert_base
from handlers.worker.placement.discovery import cpu_cores
from handlers.worker.values import Instance
from marina.bench.load.mix import mixed_texts
from marina.bench.load.payload import MIX_NAME, LoadCase, Payload, bodies_of
from marina.bench.load.profile import Load
from marina.bench.report.figures import Figures, figures_of, throughput_ratio
from marina.bench.report.results import Configuration, Result
from marina.bench.report.standard import warnings_of
from marina.bench.report.table import Table, TableLayout, number
from marina.bench.server.bare_graphs import bare_graphs
from marina.bench.sweep.rounds import measure_rounds
from marina.bench.sweep.strategies import bare_strategy, served_strategy, with_memory_recorded
from marina.bench.tables.job import TableJob, advice_for_mix
from marina.compiler.graphs.times import read_measured
from marina.shapes.advice import PLAIN
from marina.shapes.auto import PRICE
from marina.spec import Spec, make_spec

KIND = "table-packed"
MODEL, BERT = "ava-intent", "bert-base"
ORDINARY, FOUR_PACKED, CHOSEN = "24 ordinary", "4 packed", "as marina shapes chooses"
GRAPHS = 24
FOUR_SHAPES = ["1x24p", "1x64p", "1x128p", "4x128p"]
BERT_SHAPES = {ORDINARY: ["1x128", "8x128"], FOUR_PACKED: ["1x128p", "4x128p"]}
MAX_LENGTH = 128
LOADS = {MODEL: ((1, 1), (1, 64), (32, 16)), BERT: ((8, 2),)}  # texts in a request, connections
ROUNDS, WARM_UP_S, WINDOW_S = 3, 2.0, 5.0
BARE, SERVED = "bare graphs", "served"


def measure(job: TableJob) -> Result:
    """Measure the table for a text classifier with one head; by default, for the demonstration model of intents."""
    base = job.spec(MODEL)
    specs = {(MODEL, kind): _intent_spec(base, kind, job) for kind in (ORDINARY, FOUR_PACKED, CHOSEN)} | {
        (BERT, kind): make_spec(
            bert_base(
                job.project.root / "build" / "bench" / BERT,
                [1],
                name=_name(BERT, kind),
                precision="bf16",
                shapes={"exact": shapes},
                core_groups=str(len(cpu_cores())),
            )
        )
        for kind, shapes in BERT_SHAPES.items()
    }
    paced_ms: dict[str, list[float]] = {}
    megabytes: dict[str, float] = {}
    compiled: dict[str, dict[str, float]] = {}
    shapes = {spec.name: [str(shape) for shape in spec.shapes.listed()] for spec in specs.values()}
    strategies = []
    with ExitStack() as stack:
        for (model, kind), spec in specs.items():
            artifact = job.server.archive(spec)
            times = read_measured(artifact)
            graph_seconds, total_seconds = times["seconds"], times["build"]["seconds"]
            compiled[spec.name] = {"graphs": sum(graph_seconds.values()), "whole": total_seconds}
            if model == MODEL:
                job.progress("loading bare graphs", 0, 1)
                graphs = stack.enter_context(bare_graphs(spec, artifact, [Instance(text) for text in mixed_texts()]))
                row = Configuration(model=model, strategy=kind, part=BARE)
                model_paced_ms = paced_ms.setdefault(spec.name, [])
                strategies.append(bare_strategy(graphs, spec.name, row, 2 * WINDOW_S, model_paced_ms, megabytes))
            row = Configuration(model=model, strategy=kind, part=SERVED)
            workloads = [_workload(*load) for load in LOADS[model]]
            served = served_strategy(job.server, spec.name, row, spec, workloads)
            strategies.append(with_memory_recorded(served, job.server, megabytes))
        entries, _ = measure_rounds(strategies, ROUNDS, job.progress)
    more = {"paced_ms": paced_ms, "resident_megabytes": megabytes, "seconds": compiled, "shapes": shapes}
    return Result(KIND, f"packed graphs of {base.name}", entries, job.price, more=more)


def _intent_spec(base: Spec, kind: str, job: TableJob) -> Spec:
    fields = {
        **base.model_dump(exclude_defaults=True),
        "name": _name(MODEL, kind),
        "precision": "int8",
        "core_groups": str(len(cpu_cores())),
        "serving": {"batch_size": 64},
        "shapes": {"exact": [f"1x{MAX_LENGTH}"]},
    }
    if kind == FOUR_PACKED:
        return make_spec({**fields, "shapes": {"exact": FOUR_SHAPES}})
    advice = advice_for_mix(job, make_spec(fields), GRAPHS if kind == ORDINARY else None, PRICE)
    shapes = advice.considered[PLAIN].shapes if kind == ORDINARY else advice.shapes
    return make_spec({**fields, "shapes": {"exact": [str(shape) for shape in shapes]}})


def _name(model: str, kind: str) -> str:
    return f"{model}-{kind.replace(' ', '-')}"


def _workload(texts: int, connections: int) -> LoadCase:
    load = Load(connections, warm_up_s=WARM_UP_S, window_s=WINDOW_S, seconds=WINDOW_S)
    return LoadCase(load, Payload(bodies_of(mixed_texts(), texts), texts, MIX_NAME))


def layout(result: Result) -> TableLayout:
    """Rates and latencies by model and load; ratios are within rounds."""
    figures = figures_of(result)
    bases = {_load(figure): figure for figure in figures if figure.entry.configuration.strategy == ORDINARY}
    rows, ratios = [], []
    for figure in sorted(figures, key=_load):
        base = bases[_load(figure)]
        speedup = throughput_ratio(figure.entry.rounds, base.entry.rounds) if figure is not base else None
        ratios += [speedup.median] if speedup else []
        configuration = figure.entry.configuration
        bare = configuration.part == BARE
        _, _, texts, connections = _load(figure)
        rows.append(
            [
                *(
                    str(configuration.model),
                    str(configuration.strategy),
                    "all, bare" if bare else str(texts),
                ),
                *("" if bare else str(connections), number(figure.throughput.median, 0)),
                *(number(figure.latency_ms.get(percentile), 1) for percentile in ("p50", "p99")),
                f"{speedup.median:.2f}x" if speedup else "",
            ]
        )
    columns = ["model", "graphs", "texts a request", "connections", "texts/s", "p50 ms", "p99 ms", "of ordinary"]
    conclusion = f"Packed graphs answer {min(ratios):.2f} to {max(ratios):.2f} times as many texts as ordinary ones."
    return TableLayout([Table(columns, rows, 5)], [*_notes(result), *warnings_of(result)], conclusion)


def _notes(result: Result) -> list[str]:
    more = result.more
    notes = []
    for name, seconds in more["seconds"].items():
        paced_ms = more["paced_ms"].get(name)
        paced_note = (
            f"; a text alone in its bare graph, with pauses, {statistics.median(paced_ms):.2f} ms" if paced_ms else ""
        )
        memory = more["resident_megabytes"][name]
        notes.append(
            f"{name}: graphs {', '.join(more['shapes'][name])}; {seconds['graphs']:.1f} s to compile them, "
            f"{seconds['whole']:.0f} s with all checks; resident worker {memory:.0f} MB{paced_note}"
        )
    return notes


def _load(figure: Figures) -> tuple[str, bool, int, int]:
    """The model, whether it is served, texts per request, and connections."""
    configuration = figure.entry.configuration
    return (
        str(configuration.model),
        configuration.part == SERVED,
        configuration.instances or 1,
        configuration.connections or 0,
    )
