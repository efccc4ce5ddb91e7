"""Reads an artifact: the folder that holds a model's graphs and everything needed to use them.

artifact.json     how each graph was made; read into `Artifact`
golden.json       golden rows; read by `handlers.worker.members.golden`
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
from typing import Any

from handlers.worker.archive.signature import Signature
from handlers.worker.errors import ArtifactError
from handlers.worker.values import Shape

FORMAT = 4
ARTIFACT_FOLDER = "artifact"  # in an archive
CONFIG_FILE, MANIFEST = "model-config.yaml", "MAR-INF/MANIFEST.json"  # of archives, beside that folder
ARTIFACT_FILE = "artifact.json"
TOKENIZER_FILE = "tokenizer.json"
PREPROCESSOR_FILE = "preprocess.pt"  # in place of a tokenizer
GOLDEN_FILE = "golden.json"
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
        return Artifact(
            folder=folder,
            name=fields["name"],
            task=fields["task"],
            engine=fields["engine"],
            precision=fields["precision"],
            signature=Signature.from_json(fields),
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
