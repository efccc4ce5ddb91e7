"""What compiling records: of each graph, of the precision, and of the artifact as a whole."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from handlers.worker.artifact import ARTIFACT_FILE, FORMAT, GOLDEN_FILE, GraphFile, Signature, sha256_of
from handlers.worker.golden import GoldenRow
from handlers.worker.values import Shape
from marina.compiler.job import Job
from marina.files import write_json


@dataclass(frozen=True)
class CompiledGraph:
    """One graph as a compiler left it.

    Attributes:
        shape: of its inputs.
        graph, weights: its files, relative to the artifact's folder.
        notes: what else `artifact.json` is to say of it, as JSON types.
        seconds: that compiling took.
    """

    shape: Shape
    graph: str
    weights: str | None
    notes: Mapping[str, Any]
    seconds: float

    def paths(self, folder: Path) -> tuple[Path, Path | None]:
        """Where the graph and its weights lie, from the artifact's folder."""
        return GraphFile(self.shape, self.graph, self.weights, None).paths(folder)

    def as_json(self) -> dict[str, Any]:
        """As JSON types; `from_json` gives an equal value."""
        return {**vars(self), "shape": str(self.shape)}

    @classmethod
    def from_json(cls, fields: Mapping[str, Any]) -> CompiledGraph:
        return cls(**{**fields, "shape": Shape.parse(fields["shape"])})


@dataclass(frozen=True)
class CheckedGraph:
    """A graph that was run on every example that it holds, or could not be run here.

    Attributes:
        compiled: the graph.
        parity: its largest difference to the reference, as `GraphFile` has it; None where it could not be run.
        megabytes: of memory that it takes once loaded; 0 where that is not known.
    """

    compiled: CompiledGraph
    parity: float | None
    megabytes: float

    @property
    def file(self) -> GraphFile:
        """As a worker reads it."""
        return GraphFile(self.compiled.shape, self.compiled.graph, self.compiled.weights, self.parity)

    def entry(self) -> dict[str, Any]:
        """Its entry in `artifact.json`, which holds no times."""
        compiled = self.compiled
        files = {"shape": str(compiled.shape), "graph": compiled.graph, "weights": compiled.weights}
        return {**files, **compiled.notes, "parity": self.parity}


@dataclass(frozen=True)
class PrecisionRecord:
    """Which precision was kept.

    Attributes:
        precision: of the graphs.
        decided: why; see `marina.compiler.precision.choice`.
        tried: entries of `artifact.json` for those that were tried.
        milliseconds: of a call of the largest graph in each that was timed.
        noise: the share by which rounds of timing moved against each other.
    """

    precision: str
    decided: str
    tried: list[dict[str, Any]] = field(default_factory=list)
    milliseconds: dict[str, float] = field(default_factory=dict)
    noise: float = 0.0


def write_artifact(
    job: Job,
    folder: Path,
    signature: Signature,
    precision: PrecisionRecord,
    graphs: list[CheckedGraph],
    compiler: Mapping[str, Any],
    tolerance: float,
) -> None:
    """Write `artifact.json`, which makes the folder an artifact; every other file is there already."""
    spec = job.spec
    document = {
        "format": FORMAT,
        "name": spec.name,
        "task": spec.task,
        "source": {**spec.source.model_dump(exclude_none=True), "sha256": job.weights},
        "engine": spec.engine,
        "precision": precision.precision,
        "decided": precision.decided,
        "tried": precision.tried,
        **_as_json(signature),
        "tolerance": tolerance,
        "compiler": compiler,
        "versions": job.versions,
        "graphs": [graph.entry() for graph in graphs],
        "files": {
            str(path.relative_to(folder)): {"bytes": path.stat().st_size, "sha256": sha256_of(path)}
            for path in sorted(folder.rglob("*"))
            if path.is_file() and path.name != ARTIFACT_FILE
        },
    }
    write_json(folder / ARTIFACT_FILE, document)


def write_golden(rows: list[GoldenRow], folder: Path) -> None:
    """Write the golden rows of an artifact."""
    entries = [
        {
            "text": row.instance.text,
            "text_pair": row.instance.text_pair,
            "ids": row.row.ids,
            "type_ids": row.row.type_ids,
            "prompt_tokens": row.row.prompt_tokens,
            "outputs": [output.tolist() for output in row.outputs],
        }
        for row in rows
    ]
    write_json(folder / GOLDEN_FILE, entries)


def read_record(folder: Path) -> PrecisionRecord:
    """What the artifact in a folder says of its precision, without what was measured."""
    document = json.loads((folder / ARTIFACT_FILE).read_text(encoding="utf-8"))
    return PrecisionRecord(document["precision"], document["decided"], document["tried"])


def _as_json(signature: Signature) -> dict[str, Any]:
    heads = {name: {"labels": head.labels, "activation": head.activation} for name, head in signature.heads.items()}
    prompts = {name: prompt._asdict() for name, prompt in signature.prompts.items()}
    return {**vars(signature), "heads": heads, "prompts": prompts}
