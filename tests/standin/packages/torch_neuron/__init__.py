"""A stand-in for torch-neuron: the arguments and types that AWS documents, and no others.

Sources: api-compilation-python-api.rst and torch-core-placement.rst of the SDK's archive, neuron-cc's command-line
reference, and the messages that issues of aws-neuron-sdk show.
"""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import neuron_standin
import torch
from neuron_standin import arguments, data_parallel

CASTS = ("all", "all-fp16", "matmult", "matmult-bf16", "matmult-fp16")
WORDS = ("all", "none", "fast-relayout", "no-fast-relayout", *(f"fp32-cast-{cast}" for cast in CASTS))
SWITCHES = ("--enable-fast-loading-neuron-binaries", "--enable-fast-context-switch", "--enable-saturate-infinity")
MISSING = (
    "Please check that neuron-cc is installed and working properly. You can install neuron-cc using "
    "'python3 -m pip install neuron-cc[tensorflow] -U --extra-index-url=https://pip.repos.neuron.amazonaws.com'"
)
NOTHING = "No operations were successfully partitioned and compiled to neuron for this model - aborting trace!"
TYPES: dict[str, Any] = {
    "compiler_args": (list, str),
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
    "verbose": (int, str),
}


def trace(model: Any, example_inputs: Any, **kwargs: Any) -> Any:
    for name, value in kwargs.items():
        if name not in TYPES:
            raise TypeError(f"trace() got an unexpected keyword argument {name!r}")
        if not isinstance(value, TYPES[name]):
            raise TypeError(f"{name} must not be {type(value).__name__}")
    inner, inputs = neuron_standin.trace_on_cpu(model, example_inputs)
    header = _read(kwargs.get("compiler_args", []))
    neuron_standin.compiler("neuron-cc", MISSING)
    if "compiler_workdir" in kwargs:
        (Path(kwargs["compiler_workdir"]) / "graph_def.log").write_text(" ".join(header["arguments"]))
    fallback = kwargs.get("fallback", True)
    on_cpu = _not_compiled(inner, fallback)
    if on_cpu and not fallback:
        raise AttributeError(f"neuron-cc does not support {', '.join(on_cpu)}")
    if header["pipeline_cores"] > int(os.environ.get("NEURON_STANDIN_PIPELINE", "16")):
        cores = header["pipeline_cores"]
        print(f"The requested number of neuroncore-pipeline-cores ({cores}) may not be suitable for this network")
        raise RuntimeError(NOTHING)
    if kwargs.get("dynamic_batch_size") and on_cpu:
        raise RuntimeError("Inconsistent batch sizes found on inputs")
    header["separate_weights"] = kwargs.get("separate_weights", False)
    traced = neuron_standin.compile_graph(inner, inputs, header, on_cpu=sum(on_cpu.values()))
    if kwargs.get("dynamic_batch_size"):
        neuron_standin.set_flag(traced, "dynamic_batch", True)
    return traced


def _not_compiled(inner: Any, fallback: bool) -> dict[str, int]:
    """The operators that are left to the CPU.

    fallback=False forces embeddings onto the core (AWS in #681).
    """
    # imported for tracing only, as a worker may not have the package
    from marina.engines.neuroncores.inf1_operators import doubtful, operators_of

    found: Counter[str] = operators_of(inner)
    lacking = os.environ.get("NEURON_STANDIN_LACKS", "")
    missing = {**doubtful(found), **{name: count for name, count in found.items() if name == lacking}}
    return {name: count for name, count in missing.items() if fallback or name != "aten::embedding"}


def _read(given: list[str] | str) -> dict[str, Any]:
    """The arguments of neuron-cc, by its command-line reference."""
    math, cast, cores, names = ["all"], None, 1, []
    for name, values in arguments.split(given):
        names.append(name)
        if name == "--fast-math" and values and all(value in WORDS for value in " ".join(values).split()):
            math = " ".join(values).split()
        elif name == "--fp32-cast" and len(values) == 1 and values[0] in CASTS:
            cast = values[0]
        elif name == "--neuroncore-pipeline-cores" and len(values) == 1 and values[0].isdecimal():
            cores = int(values[0])
        elif not (name in SWITCHES and not values) and name != "--verbose":
            raise RuntimeError(f"neuron-cc: error: unrecognized arguments: {name} {' '.join(values)}")
    first = f"fp32-cast-{cast}" if cast else math[0]
    return {
        "arguments": given.split() if isinstance(given, str) else given,
        "casts": "all" if first.startswith(("all", "fp32-cast-all")) else "products",
        "saturates": "--enable-saturate-infinity" in names,
        "exact": first == "none",
        "pipeline_cores": cores,
        "generation": "inf1",
    }


@contextmanager
def _multicore_context() -> Iterator[None]:
    """Loads what is loaded in it onto all cores, as often as they hold it: floor(cores / cores of a model)."""
    if not neuron_standin.RUNTIME.claim():
        raise RuntimeError("Neuron runtime cannot be initialized; cannot determine the number of available NeuronCores")
    neuron_standin.replicating(True)
    try:
        yield
    finally:
        neuron_standin.replicating(False)


experimental = SimpleNamespace(multicore_context=_multicore_context)


class DataParallel(data_parallel.DataParallel):
    def __init__(self, model: Any, device_ids: Any = None, dim: int = 0) -> None:
        super().__init__(model, device_ids, dim, dynamic=True)


torch.neuron = sys.modules[__name__]
