"""Compiles graphs for OpenVINO: one conversion, reshaped to each static shape."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

from handlers.worker.artifact import sha256_of
from handlers.worker.engines.openvino import import_openvino
from handlers.worker.plan import Shape
from marina.compiler.engines import GraphPaths, example_inputs
from marina.compiler.export import ExportedModel


class OpenvinoCompiler:
    """The model in OpenVINO's form, with free dimensions until a graph is made of it."""

    def __init__(self, model: ExportedModel) -> None:
        import torch

        with torch.no_grad(), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # tracer warnings: parity decides whether the trace holds
            converted = import_openvino().convert_model(model.module, example_input=example_inputs(model, Shape(2, 16)))
        for ports, names in ((converted.inputs, model.inputs), (converted.outputs, model.outputs)):
            for port, name in zip(ports, names):
                port.get_tensor().set_names({name})
        self._model = converted

    def compile(self, shape: Shape, folder: Path) -> GraphPaths:
        model = self._model.clone()
        model.reshape({port: list(shape) for port in model.inputs})
        _name_in_order(model)
        graph = folder / "graphs" / f"{shape}.xml"
        import_openvino().save_model(model, graph, compress_to_fp16=False)
        own_weights = graph.with_suffix(".bin")
        # equal for all shapes as a rule, so that one file serves them all
        weights = folder / f"weights-{sha256_of(own_weights)[:12]}.bin"
        own_weights.replace(weights)
        return GraphPaths(graph, weights)


def _name_in_order(model: Any) -> None:
    """Name nodes by their place: OpenVINO's own names count up over the life of a process."""
    model.set_friendly_name("model")
    for number, node in enumerate(model.get_ordered_ops()):
        node.set_friendly_name(f"{node.get_type_name()}_{number}")


def open_compiler(model: ExportedModel) -> OpenvinoCompiler:
    """Convert a model for OpenVINO."""
    return OpenvinoCompiler(model)
