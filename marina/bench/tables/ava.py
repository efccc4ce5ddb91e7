"""After Autodesk's table for its Ava chatbot: an intent model at batch 1, throughput and latency over time."""

from __future__ import annotations

from handlers.worker.tasks import TASKS
from marina.bench.costs import Price
from marina.bench.load import Load
from marina.bench.report.figures import figures_of
from marina.bench.report.table import Table, number, price_notes, spread, warnings_of
from marina.bench.result import Result
from marina.bench.stage import Stage
from marina.bench.tables.published import claim_note
from marina.bench.tables.ways import MARINA, USUAL, measure_ways, served_way
from marina.bench.texts import read_asked, texts_of
from marina.bench.usual.pack import pack_usual
from marina.compiler.source import find_source
from marina.console import Progress
from marina.errors import SourceError
from marina.project import Project
from marina.spec import make_spec, read_spec

KIND = "table-ava"
MODEL = "ava-intent"
ROUNDS, SECONDS, WINDOW_S = 3, 20.0, 5.0
TOKENS = 128


def measure(
    stage: Stage, project: Project, name: str | None, engine: str | None, price: Price | None, progress: Progress
) -> Result:
    """Measure it for a model, or for the demonstration model of intents."""
    name = name or MODEL
    path = project.models / f"{name}.yaml"
    spec = read_spec(path, {"engine": engine} if engine else None)
    serving = {**spec.serving.model_dump(), "batch_size": 1, "batch_delay_ms": 1}
    spec = make_spec({**spec.model_dump(exclude_defaults=True), "serving": serving})
    asked = read_asked(texts_of(spec, project), TASKS[spec.task].fields, 1)

    def load(workers: int) -> Load:
        return Load(connections=workers, window_s=WINDOW_S, seconds=SECONDS)

    ways = [served_way(stage, {"model": name, "way": MARINA}, spec, load(spec.workers), asked)]
    base = None
    try:
        source = find_source(spec.source, project.root)
        pack_usual(source, "usual-1", stage.project.model_store, stage.project.root / "usual-1", TOKENS, 1, delay_ms=1)
    except SourceError:
        pass  # no text classifier, so there is no usual handler to compare with
    else:
        ways.insert(0, served_way(stage, {"model": name, "way": USUAL}, "usual-1", load(1), asked))
        base = {"way": USUAL}
    entries = measure_ways(ways, ROUNDS, progress)
    return Result(KIND, f"{name} at batch 1, after Autodesk's table for Ava", entries, price, base)


def tables(result: Result) -> list[tuple[str, Table]]:
    """The table, and the windows that its figures are of."""
    rows = []
    for one in figures_of(result):
        faster = spread(one.faster) if one.faster and one.entry.configuration["way"] != USUAL else ""
        cells = [spread(one.throughput), *(number(one.latency_ms.get(name)) for name in ("p50", "p90", "p99"))]
        published = "4.9, Inferentia" if faster else ""
        rows.append([one.entry.configuration["way"], *cells, number(one.cost, 3), faster, published])
    columns = ["batch 1", "inst./s", "p50 ms", "p90 ms", "p99 ms", "$/1M", "x usual handler", "published: x, on"]
    return [("", Table(columns, rows, 7)), ("Over time", _windows(result))]


def _windows(result: Result) -> Table:
    rows = [
        [
            entry.configuration["way"],
            str(turn + 1),
            str(place + 1),
            number(window.throughput),
            number(window.p50_ms),
            number(window.p90_ms),
        ]
        for entry in result.entries
        for turn, one in enumerate(entry.rounds)
        for place, window in enumerate(one.windows)
    ]
    return Table(["", "round", "window", "inst./s", "p50 ms", "p90 ms"], rows, 5)


def notes(result: Result) -> list[str]:
    """What a reader must know."""
    return [*warnings_of(result), *price_notes(result), claim_note(KIND)]
