"""The OpenVINO engine: static-shape graphs on the CPU. All graphs of a model share their weights."""

from __future__ import annotations

import logging
import mmap
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from handlers.worker.engines import Graph, Inputs, Runtime, Setup
from handlers.worker.errors import ArtifactError
from handlers.worker.placement import CPU_CORES

CORES = CPU_CORES
# The precision of all parts that an int8 graph does not mark as int8.
# Set explicitly, since otherwise CPUs with bf16 units would round f32.
HINTS = {"f32": "f32", "bf16": "bf16", "int8": "bf16"}
_log = logging.getLogger(__name__)


def import_openvino() -> Any:
    """Import OpenVINO without its telemetry.

    Its converter sends usage reports to its vendor, from a forked process, if the package
    `openvino_telemetry` can be imported.
    """
    sys.modules["openvino_telemetry"] = cast(Any, None)
    import openvino

    return openvino


def has_bf16(core: Any) -> bool:
    """Whether this CPU has instructions for bf16. With AVX-512 alone OpenVINO imitates them, slowly."""
    return "BF16" in core.get_property("CPU", "OPTIMIZATION_CAPABILITIES")


class _Weights:
    """A weights file, mapped once for all graphs of this process, in pages that all processes share."""

    def __init__(self, path: Path) -> None:
        with path.open("rb") as file:
            # OpenVINO accepts only writable memory, but does not write to it
            self._mapping = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)
        self._array = np.frombuffer(self._mapping, dtype=np.uint8)
        self.tensor = import_openvino().Tensor(self._array, shared_memory=True)

    def release_pages(self) -> None:
        """Release the pages that were read: most were repacked for this CPU, and the rest can be read again."""
        self._mapping.madvise(mmap.MADV_DONTNEED)


class _OpenvinoGraph:
    """One infer request, whose tensors are bound once."""

    def __init__(self, compiled: Any, weights: _Weights, inputs: Inputs) -> None:
        self.inputs = inputs
        self._weights = weights  # OpenVINO does not keep alive the memory that it reads
        self._request = compiled.create_infer_request()
        for index, array in enumerate(inputs):
            self._request.set_input_tensor(index, import_openvino().Tensor(array, shared_memory=True))
        tensors = [self._request.get_output_tensor(index) for index in range(len(compiled.outputs))]
        # with the number of values per row
        self._outputs = [(tensor, tensor.shape[0] // len(inputs[0])) for tensor in tensors]

    def run(self, rows: int) -> list[npt.NDArray[np.float32]]:
        self._request.infer()
        return [tensor.data[: rows * values_per_row].copy() for tensor, values_per_row in self._outputs]


class _OpenvinoRuntime:
    replicas = 1
    calls_at_once = 1

    def __init__(self, setup: Setup) -> None:
        self._core = import_openvino().Core()
        self.loads_at_once = setup.threads  # OpenVINO compiles a graph for this CPU on one thread
        self._mapping_weights = threading.Lock()
        hint = HINTS[setup.precision]
        if hint == "bf16" and not has_bf16(self._core):
            if setup.precision == "bf16":
                _log.warning("this processor has no instructions for bf16: the model computes in f32")
            hint = "f32"
        self._settings = {
            "INFERENCE_PRECISION_HINT": hint,
            "PERFORMANCE_HINT": "LATENCY",
            "INFERENCE_NUM_THREADS": setup.threads,
            "NUM_STREAMS": 1,
            # pinning would put the threads of every worker on the same first cores
            "ENABLE_CPU_PINNING": False,
        }
        self._weights: dict[Path, _Weights] = {}

    def load(self, graph: Path, weights: Path | None, inputs: Sequence[Inputs]) -> list[Graph]:
        try:
            if weights is None:
                raise ValueError("no file of weights is named")
            with self._mapping_weights:
                if weights not in self._weights:
                    self._weights[weights] = _Weights(weights)
            mapped = self._weights[weights]
            model = self._core.read_model(graph.read_text(encoding="utf-8"), mapped.tensor)
            compiled = self._core.compile_model(model, "CPU", self._settings)
            mapped.release_pages()
            return [_OpenvinoGraph(compiled, mapped, graph_inputs) for graph_inputs in inputs]
        except (RuntimeError, OSError, ValueError) as error:
            reason = str(error).strip().splitlines()[-1]
            raise ArtifactError(f"OpenVINO cannot load {graph}: {reason}") from None


def open_runtime(setup: Setup) -> Runtime:
    """Open OpenVINO's CPU device; ImportError if the package `openvino` is missing."""
    return _OpenvinoRuntime(setup)
