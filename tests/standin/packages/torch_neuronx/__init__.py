"""A stand-in for torch-neuronx: the arguments and types that AWS documents, and no others."""

from __future__ import annotations

import shlex
import warnings
from pathlib import Path
from typing import Any

import neuron_standin
import torch
from neuron_standin import data_parallel

VALUES = {
    "--target": ("inf2", "trn1", "trn1n", "trn2"),
    "--model-type": ("generic", "transformer", "unet-inference"),
    "--auto-cast": ("none", "matmult", "all"),
    "--auto-cast-type": ("bf16", "fp16", "tf32", "fp8_e4m3"),
    "--optlevel": ("1", "2", "3"),
    "--logical-nc-config": ("1", "2"),
    "--verbose": ("info", "warning", "error", "critical", "debug"),
}
SWITCHES = (
    *("--enable-saturate-infinity", "--enable-fast-context-switch", "--enable-fast-loading-neuron-binaries"),
    *("--enable-mixed-precision-accumulation", "--disable-mixed-precision-accumulation"),
)


def trace(
    func: Any,
    example_inputs: Any,
    *_: Any,
    input_output_aliases: dict[Any, Any] = {},  # noqa: B006
    compiler_workdir: str | None = None,
    compiler_args: str | list[str] | None = None,
    partitioner_config: Any = None,
    inline_weights_to_neff: bool = True,
    cpu_backend: bool = False,
) -> Any:
    if _:
        warnings.warn("torch_neuronx.trace takes keyword arguments only", stacklevel=2)
    for name, value, kinds in (
        ("input_output_aliases", input_output_aliases, dict),
        ("partitioner_config", partitioner_config, type(None)),
        ("compiler_workdir", compiler_workdir, (str, type(None))),
        ("compiler_args", compiler_args, (str, list, type(None))),
        ("inline_weights_to_neff", inline_weights_to_neff, bool),
        ("cpu_backend", cpu_backend, bool),
    ):
        if not isinstance(value, kinds):
            raise TypeError(f"{name} is of type {type(value).__name__}")
    arguments = shlex.split(compiler_args) if isinstance(compiler_args, str) else list(compiler_args or [])
    header = _read(arguments)
    if cpu_backend and "--target" not in arguments:
        raise RuntimeError("cpu_backend=True needs --target in compiler_args")
    if not cpu_backend:
        neuron_standin.RUNTIME.claim()
    if compiler_workdir:
        (Path(compiler_workdir) / "model.log").write_text(" ".join(arguments))
    header["separate_weights"] = not inline_weights_to_neff
    return neuron_standin.compile_graph(func, example_inputs, header, on_cpu=False)


def _read(arguments: list[str]) -> dict[str, Any]:
    """The arguments of neuronx-cc, by its command-line reference."""
    given, index = {}, 0
    while index < len(arguments):
        name = arguments[index]
        if name in SWITCHES:
            given[name] = ""
        elif name in VALUES and index + 1 < len(arguments) and arguments[index + 1] in VALUES[name]:
            index += 1
            given[name] = arguments[index]
        elif name not in ("-O1", "-O2", "-O3"):
            raise RuntimeError(f"neuronx-cc: error: unrecognized arguments: {' '.join(arguments[index:])}")
        index += 1
    casts = {"none": "none", "matmult": "products", "all": "all"}[given.get("--auto-cast", "none")]
    return {
        "arguments": arguments,
        "casts": casts,
        "saturates": "--enable-saturate-infinity" in given,
        "exact": casts == "none",
        "pipeline_cores": 1,
    }


class DataParallel(data_parallel.DataParallel):
    def __init__(self, model: Any, device_ids: Any = None, dim: int = 0, set_dynamic_batching: bool = True) -> None:
        super().__init__(model, device_ids, dim, set_dynamic_batching)


def dynamic_batch(neuron_script: Any) -> Any:
    neuron_standin.set_flag(neuron_script, "dynamic_batch", True)
    return neuron_script


def lazy_load(trace: Any, enable_lazy_load: bool = True) -> None:
    neuron_standin.set_flag(trace, "lazy_load", enable_lazy_load)


def async_load(trace: Any, enable_async_load: bool = True) -> None:
    neuron_standin.set_flag(trace, "async_load", enable_async_load)


def move_trace_to_device(trace: torch.jit.ScriptModule, device_id: int) -> None:
    if not isinstance(device_id, int) or device_id >= len(neuron_standin.RUNTIME.claim()):
        raise ValueError(f"device_id {device_id} is not one of this process's NeuronCores")
    if not neuron_standin.header_of(trace)["separate_weights"]:
        warnings.warn("the model was traced with its weights inside", stacklevel=2)
    neuron_standin.set_flag(trace, "weights_moved", True)
