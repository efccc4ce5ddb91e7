"""The engine torchscript: compiles graphs for CPUs, one trace per shape, with one shared file of weights."""

from __future__ import annotations

import json
import re
import warnings
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from handlers.worker.engines.torchscript import ALIASES
from handlers.worker.values import Row, Shape
from marina.engines.base import Engine
from marina.engines.model import ExportedModel, example_inputs
from marina.engines.values import CompileOptions, GraphFiles
from marina.files import replacing

WEIGHTS_FILE = "weights.safetensors"
_MANGLED = re.compile(rb"___torch_mangle_(\d+)")


class _Compiler:
    """The model, traced again for each shape."""

    def __init__(self, model: ExportedModel) -> None:
        self._model = model

    def compile(self, shape: Shape, options: CompileOptions, folder: Path) -> GraphFiles:
        import torch

        inputs = example_inputs(self._model, shape)
        with torch.no_grad(), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # tracer warnings: parity decides whether the trace holds
            _forget_traces()
            traced = torch.jit.trace(self._model.module_for(shape), inputs, check_trace=False)
            graph = folder / "graphs" / f"{shape}.pt"
            weights = folder / WEIGHTS_FILE
            slots = dict([*traced.named_parameters(), *traced.named_buffers()])
            if not weights.exists():
                _save_weights(_tensors(self._model), weights)
            _save_code(traced, slots, graph)
        return GraphFiles(graph, weights)


def _forget_traces() -> None:
    """Clear the process's registry of TorchScript classes, so that names do not depend on earlier traces.

    PyTorch's own tests reset it in the same way
    (torch.testing._internal.jit_utils.clear_class_registry).
    """
    import torch
    from torch.jit import _recursive, _state

    torch._C._jit_clear_class_registry()
    _recursive.concrete_type_store = _recursive.ConcreteTypeStore()
    _state._clear_class_state()


def _tensors(model: ExportedModel) -> dict[str, Any]:
    """Parameters and buffers by the names that they have in graphs; those of packed graphs are the same tensors."""
    tensors = {}
    for root in (model.module, model.packed):
        for prefix, module in root.named_modules(remove_duplicate=False) if root else ():
            for name, tensor in (*module._parameters.items(), *module._buffers.items()):
                if tensor is not None:
                    tensors[f"{prefix}.{name}" if prefix else name] = tensor.data
    return tensors


def _save_weights(tensors: dict[str, Any], path: Path) -> None:
    """Write every distinct tensor once; tied weights are recorded as aliases."""
    from safetensors.torch import save_file

    stored: dict[tuple[int, tuple[int, ...]], str] = {}
    aliases: dict[str, str] = {}
    for name, tensor in sorted(tensors.items()):
        first = stored.setdefault((tensor.data_ptr(), tuple(tensor.shape)), name)
        if first != name:
            aliases[name] = first
    with replacing(path) as partial:
        save_file(
            {name: tensors[name].contiguous().clone() for name in stored.values()},
            str(partial),
            metadata={ALIASES: json.dumps(aliases, sort_keys=True)},
        )


def _save_code(traced: Any, slots: dict[str, Any], path: Path) -> None:
    """Save a traced module without its weights, which it shares with the model that it was traced from."""
    import torch

    weights = {name: slot.data for name, slot in slots.items()}
    try:
        for slot in slots.values():
            slot.data = torch.empty(0, dtype=slot.dtype)
        torch.jit.save(traced, str(path))
    finally:
        for name, slot in slots.items():
            slot.data = weights[name]
    _make_reproducible(path)


def _make_reproducible(path: Path) -> None:
    """Rewrite a TorchScript file so that its contents depend only on the graph.

    Debug records, which contain paths of this machine, are removed. Class names contain a counter that runs
    for the life of the process; they are renumbered from 0 in the same order.
    """
    with zipfile.ZipFile(path) as original:
        entries = {
            entry.filename: original.read(entry)
            for entry in original.infolist()
            if not entry.filename.endswith((".debug_pkl", "/.data/serialization_id"))
        }
    class_numbers = {int(number) for content in entries.values() for number in _MANGLED.findall(content)}
    new_numbers = {
        str(old_number).encode(): str(new_number).encode()
        for new_number, old_number in enumerate(sorted(class_numbers))
    }

    def renumbered(content: bytes) -> bytes:
        return _MANGLED.sub(lambda match: b"___torch_mangle_" + new_numbers[match[1]], content)

    with replacing(path) as reduced, zipfile.ZipFile(reduced, "w", zipfile.ZIP_STORED) as file:
        for name, content in entries.items():
            file.writestr(zipfile.ZipInfo(renumbered(name.encode()).decode()), renumbered(content))


class Torchscript(Engine):
    """TorchScript on the CPU, in f32."""

    name = "torchscript"
    packages = ("safetensors",)
    serving_packages = ("safetensors",)
    portable = True

    def open_compiler(self, model: ExportedModel, _: Mapping[str, Any], __: Sequence[Row], ___: Path) -> _Compiler:
        return _Compiler(model)


ENGINE = Torchscript()
