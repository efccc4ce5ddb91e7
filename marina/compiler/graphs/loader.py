"""Loads graphs that were just compiled: in this process, or in another one if cores belong to one process."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

from handlers.worker.artifact import GraphFile
from handlers.worker.engines import Graph, Runtime, Setup, open_runtime
from handlers.worker.placement import group_cores
from handlers.worker.rows.calls import load_graphs, new_inputs
from handlers.worker.rows.timing import time_graphs
from handlers.worker.signature import Signature
from handlers.worker.values import Shape
from marina.compiler.graphs.device import EngineProcess
from marina.compiler.job import CompileJob
from marina.errors import CompileError

BUDGET_S = 0.3  # to time each graph


class LoadedGraph(NamedTuple):
    """A graph, and its shape with the rows of all replicas."""

    graph: Graph
    shape: Shape


class GraphLoader:
    """The runtime of a job's engine, opened when the first graph is loaded.

    Args:
        job: the compilation job.
        signature: the model's signature.
    """

    def __init__(self, job: CompileJob, signature: Signature) -> None:
        self._job = job
        self._signature = signature
        self._runtimes: dict[str, Runtime] = {}

    def load(self, shape: Shape, graph: Path, weights: Path | None, precision: str) -> LoadedGraph:
        """Load the graph of one shape."""
        runtime = self._runtime(precision)
        full_shape = shape._replace(batch_size=shape.batch_size * runtime.replicas)
        (loaded,) = runtime.load(graph, weights, [new_inputs(full_shape, self._signature)])
        return LoadedGraph(loaded, full_shape)

    def time(self, folder: Path, files: Sequence[GraphFile], precision: str) -> dict[Shape, float]:
        """Milliseconds of one call of each graph in a folder, by the shape that it was compiled for."""
        runtime = self._runtime(precision)
        streams = load_graphs(runtime, folder.joinpath, files, self._signature)
        times = time_graphs(streams, self._signature, BUDGET_S * len(files))
        return {shape._replace(batch_size=shape.batch_size // runtime.replicas): time for shape, time in times.items()}

    def close(self) -> None:
        """Release exclusive cores."""
        if "_device" in vars(self):
            self._device.close()

    def _runtime(self, precision: str) -> Runtime:
        spec = self._job.spec
        if self._job.engine.cores.exclusive:
            return self._device
        if precision not in self._runtimes:
            cores = group_cores(spec.core_groups)
            self._runtimes[precision] = open_runtime(spec.engine, Setup(cores, cores, precision))
        return self._runtimes[precision]

    @cached_property
    def _device(self) -> EngineProcess:
        spec = self._job.spec
        precision = self._job.engine.precision(spec.for_engine, ())
        setup = Setup(1, 1, precision, spec.mode, self._job.settings, self._job.versions)
        device = EngineProcess(spec.engine, spec.core_groups, setup, spec.name)
        if device.refusal:
            raise CompileError(
                f"{spec.name}: its graphs cannot be checked: {device.refusal}. They are kept; compile again when cores "
                "are free"
            )
        return device
