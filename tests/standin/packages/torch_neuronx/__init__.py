"""A stand-in for torch-neuronx: the arguments and types that AWS documents, and no others.

Sources: the SDK's reference of torch-neuronx for inference, neuronx-cc's command-line reference and its error codes
EARG001 and EARG002. Unlike an older torch-neuronx, which warns, it refuses unknown arguments of `trace`.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import warnings
from pathlib import Path
from typing import Any

import neuron_standin
import torch
from neuron_standin import arguments, data_parallel

subprocess.run(["libneuronpjrt-path"], check=True, stdout=subprocess.DEVNULL)
# the SDK asks for the platform when it is imported (optimum-neuron's pull request 961)
if "NEURON_STANDIN" not in os.environ and "NEURON_PLATFORM_TARGET_OVERRIDE" not in os.environ:
    raise RuntimeError("Unsupported Platform - no Neuron device, and NEURON_PLATFORM_TARGET_OVERRIDE is not set")

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
    header = _read(compiler_args or [])
    if cpu_backend and header["target"] is None:
        raise RuntimeError("cpu_backend=True needs --target in compiler_args")
    if not cpu_backend:
        neuron_standin.RUNTIME.claim()
    inner, inputs = neuron_standin.trace_on_cpu(func, example_inputs)
    neuron_standin.compiler("neuronx-cc", "neuronx-cc compiler binary does not exist")
    if compiler_workdir:
        (Path(compiler_workdir) / "model.log").write_text(" ".join(header["arguments"]))
    header["separate_weights"] = not inline_weights_to_neff
    return neuron_standin.compile_graph(inner, inputs, header)


def _read(given: list[str] | str) -> dict[str, Any]:
    """The arguments of neuronx-cc, by its command-line reference."""
    found = dict(arguments.split(given, {"-O": "--optlevel", "-lnc": "--logical-nc-config"}))
    found = {{"--lnc": "--logical-nc-config"}.get(name, name): values for name, values in found.items()}
    unknown = [
        name
        for name, values in found.items()
        if not (name in SWITCHES and not values)
        and not (name in VALUES and len(values) == 1 and values[0] in VALUES[name])
    ]
    if unknown:
        raise RuntimeError(
            "[NCC_EARG002] Illegal argument(s) - the following argument(s) are unrecognized: "
            + " ".join(part for name in unknown for part in (name, *found[name]))
        )
    target = found.get("--target", [None])[0]
    if found.get("--logical-nc-config") == ["2"] and target != "trn2":
        raise RuntimeError(f"[NCC_EARG001] {target}: only lnc=1 is supported")
    casts = {"none": "none", "matmult": "products", "all": "all"}[found.get("--auto-cast", ["none"])[0]]
    return {
        "arguments": shlex.split(given) if isinstance(given, str) else list(given),
        "target": target,
        "casts": casts,
        # on trn2 the option has no effect
        "saturates": "--enable-saturate-infinity" in found and target != "trn2",
        "exact": casts == "none",
        "pipeline_cores": 1,
        "generation": "inf2",
    }


def analyze(func: Any, example_inputs: Any, compiler_workdir: str | None = None) -> dict[str, Any]:
    assert compiler_workdir is None or Path(compiler_workdir).is_dir()
    inner, _ = neuron_standin.trace_on_cpu(func, example_inputs)
    neuron_standin.compiler("neuronx-cc", "neuronx-cc compiler binary does not exist")
    kinds = [node.kind() for node in inner.inlined_graph.nodes() if node.kind().startswith("aten::")]
    supported = {kind: kinds.count(kind) for kind in kinds}
    return {"support_percentage": "100.00%", "supported_operators": supported, "unsupported_operators": []}


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


def replace_weights(neuron_model: Any, weights: torch.nn.Module | dict[str, torch.Tensor]) -> None:
    if not neuron_standin.header_of(neuron_model)["separate_weights"]:
        warnings.warn("the model has no separated weights", stacklevel=2)
        return
    neuron_standin.set_weights(neuron_model, weights.state_dict() if isinstance(weights, torch.nn.Module) else weights)
    neuron_standin.set_flag(neuron_model, "weights_moved", False)
