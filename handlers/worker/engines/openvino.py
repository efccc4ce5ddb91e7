"""The OpenVINO engine: static-shape graphs on the CPU. The graphs of a model share their weights."""

from __future__ import annotations

import contextlib
import itertools
import logging
import mmap
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from handlers.worker.engines import Graph, GraphLoad, Inputs, Runtime, Setup
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
    """One of the graphs that were loaded together, with its inputs; they share an infer request.

    Args:
        request: the infer request.
        number, which: the number of this graph, and the input of the request that chooses one.
        inputs: the input arrays, which are bound to the request.
        values: the values per row of each output.
        weights: OpenVINO does not keep alive the memory that it reads.
    """

    def __init__(
        self,
        request: Any,
        number: int,
        which: npt.NDArray[np.int32],
        inputs: Inputs,
        values: Sequence[int],
        weights: Sequence[_Weights],
    ) -> None:
        self.inputs = inputs
        self._request, self._number, self._which = request, number, which
        self._values, self._weights = values, weights

    def run(self, rows: int) -> list[npt.NDArray[np.float32]]:
        self._which[0] = self._number
        self._request.infer()
        # the tensors of outputs change with the graph
        outputs = [self._request.get_output_tensor(index).data for index in range(len(self._values))]
        return [output[: rows * values].copy() for output, values in zip(outputs, self._values, strict=True)]


class _OpenvinoRuntime:
    replicas = 1
    calls_at_once = 1

    def __init__(self, setup: Setup) -> None:
        self._core = import_openvino().Core()
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
        (graphs,) = self.load_all([GraphLoad(graph, weights, inputs)])
        return graphs

    def load_all(self, loads: Sequence[GraphLoad]) -> list[list[Graph]]:
        """Load graphs as branches of one model, so that OpenVINO keeps their weights once, and not for each graph."""
        mapped, models = [], []
        for load in loads:
            with _named_errors(load.graph):
                mapped.append(self._mapped(load.weights))
                models.append(self._core.read_model(load.graph.read_text(encoding="utf-8"), mapped[-1].tensor))
        with _named_errors(loads[0].graph.parent):
            values = [
                [output.shape[0] // len(load.inputs[0][0]) for output in model.outputs]
                for load, model in zip(loads, models, strict=True)
            ]
            compiled = self._core.compile_model(_choice_of(models), "CPU", self._settings)
            for weights in mapped:
                weights.release_pages()
            return [list(graphs) for graphs in zip(*self._requests(compiled, loads, values, mapped), strict=True)]

    def _mapped(self, weights: Path | None) -> _Weights:
        if weights is None:
            raise ValueError("no file of weights is named")
        if weights not in self._weights:
            self._weights[weights] = _Weights(weights)
        return self._weights[weights]

    def _requests(
        self, compiled: Any, loads: Sequence[GraphLoad], values: Sequence[Sequence[int]], mapped: Sequence[_Weights]
    ) -> Iterator[list[_OpenvinoGraph]]:
        """The graphs of one infer request for each set of inputs."""
        tensor = import_openvino().Tensor
        for inputs in zip(*(load.inputs for load in loads), strict=True):
            request, which = compiled.create_infer_request(), np.zeros(1, np.int32)
            for index, array in enumerate([which, *itertools.chain(*inputs)]):
                request.set_input_tensor(index, tensor(array, shared_memory=True))
            yield [
                _OpenvinoGraph(request, number, which, inputs[number], values[number], mapped)
                for number in range(len(loads))
            ]


@contextlib.contextmanager
def _named_errors(path: Path) -> Iterator[None]:
    """Raise OpenVINO's errors as ArtifactError, with the files that they are about."""
    try:
        yield
    except (RuntimeError, OSError, ValueError) as error:
        reason = str(error).strip().splitlines()[-1]
        raise ArtifactError(f"OpenVINO cannot load {path}: {reason}") from None


def _choice_of(models: Sequence[Any]) -> Any:
    """A model that runs one of several models.

    Its inputs are the number of the model, int32 with the shape (1,), and the inputs of all models in their order. Its
    outputs are those of the chosen model.
    """
    from openvino import Model, opset8

    first, *_ = models
    if len(models) == 1:  # what is loaded alone must compute as it does among others
        zeros = [opset8.constant(np.zeros(output.shape, output.element_type.to_dtype())) for output in first.outputs]
        models = [first, Model([opset8.result(constant) for constant in zeros], [])]

    def choose(branches: Sequence[Any], start: int) -> tuple[Any, Any]:
        """A model of the branches from a number on, and its first input; None for that if it is a branch itself."""
        if len(branches) == 1:
            return branches[0], None
        middle = len(branches) // 2
        which = opset8.parameter([1], np.int32)
        smaller = opset8.less(which, opset8.constant(np.array([start + middle], np.int32)))
        node = opset8.if_op(smaller.output(0))
        (then, then_which), (otherwise, else_which) = (
            choose(branches[:middle], start),
            choose(branches[middle:], start + middle),
        )
        node.set_then_body(then)
        node.set_else_body(otherwise)
        if then_which or else_which:
            node.set_input(which.output(0), then_which, else_which)
        parameters = [which]
        for body, body_which, place in ((then, then_which, 0), (otherwise, else_which, 1)):
            for parameter in body.get_parameters()[body_which is not None :]:
                outer = opset8.parameter(parameter.get_output_partial_shape(0), parameter.get_element_type())
                node.set_input(outer.output(0), *((parameter, None) if place == 0 else (None, parameter)))
                parameters.append(outer)
        results = [opset8.result(node.set_output(*pair)) for pair in zip(then.results, otherwise.results, strict=True)]
        return Model(results, parameters), which

    return choose(models, 0)[0]


def open_runtime(setup: Setup) -> Runtime:
    """Open OpenVINO's CPU device; ImportError if the package `openvino` is missing."""
    return _OpenvinoRuntime(setup)
