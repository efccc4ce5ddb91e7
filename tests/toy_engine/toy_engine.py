"""The outer half: compiles graphs, by a trace that carries its own weights."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from handlers.worker.values import Row, Shape
from marina.engines.base import Engine
from marina.engines.model import ExportedModel, example_inputs
from marina.engines.values import CompileOptions, EngineFields, GraphFiles
from marina.fields import Section


class ToyOptions(Section):
    """The section `toy` of a spec."""

    optimize: bool = False
    """Optimize traces for inference."""


class ToyCompiler:
    """A model that is traced for each shape."""

    def __init__(self, model: ExportedModel, optimize: bool) -> None:
        self._model = model
        self._optimize = optimize

    def compile(self, shape: Shape, options: CompileOptions, folder: Path) -> GraphFiles:
        import torch

        graph = folder / "graphs" / f"{shape}.toy"
        with torch.no_grad():
            traced = torch.jit.trace(self._model.module, example_inputs(self._model, shape), check_trace=False)
        torch.jit.save(torch.jit.freeze(traced.eval()) if self._optimize else traced, str(graph))
        return GraphFiles(graph, None, {"optimized": self._optimize})


class Toy(Engine):
    """PyTorch by another name."""

    name = "toy"
    packages = ("torch",)
    serving_packages = ("torch",)
    options = ToyOptions

    def settings(self, fields: EngineFields, count_weights: Callable[[], int]) -> dict[str, Any]:
        return dict(fields.options.model_dump())

    def open_compiler(
        self, model: ExportedModel, settings: Mapping[str, Any], calibration: Sequence[Row], workdir: Path
    ) -> ToyCompiler:
        return ToyCompiler(model, settings["optimize"])


ENGINE = Toy()
