"""A stand-in for torch-neuron: the arguments and types that AWS documents, and no others."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import neuron_standin
import torch
from neuron_standin import data_parallel

CASTS = ("all", "all-fp16", "matmult", "matmult-bf16", "matmult-fp16")
WORDS = ("all", "none", "fast-relayout", "no-fast-relayout", *(f"fp32-cast-{cast}" for cast in CASTS))
SWITCHES = ("--enable-fast-loading-neuron-binaries", "--enable-fast-context-switch", "--enable-saturate-infinity")


def trace(model: Any, example_inputs: Any, **kwargs: Any) -> Any:
    types = {
        "compiler_args": list,
        "compiler_timeout": int,
        "compiler_workdir": str,
        "subgraph_builder_function": object,
        "minimum_segment_size": int,
        "single_fusion_ratio_threshold": float,
        "fallback": bool,
        "dynamic_batch_size": bool,
        "optimizations": list,
        "separate_weights": bool,
        "strict": bool,
    }
    for name, value in kwargs.items():
        if name not in types:
            raise TypeError(f"trace() got an unexpected keyword argument {name!r}")
        if not isinstance(value, types[name]):
            raise TypeError(f"{name} must be {types[name].__name__}, not {type(value).__name__}")
    header = _read(kwargs.get("compiler_args", []))
    if "compiler_workdir" in kwargs:
        (Path(kwargs["compiler_workdir"]) / "graph_def.log").write_text(" ".join(header["arguments"]))
    lacking = os.environ.get("NEURON_STANDIN_LACKS")
    fallback = kwargs.get("fallback", True)
    if lacking and not fallback:
        raise AttributeError(f"neuron-cc does not support {lacking}")
    traced = neuron_standin.compile_graph(model, example_inputs, header, on_cpu=bool(lacking))
    if kwargs.get("dynamic_batch_size"):
        neuron_standin.set_flag(traced, "dynamic_batch", True)
    return traced


def _read(arguments: list[str]) -> dict[str, Any]:
    """The arguments of neuron-cc, by its command-line reference."""
    math, cast, cores, index = ["all"], None, 1, 0
    while index < len(arguments):
        name = arguments[index]
        index += 1
        values = []
        while index < len(arguments) and not arguments[index].startswith("--"):
            values.append(arguments[index])
            index += 1
        if name == "--fast-math" and values and all(value in WORDS for value in values):
            math = values
        elif name == "--fp32-cast" and len(values) == 1 and values[0] in CASTS:
            cast = values[0]
        elif name == "--neuroncore-pipeline-cores" and len(values) == 1 and values[0].isdecimal():
            cores = int(values[0])
        elif not (name in SWITCHES and not values) and name != "--verbose":
            raise RuntimeError(f"neuron-cc: error: unrecognized arguments: {name} {' '.join(values)}")
    first = f"fp32-cast-{cast}" if cast else math[0]
    return {
        "arguments": arguments,
        "casts": "all" if first.startswith(("all", "fp32-cast-all")) else "products",
        "saturates": "--enable-saturate-infinity" in arguments,
        "exact": first == "none",
        "pipeline_cores": cores,
    }


class DataParallel(data_parallel.DataParallel):
    def __init__(self, model: Any, device_ids: Any = None, dim: int = 0) -> None:
        super().__init__(model, device_ids, dim, dynamic=True)


torch.neuron = sys.modules[__name__]
