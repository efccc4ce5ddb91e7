"""The engine openvino: compiles graphs for CPUs; converts the model once, then reshapes it to each static shape."""

from __future__ import annotations

import contextlib
import io
import logging
import warnings
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from handlers.worker.archive.artifact import sha256_of
from handlers.worker.engines.openvino import has_bf16, import_openvino
from handlers.worker.rows.lines import write_lines
from handlers.worker.rows.packing import calls_of
from handlers.worker.values import Row, Shape
from marina.engines.base import Engine
from marina.engines.model import ExportedModel, example_inputs, row_inputs
from marina.engines.values import CompileOptions, EngineFields, GraphFiles, Hosting
from marina.errors import CompileError

PACKED_LENGTH = 128  # tokens of the lines that int8 is calibrated on, or the longest row
SELECTION_DEPTH = 3  # operations between a comparison of texts and the product that it selects tokens with


class _Compiler:
    """The model in OpenVINO's format, with dynamic dimensions until it is reshaped for a graph; packed and not."""

    def __init__(self, model: ExportedModel, calibration: Sequence[Row]) -> None:
        self._exported = model
        self._calibration = calibration
        self._converted: dict[bool, Any] = {}
        self._quantized: dict[bool, Any] = {}
        self._model_in("f32", packed=False)  # a model that cannot be converted is refused at once

    def compile(self, shape: Shape, options: CompileOptions, folder: Path) -> GraphFiles:
        if options.precision == "bf16" and not _has_bf16():
            raise CompileError(
                "precision: bf16 cannot be judged here, as this processor has no instructions for it; write precision: "
                "auto, or compile on the type of machine that serves"
            )
        model = self._model_in(options.precision, shape.packed).clone()
        # an input may have one value per row
        model.reshape({port: list(shape.dims)[: port.get_partial_shape().rank.get_length()] for port in model.inputs})
        _name_in_order(model)
        graph = folder / "graphs" / f"{shape}.xml"
        import_openvino().save_model(model, graph, compress_to_fp16=False)
        graph_weights = graph.with_suffix(".bin")
        # usually equal for all shapes, so one file serves them all
        weights = folder / f"weights-{sha256_of(graph_weights)[:12]}.bin"
        graph_weights.replace(weights)
        return GraphFiles(graph, weights)

    def _model_in(self, precision: str, packed: bool) -> Any:
        """The model with its weights in the given precision; bf16 is stored as f32 and converted when it is loaded."""
        if packed not in self._converted:
            self._converted[packed] = _convert(self._exported, packed)
        if precision != "int8":
            return self._converted[packed]
        if packed not in self._quantized:
            inputs = (
                _packed_arrays(self._exported, self._calibration)
                if packed
                else _arrays(self._exported, self._calibration)
            )
            self._quantized[packed] = _quantize(self._converted[packed], inputs)
        return self._quantized[packed]


def _convert(model: ExportedModel, packed: bool) -> Any:
    import torch

    shape = model.example._replace(packed=packed)
    module, names = model.module_for(shape), model.packed_inputs if packed else model.inputs
    example = example_inputs(model, shape)
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # tracer warnings: parity decides whether the trace holds
        openvino = import_openvino()
        from openvino.frontend.pytorch.ts_decoder import TorchScriptPythonDecoder

        # parity decides, so a second trace to compare with would only take time
        traced = TorchScriptPythonDecoder(module, example_input=example, trace_kwargs={"check_trace": False})
        with _restored_root_logger():
            converted = openvino.convert_model(traced, example_input=example)
    for ports, port_names in ((converted.inputs, names), (converted.outputs, model.outputs)):
        for port, name in zip(ports, port_names, strict=True):
            port.get_tensor().set_names({name})
    return converted


@contextlib.contextmanager
def _restored_root_logger() -> Iterator[None]:
    """Restore the root logger: a failed conversion leaves it at ERROR, with a filter and a handler of OpenVINO."""
    root = logging.getLogger()
    level, filters, handlers = root.level, list(root.filters), list(root.handlers)
    try:
        yield
    finally:
        root.setLevel(level)
        root.filters, root.handlers = filters, handlers


def _arrays(exported: ExportedModel, rows: Sequence[Row]) -> list[dict[str, Any]]:
    """The inputs of each row."""
    dtypes = {name: tensor.dtype for name, tensor in exported.tensors.items()}
    return [
        {
            name: np.array([values], dtype=dtypes.get(name, "int64"))
            for name, values in row_inputs(row, exported).items()
        }
        for row in rows
    ]


def _packed_arrays(exported: ExportedModel, rows: Sequence[Row]) -> list[dict[str, Any]]:
    """The inputs of the lines that rows are packed into, each as long as the longest packed line needs to be."""
    shape = Shape(1, max(PACKED_LENGTH, *(len(row.ids) for row in rows)), packed=True)
    packed_arrays = []
    for call in calls_of(shape, [len(row.ids) for row in rows]):
        arrays = {name: np.zeros(shape.dims, np.int64) for name in exported.packed_inputs}
        write_lines(arrays, [rows[row] for row in call.rows], call.places, exported.padding_position, {})
        packed_arrays.append(arrays)
    return packed_arrays


def _quantize(model: Any, inputs: Sequence[dict[str, Any]]) -> Any:
    """A copy with matrix products in int8, with ranges calibrated on inputs: NNCF's post-training quantization.

    Embedding tables are left out: they are looked up and not multiplied, so int8 gains nothing, and OpenVINO would
    unpack them again for every graph. So are the operations that find the texts of packed rows, which are exact.
    """
    import_openvino()  # import it before nncf, which would otherwise load its telemetry
    import nncf

    logging.getLogger("nncf").setLevel(logging.ERROR)
    with contextlib.redirect_stdout(io.StringIO()), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return nncf.quantize(
            model.clone(),
            nncf.Dataset(list(inputs)),
            subset_size=len(inputs),
            model_type=nncf.ModelType.TRANSFORMER,
            preset=nncf.QuantizationPreset.MIXED,
            ignored_scope=nncf.IgnoredScope(types=["Gather"], names=_selections(model), validate=False),
        )


def _selections(model: Any) -> list[str]:
    """The names of products with one-hot matrices, which are made by comparing numbers of texts."""

    def compares(node: Any, depth: int) -> bool:
        if node.get_type_name() == "Equal":
            return True
        return depth > 0 and any(compares(port.get_source_output().get_node(), depth - 1) for port in node.inputs())

    products = [node for node in model.get_ops() if node.get_type_name() == "MatMul"]
    selections = [node for node in products if compares(node.input(0).get_source_output().get_node(), SELECTION_DEPTH)]
    return [node.get_friendly_name() for node in selections]


def _name_in_order(model: Any) -> None:
    """Name nodes by their position: OpenVINO's own names contain a counter that runs for the life of a process."""
    model.set_friendly_name("model")
    for number, node in enumerate(model.get_ordered_ops()):
        node.set_friendly_name(f"{node.get_type_name()}_{number}")


@cache
def _has_bf16() -> bool:
    try:
        return has_bf16(import_openvino().Core())
    except ImportError:
        return True  # the package is missed by what asks for its version


class Openvino(Engine):
    """OpenVINO's CPU plugin."""

    name = "openvino"
    version = 3
    packages = ("openvino",)
    serving_packages = ("openvino",)
    hosting = Hosting(torch=False)
    precisions = ("f32", "bf16", "int8", "auto")

    def check(self, fields: EngineFields) -> None:
        if fields.precision == "int8" and not fields.names_examples:
            raise ValueError("precision: int8 needs examples, a file of texts to calibrate on")

    def candidates(self, fields: EngineFields, calibrated: bool) -> tuple[str, ...]:
        if fields.precision != "auto":
            return (fields.precision,)
        return (*(("int8",) if calibrated else ()), *(("bf16",) if _has_bf16() else ()), "f32")

    def precision_packages(self, precisions: Sequence[str]) -> tuple[str, ...]:
        return ("nncf",) if "int8" in precisions else ()

    def open_compiler(
        self, model: ExportedModel, _: Mapping[str, Any], calibration: Sequence[Row], __: Path
    ) -> _Compiler:
        return _Compiler(model, calibration)


ENGINE = Openvino()
