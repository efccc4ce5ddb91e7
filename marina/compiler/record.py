"""The records of compiling: of each graph, of the precision, and of the artifact as a whole."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from handlers.worker.archive.artifact import ARTIFACT_FILE, FORMAT, GOLDEN_FILE, GraphFile, sha256_of
from handlers.worker.archive.signature import Signature
from handlers.worker.members.golden import GoldenRow
from handlers.worker.values import Shape
from marina.compiler.job import CompileJob
from marina.files import write_json

if TYPE_CHECKING:
    from marina.engines.model import ExportedModel


@dataclass(frozen=True)
class CompiledGraph:
    """One graph as the compiler produced it.

    Attributes:
        shape: the shape of its inputs.
        graph, weights: its files, relative to the artifact's folder.
        notes: additional fields of the graph for `artifact.json`, as JSON types.
        seconds: the compile time.
    """

    shape: Shape
    graph: str
    weights: str | None
    notes: Mapping[str, Any]
    seconds: float

    @property
    def file(self) -> GraphFile:
        """The `GraphFile` of a graph that was not checked."""
        return GraphFile(self.shape, self.graph, self.weights, None)

    def as_json(self) -> dict[str, Any]:
        """Convert to JSON types; `from_json` returns an equal value."""
        return {**vars(self), "shape": str(self.shape)}

    @classmethod
    def from_json(cls, fields: Mapping[str, Any]) -> CompiledGraph:
        return cls(**{**fields, "shape": Shape.parse(fields["shape"])})


@dataclass(frozen=True)
class CheckedGraph:
    """A graph that was run on every example that fits its shape, or could not be run here.

    Attributes:
        compiled: the graph.
        parity: its largest difference from the reference, as in `GraphFile`; None if it could not be run.
    """

    compiled: CompiledGraph
    parity: float | None

    @property
    def file(self) -> GraphFile:
        """The `GraphFile` that a worker reads."""
        return replace(self.compiled.file, parity=self.parity)

    def entry(self) -> dict[str, Any]:
        """Its entry in `artifact.json`, which contains no times."""
        compiled = self.compiled
        files = {"shape": str(compiled.shape), "graph": compiled.graph, "weights": compiled.weights}
        return {**files, **compiled.notes, "parity": self.parity}


class MeasuredGraphs(NamedTuple):
    """Measurements of the graphs of an artifact, loaded together.

    Attributes:
        milliseconds: of one call of each graph, by the shape that it was compiled for.
        megabytes: memory of all graphs; 0 if another process loaded them.
    """

    milliseconds: dict[Shape, float]
    megabytes: float


@dataclass(frozen=True)
class PrecisionRecord:
    """The chosen precision.

    Attributes:
        precision: the precision of the graphs.
        decided: the reason; see `marina.compiler.precision.choice`.
        tried: entries of `artifact.json` for the precisions that were tried.
        milliseconds: the time of one call of the largest graph, for each precision that was timed.
        noise: the relative variation between rounds of timing.
    """

    precision: str
    decided: str
    tried: list[dict[str, Any]] = field(default_factory=list)
    milliseconds: dict[str, float] = field(default_factory=dict)
    noise: float = 0.0


def write_artifact(
    job: CompileJob,
    folder: Path,
    signature: Signature,
    precision: PrecisionRecord,
    graphs: list[CheckedGraph],
    compiler: Mapping[str, Any],
    tolerance: float,
) -> None:
    """Write `artifact.json`, which completes the artifact; every other file already exists."""
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
        **signature.as_json(),
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
            **({"others": row.instance.others} if row.instance.others else {}),
            **({"tensors": row.row.tensors} if row.row.tensors else {}),
            **({"filled": row.row.filled} if row.row.filled else {}),
            "outputs": [output.tolist() for output in row.outputs],
        }
        for row in rows
    ]
    write_json(folder / GOLDEN_FILE, entries)


def signature_of(model: ExportedModel) -> Signature:
    """How a model reads rows."""
    tokenizer = model.tokenizer
    special_tokens = {name: getattr(tokenizer, f"{name}_token_id", None) for name in ("cls", "unk")}
    return Signature(
        inputs=model.inputs,
        outputs=model.outputs,
        pad_token_id=getattr(tokenizer, "pad_token_id", None) or 0,
        pad_token_type_id=getattr(tokenizer, "pad_token_type_id", 0),
        truncation_side=getattr(tokenizer, "truncation_side", "right"),
        special_tokens={name: number for name, number in special_tokens.items() if number is not None},
        heads=model.heads,
        prompts=model.prompts,
        default_prompt=model.default_prompt,
        unit_length=model.unit_length,
        padding_position=model.padding_position,
        fields=model.fields,
        tensors=model.tensors,
        token_outputs=model.token_outputs,
        packed_inputs=model.packed_inputs,
        per_token=model.per_token,
        dimensions=model.dimensions,
        ranges=model.ranges,
        defaults=model.defaults,
        roles=model.roles,
    )
