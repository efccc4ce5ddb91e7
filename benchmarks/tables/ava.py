"""After Autodesk's table for its Ava chatbot: an intent model at batch 1, throughput and latency over time."""

from __future__ import annotations

from benchmarks.tables.published import published_table, source_note
from benchmarks.usual.pack import pack_usual
from marina.bench.load.payload import LoadCase, read_payload, texts_of
from marina.bench.load.profile import Load
from marina.bench.report.figures import figures_of
from marina.bench.report.results import Configuration, Result
from marina.bench.report.standard import price_notes, warnings_of
from marina.bench.report.table import Table, TableLayout, number, spread
from marina.bench.sweep.rounds import measure_rounds
from marina.bench.sweep.strategies import MARINA, USUAL, served_strategy
from marina.bench.tables.job import TableJob
from marina.compiler.hugging_face import find_source
from marina.errors import SourceError
from marina.spec import make_spec

KIND = "table-ava"
MODEL = "ava-intent"
ROUNDS, SECONDS, WINDOW_S = 3, 20.0, 5.0
TOKENS = 128
PUBLISHED_SPEED, PUBLISHED_LATENCY = "throughput against the baseline", "latency against the baseline"


def measure(job: TableJob) -> Result:
    """Measure the table for a model; by default, for the demonstration model of intents."""
    spec = job.spec(MODEL)
    serving = {**spec.serving.model_dump(), "batch_size": 1, "batch_delay_ms": 1}
    spec = make_spec({**spec.model_dump(exclude_defaults=True), "serving": serving})
    payload = read_payload(texts_of(spec, job.project), spec.instance_fields, 1)

    def workload(workers: int) -> LoadCase:
        return LoadCase(Load(connections=workers, window_s=WINDOW_S, seconds=SECONDS), payload)

    marina_row = Configuration(model=spec.name, strategy=MARINA)
    strategies = [served_strategy(job.server, MARINA, marina_row, spec, [workload(spec.workers)])]
    baseline = None
    try:
        source, server_project = find_source(spec.source, job.project.root), job.server.project
        pack_usual(
            source, "usual-1", server_project.model_store, server_project.root / "usual-1", TOKENS, 1, delay_ms=1
        )
    except SourceError:
        pass  # no text classifier, so there is no usual handler to compare with
    else:
        usual_row = Configuration(model=spec.name, strategy=USUAL)
        strategies.insert(0, served_strategy(job.server, USUAL, usual_row, "usual-1", [workload(1)]))
        baseline = Configuration(strategy=USUAL)
    entries, _ = measure_rounds(strategies, ROUNDS, job.progress)
    return Result(KIND, f"{spec.name} at batch 1, after Autodesk's table for Ava", entries, job.price, baseline)


def layout(result: Result) -> TableLayout:
    """The table, the published figures, and the windows behind the measured ones."""
    rows, conclusion, usual_ms = [], "", None
    measured_here: dict[str, str] = {}
    for figure in figures_of(result):
        strategy = figure.entry.configuration.strategy
        speedup = spread(figure.speedup) if strategy != USUAL else ""
        cells = [spread(figure.throughput), *(number(figure.latency_ms.get(name)) for name in ("p50", "p90", "p99"))]
        rows.append([str(strategy), *cells, number(figure.cost, 3), speedup])
        if strategy == USUAL:
            usual_ms = figure.latency_ms.get("p50")
        elif figure.speedup and usual_ms:
            latency_ratio = figure.latency_ms["p50"] / usual_ms
            measured_here = {PUBLISHED_SPEED: number(figure.speedup.median), PUBLISHED_LATENCY: number(latency_ratio)}
            conclusion = (
                f"Marina answers {number(figure.speedup.median)} times as many requests per second as the usual "
                f"handler, at {latency_ratio:.0%} of its median latency. Autodesk published 4.9 times at about half "
                "the latency, with Inferentia against a GPU."
            )
    columns = ["batch 1", "inst./s", "p50 ms", "p90 ms", "p99 ms", "$/1M", "x usual handler"]
    notes = [
        *warnings_of(result),
        *price_notes(result),
        "here: against the usual handler on this machine",
        source_note(KIND),
    ]
    return TableLayout(
        [Table(columns, rows, 6), published_table(KIND, measured_here), _windows(result)], notes, conclusion
    )


def _windows(result: Result) -> Table:
    rows = [
        [
            *(str(entry.configuration.strategy), str(round_number), str(window_number)),
            *(number(window.throughput), number(window.p50_ms), number(window.p90_ms)),
        ]
        for entry in result.entries
        for round_number, measurement in enumerate(entry.rounds, start=1)
        for window_number, window in enumerate(measurement.windows, start=1)
    ]
    return Table(["", "round", "window", "inst./s", "p50 ms", "p90 ms"], rows, 5, "Over time")
