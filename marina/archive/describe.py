"""Describes an archive: its models, how it is served, and what its workers need."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from handlers.worker.archive.artifact import CONFIG_FILE, REMEDY, Artifact
from handlers.worker.engines.packages import installed
from handlers.worker.errors import ArtifactError
from handlers.worker.placement.groups import parse_core_groups
from marina.archive.footprint import Footprint, read_footprint
from marina.archive.read import read_artifacts, version_of
from marina.engines import engine_of
from marina.engines.values import Hosting

# memory of a worker that has loaded nothing, as measured in docs/benchmarks.md, and of TorchServe's Java process
WORKER_BYTES = 250_000_000
JAVA_BYTES = 300_000_000
# what TorchServe's workers take beyond those of `direct`, as they import PyTorch: for themselves, and of mapped files
TORCH_BYTES, TORCH_SHARED_BYTES = 135_000_000, 60_000_000
# packages that every worker imports
WORKER_PACKAGES = ("numpy", "orjson", "packaging", "tokenizers")


class Archive(NamedTuple):
    """The description of an archive.

    Attributes:
        path: its file.
        version: as TorchServe reads it.
        artifacts: the artifacts of its models, which have the same engine.
        config: its model-config.yaml.
        size: the size of the file in bytes.
        footprint: what a worker needs, if it was measured.
    """

    path: Path
    version: str
    artifacts: tuple[Artifact, ...]
    config: dict[str, Any]
    size: int
    footprint: Footprint | None

    @property
    def name(self) -> str:
        return self.path.stem

    @property
    def engine(self) -> str:
        return self.artifacts[0].engine

    @property
    def stack(self) -> str:
        """The stack of its engine: "cpu", "inf1" or "inf2"."""
        return engine_of(self.engine).stack

    @property
    def hosting(self) -> Hosting:
        """Where its engine can be hosted."""
        return engine_of(self.engine).hosting_for(self.artifacts[0].versions, self.artifacts[0].compiler)

    @property
    def serving(self) -> dict[str, Any]:
        """The `handler:` section of model-config.yaml."""
        section: dict[str, Any] = self.config["handler"]
        return section

    @property
    def workers(self) -> int:
        """The number of its worker processes."""
        return int(self.config["minWorkers"])

    @property
    def groups(self) -> tuple[int, ...]:
        """The sizes of its core groups; empty if it has none, and takes what a machine has."""
        groups = self.serving["core_groups"]
        return parse_core_groups(groups) if groups else ()

    def memory(self, torchserve: bool, resting: bool = False) -> int:
        """The most bytes that its workers take, or what they take at rest; if not measured, what they need at least.

        Every worker loads its own graphs. With TorchServe they take more, as that imports PyTorch.
        """
        if self.footprint is None:
            return self.workers * (WORKER_BYTES + self.size)
        torch, shared = (TORCH_BYTES, TORCH_SHARED_BYTES) if torchserve and not self.needs_torch else (0, 0)
        worker = self.footprint.resting_bytes if resting else self.footprint.peak_bytes
        return self.footprint.shared_bytes + shared + self.workers * (worker + torch)

    @property
    def needs_torch(self) -> bool:
        """Whether its workers run TorchScript, in a graph or before it."""
        return self.hosting.torch or any(artifact.signature.tensors for artifact in self.artifacts)

    def pins(self) -> dict[str, str]:
        """The packages that its workers import, with versions: as it was compiled, else as installed here.

        PyTorch and the packages of the Neuron SDK are not among them: they come with the machine or the image.

        Raises:
            ArtifactError: the version of a package is not known.
        """
        compiled_versions = {
            name: version for artifact in self.artifacts for name, version in artifact.versions.items()
        }
        pins = {}
        for name in sorted({*WORKER_PACKAGES, *engine_of(self.engine).serving_packages}):
            version = compiled_versions.get(name) or installed(name)
            if version is None:
                raise ArtifactError(f"{self.name} needs {name}, which is not installed here", f"pip install {name}")
            pins[name] = version
        return pins


def describe_archive(path: Path) -> Archive:
    """Read and verify an archive.

    Raises:
        ArtifactError: it is damaged, or not an archive of this format.
        OSError: the file cannot be read.
        KeyError, ValueError: its model-config.yaml is not of this release.
    """
    artifacts = tuple(read_artifacts(path).values())
    try:
        with zipfile.ZipFile(path) as file:
            config = yaml.safe_load(file.read(CONFIG_FILE))
    except (zipfile.BadZipFile, yaml.YAMLError) as error:
        raise ArtifactError(f"{path}: {CONFIG_FILE} is damaged: {' '.join(str(error).split())}", REMEDY) from None
    return Archive(path, version_of(path), artifacts, config, path.stat().st_size, read_footprint(path))
