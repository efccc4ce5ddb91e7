"""Engines: what runs graphs. One file an engine; each imports its runtime only when it is opened."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from handlers.worker.errors import ArtifactError

ENGINES = ("openvino", "torchscript", "neuron", "neuronx")
PRECISIONS = ("f32", "bf16", "int8")

Inputs = Sequence[npt.NDArray[np.int64]]


class Graph(Protocol):
    """One compiled shape, ready to run.

    Attributes:
        inputs: what the next run reads, in the order of `Artifact.inputs`, each of the graph's
            shape. They are the graph's own and are written in place.
    """

    inputs: Inputs

    def run(self, rows: int) -> list[npt.NDArray[np.float32]]:
        """Compute the first rows of the inputs, at least 1.

        Returns:
            The outputs in the order of `Artifact.outputs`, each with at least so many rows. They
            are the caller's to keep.
        """


class Engine(Protocol):
    """A runtime that loads graphs.

    Attributes:
        replicas: how many copies of a graph share the rows of one call: the graph's inputs have
            that many times the rows of the compiled shape.
        calls_at_once: how many calls can be under way at a time, each on a graph with inputs of
            its own.
    """

    replicas: int
    calls_at_once: int

    def load(self, graph: Path, weights: Path | None, inputs: Sequence[Inputs]) -> list[Graph]:
        """Load one graph; ArtifactError when its files cannot be used.

        Args:
            graph, weights: its files.
            inputs: the arrays to read, once for every call that is to be under way at a time.

        Returns:
            One for each of `inputs`, all on the same loaded graph.
        """


class Setup(NamedTuple):
    """What graphs are run on and how.

    Attributes:
        cores: in the worker's group.
        threads: CPU threads to keep busy.
        precision: one of `PRECISIONS`.
        mode: "core-per-worker", "pipeline" or "data-parallel", as the spec says.
        compiler: what the artifact says of how its graphs were compiled.
        versions: of the packages that compiled them.
    """

    cores: int
    threads: int
    precision: str = "f32"
    mode: str = "core-per-worker"
    compiler: Mapping[str, Any] = {}
    versions: Mapping[str, str] = {}


def open_engine(name: str, setup: Setup) -> Engine:
    """Open the runtime of an engine.

    Raises:
        ArtifactError: the engine is unknown, its packages are not installed or are of versions that
            cannot run these graphs, or it has no such mode.
    """
    if name not in ENGINES:
        raise ArtifactError(f"unknown engine {name!r}; this release knows {', '.join(ENGINES)}")
    module = import_module(f"handlers.worker.engines.{name}")
    try:
        engine: Engine = module.open_engine(setup)
    except ImportError as error:
        raise ArtifactError(f"the engine {name!r} needs a package that is not installed: {error}") from None
    return engine
