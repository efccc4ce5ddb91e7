"""The engine neuronx: compiles graphs for Inf2 and Trn1 with torch-neuronx, on any machine.

Every choice is passed to the compiler explicitly, and recorded; what it does by itself has changed between releases.
Source: the AWS Neuron SDK's reference of `torch_neuronx.trace` and of neuronx-cc's command line.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from pydantic import model_validator

from handlers.worker.engines.neuronx import SDK
from handlers.worker.values import Shape
from marina.engines.base import CORE_PER_WORKER, DATA_PARALLEL, EngineFields
from marina.engines.mitigations import MORE_EXACT, SATURATE
from marina.engines.model import ExportedModel, example_inputs
from marina.engines.neuroncores import NeuronEngine
from marina.fields import Section


class NeuronxOptions(Section):
    """Compiling for Inf2 and Trn1 with torch-neuronx and neuronx-cc."""

    target: Literal["inf2", "trn1", "trn1n", "trn2"] = "inf2"
    """The instances that the graphs are for."""

    auto_cast: Literal["none", "matmult", "all"] = "matmult"
    """Which operations compute in auto_cast_type. AWS's published figures are for matmult in bf16,
    while neuronx-cc's own choice is none since Neuron 2.27."""

    auto_cast_type: Literal["bf16", "fp16", "tf32", "fp8_e4m3"] = "bf16"
    """The number format to cast to."""

    optlevel: Literal[1, 2, 3] = 2
    """How hard the compiler works: 1 compiles fastest, 3 may compute fastest."""

    inline_weights: bool = True
    """Keep weights inside the compiled graph. false keeps them beside it, so that they can be replaced
    (`torch_neuronx.replace_weights`); the worker then moves them to its core."""

    dynamic_batch: bool = False
    """Let graphs take other batch sizes too (`torch_neuronx.dynamic_batch`). Marina's own calls keep to
    the compiled shape."""

    async_load: bool = False
    """Load graphs onto the core in the background, several at once."""

    compiler_args: tuple[str, ...] = ()
    """More arguments for neuronx-cc, for example [--enable-fast-context-switch]."""

    @model_validator(mode="after")
    def _go_together(self) -> NeuronxOptions:
        if self.dynamic_batch and not self.inline_weights:
            raise ValueError("dynamic_batch needs inline_weights: true")
        return self

    @property
    def precision(self) -> str:
        """The number format of products."""
        return "f32" if self.auto_cast == "none" else self.auto_cast_type

    @property
    def casts_all(self) -> bool:
        """Whether more than products is cast."""
        return self.auto_cast == "all"


class Neuronx(NeuronEngine):
    """torch-neuronx and neuronx-cc."""

    name = "neuronx"
    packages = (SDK.runtime, SDK.compiler)
    stack = "inf2"
    sdk = SDK
    more_packages = ("libneuronxla",)
    pythons = ((3, 11), (3, 13))
    options = NeuronxOptions
    modes = (CORE_PER_WORKER, DATA_PARALLEL)
    more_exact = "neuronx.auto_cast: none"

    def check(self, fields: EngineFields) -> None:
        super().check(fields)
        if fields.mode == DATA_PARALLEL and not fields.options.inline_weights:
            raise ValueError("mode: data-parallel needs neuronx.inline_weights: true")
        if fields.precision == "f32" and fields.names_precision and fields.options.auto_cast != "none":
            raise ValueError("precision: f32 needs neuronx.auto_cast: none")

    def precision(self, fields: EngineFields, mitigations: Sequence[str]) -> str:
        return "f32" if MORE_EXACT in mitigations else str(fields.options.precision)

    def settings(self, fields: EngineFields, _: Callable[[], int]) -> dict[str, Any]:
        # DataParallel loads the graphs itself; loaded before that they would be loaded twice
        return {**fields.options.model_dump(mode="json"), "lazy_load": fields.mode == DATA_PARALLEL}

    def arguments(self, settings: Mapping[str, Any], mitigations: Sequence[str]) -> list[str]:
        """The arguments of neuronx-cc."""
        cast = "none" if MORE_EXACT in mitigations else settings["auto_cast"]
        types = [] if cast == "none" else ["--auto-cast-type", settings["auto_cast_type"]]
        saturate = ["--enable-saturate-infinity"] if SATURATE in mitigations else []
        return [
            *("--target", settings["target"]),
            *("--model-type", "transformer"),
            *("--auto-cast", cast, *types),
            *("--optlevel", str(settings["optlevel"])),
            *saturate,
            *settings["compiler_args"],
        ]

    def trace(
        self,
        model: ExportedModel,
        shape: Shape,
        settings: Mapping[str, Any],
        mitigations: Sequence[str],
        workdir: Path,
    ) -> tuple[Any, dict[str, Any]]:
        """The traced module, made without a Neuron device, and nothing more to record."""
        import torch_neuronx

        traced = torch_neuronx.trace(
            model.module,
            example_inputs(model, shape),
            compiler_workdir=str(workdir),
            compiler_args=self.arguments(settings, mitigations),
            inline_weights_to_neff=settings["inline_weights"],
            cpu_backend=True,
        )
        if settings["dynamic_batch"]:
            traced = torch_neuronx.dynamic_batch(traced)
        if settings["lazy_load"]:
            torch_neuronx.lazy_load(traced)
        if settings["async_load"]:
            torch_neuronx.async_load(traced)
        return traced, {}

    def hardware_trials(self, cores: int, shape: str, target: str) -> dict[str, dict[str, Any]]:
        one = {"shapes": {"exact": [shape]}}
        fast = ["--enable-fast-context-switch"]
        trials: dict[str, dict[str, Any]] = {
            CORE_PER_WORKER: {"core_groups": ",".join(["1"] * cores)},
            "exact": {**one, "neuronx": {"auto_cast": "none", "optlevel": 1}},
            "all-bf16": {**one, "neuronx": {"auto_cast": "all", "compiler_args": fast}},
            "separate-weights": {**one, "neuronx": {"inline_weights": False}},
            "dynamic-batch": {**one, "neuronx": {"dynamic_batch": True, "async_load": True}},
            DATA_PARALLEL: {**one, "core_groups": str(cores), "mode": DATA_PARALLEL},
        }
        return {
            name: {**fields, "neuronx": {"target": target, **fields.get("neuronx", {})}}
            for name, fields in trials.items()
        }


ENGINE = Neuronx()
