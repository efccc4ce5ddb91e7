"""Loads graphs that were just compiled: in this process, or in another one if cores belong to one process."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

import psutil

from handlers.worker.archive.artifact import GraphFile
from handlers.worker.archive.signature import Signature
from handlers.worker.engines import Graph, Runtime, Setup, open_runtime
from handlers.worker.placement import group_cores
from handlers.worker.rows.calls import Graphs, load_graphs, new_inputs
from handlers.worker.rows.timing import time_graphs
from handlers.worker.values import Shape
from marina.compiler.graphs.device import EngineProcess
from marina.compiler.job import CompileJob
from marina.compiler.record import MeasuredGraphs
from marina.errors import CompileError

BUDGET_S = 0.3  # to time each graph


class LoadedGraph(NamedTuple):
    """A graph, and its shape with the rows of all replicas."""

    graph: Graph
    shape: Shape


class LoadedGraphs(NamedTuple):
    """The graphs of an artifact, loaded together.

    Attributes:
        streams: from `load_graphs`.
        replicas: of the runtime.
        megabytes: memory that they take; 0 if another process loaded them.
    """

    streams: list[Graphs]
    replicas: int
    megabytes: float

    def of(self, shape: Shape) -> LoadedGraph:
        """The graph that was compiled for a shape."""
        full_shape = shape._replace(batch_size=shape.batch_size * self.replicas)
        return LoadedGraph(self.streams[0][full_shape], full_shape)


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
        self._loaded: tuple[object, LoadedGraphs] | None = None  # the newest of `load_all`, and what it was loaded from

    def load(self, shape: Shape, graph: Path, weights: Path | None, precision: str) -> LoadedGraph:
        """Load the graph of one shape."""
        runtime = self._runtime(precision)
        full_shape = shape._replace(batch_size=shape.batch_size * runtime.replicas)
        (loaded,) = runtime.load(graph, weights, [new_inputs(full_shape, self._signature)])
        return LoadedGraph(loaded, full_shape)

    def load_all(self, folder: Path, files: Sequence[GraphFile], precision: str) -> LoadedGraphs:
        """Load the graphs in a folder together, as workers do. As long as they stay the same, they are loaded once."""
        runtime = self._runtime(precision)
        state = precision, [(file.graph, folder.joinpath(file.graph).stat().st_mtime_ns) for file in files]
        if self._loaded is None or self._loaded[0] != state:
            self._loaded = None  # memory has no room for both
            bytes_before = _unique_bytes()
            streams = load_graphs(runtime, folder.joinpath, files, self._signature)
            megabytes = 0.0 if self._job.engine.cores.exclusive else (_unique_bytes() - bytes_before) / 1e6
            self._loaded = state, LoadedGraphs(streams, runtime.replicas, megabytes)
        return self._loaded[1]

    def measure(self, folder: Path, files: Sequence[GraphFile], precision: str) -> MeasuredGraphs:
        """Time the graphs in a folder."""
        streams, replicas, megabytes = self.load_all(folder, files, precision)
        times = time_graphs(streams, self._signature, BUDGET_S * len(files))
        milliseconds = {shape._replace(batch_size=shape.batch_size // replicas): time for shape, time in times.items()}
        return MeasuredGraphs(milliseconds, megabytes)

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
                f"{spec.name}: its graphs cannot be checked: {device.refusal}. They are kept for when you compile again"
            )
        return device


def _unique_bytes() -> int:
    return int(psutil.Process().memory_full_info().uss)
