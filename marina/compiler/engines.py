"""What every compiler offers: one file an engine in this folder."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from handlers.worker.engines.packages import COMPILERS, RUNTIMES, check_installed
from handlers.worker.errors import ArtifactError
from handlers.worker.placement import NEURON_ENGINES
from handlers.worker.values import Row, Shape
from marina.errors import CompileError

if TYPE_CHECKING:
    from marina.compiler.job import Job

# beside torch, transformers and tokenizers
_PRECISION_PACKAGES = {"int8": ("nncf",)}
_PACKAGES: dict[str, tuple[str, ...]] = {
    "openvino": ("openvino",),
    "torchscript": ("safetensors",),
    **{engine: (RUNTIMES[engine], COMPILERS[engine]) for engine in NEURON_ENGINES},
}


class Recipe(NamedTuple):
    """How a graph is to compute: its precision, and what is done so that its outputs are finite.

    mitigations are those of `marina.compiler.mitigations`, for Neuron engines.
    """

    precision: str
    mitigations: tuple[str, ...] = ()

    def file_name(self, stem: str) -> str:
        """The name of something that was made with it."""
        return "-".join([stem, *self.mitigations])


class GraphPaths(NamedTuple):
    """The files that a compiler wrote for one graph, and what is to be recorded of it.

    Several graphs may name the same weights.
    """

    graph: Path
    weights: Path | None
    notes: Mapping[str, Any] = {}


class Compiler(Protocol):
    """A model prepared for one engine.

    Attributes:
        at_once: how many graphs may be compiled at a time, from threads of their own.
    """

    at_once: int

    def compile(self, shape: Shape, recipe: Recipe, folder: Path) -> GraphPaths:
        """Write the graph of one shape under `folder`, its code under `folder/graphs`."""

    def stop(self) -> None:
        """Give up what is being compiled, from another thread."""


def open_compiler(job: Job, model: Any, calibration: Sequence[Row], workdir: Path) -> Compiler:
    """Prepare an `ExportedModel` for the engine of a job.

    Args:
        job: what is compiled.
        model: loaded.
        calibration: rows like those that will be served, for int8.
        workdir: for what compilers leave behind.

    Raises:
        CompileError: the engine's packages are not installed.
        Exception: whatever the engine raises over a model that it cannot take.
    """
    engine = job.spec.engine
    if engine in NEURON_ENGINES:
        from marina.compiler.tracing import TracingCompiler

        return TracingCompiler(job, workdir)
    try:
        compiler: Compiler = import_module(f"marina.compiler.{engine}").open_compiler(model, calibration)
    except ImportError as error:
        raise CompileError(f"the engine {engine!r} needs a package that is not installed: {error}") from None
    return compiler


def package_versions(engine: str, precisions: Sequence[str]) -> dict[str, str]:
    """The versions of the packages that decide what a graph computes, without importing them."""
    if engine in NEURON_ENGINES:
        try:
            check_installed(engine)
        except ArtifactError as error:
            raise CompileError(str(error)) from None
    own = [name for precision in precisions for name in _PRECISION_PACKAGES.get(precision, ())]
    names = ["torch", "transformers", "tokenizers", *_PACKAGES[engine], *own]
    versions = {}
    for name in names:
        try:
            versions[name] = version(name)
        except PackageNotFoundError:
            raise CompileError(f"the package {name} is not installed; run make setup") from None
    return versions
