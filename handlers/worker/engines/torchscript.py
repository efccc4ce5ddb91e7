"""The TorchScript engine: traced graphs on the CPU, with PyTorch 1.13 or newer.

A graph's file holds only code. The weights of all graphs of a model are in one safetensors file
and are bound to each graph when it is loaded, before it is frozen.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from handlers.worker.engines import Graph, Inputs, Runtime, Setup
from handlers.worker.errors import ArtifactError
from handlers.worker.placement import CPU_CORES

CORES = CPU_CORES
# In the weights file's metadata: a JSON object that maps the name of each tensor that is not stored to the
# name of the identical tensor that is stored.
ALIASES = "aliases"


class _TorchscriptGraph:
    def __init__(self, module: Any, inputs: Inputs) -> None:
        import torch

        self.inputs = inputs
        self._module = module
        self._tensors = [torch.from_numpy(array) for array in inputs]

    def run(self, rows: int) -> list[npt.NDArray[np.float32]]:
        import torch

        with torch.inference_mode():
            outputs = self._module(*self._tensors)
        return [output.numpy() for output in outputs]


class _TorchscriptRuntime:
    replicas = 1
    calls_at_once = 1

    def __init__(self, setup: Setup) -> None:
        import torch

        torch.set_num_threads(setup.threads)
        self._weights: dict[Path, dict[str, Any]] = {}

    def load(self, graph: Path, weights: Path | None, inputs: Sequence[Inputs]) -> list[Graph]:
        import torch
        from safetensors import SafetensorError

        try:
            with warnings.catch_warnings():
                # deprecated in PyTorch, but the Neuron SDK ships graphs in this form
                warnings.simplefilter("ignore", DeprecationWarning)
                module = torch.jit.load(str(graph), map_location="cpu").eval()
                if weights is not None:
                    self._bind(module, weights)
                frozen = torch.jit.freeze(module)
                return [_TorchscriptGraph(frozen, graph_inputs) for graph_inputs in inputs]
        except (RuntimeError, ValueError, KeyError, SafetensorError) as error:
            reason = str(error).strip().splitlines()[0]
            raise ArtifactError(f"TorchScript cannot load {graph}: {reason}") from None

    def _bind(self, module: Any, path: Path) -> None:
        if path not in self._weights:
            self._weights[path] = _read_weights(path)
        tensors = self._weights[path]
        for name, parameter in [*module.named_parameters(), *module.named_buffers()]:
            parameter.data = tensors[name]


def _read_weights(path: Path) -> dict[str, Any]:
    from safetensors import safe_open

    with safe_open(str(path), framework="pt") as file:
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118  not a dict
        aliases: dict[str, str] = json.loads(file.metadata()[ALIASES])
    return {**tensors, **{name: tensors[stored_name] for name, stored_name in aliases.items()}}


def open_runtime(setup: Setup) -> Runtime:
    """Open TorchScript on the CPU; ImportError if the package `torch` is missing.

    Raises:
        ArtifactError: the precision is not f32.
    """
    if setup.precision != "f32":
        raise ArtifactError(f"the engine torchscript computes in f32, not in {setup.precision}")
    return _TorchscriptRuntime(setup)
