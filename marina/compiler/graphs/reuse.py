"""Reuses compiled graphs for other models of the same architecture, where an engine keeps weights outside of graphs.

Compiling takes minutes, and a second fine-tune of a model differs in its weights only. `build/graphs` has one file for
each graph that was compiled so, named by a hash of everything that determines it except the weights. The file still has
the weights of the model that it was compiled for; AWS documents no way to take them out.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from handlers.worker.values import Shape
from marina.engines.model import ExportedModel, example_inputs
from marina.engines.values import GraphFiles
from marina.files import replacing

WEIGHTS_FILES = {False: "weights.safetensors", True: "weights-packed.safetensors"}  # by Shape.packed: names differ
_SOURCE_LOCATIONS = re.compile(r" # .*$|, scope: [^\n]*$", re.MULTILINE)  # in the text of a graph


def graph_store(artifact: Path) -> Path:
    """The folder of reusable graphs, given an artifact's folder: build/graphs beside build/artifacts."""
    return artifact.parents[2] / "graphs"


def graph_key(model: ExportedModel, shape: Shape, conditions: Mapping[str, Any]) -> str | None:
    """A hash of a model's computation in one shape, of the names and sizes of its weights, and of the conditions.

    None if PyTorch cannot trace the model; then its graphs are not kept for others.

    Args:
        model: the exported model.
        shape: the shape of the graph.
        conditions: how it is compiled: the engine, its settings, mitigations, and versions, as JSON types.
    """
    import torch

    module = model.module_for(shape)
    digest = hashlib.sha256(json.dumps(conditions, sort_keys=True).encode())
    try:
        with torch.no_grad(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            traced = torch.jit.trace(module, example_inputs(model, shape), check_trace=False)
        graph = traced.inlined_graph
        digest.update(_SOURCE_LOCATIONS.sub("", str(graph)).encode())
        for constant in _constants(graph.nodes()):
            digest.update(_bytes(constant))
        weights = module.state_dict()
        digest.update(
            json.dumps({name: [list(weight.shape), str(weight.dtype)] for name, weight in weights.items()}).encode()
        )
        for name, buffer in module.named_buffers():  # buffers that are not saved with the weights follow from code
            if name not in weights:
                digest.update(name.encode() + _bytes(buffer))
    except Exception:  # the model's own code may raise any
        return None
    return digest.hexdigest()[:24]


def store_graph(graph: Path, stored: Path) -> None:
    """Keep a compiled graph for other models, as another name of the same file where the disk allows that."""
    stored.parent.mkdir(parents=True, exist_ok=True)
    with replacing(stored, several=True) as partial:
        try:
            os.link(graph, partial)
        except OSError:
            shutil.copyfile(graph, partial)


def reuse_graph(stored: Path, model: ExportedModel, shape: Shape, folder: Path) -> GraphFiles:
    """Put a graph that was compiled for another model into an artifact's folder, and this model's weights beside it."""
    graph = folder / "graphs" / f"{shape}.pt"
    store_graph(stored, graph)
    return GraphFiles(
        graph, _write_weights(model.module_for(shape), folder / WEIGHTS_FILES[shape.packed]), {"reused": stored.stem}
    )


def _write_weights(module: Any, path: Path) -> Path:
    from safetensors.torch import save_file

    if not path.exists():
        weights = {name: tensor.contiguous().clone() for name, tensor in module.state_dict().items()}
        with replacing(path, several=True) as partial:
            save_file(weights, str(partial))
    return path


def _bytes(tensor: Any) -> bytes:
    import torch

    content: bytes = tensor.detach().contiguous().flatten().view(torch.uint8).numpy().tobytes()
    return content


def _constants(nodes: Any) -> Iterator[Any]:
    """The tensors that a graph holds as constants; its text does not show their numbers."""
    for node in nodes:
        if node.kind() == "prim::Constant" and "value" in node.attributeNames() and node.kindOf("value") == "t":
            yield node.t("value")
        for block in node.blocks():
            yield from _constants(block.nodes())
