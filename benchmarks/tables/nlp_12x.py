"""After AWS's "12x" table: BERT-base at 128 tokens, batch 1 and 6, one core per model and all cores per model.

On CPU engines, core groups stand for NeuronCores: one worker per core is data parallel, and one worker with
all cores replaces the NeuronCore Pipeline. Ratios are relative to the usual TorchServe handler at the same batch.
"""

from __future__ import annotations

from typing import Any

from benchmarks.random_models import TOKENS, bert_base, bert_texts
from benchmarks.tables.published import published, source_note
from benchmarks.usual.pack import pack_usual
from handlers.worker.placement.discovery import cpu_cores
from marina.bench.load.payload import LoadCase, Payload, bodies_of
from marina.bench.load.profile import Load
from marina.bench.report.figures import Figures, figures_of
from marina.bench.report.results import Configuration, Result
from marina.bench.report.standard import price_notes, warnings_of
from marina.bench.report.table import Table, TableLayout, number, spread
from marina.bench.server.benchmark_server import BenchmarkServer
from marina.bench.sweep.rounds import Strategy, measure_rounds
from marina.bench.sweep.strategies import MARINA, USUAL, served_strategy
from marina.bench.tables.job import TableJob
from marina.compiler.hugging_face import find_source
from marina.engines import DEFAULT, engine_of
from marina.engines.base import Engine
from marina.engines.values import CORE_PER_WORKER, PIPELINE
from marina.errors import MarinaError
from marina.project import Project
from marina.spec import make_spec, read_spec

KIND = "table-nlp-12x"
BATCHES = (1, 6)
ROUNDS, WINDOW_S = 3, 10.0
ONE_CORE = "data parallel"  # AWS's term for one model on each core
IN_FLIGHT = 2  # batches per worker: one being computed and one waiting


def measure(job: TableJob) -> Result:
    """Measure the table for a text classifier (default: one of BERT-base's size); MarinaError for other models."""
    if job.name is None:
        fields = bert_base(job.project.root / "build" / "bench" / "bert-base", list(BATCHES))
    else:
        spec = read_spec(job.project.models / f"{job.name}.yaml")
        if spec.task != "text-classification" or spec.heads:
            raise MarinaError(f"{KIND} is for text classifiers with one head, and {job.name} is none")
        shapes = {"exact": [f"{batch}x{TOKENS}" for batch in BATCHES]}
        fields = {**spec.model_dump(exclude_defaults=True), "shapes": shapes}
    fields["engine"] = job.engine or fields.get("engine", DEFAULT)
    payload = Payload(bodies_of(list(bert_texts()), 1), 1, f"made up, {TOKENS} tokens")
    strategies = [
        strategy for batch in BATCHES for strategy in _strategies(job.server, job.project, fields, batch, payload)
    ]
    entries, _ = measure_rounds(strategies, ROUNDS, job.progress)
    return Result(KIND, f"BERT-base at {TOKENS} tokens, after AWS's 12x table", entries, job.price)


def usable_cores(engine: Engine) -> int:
    """The number of cores that the engine's workers can use here."""
    return len(engine.cores.usable())


def _strategies(
    server: BenchmarkServer, project: Project, fields: dict[str, Any], batch: int, payload: Payload
) -> list[Strategy]:
    engine = engine_of(fields["engine"])
    cores = usable_cores(engine)
    delay_ms = 1 if batch == 1 else 10

    def workload(workers: int) -> LoadCase:
        return LoadCase(Load(connections=IN_FLIGHT * batch * workers, window_s=WINDOW_S, seconds=WINDOW_S), payload)

    def marina_strategy(groups: str, mode: str, name: str) -> Strategy:
        spec = make_spec(
            {
                **fields,
                "shapes": {"exact": [f"{batch}x{TOKENS}"]},
                "core_groups": groups,
                "mode": mode,
                "serving": {"batch_size": batch, "batch_delay_ms": delay_ms},
                **({fields["engine"]: {"pipeline_cores": cores}} if mode == PIPELINE else {}),
            }
        )
        row = Configuration(strategy=MARINA, batch=batch, mode=name, cores_per_model=cores // spec.workers)
        return served_strategy(server, f"{MARINA}, batch {batch}, {name}", row, spec, [workload(spec.workers)])

    archive = f"usual-{batch}"
    source = find_source(make_spec(fields).source, project.root)
    pack_usual(
        source, archive, server.project.model_store, server.project.root / archive, TOKENS, batch, delay_ms=delay_ms
    )
    row = Configuration(strategy=USUAL, batch=batch, mode="TorchScript on the CPU", cores_per_model=len(cpu_cores()))
    strategies = [
        served_strategy(server, f"{USUAL}, batch {batch}", row, archive, [workload(1)]),
        marina_strategy(",".join(["1"] * cores), CORE_PER_WORKER, ONE_CORE),
    ]
    if PIPELINE in engine.modes:
        strategies.append(marina_strategy(str(cores), PIPELINE, "pipeline"))
    elif not engine.cores.exclusive and cores > 1:
        strategies.append(marina_strategy(str(cores), CORE_PER_WORKER, "all cores for one model"))
    return strategies


def layout(result: Result) -> TableLayout:
    """The figures measured here, and below them the figures that AWS published, in the same columns."""
    instance = result.price.instance if result.price else "this machine"
    figures = figures_of(result)
    usual = {
        figure.entry.configuration.batch: figure for figure in figures if figure.entry.configuration.strategy == USUAL
    }
    rows = []
    for figure in figures:
        configuration = figure.entry.configuration
        speedup = figure.throughput.median / usual[configuration.batch].throughput.median
        rows.append(
            [
                str(configuration.strategy),
                instance,
                *(str(getattr(configuration, name)) for name in ("batch", "mode", "cores_per_model")),
                spread(figure.throughput),
                number(figure.latency_ms.get("p95")),
                number(figure.cost, 3),
                number(speedup),
                number(1 / speedup if figure.cost is not None else None, 3),
            ]
        )
    aws_figures = published(KIND)
    rows += [["published by AWS", *map(str, row)] for row in aws_figures.rows]
    notes = [
        "x throughput and x cost: measured here, over the usual handler at the same batch; published, over the "
        "g4dn.xlarge at batch 1 or 64",
        *(
            []
            if result.price
            else ["$/1M is empty for this machine, since its price is not known: --instance or --price"]
        ),
        *warnings_of(result),
        *price_notes(result),
        source_note(KIND),
    ]
    return TableLayout([Table(["", *aws_figures.columns], rows, 5)], notes, _conclusion(figures, usual))


def _conclusion(figures: list[Figures], usual: dict[int | None, Figures]) -> str:
    marina_figures = [figure for figure in figures if figure.entry.configuration.strategy != USUAL]
    if not marina_figures:
        return ""
    best = max(marina_figures, key=lambda figure: figure.throughput.median)
    configuration = best.entry.configuration
    base = usual[configuration.batch]
    cost = "" if best.cost is None else f" A million inferences cost {number(best.cost, 3)} USD here."
    return (
        f"Marina with {configuration.mode} at batch {configuration.batch} is fastest here: "
        f"{number(best.throughput.median)} texts per second, "
        f"{number(best.throughput.median / base.throughput.median)} times the usual handler.{cost} "
        "AWS published 12 times a GPU at 30 % of its cost, on inf1.6xlarge."
    )
