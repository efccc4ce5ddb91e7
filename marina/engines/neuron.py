"""The engine neuron: compiles graphs for Inf1 with torch-neuron.

Every choice is passed to the compiler explicitly, and recorded; what it does by itself has changed between releases.
Source: the AWS Neuron SDK's reference of `torch_neuron.trace` and of neuron-cc's command line.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from pydantic import field_validator, model_validator

from handlers.worker.engines.neuron import SDK
from handlers.worker.placement.groups import parse_core_groups
from handlers.worker.values import Shape
from marina.engines.base import CORE_PER_WORKER, DATA_PARALLEL, PIPELINE, DeviceMemory, EngineFields
from marina.engines.mitigations import MORE_EXACT, SATURATE
from marina.engines.model import ExportedModel, example_inputs
from marina.engines.neuroncores import NeuronEngine, count_operators
from marina.fields import Section

CASTS = ("all", "all-fp16", "matmult", "matmult-bf16", "matmult-fp16")
FAST_MATH = (
    *("all", "none", *(f"fp32-cast-{cast}" for cast in CASTS)),
    *(f"fp32-cast-{cast} {layout}" for cast, layout in itertools.product(CASTS, ("fast-relayout", "no-fast-relayout"))),
)


class NeuronOptions(Section):
    """Compiling for Inf1 with torch-neuron and neuron-cc."""

    fast_math: str | None = "fp32-cast-matmult no-fast-relayout"
    """What `--fast-math` says: which numbers are cast to 16 bits, and whether layouts may change
    faster and less exactly. From fast to exact: all, fp32-cast-matmult, fp32-cast-matmult
    no-fast-relayout, none."""

    fp32_cast: Literal["all", "all-fp16", "matmult", "matmult-bf16", "matmult-fp16"] | None = None
    """`--fp32-cast`, the older way to say it. It wins over fast_math, which must then be null."""

    pipeline_cores: Literal["auto"] | int = "auto"
    """mode: pipeline: the cores that one graph spreads over. auto is 4 * round(weights / 20 million),
    as AWS advises, but at most the core group."""

    fallback: bool = False
    """Let operators that neuron-cc does not know run on the CPU. Otherwise they are an error, and
    embeddings are computed on the NeuronCore too. The share that falls to the CPU is recorded."""

    dynamic_batch: bool = False
    """Let graphs take other batch sizes too (`dynamic_batch_size`). Marina's own calls keep to the
    compiled shape."""

    compiler_args: tuple[str, ...] = ()
    """More arguments for neuron-cc, for example [--enable-fast-context-switch]."""

    @field_validator("fast_math")
    @classmethod
    def _documented(cls, fast_math: str | None) -> str | None:
        if fast_math is not None and fast_math not in FAST_MATH:
            raise ValueError(f"use one of: {', '.join(FAST_MATH)}")
        return fast_math

    @field_validator("pipeline_cores")
    @classmethod
    def _positive(cls, cores: str | int) -> str | int:
        if isinstance(cores, int) and cores < 1:
            raise ValueError("use auto, or a number of at least 1")
        return cores

    @model_validator(mode="after")
    def _one_cast(self) -> NeuronOptions:
        if (self.fast_math is None) == (self.fp32_cast is None):
            raise ValueError("give fast_math or fp32_cast, and null for the other")
        return self

    @property
    def precision(self) -> str:
        """The number format of products."""
        return "fp16" if (self.fast_math or self.fp32_cast or "").partition(" ")[0].endswith("fp16") else "bf16"

    @property
    def casts_all(self) -> bool:
        """Whether more than products is cast."""
        return (self.fast_math or f"fp32-cast-{self.fp32_cast}").startswith(("all", "fp32-cast-all"))


class Neuron(NeuronEngine):
    """torch-neuron and neuron-cc."""

    name = "neuron"
    packages = (SDK.runtime, SDK.compiler)
    stack = "inf1"
    sdk = SDK
    pythons = ((3, 8), (3, 10))
    options = NeuronOptions
    modes = (CORE_PER_WORKER, PIPELINE, DATA_PARALLEL)
    more_exact = "neuron.fast_math: none"
    # AWS Neuron's note on bucketing for Inf1
    memory = DeviceMemory("Inferentia 1", "inf1", 2e9)

    def check(self, fields: EngineFields) -> None:
        super().check(fields)
        if fields.precision == "f32" and fields.names_precision:
            raise ValueError("precision: f32 is not to be had on Inf1, whose products are in 16 bits; leave it out")

    def precision(self, fields: EngineFields, mitigations: Sequence[str]) -> str:
        return "bf16" if MORE_EXACT in mitigations else str(fields.options.precision)

    def settings(self, fields: EngineFields, count_weights: Callable[[], int]) -> dict[str, Any]:
        return {**fields.options.model_dump(mode="json"), "pipeline_cores": _pipeline_cores(fields, count_weights)}

    def arguments(self, settings: Mapping[str, Any], mitigations: Sequence[str]) -> list[str]:
        """The arguments of neuron-cc."""
        if MORE_EXACT in mitigations:
            cast = ["--fast-math", "none"]
        elif settings["fp32_cast"]:
            cast = ["--fp32-cast", settings["fp32_cast"]]
        else:
            cast = ["--fast-math", *settings["fast_math"].split()]
        saturate = ["--enable-saturate-infinity"] if SATURATE in mitigations else []
        cores = ["--neuroncore-pipeline-cores", str(settings["pipeline_cores"])]
        return [*cast, *cores, *saturate, *settings["compiler_args"]]

    def trace(
        self,
        model: ExportedModel,
        shape: Shape,
        settings: Mapping[str, Any],
        mitigations: Sequence[str],
        workdir: Path,
    ) -> tuple[Any, dict[str, Any]]:
        """The traced module, and the share of its operators that run on the CPU."""
        import torch
        import torch_neuron

        inputs = example_inputs(model, shape)
        dynamic = {"dynamic_batch_size": True} if settings["dynamic_batch"] else {}
        traced = torch_neuron.trace(
            model.module,
            inputs,
            compiler_args=self.arguments(settings, mitigations),
            compiler_workdir=str(workdir),
            fallback=settings["fallback"],
            **dynamic,
        )
        share = 0.0
        if settings["fallback"]:
            whole = count_operators(torch.jit.trace(model.module, inputs, check_trace=False))
            share = round(min(1.0, count_operators(traced) / whole), 4)
        return traced, {"cpu_share": share}

    def advice(self, settings: Mapping[str, Any], log: str) -> str:
        if not settings["fallback"] and "AttributeError" in log:
            return ". With neuron.fallback: true what neuron-cc does not know runs on the CPU"
        return ""

    def hardware_trials(self, cores: int, shape: str, target: str) -> dict[str, dict[str, Any]]:
        one, span = {"shapes": {"exact": [shape]}}, min(4, cores)
        return {
            CORE_PER_WORKER: {"core_groups": ",".join(["1"] * cores)},
            "exact": {**one, "neuron": {"fast_math": "none"}},
            "fallback": {**one, "neuron": {"fallback": True, "fast_math": None, "fp32_cast": "matmult-fp16"}},
            "dynamic-batch": {**one, "neuron": {"dynamic_batch": True}},
            PIPELINE: {**one, "core_groups": str(span), "mode": PIPELINE, "neuron": {"pipeline_cores": span}},
            DATA_PARALLEL: {**one, "core_groups": str(cores), "mode": DATA_PARALLEL},
        }


def _pipeline_cores(fields: EngineFields, count_weights: Callable[[], int]) -> int:
    """The cores that one graph spreads over.

    Source of the formula: the AWS Neuron SDK's page on the NeuronCore pipeline.
    """
    if fields.mode != PIPELINE:
        return 1
    (group, *_) = parse_core_groups(fields.core_groups or "1")
    asked = fields.options.pipeline_cores
    if asked == "auto":
        return max(1, min(group, 4 * round(count_weights() / 2e7)))
    if asked > group:
        raise ValueError(
            f"neuron.pipeline_cores: {asked} is more than a core group has ({group}); lower it, or give larger "
            "core_groups"
        )
    return int(asked)


ENGINE = Neuron()
