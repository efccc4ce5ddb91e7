"""Compiles graphs for Inf1 with torch-neuron.

Source: the AWS Neuron SDK's reference of `torch_neuron.trace` and of neuron-cc's command line.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from handlers.worker.values import Shape
from marina.compiler.export import ExportedModel
from marina.compiler.inputs import example_inputs
from marina.compiler.mitigations import MORE_EXACT, SATURATE
from marina.compiler.tracing import count_operators


def arguments(options: dict[str, Any], mitigations: Sequence[str]) -> list[str]:
    """The arguments of neuron-cc."""
    if MORE_EXACT in mitigations:
        cast = ["--fast-math", "none"]
    elif options["fp32_cast"]:
        cast = ["--fp32-cast", options["fp32_cast"]]
    else:
        cast = ["--fast-math", *options["fast_math"].split()]
    saturate = ["--enable-saturate-infinity"] if SATURATE in mitigations else []
    return [*cast, "--neuroncore-pipeline-cores", str(options["pipeline_cores"]), *saturate, *options["compiler_args"]]


def trace(
    model: ExportedModel, shape: Shape, options: dict[str, Any], mitigations: Sequence[str], workdir: Path
) -> tuple[Any, dict[str, Any]]:
    """Compile one shape.

    Returns:
        The traced module, and the share of its operators that run on the CPU.
    """
    import torch
    import torch_neuron

    inputs = example_inputs(model, shape)
    dynamic = {"dynamic_batch_size": True} if options["dynamic_batch"] else {}
    traced = torch_neuron.trace(
        model.module,
        inputs,
        compiler_args=arguments(options, mitigations),
        compiler_workdir=str(workdir),
        fallback=options["fallback"],
        **dynamic,
    )
    share = 0.0
    if options["fallback"]:
        whole = count_operators(torch.jit.trace(model.module, inputs, check_trace=False))
        share = round(min(1.0, count_operators(traced) / whole), 4)
    return traced, {"cpu_share": share}
