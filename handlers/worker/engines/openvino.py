"""The OpenVINO engine: static-shape graphs on the CPU. The graphs of a model share their weights."""

from __future__ import annotations

import contextlib
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
    """One of the graphs that were loaded together, with its inputs; they share an infer request and its inputs.

    Args:
        request: the infer request.
        number, which: the number of this graph, and the input of the request that chooses one.
        inputs: the input arrays of this graph.
        shared: for each of them, where the request reads it, in the same shape.
        values: the values per row of each output.
        weights: OpenVINO does not keep alive the memory that it reads.
    """

    def __init__(
        self,
        request: Any,
        number: int,
        which: npt.NDArray[np.int32],
        inputs: Inputs,
        shared: Sequence[npt.NDArray[Any]],
        values: Sequence[int],
        weights: Sequence[_Weights],
    ) -> None:
        self.inputs = inputs
        self._request, self._number, self._which = request, number, which
        self._shared, self._values, self._weights = shared, values, weights

    def run(self, rows: int) -> list[npt.NDArray[np.float32]]:
        self._which[0] = self._number
        for shared, array in zip(self._shared, self.inputs, strict=True):
            np.copyto(shared, array, casting="same_kind")
        self._request.infer(share_outputs=True)  # else it copies them, too
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
            choice = _Choice(models)
            compiled = self._core.compile_model(choice.model, "CPU", self._settings)
            for weights in mapped:
                weights.release_pages()
            return [
                list(graphs) for graphs in zip(*self._requests(compiled, choice, loads, values, mapped), strict=True)
            ]

    def _mapped(self, weights: Path | None) -> _Weights:
        if weights is None:
            raise ValueError("no file of weights is named")
        if weights not in self._weights:
            self._weights[weights] = _Weights(weights)
        return self._weights[weights]

    def _requests(
        self,
        compiled: Any,
        choice: _Choice,
        loads: Sequence[GraphLoad],
        values: Sequence[Sequence[int]],
        mapped: Sequence[_Weights],
    ) -> Iterator[list[_OpenvinoGraph]]:
        """The graphs of one infer request for each set of inputs."""
        tensor = import_openvino().Tensor
        for inputs in zip(*(load.inputs for load in loads), strict=True):
            request, which, buffers = compiled.create_infer_request(), np.zeros(1, np.int32), choice.new_buffers()
            for index, array in enumerate([which, *buffers]):
                request.set_input_tensor(index, tensor(array, shared_memory=True))
            yield [
                _OpenvinoGraph(
                    request,
                    number,
                    which,
                    arrays,
                    [
                        buffers[slot][: array.size].reshape(array.shape)
                        for slot, array in zip(choice.slots[number], arrays, strict=True)
                    ],
                    values[number],
                    mapped,
                )
                for number, arrays in enumerate(inputs)
            ]


@contextlib.contextmanager
def _named_errors(path: Path) -> Iterator[None]:
    """Raise OpenVINO's errors as ArtifactError, with the files that they are about."""
    try:
        yield
    except (RuntimeError, OSError, ValueError) as error:
        reason = str(error).strip().splitlines()[-1]
        raise ArtifactError(f"OpenVINO cannot load {path}: {reason}") from None


class _Choice:
    """A model that runs one of several models, and is made of them.

    Its inputs are the number of the model, int32 with the shape (1,), and buffers, which all models share, since each
    input that a branch is given costs time. Its outputs are those of the chosen model.

    Attributes:
        model: the model.
        slots: for each model, the buffer that begins with the values of each of its inputs.
    """

    def __init__(self, models: Sequence[Any]) -> None:
        from openvino import Model, opset8

        first, *_ = models
        if len(models) == 1:  # what is loaded alone must compute as it does among others
            zeros = [
                opset8.constant(np.zeros(output.shape, output.element_type.to_dtype())) for output in first.outputs
            ]
            models = [first, Model([opset8.result(constant) for constant in zeros], [])]
        self._sizes: list[tuple[Any, int]] = []  # of the buffers: their type, and their number of values
        self.slots = [self._slots_of(model) for model in models]
        for model, slots in zip(models, self.slots, strict=True):
            self._read_buffers(model, slots)
        self.model, _ = _choose(models, 0)

    def new_buffers(self) -> list[npt.NDArray[Any]]:
        """Buffers of zeros, one for each input of the model after the first."""
        return [np.zeros(size, element_type.to_dtype()) for element_type, size in self._sizes]

    def _slots_of(self, model: Any) -> list[int]:
        """A buffer of the same type for each input of a model; makes buffers, or makes them larger, where needed."""
        slots: list[int] = []
        for port in model.inputs:
            element_type, size = _element_type(port), int(np.prod(port.shape))
            same_type = (slot for slot, buffer in enumerate(self._sizes) if buffer[0] == element_type)
            slot = next((slot for slot in same_type if slot not in slots), len(self._sizes))
            if slot == len(self._sizes):
                self._sizes.append((element_type, size))
            self._sizes[slot] = element_type, max(size, self._sizes[slot][1])
            slots.append(slot)
        return slots

    def _read_buffers(self, model: Any, slots: Sequence[int]) -> None:
        """Give a model all buffers as its inputs, in place of its own."""
        from openvino import opset8

        buffers = [opset8.parameter([size], element_type) for element_type, size in self._sizes]
        for parameter, slot in zip(model.get_parameters(), slots, strict=True):
            shape = parameter.get_output_shape(0)
            values = opset8.slice(buffers[slot], [0], [int(np.prod(shape))], [1])
            values = opset8.convert(opset8.reshape(values, list(shape), False), parameter.get_element_type())
            parameter.output(0).replace(values.output(0))
            model.remove_parameter(parameter)
        model.add_parameters(buffers)


def _element_type(port: Any) -> Any:
    """The type of the values of a buffer: OpenVINO would convert int64 to int32 for CPUs."""
    openvino = import_openvino()
    return openvino.Type.i32 if port.element_type == openvino.Type.i64 else port.element_type


def _choose(branches: Sequence[Any], start: int) -> tuple[Any, Any]:
    """A model that runs one of the branches, which are numbered from a start.

    Returns:
        The model, and the input that chooses; None for that if the model is a branch itself.
    """
    from openvino import Model, opset8

    if len(branches) == 1:
        return branches[0], None
    middle = len(branches) // 2
    which = opset8.parameter([1], np.int32)
    smaller = opset8.less(which, opset8.constant(np.array([start + middle], np.int32)))
    node = opset8.if_op(smaller.output(0))
    then, then_which = _choose(branches[:middle], start)
    otherwise, else_which = _choose(branches[middle:], start + middle)
    node.set_then_body(then)
    node.set_else_body(otherwise)
    if then_which or else_which:
        node.set_input(which.output(0), then_which, else_which)
    buffers = []
    for then_buffer, else_buffer in zip(
        then.get_parameters()[then_which is not None :],
        otherwise.get_parameters()[else_which is not None :],
        strict=True,
    ):
        buffer = opset8.parameter(then_buffer.get_output_shape(0), then_buffer.get_element_type())
        node.set_input(buffer.output(0), then_buffer, else_buffer)
        buffers.append(buffer)
    results = [opset8.result(node.set_output(*pair)) for pair in zip(then.results, otherwise.results, strict=True)]
    return Model(results, [which, *buffers]), which


def open_runtime(setup: Setup) -> Runtime:
    """Open OpenVINO's CPU device; ImportError if the package `openvino` is missing."""
    return _OpenvinoRuntime(setup)
