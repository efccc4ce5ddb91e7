"""Sparse embeddings, reranking and zero-shot classification against libraries: `python -m benchmarks tasks`.

The models have the encoder of all-MiniLM-L6-v2 and heads with random weights, since only their sizes affect speed. All
strategies answer the same texts in one process on all cores: the bare graphs, `marina.Scorer`, and the models' own
libraries, sentence-transformers or transformers, with torch in float32.
"""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from benchmarks.random_models import TOKENIZER
from handlers.worker.archive.artifact import read_artifact
from handlers.worker.placement.discovery import cpu_cores
from handlers.worker.tasks import TASKS as KNOWN
from marina.bench.load.histogram import new_histogram
from marina.bench.load.measurement import Measurement
from marina.bench.load.mix import mixed_texts, random_text
from marina.bench.load.payload import LoadCase, Payload
from marina.bench.load.profile import Load
from marina.bench.report.figures import figures_of, throughput_ratio
from marina.bench.report.results import Configuration, Result
from marina.bench.report.table import Table, TableLayout, spread
from marina.bench.server.bare_graphs import bare_graphs
from marina.bench.server.spawned import spawned_process
from marina.bench.sweep.rounds import Measure, Strategy, measure_rounds
from marina.bench.sweep.strategies import bare_strategy
from marina.bench.tables.job import TableJob
from marina.compiler.examples import instance_of
from marina.compiler.hugging_face import find_source
from marina.spec import Spec, make_spec

KIND = "table-tasks"
SPARSE, RERANK, ZERO_SHOT = TASKS = "sparse-embedding", "reranking", "zero-shot-classification"
LABELS = ["billing", "delivery", "a technical problem", "praise"]
TEXTS = 256  # of which each is a document for the same query, or has a row for each label
QUERY_TOKENS, MAX_LENGTH = 8, 128
ACTIVE = 0.005  # of the vocabulary, about what trained SPLADE models leave
PRECISIONS = ("f32", "auto")
BARE, SCORER, LIBRARY = "bare graphs", "marina.Scorer", "its library, torch, f32"
ROUNDS, SECONDS = 3, 8.0


class Case(NamedTuple):
    """A model and what it reads."""

    task: str
    folder: str
    instances: list[tuple[str, ...]]

    @property
    def columns(self) -> dict[str, list[str]]:
        """The instances by the names of their fields."""
        return dict(zip(KNOWN[self.task].fields.names, map(list, zip(*self.instances, strict=True)), strict=True))


def measure(job: TableJob) -> Result:
    """Measure the table."""
    folder = job.project.root / "build" / "bench" / "tasks"
    strategies, precisions = [], {}
    with ExitStack() as stack:
        for task in TASKS:
            job.progress(f"making a model for {task}", 0, 1)
            case = Case(task, str(save_model(folder / task, task, job.project.root)), _instances(task))
            strategies.append(_timed(case, LIBRARY, "", library_run))
            for precision in PRECISIONS:
                spec = _spec(case, precision, folder)
                artifact = job.server.archive(spec)
                precisions[spec.name] = read_artifact(artifact).precision
                graphs = stack.enter_context(
                    bare_graphs(spec, artifact, [instance_of(texts) for texts in case.instances])
                )
                bare = _configuration(case, BARE, precision)
                strategies.append(bare_strategy(graphs, spec.name, bare, SECONDS, [], {}))
                archive = str(job.server.project.model_store / f"{spec.name}.mar")
                strategies.append(_timed(case, SCORER, precision, scorer_run, archive))
        entries, _ = measure_rounds(strategies, ROUNDS, job.progress)
    return Result(KIND, "tasks against their libraries", entries, job.price, more={"precisions": precisions})


def _instances(task: str) -> list[tuple[str, ...]]:
    texts = mixed_texts(seed=3)[:TEXTS]
    if task != RERANK:
        return [(text,) for text in texts]
    query = random_text(QUERY_TOKENS, random.Random(0))
    return [(query, text) for text in texts]


def save_model(folder: Path, task: str, root: Path) -> Path:
    """Write a model with the encoder of all-MiniLM-L6-v2, once."""
    import torch
    import transformers

    if (folder / "tokenizer.json").exists():
        return folder
    torch.manual_seed(0)
    source = find_source(TOKENIZER, root)
    tokenizer = transformers.AutoTokenizer.from_pretrained(source, trust_remote_code=False)
    labels = dict(enumerate(("contradiction", "neutral", "entailment")))
    if task == SPARSE:
        model = transformers.BertForMaskedLM.from_pretrained(source, trust_remote_code=False)
        inputs = tokenizer(mixed_texts(seed=4)[:32], padding=True, return_tensors="pt")
        with torch.inference_mode():
            logits = model(**inputs).logits.masked_fill(inputs["attention_mask"].unsqueeze(-1) == 0, float("-inf"))
        model.cls.predictions.bias.data -= logits.amax(1).flatten().quantile(1 - ACTIVE)
    else:
        options = (
            {"num_labels": 1} if task == RERANK else {"id2label": labels, "label2id": {v: k for k, v in labels.items()}}
        )
        model = transformers.BertForSequenceClassification.from_pretrained(source, trust_remote_code=False, **options)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def _spec(case: Case, precision: str, folder: Path) -> Spec:
    examples = folder / f"{case.task}.jsonl"
    names = KNOWN[case.task].fields.names
    texts = [(case.instances[0][0], text) if case.task == RERANK else (text,) for text in mixed_texts(seed=5)[:TEXTS]]
    examples.write_text("".join(json.dumps(dict(zip(names, row, strict=True))) + "\n" for row in texts))
    fields: dict[str, Any] = {
        "name": f"{case.task}-{precision}",
        "task": case.task,
        "source": {"path": case.folder},
        "precision": precision,
        "shapes": {"auto": MAX_LENGTH},
        "examples": str(examples),
        "core_groups": str(len(cpu_cores())),
    }
    return make_spec(fields | ({"parameters": {"candidate_labels": LABELS}} if case.task == ZERO_SHOT else {}))


def scorer_run(case: Case, archive: str) -> Callable[[], None]:
    """`marina.Scorer` with a batch of all instances."""
    import pyarrow as pa

    import marina

    scorer, batch = marina.Scorer(archive), pa.RecordBatch.from_pydict(case.columns)
    return lambda: _check(scorer(batch))


def _check(answers: Any) -> None:
    assert answers["error"].null_count == len(answers)


def library_run(case: Case, _: str) -> Callable[[], None]:
    """The library's own method for a list, with its defaults; the pipeline with the faster of two batch sizes."""
    import torch

    torch.set_num_threads(len(cpu_cores()))
    texts = [instance[0] for instance in case.instances]
    if case.task == SPARSE:
        from sentence_transformers import SparseEncoder

        encoder = SparseEncoder(case.folder, device="cpu", trust_remote_code=False)
        return lambda: encoder.encode(texts, show_progress_bar=False)
    if case.task == RERANK:
        from sentence_transformers import CrossEncoder

        ranker = CrossEncoder(case.folder, device="cpu", trust_remote_code=False)
        return lambda: ranker.predict(case.instances, show_progress_bar=False)
    from transformers import pipeline

    classifier = pipeline("zero-shot-classification", model=case.folder, device="cpu", trust_remote_code=False)
    runs = {size: lambda size=size: classifier(texts, LABELS, batch_size=size) for size in (1, 32)}
    return min(runs.values(), key=_seconds)


def _seconds(run: Callable[[], None]) -> float:
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


_runs: list[Callable[[], None]] = []  # of a process: one


def _load(make: Callable[[Case, str], Callable[[], None]], case: Case, archive: str) -> None:
    _runs[:] = [make(case, archive)]
    _runs[0]()


def _repeat(seconds: float) -> tuple[float, int]:
    """Run until so many seconds have passed; returns the seconds and the number of runs."""
    runs, start = 0, time.perf_counter()
    while time.perf_counter() < start + seconds:
        _runs[0]()
        runs += 1
    return time.perf_counter() - start, runs


def _timed(
    case: Case, part: str, precision: str, make: Callable[[Case, str], Callable[[], None]], archive: str = ""
) -> Strategy:
    """Something that answers all instances, in a process of its own."""

    @contextmanager
    def start() -> Iterator[Measure]:
        with spawned_process() as process:
            process.submit(_load, make, case, archive).result()

            def measure(_: LoadCase) -> tuple[Configuration, Measurement]:
                seconds, runs = process.submit(_repeat, SECONDS).result()
                texts = runs * TEXTS
                return Configuration(), Measurement.of_calls(seconds, runs, texts, texts / seconds, new_histogram())

            yield measure

    return Strategy(f"{case.task}, {part} {precision}", _configuration(case, part, precision), [_workload()], start)


def _configuration(case: Case, part: str, precision: str) -> Configuration:
    return Configuration(model=case.task, part=part, precision=precision or None)


def _workload() -> LoadCase:
    return LoadCase(Load(1), Payload([], 1, "mix"))


def layout(result: Result) -> TableLayout:
    """Instances per second, and the ratios of `marina.Scorer` to the bare graphs and to the library, within rounds."""
    figures = figures_of(result)
    rounds = {_key(figure.entry.configuration): figure.entry.rounds for figure in figures}
    rows, shares, gains = [], [], []
    for figure in figures:
        task, part, precision = _key(figure.entry.configuration)
        cells = ["", ""]
        if part == SCORER:
            share = throughput_ratio(rounds[task, SCORER, precision], rounds[task, BARE, precision])
            gain = throughput_ratio(rounds[task, SCORER, precision], rounds[task, LIBRARY, ""])
            cells = [f"{share.median:.0%}" if share else "", f"{gain.median:.1f}x" if gain else ""]
            shares += [share.median] if share else []
            gains += [gain.median] if gain else []
        kept = result.more["precisions"].get(f"{task}-{precision}", "")
        rows.append(
            [
                task,
                part,
                f"{precision}: {kept}" if precision == "auto" else precision,
                spread(figure.throughput),
                *cells,
            ]
        )
    columns = ["task", "strategy", "precision", "instances/s", "of bare graphs", "of the library"]
    notes = [
        f"{TEXTS} texts of the built-in mix, each with the same query of {QUERY_TOKENS} words (reranking) or with "
        f"{len(LABELS)} labels (zero-shot classification)",
        "the encoder of all-MiniLM-L6-v2 with random heads; of sparse embeddings, a bias leaves about "
        f"{ACTIVE:.1%} of the vocabulary",
    ]
    conclusion = (
        f"marina.Scorer keeps {min(shares):.0%} to {max(shares):.0%} of the bare graphs, and answers {min(gains):.1f} "
        f"to {max(gains):.1f} times as many instances as the libraries; median {median(gains):.1f}."
    )
    return TableLayout([Table(columns, rows, 3)], notes, conclusion)


def _key(configuration: Configuration) -> tuple[str, str, str]:
    return str(configuration.model), str(configuration.part), configuration.precision or ""
