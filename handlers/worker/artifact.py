"""Reads an artifact: the folder that holds a model's graphs and everything needed to use them.

artifact.json     how each graph was made; read into `Artifact`
golden.json       golden rows; read by `handlers.worker.golden`
tokenizer.json    the tokenizer, in the format of the `tokenizers` library; or preprocess.pt, a TorchScript module
graphs/, weights  in a layout that depends on the engine; their paths are in `GraphFile`
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

from handlers.worker.errors import ArtifactError
from handlers.worker.values import Json, Shape

FORMAT = 4
ARTIFACT_FOLDER = "artifact"  # in an archive
CONFIG_FILE, MANIFEST = "model-config.yaml", "MAR-INF/MANIFEST.json"  # of archives, beside that folder
ARTIFACT_FILE = "artifact.json"
TOKENIZER_FILE = "tokenizer.json"
PREPROCESSOR_FILE = "preprocess.pt"  # in place of a tokenizer
GOLDEN_FILE = "golden.json"
POOLING_MASK = "pooling_mask"  # input of graphs whose pooling excludes the tokens of a prompt
POSITION_IDS = "position_ids"  # input of graphs of models that number tokens by their ids, as RoBERTa does
SEGMENTS = "segments"  # input of packed graphs: the number of the text in the line that a token belongs to, or -1
ATTENTION_MASK, VALID_LENGTH = "attention_mask", "valid_length"  # the inputs with the number of tokens of a row
REMEDY = "compile the model again and pack a new archive"


Locate = Callable[[str], Path]  # from the name of an artifact's file to its path


@dataclass(frozen=True)
class GraphFile:
    """The paths of one graph's files, relative to the artifact's folder.

    parity is the largest absolute difference from the reference model's outputs that was measured when
    the graph was compiled, rounded up to one significant digit. It is None if the graph could not be run.
    """

    shape: Shape
    graph: str
    weights: str | None
    parity: float | None

    def paths(self, locate: Locate) -> tuple[Path, Path | None]:
        """The paths of the graph and of its weights."""
        return locate(self.graph), locate(self.weights) if self.weights else None


class Head(NamedTuple):
    """The labels of one output, and the activation from logits to scores: "softmax", "sigmoid" or "none".

    Labels are texts, or other values that a config.json has in `id2label`: numbers, true, false or null.
    """

    labels: tuple[Json, ...]
    activation: str


def label_text(label: Json) -> str:
    """A label as a text; a label that is no text as JSON."""
    return label if isinstance(label, str) else json.dumps(label)


class InputTensor(NamedTuple):
    """An input that a preprocessor gives: "int64" or "float32", whether it has one value per row, and its padding."""

    dtype: str
    per_row: bool
    padding: float


class Prompt(NamedTuple):
    """A text to prepend to inputs, and the number of tokens at the start of a row that pooling excludes for it."""

    text: str
    tokens: int


@dataclass(frozen=True)
class Signature:
    """How a model reads rows, and what it returns.

    inputs are the names of the graph's arguments in order, each int64 of shape (batch_size,
    sequence_length): input_ids, attention_mask, token_type_ids, `POSITION_IDS`, and `POOLING_MASK`, which is the
    attention mask without the tokens of a prompt. outputs are the names of its results, each float32 with batch_size
    as the first dimension and, in tasks that answer per token, sequence_length as the second. heads are the outputs
    with labels. special_tokens are the ids of "cls" and "unk", if the tokenizer has them.
    If a preprocessor takes the place of the tokenizer, fields are the fields of an instance and tensors describes the
    inputs. token_outputs are the outputs with a value per token, where the task does not define that.
    packed_inputs are the arguments of packed graphs, see `handlers.worker.rows.lines`; empty if the model has none.
    per_token is true if every output has a value per token.
    prompts are the prompts that requests may name; default_prompt is the name of the prompt for requests that
    name none. unit_length is true if outputs are vectors of length 1. padding_position is the id of padding in
    `POSITION_IDS`, see `number_positions`; None if the graphs do not read them.
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
    padding_position: int | None = None
    fields: tuple[str, ...] = ()
    tensors: Mapping[str, InputTensor] = field(default_factory=dict)
    token_outputs: tuple[str, ...] = ()
    packed_inputs: tuple[str, ...] = ()
    per_token: bool = False


@dataclass(frozen=True)
class Artifact:
    """The contents of `artifact.json`.

    tolerance is the upper bound on the absolute difference between any output and the golden rows.
    compiler records how a Neuron engine's graphs were compiled; it is empty for CPU engines.
    stored has the paths, relative to `folder`, of files that a bundle stores once for several members.
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
    stored: Mapping[str, str] = field(default_factory=dict)

    def path(self, name: str) -> Path:
        """The path of a file of the artifact."""
        return Path(os.path.normpath(self.folder / self.stored.get(name, name)))

    @property
    def shapes(self) -> tuple[Shape, ...]:
        return tuple(graph.shape for graph in self.graphs)


def read_artifact(folder: Path, stored: Mapping[str, str] | None = None) -> Artifact:
    """Read `artifact.json`.

    Args:
        folder: the artifact's folder.
        stored: the files outside of `folder`; see `Artifact`.

    Raises:
        ArtifactError: the file is missing, is not JSON, or has another format.
    """
    path = folder / ARTIFACT_FILE
    fields = read_json(path)
    if not isinstance(fields, dict) or fields.get("format") != FORMAT:
        raise ArtifactError(f"{path} is not of artifact format {FORMAT}; {REMEDY}")
    return replace(artifact_from(fields, folder), stored=stored or {})


def artifact_from(fields: Mapping[str, Any], folder: Path) -> Artifact:
    """The artifact that the fields of an `artifact.json` describe; ArtifactError if a field is missing."""
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
            padding_position=fields.get("padding_position"),
            fields=tuple(fields.get("fields", ())),
            tensors={name: InputTensor(**tensor) for name, tensor in fields.get("tensors", {}).items()},
            token_outputs=tuple(fields.get("token_outputs", ())),
            packed_inputs=tuple(fields.get("packed_inputs", ())),
            per_token=fields.get("per_token", False),
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
        ArtifactError: a file is missing or damaged; the message names the first such file.
    """
    for name, recorded in artifact.files.items():
        path = artifact.path(name)
        if not path.is_file():
            raise ArtifactError(f"{path} is missing; {REMEDY}")
        size = path.stat().st_size
        if size != recorded["bytes"]:
            raise ArtifactError(f"{path} is damaged: {size} bytes, not {recorded['bytes']}; {REMEDY}")
        if sha256_of(path) != recorded["sha256"]:
            raise ArtifactError(f"{path} is damaged: its sha256 is not the recorded one; {REMEDY}")


def read_json(path: Path) -> Any:
    """The JSON document in a file of the artifact; ArtifactError if it cannot be read."""
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
