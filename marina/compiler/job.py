"""A job: a spec whose references are all resolved, but with nothing loaded yet."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from handlers.worker.values import Shape
from marina.compiler.examples import Examples, read_examples
from marina.compiler.source import count_weights, find_source, fingerprint
from marina.compiler.source.scripted import count_scripted_weights, scripted_files, scripted_fingerprint
from marina.engines import engine_of
from marina.engines.base import Engine
from marina.errors import SourceError, SpecError
from marina.spec import Spec


@dataclass(frozen=True)
class Job:
    """The inputs of one compilation.

    Attributes:
        spec: the model's spec.
        source: the folder of the model's files, from `source_of`.
        weights: fingerprint of the model's files.
        examples: texts to check graphs on.
        versions: versions of the packages that compile.
        settings: settings for the engine's compiler; see `Engine.settings`.
        runs: whether graphs of the engine can be run here.
    """

    spec: Spec
    source: Path
    weights: str
    examples: Examples
    versions: dict[str, str]
    settings: dict[str, Any]
    runs: bool

    @property
    def engine(self) -> Engine:
        """The engine that compiles."""
        return engine_of(self.spec.engine)

    @property
    def weight_count(self) -> int:
        """The number of the model's weights."""
        return weights_of(self.spec, self.source)

    @property
    def shapes(self) -> tuple[Shape, ...]:
        """The shapes to compile."""
        return self.spec.shapes.listed()

    @property
    def candidates(self) -> tuple[str, ...]:
        """The precisions to try, according to the spec, smallest first."""
        return self.engine.candidates(self.spec.for_engine, bool(self.examples.calibration))


def prepare_job(spec: Spec, root: Path) -> Job:
    """Resolve everything that a spec refers to.

    Raises:
        SourceError, SpecError, CompileError: the weights, the examples or a package is missing.
    """
    source = source_of(spec, root)
    engine, examples = engine_of(spec.engine), read_examples(spec, root)
    versions = engine.package_versions(engine.candidates(spec.for_engine, bool(examples.calibration)))
    settings = engine_settings(spec, source)
    runs = engine.runs_here(spec.core_groups)
    return Job(spec, source, fingerprint_of(spec, source), examples, versions, settings, runs)


def source_of(spec: Spec, root: Path) -> Path:
    """The folder of the model's files: of a TorchScript source, the project's; SourceError if they are missing."""
    if spec.source.torchscript:
        scripted_files(spec, root)
        return root
    try:
        return find_source(spec.source, root)
    except SourceError as error:
        raise SourceError(f"{spec.name}: {error}") from None


def fingerprint_of(spec: Spec, source: Path) -> str:
    """sha256 over the files of a spec's model, which are in `source_of`."""
    return scripted_fingerprint(scripted_files(spec, source)) if spec.source.torchscript else fingerprint(source)


def weights_of(spec: Spec, source: Path) -> int:
    """The number of weights of a spec's model, whose files are in `source_of`."""
    if spec.source.torchscript:
        return count_scripted_weights(scripted_files(spec, source))
    return count_weights(source)


def engine_settings(spec: Spec, source: Path) -> dict[str, Any]:
    """The settings of the compiler of a spec's engine; SpecError if the spec's values are impossible."""
    try:
        return engine_of(spec.engine).settings(spec.for_engine, lambda: weights_of(spec, source))
    except ValueError as error:
        raise SpecError(f"models/{spec.name}.yaml: {error}") from None
