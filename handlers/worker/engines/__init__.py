"""Engines run graphs. One file per engine; each imports its runtime only when the engine is opened.

Enters: files of graphs, and arrays in place. Leaves: arrays of outputs. Not known here: requests and tasks.

Other engines come from installed packages, through an entry point with the engine's name in the group
`marina.runtimes`. Its file is then copied into archives, where it is in this folder.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import import_module
from importlib.metadata import entry_points
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, cast

from handlers.worker.errors import ArtifactError
from handlers.worker.placement import Cores

if TYPE_CHECKING:  # the processes of a server need names of engines, and no arrays
    import numpy as np
    import numpy.typing as npt

ENGINES = ("openvino", "torchscript", "neuron", "neuronx")  # in this release
GROUP = "marina.runtimes"

Inputs = Sequence["npt.NDArray[np.int64]"]


class Graph(Protocol):
    """One compiled shape, ready to run.

    Attributes:
        inputs: the arrays that the next run reads, in the order of `Signature.inputs`, each of the graph's
            shape. They belong to the graph and are written in place.
    """

    inputs: Inputs

    def run(self, rows: int) -> list[npt.NDArray[np.float32]]:
        """Compute the first `rows` rows of the inputs, at least 1.

        Returns:
            The outputs in the order of `Signature.outputs`, each with at least `rows` rows; outputs per text of packed
            graphs have `Shape.texts_a_line` for each. The caller may keep them.
        """


class Runtime(Protocol):
    """Loads graphs.

    Attributes:
        replicas: the number of copies of a graph that share the rows of one call. The graph's inputs have
            `replicas` times the rows of the compiled shape.
        calls_at_once: the maximum number of concurrent calls, each on a graph with its own inputs.
    """

    replicas: int
    calls_at_once: int

    def load(self, graph: Path, weights: Path | None, inputs: Sequence[Inputs]) -> list[Graph]:
        """Load one graph; ArtifactError if its files cannot be used.

        Args:
            graph, weights: its files.
            inputs: the input arrays, one set per concurrent call.

        Returns:
            One graph per entry of `inputs`, all on the same loaded graph.
        """


class GraphLoad(NamedTuple):
    """The arguments of `Runtime.load`."""

    graph: Path
    weights: Path | None
    inputs: Sequence[Inputs]


class SharingRuntime(Runtime, Protocol):
    """A runtime whose graphs share memory if they are loaded together. No two of those run at once."""

    def load_all(self, loads: Sequence[GraphLoad]) -> list[list[Graph]]:
        """Load graphs together; what it returns and raises for each is as in `load`."""


class Setup(NamedTuple):
    """The cores, precision and mode that graphs run with.

    Attributes:
        cores: the number of cores in the worker's group.
        threads: the number of CPU threads to keep busy.
        precision: "f32", "bf16" or "int8"; on NeuronCores the precision of matrix products.
        mode: "core-per-worker", "pipeline" or "data-parallel", as in the spec.
        compiler: the artifact's record of how its graphs were compiled.
        versions: the versions of the packages that compiled them.
    """

    cores: int
    threads: int
    precision: str = "f32"
    mode: str = "core-per-worker"
    compiler: Mapping[str, Any] = {}
    versions: Mapping[str, str] = {}


def load_all(runtime: Runtime, loads: Sequence[GraphLoad]) -> list[list[Graph]]:
    """Load the graphs of a model, together if the runtime is a `SharingRuntime`; ArtifactError as in `Runtime.load`."""
    if hasattr(runtime, "load_all"):
        return cast(SharingRuntime, runtime).load_all(loads)
    return [runtime.load(*load) for load in loads]


class EngineModule(Protocol):
    """The interface of an engine's file.

    Attributes:
        CORES: the kind of cores that the engine computes on.
    """

    CORES: Cores

    def open_runtime(self, setup: Setup) -> Runtime:
        """Open the runtime.

        Raises:
            ImportError: a package is not installed.
            ArtifactError: the versions of the packages cannot run these graphs, or the engine lacks this mode.
        """


def engine_module(name: str) -> EngineModule:
    """The module of an engine; ArtifactError if there is none."""
    module: Any = None
    if name in ENGINES or (name.isidentifier() and find_spec(f"{__name__}.{name}")):
        module = import_module(f"{__name__}.{name}")
    else:
        packaged = {entry.name: entry for entry in entry_points(group=GROUP)}
        if name not in packaged:
            raise ArtifactError(f"unknown engine {name!r}; this release knows {', '.join((*ENGINES, *packaged))}")
        module = packaged[name].load()
    engine: EngineModule = module
    return engine


def open_runtime(name: str, setup: Setup) -> Runtime:
    """Open the runtime of an engine.

    Raises:
        ArtifactError: the engine is unknown, its packages are not installed, their versions cannot
            run these graphs, or the engine lacks this mode.
    """
    try:
        return engine_module(name).open_runtime(setup)
    except ImportError as error:
        raise ArtifactError(f"the engine {name!r} needs a package that is not installed: {error}") from None
