"""Engines: what runs graphs. One file an engine; each imports its runtime only when it is opened."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Protocol

import numpy as np
import numpy.typing as npt

from handlers.worker.errors import ArtifactError

ENGINES = ("openvino", "torchscript")
PRECISIONS = ("f32", "bf16", "int8")

Inputs = Sequence[npt.NDArray[np.int64]]


class Graph(Protocol):
    """One compiled shape, ready to run.

    Attributes:
        inputs: what the next run reads, in the order of `Artifact.inputs`, each of the graph's
            shape. They are the graph's own and are written in place.
    """

    inputs: Inputs

    def run(self) -> list[npt.NDArray[np.float32]]:
        """Compute one batch.

        Returns:
            The outputs in the order of `Artifact.outputs`, each with the batch size first. They
            are the caller's to keep.
        """


class Engine(Protocol):
    """A runtime that loads graphs."""

    def load(self, graph: Path, weights: Path | None, inputs: Inputs) -> Graph:
        """Load one graph and bind it to the arrays that it reads; ArtifactError when its files cannot be used."""


def open_engine(name: str, cores: int, precision: str) -> Engine:
    """Open the runtime of an engine on a number of cores, for graphs of a precision out of `PRECISIONS`.

    Raises:
        ArtifactError: the engine is unknown or its packages are not installed.
    """
    if name not in ENGINES:
        raise ArtifactError(f"unknown engine {name!r}; this release knows {', '.join(ENGINES)}")
    module = import_module(f"handlers.worker.engines.{name}")
    try:
        engine: Engine = module.open_engine(cores, precision)
    except ImportError as error:
        raise ArtifactError(f"the engine {name!r} needs a package that is not installed: {error}") from None
    return engine
