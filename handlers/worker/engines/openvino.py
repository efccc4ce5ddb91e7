"""The OpenVINO engine: static-shape graphs on the CPU. Weights are shared by all graphs of a model."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from handlers.worker.engines import Engine, Graph
from handlers.worker.errors import ArtifactError


def import_openvino() -> Any:
    """Import OpenVINO without its telemetry.

    Its converter reports usage to its makers, from a forked process, wherever the package
    `openvino_telemetry` can be imported.
    """
    sys.modules["openvino_telemetry"] = cast(Any, None)
    import openvino

    return openvino


class _OpenvinoGraph:
    def __init__(self, compiled: Any) -> None:
        self._request = compiled.create_infer_request()
        self._outputs = range(len(compiled.outputs))

    def run(self, inputs: Sequence[npt.NDArray[np.int64]]) -> list[npt.NDArray[np.float32]]:
        results = self._request.infer(list(inputs), share_inputs=True)
        return [results[index] for index in self._outputs]


class _OpenvinoEngine:
    def __init__(self, cores: int) -> None:
        self._core = import_openvino().Core()
        self._settings = {
            # explicit, since CPUs with bf16 units would round otherwise
            "INFERENCE_PRECISION_HINT": "f32",
            "PERFORMANCE_HINT": "LATENCY",
            "INFERENCE_NUM_THREADS": cores,
            "NUM_STREAMS": 1,
        }

    def load(self, graph: Path, weights: Path | None) -> Graph:
        try:
            model = self._core.read_model(graph, weights)
            return _OpenvinoGraph(self._core.compile_model(model, "CPU", self._settings))
        except RuntimeError as error:
            reason = str(error).strip().splitlines()[-1]
            raise ArtifactError(f"OpenVINO cannot load {graph}: {reason}") from None


def open_engine(cores: int) -> Engine:
    """Open OpenVINO's CPU device; ImportError where the package `openvino` is missing."""
    return _OpenvinoEngine(cores)
