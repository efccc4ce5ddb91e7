"""Reads an artifact: the folder that holds a model's graphs and all that is needed to use them.

artifact.json     how each graph came to be; read into `Artifact`
golden.json       golden rows; read by `handlers.worker.golden`
tokenizer.json    the tokenizer, in the format of the `tokenizers` library
graphs/, weights  as the engine lays them out; named by `GraphFile`
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from handlers.worker.errors import ArtifactError
from handlers.worker.values import Shape

FORMAT = 4
ARTIFACT_FILE = "artifact.json"
TOKENIZER_FILE = "tokenizer.json"
GOLDEN_FILE = "golden.json"
POOLING_MASK = "pooling_mask"  # an input of graphs whose pooling leaves out the tokens of a prompt
REMEDY = "compile the model again and pack a new archive"


@dataclass(frozen=True)
class GraphFile:
    """Where one graph lies, relative to the artifact's folder.

    parity is the largest absolute difference to the reference model's outputs that was seen when
    the graph was compiled, rounded up to one significant digit; None where it could not be run.
    """

    shape: Shape
    graph: str
    weights: str | None
    parity: float | None

    def paths(self, folder: Path) -> tuple[Path, Path | None]:
        """Where the graph and its weights lie, from the artifact's folder."""
        return folder / self.graph, folder / self.weights if self.weights else None


class Head(NamedTuple):
    """The labels of one output, and how its logits become scores: "softmax", "sigmoid" or "none"."""

    labels: tuple[str, ...]
    activation: str


class Prompt(NamedTuple):
    """A text that is put before others, and how many tokens at the start of a row pooling leaves out for it."""

    text: str
    tokens: int


@dataclass(frozen=True)
class Signature:
    """How a model reads rows, and what it answers with.

    inputs are the names of the graph's arguments in order, each int64 of (batch_size,
    sequence_length): input_ids, attention_mask, token_type_ids, and `POOLING_MASK`, the attention mask
    without the tokens of a prompt; outputs are the names of its results, each float32 with batch_size first and,
    in tasks that answer for tokens, sequence_length next. heads are those outputs that have labels.
    special_tokens are the ids of "cls" and "unk", where the tokenizer has them.
    prompts are those that requests may name, default_prompt the name of the one for requests that
    name none. unit_length says that outputs are vectors of length 1.
    """

    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    pad_token_id: int
    pad_token_type_id: int
    truncation_side: str
    special_tokens: Mapping[str, int]
    heads: Mapping[str, Head]
    prompts: Mapping[str, Prompt]
    default_prompt: str | None
    unit_length: bool


@dataclass(frozen=True)
class Artifact:
    """What `artifact.json` says.

    tolerance bounds the absolute difference of every output to the golden rows.
    compiler says how a Neuron engine's graphs were compiled; it is empty for CPU engines.
    """

    folder: Path
    name: str
    task: str
    engine: str
    precision: str
    signature: Signature
    tolerance: float
    compiler: Mapping[str, Any]
    graphs: tuple[GraphFile, ...]
    versions: Mapping[str, str]
    files: Mapping[str, Mapping[str, Any]]

    @property
    def shapes(self) -> tuple[Shape, ...]:
        return tuple(graph.shape for graph in self.graphs)


def read_artifact(folder: Path) -> Artifact:
    """Read `artifact.json`.

    Raises:
        ArtifactError: it is missing, is not JSON, or is of another format.
    """
    path = folder / ARTIFACT_FILE
    fields = read_json(path)
    if not isinstance(fields, dict) or fields.get("format") != FORMAT:
        raise ArtifactError(f"{path} is not of artifact format {FORMAT}; {REMEDY}")
    return artifact_from(fields, folder)


def artifact_from(fields: Mapping[str, Any], folder: Path) -> Artifact:
    """The artifact that the fields of an `artifact.json` describe; ArtifactError when one is missing."""
    try:
        graphs = tuple(
            GraphFile(Shape.parse(entry["shape"]), entry["graph"], entry["weights"], entry["parity"])
            for entry in fields["graphs"]
        )
        signature = Signature(
            inputs=tuple(fields["inputs"]),
            outputs=tuple(fields["outputs"]),
            pad_token_id=fields["pad_token_id"],
            pad_token_type_id=fields["pad_token_type_id"],
            truncation_side=fields["truncation_side"],
            special_tokens=fields["special_tokens"],
            heads={name: Head(tuple(head["labels"]), head["activation"]) for name, head in fields["heads"].items()},
            prompts={name: Prompt(**prompt) for name, prompt in fields["prompts"].items()},
            default_prompt=fields["default_prompt"],
            unit_length=fields["unit_length"],
        )
        return Artifact(
            folder=folder,
            name=fields["name"],
            task=fields["task"],
            engine=fields["engine"],
            precision=fields["precision"],
            signature=signature,
            tolerance=fields["tolerance"],
            compiler=fields["compiler"],
            graphs=graphs,
            versions=fields["versions"],
            files=fields["files"],
        )
    except (KeyError, TypeError, ValueError) as error:
        raise ArtifactError(f"{folder / ARTIFACT_FILE} is not complete ({error!r}); {REMEDY}") from None


def check_files(artifact: Artifact) -> None:
    """Compare every file of the artifact with its recorded size and sha256.

    Raises:
        ArtifactError: naming the first file that is missing or damaged.
    """
    for name, recorded in artifact.files.items():
        path = artifact.folder / name
        if not path.is_file():
            raise ArtifactError(f"{path} is missing; {REMEDY}")
        size = path.stat().st_size
        if size != recorded["bytes"]:
            raise ArtifactError(f"{path} is damaged: {size} bytes, not {recorded['bytes']}; {REMEDY}")
        if sha256_of(path) != recorded["sha256"]:
            raise ArtifactError(f"{path} is damaged: its sha256 is not the recorded one; {REMEDY}")


def read_json(path: Path) -> Any:
    """The JSON document in a file of the artifact; ArtifactError when there is none."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ArtifactError(f"{path} is missing; {REMEDY}") from None
    except ValueError as error:
        raise ArtifactError(f"{path} is damaged: {error}; {REMEDY}") from None


def sha256_of(path: Path) -> str:
    """The sha256 of a file, in hexadecimal."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        for block in iter(lambda: file.read(1 << 20), b""):
            digest.update(block)
    return digest.hexdigest()
