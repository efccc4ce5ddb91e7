"""Code shared by the two Neuron engines: `torch.jit.load` puts traced graphs on the visible NeuronCores.

`handlers.worker.placement` sets which cores are visible before the runtime is imported.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from handlers.worker.engines import Graph, Inputs, Setup
from handlers.worker.errors import ArtifactError, PlacementError
from handlers.worker.scripts import load_script

# Calls in progress on each core, so that the core computes one call while the host prepares the next.
# Source: "2 * N worker threads for N models" in the FAQ of AWS's NeuronPerf, as the published Inf1 figures had.
CALLS_PER_CORE = 2
WAIT_S = 30.0  # for cores that the runtime cannot use yet
PAUSE_S = 1.0
_NO_MEMORY = "status=4"  # NRT_RESOURCE, in the runtime's message for a graph that does not fit into device memory
# the runtime's messages if it cannot get its cores
_NO_CORES = ("could not be initialized", "cannot be initialized", "NeuronCore(s) not available")


class _NeuronGraph:
    """A graph with its own inputs. Empty chunks of rows are not sent."""

    def __init__(self, module: Any, inputs: Inputs, chunk: int) -> None:
        import torch

        self.inputs = inputs
        self._module = module
        self._chunk = chunk  # rows per replica
        self._tensors = [torch.from_numpy(array) for array in inputs]

    def run(self, rows: int) -> list[npt.NDArray[np.float32]]:
        import torch

        sent_rows = -(-rows // self._chunk) * self._chunk
        with torch.no_grad():
            outputs = self._module(*[tensor[:sent_rows] for tensor in self._tensors])
        return [output.float().numpy() for output in outputs]


class NeuronRuntime:
    """Loads graphs onto the worker's core group.

    Args:
        setup: the worker's setup.
        package: the name of the runtime's package.
        data_parallel: the runtime's DataParallel.
        replicate: the runtime's context in which a loaded graph is copied to all cores of the group, as often as it
            fits; None if the runtime has no pipelines.
        put_weights: gives a loaded graph its weights, from a file or as they were saved with the graph, and moves them
            to the core; None if graphs contain their weights.

    Raises:
        ArtifactError: the core group does not fit the mode.
    """

    def __init__(
        self,
        setup: Setup,
        package: str,
        data_parallel: Callable[[Any], Any],
        replicate: Callable[[], AbstractContextManager[Any]] | None = None,
        put_weights: Callable[[Any, dict[str, Any] | None], None] | None = None,
    ) -> None:
        import torch

        pipeline_cores = int(setup.compiler.get("pipeline_cores", 1))
        if pipeline_cores > setup.cores:
            raise ArtifactError(
                f"the graphs are pipelines over {pipeline_cores} cores and the core group has {setup.cores}; give "
                f"groups of {pipeline_cores} in core_groups, or compile with fewer pipeline_cores"
            )
        if setup.mode == "core-per-worker" and setup.cores > 1:
            raise ArtifactError(
                f"mode: core-per-worker gives a worker one core, and the core group has {setup.cores}; write "
                f"core_groups as {','.join(['1'] * setup.cores)}, or choose mode: data-parallel or pipeline"
            )
        self.replicas = setup.cores if setup.mode == "data-parallel" else 1
        # a pipeline processes as many calls at once as it has stages, and each of its copies does; DataParallel has
        # threads of its own
        self.calls_at_once = {"pipeline": setup.cores, "data-parallel": 1}.get(setup.mode, CALLS_PER_CORE)
        self._package = package
        self._data_parallel = data_parallel
        self._replicate = replicate if replicate and setup.mode == "pipeline" else nullcontext
        self._put_weights = put_weights
        # operators that are not compiled run on the host CPU
        torch.set_num_threads(setup.threads)

    def load(self, graph: Path, weights: Path | None, inputs: Sequence[Inputs]) -> list[Graph]:
        deadline = time.monotonic() + WAIT_S
        while True:
            try:
                return self._load(graph, weights, inputs)
            except (RuntimeError, ValueError) as error:
                text = " ".join(str(error).split())
                reason = text.rpartition("RuntimeError: ")[2][:300]  # behind a traceback of TorchScript's code
                if _NO_MEMORY in text:
                    raise ArtifactError(
                        f"{self._package} cannot load {graph}: {reason}",
                        "the graphs need more memory than the cores of the group have; compile fewer or smaller shapes",
                    ) from None
                if not any(message in text for message in _NO_CORES):
                    raise ArtifactError(f"{self._package} cannot load {graph}: {reason}") from None
                # the driver may free cores a moment after the last process that used them released its lease
                if time.monotonic() > deadline:
                    raise PlacementError(
                        f"{self._package} cannot use its NeuronCores: {reason}; neuron-ls shows the process that holds "
                        "them"
                    ) from None
            time.sleep(PAUSE_S)

    def _load(self, path: Path, weights: Path | None, inputs: Sequence[Inputs]) -> list[Graph]:
        chunk = len(inputs[0][0]) // self.replicas
        with self._replicate():
            module = load_script(path)
        if self._put_weights:
            from safetensors.torch import load_file

            self._put_weights(module, load_file(str(weights)) if weights else None)
        if self.replicas > 1:
            module = self._data_parallel(module)
            module.split_size = chunk
            # in some releases the SDK's own default is meant for one core
            module.num_workers = 2 * self.replicas
        graphs: list[Graph] = [_NeuronGraph(module, graph_inputs, chunk) for graph_inputs in inputs]
        # a graph that loads at its first call, as on Inf1 and with async_load, fails here and not at a request
        graphs[0].run(len(inputs[0][0]))
        return graphs
