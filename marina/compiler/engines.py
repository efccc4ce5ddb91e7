"""What every compiler offers: one file an engine in this folder, each with `open_compiler`."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from handlers.worker.plan import Shape
from handlers.worker.tokenizing import Row
from marina.errors import CompileError

# beside torch, transformers and tokenizers
_PRECISION_PACKAGES = {"int8": ("nncf",)}
_PACKAGES = {"openvino": ("openvino",), "torchscript": ("safetensors",)}


class GraphPaths(NamedTuple):
    """The files that a compiler wrote for one graph; several graphs may name the same weights."""

    graph: Path
    weights: Path | None


class Compiler(Protocol):
    """A model prepared for one engine."""

    def compile(self, shape: Shape, precision: str, folder: Path) -> GraphPaths:
        """Write the graph of one shape under `folder`, its code under `folder/graphs`."""


def open_compiler(engine: str, model: Any, calibration: Sequence[Row]) -> Compiler:
    """Prepare an `ExportedModel` for an engine.

    Args:
        engine: its name.
        model: what to compile.
        calibration: rows like those that will be served, for int8.

    Raises:
        CompileError: the engine's packages are not installed, or it cannot take the model.
    """
    try:
        compiler: Compiler = import_module(f"marina.compiler.{engine}").open_compiler(model, calibration)
    except ImportError as error:
        raise CompileError(f"the engine {engine!r} needs a package that is not installed: {error}") from None
    except Exception as error:
        raise CompileError(f"the engine {engine!r} cannot take the model: {_first_line(error)}") from error
    return compiler


def package_versions(engine: str, precisions: Sequence[str]) -> dict[str, str]:
    """The versions of the packages that decide what a graph computes, without importing them."""
    own = [name for precision in precisions for name in _PRECISION_PACKAGES.get(precision, ())]
    names = ["torch", "transformers", "tokenizers", *_PACKAGES[engine], *own]
    versions = {}
    for name in names:
        try:
            versions[name] = version(name)
        except PackageNotFoundError:
            raise CompileError(f"the package {name} is not installed; run make setup") from None
    return versions


def example_inputs(model: Any, shape: Shape) -> tuple[Any, ...]:
    """Tensors to trace with: tokens everywhere, and padding at the end of every row."""
    import torch

    ids = torch.full(tuple(shape), 3, dtype=torch.int64)
    mask = torch.ones_like(ids)
    mask[:, shape.sequence_length // 2 + 1 :] = 0
    tensors = {"input_ids": ids, "attention_mask": mask, "token_type_ids": torch.zeros_like(ids)}
    return tuple(tensors[name] for name in model.inputs)


def _first_line(error: Exception) -> str:
    return str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
