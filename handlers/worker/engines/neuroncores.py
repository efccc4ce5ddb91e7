"""What the two Neuron engines share: traced graphs that `torch.jit.load` puts on the NeuronCores in sight.

Which cores are in sight was settled by `handlers.worker.placement` before the runtime was imported.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from handlers.worker.engines import Graph, Inputs, Setup
from handlers.worker.errors import ArtifactError, PlacementError

WAIT_S = 30.0  # for cores that the runtime does not give yet
PAUSE_S = 1.0
# how the runtime words that it cannot have its cores
_NO_CORES = ("could not be initialized", "cannot be initialized", "NeuronCore(s) not available")


class _NeuronGraph:
    """A graph with inputs of its own. Rows of empty chunks are not sent."""

    def __init__(self, module: Any, inputs: Inputs, chunk: int) -> None:
        import torch

        self.inputs = inputs
        self._module = module
        self._chunk = chunk  # rows of one replica
        self._tensors = [torch.from_numpy(array) for array in inputs]

    def run(self, rows: int) -> list[npt.NDArray[np.float32]]:
        import torch

        sent = -(-rows // self._chunk) * self._chunk
        with torch.no_grad():
            outputs = self._module(*[tensor[:sent] for tensor in self._tensors])
        return [output.float().numpy() for output in outputs]


class NeuronRuntime:
    """Loads graphs onto the worker's core group.

    Args:
        setup: the worker's.
        package: the runtime's name.
        data_parallel: its DataParallel.
        move_weights: moves separate weights to the core; None where graphs carry their own.

    Raises:
        ArtifactError: the core group does not fit the mode.
    """

    def __init__(
        self,
        setup: Setup,
        package: str,
        data_parallel: Callable[[Any], Any],
        move_weights: Callable[[Any], None] | None = None,
    ) -> None:
        import torch

        spanned = int(setup.compiler.get("pipeline_cores", 1))
        if spanned > setup.cores:
            raise ArtifactError(
                f"the graphs are pipelines over {spanned} cores and the core group has {setup.cores}; give groups of "
                f"{spanned} in core_groups, or compile with fewer pipeline_cores"
            )
        if setup.mode == "core-per-worker" and setup.cores > 1:
            raise ArtifactError(
                f"mode: core-per-worker gives a worker one core, and the core group has {setup.cores}; write "
                f"core_groups as {','.join(['1'] * setup.cores)}, or choose mode: data-parallel or pipeline"
            )
        self.replicas = setup.cores if setup.mode == "data-parallel" else 1
        # a pipeline works on as many calls as it has stages
        self.calls_at_once = spanned
        self._package = package
        self._data_parallel = data_parallel
        self._move_weights = move_weights
        # the host computes what is not compiled
        torch.set_num_threads(setup.threads)

    def load(self, graph: Path, weights: Path | None, inputs: Sequence[Inputs]) -> list[Graph]:
        deadline = time.monotonic() + WAIT_S
        while True:
            try:
                return self._load(graph, inputs)
            except (RuntimeError, ValueError) as error:
                reason = " ".join(str(error).split())[:300]
                if not any(words in reason for words in _NO_CORES):
                    raise ArtifactError(f"{self._package} cannot load {graph}: {reason}") from None
                # the driver may free cores a moment after their last process dropped its lease
                if time.monotonic() > deadline:
                    raise PlacementError(
                        f"{self._package} cannot use its NeuronCores: {reason}; neuron-ls shows the process that holds "
                        "them"
                    ) from None
            time.sleep(PAUSE_S)

    def _load(self, path: Path, inputs: Sequence[Inputs]) -> list[Graph]:
        import torch

        chunk = len(inputs[0][0]) // self.replicas
        with warnings.catch_warnings():
            # deprecated in PyTorch, and the form in which the Neuron SDK ships graphs
            warnings.simplefilter("ignore", DeprecationWarning)
            module = torch.jit.load(str(path))
        if self._move_weights:
            self._move_weights(module)
        if self.replicas > 1:
            module = self._data_parallel(module)
            module.split_size = chunk
            # its own choice is made for one core in some releases
            module.num_workers = 2 * self.replicas
        graphs: list[Graph] = [_NeuronGraph(module, own, chunk) for own in inputs]
        # what loads at the first call, as on Inf1 and with async_load, fails here and not at a request
        graphs[0].run(len(inputs[0][0]))
        return graphs
