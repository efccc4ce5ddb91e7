"""The engine openvino: compiles graphs for CPUs; converts the model once, then reshapes it to each static shape."""

from __future__ import annotations

import contextlib
import io
import logging
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from handlers.worker.artifact import sha256_of
from handlers.worker.engines.openvino import import_openvino
from handlers.worker.values import Row, Shape
from marina.engines.base import CompileOptions, Engine, EngineFields, GraphFiles, Hosting
from marina.engines.model import ExportedModel, example_inputs, row_inputs


class _Compiler:
    """The model in OpenVINO's format, with dynamic dimensions until it is reshaped for a graph."""

    def __init__(self, model: ExportedModel, calibration: Sequence[Row]) -> None:
        import torch

        with torch.no_grad(), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # tracer warnings: parity decides whether the trace holds
            converted = import_openvino().convert_model(
                model.module, example_input=example_inputs(model, model.example)
            )
        for ports, names in ((converted.inputs, model.inputs), (converted.outputs, model.outputs)):
            for port, name in zip(ports, names):
                port.get_tensor().set_names({name})
        self._model = converted
        self._quantized: Any = None
        self._exported = model
        self._calibration = calibration

    def compile(self, shape: Shape, options: CompileOptions, folder: Path) -> GraphFiles:
        model = self._in(options.precision).clone()
        # an input may have one value per row
        model.reshape({port: list(shape)[: port.get_partial_shape().rank.get_length()] for port in model.inputs})
        _name_in_order(model)
        graph = folder / "graphs" / f"{shape}.xml"
        import_openvino().save_model(model, graph, compress_to_fp16=False)
        own_weights = graph.with_suffix(".bin")
        # usually equal for all shapes, so one file serves them all
        weights = folder / f"weights-{sha256_of(own_weights)[:12]}.bin"
        own_weights.replace(weights)
        return GraphFiles(graph, weights)

    def _in(self, precision: str) -> Any:
        """The model with its weights in the given precision; bf16 is stored as f32 and converted when it is loaded."""
        if precision == "int8":
            self._quantized = self._quantized or _quantize(self._model, self._exported, self._calibration)
            return self._quantized
        return self._model


def _quantize(model: Any, exported: ExportedModel, rows: Sequence[Row]) -> Any:
    """A copy with matrix products in int8, with ranges calibrated on `rows`: NNCF's post-training quantization.

    Embedding tables stay f32: they are looked up and not multiplied, so int8 gains nothing, and OpenVINO
    would unpack them again for every graph.
    """
    import_openvino()  # import it before nncf, which would otherwise load its telemetry
    import nncf

    def arrays(row: Row) -> dict[str, Any]:
        dtypes = {name: tensor.dtype for name, tensor in exported.tensors.items()}
        values = row_inputs(row, exported)
        return {name: np.array([own], dtype=dtypes.get(name, "int64")) for name, own in values.items()}

    logging.getLogger("nncf").setLevel(logging.ERROR)
    with contextlib.redirect_stdout(io.StringIO()), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return nncf.quantize(
            model.clone(),
            nncf.Dataset(list(rows), arrays),
            subset_size=len(rows),
            model_type=nncf.ModelType.TRANSFORMER,
            preset=nncf.QuantizationPreset.MIXED,
            ignored_scope=nncf.IgnoredScope(types=["Gather"], validate=False),
        )


def _name_in_order(model: Any) -> None:
    """Name nodes by their position: OpenVINO's own names contain a counter that runs for the life of a process."""
    model.set_friendly_name("model")
    for number, node in enumerate(model.get_ordered_ops()):
        node.set_friendly_name(f"{node.get_type_name()}_{number}")


class Openvino(Engine):
    """OpenVINO's CPU plugin."""

    name = "openvino"
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
        return ("int8", "bf16", "f32") if calibrated else ("bf16", "f32")

    def precision_packages(self, precisions: Sequence[str]) -> tuple[str, ...]:
        return ("nncf",) if "int8" in precisions else ()

    def open_compiler(
        self, model: ExportedModel, _: Mapping[str, Any], calibration: Sequence[Row], __: Path
    ) -> _Compiler:
        return _Compiler(model, calibration)


ENGINE = Openvino()
