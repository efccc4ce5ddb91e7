"""Predicts what compiling a spec would do: all checks and estimates that do not need the weights loaded."""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from pathlib import Path

from handlers.worker.placement.limits import free_memory
from marina.compiler.cache import artifact_key, is_complete
from marina.compiler.graphs.times import read_builds
from marina.compiler.job import CompileJob, prepare_job
from marina.compiler.limits import check_length, check_memory, memory_needed
from marina.project import Project
from marina.spec import Spec

BYTES_PER_WEIGHT = 4  # float32; lower precisions take less
# Compile seconds on 2 cores of an Intel Xeon: a constant, and per million weights a part paid once and a part per
# graph, for one precision or for trials of several. Fitted to 23 and 110 million weights with 2 and 8 graphs.
START_S = 3.0
ONE_PRECISION_S, SEVERAL_PRECISIONS_S = (0.1, 0.055), (0.5, 0.035)


@dataclass(frozen=True)
class Forecast:
    """What would be compiled, and the resources it would need.

    Attributes:
        task: the spec's task.
        architecture: the model's architecture, as its config.json names it.
        tokenizer: its class, and the size of its vocabulary.
        weights: the number of weights in the model's files.
        engine, precisions: the engine that would compile, and the precisions that would be tried.
        shapes: the shapes of the graphs.
        artifact: its folder, and whether it exists already.
        memory_bytes, free_bytes: the memory that compiling needs, and the free memory.
        artifact_bytes: the maximum size of the artifact.
        seconds: the estimated compile time; None if the engine's compiler takes minutes per graph and has not run here.
    """

    task: str
    architecture: str
    tokenizer: str
    weights: int
    engine: str
    precisions: tuple[str, ...]
    shapes: tuple[str, ...]
    artifact: Path
    compiled: bool
    memory_bytes: int
    free_bytes: float
    artifact_bytes: int
    seconds: float | None


def forecast(spec: Spec, project: Project) -> Forecast:
    """Check a spec, its source and its tokenizer, and predict what compiling it would do.

    Raises:
        SpecError, SourceError, CompileError: in the same cases as compiling.
    """
    job = prepare_job(spec, project.root)
    description = job.source.describe()
    check_length(job, description.positions)
    folder = project.artifacts / spec.name / artifact_key(job)
    compiled = is_complete(folder)
    weights = job.source.count_weights()
    if not compiled:
        check_memory(job, weights)
    return Forecast(
        task=spec.task,
        architecture=description.architecture,
        tokenizer=description.tokenizer,
        weights=weights,
        engine=spec.engine,
        precisions=job.candidates,
        shapes=tuple(map(str, job.shapes)),
        artifact=folder,
        compiled=compiled,
        memory_bytes=memory_needed(weights),
        free_bytes=free_memory(),
        artifact_bytes=BYTES_PER_WEIGHT * weights,
        seconds=_seconds(job, weights, folder.parent.parent),
    )


def _seconds(job: CompileJob, weights: int, artifacts: Path) -> float | None:
    """The compile time, estimated from earlier runs on this machine; None if there is no basis for an estimate."""
    builds = read_builds(artifacts, job.spec.engine)
    if job.engine.compiles_apart:
        graph_seconds = [seconds for build in builds for seconds in build["seconds"].values()]
        return statistics.median(graph_seconds) * len(job.shapes) if graph_seconds else None
    estimate = typical_seconds(weights, len(job.shapes), len(job.candidates) > 1)
    measured_ratios = [
        build["build"]["seconds"]
        / typical_seconds(build["build"]["weights"], len(build["seconds"]), len(build["precisions"]) > 1)
        for build in builds
    ]
    return estimate * (statistics.median(measured_ratios) if measured_ratios else 1.0)


def typical_seconds(weights: int, graphs: int, several_precisions: bool) -> float:
    """The compile time of `graphs` graphs on the machine of the constants above.

    `several_precisions` says whether several precisions are tried.
    """
    fixed_s, graph_s = SEVERAL_PRECISIONS_S if several_precisions else ONE_PRECISION_S
    return START_S + weights / 1e6 * (fixed_s + graph_s * graphs)
