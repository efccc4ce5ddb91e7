"""Compiles graphs for Inf2 and Trn1 with torch-neuronx, on any machine.

Source: the AWS Neuron SDK's reference of `torch_neuronx.trace` and of neuronx-cc's command line.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from handlers.worker.values import Shape
from marina.compiler.export import ExportedModel
from marina.compiler.inputs import example_inputs
from marina.compiler.mitigations import MORE_EXACT, SATURATE


def arguments(options: dict[str, Any], mitigations: Sequence[str]) -> list[str]:
    """The arguments of neuronx-cc."""
    cast = "none" if MORE_EXACT in mitigations else options["auto_cast"]
    types = [] if cast == "none" else ["--auto-cast-type", options["auto_cast_type"]]
    saturate = ["--enable-saturate-infinity"] if SATURATE in mitigations else []
    return [
        *("--target", options["target"]),
        *("--model-type", "transformer"),
        *("--auto-cast", cast, *types),
        *("--optlevel", str(options["optlevel"])),
        *saturate,
        *options["compiler_args"],
    ]


def trace(
    model: ExportedModel, shape: Shape, options: dict[str, Any], mitigations: Sequence[str], workdir: Path
) -> tuple[Any, dict[str, Any]]:
    """Compile one shape, without a Neuron device; returns the traced module, and nothing more to record."""
    import torch_neuronx

    traced = torch_neuronx.trace(
        model.module,
        example_inputs(model, shape),
        compiler_workdir=str(workdir),
        compiler_args=arguments(options, mitigations),
        inline_weights_to_neff=options["inline_weights"],
        cpu_backend=True,
    )
    if options["dynamic_batch"]:
        traced = torch_neuronx.dynamic_batch(traced)
    if options["lazy_load"]:
        torch_neuronx.lazy_load(traced)
    if options["async_load"]:
        torch_neuronx.async_load(traced)
    return traced, {}
