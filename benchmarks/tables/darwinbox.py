"""After Darwinbox's talent search: the time per resume, eager and compiled, one by one and in mini-batches."""

from __future__ import annotations

import random
from contextlib import nullcontext

from benchmarks.tables.eager import TASK_MODELS, EagerModel, eager_model
from benchmarks.tables.published import published_table, source_note
from marina.bench.load.measurement import Measurement
from marina.bench.load.mix import mixed_texts
from marina.bench.load.payload import LoadCase, Payload, bodies_of
from marina.bench.load.profile import Load
from marina.bench.report.figures import figures_of
from marina.bench.report.results import Configuration, Result
from marina.bench.report.standard import warnings_of
from marina.bench.report.statistics import bootstrap
from marina.bench.report.table import Table, TableLayout, spread
from marina.bench.server.benchmark_server import BenchmarkServer
from marina.bench.sweep.rounds import Strategy, measure_rounds
from marina.bench.sweep.strategies import MARINA, served_strategy
from marina.bench.tables.job import TableJob
from marina.compiler.hugging_face import find_source
from marina.errors import MarinaError
from marina.project import Project
from marina.spec import Spec
from marina.spec.texts import read_texts

KIND = "table-darwinbox"
MODELS = ("resume-search", "resume-ner")
RESUMES = 64
WORDS = (60, 150)  # per resume, so that no model truncates one; they read 256 tokens or more
PADDED, MINI_BATCH = 512, 16
MINI_BATCHES = f"mini-batches of {MINI_BATCH}"
ROUNDS, SECONDS = 3, 8.0
EAGER = f"eager, padded to {PADDED}"


def measure(job: TableJob) -> Result:
    """Measure the table for a model; by default, for the demonstration models. MarinaError for other tasks."""
    specs = [job.spec(name) for name in ([job.name] if job.name else MODELS)]
    for spec in specs:
        if spec.task not in TASK_MODELS:
            raise MarinaError(f"{KIND} is for the tasks {' and '.join(TASK_MODELS)}, and {spec.name} is of {spec.task}")
    entries = []
    for spec in specs:
        resumes = _resumes(spec, job.project)
        with eager_model(find_source(spec.source, job.project.root), spec.task) as model:
            strategies = [
                _eager(model, spec, EAGER, resumes, PADDED, 1),
                _eager(model, spec, f"eager, dynamic padding in {MINI_BATCHES}", resumes, None, MINI_BATCH),
                _ours(job.server, spec, f"{MARINA}, one by one", resumes, 1),
                _ours(job.server, spec, f"{MARINA}, {MINI_BATCHES}", resumes, MINI_BATCH),
            ]
            entries += measure_rounds(strategies, ROUNDS, job.progress)[0]
    title = f"time for a resume ({', '.join(spec.name for spec in specs)}), after Darwinbox"
    return Result(KIND, title, entries, job.price)


def layout(result: Result) -> TableLayout:
    """Milliseconds per resume, and the time saved compared with the eager model padded to 512 tokens."""
    bases = {entry.configuration.model: entry for entry in result.entries if entry.configuration.strategy == EAGER}
    rows = []
    saved_by: dict[str, list[float]] = {}
    for figure in figures_of(result):
        configuration, rounds = figure.entry.configuration, figure.entry.rounds
        base = bases[configuration.model]
        times = bootstrap([1000 / measurement.throughput for measurement in rounds])
        saved = [
            (1 - base_measurement.throughput / measurement.throughput) * 100
            for measurement, base_measurement in zip(rounds, base.rounds, strict=False)
        ]
        reduction = "" if figure.entry is base else f"{spread(bootstrap(saved))} %"
        rows.append([str(configuration.model), str(configuration.strategy), spread(times), reduction])
        if str(configuration.strategy).startswith(MARINA):
            saved_by.setdefault(str(configuration.strategy), []).append(bootstrap(saved).median)
    columns = ["model", "strategy", "ms per resume", "time saved"]
    saved_alone, saved_batched = (
        " and ".join(f"{value:.0f} %" for value in saved_by.get(f"{MARINA}, {mode}", []))
        for mode in ("one by one", MINI_BATCHES)
    )
    measured_here = {"time saved, one by one": saved_alone, "time saved, in mini-batches": saved_batched}
    notes = [
        f"resumes of {WORDS[0]} to {WORDS[1]} words; eager: transformers and torch in float32 on all cores, without a "
        "server; Marina: through TorchServe, one connection, precision as its spec says",
        *warnings_of(result),
        "here: against eager models on this machine, of each model in order",
        source_note(KIND),
    ]
    conclusion = ""
    if saved_alone and saved_batched:
        conclusion = (
            f"Marina saves {saved_alone} of the time per resume one by one, and {saved_batched} in mini-batches."
        )
    return TableLayout([Table(columns, rows, 2), published_table(KIND, measured_here)], notes, conclusion)


def _resumes(spec: Spec, project: Project) -> list[str]:
    """Resumes composed of the model's own examples, or of generated texts."""
    if spec.examples:
        lines = [
            instance.text for instance in read_texts(project.root / spec.examples, spec.instance_fields, spec.name)
        ]
    else:
        lines = mixed_texts()
    rng = random.Random(0)
    resumes = []
    for _ in range(RESUMES):
        words: list[str] = []
        word_count = rng.randint(*WORDS)
        while len(words) < word_count:
            words += rng.choice(lines).split()
        resumes.append(" ".join(words[:word_count]))
    return resumes


def _workload(resumes: list[str], instances: int) -> LoadCase:
    load = Load(connections=1, window_s=SECONDS, seconds=SECONDS)
    return LoadCase(load, Payload(bodies_of(list(resumes), instances), instances, "resumes"))


def _ours(server: BenchmarkServer, spec: Spec, name: str, resumes: list[str], instances: int) -> Strategy:
    configuration = Configuration(model=spec.name, strategy=name)
    return served_strategy(server, f"{spec.name}, {name}", configuration, spec, [_workload(resumes, instances)])


def _eager(
    model: EagerModel, spec: Spec, name: str, resumes: list[str], padded: int | None, instances: int
) -> Strategy:
    eager_configuration = Configuration(engine="torch", precision="f32", instances=instances, texts="resumes")

    def measure(_: LoadCase) -> tuple[Configuration, Measurement]:
        return eager_configuration, model.run(resumes, padded, instances, SECONDS)

    configuration = Configuration(model=spec.name, strategy=name)
    workloads = [_workload(resumes, instances)]
    return Strategy(f"{spec.name}, {name}", configuration, workloads, lambda: nullcontext(measure))
