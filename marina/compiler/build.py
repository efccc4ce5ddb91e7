"""Builds an artifact: exported model, reference, graphs, record; reuses everything that an earlier run finished."""

from __future__ import annotations

import shutil
import time
from contextlib import closing
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING

from handlers.worker.members.golden import GoldenRow, check_tokenizer
from handlers.worker.placement import group_cores
from handlers.worker.placement.discovery import cpu_cores
from handlers.worker.rows.plan import max_sequence_length
from handlers.worker.tokens.reader import open_reader, reader_file
from handlers.worker.values import Instance
from marina.compiler.cache import discard
from marina.compiler.job import CompileJob
from marina.compiler.limits import check_length, check_memory
from marina.compiler.record import MeasuredGraphs, PrecisionRecord, signature_of, write_artifact, write_golden
from marina.console import Progress
from marina.errors import CompileError, SourceError

if TYPE_CHECKING:
    from marina.engines.model import ExportedModel


def build_artifact(job: CompileJob, folder: Path, progress: Progress) -> None:
    """Write the artifact of a job to a folder; artifact.json is written last.

    Times are written to a file beside the folder.

    Raises:
        SourceError, CompileError: the model cannot be loaded or compiled, or a graph differs too much
            from the reference.
    """
    # transformers and torch are slow to import, and a job that is already done does not need them
    import torch

    from marina.compiler.graphs.loader import GraphLoader
    from marina.compiler.graphs.make import DONE, make_graphs, once, precision_of
    from marina.compiler.graphs.packable import export_for
    from marina.compiler.graphs.session import CompileSession
    from marina.compiler.graphs.times import write_times
    from marina.compiler.graphs.tolerance import tolerance
    from marina.compiler.precision.trials import Trials
    from marina.compiler.reference import choose_golden, reference_rows

    check_memory(job, weights := job.source.count_weights())
    torch.set_num_threads(len(cpu_cores()))  # PyTorch ignores a quota of CPU time
    spec, engine = job.spec, job.engine
    steps = 2 * len(job.shapes) + 4
    for name in ("graphs", DONE):
        (folder / name).mkdir(parents=True, exist_ok=True)

    def reference(instances: list[Instance], every_prompt: bool = False) -> list[GoldenRow]:
        # loaded here and released afterwards, because its weights are as large as those of the model being compiled
        return reference_rows(
            job.source.open_reference(), spec, instances, max_sequence_length(job.shapes), every_prompt
        )

    start = time.monotonic()
    progress("loading the model", 0, steps)
    model = replace(export_for(job.shapes, job.source, spec.name), ranges=job.ranges)
    check_length(
        job, model.positions, max((role.filling.length for role in model.roles.values() if role.filling), default=0)
    )
    _check_prompts(job, model)
    _check_ranges(job, model)

    progress("computing reference outputs", 1, steps)
    rows = reference(job.examples.parity, every_prompt=True)
    _check_rows(job, rows, model)
    signature = signature_of(model)
    write_golden(choose_golden(rows), folder)
    _write_reader(model, folder / reader_file(signature))
    check_tokenizer(rows, open_reader(folder.joinpath, signature), max_sequence_length(job.shapes))

    with closing(GraphLoader(job, signature)) as loader:
        session = CompileSession(job, model, signature, folder, rows, loader)
        trials = Trials(session, reference)
        progress("choosing the precision" if spec.precision == "auto" else "checking the precision", 2, steps)
        precision_record = PrecisionRecord(**once(folder / DONE / "precision.json", lambda: asdict(trials.settle())))
        graphs, options = make_graphs(
            session, precision_record.precision, lambda step, done: progress(step, 3 + done, steps)
        )
        precision = precision_of(job, options)
        if engine.compiles_apart:
            judged_record = once(folder / DONE / "judged.json", lambda: asdict(trials.judge(graphs, precision)))
            precision_record = PrecisionRecord(**judged_record)

        progress("timing the graphs", steps - 1, steps)
        files = [graph.file for graph in graphs]
        measured = loader.measure(folder, files, precision_record.precision) if job.runs else MeasuredGraphs({}, 0.0)
    build = {"engine": engine.name, "weights": weights, "seconds": round(time.monotonic() - start, 1)}
    write_times(folder, measured, graphs, precision_record, group_cores(spec.core_groups), build)
    artifact_tolerance = tolerance(job, model, rows, graphs, precision)  # may fail; finished graphs are kept then
    discard(folder / DONE)
    for partial_file in folder.rglob("*.partial"):  # of processes that were killed while they wrote
        partial_file.unlink()
    write_artifact(
        job,
        folder,
        signature,
        precision_record,
        graphs,
        engine.record(job.settings, options, job.runs, [graph.compiled.notes for graph in graphs]),
        artifact_tolerance,
    )


def _check_prompts(job: CompileJob, model: ExportedModel) -> None:
    length = max_sequence_length(job.shapes)
    for name, prompt in model.prompts.items():
        tokens = len(model.tokenizer(prompt.text, verbose=False)["input_ids"])
        if prompt.text and tokens >= length:
            raise CompileError(
                f"{job.spec.name}: the prompt {name!r} has {tokens} tokens, which leaves no room for a text in the "
                f"longest shape ({length}); raise shapes.sequence_lengths"
            )


def _check_ranges(job: CompileJob, model: ExportedModel) -> None:
    if job.ranges and len(job.ranges[0]) != model.dimensions[-1]:
        raise CompileError(
            f"{job.spec.name}: ranges: {job.spec.ranges} is for embeddings of {len(job.ranges[0])} values; the model's "
            f"have {model.dimensions[-1]}"
        )


def _check_rows(job: CompileJob, rows: list[GoldenRow], model: ExportedModel) -> None:
    length = min(shape.sequence_length for shape in job.shapes)
    if not any(len(row.row.ids) <= length for row in rows):
        raise CompileError(f"{job.spec.name}: no text fits the shape of {length} tokens; compile longer ones")
    if not model.tokenizer:
        return
    special = set(model.tokenizer.all_special_ids)
    if not any(set(row.row.ids) - special for row in rows):
        raise SourceError(
            f"{job.spec.name}: the tokenizer of source {job.spec.source} knows no word: every text is made of special "
            "tokens alone, so that different texts look the same; save the model's own there with its save_pretrained"
        )


def _write_reader(model: ExportedModel, path: Path) -> None:
    """Write the tokenizer, or the preprocessing module."""
    from tokenizers import Tokenizer

    if model.preprocess:
        shutil.copyfile(model.preprocess, path)
        return
    tokenizer = Tokenizer.from_str(model.tokenizer.backend_tokenizer.to_str())
    tokenizer.no_truncation()
    tokenizer.no_padding()
    tokenizer.save(str(path))
