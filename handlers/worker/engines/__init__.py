"""Engines: what runs graphs. One file an engine; each imports its runtime only when it is opened.

An engine that this folder lacks may come from an installed package, by an entry point of its name in the group
`marina.runtimes`. Its file then travels in archives, and lies in this folder there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import import_module
from importlib.metadata import entry_points
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from handlers.worker.errors import ArtifactError
from handlers.worker.placement import Cores

ENGINES = ("openvino", "torchscript", "neuron", "neuronx")  # of this release
GROUP = "marina.runtimes"

Inputs = Sequence[npt.NDArray[np.int64]]


class Graph(Protocol):
    """One compiled shape, ready to run.

    Attributes:
        inputs: what the next run reads, in the order of `Signature.inputs`, each of the graph's
            shape. They are the graph's own and are written in place.
    """

    inputs: Inputs

    def run(self, rows: int) -> list[npt.NDArray[np.float32]]:
        """Compute the first rows of the inputs, at least 1.

        Returns:
            The outputs in the order of `Signature.outputs`, each with at least so many rows. They
            are the caller's to keep.
        """


class Runtime(Protocol):
    """What loads graphs.

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
        precision: "f32", "bf16" or "int8"; on NeuronCores that of products.
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


class EngineModule(Protocol):
    """What the file of an engine offers.

    Attributes:
        CORES: the kind of cores that it computes on.
    """

    CORES: Cores

    def open_runtime(self, setup: Setup) -> Runtime:
        """Open the runtime.

        Raises:
            ImportError: a package is not installed.
            ArtifactError: packages are of versions that cannot run these graphs, or it has no such mode.
        """


def engine_module(name: str) -> EngineModule:
    """The file of an engine; ArtifactError where there is none."""
    module: Any = None
    if name in ENGINES or (name.isidentifier() and find_spec(f"{__name__}.{name}")):
        module = import_module(f"{__name__}.{name}")
    else:
        others = {entry.name: entry for entry in entry_points(group=GROUP)}
        if name not in others:
            raise ArtifactError(f"unknown engine {name!r}; this release knows {', '.join((*ENGINES, *others))}")
        module = others[name].load()
    found: EngineModule = module
    return found


def open_runtime(name: str, setup: Setup) -> Runtime:
    """Open the runtime of an engine.

    Raises:
        ArtifactError: the engine is unknown, its packages are not installed or are of versions that
            cannot run these graphs, or it has no such mode.
    """
    try:
        return engine_module(name).open_runtime(setup)
    except ImportError as error:
        raise ArtifactError(f"the engine {name!r} needs a package that is not installed: {error}") from None
