"""The inner half: runs graphs. This file travels in archives."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from handlers.worker.engines import Graph, Inputs, Setup
from handlers.worker.placement import CPU_CORES

CORES = CPU_CORES


class ToyGraph:
    """A trace with its inputs."""

    def __init__(self, module: Any, inputs: Inputs) -> None:
        self.inputs = inputs
        self._module = module

    def run(self, rows: int) -> list[npt.NDArray[np.float32]]:
        import torch

        with torch.inference_mode():
            return [output.numpy() for output in self._module(*map(torch.from_numpy, self.inputs))]


class ToyRuntime:
    """Loads traces."""

    replicas = 1
    calls_at_once = 1

    def load(self, graph: Path, weights: Path | None, inputs: Sequence[Inputs]) -> list[Graph]:
        import torch

        module = torch.jit.load(str(graph))
        return [ToyGraph(module, own) for own in inputs]


def open_runtime(setup: Setup) -> ToyRuntime:
    """Open it with the threads of the worker."""
    import torch

    torch.set_num_threads(setup.threads)
    return ToyRuntime()
