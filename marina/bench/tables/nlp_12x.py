"""After AWS's "12x" table: BERT-base at 128 tokens, batch 1 and 6, one core a model and all cores a model.

On CPU engines core groups stand for NeuronCores: a worker a core is data parallel, and one worker with all
cores takes the place of the NeuronCore Pipeline. Ratios are to the usual TorchServe handler at the same batch.
"""

from __future__ import annotations

from typing import Any

from handlers.worker.placement.discovery import cpu_cores
from marina.bench.bert_base import TOKENS, bert_base, bert_texts
from marina.bench.costs import Price
from marina.bench.load import Load
from marina.bench.report.figures import figures_of
from marina.bench.report.table import Table, number, price_notes, spread, warnings_of
from marina.bench.result import Result
from marina.bench.stage import Stage
from marina.bench.tables.published import claim_note, published
from marina.bench.tables.ways import MARINA, USUAL, Way, measure_ways, served_way
from marina.bench.texts import Asked, bodies_of
from marina.bench.usual.pack import pack_usual
from marina.compiler.source import find_source
from marina.console import Progress
from marina.engines import engine_of
from marina.engines.base import CORE_PER_WORKER, PIPELINE, Engine
from marina.errors import MarinaError
from marina.project import Project
from marina.spec import make_spec, read_spec

KIND = "table-nlp-12x"
BATCHES = (1, 6)
ROUNDS, WINDOW_S = 3, 10.0
IN_FLIGHT = 2  # batches for each worker: one that it computes and one that waits


def measure(
    stage: Stage, project: Project, name: str | None, engine: str | None, price: Price | None, progress: Progress
) -> Result:
    """Measure it for a model, or for one of BERT-base's size; MarinaError if it is no text classifier."""
    if name is None:
        fields = bert_base(project.root / "build" / "bench" / "bert-base", list(BATCHES))
    else:
        own = read_spec(project.models / f"{name}.yaml")
        if own.task != "text-classification" or own.heads:
            raise MarinaError(f"{KIND} is for text classifiers with one head, and {name} is none")
        shapes = {"exact": [f"{batch}x{TOKENS}" for batch in BATCHES]}
        fields = {**own.model_dump(exclude_defaults=True), "shapes": shapes}
    fields["engine"] = engine or fields.get("engine", "openvino")
    bodies = bodies_of(list(bert_texts()), 1)
    asked = Asked(bodies, 1, f"made up, {TOKENS} tokens")
    ways = [way for batch in BATCHES for way in _ways(stage, project, fields, batch, asked)]
    entries = measure_ways(ways, ROUNDS, progress)
    return Result(KIND, f"BERT-base at {TOKENS} tokens, after AWS's 12x table", entries, price)


def usable_cores(engine: Engine) -> int:
    """How many cores the engine's workers can be given here."""
    return len(engine.cores.usable())


def _ways(stage: Stage, project: Project, fields: dict[str, Any], batch: int, asked: Asked) -> list[Way]:
    engine = engine_of(fields["engine"])
    cores = usable_cores(engine)

    def load(workers: int) -> Load:
        return Load(connections=IN_FLIGHT * batch * workers, window_s=WINDOW_S, seconds=WINDOW_S)

    def ours(groups: str, mode: str, told: str) -> Way:
        delay = {"batch_size": batch, "batch_delay_ms": 1 if batch == 1 else 10}
        spec = make_spec(
            {
                **fields,
                "shapes": {"exact": [f"{batch}x{TOKENS}"]},
                "core_groups": groups,
                "mode": mode,
                "serving": delay,
                **({"neuron": {"pipeline_cores": cores}} if mode == "pipeline" else {}),
            }
        )
        configuration = {"way": MARINA, "batch": batch, "mode": told, "cores_per_model": cores // spec.workers}
        return served_way(stage, configuration, spec, load(spec.workers), asked)

    usual = f"usual-{batch}"
    source = find_source(make_spec(fields).source, project.root)
    work = stage.project.root / usual
    pack_usual(source, usual, stage.project.model_store, work, TOKENS, batch, delay_ms=1 if batch == 1 else 10)
    configuration = {
        "way": USUAL,
        "batch": batch,
        "mode": "TorchScript on the CPU",
        "cores_per_model": len(cpu_cores()),
    }
    found = [
        served_way(stage, configuration, usual, load(1), asked),
        ours(",".join(["1"] * cores), CORE_PER_WORKER, "data parallel"),
    ]
    if PIPELINE in engine.modes:
        found.append(ours(str(cores), PIPELINE, "pipeline"))
    elif not engine.cores.exclusive and cores > 1:
        found.append(ours(str(cores), CORE_PER_WORKER, "all cores a model"))
    return found


def tables(result: Result) -> list[tuple[str, Table]]:
    """The table; published figures stand in columns of their own."""
    instance = result.price.instance if result.price else "this machine"
    found = figures_of(result)
    usual = {one.entry.configuration["batch"]: one for one in found if one.entry.configuration["way"] == USUAL}
    rows = []
    for one in found:
        configuration = one.entry.configuration
        faster = one.throughput.median / usual[configuration["batch"]].throughput.median
        known = _published(configuration)
        rows.append(
            [
                *(str(configuration[name]) for name in ("way", "batch", "mode", "cores_per_model")),
                instance,
                spread(one.throughput),
                number(one.latency_ms.get("p95")),
                number(one.cost, 3),
                number(faster),
                number(1 / faster if one.cost is not None else None, 3),
                number(known.get("throughput")),
                number(known.get("p50_ms")),
                number(known.get("p99_ms")),
                number(known.get("cost_per_1m"), 3),
                known.get("hardware", ""),
            ]
        )
    measured = ["instance", "inst./s", "p95 ms", "$/1M", "x throughput", "x cost"]
    others = ["published: inst./s", "p50 ms", "p99 ms", "$/1M", "on"]
    return [("", Table(["", "batch", "mode", "cores/model", *measured, *others], rows, 10))]


def notes(result: Result) -> list[str]:
    """What a reader must know."""
    return [
        "x throughput and x cost: over the usual handler at the same batch, on the same machine",
        *([] if result.price else ["$/1M is empty, since nobody said what this machine costs: --instance or --price"]),
        *warnings_of(result),
        *price_notes(result),
        claim_note(KIND),
        f"published rows: {published(KIND.removeprefix('table-'))['rows_source']}",
    ]


def _published(configuration: dict[str, Any]) -> dict[str, Any]:
    """The published row that is nearest in kind: same batch; one core a model, or several."""
    if configuration["way"] == USUAL:
        return {}
    several = configuration["mode"] != "data parallel"
    rows = published(KIND)["rows"]
    matching = [
        row for row in rows if row["batch"] == configuration["batch"] and (row["cores_per_model"] > 1) == several
    ]
    return dict(matching[0]) if matching else {}
