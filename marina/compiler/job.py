"""A job: a spec whose references are all resolved, but with nothing loaded yet."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from handlers.worker.values import Shape
from marina.compiler.examples import Examples, read_examples
from marina.compiler.ranges import Ranges, read_ranges
from marina.compiler.sources import open_source
from marina.compiler.sources.base import ModelSource
from marina.engines import engine_of
from marina.engines.base import Engine
from marina.errors import SpecError
from marina.spec import Spec


@dataclass(frozen=True)
class CompileJob:
    """The inputs of one compilation.

    Attributes:
        spec: the model's spec.
        source: the model's files.
        weights: fingerprint of the model's files.
        examples: texts to check graphs on.
        ranges: the ranges of embeddings, for int8; empty if they are not known.
        versions: versions of the packages that compile.
        settings: settings for the engine's compiler; see `Engine.settings`.
        runs: whether graphs of the engine can be run here.
    """

    spec: Spec
    source: ModelSource
    weights: str
    examples: Examples
    ranges: Ranges
    versions: dict[str, str]
    settings: dict[str, Any]
    runs: bool

    @property
    def engine(self) -> Engine:
        """The engine that compiles."""
        return engine_of(self.spec.engine)

    @property
    def shapes(self) -> tuple[Shape, ...]:
        """The shapes to compile."""
        return self.spec.shapes.listed()

    @property
    def candidates(self) -> tuple[str, ...]:
        """The precisions to try, according to the spec, smallest first."""
        return self.engine.candidates(self.spec.for_engine, bool(self.examples.calibration))


def prepare_job(spec: Spec, root: Path) -> CompileJob:
    """Resolve everything that a spec refers to.

    Raises:
        SourceError, SpecError, CompileError: the weights, the examples or a package is missing.
    """
    source = open_source(spec, root)
    engine, examples, ranges = engine_of(spec.engine), read_examples(spec, root), read_ranges(spec, root)
    versions = engine.package_versions(engine.candidates(spec.for_engine, bool(examples.calibration)))
    settings = engine_settings(spec, source.count_weights)
    runs = engine.runs_here(spec.for_engine)
    return CompileJob(spec, source, source.fingerprint(), examples, ranges, versions, settings, runs)


def engine_settings(spec: Spec, count_weights: Callable[[], int]) -> dict[str, Any]:
    """The settings of the compiler of a spec's engine; SpecError if the spec's values are impossible."""
    try:
        return engine_of(spec.engine).settings(spec.for_engine, count_weights)
    except ValueError as error:
        raise SpecError(f"models/{spec.name}.yaml: {error}") from None
