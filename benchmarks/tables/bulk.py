"""Jobs in bulk against the bare graphs, and against sentence-transformers: `make bench-bulk`.

All strategies embed the same texts on all cores of the machine. Memory is measured with a model that computes next to
nothing, as a million rows take it minutes.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from pathlib import Path
from statistics import median
from typing import Any

import pyarrow as pa
from pyarrow import parquet

from benchmarks.peers.process import HERE, install
from benchmarks.processes import megabytes
from benchmarks.random_models import tiny_bert
from handlers.worker.placement.discovery import cpu_cores
from handlers.worker.values import Instance
from marina.bench.load.histogram import encoded, new_histogram
from marina.bench.load.measurement import Measurement
from marina.bench.load.mix import mixed_texts, random_text
from marina.bench.load.payload import LoadCase, Payload
from marina.bench.load.profile import Load
from marina.bench.report.figures import figures_of, throughput_ratio
from marina.bench.report.results import Configuration, Result
from marina.bench.report.table import Table, TableLayout, number, spread
from marina.bench.server.bare_graphs import BareGraphs, bare_graphs
from marina.bench.sweep.rounds import Measure, Strategy, measure_rounds
from marina.bench.tables.job import TableJob
from marina.compiler.hugging_face import find_source
from marina.drawing import MARINA, PEER, name_bars, new_figure, svg_of
from marina.errors import MarinaError
from marina.shapes.advice import advise
from marina.spec import Spec, make_spec

KIND = "table-bulk"
MODEL = "resume-search"
BARE, SCORE = "bare graphs", "marina score"
TORCH, OPENVINO = "sentence-transformers, torch, f32", "sentence-transformers, OpenVINO, int8"
BACKENDS = {TORCH: "torch", OPENVINO: "openvino"}
TEXTS, FIRST_TEXTS = 16_000, 4_000  # slower strategies, and those that repeat their texts, get the first texts
# tokens of texts; lengths are lognormal, as those of summaries and product descriptions
MEDIAN, SPREAD, LENGTHS = 80, 0.5, (8, 256)
GRAPHS = 32
ROUNDS, BARE_S = 2, 20.0
MEMORY_ROWS = (10_000, 1_000_000)
SAMPLE_S = 0.25


def measure(job: TableJob) -> Result:
    """Measure the table for a model of sentence embeddings; by default, for the demonstration model.

    Raises:
        MarinaError: sentence-transformers cannot be installed, or does not load the model.
    """
    server, progress = job.server, job.progress
    folder = job.project.root / "build" / "bench" / "bulk"
    progress("installing sentence-transformers", 0, 1)
    install("encode", folder)
    texts = generated_texts(TEXTS)
    (folder / "texts.json").write_text(json.dumps(texts[:FIRST_TEXTS]))
    _write_parquet(folder / "texts.parquet", texts, TEXTS)
    base = job.spec(MODEL)
    spec = _bulk_spec(base, job, texts)
    artifact = server.archive(spec)
    source = find_source(base.source, job.project.root)
    row = Configuration(model=base.name, texts="made up")
    strategies = []
    with ExitStack() as stack:
        progress("loading bare graphs", 0, 1)
        graphs = stack.enter_context(bare_graphs(spec, artifact, [Instance(text) for text in texts[:FIRST_TEXTS]]))
        strategies.append(_bare(graphs, row.with_fields_of(Configuration(strategy=BARE))))
        strategies.append(_score(spec, server.project.root, folder, row))
        for name in BACKENDS:
            strategies.append(_encode(name, source, folder, row.with_fields_of(Configuration(strategy=name))))
        entries, _ = measure_rounds(strategies, ROUNDS, progress)
    memory = _memory(job, folder)
    return Result(KIND, f"{base.name} in bulk", entries, job.price, more={"megabytes": memory})


def generated_texts(count: int) -> list[str]:
    """Texts of about 90 tokens on average."""
    rng = random.Random(0)
    min_tokens, max_tokens = LENGTHS
    return [
        random_text(min(max(round(MEDIAN * rng.lognormvariate(0, SPREAD)), min_tokens), max_tokens), rng)
        for _ in range(count)
    ]


def _bulk_spec(base: Spec, job: TableJob, texts: Sequence[str]) -> Spec:
    """The model with a process for each core, and with shapes for these texts."""
    name, groups = f"{base.name}-bulk", ",".join(["1"] * len(cpu_cores()))
    fields = {**base.model_dump(exclude_defaults=True), "name": name, "precision": "auto", "core_groups": groups}
    lengths = job.server.project.root / "lengths.jsonl"
    lengths.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts[:FIRST_TEXTS]))
    shapes = advise(make_spec(fields), job.project, lengths, GRAPHS, 0.0, job.progress, bulk=True).shapes
    return make_spec({**fields, "shapes": {"exact": [str(shape) for shape in shapes]}})


def _write_parquet(path: Path, texts: Sequence[str], rows: int) -> None:
    """Write `rows` rows: the texts in turn."""
    text_array = pa.array(texts)
    with parquet.ParquetWriter(path, pa.schema([("id", pa.int64()), ("text", pa.string())])) as writer:
        for start in range(0, rows, len(text_array)):
            chunk = text_array.slice(0, min(len(text_array), rows - start))
            writer.write_table(pa.table({"id": range(start, start + len(chunk)), "text": chunk}))


def _workload() -> LoadCase:
    return LoadCase(Load(1), Payload([], 1, "made up"))


def _measurement(seconds: float, rows: int, rate: float) -> Measurement:
    return Measurement(round(seconds, 3), 1, rows, round(rate, 3), {}, encoded(new_histogram()))


def _bare(graphs: BareGraphs, row: Configuration) -> Strategy:
    def measure(_: LoadCase) -> tuple[Configuration, Measurement]:
        return Configuration(), graphs.run(BARE_S).measurement(BARE_S)

    return Strategy(BARE, row, [_workload()], lambda: nullcontext(measure))


def _score(spec: Spec, root: Path, folder: Path, row: Configuration) -> Strategy:
    def measure(_: LoadCase) -> tuple[Configuration, Measurement]:
        document = run_score(root, spec.name, folder / "texts.parquet", folder / "answers.parquet")[0]
        shapes = tuple(str(shape) for shape in spec.shapes.listed())
        configuration = Configuration(strategy=f"{SCORE}, int8", shapes=shapes, workers=spec.workers)
        return configuration, _measurement(document["seconds"], document["rows"], document["rows_per_s"])

    return Strategy(SCORE, row, [_workload()], lambda: nullcontext(measure))


def run_score(root: Path, name: str, source: Path, output: Path, watch: bool = False) -> tuple[dict[str, Any], float]:
    """Run `marina score` from the beginning; MarinaError if it fails.

    Args:
        root: of the project.
        name, source, output: model and files.
        watch: whether to watch its memory, which takes it several percent of the time.

    Returns:
        Its output, and the peak memory of its processes together, in MB (PSS); 0 if not watched.
    """
    command = [sys.executable, "-m", "marina", "score", name, "--input", str(source), "--output", str(output)]
    with subprocess.Popen([*command, "--restart", "--json"], cwd=root, stdout=subprocess.PIPE, text=True) as process:
        peak_megabytes = 0.0
        while watch and process.poll() is None:
            peak_megabytes = max(peak_megabytes, megabytes(process.pid))
            time.sleep(SAMPLE_S)
        output_text = process.stdout.read() if process.stdout else ""
    if process.returncode:
        raise MarinaError(f"marina score {name} ended with {process.returncode}")
    return json.loads(output_text), round(peak_megabytes, 1)


def _encode(name: str, source: Path, folder: Path, row: Configuration) -> Strategy:
    shutil.rmtree(folder / "openvino", ignore_errors=True)
    batch = 0  # found in the first round

    @contextmanager
    def start() -> Iterator[Measure]:
        nonlocal batch
        python = folder / "venvs" / "encode" / "bin" / "python"
        texts_file, quantized_folder = folder / "texts.json", folder / "openvino"
        environment = {**os.environ, "PEER_THREADS": str(len(cpu_cores())), "HF_HUB_OFFLINE": "1"}
        command = [
            *(str(part) for part in (python, HERE / "encode.py", BACKENDS[name], source, texts_file, quantized_folder)),
            str(batch),
        ]
        pipe = subprocess.PIPE
        with (
            (folder / "encode.log").open("w") as log,
            subprocess.Popen(command, env=environment, stdin=pipe, stdout=pipe, stderr=log, text=True) as process,
        ):
            assert process.stdin
            assert process.stdout
            try:
                stdin, stdout = process.stdin, process.stdout
                lines = (line.split() for line in iter(stdout.readline, ""))  # libraries print too
                batch = next((int(line[1]) for line in lines if line[:1] == ["ready"]), 0)
                if not batch:
                    raise MarinaError(f"{name} did not start; see {log.name}")

                def measure(_: LoadCase) -> tuple[Configuration, Measurement]:
                    stdin.write("\n")
                    stdin.flush()
                    seconds = float(stdout.readline())
                    configuration = Configuration(batch=batch)
                    return configuration, _measurement(seconds, FIRST_TEXTS, FIRST_TEXTS / seconds)

                yield measure
            finally:
                process.kill()

    return Strategy(name, row, [_workload()], start)


def _memory(job: TableJob, folder: Path) -> dict[str, float]:
    """The peak memory of a job, in MB, by its number of rows."""
    groups = ",".join(["1"] * len(cpu_cores()))
    shapes = [f"32x{length}" for length in (16, 32, 64, 128)]
    spec = make_spec({**tiny_bert(folder / "tiny", shapes), "core_groups": groups})
    job.server.archive(spec)
    megabytes_by_rows = {}
    for rows in MEMORY_ROWS:
        job.progress(f"memory with {rows:,} rows", 0, 1)
        _write_parquet(folder / "many.parquet", mixed_texts(), rows)
        files = folder / "many.parquet", folder / "many-answers.parquet"
        _, peak_megabytes = run_score(job.server.project.root, spec.name, *files, watch=True)
        megabytes_by_rows[f"{rows:,}"] = peak_megabytes
    return megabytes_by_rows


def layout(result: Result) -> TableLayout:
    """Rows per second of each strategy, and the ratios of marina score to the others within rounds; then the memory."""
    figures = figures_of(result)
    score_figure = next(figure for figure in figures if str(figure.entry.configuration.strategy).startswith(SCORE))
    rows = []
    for figure in figures:
        score_ratio = throughput_ratio(score_figure.entry.rounds, figure.entry.rounds)
        ratio_cell = "" if figure is score_figure else spread(score_ratio)
        rows.append([_label(figure.entry.configuration), spread(figure.throughput), ratio_cell])
    table = Table(["", "rows/s", "marina score against it"], rows, 2)
    memory = Table(["rows of a job", "MB of all its processes"], _memory_rows(result), 1, "Memory, of a tiny model")
    notes = [
        f"{TEXTS:,} texts of about 90 tokens (lognormal, {LENGTHS[0]} to {LENGTHS[1]}), of words of the built-in mix; "
        "times are without loading the model",
        f"marina score: {score_figure.entry.configuration.workers} processes of a core each; graphs "
        f"{', '.join(score_figure.entry.configuration.shapes or ())}, as marina shapes --bulk chooses them",
        f"{BARE}: the same graphs in a loop, on {FIRST_TEXTS:,} of the texts",
        f"sentence-transformers: encode, which sorts by length, with the fastest of five sizes of batches, on all "
        f"cores and {FIRST_TEXTS:,} of the texts; its OpenVINO backend with static quantization on these texts",
        "memory: proportional set size at its peak",
    ]
    return TableLayout([table, memory], notes, _conclusion(result))


def _label(configuration: Configuration) -> str:
    name = str(configuration.strategy)
    return f"{name}, batches of {configuration.batch}" if configuration.batch else name


def _memory_rows(result: Result) -> list[list[str]]:
    return [[rows, number(megabytes, 0)] for rows, megabytes in result.more["megabytes"].items()]


def _conclusion(result: Result) -> str:
    rates = {str(entry.configuration.strategy): entry.rounds for entry in result.entries}
    score_rounds = rates[f"{SCORE}, int8"]
    ratios = {
        name: median(
            score_round.throughput / other_round.throughput
            for score_round, other_round in zip(score_rounds, rates[name], strict=False)
        )
        for name in (BARE, *BACKENDS)
    }
    rows_per_s = median(measurement.throughput for measurement in score_rounds)
    return (
        f"marina score answers {rows_per_s:.0f} rows per second: {ratios[BARE]:.0%} of "
        f"what its graphs compute in a loop, {ratios[TORCH]:.1f} times sentence-transformers with torch, and "
        f"{ratios[OPENVINO]:.1f} times its OpenVINO backend in int8."
    )


def draw(result: Result) -> dict[str, bytes]:
    """Rows per second, as bars."""
    figures = sorted(figures_of(result), key=lambda figure: -figure.throughput.median)
    with new_figure(size=(8, 2.6)) as (plot, (axis,)):
        names = [_label(figure.entry.configuration) for figure in figures]
        colours = [MARINA if name.startswith("marina") else PEER for name in names]
        rates = [figure.throughput.median for figure in figures]
        bars = axis.barh(range(len(names)), rates, color=colours)
        axis.bar_label(bars, [number(rate) for rate in rates], padding=4)
        axis.margins(x=0.1)
        axis.set_xlabel("rows per second")
        name_bars(axis, names)
        return {"throughput": svg_of(plot)}
