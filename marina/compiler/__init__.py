"""Compiles a model spec into an artifact.

spec -> source -> exported model -> graphs, each checked against the reference -> artifact
"""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import Any, Callable, NamedTuple

from handlers.worker.artifact import (
    ARTIFACT_FILE,
    FORMAT,
    GOLDEN_FILE,
    TOKENIZER_FILE,
    Artifact,
    artifact_from,
    sha256_of,
)
from handlers.worker.cores import worker_cores
from handlers.worker.engines import Engine, open_engine
from handlers.worker.golden import GoldenRow, check_tokenizer
from handlers.worker.parsing import Instance
from handlers.worker.plan import Shape, longest
from handlers.worker.tokenizing import RowTokenizer
from marina.compiler.cache import artifact_key, discard, exclusive, is_complete
from marina.compiler.engines import Compiler, open_compiler, package_versions
from marina.compiler.examples import read_examples
from marina.compiler.parity import measure_parity
from marina.compiler.source import find_source, fingerprint
from marina.compiler.timing import time_graph, write_times
from marina.errors import CompileError
from marina.project import Project
from marina.spec import Spec

# what is being done, steps done, steps in all
Progress = Callable[[str, int, int], None]
DONE = "done"  # in a partial artifact: a record for each graph that is finished


class Compiled(NamedTuple):
    """The result of `compile_model`: the artifact's folder, and whether it was there already."""

    folder: Path
    reused: bool


def compile_model(spec: Spec, project: Project, progress: Progress) -> Compiled:
    """Make the artifact of a spec, or find it in the cache.

    Work that was cut off is taken up where it stopped; a second process waits for the first.

    Raises:
        SourceError, CompileError, SpecError: nothing is left behind.
    """
    source = find_source(spec.source, project.root)
    examples = read_examples(spec, project.root)
    versions = package_versions(spec.engine)
    weights = fingerprint(source)
    texts = hashlib.sha256(json.dumps(examples).encode("utf-8", "surrogatepass")).hexdigest()
    folder = project.artifacts / spec.name / artifact_key(spec, weights, texts, versions)
    if is_complete(folder):
        return Compiled(folder, reused=True)
    steps = len(spec.shapes.listed()) + 2
    with exclusive(folder, lambda: progress("waiting for another run that compiles the same", 0, steps)):
        if is_complete(folder):
            return Compiled(folder, reused=True)
        discard(folder)
        _build(spec, source, examples, {"weights": weights, "versions": versions}, folder, progress)
    return Compiled(folder, reused=False)


def _build(
    spec: Spec, source: Path, examples: list[Instance], origin: dict[str, Any], folder: Path, progress: Progress
) -> None:
    partial = folder.with_suffix(".partial")
    try:
        _fill(spec, source, examples, origin, partial, folder, progress)
    except Exception:
        discard(partial)
        raise
    partial.rename(folder)


def _fill(
    spec: Spec,
    source: Path,
    examples: list[Instance],
    origin: dict[str, Any],
    partial: Path,
    folder: Path,
    progress: Progress,
) -> None:
    from marina.compiler.export import ExportedModel, export_model
    from marina.compiler.reference import choose_golden, reference_rows

    shapes = spec.shapes.listed()
    steps = len(shapes) + 2
    for name in ("graphs", DONE):
        (partial / name).mkdir(parents=True, exist_ok=True)

    progress("loading the model", 0, steps)
    model: ExportedModel = export_model(spec, source)
    if model.positions and longest(shapes) > model.positions:
        raise CompileError(
            f"{spec.name}: a shape of {longest(shapes)} tokens is more than the model can read ({model.positions}); "
            "lower shapes.sequence_lengths"
        )

    progress("computing reference outputs", 1, steps)
    rows = reference_rows(model, examples, longest(shapes))
    shortest_shape = min(shape.sequence_length for shape in shapes)
    if not any(len(row.row.ids) <= shortest_shape for row in rows):
        raise CompileError(f"{spec.name}: no example fits the shape of {shortest_shape} tokens; compile longer ones")
    golden = choose_golden(rows)
    _write_json(partial / GOLDEN_FILE, [_golden_entry(row) for row in golden])
    _write_tokenizer(model.tokenizer, partial / TOKENIZER_FILE)
    fields = _fields(spec, model, origin)
    artifact = artifact_from(fields, partial)
    check_tokenizer(
        rows, RowTokenizer(partial / TOKENIZER_FILE, longest(shapes), "truncate", artifact.truncation_side)
    )

    engine = open_engine(spec.engine, worker_cores(spec.core_groups))
    compiler: Compiler | None = None
    for number, shape in enumerate(shapes):
        progress(f"graph {shape}", number + 2, steps)
        record = partial / DONE / f"{shape}.json"
        if not record.exists():
            compiler = compiler or open_compiler(spec.engine, model)
            _write_json(record, _compile_graph(compiler, engine, shape, rows, artifact))

    records = {shape: json.loads((partial / DONE / f"{shape}.json").read_text()) for shape in shapes}
    times = {shape: record.pop("milliseconds") for shape, record in records.items()}
    write_times(folder, times, worker_cores(spec.core_groups))
    fields["graphs"] = list(records.values())
    discard(partial / DONE)
    fields["files"] = {
        str(path.relative_to(partial)): {"bytes": path.stat().st_size, "sha256": sha256_of(path)}
        for path in sorted(partial.rglob("*"))
        if path.is_file() and path.name != ARTIFACT_FILE
    }
    _write_json(partial / ARTIFACT_FILE, fields)


def _compile_graph(
    compiler: Compiler, engine: Engine, shape: Shape, rows: list[GoldenRow], artifact: Artifact
) -> dict[str, Any]:
    """Compile, check and time one graph; returns its entry in `artifact.json`, and its time."""
    paths = compiler.compile(shape, artifact.folder)
    graph = engine.load(paths.graph, paths.weights)
    return {
        "shape": str(shape),
        "graph": str(paths.graph.relative_to(artifact.folder)),
        "weights": str(paths.weights.relative_to(artifact.folder)) if paths.weights else None,
        "parity": measure_parity(graph, shape, rows, artifact),
        "milliseconds": time_graph(graph, shape, artifact),
    }


def _fields(spec: Spec, model: Any, origin: dict[str, Any]) -> dict[str, Any]:
    """`artifact.json` but for its graphs and files."""
    return {
        "format": FORMAT,
        "name": spec.name,
        "version": spec.version,
        "task": spec.task,
        "source": {**spec.source.model_dump(exclude_none=True), "sha256": origin["weights"]},
        "engine": spec.engine,
        "precision": spec.precision,
        "inputs": model.inputs,
        "outputs": model.outputs,
        "pad_token_id": model.tokenizer.pad_token_id or 0,
        "pad_token_type_id": model.tokenizer.pad_token_type_id,
        "truncation_side": model.tokenizer.truncation_side,
        "labels": model.labels,
        "activation": model.activation,
        "tolerance": spec.parity.tolerance,
        "versions": origin["versions"],
        "graphs": [],
        "files": {},
    }


def _golden_entry(row: GoldenRow) -> dict[str, Any]:
    return {
        "text": row.instance.text,
        "text_pair": row.instance.text_pair,
        "ids": row.row.ids,
        "type_ids": row.row.type_ids,
        "outputs": [output.tolist() for output in row.outputs],
    }


def _write_tokenizer(tokenizer: Any, path: Path) -> None:
    from tokenizers import Tokenizer

    own = Tokenizer.from_str(tokenizer.backend_tokenizer.to_str())
    own.no_truncation()
    own.no_padding()
    own.save(str(path))


def _write_json(path: Path, document: Any) -> None:
    """Write a file whole or not at all."""
    temporary = path.with_suffix(".tmp")
    temporary.write_text(json.dumps(document, indent=1, ensure_ascii=True) + "\n", encoding="utf-8")
    os.replace(temporary, path)
