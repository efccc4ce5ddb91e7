"""Loads graphs that were just compiled: on the CPU in this process, on NeuronCores in another."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any, NamedTuple

from handlers.worker.artifact import Artifact
from handlers.worker.engines import Engine, Graph, Setup, open_engine
from handlers.worker.placement import NEURON_ENGINES, group_cores
from handlers.worker.rows.calls import load_graphs, new_inputs
from handlers.worker.rows.timing import time_graphs
from handlers.worker.values import Shape
from marina.compiler.device import Device
from marina.compiler.job import Job
from marina.compiler.timing import BUDGET_S
from marina.errors import CompileError


class Loaded(NamedTuple):
    """A graph, and its shape with the rows of all replicas."""

    graph: Graph
    shape: Shape


class Runtime:
    """The engine of a job, opened when a graph is loaded first.

    Args:
        job: what is compiled.
        artifact: what is known of it so far.
    """

    def __init__(self, job: Job, artifact: Artifact) -> None:
        self._job = job
        self._artifact = artifact
        self._engines: dict[str, Engine] = {}

    def load(self, record: Mapping[str, Any], artifact: Artifact) -> Loaded:
        """Load the graph that an entry of `artifact.json` names."""
        engine = self._engine(artifact.precision)
        compiled = Shape.parse(record["shape"])
        shape = Shape(compiled.batch_size * engine.replicas, compiled.sequence_length)
        weights = artifact.folder / record["weights"] if record["weights"] else None
        (graph,) = engine.load(artifact.folder / record["graph"], weights, [new_inputs(shape, artifact)])
        return Loaded(graph, shape)

    def time(self, artifact: Artifact) -> dict[Shape, float]:
        """Milliseconds of one call of each graph of an artifact, by the shape that it was compiled for."""
        engine = self._engine(artifact.precision)
        found = time_graphs(load_graphs(engine, artifact), artifact, BUDGET_S * len(artifact.graphs))
        return {
            Shape(shape.batch_size // engine.replicas, shape.sequence_length): time for shape, time in found.items()
        }

    def close(self) -> None:
        """Give NeuronCores back."""
        if "_device" in vars(self):
            self._device.close()

    def _engine(self, precision: str) -> Engine:
        spec = self._job.spec
        if spec.engine in NEURON_ENGINES:
            return self._device
        if precision not in self._engines:
            cores = group_cores(spec.core_groups)
            setup = Setup(cores, cores, precision)
            self._engines[precision] = open_engine(spec.engine, setup)
        return self._engines[precision]

    @cached_property
    def _device(self) -> Device:
        spec = self._job.spec
        setup = Setup(1, 1, self._artifact.precision, spec.mode, self._job.options, self._job.versions)
        device = Device(spec.engine, spec.core_groups, setup, spec.name)
        if device.refusal:
            raise CompileError(
                f"{spec.name}: its graphs cannot be checked: {device.refusal}. They are kept; compile again when cores "
                "are free"
            )
        return device
