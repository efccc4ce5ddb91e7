"""After Darwinbox's talent search: the time that a resume takes, eager and compiled, alone and in mini-batches."""

from __future__ import annotations

import multiprocessing
import random
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

from handlers.worker.tasks import TASKS
from marina.bench.costs import Price
from marina.bench.histogram import new_histogram, record
from marina.bench.load import Load
from marina.bench.measured import Measured
from marina.bench.mix import mixed
from marina.bench.report.figures import figures_of
from marina.bench.report.table import Table, spread, warnings_of
from marina.bench.result import Result
from marina.bench.stage import Stage
from marina.bench.statistics import bootstrap
from marina.bench.tables.published import claim_note
from marina.bench.tables.ways import Way, measure_ways, served_way
from marina.bench.texts import Asked, bodies_of
from marina.compiler.source import find_source
from marina.console import Progress
from marina.errors import MarinaError
from marina.project import Project
from marina.spec import Spec, read_spec
from marina.texts import read_texts

KIND = "table-darwinbox"
MODELS = ("resume-search", "resume-ner")
TASK_MODELS = {"sentence-embedding": "AutoModel", "token-classification": "AutoModelForTokenClassification"}
RESUMES = 64
WORDS = (60, 150)  # in a resume, so that none is cut by the models, which read 256 tokens and more
PADDED, MINI_BATCH = 512, 16
ROUNDS, SECONDS = 3, 8.0
EAGER = f"eager, padded to {PADDED}"


def measure(
    stage: Stage, project: Project, name: str | None, engine: str | None, price: Price | None, progress: Progress
) -> Result:
    """Measure it for a model, or for the demonstration models; MarinaError if it is of another task."""
    overrides = {"engine": engine} if engine else None
    specs = [read_spec(project.models / f"{one}.yaml", overrides) for one in ([name] if name else MODELS)]
    for spec in specs:
        if spec.task not in TASK_MODELS:
            raise MarinaError(f"{KIND} is for the tasks {' and '.join(TASK_MODELS)}, and {spec.name} is of {spec.task}")
    entries = []
    for spec in specs:
        resumes = _resumes(spec, project)
        with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as process:
            source = find_source(spec.source, project.root)
            process.submit(_load, source, TASK_MODELS[spec.task]).result()
            ways = [
                _eager(process, spec, EAGER, resumes, PADDED, 1),
                _eager(
                    process, spec, f"eager, dynamic padding in mini-batches of {MINI_BATCH}", resumes, None, MINI_BATCH
                ),
                _ours(stage, spec, "Marina, one by one", resumes, 1),
                _ours(stage, spec, f"Marina, mini-batches of {MINI_BATCH}", resumes, MINI_BATCH),
            ]
            entries += measure_ways(ways, ROUNDS, progress)
    title = f"time for a resume ({', '.join(spec.name for spec in specs)}), after Darwinbox"
    return Result(KIND, title, entries, price)


def tables(result: Result) -> list[tuple[str, Table]]:
    """Milliseconds a resume, and how much less that is than eager at 512."""
    rows = []
    for one in figures_of(result):
        configuration = one.entry.configuration
        base = next(
            entry
            for entry in result.entries
            if entry.configuration["model"] == configuration["model"] and entry.configuration["way"] == EAGER
        )
        times = [1000 / found.throughput for found in one.entry.rounds]
        saved = [(1 - other.throughput / found.throughput) * 100 for found, other in zip(one.entry.rounds, base.rounds)]
        reduction = "" if one.entry is base else f"{spread(bootstrap(saved))} %"
        published = "87 %, Inferentia" if configuration["way"].startswith("Marina") else ""
        rows.append([configuration["model"], configuration["way"], spread(bootstrap(times)), reduction, published])
    columns = ["model", "way", "ms a resume", "shorter by", "published: shorter by, on"]
    return [("", Table(columns, rows, 3))]


def notes(result: Result) -> list[str]:
    """What a reader must know."""
    return [
        f"resumes of {WORDS[0]} to {WORDS[1]} words; eager: transformers and torch in float32 on all cores, without a "
        "server; Marina: through TorchServe, one connection, precision as its spec says",
        *warnings_of(result),
        claim_note(KIND),
    ]


def _resumes(spec: Spec, project: Project) -> list[str]:
    """Resumes put together from the model's own examples, or from made-up texts."""
    if spec.examples:
        lines = [one.text for one in read_texts(project.root / spec.examples, TASKS[spec.task].fields, spec.name)]
    else:
        lines = mixed()
    source = random.Random(0)
    resumes = []
    for _ in range(RESUMES):
        words: list[str] = []
        wanted = source.randint(*WORDS)
        while len(words) < wanted:
            words += source.choice(lines).split()
        resumes.append(" ".join(words[:wanted]))
    return resumes


def _ours(stage: Stage, spec: Spec, way: str, resumes: list[str], instances: int) -> Way:
    asked = Asked(bodies_of(list(resumes), instances), instances, "resumes")
    load = Load(connections=1, window_s=SECONDS, seconds=SECONDS)
    return served_way(stage, {"model": spec.name, "way": way}, spec, load, asked)


def _eager(
    process: ProcessPoolExecutor, spec: Spec, way: str, resumes: list[str], padded: int | None, instances: int
) -> Way:
    def run() -> tuple[dict[str, Any], Measured]:
        measured = process.submit(_run_eager, resumes, padded, instances, SECONDS).result()
        return {"engine": "torch", "precision": "f32", "instances": instances, "texts": "resumes"}, measured

    return Way({"model": spec.name, "way": way}, run)


_eager_model: list[Any] = []  # of the process that runs it: tokenizer and model


def _load(source: Path, kind: str) -> None:
    import transformers
    from transformers.utils import logging

    logging.set_verbosity_error()
    logging.disable_progress_bar()
    model = getattr(transformers, kind).from_pretrained(source, trust_remote_code=False).eval()
    _eager_model[:] = [transformers.AutoTokenizer.from_pretrained(source, trust_remote_code=False), model]


def _run_eager(resumes: list[str], padded: int | None, instances: int, seconds: float) -> Measured:
    """Tokenize and run, over and over; latency is of one mini-batch."""
    import torch

    tokenizer, model = _eager_model
    batches = [resumes[start : start + instances] for start in range(0, len(resumes), instances)]
    padding = (
        {"padding": "max_length", "max_length": padded} if padded else {"padding": "longest", "max_length": PADDED}
    )
    times, answered = new_histogram(), 0
    with torch.inference_mode():
        model(**tokenizer(batches[0], truncation=True, return_tensors="pt", **padding))
        begin = time.perf_counter()
        while time.perf_counter() < begin + seconds:
            batch = batches[times.total_count % len(batches)]
            start = time.perf_counter()
            model(**tokenizer(batch, truncation=True, return_tensors="pt", **padding))
            record(times, time.perf_counter() - start)
            answered += len(batch)
        spent = time.perf_counter() - begin
    return Measured.without_load(spent, times.total_count, answered, answered / spent, times)
