"""Builds an artifact's folder, graph by graph; what is there from an earlier run is kept."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from handlers.worker.artifact import (
    ARTIFACT_FILE,
    FORMAT,
    GOLDEN_FILE,
    TOKENIZER_FILE,
    artifact_from,
    sha256_of,
)
from handlers.worker.golden import GoldenRow, check_tokenizer
from handlers.worker.placement import group_cores
from handlers.worker.placement.discovery import cpu_cores
from handlers.worker.placement.limits import free_memory
from handlers.worker.rows.plan import longest
from handlers.worker.rows.tokenizer import RowTokenizer
from handlers.worker.values import Instance
from marina.compiler.cache import discard
from marina.compiler.graphs import DONE, make_graphs, once
from marina.compiler.job import Job
from marina.compiler.options import compiler_record
from marina.compiler.precision import precision_of
from marina.compiler.runtime import Runtime
from marina.compiler.source import count_weights
from marina.compiler.timing import COMPILING, write_times
from marina.compiler.tolerance import gate, tolerance
from marina.compiler.trials import Trials
from marina.compiler.workshop import Workshop
from marina.console import Progress
from marina.errors import CompileError, SourceError
from marina.files import write_json

if TYPE_CHECKING:
    from marina.compiler.export import ExportedModel

# of memory: for libraries, and for each weight in float32 as the model and as an engine's copy of it, and, while the
# reference is computed, in float64 beside the model
BYTES, BYTES_A_WEIGHT = 500_000_000, 12


def build_artifact(job: Job, folder: Path, progress: Progress) -> None:
    """Write the artifact of a job to a folder; artifact.json comes last.

    Times go to a file beside the folder.

    Raises:
        SourceError, CompileError: the model cannot be loaded or compiled, or a graph is not
            faithful.
    """
    # transformers and torch are slow to import, and a job that is done already does not need them
    import torch

    from marina.compiler.export import export_model
    from marina.compiler.reference import choose_golden, open_reference, reference_rows

    _check_memory(job)
    torch.set_num_threads(len(cpu_cores()))  # PyTorch knows no quota of CPU time
    shapes = job.spec.shapes.listed()
    steps = 2 * len(shapes) + 4
    for name in ("graphs", DONE):
        (folder / name).mkdir(parents=True, exist_ok=True)

    def reference(instances: list[Instance], every_prompt: bool = False) -> list[GoldenRow]:
        # loaded anew, and let go of: its weights are as large as the model's that is compiled
        opened = open_reference(job.spec, job.source)
        return reference_rows(opened, job.spec, instances, longest(shapes), every_prompt)

    progress("loading the model", 0, steps)
    model = export_model(job.spec, job.source)
    _check_length(job, model)
    _check_prompts(job, model)

    progress("computing reference outputs", 1, steps)
    rows = reference(job.examples.parity, every_prompt=True)
    _check_shortest(job, rows)
    _check_words(job, rows, model)
    artifact = artifact_from(_fields(job, model), folder)
    write_json(folder / GOLDEN_FILE, [_golden_entry(row) for row in choose_golden(rows)])
    _write_tokenizer(model.tokenizer, folder / TOKENIZER_FILE)
    check_tokenizer(rows, RowTokenizer(folder / TOKENIZER_FILE, artifact.truncation_side), longest(shapes))

    with closing(Runtime(job, artifact)) as runtime:
        workshop = Workshop(job, model, artifact, rows, runtime)
        trials = Trials(job, artifact, workshop.compile_into, runtime, reference)
        progress("choosing the precision" if job.spec.precision == "auto" else "checking the precision", 2, steps)
        settled = once(folder / DONE / "precision.json", trials.settle)
        gated = settled["precision"]
        artifact = replace(artifact, precision=gated, tolerance=gate(job, gated))
        records, recipe = make_graphs(workshop, artifact, lambda what, done: progress(what, 3 + done, steps))
        if job.options:
            artifact = replace(artifact, precision=precision_of(job.spec, recipe.mitigations))
            settled = once(folder / DONE / "judged.json", partial(trials.judge, records, artifact))
        settled = dict(settled)
        measured = settled.pop("measured")

        progress("timing the graphs", steps - 1, steps)
        compiling = {shape: {name: record.pop(name) for name in COMPILING} for shape, record in zip(shapes, records)}
        fields = {**_fields(job, model), **settled, "compiler": compiler_record(job, recipe, job.device)}
        times = runtime.time(artifact_from({**fields, "graphs": records}, folder)) if job.device else {}
    write_times(folder, times, compiling, measured, group_cores(job.spec.core_groups))
    discard(folder / DONE)
    for left_behind in (folder / "graphs").glob("*.partial"):
        left_behind.unlink()
    allowed = tolerance(job, model, rows, records, gated)
    fields = {**fields, "tolerance": allowed, "graphs": records, "files": _files(folder)}
    write_json(folder / ARTIFACT_FILE, fields)


def _check_memory(job: Job) -> None:
    need = BYTES + BYTES_A_WEIGHT * count_weights(job.source)
    free = free_memory()
    if free < need:
        raise CompileError(
            f"{job.spec.name}: compiling needs about {need / 1e9:.1f} GB of memory, and {free / 1e9:.1f} GB are free, "
            "within the limit of the container if there is one; free some, or compile elsewhere"
        )


def _check_length(job: Job, model: ExportedModel) -> None:
    length = longest(job.spec.shapes.listed())
    if model.positions and length > model.positions:
        raise CompileError(
            f"{job.spec.name}: a shape of {length} tokens is more than the model can read ({model.positions}); "
            "lower shapes.sequence_lengths"
        )


def _check_prompts(job: Job, model: ExportedModel) -> None:
    length = longest(job.spec.shapes.listed())
    for name, prompt in model.prompts.items():
        tokens = len(model.tokenizer(prompt.text, verbose=False)["input_ids"])
        if prompt.text and tokens >= length:
            raise CompileError(
                f"{job.spec.name}: the prompt {name!r} has {tokens} tokens, which leaves no room for a text in the "
                f"longest shape ({length}); raise shapes.sequence_lengths"
            )


def _check_words(job: Job, rows: list[GoldenRow], model: ExportedModel) -> None:
    special = set(model.tokenizer.all_special_ids)
    if not any(set(row.row.ids) - special for row in rows):
        raise SourceError(
            f"{job.spec.name}: the tokenizer of source {job.spec.source} knows no word: every text is made of special "
            "tokens alone, so that different texts look the same; save the model's own there with its save_pretrained"
        )


def _check_shortest(job: Job, rows: list[GoldenRow]) -> None:
    length = min(shape.sequence_length for shape in job.spec.shapes.listed())
    if not any(len(row.row.ids) <= length for row in rows):
        raise CompileError(f"{job.spec.name}: no text fits the shape of {length} tokens; compile longer ones")


def _fields(job: Job, model: ExportedModel) -> dict[str, Any]:
    """`artifact.json` but for its graphs and files."""
    spec = job.spec
    special_tokens = {"cls": model.tokenizer.cls_token_id, "unk": model.tokenizer.unk_token_id}
    return {
        "format": FORMAT,
        "name": spec.name,
        "version": spec.version,
        "task": spec.task,
        "source": {**spec.source.model_dump(exclude_none=True), "sha256": job.weights},
        "engine": spec.engine,
        "precision": precision_of(spec, ()),
        "decided": "",
        "tried": [],
        "inputs": model.inputs,
        "outputs": model.outputs,
        "pad_token_id": model.tokenizer.pad_token_id or 0,
        "pad_token_type_id": model.tokenizer.pad_token_type_id,
        "truncation_side": model.tokenizer.truncation_side,
        "padding_side": model.tokenizer.padding_side,
        "special_tokens": {name: number for name, number in special_tokens.items() if number is not None},
        "heads": {name: {"labels": head.labels, "activation": head.activation} for name, head in model.heads.items()},
        "prompts": {name: prompt._asdict() for name, prompt in model.prompts.items()},
        "default_prompt": model.default_prompt,
        "unit_length": model.unit_length,
        "tolerance": spec.parity.tolerance,
        "compiler": {},
        "versions": job.versions,
        "graphs": [],
        "files": {},
    }


def _files(folder: Path) -> dict[str, Any]:
    return {
        str(path.relative_to(folder)): {"bytes": path.stat().st_size, "sha256": sha256_of(path)}
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name != ARTIFACT_FILE
    }


def _golden_entry(row: GoldenRow) -> dict[str, Any]:
    return {
        "text": row.instance.text,
        "text_pair": row.instance.text_pair,
        "ids": row.row.ids,
        "type_ids": row.row.type_ids,
        "prompt_tokens": row.row.prompt_tokens,
        "outputs": [output.tolist() for output in row.outputs],
    }


def _write_tokenizer(tokenizer: Any, path: Path) -> None:
    from tokenizers import Tokenizer

    own = Tokenizer.from_str(tokenizer.backend_tokenizer.to_str())
    own.no_truncation()
    own.no_padding()
    own.save(str(path))
